"""Discovery in rounds: exact weights and thresholds, the privacy loss by enumeration, and what a user moves."""

import itertools
import math
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from exact_laws import exact
from neighbours import Recorder
from scipy.special import ndtr
from significance import assert_frequencies, lower_limit, upper_limit
from test_black_box import RANDOMNESS, best_event
from tests.sizes import RELEASES

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import ApproxDP, Gaussian
from setwise.errors import InvalidParameter
from setwise.mechanisms import weighted_rounds
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.weighted_rounds import (
    MOST_GROUPS,
    USER_UNIT,
    WEIGHT_UNIT,
    DiscoveredCounts,
    Discovery,
    GroupWeights,
    WeightedRounds,
    combined_sigma,
    round_threshold,
    user_root,
    user_share,
    user_weight,
)


def weigh(table, found=()):
    """The exact sums over a table {user: groups}, by the definition, for the groups that are not found yet."""
    weights, roots, shares = Counter(), 0, 0
    for groups in table.values():
        own = [group for group in groups if group not in found]
        for group in own:
            weights[group] += user_weight(len(own))
            roots, shares = roots + user_root(len(own)), shares + user_share(len(own))
    return GroupWeights(Histogram.of(list(weights), list(weights.values())), roots, shares)


class TestWeights:
    def test_a_weight_is_the_floor_of_its_real_number(self):
        for groups in (*range(1, 2 * MOST_GROUPS), 10**6, 2**40):
            weight = user_weight(groups)
            assert groups * weight**2 <= WEIGHT_UNIT**2 < groups * (weight + 1) ** 2, groups

    def test_what_a_user_adds_has_norm_one_at_most(self):
        for groups in range(1, MOST_GROUPS + 1):
            assert groups * user_weight(groups) ** 2 <= WEIGHT_UNIT**2, groups
            assert groups * user_share(groups) <= USER_UNIT, groups
            assert groups * user_root(groups) ** 2 <= USER_UNIT**2, groups
            assert groups * user_root(groups) <= weighted_rounds._MOST_ROOTS, groups


class TestThreshold:
    @pytest.mark.parametrize(("sigma", "delta"), [("0.5", "0.1"), ("4.25", "1e-7"), ("30", "1e-12"), ("900", "1e-40")])
    def test_groups_of_one_user_pass_with_probability_delta_at_most(self, sigma, delta):
        sigma, delta = Fraction(sigma), Fraction(delta)
        threshold = round_threshold(sigma, delta)
        with mpmath.workdps(60):
            passing = [
                t * mpmath.ncdf(-(threshold - user_weight(t) + mpmath.mpf(1) / 2) / exact(sigma * WEIGHT_UNIT))
                for t in range(1, MOST_GROUPS + 1)
            ]
        assert max(passing) <= exact(delta)
        assert max(passing) >= exact(delta) * (1 - 1e-4)

    def test_every_number_of_groups_counts(self):
        """With wide noise 200 groups of a user decide, with narrow noise the largest weight does."""
        wide, narrow = (round_threshold(sigma, Fraction(1, 10**6)) for sigma in (Fraction(20), Fraction(1, 50)))
        alone = [user_weight(1) + _margin(sigma, 1e-6) for sigma in (20, 1 / 50)]
        assert wide > alone[0] * 1.1
        assert narrow == pytest.approx(alone[1], rel=1e-6)


def _margin(sigma, share):
    return -float(mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(share) - 1)) * sigma * WEIGHT_UNIT


