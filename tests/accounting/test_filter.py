import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.accounting.compose import compose
from setwise.accounting.conversions import optimised_delta
from setwise.accounting.guarantees import ApproxDP, Gaussian, PureDP, Use, ZeroConcentratedDP
from setwise.accounting.zcdp_filter import Spent, ZcdpOdometer, filter_parameters
from setwise.errors import BudgetExhausted, InvalidParameter
from tests.accounting.admission import AdmittingFilter
from tests.accounting.strategies import approximate, gaussians, laplaces, pure, ranges, uses_of

concentrated = st.builds(
    ZeroConcentratedDP, rho=st.floats(1e-4, 0.1), xi=st.floats(-1e-4, 0.05), delta=st.sampled_from([0.0, 1e-9])
)
sequences = uses_of(
    st.one_of(pure, ranges, gaussians, laplaces, approximate, concentrated), most=12, count=st.integers(1, 5)
)


@given(sequences, st.floats(0.2, 5.0), st.sampled_from([1e-9, 1e-6, 1e-3]))
def test_never_passes_its_budget(uses, epsilon, delta):
    account = AdmittingFilter(epsilon=epsilon, delta=delta)
    admitted = []
    for use in uses:
        if account.admits(use):
            account = account.admit(use)
            admitted.append(use)
        else:
            with pytest.raises(BudgetExhausted, match="budget"):
                account.admit(use)
        assert 0.0 <= account.left <= 1.0
        assert account.spent.rho <= account.rho_budget
        assert account.spent.failure_sum <= delta / 2
    if admitted:
        assert compose(admitted, "adaptive").delta(epsilon).upper <= delta * (1 + 1e-12)


@given(sequences, st.randoms(use_true_random=False))
def test_sums_are_rounded_up_and_care_not_for_order(uses, random):
    shuffled = list(uses)
    random.shuffle(shuffled)
    one, other = filter_parameters(uses), filter_parameters(shuffled)
    assert one.rho == pytest.approx(other.rho, rel=1e-12)
    assert one.failure_sum == pytest.approx(other.failure_sum, rel=1e-12)
    every = [(use.guarantee.zero_concentrated(), use.count) for use in uses]
    rho = sum(count * (Fraction(p.rho) + Fraction(max(p.xi, 0.0))) for p, count in every)
    failed = sum(count * Fraction(p.delta) for p, count in every)
    assert rho <= Fraction(one.rho) <= rho * Fraction(1_000_000_001, 1_000_000_000)
    assert failed <= Fraction(one.failure_sum) <= failed * Fraction(1_000_000_001, 1_000_000_000)


def test_admits_up_to_the_budget_and_refuses_after():
    account = AdmittingFilter(epsilon=1.0, delta=1e-6)
    one = Use(Gaussian(sigma=20.0))
    admitted = 0
    while account.admits(one):
        account = account.admit(one)
        admitted += 1
        assert admitted < 10_000
    rho = 0.5 / 400
    assert admitted == math.floor(account.rho_budget / rho * (1 - 1e-12))
    assert optimised_delta(0.0, admitted * rho, 1.0).upper <= 5e-7
    assert optimised_delta(0.0, (admitted + 1) * rho, 1.0).upper > 5e-7
    with pytest.raises(BudgetExhausted):
        account.admit(one)
    assert not account.admits(Use(PureDP(epsilon=0.2)))


def test_failures_have_their_own_share():
    account = AdmittingFilter(epsilon=5.0, delta=1e-6, failure_share=0.25)
    assert account.admits(Use(ApproxDP(epsilon=0.01, delta=2.4e-7)))
    assert not account.admits(Use(ApproxDP(epsilon=0.01, delta=2.6e-7)))
    assert not account.admits(Use(ApproxDP(epsilon=0.01, delta=1e-7), 3))
    assert not AdmittingFilter(epsilon=5.0, delta=1e-6, failure_share=0.0).admits(
        Use(ApproxDP(epsilon=0.01, delta=1e-12))
    )


def test_refusing_leaves_the_filter_as_it_was():
    account = AdmittingFilter(epsilon=1.0, delta=1e-6).admit(Use(Gaussian(sigma=20.0), 3))
    before = account.spent
    with pytest.raises(BudgetExhausted):
        account.admit(Use(Gaussian(sigma=0.1)))
    assert account.spent == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"delta": 0.0},
        {"delta": 1.0},
        {"failure_share": 1.0},
        {"failure_share": -0.1},
    ],
)
def test_bad_budgets(wrong):
    with pytest.raises(InvalidParameter):
        AdmittingFilter(**{"epsilon": 1.0, "delta": 1e-6, **wrong})


@given(sequences)
def test_odometer_never_turns_back(uses):
    odometer = ZcdpOdometer(delta=1e-6)
    before = odometer.epsilon()
    for use in uses:
        odometer = odometer.record(use)
        after = odometer.epsilon()
        assert after >= before
        before = after
    assert odometer.answer().upper == before


@given(sequences)
def test_odometer_never_reads_less_than_the_filter(uses):
    """Being right at every moment costs more than being right at one known in advance."""
    odometer = ZcdpOdometer(delta=1e-6)
    for use in uses:
        odometer = odometer.record(use)
    reading = odometer.epsilon()
    if reading < math.inf:
        assert Spent(odometer.spent.rho, odometer.spent.failure_sum).delta(reading).upper <= 1e-6


@given(sequences, st.floats(1e-9, 10.0))
def test_levels_that_fall_are_no_less_sound(uses, most):
    odometer = ZcdpOdometer(delta=1e-6, most_rho=most)
    for use in uses:
        before = odometer.epsilon()
        odometer = odometer.record(use)
        assert odometer.epsilon() >= before
    if odometer.epsilon() < math.inf:
        assert odometer.spent.delta(odometer.epsilon()).upper <= 1e-6


def test_levels_that_fall_read_close_to_a_filter_that_knew_the_end():
    for share in (0.1, 0.25, 0.5, 0.75):
        rho = 0.08 * share
        reading = ZcdpOdometer(delta=1e-6, most_rho=0.08, spent=Spent(rho)).epsilon()
        known = rho + 2.0 * math.sqrt(rho * math.log(2e6))
        assert known < reading < 1.12 * known
        assert reading < ZcdpOdometer(delta=1e-6, spent=Spent(rho)).epsilon()


@pytest.mark.parametrize("words", [{"first_rho": 1e-3}, {"most_rho": 0.5}, {"most_rho": 20.0}])
def test_odometer_is_passed_no_oftener_than_delta_at_any_moment(words):
    """Gaussians reach the bound of zCDP at every order, so nearly all of delta is used by who watches every moment."""
    delta, paths, steps = 0.2, 20_000, 400
    rhos = np.geomspace(1e-5, 5e-3, steps)
    losses = np.random.default_rng(7).normal(rhos, np.sqrt(2.0 * rhos), (paths, steps)).cumsum(axis=1)
    sums = rhos.cumsum()
    readings = [ZcdpOdometer(delta=delta, failure_share=0.0, spent=Spent(rho), **words).epsilon() for rho in sums]
    passed = (losses > np.array(readings)).any(axis=1).mean()
    assert 0.0 < passed <= delta


def test_odometer_gives_up_when_failures_exceed_its_delta():
    assert ZcdpOdometer(delta=1e-9).record(Use(ApproxDP(epsilon=0.1, delta=1e-6))).epsilon() == math.inf
