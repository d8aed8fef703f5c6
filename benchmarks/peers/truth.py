"""The truth of the accounting tasks, to 40 digits, where it has a closed form or an integral that converges fast.

Pure and (epsilon, delta) uses have a sum over a binomial (`thm:opt_DPCOMP`), Gaussians a formula (`lem:AGM`). A mix
with a Gaussian in it has an integral: with M(z) = E[exp(z L)] the moments of the privacy loss L,

    delta(epsilon) = E[(1 - exp(epsilon - L))_+] = 1 / (2 pi i) * integral of M(z) exp(-z epsilon) / (z (z + 1)) dz

along any vertical line right of 0, because 1 / (z (z + 1)) is the Laplace transform of 1 - exp(-t). The Gaussian makes
the integrand fall like exp(-c y^2), and the trapezoid rule converges faster than any power of its step.
"""

from collections.abc import Callable
from typing import Any

import mpmath
from tasks import Accounting, Uses

DIGITS = 40
_GUARD = 15


def epsilon(task: Accounting) -> Any | None:  # noqa: ANN401 - mpmath has no types
    """Return the task's epsilon with 40 digits, or None where only brackets are known."""
    kinds = {uses.kind for uses in task.uses}
    with mpmath.workdps(DIGITS + _GUARD):
        if kinds == {"gaussian"}:
            curve: Callable[[Any], Any] = _gaussian(task.uses)
        elif kinds <= {"pure", "approx"} and len(task.uses) == 1:
            curve = _randomized_response(task.uses[0])
        elif "gaussian" in kinds and kinds <= {"gaussian", "laplace", "pure"}:
            curve = _by_moments(task.uses)
        else:
            return None
        target = mpmath.mpf(str(task.delta))
        start = _bisected(lambda x: curve(x) - target)
        return mpmath.findroot(lambda x: mpmath.log(curve(x) / target), start, tol=mpmath.mpf(10) ** -(2 * DIGITS))


def _bisected(falling: Callable[[Any], Any]) -> tuple[Any, Any]:
    low, high = mpmath.mpf(0), mpmath.mpf(100)
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return low, high


def _number(value: float) -> Any:  # noqa: ANN401
    return mpmath.mpf(value)  # the double it is


def _gaussian(uses: tuple[Uses, ...]) -> Callable[[Any], Any]:
    sigma = 1 / mpmath.sqrt(sum(each.count / _number(each.parameters[0]) ** 2 for each in uses))

    def normal(x: Any) -> Any:  # noqa: ANN401
        return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

    return lambda x: normal(1 / (2 * sigma) - x * sigma) - mpmath.exp(x) * normal(-1 / (2 * sigma) - x * sigma)


def _randomized_response(uses: Uses) -> Callable[[Any], Any]:
    each, count = _number(uses.parameters[0]), uses.count
    failing = _number(uses.parameters[1]) if uses.kind == "approx" else mpmath.mpf(0)
    whole = 1 - (1 - failing) ** count
    keep = 1 / (1 + mpmath.exp(-each))

    def curve(x: Any) -> Any:  # noqa: ANN401
        first = int(mpmath.floor((x + count * each) / (2 * each))) + 1
        mass = mpmath.binomial(count, first) * keep**first * (1 - keep) ** (count - first)
        total = mpmath.mpf(0)
        for kept in range(first, count + 1):
            total += mass * -mpmath.expm1(x - (2 * kept - count) * each)
            if mass < total * mpmath.mpf(10) ** -(DIGITS + _GUARD):
                break
            mass *= mpmath.mpf(count - kept) / (kept + 1) * keep / (1 - keep)
        return whole + (1 - whole) * total

    return curve


def _by_moments(uses: tuple[Uses, ...]) -> Callable[[Any], Any]:
    def moments(z: Any) -> Any:  # noqa: ANN401
        product = mpmath.mpf(1)
        for each in uses:
            product *= _moment(each, z) ** each.count
        return product

    variance = sum(each.count / _number(each.parameters[0]) ** 2 for each in uses if each.kind == "gaussian")
    step = mpmath.mpf(1) / 60
    reach = int(mpmath.sqrt(2 * (DIGITS + _GUARD) * mpmath.log(10) / variance) / step) + 1

    line = mpmath.mpf(6)
    table = [moments(mpmath.mpc(line, index * step)) for index in range(reach)]

    def curve(x: Any) -> Any:  # noqa: ANN401
        total = mpmath.mpf(0)
        for index, moment in enumerate(table):
            z = mpmath.mpc(line, index * step)
            term = (moment * mpmath.exp(-z * x) / (z * (z + 1))).real
            total += term / 2 if index == 0 else term
        return total * step / mpmath.pi

    return curve


def _moment(uses: Uses, z: Any) -> Any:  # noqa: ANN401
    """Return E[exp(z L)] of one use."""
    match uses.kind:
        case "gaussian":
            return mpmath.exp(z * (z + 1) / (2 * _number(uses.parameters[0]) ** 2))
        case "laplace":
            each = 1 / _number(uses.parameters[0])
            return ((z + 1) * mpmath.exp(z * each) + z * mpmath.exp(-(z + 1) * each)) / (2 * z + 1)
        case _:
            each = _number(uses.parameters[0])
            return (mpmath.exp(each + z * each) + mpmath.exp(-z * each)) / (1 + mpmath.exp(each))