class TestCost:
    ROUNDS = WeightedRounds(sigma=Fraction(6), delta=Fraction(1, 10**6))

    def test_all_uses_amount_to_the_noise_scale(self):
        gaussians = [use for use in self.ROUNDS.guarantees() if isinstance(use.guarantee, Gaussian)]
        cost = sum(use.count / Fraction(use.guarantee.sigma) ** 2 for use in gaussians)
        assert Fraction(1, 36) * (1 - Fraction(1, 10**9)) <= cost <= Fraction(1, 36)
        [failures] = [use for use in self.ROUNDS.guarantees() if isinstance(use.guarantee, ApproxDP)]
        assert failures.guarantee.epsilon == 0
        assert failures.count * Fraction(failures.guarantee.delta) <= self.ROUNDS.delta

    @pytest.mark.parametrize("number", [1, 2, 3])
    def test_uses_that_one_round_takes_cost_no_more_than_their_sum(self, number):
        taken = self.ROUNDS.sigmas[3 - number :]
        together = sum(1 / sigma**2 for sigma in taken)
        assert together * (1 - Fraction(1, 10**12)) <= 1 / combined_sigma(taken) ** 2 <= together

    def test_noise_out_of_range_is_refused(self):
        with pytest.raises(InvalidParameter):
            WeightedRounds(sigma=Fraction(1000), delta=Fraction(1, 10**6))

    @pytest.mark.parametrize("found", [1, 3, 8, 40])
    def test_counts_of_few_groups_use_the_whole_cost(self, found):
        mechanism = DiscoveredCounts(
            rounds=replace(self.ROUNDS, contributions=8), contributions=8, per_item=3, sigma=Fraction(20)
        )
        [use] = mechanism.over(Discovery(labels=tuple(range(found)))).guarantees()
        assert use.count == min(found, 8)
        assert Fraction(use.count) / Fraction(use.guarantee.sigma) ** 2 <= Fraction(8, 400)
        assert use.count / use.guarantee.sigma**2 == pytest.approx(8 / 400, rel=1e-9)
        assert mechanism.guarantees() == (*self.ROUNDS.guarantees(), mechanism.guarantees()[-1])
        assert (mechanism.guarantees()[-1].guarantee, mechanism.guarantees()[-1].count) == (Gaussian(sigma=20.0), 8)

    @pytest.mark.parametrize(
        ("users", "groups_per_user", "kept"),
        [(10**6, 3.0, 7), (10**6, 30.0, 50), (50_000, 2.0, 5), (900, 2.0, 50), (100, 1.0, 50), (1, 1.0, 50)],
    )
    def test_counts_keep_twice_the_groups_that_users_have_if_the_survey_is_sure(self, users, groups_per_user, kept):
        rounds = replace(self.ROUNDS, contributions=50)
        mechanism = DiscoveredCounts(rounds=rounds, contributions=50, sigma=Fraction(20))
        discovery = Discovery(labels=tuple(range(1000)), users=users, groups_per_user=groups_per_user)
        assert rounds.kept_contributions(discovery) == kept
        [use] = mechanism.over(discovery).guarantees()
        assert use.count == kept
        assert Fraction(use.count) / Fraction(use.guarantee.sigma) ** 2 <= Fraction(50, 400)

    def test_no_more_is_kept_than_was_planned_for(self):
        mechanism = DiscoveredCounts(rounds=replace(self.ROUNDS, contributions=80), contributions=5, sigma=Fraction(20))
        [use] = mechanism.over(Discovery(labels=tuple(range(1000)))).guarantees()
        assert (use.count, use.guarantee) == (5, Gaussian(sigma=20.0))


