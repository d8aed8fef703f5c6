"""Choosing and calibrating a mechanism for a question, before any data is touched."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, assert_never

from setwise.accounting.compose import compose
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.interval import CONFIDENCE
from setwise.mechanisms.known_gaussian import KnownGaussian
from setwise.mechanisms.known_gumbel import KnownGumbel
from setwise.mechanisms.known_laplace import KnownLaplace
from setwise.mechanisms.preview import Preview
from setwise.mechanisms.question import LIMIT, CountNoise, Question
from setwise.mechanisms.rational import float_below
from setwise.mechanisms.truncated_gaussian import TruncatedGaussian
from setwise.mechanisms.two_phase_top_k import GaussianCounts, LaplaceCounts, TwoPhaseTopK
from setwise.mechanisms.unknown_gumbel import UnknownGumbel
from setwise.mechanisms.unknown_laplace import UnknownLaplace

Mechanism: TypeAlias = (
    KnownLaplace | KnownGaussian | KnownGumbel | UnknownLaplace | TruncatedGaussian | UnknownGumbel | TwoPhaseTopK
)

Maker: TypeAlias = Callable[[Question, Fraction], Mechanism]
"""Makes a mechanism for a question from one spread: the larger the spread, the more private."""

_LEAST_SPREAD, _MOST_SPREAD = 0.05, 1e6
_CLOSE = 1.002
"""The search stops when the spread is known within this factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The mechanism chosen, the epsilon it is certified to cost at the question's delta, and what to expect of it."""

    mechanism: Mechanism
    epsilon: float
    preview: Preview


def plan(question: Question, confidence: Fraction = CONFIDENCE) -> Plan:
    """Return the best mechanism of the question's cell, calibrated to its epsilon and delta.

    Ensures: the set-wise composition of the mechanism's guarantees is certified to be within (epsilon, delta). Of the
        cell's mechanisms the one that sees the smallest counts is taken; between equals, the smaller expected error.
    """
    found = [mechanism for make in _cell(question) if (mechanism := _calibrated(make, question)) is not None]
    if not found:
        raise Unattainable(f"no noise in range meets epsilon {float(question.epsilon):g} at this delta; ask for less")
    plans = [
        Plan(mechanism=each, epsilon=_cost(each, question.delta), preview=each.preview(confidence)) for each in found
    ]
    return min(plans, key=lambda each: _merit(each.preview))


def _merit(preview: Preview) -> tuple[float, float]:
    return float(preview.detectable or preview.shortfall or 0), preview.expected_error or 0.0


def _cost(mechanism: Mechanism, delta: Fraction) -> float:
    return compose(mechanism.guarantees()).epsilon(float_below(delta)).upper


def _calibrated(make: Maker, question: Question) -> Mechanism | None:
    """Return the mechanism of the least spread that meets the question, by bisection; None if none in range does.

    Every spread tried is a short decimal, so that plans are easy to read and repeat.
    """

    def meets(spread: Fraction) -> bool:
        try:
            return _cost(make(question, spread), question.delta) <= question.epsilon
        except (InvalidParameter, Unattainable):  # noise out of range, or a bound that says nothing there
            return False

    least, most = _LEAST_SPREAD, _MOST_SPREAD
    if not meets(Fraction(most)):
        return None
    while most / least > _CLOSE:
        middle = Fraction(f"{math.sqrt(least * most):.4g}")
        if not least < middle < most:
            break
        least, most = (least, float(middle)) if meets(middle) else (float(middle), most)
    return make(question, Fraction(f"{most:.4g}"))


def _cell(question: Question) -> tuple[Maker, ...]:
    """Return the makers of the question's cell of the table."""
    if question.counts is CountNoise.NONE:
        return (_labels,)
    if question.contributions is None:
        pair: tuple[Maker, Maker] = _with_laplace_counts, _with_gaussian_counts
    elif question.domain is not None:
        pair = _known_laplace, _known_gaussian
    else:
        pair = _unknown_laplace, _truncated_gaussian
    match question.counts:
        case CountNoise.LAPLACE:
            return pair[:1]
        case CountNoise.GAUSSIAN:
            return pair[1:]
        case CountNoise.BEST:
            return pair
        case _:
            assert_never(question.counts)


def _restricted(question: Question) -> int:
    if question.contributions is None:
        raise InvalidParameter("contributions must be bounded for a histogram")
    return question.contributions


def _picks(question: Question) -> int:
    if question.k is None:
        raise InvalidParameter("k must be given for a top k")
    return question.k


def _known_laplace(question: Question, spread: Fraction) -> KnownLaplace:
    return KnownLaplace(
        domain=question.domain or (),
        contributions=_restricted(question),
        per_item=question.per_item,
        scale=spread,
    )


def _known_gaussian(question: Question, spread: Fraction) -> KnownGaussian:
    return KnownGaussian(
        domain=question.domain or (),
        contributions=_restricted(question),
        per_item=question.per_item,
        sigma=spread,
    )


def _unknown_laplace(question: Question, spread: Fraction) -> UnknownLaplace:
    """Half of delta goes to the threshold; the other half is left to the composition."""
    return UnknownLaplace(
        contributions=_restricted(question),
        per_item=question.per_item,
        scale=spread,
        delta=question.delta / 2,
        limit=question.limit,
    )


def _truncated_gaussian(question: Question, spread: Fraction) -> TruncatedGaussian:
    """Half of delta goes to the truncation; the other half is left to the composition."""
    return TruncatedGaussian(
        contributions=_restricted(question),
        per_item=question.per_item,
        sigma=spread,
        delta=question.delta / 2,
    )


def _labels(question: Question, spread: Fraction) -> KnownGumbel | UnknownGumbel:
    """Each pick is (1/spread)-BR; half of delta goes to the threshold of an unknown domain."""
    k = _picks(question)
    if question.domain is not None:
        return KnownGumbel(domain=question.domain, k=k, per_item=question.per_item, epsilon=1 / spread)
    return UnknownGumbel(
        k=k,
        limit=question.limit or max(LIMIT, k),
        contributions=question.contributions,
        per_item=question.per_item,
        epsilon=1 / spread,
        delta=question.delta / 2,
    )


def _with_laplace_counts(question: Question, spread: Fraction) -> TwoPhaseTopK:
    """Each count costs what a pick costs."""
    return TwoPhaseTopK(
        discovery=_labels(question, spread),
        counts=LaplaceCounts(scale=spread),
        contributions=question.contributions,
    )


def _with_gaussian_counts(question: Question, spread: Fraction) -> TwoPhaseTopK:
    """All counts together cost what all picks cost: k picks are k/(8 spread^2)-zCDP, so sigma is twice the spread."""
    return TwoPhaseTopK(
        discovery=_labels(question, spread),
        counts=GaussianCounts(sigma=2 * spread),
        contributions=question.contributions,
    )
