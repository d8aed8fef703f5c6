"""Gaussian wallets: what they admit, and that no analyst passes their promise."""

import math
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    PureDP,
    Use,
    ZeroConcentratedDP,
)
from setwise.accounting.prices import after_paying
from setwise.accounting.wallet import gaussian_of, wallet_for
from setwise.errors import BudgetExhausted, InvalidParameter
from tests.accounting.admission import Admission, AdmittingWallet
from tests.accounting.strategies import approximate, gaussians, laplaces, pure, ranges, uses_of
from tests.sizes import examples

sequences = uses_of(st.one_of(pure, ranges, gaussians, laplaces, approximate), most=8, count=st.integers(1, 5))


def admitted(wallet, use):
    count = 0
    while wallet.admits(use):
        wallet = wallet.admit(use)
        count += 1
        assert count < 1000
    return count, wallet


@pytest.mark.parametrize(
    ("guarantee", "wanted"),
    [
        (PureDP(epsilon=0.4), 5),
        (PureDP(epsilon=0.1), 20),  # 19 are paid, and twenty still add up to 2
        (PureDP(epsilon=0.05), 79),
        (BoundedRange(epsilon=0.1), 79),
        (Gaussian(sigma=20.0), 80),
        (DiscreteGaussian(sigma=20.0), 80),
    ],
)
def test_uses_admitted_on_the_fly(guarantee, wanted):
    count, _ = admitted(AdmittingWallet.for_promise(epsilon=2.0, delta=1e-6), Use(guarantee))
    assert count == wanted


def test_the_wallet_alone_pays_for_nineteen_and_for_none():
    wallet = AdmittingWallet.of(AdmittingWallet.for_promise(epsilon=2.0, delta=1e-6, failure_share=0.0).size)
    assert admitted(wallet, Use(PureDP(epsilon=0.1)))[0] == 19
    assert admitted(wallet, Use(PureDP(epsilon=0.4)))[0] == 0


@given(st.floats(0.01, 20.0), st.floats(1e-12, 0.1))
def test_a_wallet_is_the_largest_that_keeps_its_promise(epsilon, delta):
    size = wallet_for(epsilon, delta)
    assert compose([gaussian_of(size)]).delta(epsilon).upper <= delta * (1 + 1e-12)
    assert compose([Gaussian(sigma=1 / math.sqrt(size * (1 + 1e-8)))]).delta(epsilon).upper > delta


@given(sequences, st.floats(0.2, 5.0), st.sampled_from([1e-9, 1e-6, 1e-3]))
@settings(max_examples=examples(40))
def test_never_passes_its_budget(uses, epsilon, delta):
    wallet = AdmittingWallet.for_promise(epsilon=epsilon, delta=delta)
    for use in uses:
        before = wallet
        if wallet.admits(use):
            wallet = wallet.admit(use)
            if wallet.left is not None:
                assert wallet.left <= before.left
                assert wallet.left <= after_paying(use.guarantee.price, use.count, before.left)
        else:
            with pytest.raises(BudgetExhausted):
                wallet.admit(use)
        assert wallet.failure_sum <= wallet.failure_limit
        assert wallet.left is not None or wallet.loss_sum <= Fraction(epsilon) + Fraction(2e-14)


def test_once_overdrawn_always_overdrawn():
    wallet = AdmittingWallet.for_promise(epsilon=2.0, delta=1e-6)
    assert wallet.admission(Use(PureDP(epsilon=0.4))) is Admission.PLAIN_SUM
    assert wallet.admission(Use(PureDP(epsilon=0.1))) is Admission.PAID
    overdrawn = wallet.admit(Use(PureDP(epsilon=0.4)))
    assert overdrawn.left is None
    assert overdrawn.admits(Use(PureDP(epsilon=1.0)))
    assert not overdrawn.admits(Use(Gaussian(sigma=1e6)))
    assert not overdrawn.admit(Use(PureDP(epsilon=1.0))).admits(Use(PureDP(epsilon=0.7)))


