"""Choice of the limits on one user: in how many groups a user counts, and with how many rows in each group.

Wider limits leave out fewer rows, but need more noise, and private groups are then shown only from a higher count on.
The limits chosen here make the expected error of the whole answer smallest. A group that the answer does not show is an
error too, as large as the group's count. The choice reads noisy numbers only, so it costs no privacy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.mechanisms.planning.rounds import FEWEST_CONTRIBUTIONS
from setwise.mechanisms.value_overlap import ValueGrowth

READ_GROUPS = 20
"""How many groups an analyst is expected to read of a histogram whose groups are private."""

FEWEST_ROWS_BY_USERS = 8
"""From this limit on a user's rows on, the private groups of a count of rows are found by their users.

Groups that are found by rows need that many times as many rows as they would need users. In a group of 40 users, some
of whom reach a limit of 8, there are about 100 rows, and finding it by rows takes 155 (at epsilon 0.9, delta 1e-6).
"""

_LARGEST_SHARES = (0.25, 0.1, 0.04)
"""Shares of all rows that the largest private group may have; each is taken to be as likely as the others.

The share is private and not known when limits are chosen. With one guess of half the rows for a top 1, or a tenth for a
top 5, limits were chosen whose threshold no group reached: the budget was spent on an answer without a row.
"""

_THRESHOLD = 15.0
"""The count, in units of `noise_scale`, from which half of the private groups of that count are shown by one pass.

Plans at epsilon 0.1 to 1 state 17 to 20 units as the count that is shown with probability 95%.
"""

_FEW_PICKS, _PICKS, _LAPLACE, _GAUSSIAN = 2.75, 4.5, 3.5, 2.25
"""Numbers of the formula for the count from which private groups of a top k are shown (`shown_from`).

They were fitted to the counts that plans state with probability 95%, for k from 1 to 100, limits of 1 to 256 groups,
epsilons from 0.3 to 2.7 and deltas from 1e-8 to 1e-6: `tests/analytics/test_limits_choice.py` compares them.
"""


_NEARLY_BEST = 1.03
"""The smallest limit on groups is chosen whose error is at most this many times the best one. For a smaller limit, the
share that it leaves out can be told more closely."""


_MOST_NOISE = 0.05
"""The largest noise of a count of distinct values that is chosen, as a share of the values that users surely have.

