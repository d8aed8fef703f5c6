"""Quick bounds on delta and epsilon, computed from sums over the uses of a composition.

The sums are of moments of the privacy loss, of zCDP parameters, of epsilons or of prices. The bounds of `filter_bounds`
also hold if an adversary chooses the parameters of uses on the fly and a privacy filter refuses uses beyond a budget.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from setwise.accounting.bound import SMALL_LOSSES, Bound, from_curve, linear_bound
from setwise.accounting.brackets import Bracket, Target, down, either_fails, up
from setwise.accounting.classified_uses import ClassifiedUses, classify
from setwise.accounting.guarantees import BoundedRange, Gaussian, Use, largest_loss
from setwise.accounting.promises import delta_too_small
from setwise.errors import Unattainable

LARGEST_WALLET = 1e6
"""Largest mu squared of a Gaussian bound. Beyond it the bound would be useless."""

MAJORANT = "docs/optimal-composition.md, the Gaussian majorant"
_WALLETS = "docs/optimal-composition.md, Gaussian wallets"
BOUNDED_APART = "bounded-losses-apart"
"""Name of the method that adds the largest losses of bounded uses to the epsilon of the other uses."""

_ZCDP = "lem:zCDPgenbound with CanonneKaSt20"
_CLASSES = "docs/optimal-composition.md, classes beside linear mechanisms"


def moment_bounds(kinds: ClassifiedUses) -> Iterator[Bound]:
    """Yield bounds on the delta and epsilon of the uses in `kinds` that are computed from a few sums over the uses.

    Sums of one number per use do not depend on the order of the uses, so the bounds hold for any adaptive order. The
    numbers are means and variances of the privacy loss, zCDP parameters, or largest losses. Some bounds compose a part
    of the uses exactly, and use sums for the other uses only.
    """
    uses = kinds.uses
    from setwise.accounting.methods.moments import subgaussian_sum, zero_concentrated_sum

    subgaussian = subgaussian_sum(uses)
    if subgaussian is not None:
        yield from_curve("subgaussian-sum", "lem:genbound", subgaussian.delta, subgaussian.failure, tight=False)
    zcdp = zero_concentrated_sum(uses)
    beside = _zcdp_beside_gaussians(kinds)
    if beside is not None:
        yield beside
    yield from_curve("zcdp-sum", _ZCDP, zcdp.delta, zcdp.failure, tight=False)
    yield from _bounded_losses_apart(kinds)
    yield from _basic(uses, kinds.failure)


def _bounded_losses_apart(kinds: ClassifiedUses) -> Iterator[Bound]:
    """Yield upper bounds that leave out some uses of bounded loss, and add their largest losses to epsilon instead.

    At very small deltas such a bound can be lower than all other bounds on the uses in `kinds`.

    - The first bound leaves out all bounded-range uses.
    - The second leaves out all uses of bounded loss. It is yielded only if some use with a fixed dominating pair is
      among them, because otherwise it is the first.

    Nothing is yielded if there are no bounded-range uses, or if some use has neither a dominating pair nor bounded
    range. Nothing is yielded either if all losses are bounded, because basic composition then gives the same bound.

    Theorem: docs/optimal-composition.md, "Losses that hardly count"; its proof holds for losses of any size.
    """
    # The first bound adds the losses of all bounded-range uses. The second also adds the losses of all uses with fixed
    # dominating pairs whose loss is bounded. The remaining uses are composed exactly or on a lattice. At very small
    # deltas these bounds are closer to the optimum than the bounds by one Gaussian and by zCDP. If all losses are
    # bounded, basic composition is the same bound.
    unbounded = tuple(use for use in kinds.linear if largest_loss([use]) == math.inf)
    if kinds.classes or not kinds.ranges or not unbounded:
        return
    ranges = [(BoundedRange(epsilon=epsilon), count) for epsilon, count in kinds.ranges]
    bounded = [use for use in kinds.linear if use not in unbounded]
    yield _shifted(replace(kinds, ranges=()), largest_loss(ranges))
    if bounded:
        yield _shifted(replace(kinds, linear=unbounded, ranges=()), largest_loss([*ranges, *bounded]))


def _shifted(others: ClassifiedUses, shift: float) -> Bound:
    """Return a bound on the delta and epsilon of the uses in `others` and of uses whose losses only shift epsilon.

    The second sort is described by `shift` alone, the most to which the privacy losses of these uses can add up. The
    uses in `others` have fixed dominating pairs (known worst losses). The delta of all uses at an epsilon is at most
    the delta of `others` at epsilon - `shift`.
    """
    alone = linear_bound(others)

    def answer(target: Target, width: float | None) -> Bracket:
        """Return the bracket [0, upper end] for the delta or epsilon of all uses, whichever `target` asks for.

        The uses are of two sorts, which are arguments of the function around this one: those in `others` have fixed
        dominating pairs, and the losses of the rest sum up to at most `shift`. `width` is the wanted width, relative to
        the upper end, of the bracket (a certified interval) for `others`, or None for the default.

        Raises: `Unattainable` if `target` asks for the delta at an epsilon that is not above `shift`.
        """
        # `others` and `shift` are the arguments of `_shifted`: linear uses, and the total loss of all further uses.
        if target.wanted == "epsilon":
            return Bracket(0.0, up(alone.answer(target, width).upper + shift))
        if target.given <= shift:
            raise Unattainable("epsilon is not above the sum of the bounded losses; ask at a larger epsilon")
        return Bracket(0.0, alone.delta(max(0.0, down(target.given - shift)), width).upper)

    return Bound(BOUNDED_APART, SMALL_LOSSES, False, answer)


def _zcdp_beside_gaussians(kinds: ClassifiedUses) -> Bound | None:
    """Return the bound that composes the Gaussian uses in `kinds` exactly, and all other uses by their zCDP parameters.

    The result is None if there are no Gaussian uses, or if the zCDP parameter rho of the other uses is 0. The result is
    None also if every use has a dominating pair or bounded range, because better bounds exist then.
    """
    from setwise.accounting.methods.moments import ClassesBesideGaussian, zero_concentrated_sum

    gaussians = [known for known, _ in kinds.linear if isinstance(known, Gaussian)]
    zcdp = zero_concentrated_sum([use for use in kinds.uses if not isinstance(use.guarantee, Gaussian)])
    if not (kinds.classes and gaussians) or zcdp.rho == 0.0:
        return None
    together = ClassesBesideGaussian(zcdp.xi, zcdp.rho, gaussians[0].sigma, zcdp.failure)
    return from_curve("zcdp-beside-gaussian", _CLASSES, together.delta, zcdp.failure, tight=False)


def _basic(uses: Sequence[Use], failure: Bracket) -> Iterator[Bound]:
    """Yield the bound by basic composition (adding up epsilons) if every use has a bounded privacy loss; else nothing.

    By this bound, all uses together are (epsilon, delta)-DP, where epsilon is the sum of their largest losses, and
    delta is the upper end of `failure`, the bracket for the probability of outright failure (in which everything may be
    revealed).
    """
    from setwise.accounting.methods.exact import BASIC, BASIC_STATEMENT, BasicSum

    total = largest_loss((use.guarantee, use.count) for use in uses)
    if total == math.inf:
        return

    basic = BasicSum(total, failure)

    def answer(target: Target, _: float | None) -> Bracket:
        """Return the bracket [0, upper end] for the delta or epsilon that `target` asks for by basic composition.

        Raises: `Unattainable` if `target` asks for the epsilon at a delta below the probability of outright failure (in
        which everything may be revealed).
        """
        if target.wanted == "delta":
            return basic.delta(target.given)
        if target.given < failure.upper:
            raise Unattainable(delta_too_small(target.given, failure.upper))
        return Bracket(0.0, total)

    yield Bound(BASIC, BASIC_STATEMENT, False, answer)


def filter_bounds(kinds: ClassifiedUses) -> Iterator[Bound]:
    """Yield bounds on the delta and epsilon of the uses in `kinds` that also hold if parameters are chosen on the fly.

    Each bound comes from a privacy filter: a rule with a budget (of mu squared, of rho, or of epsilon), which refuses a
    use that would exceed the budget, and so keeps an (epsilon, delta) promise whatever uses an adversary chooses. The
    bound is the promise of the filter whose budget is just enough for the uses in `kinds`.
    """
    # A filter whose budget is exactly the sum that the uses in `kinds` need admits all these uses, and its promise is
    # the bound.
    uses = kinds.uses
    from setwise.accounting.methods.gaussian_majorant import in_any_order
    from setwise.accounting.wallet import gaussian_of
    from setwise.accounting.zcdp_filter import filter_parameters

    spent = filter_parameters(uses)
    size = in_any_order([(use.guarantee, use.count) for use in uses])
    if size < LARGEST_WALLET:
        budget = f"a wallet of mu = {up(math.sqrt(size)):.9g}, if no larger one is enforced"
        wallet = linear_bound(classify([Use(gaussian_of(size))] if size else []))

        def wallet_delta(x: float) -> Bracket:
            """Return [0, d], where d bounds the delta at epsilon `x` of all uses, by one Gaussian that dominates them.

            d includes the probability of outright failure (in which everything may be revealed).
            """
            return Bracket(0.0, either_fails(spent.failure, wallet.delta(x)).upper)

        bound = from_curve("gaussian-wallet", f"{_WALLETS}: {budget}", wallet_delta, spent.failure, tight=False)
        yield replace(bound, registered=("gaussian-majorant", MAJORANT))
    budget = f"rho = {spent.rho:.9g}, if no larger one is enforced"
    statement = f"WhitehouseRaRoWu23 with CanonneKaSt20: {budget}"
    bound = from_curve("zcdp-filter", statement, spent.delta, spent.failure, tight=False)
    yield replace(bound, registered=("zcdp-sum", _ZCDP))
    yield from _basic(uses, spent.failure)