def test_an_unbounded_loss_ends_plain_sums():
    wallet = AdmittingWallet.for_promise(epsilon=2.0, delta=1e-6).admit(Use(Gaussian(sigma=1000.0)))
    assert wallet.loss_sum is None
    assert not wallet.admits(Use(PureDP(epsilon=0.4)))


def test_in_an_overdrawn_hybrid_registered_draws_count_towards_the_sum():
    wallet = AdmittingWallet.of(0.05, loss_limit=1.0)
    registered = Use(PureDP(epsilon=0.3))
    for _ in range(5):  # no limit while the wallet is not overdrawn
        wallet.admit_registered(registered)
    once = wallet.admit_registered(registered).admit(Use(PureDP(epsilon=0.4)))
    assert once.left is None
    twice = once.admit_registered(registered)
    with pytest.raises(BudgetExhausted, match="overdrawn"):
        twice.admit_registered(registered)
    with pytest.raises(BudgetExhausted, match="overdrawn"):
        once.admit_registered(Use(Gaussian(sigma=1e9)))


def test_failures_have_their_own_line():
    wallet = AdmittingWallet.for_promise(epsilon=5.0, delta=1e-6, failure_share=0.25)
    assert wallet.admits(Use(ApproxDP(epsilon=0.01, delta=2.4e-7)))
    assert not wallet.admits(Use(ApproxDP(epsilon=0.01, delta=1e-7), 3))
    assert "fails outright" in wallet.shortage(Use(ApproxDP(epsilon=0.01, delta=1e-7), 3))
    none = AdmittingWallet.for_promise(epsilon=5.0, delta=1e-6, failure_share=0.0)
    assert not none.admits(Use(ApproxDP(epsilon=0.0, delta=1e-12)))
    assert none.size > wallet.size
    assert compose([gaussian_of(wallet.size)]).delta(5.0).upper + wallet.failure_limit <= 1e-6
    threshold = wallet.admit(Use(ApproxDP(epsilon=0.0, delta=1e-9)))
    assert threshold.left == wallet.left


def test_refusals_say_what_would_fit():
    _, wallet = admitted(
        AdmittingWallet.for_promise(epsilon=2.0, delta=1e-6, failure_share=0.02), Use(PureDP(epsilon=0.05))
    )
    assert wallet.shortage(Use(PureDP(epsilon=0.05))) == (
        "it costs more than is left; Gaussian noise of sigma 39.36 would fit"
    )
    assert wallet.admits(Use(Gaussian(sigma=39.36)))
    assert not wallet.admits(Use(Gaussian(sigma=39.35)))
    assert "no price" in wallet.shortage(Use(ZeroConcentratedDP(rho=1e-3)))


@pytest.mark.parametrize(
    "wrong", [{"epsilon": -1.0}, {"delta": 0.0}, {"delta": 1.0}, {"failure_share": 1.0}, {"delta": 5e-324}]
)
def test_bad_promises(wrong):
    with pytest.raises(InvalidParameter):
        AdmittingWallet.for_promise(**{"epsilon": 1.0, "delta": 1e-6, **wrong})
    with pytest.raises(InvalidParameter):
        AdmittingWallet.of(0.0)


STEP = 0.1
"""Losses of the brute force are multiples of this."""


def promise(size, x):
    """The profile of a Gaussian with mu^2 = size."""
    mu = math.sqrt(size)
    return float(ndtr(mu / 2 - x / mu) - math.exp(x) * ndtr(-mu / 2 - x / mu))


