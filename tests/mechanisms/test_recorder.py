"""What reaches the noise on two neighbouring histograms differs by no more than the guarantee pays for."""

from fractions import Fraction

import numpy as np
import pytest
from neighbours import LABELS, Recorder, counted_mechanisms, gaussian_cost, neighbours, top_k_mechanisms

from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
    DiscreteLaplace,
    Gaussian,
    TruncatedDiscreteGaussian,
)
from setwise.mechanisms import unknown_domain
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.known_domain import KnownGumbel
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.noise.truncated_gaussian import TruncatedGaussianNoise
from setwise.mechanisms.unknown_domain import UnknownGumbel, UnknownLaplace

CELLS = [(1, 1), (2, 3), (8, 1), (9, 2), (50, 7)]


def paid(uses, per_item):
    """The number of counts that may differ, by how much, and the noise, according to the accountant's uses.

    A Gaussian is priced by its deviation over the sensitivity, so the sensitivity is told; of its noise, which counts
    may share, the cost is checked instead.
    """
    for use in uses:
        match use.guarantee:
            case DiscreteLaplace(scale=scale, sensitivity=tau):
                return use.count, tau, LaplaceNoise(scale=Fraction(scale))
            case Gaussian(sigma=sigma):
                return use.count, per_item, Fraction(use.count) / Fraction(sigma) ** 2
            case TruncatedDiscreteGaussian(sigma=sigma, bound=bound, sensitivity=tau):
                return use.count, tau, TruncatedGaussianNoise(sigma=Fraction(sigma), bound=bound)
    raise AssertionError(uses)


def assert_paid(paid_for, noise, changeable, per_item, labels):
    """Noise is what was paid for; where a Gaussian cost was, the worst move costs that, and not much less."""
    if not isinstance(paid_for, Fraction):
        assert noise == paid_for
        return
    worst = max(
        gaussian_cost(noise, [per_item] * changed + [0] * (labels - changed)) for changed in range(changeable + 1)
    )
    assert 0.95 * paid_for <= worst <= paid_for


def aligned(mechanism, histogram, seen):
    """Inputs by label: mechanisms over an unknown domain skip zeros, and those with a limit sort."""
    if len(seen.inputs) == len(LABELS):
        return seen.inputs
    if isinstance(mechanism, UnknownLaplace) and mechanism.limit is not None:
        kept, values = histogram.ranked(mechanism.limit).labels, seen.inputs[:-1]
    else:
        kept, values = histogram.positive().labels, seen.inputs
    found = dict(zip(kept, values.tolist(), strict=True))
    return np.array([found.get(label, 0) for label in LABELS])


@pytest.mark.parametrize(("contributions", "per_item"), CELLS)
@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("seed", range(3))
def test_counts_differ_by_what_is_paid_for(contributions, per_item, place, seed, monkeypatch):
    mechanism = counted_mechanisms(contributions, per_item)[place]
    recorder = Recorder(monkeypatch)
    pair = neighbours(contributions, per_item, seed)
    releases = [mechanism.release(histogram, None) for histogram in pair]
    first, second = recorder.noised
    assert first.noise == second.noise == mechanism.noise
    difference = aligned(mechanism, pair[1], second) - aligned(mechanism, pair[0], first)
    changed, moved = np.count_nonzero(difference), np.abs(difference).max()
    assert changed == contributions
    assert moved == per_item
    for release in releases:
        assert release.spent == mechanism.guarantees()
        if isinstance(mechanism, UnknownLaplace) and mechanism.limit is not None:
            (use,) = release.spent
            assert isinstance(use.guarantee, ApproxDP)
            # One Laplace step costs tau/scale; the threshold moves only if one count less does.
            assert Fraction(use.guarantee.epsilon) >= Fraction(int(np.abs(difference).sum())) / mechanism.noise.scale
            assert Fraction(use.guarantee.delta) >= mechanism.delta
        else:
            count, tau, noise = paid(release.spent, moved)
            assert (count, tau) == (changed, moved)
            assert_paid(noise, first.noise, contributions, per_item, len(LABELS))


@pytest.mark.parametrize("contributions", [1, 8, 9, 39, 40, 50, None])
@pytest.mark.parametrize("place", range(4))
def test_a_joint_count_release_pays_for_the_counts_that_can_differ(contributions, place, monkeypatch):
    mechanism = top_k_mechanisms(contributions, 2)[place]
    recorder = Recorder(monkeypatch)
    release = mechanism.release(neighbours(1, 2)[0], None)
    count, tau, noise = paid(release.spent, 2)
    labels = len(release.items)
    assert labels == 40
    assert count == (labels if contributions is None else min(labels, contributions))
    assert tau == 2
    assert_paid(noise, recorder.noised[0].noise, count, tau, labels)
    assert release.noise == recorder.noised[0].noise
    assert len(recorder.noised[0].inputs) == labels
    assert release.spent[:-1] == mechanism.discovery.guarantees()


