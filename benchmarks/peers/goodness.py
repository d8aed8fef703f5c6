"""Do draws follow the law they claim? A chi-squared test against that law, cell by cell."""

import math
from collections import Counter
from collections.abc import Callable, Sequence

from scipy.stats import chisquare

_SCALE = 10.0
_LEAST = 20.0
"""Draws a cell should expect; the tails are pooled into two cells."""


def p_value(draws: Sequence[int], law: str) -> float:
    """Return the probability of a fit at least as bad if the draws follow the law of scale or deviation 10."""
    mass = _masses(law)
    reach = max(x for x in range(400) if len(draws) * mass(x) >= _LEAST)
    cells = range(-reach, reach + 1)
    seen = Counter(draws)
    observed = [seen[x] for x in cells]
    expected = [len(draws) * mass(x) for x in cells]
    low, high = sum(n for x, n in seen.items() if x < -reach), sum(n for x, n in seen.items() if x > reach)
    rest = (len(draws) - sum(expected)) / 2
    return float(chisquare([low, *observed, high], [rest, *expected, rest]).pvalue)


def _masses(law: str) -> Callable[[int], float]:
    match law:
        case "discrete-laplace":
            factor = math.tanh(1 / (2 * _SCALE))
            return lambda x: factor * math.exp(-abs(x) / _SCALE)
        case "discrete-gaussian":
            whole = sum(math.exp(-(x**2) / (2 * _SCALE**2)) for x in range(-400, 401))
            return lambda x: math.exp(-(x**2) / (2 * _SCALE**2)) / whole
        case "rounded-laplace":
            return lambda x: _laplace(x + 0.5) - _laplace(x - 0.5)
        case "rounded-gaussian":
            return lambda x: _normal(x + 0.5) - _normal(x - 0.5)
        case _:
            raise ValueError(f"no law is called {law!r}")


def _laplace(x: float) -> float:
    tail = math.exp(-abs(x) / _SCALE) / 2
    return tail if x < 0 else 1 - tail


def _normal(x: float) -> float:
    return math.erfc(-x / (_SCALE * math.sqrt(2))) / 2
