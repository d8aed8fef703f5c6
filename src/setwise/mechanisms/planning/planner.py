"""Chooses and calibrates the mechanism for a request, before any data is touched."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias, assert_never

from setwise.accounting.brackets import float_below
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from setwise.mechanisms.planning.cost import (
    MOST_SPREAD,
    EstimatedSpread,
    Price,
    decimal,
    estimated_price,
    estimated_spread,
    least_spread,
    searched_price,
)
from setwise.mechanisms.planning.request import Bounds, CountNoise, MechanismName, Total
from setwise.mechanisms.planning.search import Split, ranking_shortfall, splits, weighed
from setwise.mechanisms.release import CONFIDENCE, ErrorEstimate
from setwise.mechanisms.statistics import HistogramMechanism
from setwise.mechanisms.two_phase import Counts, GaussianCounts, LaplaceCounts, TwoPhaseTopK
from setwise.mechanisms.unknown_domain import TruncatedGaussian, UnknownGaussian, UnknownGumbel, UnknownLaplace

Mechanism: TypeAlias = HistogramMechanism

_WORTH_A_LOOK = 1.5
"""The noise of a mechanism is estimated when its rough merit is within this factor of the best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The mechanism chosen, the epsilon it is certified to cost at the total's delta, and the error to expect of it.

    `name` is the mechanism's, with the noise of its counts where they are a second phase. `merit` weighs by how much a
    label must lead to come out against the mean error of its count: the smaller, the better. `why` says in a sentence
    what the choice was between.
    """

    mechanism: Mechanism
    name: str
    epsilon: float
    preview: ErrorEstimate
    merit: float
    why: str


def plan(bounds: Bounds, total: Total, confidence: Fraction = CONFIDENCE) -> Choice:
    """Return the best mechanism within the bounds, with the total split and the noise calibrated to it.

    Ensures: the set-wise composition of the mechanism's guarantees is certified to be within (epsilon, delta). Of the
        mechanisms that can answer, the one of the smallest estimated merit is taken.
    """
    if total.counts is CountNoise.NONE and bounds.k is None:
        raise InvalidParameter("a histogram without counts says nothing: give k, or ask for counts")
    tried, unlikely = _estimates(bounds, total, confidence)
    for index, rough in enumerate(tried):
        best = _calibrated(rough.split, rough.spread, bounds, total, confidence)
        if best is not None:
            others = [each.choice for each in tried[:index] + tried[index + 1 :]]
            return replace(best, why=_why(best, others, unlikely, bounds, total))
    raise Unattainable(_no_noise([each.split for each in tried], bounds, total))


def rough_plans(bounds: Bounds, total: Total, confidence: Fraction = CONFIDENCE) -> list[Choice]:
    """Return about what `plan` chooses between, best first: for a release that is certified together with others."""
    return [rough.choice for rough in _estimates(bounds, total, confidence)[0]]


@dataclass(frozen=True, slots=True)
class _Rough:
    """A split of the total with about the least spread that it buys, and the plan that this would be."""

    split: Split
    spread: EstimatedSpread
    choice: Choice


def _estimates(bounds: Bounds, total: Total, confidence: Fraction) -> tuple[list[_Rough], tuple[Split, ...]]:
    """Return the mechanisms worth a look with their noise estimated, best first, and those that are not."""
    _check(bounds, total)
    suggested = splits(bounds, total)
    if not suggested:
        raise InvalidParameter(_no_mechanism(total))
    tried = [split for split in suggested if split.merit <= _WORTH_A_LOOK * suggested[0].merit]
    found = []
    for split in tried:
        spread = estimated_spread(_price(split, bounds, total, _estimated), split.spread, float_below(total.epsilon))
        if spread is not None:
            about = _made(split, bounds, total, decimal(spread.spread))
            found.append(_Rough(split, spread, _planned(split, about, float(total.epsilon), bounds, total, confidence)))
    if not found:
        raise Unattainable(_no_noise(tried, bounds, total))
    return sorted(found, key=lambda rough: rough.choice.merit), suggested[len(tried) :]


def _check(bounds: Bounds, total: Total) -> None:
    """Raise `InvalidParameter` for what no mechanism can answer."""
    if bounds.domain is None and total.delta == 0:
        raise InvalidParameter("delta must be above 0 over an unknown domain: give a delta, or the domain")
    if bounds.changeable is None and bounds.k is None:
        raise InvalidParameter(
            "finding items that are not public needs a bound on contributions: give contributions "
            "(max_groups_contributed in SQL), or the domain, or ask for a top k"
        )


Priced: TypeAlias = Callable[[Mechanism, Fraction], float]
"""The epsilon of one release at a delta."""


def _certified(mechanism: Mechanism, delta: Fraction) -> float:
    return searched_price(mechanism.guarantees(), float_below(delta))


def _estimated(mechanism: Mechanism, delta: Fraction) -> float:
    return estimated_price(mechanism.guarantees(), float_below(delta))


def _price(split: Split, bounds: Bounds, total: Total, priced: Priced) -> Price:
    return lambda spread: priced(_made(split, bounds, total, spread), total.delta)


def _calibrated(
    split: Split, first: EstimatedSpread, bounds: Bounds, total: Total, confidence: Fraction
) -> Choice | None:
    """Return the plan of the least spread that is certified to stay within the total; None if none in range does."""
    found = least_spread(_price(split, bounds, total, _certified), first, float_below(total.epsilon))
    if found is None:
        return None
    mechanism = _made(split, bounds, total, found)
    return _planned(split, mechanism, _certified(mechanism, total.delta), bounds, total, confidence)


def _planned(
    split: Split, mechanism: Mechanism, epsilon: float, bounds: Bounds, total: Total, confidence: Fraction
) -> Choice:
    """Return the plan of a split whose noise was found."""
    preview = _previewed(mechanism, bounds, confidence)
    return Choice(
        mechanism=mechanism,
        name=str(split.name) if split.counts is CountNoise.NONE else f"{split.name}+{split.counts}",
        epsilon=epsilon,
        preview=preview,
        merit=_merit(preview, total),
        why="",
    )


def _previewed(mechanism: Mechanism, bounds: Bounds, confidence: Fraction) -> ErrorEstimate:
    """Return the mechanism's preview, with what a histogram's noise needs when it is cut to a top k.

    That is the lead that puts labels in order and, over a known domain, the radius that holds for the highest.
    """
    preview = mechanism.preview(confidence)
    match mechanism:
        case KnownGumbel() | UnknownGumbel() | TwoPhaseTopK():
            return preview
        case KnownLaplace() | KnownGaussian() | UnknownLaplace() | UnknownGaussian() | TruncatedGaussian():
            if bounds.k is None:
                return preview
            size = bounds.rivals
            share = Fraction(min(bounds.k, size), size) if bounds.domain is not None else Fraction(1)
            return replace(
                preview,
                radius=mechanism.noise.radius(1 - (1 - confidence) * share),
                shortfall=ranking_shortfall(mechanism.noise, bounds.k * size, confidence),
            )
        case _:
            assert_never(mechanism)


def _merit(preview: ErrorEstimate, total: Total) -> float:
    error = 0.0 if total.counts is CountNoise.NONE else preview.expected_error or 0.0
    return weighed(reach_of(preview), error)


def reach_of(preview: ErrorEstimate) -> int:
    """Return by how much a label must lead to come out in its place."""
    return max(preview.detectable or 0, preview.shortfall or 0)


def _made(split: Split, bounds: Bounds, total: Total, spread: Fraction) -> Mechanism:
    """Return the mechanism of a split with the given spread: the larger the spread, the more private."""
    changed = bounds.changeable or 0
    failure = total.delta * Fraction(split.share)
    domain = bounds.domain or ()
    tau = bounds.per_item
    match split.name:
        case MechanismName.KNOWN_LAPLACE:
            return KnownLaplace(domain=domain, contributions=changed, per_item=tau, scale=spread)
        case MechanismName.KNOWN_GAUSSIAN:
            return KnownGaussian(domain=domain, contributions=changed, per_item=tau, sigma=spread)
        case MechanismName.UNKNOWN_LAPLACE:
            return UnknownLaplace(contributions=changed, per_item=tau, scale=spread, delta=failure, limit=bounds.limit)
        case MechanismName.TRUNCATED_GAUSSIAN:
            return TruncatedGaussian(contributions=changed, per_item=tau, sigma=spread, delta=failure)
        case MechanismName.KNOWN_GUMBEL:
            picks = KnownGumbel(domain=domain, k=bounds.k or 1, per_item=tau, epsilon=1 / spread)
            return _with_counts(picks, split, bounds, spread)
        case MechanismName.UNKNOWN_GUMBEL:
            found = UnknownGumbel(
                k=bounds.k or 1,
                limit=bounds.search_limit,
                contributions=bounds.contributions,
                per_item=tau,
                epsilon=1 / spread,
                delta=failure,
            )
            return _with_counts(found, split, bounds, spread)
        case _:
            assert_never(split.name)


def _with_counts(
    discovery: KnownGumbel | UnknownGumbel, split: Split, bounds: Bounds, spread: Fraction
) -> KnownGumbel | UnknownGumbel | TwoPhaseTopK:
    noise = Fraction(f"{split.ratio:.4g}") * spread
    counts: Counts
    match split.counts:
        case CountNoise.NONE | CountNoise.BEST:
            return discovery
        case CountNoise.LAPLACE:
            counts = LaplaceCounts(scale=noise)
        case CountNoise.GAUSSIAN:
            counts = GaussianCounts(sigma=noise)
        case _:
            assert_never(split.counts)
    bound = bounds.changeable if bounds.domain is not None else bounds.contributions
    return TwoPhaseTopK(discovery=discovery, counts=counts, contributions=bound)


def _why(best: Choice, others: list[Choice], unlikely: tuple[Split, ...], bounds: Bounds, total: Total) -> str:
    """Return a sentence on the choice, from parameters alone."""
    given = f"{best.name}{' as asked' if total.mechanism else ''}: {_expectation(best.preview, total)}"
    given = f"{given} ({_confidence_in_words(best, bounds, total)})"
    if total.mechanism is not None or not (others or unlikely):
        return given
    if others:
        runner_up = min(others, key=lambda each: each.merit)
        rest = f"{runner_up.name}: {_expectation(runner_up.preview, total)}"
    else:
        times = bounds.per_item * unlikely[0].merit / best.merit if best.merit else math.inf
        rest = f"{unlikely[0].name} would be about {times:.2g} times as coarse"
    return f"{given}; next best, {rest}"


def _expectation(preview: ErrorEstimate, total: Total) -> str:
    reach = reach_of(preview)
    parts = [f"finds items whose count is {reach:,} above those left out"] if reach else []
    if preview.radius is not None and preview.expected_error is not None and total.counts is not CountNoise.NONE:
        error = preview.expected_error
        parts.append(f"counts off by {error:,.{0 if error >= 10 else 1}f} on average, within ±{preview.radius:,}")
    return ", ".join(parts)


def _confidence_in_words(choice: Choice, bounds: Bounds, total: Total) -> str:
    """Return how sure an item's finding and its interval are: noisy counts that choose the items hold on average."""
    sure = f"{float(choice.preview.confidence):.0%}"
    match choice.mechanism:
        case KnownLaplace() | KnownGaussian():
            chosen_by_counts = bounds.k is not None
        case UnknownLaplace() | UnknownGaussian() | TruncatedGaussian():
            chosen_by_counts = True
        case _:
            chosen_by_counts = False
    if chosen_by_counts and total.counts is not CountNoise.NONE:
        return f"found with probability {sure}, and {sure} of the intervals hold on average"
    return f"with probability {sure} each"


def _no_noise(tried: list[Split], bounds: Bounds, total: Total) -> str:
    """Return that no noise in range meets the total, and the epsilon that the most noise would."""
    least = math.inf
    for split in tried:
        with contextlib.suppress(InvalidParameter, Unattainable):
            least = min(least, _estimated(_made(split, bounds, total, Fraction(MOST_SPREAD)), total.delta))
    says = f"no noise in range meets epsilon {float(total.epsilon):g} at delta {float(total.delta):g}"
    if least == math.inf:
        return f"{says}; ask for less"
    return f"{says}; about {1.05 * least:.2g} would fit, or ask for fewer items or contributions"


def _no_mechanism(total: Total) -> str:
    if total.mechanism is not None:
        return (
            f"{total.mechanism} does not answer this question with {total.counts} counts: known_* need a domain, "
            "the gumbel ones need k, the others bounded contributions, and Gaussian noise a delta above 0"
        )
    return f"no mechanism with {total.counts} counts answers this question at delta = {float(total.delta):g}"