@pytest.mark.parametrize("per_item", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_gumbel_scores_have_the_range_that_is_paid_for(per_item, seed, monkeypatch):
    """All counts may move, but the same way and by at most tau, so each pick's log odds span rate * tau = epsilon."""
    recorder = Recorder(monkeypatch)
    pair = neighbours(len(LABELS), per_item, seed)
    epsilon = Fraction(1, 3)
    known = KnownGumbel(domain=LABELS, k=3, per_item=per_item, epsilon=epsilon)
    unknown = UnknownGumbel(
        k=3, limit=200, contributions=None, per_item=per_item, epsilon=epsilon, delta=Fraction("0.01")
    )
    for mechanism in (known, unknown):
        for histogram in pair:
            (use, *_) = mechanism.release(histogram, None).spent
            assert isinstance(use.guarantee, BoundedRange)
            assert Fraction(use.guarantee.epsilon) >= recorder.ranked[-1].noise * per_item
            assert use.guarantee.epsilon == pytest.approx(float(epsilon), rel=1e-15)
    before, after = recorder.ranked[:2]
    shift = after.inputs - before.inputs
    assert before.noise == after.noise
    assert int(shift.max() - shift.min()) <= per_item
    assert set(np.unique(shift)) <= {0, per_item}


def test_ties_are_broken_by_the_label_alone(monkeypatch):
    """However an engine orders its rows, the same labels take part: among equals, the first by name."""
    counts = dict.fromkeys(LABELS[:30], 5) | {LABELS[40]: 9}
    mechanisms = [
        UnknownGumbel(k=2, limit=4, contributions=1, epsilon=Fraction(1), delta=Fraction("0.01")),
        UnknownLaplace(contributions=1, scale=Fraction(1), delta=Fraction("0.01"), limit=4),
    ]
    expected = (LABELS[40], *LABELS[:4])
    for seed in range(5):
        names = np.random.default_rng(seed).permutation(list(counts)).tolist()
        histogram = Histogram.of(names, [counts[name] for name in names])
        assert histogram.ranked(5).labels == expected
        for mechanism in mechanisms:
            recorder = Recorder(monkeypatch)
            mechanism.release(histogram, None)
            (seen,) = recorder.noised + recorder.ranked
            assert seen.inputs[:4].tolist() == [9, 5, 5, 5]
            assert len(seen.inputs) == 5


def test_the_threshold_takes_part_like_a_count(monkeypatch):
    """Its noise is the counts' noise, and it stands on the count ranked just below the limit."""
    histogram = Histogram.of(["a", "b", "c", "d"], [90, 70, 50, 30])
    gumbel = UnknownGumbel(k=2, limit=2, contributions=1, per_item=3, epsilon=Fraction(1), delta=Fraction("0.01"))
    laplace = UnknownLaplace(contributions=1, per_item=3, scale=Fraction(1), delta=Fraction("0.01"), limit=2)
    recorder = Recorder(monkeypatch)
    gumbel.release(histogram, None)
    laplace.release(histogram, None)
    assert recorder.ranked[0].inputs.tolist() == [90, 70, 50 + gumbel.offset]
    assert recorder.noised[0].inputs.tolist() == [90, 70, 50 + 3 + laplace.margin]
    few = Histogram.of(["a", "z"], [90, 0])
    gumbel.release(few, None)
    laplace.release(few, None)
    assert recorder.ranked[1].inputs.tolist() == [90, gumbel.offset]
    assert recorder.noised[1].inputs.tolist() == [90, 3 + laplace.margin]


@pytest.mark.parametrize("noise", [-1000, 1000])
def test_the_laplace_threshold_moves_with_its_own_noise(noise, monkeypatch):
    """The last number given to the noise is the threshold: a large draw there hides every label or shows every one."""
    laplace = UnknownLaplace(contributions=1, scale=Fraction(1), delta=Fraction("0.01"), limit=2)

    def on_the_threshold(counts, _noise, _randomness):
        return counts + np.array([0, 0, noise])

    monkeypatch.setattr(unknown_domain, "with_noise", on_the_threshold)
    release = laplace.release(Histogram.of(["a", "b", "c"], [500, 400, 395]), None)
    assert len(release.items) == (2 if noise < 0 else 0)
