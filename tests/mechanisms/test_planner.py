"""A plan is chosen by its cell, certified against the accountant, nearly as sharp as can be, and needs no data."""

import re
from dataclasses import replace
from fractions import Fraction

import pytest

from setwise.accounting import bound
from setwise.accounting.adaptive.optimum import Optimum
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import BoundedRange, DiscreteLaplace
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from setwise.mechanisms.planning import cost, planner
from setwise.mechanisms.planning.budget_splits import BudgetSplit
from setwise.mechanisms.planning.cost import EstimatedScale
from setwise.mechanisms.planning.planner import _calibrate, plan
from setwise.mechanisms.planning.request import Bounds, CountNoise, MechanismName, Total
from setwise.mechanisms.two_phase import GaussianCounts, LaplaceCounts, TwoPhaseTopK
from setwise.mechanisms.unknown_domain import TruncatedGaussian, UnknownGumbel, UnknownLaplace

DOMAIN = tuple("abcdefgh")
DELTA = Fraction("1e-6")


def question(**changes):
    total = {"epsilon": Fraction(1), "delta": DELTA}
    total |= {name: changes.pop(name) for name in ("epsilon", "delta", "counts", "mechanism") if name in changes}
    return Bounds(**changes), Total(**total)


CELLS = [
    (question(domain=DOMAIN, contributions=1, counts=CountNoise.LAPLACE), KnownLaplace),
    (question(domain=DOMAIN, contributions=3, per_item=2, counts=CountNoise.GAUSSIAN), KnownGaussian),
    (question(domain=DOMAIN, k=3, counts=CountNoise.NONE), KnownGumbel),
    (question(domain=DOMAIN, k=3, counts=CountNoise.LAPLACE), TwoPhaseTopK),
    (question(contributions=2, counts=CountNoise.LAPLACE), UnknownLaplace),
    (question(contributions=2, counts=CountNoise.LAPLACE, limit=50), UnknownLaplace),
    (question(contributions=5, counts=CountNoise.GAUSSIAN), TruncatedGaussian),
    (question(k=3, counts=CountNoise.NONE), UnknownGumbel),
    (question(k=3, contributions=2, counts=CountNoise.NONE, mechanism="unknown_gumbel"), UnknownGumbel),
    (question(k=3, counts=CountNoise.GAUSSIAN), TwoPhaseTopK),
]


def scale(mechanism):
    match mechanism:
        case KnownLaplace(scale=found) | UnknownLaplace(scale=found):
            return found
        case KnownGaussian(sigma=found) | TruncatedGaussian(sigma=found):
            return found
        case KnownGumbel(epsilon=epsilon) | UnknownGumbel(epsilon=epsilon):
            return 1 / epsilon
        case TwoPhaseTopK(discovery=discovery):
            return 1 / discovery.epsilon


def sharper(mechanism, factor):
    """The same mechanism with its noise divided by a factor."""
    match mechanism:
        case KnownLaplace() | UnknownLaplace():
            return replace(mechanism, scale=mechanism.scale / factor)
        case KnownGaussian() | TruncatedGaussian():
            return replace(mechanism, sigma=mechanism.sigma / factor)
        case KnownGumbel() | UnknownGumbel():
            return replace(mechanism, epsilon=mechanism.epsilon * factor)
        case TwoPhaseTopK(discovery=discovery, counts=LaplaceCounts(scale=scale)):
            return replace(mechanism, discovery=sharper(discovery, factor), counts=LaplaceCounts(scale=scale / factor))
        case TwoPhaseTopK(discovery=discovery, counts=GaussianCounts(sigma=sigma)):
            return replace(mechanism, discovery=sharper(discovery, factor), counts=GaussianCounts(sigma=sigma / factor))


