"""Uses as people say them."""

import re
from typing import assert_never

from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
    ConcentratedDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Guarantee,
    Laplace,
    PureDP,
    TruncatedDiscreteGaussian,
    ZeroConcentratedDP,
)
from setwise.accounting.notation import parse_use


def small(value: float) -> str:
    """Return a small number with few digits.

    >>> small(1e-6), small(0.05)
    ('1e-6', '0.05')
    """
    return re.sub(r"e([+-])0*", r"e\1", f"{value:.3g}")


def use_in_words(text: str) -> str:
    """Return a written use in words.

    >>> use_in_words("bounded-range:0.1x8")
    '8 picks at ε 0.1'
    >>> use_in_words("approx:0,1e-09")
    '1 threshold at δ 1e-9'
    """
    use = parse_use(text)
    noun, at = _words(use.guarantee)
    return f"{use.count:,} {noun if use.count == 1 else noun + 's'} at {at}"


def kind_in_words(text: str) -> str:
    """Return the kind of a written use in words, whatever its count.

    >>> kind_in_words("pure:0.1x25")
    'counts at ε 0.1'
    """
    noun, at = _words(parse_use(text).guarantee)
    return f"{noun}s at {at}"


def _words(guarantee: Guarantee) -> tuple[str, str]:
    match guarantee:
        case PureDP(epsilon=epsilon):
            return "count", f"ε {epsilon:g}"
        case BoundedRange(epsilon=epsilon):
            return "pick", f"ε {epsilon:g}"
        case Gaussian(sigma=sigma):
            return "Gaussian count", f"σ {sigma:g}"
        case Laplace(scale=scale):
            return "Laplace count", f"scale {scale:g}"
        case DiscreteLaplace(scale=scale):
            return "integer Laplace count", f"scale {scale:g}"
        case DiscreteGaussian(sigma=sigma):
            return "integer Gaussian count", f"σ {sigma:g}"
        case TruncatedDiscreteGaussian(sigma=sigma):
            return "truncated Gaussian count", f"σ {sigma:g}"
        case ApproxDP(epsilon=0.0, delta=delta):
            return "threshold", f"δ {small(delta)}"
        case ApproxDP(epsilon=epsilon, delta=delta):
            return "approximate use", f"ε {epsilon:g}, δ {small(delta)}"
        case ZeroConcentratedDP(rho=rho, delta=delta):
            return "zCDP use", f"ρ {rho:.4g}" + (f", δ {small(delta)}" if delta else "")
        case ConcentratedDP(mu=mu, tau=tau):
            return "concentrated use", f"μ {mu:g}, τ {tau:g}"
        case _:
            assert_never(guarantee)
