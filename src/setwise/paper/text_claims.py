"""Claims of the paper's text that no figure shows: comparisons, constants, identities, and corrections."""

import math
from bisect import bisect_right
from fractions import Fraction
from itertools import permutations

from scipy.optimize import minimize_scalar

from setwise.accounting.adaptive.optimum import Optimum
from setwise.accounting.adaptive.stages import LinearStage, RangeStage
from setwise.accounting.brackets import Bracket
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import BoundedRange, Gaussian, PureDP, Use
from setwise.accounting.methods.closed_forms import ThreeMechanisms
from setwise.accounting.methods.moments import subgaussian_sum, zero_concentrated_sum
from setwise.accounting.notation import as_uses
from setwise.mechanisms.known_domain import KnownGaussian, KnownLaplace
from setwise.mechanisms.two_phase import OrderedLeastSquares
from setwise.mechanisms.unknown_domain import TruncatedGaussian
from setwise.paper import formulas
from setwise.paper.figure import Claim, ClaimRelation
from setwise.paper.formulas import gaussian_histogram_epsilon_by_paper, narrow

_EPSILON, _DELTA = 0.1, 1e-6


def claims() -> tuple[Claim, ...]:
    """Return the checks of the paper's text, in its order: each `Claim` pairs a number of the paper with ours."""
    return (*_introduction(), *_moments(), *_orders(), *_noises(), *_pure_orders())


def _introduction() -> tuple[Claim, ...]:
    """Return the checks of the paper's introduction, which compares bounded-range and pure-DP composition."""
    budget = compose([f"pure:{_EPSILON}x100"]).epsilon(_DELTA).upper
    uses_that_fit = bisect_right(range(501), budget, key=lambda count: _ranges(count) if count else 0.0) - 1
    batch = compose([f"bounded-range:{_EPSILON}x100"], "batch").epsilon(_DELTA).upper
    half = compose([f"pure:{_EPSILON / 2}x100"]).epsilon(_DELTA).upper
    return (
        Claim(
            label="thm:non-adaptive",
            says="nearly four times as many exponential mechanisms for the same bound as pure DP (for the bound of 100 "
            "uses of 0.1; ours: set-wise, certified)",
            paper=4.0,
            ours=uses_that_fit / 100.0,
            tolerance=0.25,
        ),
        Claim(
            label="thm:non-adaptive",
            says="epsilon-BR in a batch composes nearly like epsilon/2-DP (100 uses, ratio of overall epsilons)",
            paper=1.0,
            ours=batch / half,
            tolerance=0.05,
        ),
    )


def _ranges(count: int) -> float:
    """Return the overall epsilon at delta = 1e-6 of `count` bounded-range mechanisms of epsilon 0.1, in any order.

    This is Setwise's optimum, with which the paper's numbers are compared.
    """
    return compose([Use(BoundedRange(epsilon=_EPSILON), count)]).epsilon(_DELTA).upper