@pytest.mark.parametrize(("asked", "kind"), CELLS, ids=lambda value: getattr(value, "__name__", None))
def test_every_cell_is_planned_within_budget_and_nearly_spends_it(asked, kind):
    found = plan(*asked)
    assert isinstance(found.mechanism, kind)
    certified = compose(found.mechanism.guarantees()).epsilon(float(asked[1].delta)).upper
    assert certified <= found.epsilon <= 1.001 * certified  # comparing interactions may lower it a little
    assert found.epsilon <= asked[1].epsilon
    wasteful = compose(sharper(found.mechanism, Fraction(1005, 1000)).guarantees()).epsilon(float(asked[1].delta)).upper
    assert wasteful > asked[1].epsilon
    assert found.preview == found.mechanism.preview()


@pytest.mark.parametrize("changes", [{}, {"contributions": 100_000}, {"counts": CountNoise.LAPLACE}])
def test_a_thousand_picks_are_certified_by_two_grids_at_most(changes, monkeypatch):
    """The optimum of many picks takes long: an estimate finds the noise, and the bound by one Gaussian confirms it."""
    optima = []

    def counted(self, delta, width=None):
        optima.append(self)
        return solved(self, delta, width)

    solved = Optimum.epsilon
    monkeypatch.setattr(Optimum, "epsilon", counted)
    cost._search_price.cache_clear()
    bound._solve.cache_clear()
    found = plan(*question(epsilon=Fraction(3, 2), k=1000, **changes))
    assert len(optima) <= 2
    assert Fraction(149, 100) < found.epsilon <= Fraction(3, 2)
    assert compose(found.mechanism.guarantees()).epsilon(float(DELTA)).upper <= 1.5


def test_an_estimate_is_never_promised(monkeypatch):
    monkeypatch.setattr(
        planner, "_estimate_price", lambda mechanism, delta: 0.9 * planner._certify_price(mechanism, delta)
    )
    found = plan(*question(k=300, counts=CountNoise.NONE))
    certified = compose(found.mechanism.guarantees()).epsilon(float(DELTA)).upper
    assert certified <= found.epsilon <= 1.0
    assert found.epsilon > 0.99


def test_the_better_noise_is_taken():
    """A single contribution favours Laplace; hundreds favour Gaussian (paper, fig:GM_oneshot)."""
    one = plan(*question(domain=DOMAIN, contributions=1))
    assert isinstance(one.mechanism, KnownLaplace)
    many = plan(*question(domain=tuple(range(300)), contributions=200))
    assert isinstance(many.mechanism, KnownGaussian)
    laplace = plan(*question(domain=tuple(range(300)), contributions=200, counts=CountNoise.LAPLACE))
    assert many.preview.expected_error < laplace.preview.expected_error


def test_more_budget_never_gives_more_error():
    small, large = (plan(*question(epsilon=e, contributions=3)) for e in (Fraction(1, 2), Fraction(2)))
    assert large.preview.detectable <= small.preview.detectable


def test_questions_that_cannot_be():
    for changes in (
        {},
        {"contributions": 1, "counts": "none"},
        {"k": 0},
        {"k": 1, "per_item": 0},
        {"k": 1, "epsilon": 0},
        {"k": 1, "delta": 1},
        {"k": 1, "counts": "some"},
        {"k": 1, "domain": ("a", "a")},
    ):
        with pytest.raises(InvalidParameter):
            plan(*question(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"contributions": 10**5, "domain": tuple(range(10**5))},
        {"k": 10_000, "counts": CountNoise.LAPLACE},
        {"contributions": 10**5},
    ],
    ids=["known", "picks", "unknown"],
)
def test_what_no_noise_can_meet_says_what_would_fit(changes):
    delta = Fraction(1, 10**12)
    with pytest.raises(Unattainable, match="would fit") as refusal:
        plan(*question(epsilon=Fraction(1, 10**6), delta=delta, **changes))
    fits = re.search(r"about (\S+) would fit", str(refusal.value))[1]
    assert plan(*question(epsilon=Fraction(fits), delta=delta, **changes)).epsilon <= float(fits)


