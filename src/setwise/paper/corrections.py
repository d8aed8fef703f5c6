"""Where the text as printed is wrong: the value it gives, the corrected one, and one found independently."""

import math

from setwise.accounting.adaptive.optimum import Optimum
from setwise.accounting.adaptive.stages import LinearStage, RangeStage
from setwise.accounting.brackets import Bracket
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import PureDP
from setwise.accounting.methods.closed_forms import ThreeMechanisms
from setwise.paper import printed
from setwise.paper.claim import Claim, Relation
from setwise.paper.composition import narrow

_STEP = 1e-5
"""For central differences: their error is about 1e-10 here."""


def claims() -> tuple[Claim, ...]:
    """Return a claim for each correction that changes a number; docs/closed-forms.md lists them all."""
    return (*_partial_sums(), _one_range(), _union(), *_derivatives())


def _partial_sums() -> tuple[Claim, ...]:
    """F_ell and its derivative, for k = 5, m = 2, epsilon = 0.5, overall epsilon 0.7, ell = 3, t = 0.2."""
    ranges, pure, epsilon, g, t, last = 3, 2, 0.5, 0.7, 0.2, 3

    def slope(power: str, at: int) -> float:
        ends = [
            printed.partial_sum(t + sign * _STEP, at, ranges, pure, epsilon, g, power=power) for sign in (1.0, -1.0)
        ]
        return (ends[0] - ends[1]) / (2 * _STEP)

    right = printed.partial_sum_slope(t, last, ranges, pure, epsilon, g, uses=ranges)
    weight = printed.keep(2 * epsilon, epsilon) ** pure
    factor = ranges * weight / -math.expm1(-epsilon) * printed.keep(epsilon, t) ** (ranges - 1)
    base = [factor * (math.exp(e - epsilon * pure - t * ranges) - math.exp(t - epsilon)) for e in (epsilon, g)]
    return (
        Claim(
            label="lem:deriv_zero",
            says="F_ell has (1 - q)^j as its last factor; it is (1 - q)^i (derivative at t = 0.2; k = 5, m = 2, "
            "epsilon = 0.5, g = 0.7, ell = 3; independent: the lemma's formula)",
            paper=slope("j", last),
            ours=slope("i", last),
            relation=Relation.CORRECTED,
            independent=right,
            tolerance=1e-8,
        ),
        Claim(
            label="lem:deriv_zero",
            says="the last line of the proof has (k - i); it is (k' - i) (same derivative; independent: differences)",
            paper=printed.partial_sum_slope(t, last, ranges, pure, epsilon, g, uses=ranges + pure),
            ours=right,
            relation=Relation.CORRECTED,
            independent=slope("i", last),
            tolerance=1e-8,
        ),
        Claim(
            label="lem:deriv_zero",
            says="the base case has e^(epsilon - ...); it is e^(epsilon_g - ...) (derivative of F_0; "
            "independent: differences)",
            paper=base[0],
            ours=base[1],
            relation=Relation.CORRECTED,
            independent=slope("i", 0),
            tolerance=1e-8,
        ),
    )


def _one_range() -> Claim:
    """The corollary after prop:sbr-ord, for k = 4, epsilon = 0.5, overall epsilon 0.6."""
    epsilon, g = 0.5, 0.6
    stages = (LinearStage(((PureDP(epsilon=epsilon), 3),)), RangeStage(((epsilon, 1),)))
    found = narrow(lambda width: Optimum(stages, Bracket(0.0, 0.0)).delta(g, width))
    return Claim(
        label="prop:sbr-ord",
        says="one BR among k uses: thm:opt_nonadaptive with m = 1; it is m = k - 1 (k = 4, epsilon = 0.5, g = 0.6; "
        "independent: the recursion)",
        paper=printed.batch_delta(4, 1, epsilon, g),
        ours=printed.batch_delta(4, 3, epsilon, g),
        relation=Relation.CORRECTED,
        independent=0.5 * (found.lower + found.upper),
        tolerance=1e-5,
    )


def _union() -> Claim:
    """Two uses that reveal everything with probability 0.1 each."""
    each, uses = 0.1, 2
    return Claim(
        label="lem:zCDPgenbound",
        says="condition on the union of the good events; it is their intersection (two uses that fail with chance 0.1: "
        "delta from each; independent: exact composition)",
        paper=each**uses,
        ours=1.0 - (1.0 - each) ** uses,
        relation=Relation.CORRECTED,
        independent=compose([f"approx:0,{each}x{uses}"]).delta(0.0).upper,
        tolerance=1e-12,
    )


def _derivatives() -> tuple[Claim, ...]:
    """The derivatives in the proof of lem:ordbrdp2 lack positive factors; the stationary points are right."""
    epsilon, g, t = 1.0, 0.3, 0.6
    three = ThreeMechanisms(epsilon)
    half = math.exp(epsilon / 2)
    keep, shrink = printed.keep(2 * epsilon, epsilon), -math.expm1(-epsilon)
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
            relation=Relation.CORRECTED,
            independent=(function(t + _STEP, g) - function(t - _STEP, g)) / (2 * _STEP),
            tolerance=1e-8,
        )
        for name, factor, slope, missing, function in rows
    )