def _moments() -> tuple[Claim, ...]:
    """Return the checks of what the paper says about zCDP, and about means and sub-Gaussian parameters of losses.

    The losses are the privacy losses of mechanisms; a sub-Gaussian parameter bounds how far they are from their mean.
    """
    alpha = 0.5

    def mean(t: float) -> float:
        """Return the mean privacy loss of generalized randomized response with parameter `t` and epsilon = 0.5.

        Its losses are t and t - epsilon.
        """
        q = formulas.keep(alpha, t)
        return q * t + (1 - q) * (t - alpha)

    worst = minimize_scalar(lambda t: -mean(t), bounds=(0.0, alpha), method="bounded", options={"xatol": 1e-12})
    keep = formulas.keep(2 * alpha, alpha)
    ratio = alpha / math.expm1(alpha)
    zcdp = BoundedRange(epsilon=alpha).zero_concentrated()
    mixed = as_uses(["pure:0.1x25", "bounded-range:0.1x25", "cdp:0.005,0.1x5"])
    through_zcdp = as_uses(["zcdp:0.005x25", "bounded-range:0.1x25", "cdp:0.005,0.1x5"])
    by_means, by_divergences = subgaussian_sum(mixed), zero_concentrated_sum(through_zcdp)
    assert by_means is not None
    # The set-wise bound uses the mean loss of pure DP, and the paper's zCDP bound uses epsilon^2/2, so that each of the
    # 25 pure-DP uses differs by this much.
    means = PureDP(epsilon=0.1).concentrated().mu - 0.005
    return (
        Claim(
            label="lem:subgaussBounds",
            says="mean loss of epsilon-DP is at most epsilon (e^epsilon - 1)/(e^epsilon + 1) (0.5; ours: randomized "
            "response, which attains it)",
            paper=alpha * math.tanh(alpha / 2),
            ours=keep * alpha - (1 - keep) * alpha,
            tolerance=1e-12,
        ),
        Claim(
            label="lem:subgaussBounds",
            says="mean loss of alpha-BR is at most alpha/(e^alpha - 1) - 1 - ln(alpha/(e^alpha - 1)) (0.5; ours: "
            "largest mean of generalized randomized response)",
            paper=ratio - 1 - math.log(ratio),
            ours=-float(worst.fun),
            tolerance=1e-12,
        ),
        Claim(
            label="lem:subgaussBounds",
            says="the same from the library",
            paper=ratio - 1 - math.log(ratio),
            ours=BoundedRange(epsilon=alpha).mean_loss(),
            tolerance=1e-12,
        ),
        Claim(
            label="lem:CDPtozCDP",
            says="alpha-BR is (xi, alpha^2/8)-zCDP with xi at most 0 (0.5; ours: xi)",
            paper=0.0,
            ours=zcdp.xi,
            relation=ClaimRelation.BELOW,
        ),
        Claim(
            label="lem:zCDPgenbound",
            says="eq:setWiseCompEps2 also follows from the zCDP bound (25 DP, 25 BR of 0.1, 5 CDP; the pure-DP means "
            "added back)",
            paper=by_means.paper_epsilon(_DELTA),
            ours=by_divergences.paper_epsilon(_DELTA) + 25 * means,
            tolerance=1e-9,
        ),
        Claim(
            label="lem:GM",
            says="Delta/(2 sigma^2) + sqrt(2 Delta ln(1/delta))/sigma is the zCDP conversion (25, sigma = 13.1)",
            paper=gaussian_histogram_epsilon_by_paper(sigma=13.1, contributions=25, delta=_DELTA),
            ours=zero_concentrated_sum(as_uses(["gaussian:13.1x25"])).paper_epsilon(_DELTA),
            tolerance=1e-9,
        ),
    )


def _recursion(order: str, epsilon: float, g: float) -> Bracket:
    """Return certified lower and upper bounds on the optimal delta of mechanisms in a fixed order.

    `order` has one letter per mechanism, first to last: "D" for pure DP and "B" for bounded range, all of the same
    `epsilon`. `g` is the overall epsilon.
    """
    stages = tuple(
        LinearStage(((PureDP(epsilon=epsilon), 1),)) if letter == "D" else RangeStage(((epsilon, 1),))
        for letter in order
    )
    return narrow(lambda width: Optimum(stages, Bracket(0.0, 0.0)).delta(g, width))


def _orders() -> tuple[Claim, ...]:
    """Return the checks of statements about the order of pure-DP (DP) and bounded-range (BR) mechanisms.

    Delta is the same wherever a single BR mechanism stands (prop:sbr-ord), and it is largest if BR mechanisms come last
    (lem:bad_order).
    """
    epsilon, g = 0.5, 0.6
    batch = formulas.batch_delta(4, 3, epsilon, g)
    ends = [_recursion(order, epsilon, g) for order in ("BDDD", "DBDD", "DDBD", "DDDB")]
    last, first = _recursion("DDBB", epsilon, 0.3), _recursion("BBDD", epsilon, 0.3)
    return (
        Claim(
            label="prop:sbr-ord",
            says="the place of one BR among three DP does not matter (k = 4, epsilon = 0.5, g = 0.6; largest "
            "distance of a certified end from the batch optimum)",
            paper=0.0,
            ours=max(abs(end - batch) for bracket in ends for end in (bracket.lower, bracket.upper)),
            tolerance=1e-5,
        ),
        Claim(
            label="lem:bad_order",
            says="BR last is the worst order (two DP, two BR of 0.5, g = 0.3; paper: upper end with BR first, ours: "
            "lower end with BR last)",
            paper=first.upper,
            ours=last.lower,
            relation=ClaimRelation.ABOVE,
        ),
    )