class TestDivision:
    """How the cost is divided between finding groups and counting them, by what the survey says."""

    ROUNDS = WeightedRounds(sigma=Fraction(5), delta=Fraction(1, 10**6), contributions=50, finding=Fraction(3, 4))

    @pytest.mark.parametrize(
        ("users", "groups_per_user", "share"),
        [
            pytest.param(10**6, 80.0, 0.75, id="users have more groups than are counted"),
            pytest.param(10**6, 50.0, 0.714, id="users have as many"),
            pytest.param(10**6, 30.0, 0.6, id="users have fewer"),
            pytest.param(10**6, 15.0, 0.429, id="users have far fewer"),
            pytest.param(10**6, 2.0, 0.4, id="users have hardly any"),
            pytest.param(100, 2.0, 0.75, id="noise hides the number of users"),
        ],
    )
    def test_finding_gets_a_share_by_how_many_groups_users_have(self, users, groups_per_user, share):
        part = self.ROUNDS._part(Discovery(users=users, groups_per_user=groups_per_user))
        assert float(part * self.ROUNDS.finding) == pytest.approx(share, abs=0.001)

    def test_rounds_spend_their_whole_cost_if_no_counts_follow(self):
        assert replace(self.ROUNDS, finding=None)._part(Discovery(users=10**6, groups_per_user=2.0)) == 1

    @pytest.mark.parametrize("finding", [Fraction(3, 5), Fraction(3, 4)])
    @pytest.mark.parametrize("groups", [1, 3, 20, 60])
    @pytest.mark.parametrize("found", [1, 7, 2000])
    def test_what_is_drawn_costs_what_was_planned(self, finding, groups, found, monkeypatch):
        """Finding and counting together draw Gaussian noise of the planned cost, whatever the survey says."""
        rounds = replace(self.ROUNDS, finding=finding)
        mechanism = DiscoveredCounts(rounds=rounds, contributions=50, sigma=Fraction(60))
        recorder = Recorder(monkeypatch)
        monkeypatch.setattr(weighted_rounds, "with_noise", recorder.with_noise)
        users = {user: tuple(f"g{user % 97}-{place}" for place in range(groups)) for user in range(2000)}
        state, cost = Discovery(), Fraction(0)
        while not state.is_complete:
            state = rounds.run_round(state, weigh(users, state.labels), None)
        norms = [USER_UNIT, weighted_rounds._MOST_ROOTS, *[WEIGHT_UNIT] * (len(recorder.noised) - 2)]
        for drawn, norm in zip(recorder.noised, norms, strict=True):
            cost += Fraction(norm) ** 2 / drawn.noise.sigma**2
        counting = mechanism.over(replace(state, labels=tuple(range(found))))
        [use] = counting.guarantees()
        cost += use.count / Fraction(use.guarantee.sigma) ** 2
        planned = [use for use in mechanism.guarantees() if isinstance(use.guarantee, Gaussian)]
        whole = sum(use.count / Fraction(use.guarantee.sigma) ** 2 for use in planned)
        assert whole * (1 - Fraction(1, 10**4)) <= cost <= whole
        assert use.guarantee.sigma <= 60

    def test_noise_that_the_smallest_part_would_make_too_wide_is_refused(self):
        widest = Fraction(190)
        WeightedRounds(sigma=widest, delta=Fraction(1, 10**6))
        with pytest.raises(InvalidParameter, match="below 10\\^9 units"):
            WeightedRounds(sigma=widest, delta=Fraction(1, 10**6), finding=Fraction(3, 4))

    @pytest.mark.parametrize("finding", [Fraction(1, 10), Fraction(1)])
    def test_a_share_out_of_range_is_refused(self, finding):
        with pytest.raises(InvalidParameter, match="finding"):
            replace(self.ROUNDS, finding=finding)


ONE_ROUND = Discovery(users=1, groups_per_user=1.0)
"""What a survey says of a table so small that one round takes all uses."""

TWO_ROUNDS = Discovery(users=10**9, groups_per_user=1.0)
"""What a survey says of a table so large that a first round pays, although it frees little."""

OTHERS = {"ann": ("a", "b"), "bob": ("a",), "cyd": ("a", "b", "c")}
TABLES = [
    pytest.param(OTHERS, ("a", "b", "c"), id="groups that others have"),
    pytest.param(OTHERS, ("x",), id="one group of one user"),
    pytest.param(OTHERS, ("x", "y", "z"), id="three groups of one user"),
    pytest.param(OTHERS, ("a", "x"), id="both"),
    pytest.param({}, ("x", "y"), id="nobody else"),
]


