"""Discovery of private groups in one to three rounds, in which every user divides a weight among their groups.

In a round each user gives the weight 1/sqrt(n) to each of their n groups that are not found yet, so a user's weights
have l2 norm 1. A group is found if its sum of weights, plus Gaussian noise, exceeds a threshold. Groups that are found
are public from then on and take no part in later rounds. So their users give more weight to their remaining groups.

The statement and the proof are in docs/discovery.md. All sums are whole numbers: weights are in units of 2^-20.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from setwise.accounting.brackets import float_above
from setwise.accounting.guarantees import ApproxDP, Gaussian, Use
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.known_domain import KnownGaussian
from setwise.mechanisms.labels import Label
from setwise.mechanisms.noise.discrete import LARGEST_NOISE, SMALLEST_NOISE
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.shared_gaussian import float_root_above
from setwise.mechanisms.parameters import binary, positive_integer, probability, rational
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import ErrorEstimate, with_noise
from setwise.mechanisms.unknown_domain import SMALLEST_SHARE, gaussian_margin
from setwise.records import set_fields

WEIGHT_UNIT = 2**20
"""Weights are whole numbers in units of 1 / WEIGHT_UNIT, so a user with one group gives that group this weight."""

USER_UNIT = 2**14
"""A user is counted as USER_UNIT divided among their groups, rounded down, so that groups can be added up."""

MOST_GROUPS = 200
"""The contribution bound of discovery: every user takes part with at most so many of their groups, drawn at random.

Weights make a large bound cheap: the threshold grows by a fifth between a bound of 1 and of 200. A smaller bound would
leave out groups of users who have many.
"""

_SHAPES = (Fraction(1), Fraction(4), Fraction(16))
"""The ratio of the privacy costs (mu squared) of the three Gaussian uses planned for the rounds of a discovery."""

_SURVEY = Fraction(1, 100)
"""The share of the privacy cost of discovery that counts users and their weights, to choose the number of rounds."""

_POPULAR = 0.1
"""A cheap first round is run if the smallest group that it finds has at most this share of all users.

If a first round for a part of the budget could find only groups that are more popular, it would free little weight, so
one round spends the whole budget instead.
"""

_FREED = 0.6
"""A further round is run before the last if the groups found so far held this share of all weight, or more."""

_ENOUGH = 2
"""Counts keep at most this many times the groups that users have on average, where the contribution bound is larger.

A larger bound would widen the noise for the sake of few users.
"""

LEAST_FINDING = Fraction(2, 5)
"""The least share of the privacy cost (mu squared) of a histogram that finds its groups; the rest counts them."""

_FINDING_RATIO = Fraction(5, 2)
"""Finding and counting get shares in the proportion of this number times a user's groups to the contribution bound.

The smallest group that is found has about sqrt(groups per user) / sqrt(cost of finding) users, and the noise of a count
is about sqrt(contribution bound) / sqrt(cost of counting). So this proportion keeps the noise of a count at about a
third of the smallest group. Where users have more groups than are counted, more groups are found; where the bound
exceeds what users have, counts get less noise.
"""

_MOST_DOUBT = 0.5
"""The survey's number of users decides nothing if three deviations of its noise are this share of it, or more."""

_ROOT = Fraction(14143, 10000)
"""A little more than the square root of 2, by which the noise of each of two released numbers is wider."""