def best_adaptive_analyst(sizes, ranges, limit=None):
    """Return the largest profile, at x steps, over all analysts, by (left, sum of steps, registered, x).

    She may run randomized responses of `sizes` steps and generalized ones of range `ranges` for as long as the wallet
    pays, or, with a `limit`, all steps together stay within it; and draw registered randomized responses.
    """

    @cache
    def paid(bounded, steps, left):
        if left is None:
            return None
        guarantee = BoundedRange(epsilon=steps * STEP) if bounded else PureDP(epsilon=steps * STEP)
        found = after_paying(guarantee.price, 1, left)
        return None if found is None else round(found, 12)

    @cache
    def value(left, total, registered, x):
        best = max(0.0, -math.expm1(x * STEP))
        choices = [(False, steps, paid(False, steps, left), registered) for steps in sizes]
        choices += [(True, steps, paid(True, steps, left), registered) for steps in ranges]
        choices += [(False, e, left, registered[:i] + registered[i + 1 :]) for i, e in enumerate(registered)]
        for bounded, steps, left_after, rest in choices:
            after = total + steps if limit is not None else 0
            if left_after is None and (limit is None or after > limit):
                continue
            after = after if limit is None else min(after, limit + 1)
            if not bounded:
                high = 1 / (1 + math.exp(-steps * STEP))
                best = max(
                    best,
                    high * value(left_after, after, rest, x - steps)
                    + (1 - high) * value(left_after, after, rest, x + steps),
                )
                continue
            for t in range(steps + 1):
                high = math.expm1((t - steps) * STEP) / math.expm1(-steps * STEP)
                best = max(
                    best,
                    high * value(left_after, after, rest, x - t)
                    + (1 - high) * value(left_after, after, rest, x + steps - t),
                )
        return best

    return value


@pytest.mark.parametrize(("size", "sizes", "bounded"), [(0.3, (2, 4), ()), (0.5, (3, 5), ()), (0.3, (3,), (4, 6))])
def test_no_analyst_passes_the_promise_of_a_wallet(size, sizes, bounded):
    value = best_adaptive_analyst(sizes, bounded)
    reached = [value(size, 0, (), x) / promise(size, x * STEP) for x in range(20)]
    assert 0.5 < max(reached) <= 1.0


@pytest.mark.parametrize(
    ("size", "sizes", "bounded", "limit"), [(0.6, (2, 4), (), 12), (0.3, (3,), (4,), 10), (0.2, (1, 3, 4), (), 14)]
)
def test_no_analyst_passes_the_promise_by_taking_the_better_of_both_rules(size, sizes, bounded, limit):
    value = best_adaptive_analyst(sizes, bounded, limit)
    assert 0.0 < value(size, 0, (), limit) <= promise(size, limit * STEP)


def test_no_analyst_passes_the_promise_of_a_hybrid():
    size, registered = 0.3, (5, 5, 3)
    value = best_adaptive_analyst((2, 4), ())
    hybrid = compose([*(PureDP(epsilon=steps * STEP) for steps in registered), gaussian_of(size)])
    for x in range(0, 20, 4):
        assert value(size, 0, registered, x) <= hybrid.delta(x * STEP).upper


def test_on_the_fly_the_wallet_beats_the_zcdp_filter():
    answer = compose([Use(PureDP(epsilon=0.05), 79)], "adaptive").epsilon(1e-6)
    assert answer.method == "gaussian-wallet"
    assert answer.upper <= 2.0
    assert "mu = 0.447" in answer.statement
    zcdp = compose(["zcdp:0.05"], "adaptive").epsilon(1e-6)
    assert zcdp.method == "zcdp-filter"
    assert "rho = 0.05" in zcdp.statement
    assert compose(["pure:0.4x5"], "adaptive").epsilon(1e-6).method == "basic-composition"
    assert compose([Use(Laplace(scale=20.0), 79)], "adaptive").epsilon(1e-6).upper < answer.upper


@given(sequences, st.sampled_from([1e-9, 1e-6]))
@settings(max_examples=examples(20))
def test_the_wallet_of_a_composition_pays_for_its_uses_in_any_order(uses, delta):
    from setwise.accounting.methods.gaussian_majorant import in_any_order

    size = in_any_order([(use.guarantee, use.count) for use in uses])
    if 0.0 < size < 1e6:
        for order in (uses, list(reversed(uses))):
            wallet = AdmittingWallet.of(size * (1 + 1e-9), failure_limit=1.0)
            for use in order:
                wallet = wallet.admit(use)
                assert wallet.left is not None


def test_a_share_of_failures_that_leaves_nothing_is_refused():
    with pytest.raises(InvalidParameter, match="failure_share leaves nothing of delta"):
        AdmittingWallet.for_promise(epsilon=10.0, delta=1e-5, failure_share=0.9999999999999999)