class TestExactLaw:
    """The privacy loss of what rounds release, computed over all outcomes, is no more than is accounted for."""

    def law(self, mechanism, table, state, chance=1.0):
        """The probability of every way in which the rounds may go: the groups found by each."""
        if state.is_complete:
            return {(): chance}
        number = mechanism._uses_of_next_round(state)
        first = sum(state.uses)
        sigma = float(combined_sigma(mechanism.sigmas[first : first + number])) * WEIGHT_UNIT
        threshold = round_threshold(
            combined_sigma(mechanism.sigmas[first : first + number]), sum(mechanism.failures[first : first + number])
        )
        exact_sums = weigh(table, state.labels).weights
        passing = {
            label: float(ndtr((int(count) - threshold - 0.5) / sigma))
            for label, count in zip(exact_sums.labels, exact_sums.counts, strict=True)
        }
        outcomes = Counter()
        for size in range(len(passing) + 1):
            for found in itertools.combinations(sorted(passing), size):
                part = math.prod(p if label in found else 1 - p for label, p in passing.items())
                after = Discovery(
                    labels=(*state.labels, *found),
                    found=(*state.found, size),
                    uses=(*state.uses, number),
                    users=state.users,
                    groups_per_user=state.groups_per_user,
                )
                for rest, p in self.law(mechanism, table, after, chance * part).items():
                    outcomes[(found, *rest)] += p
        return outcomes

    @pytest.mark.parametrize(("others", "groups"), TABLES)
    @pytest.mark.parametrize("survey", [ONE_ROUND, TWO_ROUNDS], ids=["one round", "two rounds"])
    @pytest.mark.parametrize(("sigma", "delta"), [("0.35", "0.05"), ("0.7", "0.01"), ("1.5", "0.3")])
    def test_divergence_is_within_what_is_accounted(self, others, groups, survey, sigma, delta):
        mechanism = WeightedRounds(sigma=Fraction(sigma), delta=Fraction(delta))
        with_user = self.law(mechanism, {**others, "dan": groups}, survey)
        without = self.law(mechanism, others, survey)
        assert math.fsum(with_user.values()) == pytest.approx(1.0, abs=1e-12)
        promise = compose(mechanism.guarantees())
        for epsilon in (0.0, 0.25, 1.0, 2.0):
            promised = promise.delta(epsilon).upper
            for first, second in ((with_user, without), (without, with_user)):
                outcomes = {*first, *second}
                reached = math.fsum(
                    max(0.0, first.get(each, 0.0) - math.exp(epsilon) * second.get(each, 0.0)) for each in outcomes
                )
                assert reached <= promised * (1 + 1e-9)

    @pytest.mark.statistical
    @pytest.mark.parametrize("survey", [ONE_ROUND, TWO_ROUNDS], ids=["one round", "two rounds"])
    def test_rounds_have_this_law(self, survey):
        mechanism, table = WeightedRounds(sigma=Fraction(7, 10), delta=Fraction(1, 4)), {**OTHERS, "dan": ("a", "x")}
        law = self.law(mechanism, table, survey)
        outcomes, runs, seen = list(law), RELEASES // 4, Counter()
        for _ in range(runs):
            state = survey
            while not state.is_complete:
                state = mechanism.run_round(state, weigh(table, state.labels), RANDOMNESS)
            ends = list(itertools.accumulate(state.found, initial=0))
            seen[tuple(tuple(sorted(state.labels[a:b])) for a, b in itertools.pairwise(ends))] += 1
        assert_frequencies([seen[each] for each in outcomes], [law[each] for each in outcomes], runs)


class TestWhatReachesTheNoise:
    @pytest.mark.parametrize("seed", range(20))
    def test_one_user_moves_the_sums_by_what_is_paid_for(self, seed, monkeypatch):
        """Given the same groups found before, a user moves the sums of the others' groups by norm 1 at most."""
        monkeypatch.setattr(weighted_rounds, "with_noise", None)  # replaced by the recorder below
        source = random.Random(seed)
        labels = [f"g{number}" for number in range(30)]
        table = {user: source.sample(labels, source.randrange(1, 20)) for user in range(40)}
        user = source.randrange(40)
        others = {each: groups for each, groups in table.items() if each != user}
        found = tuple(source.sample(labels, source.randrange(10)))
        recorder = Recorder(monkeypatch)
        monkeypatch.setattr(weighted_rounds, "with_noise", recorder.with_noise)
        mechanism = WeightedRounds(sigma=Fraction(source.randrange(1, 100), 4), delta=Fraction(1, 1000))
        state = Discovery(labels=found)
        sums = [weigh(table, found), weigh(others, found)]
        results = [mechanism.run_round(state, each, None) for each in sums]
        (shares, roots, first), (other_shares, other_roots, second) = recorder.noised[:3], recorder.noised[3:]
        moves = [
            (int(mine.inputs[0]) - int(theirs.inputs[0])) / float(mine.noise.sigma)
            for mine, theirs in ((shares, other_shares), (roots, other_roots))
        ]
        assert sum(move**2 for move in moves) <= float(1 / mechanism.survey_sigma**2)
        kept = [
            dict(zip(each.weights.positive().labels, seen.inputs.tolist(), strict=True))
            for each, seen in zip(sums, (first, second), strict=True)
        ]
        assert set(kept[1]) <= set(kept[0])
        squares = sum((kept[0][label] - weight) ** 2 for label, weight in kept[1].items())
        assert squares <= WEIGHT_UNIT**2
        alone = [weight for label, weight in kept[0].items() if label not in kept[1]]
        assert all(weight <= user_weight(len(alone)) for weight in alone)
        for result, seen in zip(results, (first, second), strict=True):
            taken = mechanism.sigmas[: result.uses[0]]
            assert seen.noise.sigma == combined_sigma(taken) * WEIGHT_UNIT

    def test_a_group_that_was_found_takes_part_in_no_further_round(self):
        mechanism = WeightedRounds(sigma=Fraction(1), delta=Fraction(1, 100))
        with pytest.raises(InvalidParameter, match="found before"):
            mechanism.run_round(Discovery(labels=("a",)), weigh({"u": ["a", "b"]}), RANDOMNESS)

    def test_no_round_is_left_after_all_uses(self):
        mechanism = WeightedRounds(sigma=Fraction(1), delta=Fraction(1, 100))
        done = mechanism.run_round(ONE_ROUND, weigh({}), RANDOMNESS)
        assert done.is_complete
        with pytest.raises(InvalidParameter, match="all rounds"):
            mechanism.run_round(done, weigh({}), RANDOMNESS)