def _noises() -> tuple[Claim, ...]:
    """Return the checks of the privacy cost that the paper states for the noise of its histogram mechanisms.

    Each number of the paper is compared with the number that the mechanism of this library states as its cost.
    """
    sigma, counts = Fraction(20), 10
    words = tuple(f"word {place}" for place in range(25))
    known = KnownGaussian(domain=words, contributions=counts, sigma=sigma)
    ordered = OrderedLeastSquares(order=words, contributions=None, sigma=sigma)
    truncated = TruncatedGaussian(contributions=counts, sigma=sigma, delta=Fraction("1e-9"))
    cdp = Gaussian(sigma=20.0).concentrated()
    return (
        Claim(
            label="lem:peeling_lap",
            says="the variance of Lap(b) is 2 b^2 (b = 10; ours: the integer noise that is drawn, a little less)",
            paper=200.0,
            ours=KnownLaplace(domain=words, contributions=counts, scale=Fraction(10)).noise.standard_deviation ** 2,
            tolerance=0.2,
        ),
        Claim(
            label="lem:GM",
            says="Gaussian noise is (1/(2 sigma^2), 1/sigma)-CDP (sigma = 20; the mean)",
            paper=1 / 800,
            ours=cdp.mu,
            tolerance=1e-15,
        ),
        Claim(
            label="lem:GM",
            says="Gaussian noise is (1/(2 sigma^2), 1/sigma)-CDP (sigma = 20; the spread)",
            paper=1 / 20,
            ours=cdp.tau,
            tolerance=1e-15,
        ),
        Claim(
            label="table:tasks",
            says="knownLap with Gaussian noise is Delta/(2 sigma^2)-zCDP (Delta = 10, sigma = 20)",
            paper=10 / 800,
            ours=zero_concentrated_sum(known.guarantees()).rho,
            tolerance=1e-12,
        ),
        Claim(
            label="algo:least_squares",
            says="Gaussian counts of k discovered elements are k/(2 sigma^2)-zCDP (k = 25, sigma = 20)",
            paper=25 / 800,
            ours=zero_concentrated_sum(ordered.guarantees()).rho,
            tolerance=1e-12,
        ),
        Claim(
            label="algo:truncGauss",
            says="truncGauss is delta-approximately Delta/(2 sigma^2)-zCDP (Delta = 10, sigma = 20)",
            paper=10 / 800,
            ours=zero_concentrated_sum([truncated.concentrated()]).rho,
            tolerance=1e-12,
        ),
    )


def pure_delta_in_order(epsilons: tuple[float, ...], g: float) -> float:
    """Return the optimal delta at overall epsilon `g` of pure-DP mechanisms with these `epsilons`, in this order.

    The delta is computed in plain floats by the paper's recursion over the mechanisms, first to last.

    Theorem: lem:adap_recursion_hetero.
    """
    if not epsilons:
        return max(0.0, -math.expm1(g))
    epsilon, later = epsilons[0], epsilons[1:]
    keep = formulas.keep(2 * epsilon, epsilon)
    return keep * pure_delta_in_order(later, g - epsilon) + (1 - keep) * pure_delta_in_order(later, g + epsilon)


