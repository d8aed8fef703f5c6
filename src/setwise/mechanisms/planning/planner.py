"""Planner: chooses and calibrates the mechanism for a request, before any data is read."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias, assert_never

from setwise.accounting.brackets import float_below
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from setwise.mechanisms.planning.budget_splits import BudgetSplit, plan_merit, ranking_shortfall, splits
from setwise.mechanisms.planning.cost import (
    LARGEST_NOISE_SCALE,
    EstimatedScale,
    Price,
    estimate_noise_scale,
    estimated_price,
    rounded_scale,
    searched_price,
    smallest_noise_scale,
)
from setwise.mechanisms.planning.request import Bounds, CountNoise, MechanismName, Total
from setwise.mechanisms.planning.rounds import plan_counts, prefers_rounds
from setwise.mechanisms.release import ErrorEstimate
from setwise.mechanisms.statistics import HistogramMechanism
from setwise.mechanisms.two_phase import Counts, GaussianCounts, LaplaceCounts, TwoPhaseTopK
from setwise.mechanisms.unknown_domain import TruncatedGaussian, UnknownGaussian, UnknownGumbel, UnknownLaplace
from setwise.mechanisms.weighted_rounds import DiscoveredCounts, WeightedRounds

Mechanism: TypeAlias = HistogramMechanism | DiscoveredCounts | WeightedRounds
"""The mechanisms that a plan can choose. The last two find groups in rounds, each of which reads the table."""

_WORTH_A_LOOK = 1.5
"""The noise of a mechanism is estimated if its rough merit is within this factor of the best one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A plan: the chosen mechanism with its noise, its cost and its expected error.

    - `name` is the mechanism's name. If the mechanism picks groups and then counts them, the name of the noise on the
      counts follows after a "+".
    - `epsilon` is the cost of one release at the budget's delta: a certified upper bound in a result of `plan`, but
      only approximate in a result of `rough_plans`, where it is the budget's epsilon.
    - `preview` is the expected error of the release.
    - `merit` is the expected error as one number, by which plans are compared (see `plan_merit`); smaller is better.
    - `why` is a sentence that compares the plan with its alternatives.
    """

    mechanism: Mechanism
    name: str
    epsilon: float
    preview: ErrorEstimate
    merit: float
    why: str


def plan(bounds: Bounds, total: Total, confidence: Fraction = CONFIDENCE) -> Choice:
    """Return a plan for a histogram or top k: a mechanism with about the least noise that the budget `total` allows.

    Private groups can be found in one noisy pass over the table, or in several passes (rounds). The plan has rounds if
    `prefers_rounds` says so and the budget is enough for them. Otherwise it has the mechanism with the smallest
    estimated error (`Choice.merit`).

    - `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
      adds.
    - `confidence` is the probability with which the stated error bounds hold.

    Ensures: the set-wise composition of the mechanism's guarantees is certified to be within (epsilon, delta).
    Raises: `InvalidParameter` if no mechanism can answer such a query, `Unattainable` if no noise in range is enough.
    """
    if total.counts is CountNoise.NONE and bounds.k is None:
        raise InvalidParameter("a histogram without counts says nothing: give k, or ask for counts")
    if prefers_rounds(bounds, total, counts_users=True):
        in_rounds = _in_rounds(bounds, total, confidence)
        if in_rounds is not None:
            return in_rounds
    tried, unlikely = _estimates(bounds, total, confidence)
    for index, rough in enumerate(tried):
        best = _calibrate(rough.split, rough.scale, bounds, total, confidence)
        if best is not None:
            others = [candidate.choice for candidate in tried[:index] + tried[index + 1 :]]
            return replace(best, why=_why(best, others, unlikely, bounds, total))
    raise Unattainable(_no_noise([candidate.split for candidate in tried], bounds, total))


def _in_rounds(bounds: Bounds, total: Total, confidence: Fraction) -> Choice | None:
    """Return the plan that finds private groups in several rounds of weighted votes and then counts the groups found.

    In a round, each user divides a weight among their groups that are not found yet.

    - `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
      adds.
    - `total` is the budget. It may also name the mechanism that must be used.
    - `confidence` is the probability with which the stated error bounds hold.

    Returns None if no noise in range fits the budget and `total` names no mechanism.

    Raises: `InvalidParameter` if rounds cannot answer the query, `Unattainable` if `total` names this mechanism but no
    noise in range fits the budget.
    """
    # In a round, each user divides a weight among their labels, and a label is found if its noisy sum of weights
    # exceeds a threshold (module `weighted_rounds`).
    planned = plan_counts(bounds, total)
    if planned is None:
        if total.mechanism is not None:
            raise Unattainable(f"no noise of rounds in range meets epsilon {float(total.epsilon):g} at this delta")
        return None
    mechanism, epsilon = planned
    preview = mechanism.preview(confidence)
    name = str(MechanismName.WEIGHTED_ROUNDS)
    chosen = " as asked" if total.mechanism else ""
    words = (
        f"{name}{chosen}: finds items of about {preview.detectable or 0:,} users who have {mechanism.contributions:,} "
        f"items each, and of fewer users where many of their items are found early; then counts the items found, "
        f"{count_error_in_words(preview)}"
    )
    why = f"{words} (with probability {float(confidence):.0%} each)"
    merit = _merit(preview, total)
    return Choice(mechanism=mechanism, name=name, epsilon=epsilon, preview=preview, merit=merit, why=why)


def count_error_in_words(preview: ErrorEstimate) -> str:
    """Return a phrase with the mean error of a count and with half the width of its confidence interval.

    Both numbers are fields of `preview`, the expected error of the release. Example: "off by 12 on average, within
    ±30".
    """
    error = preview.expected_error or 0.0
    return f"off by {error:,.{0 if error >= 10 else 1}f} on average, within ±{preview.radius or 0:,}"


def rough_plans(bounds: Bounds, total: Total, confidence: Fraction = CONFIDENCE) -> list[Choice]:
    """Return candidate plans that find groups in one pass, smallest estimated error (`Choice.merit`) first.

    The noise scale of each plan is only estimated to cost about the budget `total`. The caller certifies the cost of
    the chosen plan together with the cost of other releases.

    - `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
      adds.
    - `confidence` is the probability with which the stated error bounds hold.

    Raises: `InvalidParameter` if no mechanism can answer, `Unattainable` if no noise in range is enough.
    """
    return [rough.choice for rough in _estimates(bounds, total, confidence)[0]]


@dataclass(frozen=True, slots=True)
class _Rough:
    """A candidate plan of the planner, whose noise scale is only estimated.

    - `split` says how the budget is divided between finding groups and counting them.
    - `scale` is the estimate of the smallest noise scale that stays within the budget.
    - `choice` is the plan with that noise.
    """

    split: BudgetSplit
    scale: EstimatedScale
    choice: Choice


def _estimates(bounds: Bounds, total: Total, confidence: Fraction) -> tuple[list[_Rough], tuple[BudgetSplit, ...]]:
    """Return (candidates, unlikely): plans with estimated noise, and budget splits too bad to become plans.

    A budget split names a mechanism and divides the budget between finding and counting groups. It becomes no plan if
    its roughly estimated error is more than 1.5 times the smallest one. The candidates are sorted by their expected
    error (`Choice.merit`), smallest first.

    - `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
      adds.
    - `total` is the query's budget.
    - `confidence` is the probability with which the stated error bounds hold.

    Raises: `InvalidParameter` if no mechanism can answer the query; `Unattainable` if each mechanism would need more
    noise than can be drawn.
    """
    # A split is not tried if its rough error (`merit`) is more than 1.5 times the smallest one.
    _check(bounds, total)
    suggested = splits(bounds, total)
    if not suggested:
        raise InvalidParameter(_no_mechanism(total))
    tried = [split for split in suggested if split.merit <= _WORTH_A_LOOK * suggested[0].merit]
    candidates = []
    for split in tried:
        price = _price(split, bounds, total, _estimate_price)
        estimate = estimate_noise_scale(price, split.scale, float_below(total.epsilon))
        if estimate is not None:
            mechanism = _build_mechanism(split, bounds, total, rounded_scale(estimate.scale))
            choice = _build_plan(split, mechanism, float(total.epsilon), bounds, total, confidence)
            candidates.append(_Rough(split, estimate, choice))
    if not candidates:
        raise Unattainable(_no_noise(tried, bounds, total))
    return sorted(candidates, key=lambda rough: rough.choice.merit), suggested[len(tried) :]


def _check(bounds: Bounds, total: Total) -> None:
    """Raise `InvalidParameter` if the budget or the bounds of a query lack what every mechanism needs.

    - If groups are private (only noise decides which are shown), the budget `total` must have a positive delta.
    - `bounds` must limit how much one user changes: by a contribution bound (the most groups to which one user adds),
      by a list of public groups, or by a `k` (for a top k).
    """
    is_unbounded = bounds.changeable is None and bounds.k is None
    if bounds.domain is None and total.delta == 0:
        more = " and contributions = auto (in how many groups one user may count)" if is_unbounded else ""
        raise InvalidParameter(
            f"groups are not public: give a delta, as in delta = 1e-6{more}, or list them with domain"
        )
    if is_unbounded:
        raise InvalidParameter(
            "say in how many groups one user may count: add contributions = auto, or in SQL max_groups_contributed = "
            "auto, or list the groups with domain, or ask for a top k"
        )


Priced: TypeAlias = Callable[[Mechanism, Fraction], float]
"""A function that returns the epsilon of one release of a mechanism at a delta."""


def _certify_price(mechanism: Mechanism, delta: Fraction) -> float:
    """Return the price of one release of `mechanism`: a certified upper bound on its epsilon at `delta`."""
    return searched_price(mechanism.guarantees(), float_below(delta))


def _estimate_price(mechanism: Mechanism, delta: Fraction) -> float:
    """Return a quick, uncertified estimate of the epsilon of one release of `mechanism` at `delta`."""
    return estimated_price(mechanism.guarantees(), float_below(delta))


def _price(split: BudgetSplit, bounds: Bounds, total: Total, priced: Priced) -> Price:
    """Return a function that maps a noise scale to the epsilon that one release with this noise costs.

    The planner searches for a noise scale with this function. For each scale it builds the mechanism that `split`
    names. `split` also says how the budget `total` is divided between finding groups and counting them, and `bounds`
    describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user adds.
    `priced(mechanism, delta)` computes the epsilon of a mechanism, certified or estimated.
    """
    return lambda scale: priced(_build_mechanism(split, bounds, total, scale), total.delta)


def _calibrate(
    split: BudgetSplit, first: EstimatedScale, bounds: Bounds, total: Total, confidence: Fraction
) -> Choice | None:
    """Return the plan for `split` with about the smallest noise scale that the budget `total` certainly pays for.

    The result is None if even the largest noise scale costs too much.

    - `split` names a mechanism, and says which shares of the budget find groups and count them.
    - `first` is the estimated noise scale from which the search starts.
    - `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
      adds.
    - `confidence` is the probability with which the stated error bounds hold.
    """
    scale = smallest_noise_scale(_price(split, bounds, total, _certify_price), first, float_below(total.epsilon))
    if scale is None:
        return None
    mechanism = _build_mechanism(split, bounds, total, scale)
    return _build_plan(split, mechanism, _certify_price(mechanism, total.delta), bounds, total, confidence)


def _build_plan(
    split: BudgetSplit, mechanism: Mechanism, epsilon: float, bounds: Bounds, total: Total, confidence: Fraction
) -> Choice:
    """Return the plan that uses `mechanism`, with its expected error; the sentence `why` is left to the caller.

    - `split` is the division of the budget `total` between finding groups and counting them, from which `mechanism` was
      built. The plan has its name.
    - `epsilon` is the privacy cost of one release by `mechanism`, at the budget's delta.
    - `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
      adds.
    - `confidence` is the probability with which the stated error bounds hold.
    """
    preview = _preview_error(mechanism, bounds, confidence)
    return Choice(
        mechanism=mechanism,
        name=str(split.name) if split.counts is CountNoise.NONE else f"{split.name}+{split.counts}",
        epsilon=epsilon,
        preview=preview,
        merit=_merit(preview, total),
        why="",
    )


def _preview_error(mechanism: Mechanism, bounds: Bounds, confidence: Fraction) -> ErrorEstimate:
    """Return the expected error of `mechanism` for a query, from parameters alone; no data is read.

    `bounds` describes the query: k (how many groups a top k asks for; None for another query), its public groups, and
    limits on what one user adds. With probability `confidence`, the interval of a count holds. With the same
    probability the ranking is nearly right: no group is ranked above another whose exact count is higher by more than
    the result's `shortfall`.
    """
    # If only the k highest counts of a noisy histogram are shown, `shortfall` is by how much a label's count must
    # exceed another count to be ranked above it. Over a known domain `radius` is then also larger, because the highest
    # noisy counts are selected.
    preview = mechanism.preview(confidence)
    match mechanism:
        case KnownGumbel() | UnknownGumbel() | TwoPhaseTopK() | DiscoveredCounts() | WeightedRounds():
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
    """Return the error of a plan as one number, in units of a count, by which plans are compared.

    Smaller is better. The number is a sum of two, both taken from `preview`, the plan's expected error. The first is
    the count that a group needs to be released, or by how much the group's count must exceed other counts, whichever is
    larger. The second is ten times the mean error of a count; it is left out if the budget `total` asks for no counts.
    """
    error = 0.0 if total.counts is CountNoise.NONE else preview.expected_error or 0.0
    return plan_merit(reach_of(preview), error)


def reach_of(preview: ErrorEstimate) -> int:
    """Return how large a group's count must be, or how far above other counts, for the group to be released.

    `preview`, the expected error of the release, has both numbers. `detectable` is the count that exceeds the release's
    threshold, and `shortfall` the lead over other groups that puts a group among the top k. The result is the larger
    one, in units of a count. With such a count, the group is released with the probability `preview.confidence`.
    """
    return max(preview.detectable or 0, preview.shortfall or 0)


def _build_mechanism(split: BudgetSplit, bounds: Bounds, total: Total, scale: Fraction) -> Mechanism:
    """Return the mechanism for the budget division `split`, with noise of the given `scale`.

    - `split` names a mechanism, and divides the budget `total` between finding groups and counting them.
    - `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
      adds.
    - `scale` is the noise scale divided by the most that one user adds to a count.
    """
    changed = bounds.changeable or 0
    failure = total.delta * Fraction(split.share)
    domain = bounds.domain or ()
    tau = bounds.per_item
    match split.name:
        case MechanismName.KNOWN_LAPLACE:
            return KnownLaplace(domain=domain, contributions=changed, per_item=tau, scale=scale)
        case MechanismName.KNOWN_GAUSSIAN:
            return KnownGaussian(domain=domain, contributions=changed, per_item=tau, sigma=scale)
        case MechanismName.UNKNOWN_LAPLACE:
            return UnknownLaplace(contributions=changed, per_item=tau, scale=scale, delta=failure, limit=bounds.limit)
        case MechanismName.TRUNCATED_GAUSSIAN:
            return TruncatedGaussian(contributions=changed, per_item=tau, sigma=scale, delta=failure)
        case MechanismName.KNOWN_GUMBEL:
            picks = KnownGumbel(domain=domain, k=bounds.k or 1, per_item=tau, epsilon=1 / scale)
            return _with_counts(picks, split, bounds, scale)
        case MechanismName.UNKNOWN_GUMBEL:
            discovery = UnknownGumbel(
                k=bounds.k or 1,
                limit=bounds.search_limit,
                contributions=bounds.contributions,
                per_item=tau,
                epsilon=1 / scale,
                delta=failure,
            )
            return _with_counts(discovery, split, bounds, scale)
        case MechanismName.WEIGHTED_ROUNDS:
            raise AssertionError("discovery in rounds has no split")
        case _:
            assert_never(split.name)


def _with_counts(
    discovery: KnownGumbel | UnknownGumbel, split: BudgetSplit, bounds: Bounds, scale: Fraction
) -> KnownGumbel | UnknownGumbel | TwoPhaseTopK:
    """Return the mechanism `discovery`, which picks groups, followed by noisy counts if `split` has counts.

    `split` is a division of the budget between picks and counts; the noise scale of the counts is `split.ratio` times
    `scale`, the noise scale of the picks. `bounds` describes the query: k (how many groups a top k asks for), its
    public groups, and limits on what one user adds.
    """
    noise = Fraction(f"{split.ratio:.4g}") * scale
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


def _why(best: Choice, others: list[Choice], unlikely: tuple[BudgetSplit, ...], bounds: Bounds, total: Total) -> str:
    """Return a sentence for people that compares the plan `best` with the next best plan.

    The next best plan is the best of `others`, the other plans. If there are none, it is the first of `unlikely`, the
    budget splits that were not tried because their error is too large. The sentence depends on the query, which
    `bounds` describes, and on its budget `total`, but not on data.
    """
    # If `total` forces a mechanism, nothing is compared.
    text = f"{best.name}{' as asked' if total.mechanism else ''}: {_expectation(best.preview, total)}"
    text = f"{text} ({_confidence_in_words(best, bounds, total)})"
    if total.mechanism is not None or not (others or unlikely):
        return text
    if others:
        runner_up = min(others, key=lambda choice: choice.merit)
        alternative = f"{runner_up.name}: {_expectation(runner_up.preview, total)}"
    else:
        times = bounds.per_item * unlikely[0].merit / best.merit if best.merit else math.inf
        alternative = f"{unlikely[0].name} would be about {times:.2g} times as coarse"
    return f"{text}; next best, {alternative}"


def _expectation(preview: ErrorEstimate, total: Total) -> str:
    """Return a phrase about a plan's accuracy: how large an item's count must be, and the error of its count.

    An item (a group) is found if its count exceeds the counts of other items, or a threshold, by enough. `preview` is
    the expected error of the plan. The error of the count is left out if the budget `total` asks for no counts.
    """
    reach = reach_of(preview)
    ranks = "" if preview.above_rank is None else f" (from rank {preview.above_rank:,} on)"
    parts = [f"finds items whose count is {reach:,} above those left out{ranks}"] if reach else []
    if preview.radius is not None and preview.expected_error is not None and total.counts is not CountNoise.NONE:
        parts.append(f"counts {count_error_in_words(preview)}")
    return ", ".join(parts)


def _confidence_in_words(choice: Choice, bounds: Bounds, total: Total) -> str:
    """Return a phrase about the confidence of the plan `choice`: how surely items are found and intervals hold.

    If the items are those with the highest noisy counts, the confidence is an average over the listed items, and the
    phrase says so. `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on
    what one user adds. `total` is the query's budget.
    """
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


def _no_noise(tried: list[BudgetSplit], bounds: Bounds, total: Total) -> str:
    """Return the error message for a query for which even the largest noise costs more than the budget `total`.

    The largest noise is that of the scale `LARGEST_NOISE_SCALE`. If its cost can be estimated, the message says which
    epsilon would be enough.

    - `tried` are the divisions of the budget, between finding groups and counting them, that were tried.
    - `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
      adds.
    """
    least = math.inf
    for split in tried:
        with contextlib.suppress(InvalidParameter, Unattainable):
            least = min(
                least,
                _estimate_price(_build_mechanism(split, bounds, total, Fraction(LARGEST_NOISE_SCALE)), total.delta),
            )
    says = f"no noise in range meets epsilon {float(total.epsilon):g} at delta {float(total.delta):g}"
    if least == math.inf:
        return f"{says}; ask for less"
    return f"{says}; about {1.05 * least:.2g} would fit, or ask for fewer items or contributions"


def _no_mechanism(total: Total) -> str:
    """Return the error message that no mechanism can answer the query.

    If the budget `total` forces a mechanism, the message says that this mechanism cannot answer it.
    """
    if total.mechanism is not None:
        return (
            f"{total.mechanism} does not answer this question with {total.counts} counts: known_* need a domain, "
            "the gumbel ones need k, the others bounded contributions, and Gaussian noise a delta above 0"
        )
    return f"no mechanism with {total.counts} counts answers this question at delta = {float(total.delta):g}"