How many values wide limits would add is a guess, most of all in small tables: without this end, numbers of 50 to 200
users were off by several times their size at epsilon 1, because a few users might have had very many values.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyUsers:
    """Estimated numbers of users with many or few groups (or rows), from which the limits on one user are chosen.

    The estimates come from the noisy numbers of a private search. If the search is about groups, about `users[i]` users
    have `numbers[i]` groups each. For example, `numbers` = [1, 2] and `users` = [50, 30] are 50 users with one group
    and 30 with two. If the search is about rows, `numbers[i]` is the number of rows in the group in which a user has
    the most rows.

    `growth` is None unless `numbers` are numbers of distinct values and not of rows. Several users may have the same
    value, so the distinct values of a group are fewer than those of its users added up; `growth` estimates how many
    they are. The first `known` entries of `users` stand out from noise; later ones are guesses.
    """

    numbers: NDArray[np.float64]
    users: NDArray[np.float64]
    growth: ValueGrowth | None = None
    known: int | None = None

    @property
    def count(self) -> float:
        """The estimated number of users, at least 1."""
        return max(1.0, float(self.users.sum()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedError:
    """Computes the expected error of an answer, in rows, for given limits on one user's groups and rows.

    The caller tries several limits, and chooses those with the smallest error.

    - `epsilon` and `delta` are the budget of the answer.
    - `groups` is the number of groups that the analyst is expected to read; the error includes the noise of this many
      groups.
    - `most` is the most groups that the answer can show: k, or the number of public groups. None if any number of
      private groups may be shown, or if the answer has no groups.
    - `is_hidden` says that the answer does not show private groups with low counts.
    """

    epsilon: float
    delta: float
    groups: int
    most: int | None
    is_hidden: bool

    def noise_scale(self, contributions: int) -> float:
        """Return an estimate of the noise scale of one group's count, to which a user adds at most 1.

        `contributions` is the limit on a user's groups. The scale is proportional to the number of groups that one user
        changes with Laplace noise, and to the square root of this number with Gaussian noise; the smaller scale is
        taken.
        """
        changed = contributions if self.most is None else min(contributions, self.most)
        gaussian = math.sqrt(2 * changed * math.log(1 / self.delta)) if self.delta else math.inf
        return min(changed, gaussian) / self.epsilon

    def of(self, kept: float, total: float, users: float, contributions: int, rows: int) -> float:
        """Return the expected error of an answer, in rows: the number of rows that it misses plus its noise.

        Limits on users are compared by this error. The answer misses the rows beyond the limits, and rows in groups
        that are hidden because their counts are low. Its noise is the noise scale of one group's count times the number
        of groups that the analyst is expected to read.

        - `total` is the number of rows of all users, of whom there are `users`.
        - `kept` is the estimated number of these rows within the limits.
        - `contributions` is the limit on a user's groups, and `rows` the limit on a user's rows in a group.
        """
        noise = self.noise_scale(contributions) * rows
        if self._finds_by_users(contributions, rows):
            noise *= 2  # half of the budget finds the groups
        return total - kept * self._shown_share(kept, users, contributions, rows) + self.groups * noise

    def _finds_by_users(self, contributions: int, rows: int) -> bool:
        """Return whether private groups are found by their users, although rows are counted.

        `contributions` is the limit on a user's groups, and `rows` the limit on a user's rows in a group.
        """
        few_groups = contributions < FEWEST_CONTRIBUTIONS
        return self.is_hidden and self.most is None and few_groups and rows >= FEWEST_ROWS_BY_USERS

    def shown_from(self, contributions: int) -> float:
        """Return about how large the count of a private group must be to be shown, if a user adds at most 1 to a group.

        `contributions` is the limit on a user's groups.
        """
        if self.most is None:
            return _THRESHOLD * self.noise_scale(contributions)
        nines = math.log(1 / self.delta)
        # Either k groups are picked one after the other, each with its share of epsilon, or all groups get Laplace or
        # Gaussian noise and are shown above a threshold. The planner takes what shows smaller groups.
        picked = min(_FEW_PICKS * self.most, _PICKS * math.sqrt(self.most)) * nines
        above = min(contributions * (nines + _LAPLACE), _GAUSSIAN * math.sqrt(contributions) * nines)
        return min(picked, above) / self.epsilon

    def largest_group(self, kept: float, users: float, rows: int, share: float = _LARGEST_SHARES[1]) -> float:
        """Guess the number of rows in the largest group, if the answer counts `kept` rows of `users` users.

        The largest group is taken to have this `share` of all rows. It cannot have more than `users` times `rows` rows,
        where `rows` is the limit on a user's rows in a group.
        """
        return min(kept * share, users * rows)

    def _shown_share(self, kept: float, users: float, contributions: int, rows: int) -> float:
        """Return the expected share, from 0 to 1, of the counted rows that lie in groups which the answer shows.

        Groups of too few rows are hidden by noise and threshold. Higher limits on one user need more noise, which hides
        more groups.

        - `kept` is the number of counted rows, and `users` the number of users.
        - `contributions` is the limit on a user's groups, and `rows` the limit on a user's rows in a group.
        """
        # The i-th largest group is taken to have 1 / sqrt(i) times the rows of the largest one, and the answer to be
        # about `groups` groups. So the first n of them have sqrt(n / groups) of the rows. In rounds, which find groups
        # by users, the limits do not change which groups are found.
        if not self.is_hidden or (self.most is None and contributions >= FEWEST_CONTRIBUTIONS):
            return 1.0
        needed = self.shown_from(contributions) * rows
        if self._finds_by_users(contributions, rows):
            # Half of the budget finds them, by users. A user is taken to have sqrt(rows) rows in a group: if few users
            # reach a limit, most have far fewer rows.
            needed = 2 * self.shown_from(contributions) * math.sqrt(rows)
        largest = [self.largest_group(kept, users, rows, share) for share in _LARGEST_SHARES]
        shown = [min(1.0, count / needed / math.sqrt(self.groups)) if count >= needed else 0.0 for count in largest]
        return sum(shown) / len(shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLimits:
    """Limits on how much of one user counts, and what the answer is expected to be with these limits.

    - `contributions` is the most groups of one user that count.
    - `rows` has a number for each count of rows in the query: the most rows of one user in a group that count.
    - `error` is the expected error of the answer, in rows. Limits are chosen such that it is smallest.
    - `largest_group` is an estimate of the count of the largest group, in rows.
    """

    error: float
    contributions: int
    rows: tuple[int, ...]
    largest_group: float


def choose_limits(
    expected: ExpectedError,
    contributions: Sequence[int],
    groups: LikelyUsers,
    row_limits: Sequence[int],
    rows: Sequence[LikelyUsers],
) -> UserLimits:
    """Return the limits on a user's groups, and on a user's rows in a group, with the smallest expected error.

    - `expected` computes the expected error of an answer for given limits.
    - `contributions` are the limits on groups to choose from, ascending.
    - `groups` estimates how many users have how many groups, and so how much each limit on groups would leave out.
    - `row_limits` are the limits on rows to choose from. For distinct values, the limit 1 is tried too.
    - `rows` is empty if every user counts once in a group. Otherwise it has one entry for each count of rows in the
      query: an estimate of how many rows users have in their largest group (the group in which a user has the most
      rows).

    Of limits on groups with nearly the same error, the smallest is chosen.
    """
    choices = []
    for limit in contributions:
        once = LikelyUsers(numbers=np.ones(1), users=np.array([groups.count]))
        errors = [_errors_of_rows(expected, limit, groups, row_limits, likely) for likely in rows]
        best = [min(of_count) for of_count in errors or [_errors_of_rows(expected, limit, groups, (1,), once)]]
        choices.append(
            UserLimits(
                error=sum(error for error, _, _ in best),
                contributions=limit,
                rows=tuple(row_limit for _, row_limit, _ in best) if rows else (),
                largest_group=max(largest for _, _, largest in best),
            )
        )
    enough = _NEARLY_BEST * min(limits.error for limits in choices)
    return next(limits for limits in choices if limits.error <= enough)


def _errors_of_rows(
    expected: ExpectedError, contributions: int, groups: LikelyUsers, row_limits: Sequence[int], rows: LikelyUsers
) -> list[tuple[float, int, float]]:
    """Return (expected error, limit, largest group) for each of `row_limits`, from which the caller takes the best.

    A limit is the most rows of one user that count in a group. The expected error is that of an answer which counts the
    rows of every group. The third entry is the estimated number of counted rows in the largest group.

    - `expected` computes the expected error of an answer for given limits.
    - `contributions` is the limit on a user's groups, and `groups` estimates how many users have how many groups.
    - `rows` estimates how many rows users have in the group in which they have the most rows.

    Errors are in rows or, for distinct values, in distinct values. The error of a limit on distinct values is infinite
    if its noise is too large a share of them (`_MOST_NOISE`), unless it is the smallest limit.
    """
    pairs = float(groups.numbers @ groups.users)
    counted = float(np.minimum(groups.numbers, contributions) @ groups.users)
    part = counted / pairs if pairs > 0 else 1.0
    mean_groups = pairs / groups.count
    of_groups = rows_of_groups(rows.numbers, max(1, round(mean_groups)))
    scale = mean_groups / max(1, round(mean_groups)) if mean_groups > 1 else 1.0
    total = scale * float(rows.users @ of_groups.sum(axis=1))
    errors = []
    for limit in row_limits if rows.growth is None else sorted({1, *row_limits}):
        kept_rows = part * scale * np.minimum(of_groups, limit).sum(axis=1)
        kept = float(rows.users @ kept_rows)
        if rows.growth is None:
            error = expected.of(kept, total, rows.count, contributions, limit)
        else:
            known = float(rows.users[: rows.known] @ kept_rows[: rows.known])
            values, most, known_values = _distinct(np.array([kept, total, known]), expected, rows.growth)
            error = expected.of(values, most, rows.count, contributions, limit)
            if limit > 1 and expected.groups * expected.noise_scale(contributions) * limit > _MOST_NOISE * known_values:
                error = math.inf
        errors.append((error, limit, expected.largest_group(kept, rows.count, limit)))
    return errors


def _distinct(rows: NDArray[np.float64], expected: ExpectedError, growth: ValueGrowth) -> list[float]:
    """Return about how many distinct values each number of `rows` has, counted in each group and added up.

    Rows are taken to be spread evenly over the groups of the answer, whose number is in `expected`. `growth` estimates
    the distinct values of the rows of one group.
    """
    return [float(number) for number in expected.groups * growth.distinct_values(np.maximum(rows, 0) / expected.groups)]


def rows_of_groups(most: NDArray[np.float64], groups: int) -> NDArray[np.float64]:
    """Return the expected number of rows of each user in each of `groups` groups, as an array of one line per user.

    `most[i]` is the number of rows of user i in the group in which the user has the most rows. In the j-th group, the
    user is expected to have most[i] * j^(-3/4) rows, but at least one. This rule was compared with a table of flights,
    for a limit of 8 rows in a group: by the rule, the limit leaves out 18% of the rows by destination (in fact 15%),
    and 5% by month (in fact 7%).

    >>> rows_of_groups(np.array([16.0, 2.0]), 3).round(1).tolist()
    [[16.0, 9.5, 7.0], [2.0, 1.2, 1.0]]
    """
    return np.asarray(np.maximum(most[:, None] / np.arange(1, groups + 1) ** 0.75, 1.0))