def _pure_orders() -> tuple[Claim, ...]:
    """Return the checks that delta is the same for every order of pure-DP mechanisms with different parameters."""
    parameters, g = (0.05, 0.2, 0.5, 0.9, 1.3), 0.8
    values = [pure_delta_in_order(order, g) for order in permutations(parameters)]
    exact = compose([PureDP(epsilon=epsilon) for epsilon in parameters]).delta(g).upper
    return (
        Claim(
            label="new:pure-order",
            says="does the order of unequal pure-DP parameters matter? No (five parameters, all 120 orders; largest "
            "difference)",
            paper=0.0,
            ours=max(values) - min(values),
            tolerance=1e-15,
        ),
        Claim(
            label="new:pure-order",
            says="and the common value is the heterogeneous optimum",
            paper=exact,
            ours=values[0],
            tolerance=1e-12,
        ),
    )


_STEP = 1e-5
"""Step of central differences; their error is about 1e-10 here."""


def corrections() -> tuple[Claim, ...]:
    """Return a check for each correction of the paper that changes a number; docs/closed-forms.md lists them all.

    Each `Claim` has the printed number, ours, and a third one computed independently.
    """
    return (*_partial_sums(), _one_range(), _union(), *_derivatives())


def _partial_sums() -> tuple[Claim, ...]:
    """Return corrections of the paper's lem:deriv_zero and its proof, each checked for one set of parameters.

    The lemma is about the largest delta of mechanisms chosen up front, which is a double sum. F_ell(t) is the sum of
    its first summands, where t is the parameter of the bounded-range mechanisms, and the lemma says at which t its
    slope is 0. Each correction compares a slope by the printed formula, by the corrected formula, and by independent
    means.
    """
    ranges, pure, epsilon, g, t, last = 3, 2, 0.5, 0.7, 0.2, 3

    def slope(power: str, at: int) -> float:
        """Return the derivative at t = 0.2 of the partial sum F_ell for ell = `at`, by central differences.

        F_ell(t) is a part of the double sum for the optimal delta of a batch, mechanisms chosen up front (see
        `formulas.partial_sum`). `power` is the exponent of the last factor of each summand: "j", as the paper prints
        it, or "i", which is right. The caller compares the result with the derivative by a formula.
        """
        ends = [
            formulas.partial_sum(t + sign * _STEP, at, ranges, pure, epsilon, g, power=power) for sign in (1.0, -1.0)
        ]
        return (ends[0] - ends[1]) / (2 * _STEP)

    right = formulas.partial_sum_slope(t, last, ranges, pure, epsilon, g, uses=ranges)
    weight = formulas.keep(2 * epsilon, epsilon) ** pure
    factor = ranges * weight / -math.expm1(-epsilon) * formulas.keep(epsilon, t) ** (ranges - 1)
    base = [factor * (math.exp(e - epsilon * pure - t * ranges) - math.exp(t - epsilon)) for e in (epsilon, g)]
    return (
        Claim(
            label="lem:deriv_zero",
            says="F_ell has (1 - q)^j as its last factor; it is (1 - q)^i (derivative at t = 0.2; k = 5, m = 2, "
            "epsilon = 0.5, g = 0.7, ell = 3; independent: the lemma's formula)",
            paper=slope("j", last),
            ours=slope("i", last),
            relation=ClaimRelation.CORRECTED,
            independent=right,
            tolerance=1e-8,
        ),
        Claim(
            label="lem:deriv_zero",
            says="the last line of the proof has (k - i); it is (k' - i) (same derivative; independent: differences)",
            paper=formulas.partial_sum_slope(t, last, ranges, pure, epsilon, g, uses=ranges + pure),
            ours=right,
            relation=ClaimRelation.CORRECTED,
            independent=slope("i", last),
            tolerance=1e-8,
        ),
        Claim(
            label="lem:deriv_zero",
            says="the base case has e^(epsilon - ...); it is e^(epsilon_g - ...) (derivative of F_0; "
            "independent: differences)",
            paper=base[0],
            ours=base[1],
            relation=ClaimRelation.CORRECTED,
            independent=slope("i", 0),
            tolerance=1e-8,
        ),
    )