def fixed_split(asked, name, counts):
    """What a plan with half of delta for the threshold, and counts that cost what picks cost, comes to."""
    ratio = {CountNoise.LAPLACE: 1.0, CountNoise.GAUSSIAN: 2.0}.get(counts, 1.0)
    share = 0.0 if asked[0].domain is not None else 0.5
    split = BudgetSplit(name=name, counts=counts, share=share, ratio=ratio, scale=10.0, error=0.0, merit=0.0)
    return _calibrate(split, EstimatedScale(split.scale, 1.0), *asked, CONFIDENCE).merit


@pytest.mark.parametrize(
    ("asked", "name", "counts"),
    [
        (question(k=10), MechanismName.UNKNOWN_GUMBEL, CountNoise.GAUSSIAN),
        (question(k=10, counts=CountNoise.LAPLACE), MechanismName.UNKNOWN_GUMBEL, CountNoise.LAPLACE),
        (question(k=3, counts=CountNoise.NONE), MechanismName.UNKNOWN_GUMBEL, CountNoise.NONE),
        (question(k=5, domain=tuple(range(200))), MechanismName.KNOWN_GUMBEL, CountNoise.GAUSSIAN),
        (question(contributions=1), MechanismName.UNKNOWN_LAPLACE, CountNoise.NONE),
        (question(contributions=30), MechanismName.TRUNCATED_GAUSSIAN, CountNoise.NONE),
        (question(k=10, contributions=2), MechanismName.UNKNOWN_LAPLACE, CountNoise.NONE),
    ],
)
def test_the_split_is_never_worse_than_halves(asked, name, counts):
    found, halves = plan(*asked).merit, fixed_split(asked, name, counts)
    assert found <= 1.01 * halves + 1  # counts are whole, and calibration stops within three thousandths


@pytest.mark.parametrize("k", [10, 100])
def test_splitting_gains_where_there_is_something_to_gain(k):
    """Laplace counts cost more than picks; for Gaussian ones halves are within four percent of the best."""
    asked = question(k=k, counts=CountNoise.LAPLACE)
    assert plan(*asked).merit < 0.9 * fixed_split(asked, MechanismName.UNKNOWN_GUMBEL, CountNoise.LAPLACE)


def test_a_restricted_top_k_takes_the_better_of_histogram_and_picks():
    few, many = (plan(*question(k=5, contributions=each)) for each in (1, 500))
    assert isinstance(few.mechanism, UnknownLaplace)
    assert isinstance(many.mechanism, TwoPhaseTopK)
    # A user who touches every label of a small public domain changes no more counts than it has.
    small = plan(*question(k=2, domain=("a", "b", "c")))
    assert isinstance(small.mechanism, KnownLaplace)
    assert small.mechanism.contributions == 3


ONE_PASS = [name for name in MechanismName if name is not MechanismName.WEIGHTED_ROUNDS]
"""The mechanisms that read the table once; the plans of rounds are tested in tests/analytics/test_discovery.py."""


@pytest.mark.parametrize("name", ONE_PASS)
def test_every_mechanism_can_be_forced_where_it_answers(name):
    domain = DOMAIN if name.startswith("known") else None
    found = plan(*question(k=2, contributions=2, domain=domain, mechanism=name))
    assert found.name.startswith(name)
    assert found.why.startswith(f"{found.name} as asked")
    wrong = None if domain else DOMAIN
    with pytest.raises(InvalidParameter, match=name):
        plan(*question(k=2, contributions=2, domain=wrong, mechanism=name))


