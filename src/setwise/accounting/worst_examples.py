"""Lower bounds on delta: known mechanisms with a delta near the largest that their guarantees allow.

No proof can promise a smaller delta for these guarantees than the delta of a known mechanism that satisfies them.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from setwise.accounting.adaptive.stages import proxy_saddle
from setwise.accounting.bound import Bound, linear_bound
from setwise.accounting.brackets import Bracket, Target, epsilon_at
from setwise.accounting.classified_uses import ClassifiedUses, classify
from setwise.accounting.guarantees import Gaussian, Guarantee, Use, ZeroConcentratedDP
from setwise.accounting.losses.dominating_pairs import KnownNoise, TwoPointLaw, enumerate_losses
from setwise.accounting.losses.lattice import worst_t
from setwise.errors import Unattainable

# Methods are imported inside functions, because most compositions need only one or two of them and imports take time.


@dataclass(frozen=True, slots=True)
class WorstExampleConfig:
    """Constants for lower bounds on the delta or epsilon that any proof can promise for some guarantees.

    A lower bound is computed from an example: a known mechanism that satisfies a guarantee and has nearly the largest
    delta that the guarantee allows. The bound is valid whatever these constants are.
    """

    most_witnessed: int = 20_000
    """Largest number of privacy losses that are listed exactly for a lower bound. With more, losses are rounded to
    equally spaced values, which is quicker."""
    most_laws: int = 40
    """Mechanisms whose privacy loss has two values serve as examples of a zCDP guarantee. This is the largest number of
    uses of the guarantee for which they are composed."""
    law_rounds: int = 3
    """Number of rounds of a search for an example with a large epsilon at a given delta. Each round chooses the two
    values that have the largest delta at some epsilon. The next round takes the epsilon that this example has at the
    given delta.
    """


WORST_EXAMPLES = WorstExampleConfig()


def worst_responses(kinds: ClassifiedUses, target: Target) -> Iterator[Bound]:
    """Yield a lower bound on the delta or epsilon, whichever `target` asks for, of the uses in `kinds`, or nothing.

    In the bound, each bounded-range use is a randomized response that satisfies the guarantee of the use. Of the many
    such responses, the function takes one that probably has nearly the largest delta or epsilon. Nothing is yielded in
    three cases: if no use has bounded range, if some use has neither bounded range nor a dominating pair, and if delta
    hardly changes with epsilon near `target`, so that the worst response cannot be estimated.
    """
    # The privacy loss of an epsilon-bounded-range response is t or t - epsilon. Any t in (0, epsilon) is valid.
    # `worst_t` chooses the t that costs most if the overall delta falls with the overall epsilon x like exp(-tilt x);
    # the tilt is estimated near `target`. Nothing is yielded either if the tilt is not positive.
    if not kinds.ranges or kinds.classes:
        return
    tilt = _tilt(kinds, target)
    if tilt <= 0.0:
        return
    highs = ((epsilon, count, worst_t(epsilon, tilt)) for epsilon, count in kinds.ranges)
    responses = tuple((TwoPointLaw(high, high - epsilon), count) for epsilon, count, high in highs)
    yield linear_bound(replace(kinds, linear=(*kinds.linear, *responses), ranges=()), WORST_EXAMPLES.most_witnessed)


def worst_laws(kinds: ClassifiedUses, target: Target) -> Iterator[Bound]:
    """Yield lower bounds on the delta or epsilon, whichever `target` asks for, of the uses in `kinds`.

    Each bound is computed for an example: mechanisms whose privacy loss has two values replace all uses of one zCDP
    guarantee. The two values are chosen so that these mechanisms satisfy the guarantee and have nearly the largest
    delta that it allows. Nothing is yielded if `kinds` has no zCDP guarantee, if some use has bounded range, or if the
    search for the two values would fail or take too long.
    """
    # The guarantee is the zCDP guarantee in `kinds` with the largest count times rho. Other guarantees without a
    # dominating pair are replaced by known examples. The two values of the loss are chosen so that delta at an overall
    # epsilon x is largest. If `target` asks for the delta at an epsilon, x is this epsilon. Otherwise there are several
    # rounds, with one bound each. In the first round x is the epsilon that zCDP promises at this delta. In each later
    # round x is the epsilon, at this delta, of the loss from the round before.
    from setwise.accounting.methods.concentrated_laws import best_high

    concentrated = [use for use in kinds.classes if isinstance(use.guarantee, ZeroConcentratedDP)]
    if not concentrated or kinds.ranges:
        return
    worst = max(concentrated, key=lambda use: use.count * (use.guarantee.zero_concentrated().rho))
    parameters = worst.guarantee.zero_concentrated()
    xi, rho = parameters.xi, parameters.rho
    if not (rho > 1e-12 and xi + rho > 0.0) or worst.count > WORST_EXAMPLES.most_laws:
        return
    witnesses = [noise for use in kinds.classes if use is not worst for noise in [use.guarantee.worst_known_example()]]
    counts = [use.count for use in kinds.classes if use is not worst]
    others = [Use(noise, count) for noise, count in zip(witnesses, counts, strict=True) if noise is not None]
    beside = classify([*(Use(noise, count) for noise, count in guarantees_in(kinds.linear)), *others])
    if (
        enumerate_losses([(noise, count) for noise, count in beside.linear if not isinstance(noise, Gaussian)], 1000)
        is None
    ):
        return

    def composed(law: TwoPointLaw) -> Bound:
        """Return the bound on delta and epsilon if the uses with the guarantee `worst` have the privacy loss `law`.

        `worst`, a variable of the function around this one, is the zCDP guarantee with the largest count times rho, and
        `law` is a loss with two values. If mechanisms with this loss satisfy the guarantee, no theorem that uses only
        the guarantee can promise a smaller delta or epsilon than this bound.
        """
        linear = (*beside.linear, (law, worst.count))
        return linear_bound(replace(beside, linear=linear, failed=kinds.failed))

    epsilon = target.given if target.wanted == "delta" else epsilon_at(target.given, _concentrated_above(kinds)).upper
    for _ in range(1 if target.wanted == "delta" else WORST_EXAMPLES.law_rounds):
        at = max(epsilon, 1e-9)

        def reached(candidate: TwoPointLaw, at: float = at) -> float:
            """Return a lower bound on the delta of all uses at epsilon `at`, for one example of zCDP mechanisms.

            In the example, the uses with the guarantee `worst` (the zCDP guarantee with the largest count times rho)
            have the privacy loss `candidate`, which has two values. A search calls this function to find the candidate
            with the largest delta.
            """
            return composed(candidate).delta(at).lower

        law = best_high(xi, rho, reached, (at + math.sqrt(rho)) / worst.count + math.sqrt(rho))
        if law is None:
            return
        yield composed(law)
        if target.wanted == "epsilon":
            with contextlib.suppress(Unattainable):
                epsilon = composed(law).epsilon(target.given).lower


def _tilt(kinds: ClassifiedUses, target: Target) -> float:
    """Return roughly the rate at which log delta of the uses in `kinds` falls with epsilon near `target`.

    `target` asks for the delta at an epsilon, or for the epsilon at a delta. With the rate, callers choose mechanisms
    that have nearly the largest delta, and compare bounds. The result may be negative if `target` gives an epsilon
    below the mean loss. It is 0 if `target` gives a delta that is not above the probability of outright failure (in
    which everything may be revealed).
    """
    saddle = proxy_saddle(kinds.linear, kinds.ranges)
    if target.wanted == "delta":
        return saddle.for_loss(target.given)
    target_delta = target.given - kinds.failure.upper
    return saddle.for_delta(target_delta) if target_delta > 0.0 else 0.0


def moderate_tilt(kinds: ClassifiedUses, target: Target) -> float:
    """Return roughly the rate at which log delta falls with epsilon near `target`; 0 if the rate is too large.

    Callers compare bounds on delta by the number log E[exp(rate L)], where L is the total privacy loss that a bound
    allows. If the rate is too large, the largest losses decide this number almost alone, and such a comparison is not
    reliable. Callers then make no comparison, because the result is 0. `kinds` are the uses, and `target` asks for
    their delta at an epsilon, or for their epsilon at a delta.
    """
    tilt = _tilt(kinds, target)
    return tilt if tilt <= proxy_saddle(kinds.linear, kinds.ranges).moderate(tilt) else 0.0


def guarantees_in(linear: Sequence[tuple[KnownNoise, int]]) -> list[tuple[Guarantee, int]]:
    """Return those of `linear`, pairs (noise, count) with a known loss distribution, that are guarantees.

    The others are of the class `TwoPointLaw`, which is an example: a loss with two values, used only in lower bounds.
    Callers sort and compose the result anew, and an example is not a guarantee that can be composed.
    """
    return [(noise, count) for noise, count in linear if not isinstance(noise, TwoPointLaw)]


def _concentrated_above(kinds: ClassifiedUses) -> Callable[[float], Bracket]:
    """Return an upper bound on the delta of the uses in `kinds`, computed by zCDP, as a function of epsilon.

    The function returns the bracket [0, upper bound]. The zCDP parameters of all uses are added up, and their sums
    imply a delta at every epsilon. The caller begins its search for mechanisms of large delta at the epsilon that this
    bound gives.
    """
    from setwise.accounting.methods.moments import zero_concentrated_sum

    return zero_concentrated_sum(kinds.uses).delta