def user_weight(groups: int) -> int:
    """Return the weight that a user with `groups` groups gives to each of these groups in a round, in units of 2^-20.

    A round searches private groups: a group is found if the noisy sum of the weights that users give to it exceeds a
    threshold. The weight is floor(2^20 / sqrt(groups)), so that all weights of a user have l2 norm at most 1.

    >>> user_weight(1), user_weight(2), user_weight(4)
    (1048576, 741455, 524288)
    """
    # It is computed as the integer square root of floor(2^40 / groups), which is the same number.
    return math.isqrt(WEIGHT_UNIT**2 // positive_integer("groups", groups))


def user_share(groups: int) -> int:
    """Return floor(2^14 / groups): what a user adds, for each of their `groups` groups, to a sum that counts users.

    So the user adds about 2^14 in total, and the sum is about 2^14 times the number of users. The sum is released with
    noise, in a step called the survey, before private groups are searched.
    """
    return USER_UNIT // positive_integer("groups", groups)


def user_root(groups: int) -> int:
    """Return floor(2^14 / sqrt(groups)): what a user adds, for each of their `groups` groups, to a sum.

    So a user with n groups adds about 2^14 sqrt(n) in total. The sum over all users is released with noise, in a step
    called the survey, before private groups are searched. Divided by the number of users, it shows how many groups
    users have. Square roots are summed, and not the numbers of groups, because one user of many groups then changes the
    sum less, so that it needs less noise.
    """
    # The units are coarser than those of weights, because the noise of the survey is wider and noise can be drawn only
    # up to a largest width.
    return user_weight(groups) * USER_UNIT // WEIGHT_UNIT


_MOST_ROOTS = math.isqrt(USER_UNIT**2 * MOST_GROUPS) + 1
"""The most that one user adds to the sum of `user_root`: sqrt(n) times `USER_UNIT` for n groups, rounded up."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupWeights:
    """The exact sums of one round of the search for groups, as private input of `WeightedRounds`; never released.

    - `weights` has for each group the sum of the weights that its users give to it. A user with n groups gives each of
      them about 1 / sqrt(n), in units of 2^-20 (`user_weight`).
    - `shares` is about the number of users, in units of 2^-14: each user adds 1 / n for each of their n groups
      (`user_share`).
    - `roots` is about the sum of sqrt(n) over all users, in units of 2^-14 (`user_root`).

    `shares` and `roots` are for the survey before the first round, which estimates with noise the numbers of users and
    of groups per user.
    """

    weights: Histogram
    roots: int
    shares: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The state of a search for private groups in rounds: what its rounds have released so far, all of it public.

    In a round, each user divides a weight among their groups not found yet; a group is found if its noisy sum of
    weights exceeds a threshold. A survey, made before the first round, releases the noisy number of users and of their
    groups.

    - `labels` are the groups found.
    - `found` is how many of these groups each round found.
    - `group_users` is for each group the estimated number of its users, from its noisy sum of weights.
    - `uses` is how many Gaussian uses each round spent; three are planned for all rounds together.
    - `users` is the survey's noisy number of users; None before the survey.
    - `groups_per_user` is the survey's estimate of how many groups users have: the square of the average of the square
      root of a user's number of groups. None before the survey.
    - `part` is the fraction of their planned cost (as mu squared, which is 1 / sigma^2 for a Gaussian use) that the
      rounds spend; the remaining cost pays for counting the groups.
    - `freed` is the estimated share of all users' weight that lay on the groups which the last round found. In the next
      round, users give this weight to their other groups.
    """

    # In the next round users give the freed weight to their other groups.

    labels: tuple[Label, ...] = ()
    group_users: tuple[float, ...] = ()
    found: tuple[int, ...] = ()
    uses: tuple[int, ...] = ()
    users: int | None = None
    groups_per_user: float | None = None
    part: Fraction = Fraction(1)
    freed: float = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether the search for groups is over, because its rounds have spent their whole planned budget.

        The budget is three Gaussian uses of rising cost. A round spends one or several of them.
        """
        return sum(self.uses) == len(_SHAPES)

    @property
    def found_per_user(self) -> float:
        """The estimated average, over all users, of how many of a user's groups the search has found.

        It is 0 as long as the number of users is unknown, that is, before the first round.
        """
        return sum(self.group_users) / self.users if self.users else 0.0

    def counted_users(self, contributions: int | None) -> tuple[float | None, ...]:
        """Return, for each found group, an estimate of how many users are counted in it; None where nothing is known.

        `contributions` is the largest number of found groups in which one user is counted; a user with more groups is
        counted in some of them only, chosen at random. None means that users are counted in all their groups. The
        estimates use released numbers only, so they cost nothing.
        """
        if len(self.group_users) != len(self.labels):
            return (None,) * len(self.labels)
        counted = 1.0 if contributions is None else min(1.0, contributions / max(self.found_per_user, 1.0))
        return tuple(users * counted for users in self.group_users)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedRounds:
    """Finds private groups in one to three rounds, whose privacy cost is fixed before the first round.

    In a round, each user divides a weight among their groups not found yet; a group is found if its noisy sum of
    weights exceeds a threshold.

    - `sigma`: the rounds, and the survey before them that estimates the number of users, together cost at most one
      Gaussian use of this parameter, that is, a mu squared of 1 / sigma^2.
    - `delta` bounds the probability that a group of one user alone is shown.
    - `contributions` is the largest number of groups in which one user counts in the statistics that follow.
    - `finding`: noisy counts of the groups may follow the rounds. This is the planned cost of the rounds as a share of
      the whole cost (mu squared) of rounds and counts; the rounds may spend less and leave the rest to the counts. None
      means that no counts follow.

    Theorem: docs/discovery.md, Theorem 1.
    Ensures: survey and rounds together cost Gaussian uses whose mu squared add up to at most 1 / sigma^2, and outright
    failures (events in which everything may be revealed) of probability at most `delta`; `guarantees` lists both.
    """

    # Costs are measured as mu squared, 1 / sigma^2. A survey before the first round estimates the number of users and
    # of their groups, for a hundredth of the cost. The rest is planned as three Gaussian uses, whose mu squared have
    # the ratio 1 : 4 : 16. A round spends either the next of these uses, or all remaining ones; the numbers released so
    # far decide (`_uses_of_next_round`). If counts with Gaussian noise follow, the rounds may leave a part of their mu
    # squared to them (`_part`).

    sigma: Fraction
    delta: Fraction
    contributions: int = 1
    finding: Fraction | None = None

    def __post_init__(self) -> None:
        positive_integer("contributions", self.contributions)
        set_fields(
            self,
            sigma=rational("sigma", self.sigma, SMALLEST_NOISE, LARGEST_NOISE),
            delta=probability("delta", self.delta),
        )
        if self.finding is not None and not LEAST_FINDING <= self.finding < 1:
            raise InvalidParameter(f"finding must be from {LEAST_FINDING} to 1, not {self.finding}")
        least = Fraction(1) if self.finding is None else LEAST_FINDING / self.finding
        widest = max(self.sigmas_for(least)) * WEIGHT_UNIT
        if widest > LARGEST_NOISE or self.survey_sigma * _ROOT * _MOST_ROOTS > LARGEST_NOISE:
            raise InvalidParameter(f"sigma must keep the noise of weights below 10^9 units, not {float(self.sigma):g}")
        if self.delta / (len(_SHAPES) * MOST_GROUPS) < SMALLEST_SHARE:
            raise Unattainable("delta / 600 must be at least 1e-300 for the thresholds of discovery")

    @property
    def survey_sigma(self) -> Fraction:
        """The parameter sigma of the Gaussian use that the survey before the first round costs.

        The survey releases two noisy sums, which estimate the number of users and of their groups. The parameter is the
        noise scale divided by the l2 norm of what one user adds to the survey's sums.
        """
        return float_root_above(self.sigma**2 / _SURVEY)

    @property
    def sigmas(self) -> tuple[Fraction, ...]:
        """The parameters sigma of the three Gaussian uses that are planned for the search, largest sigma first.

        The search finds private groups in up to three rounds, in which it adds Gaussian noise to sums of users'
        weights. A round spends one of the three uses, or all that are left. A sigma is the noise scale divided by the
        l2 norm of one user's weights. The costs of the three uses, as mu squared (1 / sigma^2), have the ratio 1 : 4 :
        16.
        """
        planned_cost = sum(_SHAPES) / (1 - _SURVEY)
        return tuple(float_root_above(self.sigma**2 * planned_cost / shape) for shape in _SHAPES)

    def sigmas_for(self, part: Fraction) -> tuple[Fraction, ...]:
        """Return the sigmas of the three Gaussian uses of a search that spends only a part of its planned cost.

        The search for private groups is planned as three Gaussian uses, whose sigmas are the field `sigmas`; one round
        of the search spends one or more of them. A survey before the first round may decide that the search spends only
        the share `part` (above 0, at most 1) of the mu squared, 1 / sigma^2, of each. The noisy counts of the groups
        get the remaining mu squared. So each sigma is divided by sqrt(`part`), and rounded up.
        """
        return self.sigmas if part == 1 else tuple(float_root_above(sigma * sigma / part) for sigma in self.sigmas)

    def unspent(self, part: Fraction) -> Fraction:
        """Return the mu squared that the search for groups leaves to the noisy counts of the groups found.

        The cost of a Gaussian use is its mu squared, 1 / sigma^2. The search was planned with the uses `sigmas`. It
        spends only the fraction `part` of their mu squared, so the result is about the fraction 1 - `part` of it (the
        sigmas that are drawn are rounded up).
        """
        # The result is the sum of 1 / sigma^2 over the planned `sigmas`, minus the same sum over the larger sigmas of
        # `sigmas_for(part)`.
        pairs = zip(self.sigmas, self.sigmas_for(part), strict=True)
        return sum((1 / (planned * planned) - 1 / (drawn * drawn) for planned, drawn in pairs), Fraction(0))

    @property
    def failures(self) -> tuple[Fraction, ...]:
        """The failure probability of each of the three Gaussian uses planned for the search: a third of `delta`.

        The search finds private groups in rounds (noisy passes over the table), and a round spends one or more of the
        uses. A round fails if it finds a group that only one user has.
        """
        return (binary(self.delta / len(_SHAPES)),) * len(_SHAPES)

    def guarantees(self) -> tuple[Use, ...]:
        """Return the largest privacy cost of a whole search: guarantees and how often each is used.

        A search for private groups begins with a survey, which estimates the number of users. Then it runs rounds, each
        of which finds groups by noisy sums of users' weights. The cost is the same whatever the rounds find, and
        whether or not all rounds are run.
        """
        gaussians = [Use(Gaussian(sigma=float(sigma))) for sigma in (self.survey_sigma, *self.sigmas)]
        failure = Use(ApproxDP(epsilon=0.0, delta=float_above(self.failures[0])), len(_SHAPES))
        return (*gaussians, failure)

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return how many users a private group needs to be found, in the field `detectable` of an `ErrorEstimate`.

        A group with that number of users is found with probability `confidence`. Two things are assumed: each of these
        users has as many groups as may count (`contributions`, or 200 if that is less), so that each gives the group
        only a small part of their weight; and a single round spends the whole privacy cost of the search.
        """
        # A group may need fewer users if users have fewer groups, or if an earlier round finds many of their groups.
        confidence = probability("confidence", confidence)
        sigma, delta = combined_sigma(self.sigmas), sum(self.failures, Fraction(0))
        needed = round_threshold(sigma, delta) + 1 + _noise(sigma).radius(confidence)
        weight = user_weight(min(self.contributions, MOST_GROUPS))
        return ErrorEstimate(confidence=confidence, detectable=math.ceil(Fraction(needed, weight)))

    def run_round(self, before: Discovery, exact: GroupWeights, randomness: Randomness) -> Discovery:
        """Run the next round of the search: draw noise, and return `before` with the groups found added.

        - `before` has the groups and numbers that earlier rounds released.
        - `exact` has the exact sums of users' weights on the groups that are not found yet.

        Before the first round, a survey is made too: it releases the noisy number of users and of their groups.

        Raises: `InvalidParameter` if no round is left, or if `exact` holds a group that was found before.
        """
        if before.is_complete:
            raise InvalidParameter("all rounds of the discovery have been run")
        if not set(before.labels).isdisjoint(exact.weights.labels):
            raise InvalidParameter("a group that was found before takes part in no further round")
        state = before if before.users is not None else self._survey(before, exact, randomness)
        first = sum(state.uses)
        number = self._uses_of_next_round(state)
        sigma = combined_sigma(self.sigmas_for(state.part)[first : first + number])
        threshold = round_threshold(sigma, sum(self.failures[first : first + number], Fraction(0)))
        present = exact.weights.positive()
        noisy = with_noise(present.counts, _noise(sigma), randomness)
        passed = np.flatnonzero(noisy > threshold)
        ranked = sorted((-int(noisy[place]), present.labels[place]) for place in passed)
        weight_of_found = -sum(weight for weight, _ in ranked)
        assert state.groups_per_user is not None
        # A user with n groups that are not found yet adds 1 / sqrt(n) to each of them.
        users_of_weight = math.sqrt(max(1.0, state.groups_per_user - state.found_per_user)) / WEIGHT_UNIT
        return replace(
            state,
            labels=(*state.labels, *(label for _, label in ranked)),
            group_users=(*state.group_users, *(-weight * users_of_weight for weight, _ in ranked)),
            found=(*state.found, len(ranked)),
            uses=(*state.uses, number),
            freed=weight_of_found / self._whole_weight(state),
        )

    def _survey(self, before: Discovery, exact: GroupWeights, randomness: Randomness) -> Discovery:
        """Return `before` with the survey's results: noisy estimates of the numbers of users and of groups per user.

        The survey comes before the first round of the search. It adds Gaussian noise to two sums in `exact`: `shares`,
        about the number of users, and `roots`, about the sum of the square root of each user's number of groups. Both
        are whole numbers in units of 2^-14. The survey also decides which part of their planned cost the rounds will
        spend (`part`).
        """
        # A user with n groups adds at most `USER_UNIT` to the sum of shares, and at most sqrt(n) times that to the sum
        # of roots. Each sum gets Gaussian noise of scale sqrt(2) * `survey_sigma` times the most that one user adds to
        # it. So both together cost one Gaussian use of parameter `survey_sigma`.
        noise = self.survey_sigma * _ROOT
        [shares] = with_noise(np.array([exact.shares]), RoundedGaussianNoise(sigma=noise * USER_UNIT), randomness)
        [roots] = with_noise(np.array([exact.roots]), RoundedGaussianNoise(sigma=noise * _MOST_ROOTS), randomness)
        users = max(1, round(int(shares) / USER_UNIT))
        root = min(max(int(roots) / USER_UNIT / users, 1.0), math.sqrt(MOST_GROUPS))
        surveyed = replace(before, users=users, groups_per_user=root**2)
        return replace(surveyed, part=self._part(surveyed))

    def _part(self, state: Discovery) -> Fraction:
        """Return the share, above 0 and at most 1, of the planned cost of the rounds that the rounds really spend.

        The rounds search for private groups: in each, every user divides a weight among their groups. The share is of
        the mu squared planned for the rounds; the noisy counts of the groups found get the remaining mu squared.

        `state` has the noisy numbers that a survey before the first round released: of users, and of groups per user.
        If users have few groups, each group gets more of a user's weight and is easier to find, so the rounds need a
        smaller share. The share is 1 if no counts follow the rounds, or if the noise of the survey hides the number of
        users.
        """
        # The fraction is 1 if no counts follow, or if there are so few users that the survey's noise hides their
        # number.
        if self.finding is None or state.groups_per_user is None or self._doubt(state) >= _MOST_DOUBT:
            return Fraction(1)
        ratio = _FINDING_RATIO * Fraction(state.groups_per_user) / self.contributions
        share = min(max(ratio / (1 + ratio), LEAST_FINDING), self.finding)
        return min(Fraction(math.ceil(1000 * share / self.finding), 1000), Fraction(1))

    def _doubt(self, state: Discovery) -> float:
        """Return three standard deviations of the noise on the number of users, divided by this noisy number.

        The number, `state.users`, was released by a survey before the first round of the search for groups. The result
        says how uncertain the number is. If it is 0.5 or more, nothing is adapted to the number: the limit on a user's
        groups is not lowered, and no budget is moved from the search to the counts of the groups.
        """
        assert state.users is not None
        return 3.0 * float(self.survey_sigma * _ROOT) / state.users

    def kept_contributions(self, state: Discovery) -> int:
        """Return in how many groups one user counts, at most, when the groups that were found are counted.

        This number is about twice the usual number of groups of a user, and at most the field `contributions`, because
        a smaller number needs less noise. The usual number is an estimate from a noisy survey before the first round,
        in the field `groups_per_user` of `state`; three standard deviations of its noise are added. Without a survey,
        or if its noise hides the number of users, the result is `contributions`.
        """
        # Only released numbers are read.
        if state.users is None or state.groups_per_user is None or (doubt := self._doubt(state)) >= _MOST_DOUBT:
            return self.contributions
        root = (math.sqrt(state.groups_per_user) + doubt * math.sqrt(MOST_GROUPS)) / (1.0 - doubt)
        return min(self.contributions, math.ceil(_ENOUGH * root**2))

    def _whole_weight(self, state: Discovery) -> float:
        """Return an estimate of the weight that all users together give to their groups, in units of 2^-20.

        A user with n groups gives each of them the weight 1 / sqrt(n), so sqrt(n) in all. The caller compares the
        result with the weight of the groups found: if much weight is on other groups, another round pays off. The
        estimate costs no privacy, because it is computed from released numbers in `state`: of users, and of groups per
        user.
        """
        assert state.users is not None
        assert state.groups_per_user is not None
        return WEIGHT_UNIT * state.users * math.sqrt(state.groups_per_user)

    def _uses_of_next_round(self, state: Discovery) -> int:
        """Return how many of the remaining Gaussian uses the next round of the search spends: one use, or all of them.

        With all of them, the round has the least noise, but is the last. One use is spent if a further round is
        expected to find many more groups. In every round, users divide a weight among their groups not found yet. So a
        further round pays off if the groups found so far held much of the weight, which their users can then give to
        other groups.

        `state` has the released numbers of earlier rounds, from which this weight is estimated. Before the first round
        no group is found yet. That round then spends one use if one use is expected to find every group that has at
        least a tenth of all users.
        """
        # A further round pays off only if the groups found so far have much of the users' weight, which users then give
        # to their other groups.
        remaining = len(_SHAPES) - sum(state.uses)
        if state.uses:
            return 1 if state.freed >= _FREED and remaining > 1 else remaining
        assert state.users is not None
        assert state.groups_per_user is not None
        threshold = round_threshold(self.sigmas_for(state.part)[0], self.failures[0]) / WEIGHT_UNIT
        popular = threshold * math.sqrt(state.groups_per_user) / state.users
        return 1 if popular <= _POPULAR else remaining


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredCounts:
    """A mechanism that first finds private groups and then counts the groups found, with Gaussian noise.

    - `rounds` is the mechanism that finds the groups.
    - `contributions` is the largest number of found groups in which one user is counted.
    - `per_item` is the most that a user adds to a group.
    - `sigma`: the noise has standard deviation at most per_item * `sigma`.
    - `keeps_bound`: if False, and if users turn out to have few groups, users are counted in fewer groups than
      `contributions`, because that needs less noise. It is True if `contributions` was chosen by a private search: the
      answer then states which share of the table this number leaves out, so the number must not change.
    """

    # `keeps_bound` is for a bound that a private search found, because the answer states the share of (user, group)
    # pairs that this very bound leaves out.

    rounds: WeightedRounds
    contributions: int
    per_item: int = 1
    sigma: Fraction
    keeps_bound: bool = False

    def __post_init__(self) -> None:
        positive_integer("contributions", self.contributions)
        positive_integer("per_item", self.per_item)
        set_fields(self, sigma=rational("sigma", self.sigma, SMALLEST_NOISE, LARGEST_NOISE))
        RoundedGaussianNoise(sigma=self.sigma * self.per_item)  # refuses noise that is too wide to draw

    def kept_contributions(self, discovery: Discovery) -> int:
        """Return the contribution bound, in groups per user, for counting the groups in `discovery`.

        `discovery` has the groups that a search in rounds found. The bound is the planned one, `contributions`, or a
        smaller one if users have few groups on average (see `WeightedRounds.kept_contributions`), because fewer groups
        need less noise. If `keeps_bound` is True, it is always `contributions`.
        """
        if self.keeps_bound:
            return self.contributions
        return min(self.rounds.kept_contributions(discovery), self.contributions)

    def over(self, discovery: Discovery) -> KnownGaussian:
        """Return the mechanism that adds Gaussian noise to the counts of the groups found.

        `discovery` has the groups (at least one), which the rounds of the search have released, so that they are public
        now. The noise on the counts costs what was planned for the counts, plus what the survey before the rounds moved
        to the counts from the rounds' planned cost.
        """
        # A user counts towards at most F groups: the smaller one of the number of groups found and
        # `kept_contributions`. So counting takes F Gaussian uses. Together they may cost, as mu squared, the planned
        # contributions / sigma^2 plus what the rounds that found the groups left over (`WeightedRounds.unspent`). So
        # the parameter of each use is below `sigma`, and the noise smaller, if F is less than `contributions` or if the
        # rounds left a part of their cost.
        changed = min(self.kept_contributions(discovery), len(discovery.labels))
        unspent = self.rounds.unspent(discovery.part)
        sigma = self.sigma
        if changed < self.contributions or unspent:
            cost = self.contributions / binary(self.sigma) ** 2 + unspent
            sigma = float_root_above(changed / cost)
        return KnownGaussian(domain=discovery.labels, contributions=changed, per_item=self.per_item, sigma=sigma)

    @property
    def noise(self) -> RoundedGaussianNoise:
        """The largest noise that a count can get: Gaussian noise of standard deviation per_item * sigma.

        The two fields are the most that one user adds to a count (`per_item`), and the planned noise for an addition of
        1 (`sigma`). A count gets less noise in two cases. The first is that a user is counted in fewer groups than the
        planned `contributions`, because few groups were found or because users have few groups. The second is that the
        rounds, which find the groups in noisy passes over the table, cost less than planned; the counts then spend the
        remainder.
        """
        return RoundedGaussianNoise(sigma=binary(self.sigma) * self.per_item)

    def guarantees(self) -> tuple[Use, ...]:
        """Return the largest privacy cost of a release, as uses (guarantees and how often each is used).

        It is the cost of the rounds that find groups, and for the counts one Gaussian use of parameter `sigma` for each
        of the at most `contributions` groups in which a user counts.
        """
        counts = Use(Gaussian(sigma=float(binary(self.sigma))), self.contributions)
        return (*self.rounds.guarantees(), counts)

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the expected error of the counts, and how many users a group needs to be found.

        Both follow from the parameters alone. `confidence` is the probability with which an interval holds, and with
        which a group with that number of users is found.
        """
        counted = ErrorEstimate.of(self.noise, confidence)
        return replace(counted, detectable=self.rounds.preview(confidence).detectable)


def combined_sigma(sigmas: Sequence[Fraction]) -> Fraction:
    """Return the sigma of one Gaussian use that costs at most as much as Gaussian uses of all the `sigmas` together.

    The cost of a Gaussian use is its mu squared, 1 / sigma^2, and costs are added up. So the result is 1 / sqrt(sum of
    1 / sigma^2), rounded up to a float; a single sigma is returned without rounding. A round of the search for groups
    may spend several planned uses at once, and then draws its noise with this sigma.
    """
    if len(sigmas) == 1:
        return sigmas[0]
    cost = sum((1 / (sigma * sigma) for sigma in sigmas), Fraction(0))
    return float_root_above(1 / cost)


@lru_cache(maxsize=256)
def round_threshold(sigma: Fraction, delta: Fraction) -> int:
    """Return the threshold that the noisy weight of a group must exceed for the group to be found, in units of 2^-20.

    In a round, each user divides a weight among their groups: a user with one group gives it the weight 1 (2^20 units).
    `sigma` is the noise scale, for users whose weights have the l2 norm 1. The threshold hides rare groups: with
    probability at least 1 - `delta`, no group that only one user has is found.
    """
    # Proof: a user who alone has t groups gives each of them at most user_weight(t). So the threshold is the maximum
    # over t up to `MOST_GROUPS` of user_weight(t) + m(t), where noise exceeds m(t) with probability at most delta / t.
    wide = _noise(sigma).sigma
    return max(user_weight(t) + gaussian_margin(wide, delta / t) for t in range(1, MOST_GROUPS + 1))


def _noise(sigma: Fraction) -> RoundedGaussianNoise:
    """Return the rounded Gaussian noise that a round of the search adds to each group's sum of users' weights.

    The noise is in units of 2^-20, as the weights are. `sigma` is the noise scale divided by the l2 norm of one user's
    weights.
    """
    return RoundedGaussianNoise(sigma=sigma * WEIGHT_UNIT)