class TestNumberOfRounds:
    MECHANISM = WeightedRounds(sigma=Fraction(4), delta=Fraction(1, 10**6))

    def run(self, table):
        state = Discovery()
        while not state.is_complete:
            state = self.MECHANISM.run_round(state, weigh(table, state.labels), RANDOMNESS)
        return state

    def test_few_users_with_many_groups_take_one_round(self):
        table = {user: range(user % 7, 150, 2) for user in range(900)}
        assert self.run(table).uses == (3,)

    def test_many_users_whose_groups_are_mostly_found_take_three_rounds(self):
        table = {user: (user % 3, 3 + user % 2, 100 + user % 400) for user in range(30_000)}
        state = self.run(table)
        assert state.uses == (1, 1, 1)
        assert {0, 1, 2, 3, 4} <= set(state.labels)

    def test_many_users_whose_groups_are_mostly_not_found_take_two_rounds(self):
        table = {
            user: (user % 3, *(100 + (user * step) % 20_011 for step in (7, 11, 13, 17))) for user in range(30_000)
        }
        assert self.run(table).uses == (1, 2)

    def test_the_survey_is_close(self):
        state = self.run({user: range(user % 5 + 1) for user in range(30_000)})
        assert state.users == pytest.approx(30_000, rel=0.05)
        assert state.groups_per_user == pytest.approx(2.8, rel=0.2)


@pytest.mark.statistical
@pytest.mark.parametrize("survey", [ONE_ROUND, TWO_ROUNDS], ids=["one round", "two rounds"])
def test_outputs_betray_no_more_than_promised(survey):
    mechanism = WeightedRounds(sigma=Fraction(7, 10), delta=Fraction(1, 100))

    def outputs(table):
        seen = Counter()
        for _ in range(RELEASES // 4):
            state = survey
            while not state.is_complete:
                state = mechanism.run_round(state, weigh(table, state.labels), RANDOMNESS)
            seen[(state.labels, state.found)] += 1
        return seen

    tables = [{**OTHERS, "dan": ("a", "b", "x")}, OTHERS]
    for before, after in (tables, tables[::-1]):
        for epsilon in (0.5, 2.0):
            delta = compose(mechanism.guarantees()).delta(epsilon).upper
            event = best_event(outputs(before), outputs(after), delta)
            ones, twos = outputs(before), outputs(after)
            hits, others = sum(ones[each] for each in event), sum(twos[each] for each in event)
            runs = RELEASES // 4
            excess = lower_limit(hits, runs) - delta
            assert excess <= 0 or math.log(excess / upper_limit(others, runs)) <= epsilon


def test_a_release_reads_no_floating_point_weight():
    assert weigh(OTHERS).weights.counts.dtype == np.int64
