"""On small cases the exact output law obeys the accountant: no event betrays more than the composed guarantee says."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from output_laws import MOST_LEFT_OUT, hockey_stick, noise_law, order_law, unmatched

from setwise.accounting.compose import compose
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from setwise.mechanisms.noise.shared_gaussian import SharedGaussianNoise
from setwise.mechanisms.unknown_domain import (
    Threshold,
    TruncatedGaussian,
    UnknownGaussian,
    UnknownGumbel,
    UnknownLaplace,
)

LABELS = ("a", "b", "c", "d")
EPSILONS = (0.0, 0.3, 1.0, 2.0, 4.0)


def histogram(*counts):
    return Histogram.of(LABELS[: len(counts)], counts)


def promised(uses):
    """What the accountant promises at each epsilon."""
    composed = compose(uses)
    return {epsilon: composed.delta(epsilon) for epsilon in EPSILONS}


def assert_within(first, second, promise, slack=0.0):
    for epsilon, delta in promise.items():
        room = slack * (1 + np.exp(epsilon)) + 1e-12
        assert hockey_stick(first, second, epsilon) <= delta.upper + room
        assert hockey_stick(second, first, epsilon) <= delta.upper + room


@pytest.mark.parametrize("per_item", [1, 2])
@pytest.mark.parametrize(
    ("mechanism", "lost"),
    [
        (lambda tau: KnownLaplace(domain=("a", "b"), contributions=2, per_item=tau, scale=Fraction(3, 4)), 0.0),
        (lambda tau: KnownGaussian(domain=("a",), contributions=1, per_item=tau, sigma=Fraction(3, 2)), 0.4),
    ],
)
def test_noise_on_a_known_domain_is_priced_exactly(mechanism, lost, per_item):
    """All counts move, so the accountant's bracket must hold the truth, not merely exceed it.

    Rounding the Gaussian hides a little of it, so there the truth may lie below by that share.
    """
    mechanism = mechanism(per_item)
    counts = (4, 1)[: len(mechanism.domain)]
    first = noise_law(mechanism, histogram(*counts))
    second = noise_law(mechanism, histogram(*(count + per_item for count in counts)))
    promise = promised(mechanism.guarantees())
    assert_within(first, second, promise, MOST_LEFT_OUT)
    for epsilon, delta in promise.items():
        room = MOST_LEFT_OUT * (1 + np.exp(epsilon))
        assert hockey_stick(first, second, epsilon) >= delta.lower * (1 - lost - 1e-6) - room


@pytest.mark.parametrize(
    ("labels", "contributions", "per_item", "sigma", "attained"),
    [
        (2, 2, 1, "3/2", 0.9),
        (2, 2, 2, "3/2", 0.9),
        (3, 2, 1, "1", 0.8),
        pytest.param(3, 3, 1, "3/2", 0.9, marks=pytest.mark.slow),
        pytest.param(3, 2, 1, "3/2", 0.8, marks=pytest.mark.slow),
    ],
)
def test_noise_that_counts_share_is_within_what_is_paid(labels, contributions, per_item, sigma, attained):
    """Whichever counts move, and by how much; the worst move takes nearly all that is paid for at small epsilons."""
    mechanism = KnownGaussian(
        domain=LABELS[:labels], contributions=contributions, per_item=per_item, sigma=Fraction(sigma)
    )
    assert isinstance(mechanism.noise, SharedGaussianNoise)
    promise = promised(mechanism.guarantees())
    before = (4, 1, 0)[:labels]
    first = noise_law(mechanism, histogram(*before))
    worst = 0.0
    for changes in itertools.product(range(per_item + 1), repeat=labels):
        if 0 < np.count_nonzero(changes) <= contributions and tuple(sorted(changes)) == changes:
            second = noise_law(mechanism, histogram(*(c + change for c, change in zip(before, changes, strict=True))))
            assert_within(first, second, promise, MOST_LEFT_OUT * 10)
            worst = max(worst, hockey_stick(first, second, 0.0))
    assert worst >= attained * promise[0.0].lower


@pytest.mark.parametrize(("k", "per_item", "epsilon"), [(1, 1, "1"), (2, 1, "1/2"), (3, 2, "1"), (4, 1, "2")])
def test_known_gumbel(k, per_item, epsilon):
    mechanism = KnownGumbel(domain=LABELS, k=k, per_item=per_item, epsilon=Fraction(epsilon))
    promise = promised(mechanism.guarantees())
    source = np.random.default_rng(k)
    for before in ((0, 0, 0, 0), (3, 2, 2, 0), tuple(source.integers(0, 5, 4).tolist())):
        law = order_law(mechanism, histogram(*before))
        for changes in itertools.product((0, per_item), repeat=4):
            after = histogram(*(count + change for count, change in zip(before, changes, strict=True)))
            assert_within(law, order_law(mechanism, after), promise)


def unknown_gumbel_cases():
    for k, limit, contributions, per_item in (
        (1, 1, None, 1),
        (1, 3, None, 1),
        (2, 2, 1, 2),
        (2, 3, 2, 1),
        (3, 3, 3, 1),
        (2, 3, None, 1),
    ):
        yield UnknownGumbel(
            k=k,
            limit=limit,
            contributions=contributions,
            per_item=per_item,
            epsilon=Fraction(1),
            delta=Fraction("0.02"),
        )


@pytest.mark.parametrize(
    "mechanism", list(unknown_gumbel_cases()), ids=lambda m: f"k{m.k}-limit{m.limit}-{m.contributions}"
)
def test_unknown_gumbel(mechanism):
    promise = promised(mechanism.guarantees())
    most = 4 if mechanism.contributions is None else mechanism.contributions
    cases = [(0, 0, 0, 0), (1, 1, 1, 1), (3, 2, 2, 0), (9, 2, 1, 1), (2, 2, 1, 0), (30, 20, 0, 0)]
    for before in cases:
        law = order_law(mechanism, histogram(*before))
        for changes in itertools.product((0, mechanism.per_item), repeat=4):
            if np.count_nonzero(changes) > most:
                continue
            after = histogram(*(count + change for count, change in zip(before, changes, strict=True)))
            other = order_law(mechanism, after)
            assert_within(law, other, promise)
            assert unmatched(law, other) <= mechanism.delta
            assert unmatched(other, law) <= mechanism.delta


def test_every_changeable_label_is_inside_the_logarithm():
    """Three labels that only the neighbour has share one delta: with ln(1/delta) they would take three of them."""
    mechanism = UnknownGumbel(
        k=3, limit=3, contributions=3, per_item=1, epsilon=Fraction(1, 20), delta=Fraction("0.02")
    )
    new = unmatched(order_law(mechanism, histogram(1, 1, 1)), order_law(mechanism, histogram(0, 0, 0)))
    assert 0.9 * mechanism.delta / 1.2 <= new <= mechanism.delta


@pytest.mark.parametrize(
    ("contributions", "per_item", "limit"),
    [
        (1, 1, 1),
        pytest.param(1, 2, 2, marks=pytest.mark.slow),
        pytest.param(2, 1, 2, marks=pytest.mark.slow),
        (2, 1, None),
        (1, 2, None),
    ],
)
def test_unknown_laplace(contributions, per_item, limit):
    mechanism = UnknownLaplace(
        contributions=contributions,
        per_item=per_item,
        scale=Fraction(1, 3) * contributions,
        delta=Fraction("0.05"),
        limit=limit,
    )
    promise = promised(mechanism.guarantees())
    cases = [(0, 0), (2, 1), (5, 5)] if limit is None else [(0, 0, 0), (4, 3, 3)]
    for before in cases:
        law = noise_law(mechanism, histogram(*before))
        for changed in itertools.combinations(range(len(before)), contributions):
            after = [count + per_item * (place in changed) for place, count in enumerate(before)]
            other = noise_law(mechanism, histogram(*after))
            assert_within(law, other, promise, MOST_LEFT_OUT * 10)
            assert unmatched(law, other) <= mechanism.delta
            assert unmatched(other, law) <= mechanism.delta


@pytest.mark.parametrize(("contributions", "per_item"), [(1, 1), (2, 1), (1, 2), (2, 3)])
def test_unknown_gaussian(contributions, per_item):
    mechanism = UnknownGaussian(
        contributions=contributions, per_item=per_item, sigma=Fraction(3, 2), delta=Fraction("0.02") * contributions
    )
    promise = promised(mechanism.guarantees())
    for before in ((0, 0), (3, 1), (9, 7)):
        law = noise_law(mechanism, histogram(*before))
        for changed in itertools.combinations(range(2), contributions):
            after = [count + per_item * (place in changed) for place, count in enumerate(before)]
            other = noise_law(mechanism, histogram(*after))
            assert_within(law, other, promise, MOST_LEFT_OUT)
            assert unmatched(law, other) <= mechanism.delta
            assert unmatched(other, law) <= mechanism.delta


def test_the_gaussian_threshold_is_as_low_as_can_be():
    """New labels at the highest count they can have take nearly all of delta, and one step lower they take more."""
    mechanism = UnknownGaussian(contributions=2, per_item=3, sigma=Fraction(10), delta=Fraction("0.01"))
    new = unmatched(noise_law(mechanism, histogram(3)), noise_law(mechanism, histogram(0)))
    assert 0.9 * mechanism.delta / 2 <= new <= mechanism.delta / 2


@pytest.mark.parametrize("threshold", list(Threshold))
@pytest.mark.parametrize(("contributions", "per_item"), [(1, 1), (2, 1), (3, 1), (2, 2)])
def test_truncated_gaussian(contributions, per_item, threshold):
    mechanism = TruncatedGaussian(
        contributions=contributions,
        per_item=per_item,
        sigma=Fraction(2) if per_item == 1 else Fraction(1),
        delta=Fraction("0.1") * contributions,
        threshold=threshold,
    )
    promise, concentrated = promised(mechanism.guarantees()), promised([mechanism.concentrated()])
    cases = [(0, 0, 0)[:contributions], (3, 1, 0)[:contributions], (9, 7, 8)[:contributions]]
    for before in cases:
        law = noise_law(mechanism, histogram(*before))
        for changes in itertools.product((0, per_item), repeat=len(before)):
            after = [count + change for count, change in zip(before, changes, strict=True)]
            other = noise_law(mechanism, histogram(*after))
            assert_within(law, other, promise, MOST_LEFT_OUT)
            assert_within(law, other, concentrated, MOST_LEFT_OUT)
            assert unmatched(law, other) <= mechanism.delta
            assert unmatched(other, law) <= mechanism.delta