@pytest.mark.parametrize("contributions", [3, 4, 5, 6, 8])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1)])
@pytest.mark.parametrize("domain", [None, tuple(range(200))], ids=["unknown", "known"])
def test_no_other_mechanism_counts_much_better_and_finds_about_as_well(contributions, epsilon, domain):
    """With 4 contributions at epsilon 0.5 Gaussian noise was taken: 63% more error of counts, 18% less lead needed."""
    bounds, total = question(k=10, contributions=contributions, epsilon=epsilon, domain=domain)
    chosen = plan(bounds, total).preview
    for name in ONE_PASS:
        if name.startswith("known") == (domain is not None):
            other = plan(bounds, replace(total, mechanism=name)).preview
            counts_better = other.expected_error < 0.8 * chosen.expected_error
            finds_as_well = lead(other) < 1.25 * lead(chosen)
            assert not (counts_better and finds_as_well), name


def lead(preview):
    return max(preview.detectable or 0, preview.shortfall or 0)


def test_histograms_of_a_known_domain_take_the_noise_with_the_least_mean_error():
    """At 8 contributions a Gaussian's 95% radius is the narrower one, and its mean error 14% more."""
    for contributions in (4, 8, 16):
        bounds, total = question(domain=tuple(range(200)), contributions=contributions, epsilon=Fraction(1, 2))
        errors = {
            plan(bounds, replace(total, mechanism=name)).preview.expected_error
            for name in (MechanismName.KNOWN_LAPLACE, MechanismName.KNOWN_GAUSSIAN)
        }
        assert plan(bounds, total).preview.expected_error == min(errors)


def test_reasons_say_each_only_where_each_interval_holds():
    """Items that their own noisy counts chose have intervals that hold on average."""
    each = "(with probability 95% each)"
    average = "(found with probability 95%, and 95% of the intervals hold on average)"
    for changes, words in (
        ({"k": 10}, each),
        ({"domain": DOMAIN, "contributions": 2}, each),
        ({"domain": DOMAIN, "contributions": 1, "k": 3}, average),
        ({"contributions": 2}, average),
        ({"contributions": 2, "limit": 20}, average),
        ({"contributions": 50}, average),
        ({"k": 5, "contributions": 1, "counts": CountNoise.NONE}, each),
    ):
        assert words in plan(*question(**changes)).why


def test_reasons_name_the_choice_and_the_runner_up():
    found = plan(*question(k=10))
    assert found.why.startswith("unknown_gumbel+gaussian: finds items whose count is")
    assert "next best, unknown_gumbel+laplace" in found.why
    assert str(found.preview.radius) in found.why


def test_without_a_delta_a_known_domain_is_answered_with_pure_privacy():
    found = plan(*question(domain=DOMAIN, contributions=2, delta=0))
    assert isinstance(found.mechanism, KnownLaplace)
    (use,) = found.mechanism.guarantees()
    assert Fraction(2) / Fraction(use.guarantee.scale) <= 1
    assert found.epsilon <= 1.0
    top = plan(*question(domain=DOMAIN, k=2, delta=0))
    assert sum(_loss(use) for use in top.mechanism.guarantees()) <= 1
    with pytest.raises(InvalidParameter, match="delta"):
        plan(*question(k=2, delta=0))
    with pytest.raises(InvalidParameter):
        plan(*question(domain=DOMAIN, contributions=2, delta=0, counts=CountNoise.GAUSSIAN))


def _loss(use):
    match use.guarantee:
        case BoundedRange(epsilon=epsilon):
            return use.count * Fraction(epsilon)
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity):
            return use.count * sensitivity / Fraction(scale)


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({"k": 1, "epsilon": Fraction(385, 1000), "delta": Fraction(1, 10**9)}, 360),
        ({"k": 1, "epsilon": Fraction(1), "delta": Fraction(1, 10**6)}, 108),
        ({"k": 2, "epsilon": Fraction(385, 1000), "delta": Fraction(1, 10**9)}, 530),
    ],
)
def test_one_or_two_picks_leave_gaussian_counts_what_they_need(changes, most):
    """Their epsilons are added up, which is less than their zCDP says; a search over splits finds 356, 106 and 520."""
    assert plan(*question(counts=CountNoise.GAUSSIAN, **changes)).merit <= most
