"""The written form of uses, MECH = KIND:PARAMETERS[xCOUNT], as the command line and the ledger speak it.

>>> parse_use("pure:0.1x25")
Use(guarantee=PureDP(epsilon=0.1), count=25)
>>> format_use(parse_use("approx:0.1,1e-9x3"))
'approx:0.1,1e-09x3'
"""

import re
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
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
    Use,
    ZeroConcentratedDP,
)
from setwise.errors import InvalidParameter

_FORM = re.compile(r"(?P<kind>[a-z-]+):(?P<parameters>[^x]+)(?:x(?P<count>[^x]*))?")


def _whole(value: float) -> int:
    if not float(value).is_integer():
        raise InvalidParameter(f"a sensitivity or bound must be a whole number, not {value!r}")
    return int(value)


_MAKERS: dict[str, tuple[int, int, Callable[..., Guarantee]]] = {
    # kind: fewest parameters, most parameters, how to build it
    "pure": (1, 1, lambda epsilon: PureDP(epsilon=epsilon)),
    "bounded-range": (1, 1, lambda epsilon: BoundedRange(epsilon=epsilon)),
    "laplace": (1, 1, lambda scale: Laplace(scale=scale)),
    "gaussian": (1, 1, lambda sigma: Gaussian(sigma=sigma)),
    "zcdp": (1, 3, lambda rho, xi=0.0, delta=0.0: ZeroConcentratedDP(rho=rho, xi=xi, delta=delta)),
    "cdp": (2, 2, lambda mu, tau: ConcentratedDP(mu=mu, tau=tau)),
    "approx": (2, 2, lambda epsilon, delta: ApproxDP(epsilon=epsilon, delta=delta)),
    "discrete-laplace": (
        1,
        2,
        lambda scale, sensitivity=1: DiscreteLaplace(scale=scale, sensitivity=_whole(sensitivity)),
    ),
    "discrete-gaussian": (
        1,
        2,
        lambda sigma, sensitivity=1: DiscreteGaussian(sigma=sigma, sensitivity=_whole(sensitivity)),
    ),
    "truncated-gaussian": (
        2,
        3,
        lambda sigma, bound, sensitivity=1: TruncatedDiscreteGaussian(
            sigma=sigma, bound=_whole(bound), sensitivity=_whole(sensitivity)
        ),
    ),
}


def parse_use(text: str) -> Use:
    """Read one MECH such as ``pure:0.1x25`` or ``approx:0.1,1e-9``; raise `InvalidParameter` when it is malformed."""
    form = _FORM.fullmatch(text.strip())
    if form is None:
        raise InvalidParameter(f"{text!r} is not of the form KIND:PARAMETERS[xCOUNT], such as pure:0.1x25")
    kind = form["kind"]
    if kind not in _MAKERS:
        raise InvalidParameter(f"{text!r} has the unknown kind {kind!r}; known kinds are {', '.join(_MAKERS)}")
    fewest, most, make = _MAKERS[kind]
    try:
        parameters = [float(part) for part in form["parameters"].split(",")]
    except ValueError:
        raise InvalidParameter(f"{text!r} has a parameter that is not a number") from None
    if not fewest <= len(parameters) <= most:
        wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
        raise InvalidParameter(f"{text!r} needs {wanted} parameter(s), not {len(parameters)}")
    count = 1
    if form["count"] is not None:
        if not re.fullmatch(r"[+-]?\d+", form["count"]):
            raise InvalidParameter(f"{text!r} has the count {form['count']!r}, which is not a whole number")
        count = int(form["count"])
    try:
        return Use(make(*parameters), count)
    except InvalidParameter as error:
        raise InvalidParameter(f"in {text!r}, {error}") from None


def format_use(use: Use) -> str:
    """Write a use as MECH; reading it back gives the same use, to the last bit."""
    kind, parameters = _written(use.guarantee)
    text = f"{kind}:{','.join(repr(value) for value in parameters)}"
    return text if use.count == 1 else f"{text}x{use.count}"


def _written(guarantee: Guarantee) -> tuple[str, list[float]]:
    match guarantee:
        case PureDP(epsilon=epsilon):
            return "pure", [epsilon]
        case BoundedRange(epsilon=epsilon):
            return "bounded-range", [epsilon]
        case Laplace(scale=scale):
            return "laplace", [scale]
        case Gaussian(sigma=sigma):
            return "gaussian", [sigma]
        case ZeroConcentratedDP(rho=rho, xi=xi, delta=delta):
            return "zcdp", [rho, xi, delta] if delta else [rho, xi] if xi else [rho]
        case ConcentratedDP(mu=mu, tau=tau):
            return "cdp", [mu, tau]
        case ApproxDP(epsilon=epsilon, delta=delta):
            return "approx", [epsilon, delta]
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity):
            return "discrete-laplace", [scale, sensitivity]
        case DiscreteGaussian(sigma=sigma, sensitivity=sensitivity):
            return "discrete-gaussian", [sigma, sensitivity]
        case TruncatedDiscreteGaussian(sigma=sigma, bound=bound, sensitivity=sensitivity):
            return "truncated-gaussian", [sigma, bound, sensitivity]
        case _:
            assert_never(guarantee)


_ROUND_OFF = Decimal("1e-12")
"""What lies beyond the twelfth digit is taken for the round-off of a float that stands for a shorter number."""


def rounded_up(value: float, digits: int = 6) -> str:
    """Write a promise with a few digits, never smaller than it is, round-off aside.

    >>> rounded_up(0.12345678), rounded_up(0.1, 4), rounded_up(0.1 * 3, 4), rounded_up(0.10001, 4)
    ('0.123457', '0.1', '0.3', '0.1001')
    """
    return _formatted(Context(prec=digits, rounding=ROUND_CEILING), Decimal(repr(float(value))) * (1 - _ROUND_OFF))


def rounded_down(value: float, digits: int = 6) -> str:
    """Write what is left with a few digits, never more than it is, round-off aside.

    >>> rounded_down(0.12345678), rounded_down(0.3, 4), rounded_down(4.0099999999999995e-07, 4)
    ('0.123456', '0.3', '4.01e-07')
    """
    return _formatted(Context(prec=digits, rounding=ROUND_FLOOR), Decimal(repr(float(value))) * (1 + _ROUND_OFF))


def _formatted(context: Context, value: Decimal) -> str:
    if not value.is_finite():
        return "infinity"
    return f"{float(context.create_decimal(value)):.{context.prec}g}"