def _one_range() -> Claim:
    """Return the correction of the paper's corollary about one bounded-range mechanism among k - 1 pure-DP mechanisms.

    The corollary follows prop:sbr-ord, and counts the pure-DP mechanisms wrongly. It is evaluated for k = 4, epsilon =
    0.5 and overall epsilon 0.6.
    """
    epsilon, g = 0.5, 0.6
    stages = (LinearStage(((PureDP(epsilon=epsilon), 3),)), RangeStage(((epsilon, 1),)))
    bracket = narrow(lambda width: Optimum(stages, Bracket(0.0, 0.0)).delta(g, width))
    return Claim(
        label="prop:sbr-ord",
        says="one BR among k uses: thm:opt_nonadaptive with m = 1; it is m = k - 1 (k = 4, epsilon = 0.5, g = 0.6; "
        "independent: the recursion)",
        paper=formulas.batch_delta(4, 1, epsilon, g),
        ours=formulas.batch_delta(4, 3, epsilon, g),
        relation=ClaimRelation.CORRECTED,
        independent=0.5 * (bracket.lower + bracket.upper),
        tolerance=1e-5,
    )


def _union() -> Claim:
    """Return the correction of a proof that conditions on the union of good events; it must be their intersection.

    A good event is that one mechanism does not fail. The check computes delta for two mechanisms that each reveal
    everything with probability 0.1: with the union delta is 0.01, and with the intersection it is 0.19.
    """
    failure, uses = 0.1, 2
    return Claim(
        label="lem:zCDPgenbound",
        says="condition on the union of the good events; it is their intersection (two uses that fail with chance 0.1: "
        "delta from each; independent: exact composition)",
        paper=failure**uses,
        ours=1.0 - (1.0 - failure) ** uses,
        relation=ClaimRelation.CORRECTED,
        independent=compose([f"approx:0,{failure}x{uses}"]).delta(0.0).upper,
        tolerance=1e-12,
    )


def _derivatives() -> tuple[Claim, ...]:
    """Return the corrections of four derivatives in the proof of lem:ordbrdp2, each of which lacks a positive factor.

    That lemma compares the orders of one pure-DP and two bounded-range mechanisms. The zeros of the printed derivatives
    are right, because a positive factor does not move them.
    """
    epsilon, g, t = 1.0, 0.3, 0.6
    three = ThreeMechanisms(epsilon)
    half = math.exp(epsilon / 2)
    keep, shrink = formulas.keep(2 * epsilon, epsilon), -math.expm1(-epsilon)
    v = math.exp(t)
    slope_x = (1 - half) / shrink**2 * (v - half) * math.exp((g - t) / 2 - 2 * epsilon)
    near, far = math.exp((g + epsilon) / 2), math.exp(epsilon + g / 2)
    slope_y = math.exp(-2 * epsilon - t) * (math.exp(t / 2) - near) * (math.exp(1.5 * t) - near)
    slope_z = -math.exp(-epsilon - t) * (math.exp(t / 2) - math.exp(g / 2)) * (math.exp(1.5 * t) - far)
    slope_sum = (half - 1) ** 2 * (half + 1) * (half - v) * math.exp((g - 6 * epsilon - t) / 2)
    rows = (
        ("x'", "q_{2e,e}", slope_x, keep, three.x),
        ("y'", "q_{2e,e}/(1 - e^-e)^2", slope_y, keep / shrink**2, three.y),
        ("z'", "(1 - q_{2e,e})/(1 - e^-e)^2", slope_z, (1 - keep) / shrink**2, three.z),
        ("(y + z)'", "q_{2e,e}/(1 - e^-e)^3", slope_sum, keep / shrink**3, lambda t, g: three.y(t, g) + three.z(t, g)),
    )
    return tuple(
        Claim(
            label="lem:ordbrdp2",
            says=f"{name} in the proof lacks the factor {factor}; signs and zeros are right (epsilon = 1, g = 0.3, "
            "t = 0.6; independent: differences)",
            paper=slope,
            ours=slope * missing,
            relation=ClaimRelation.CORRECTED,
            independent=(function(t + _STEP, g) - function(t - _STEP, g)) / (2 * _STEP),
            tolerance=1e-8,
        )
        for name, factor, slope, missing, function in rows
    )
