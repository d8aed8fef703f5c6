"""What would fit into an account that cannot pay for a question."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from setwise.accounting.filters import filter_parameters
from setwise.accounting.guarantees import Use
from setwise.errors import SetwiseError
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.planning.request import CountNoise, Total

_SMALLER = (1.0, 0.7, 0.4)
"""Shares of the epsilon that would fit if rho were its square times a constant."""


def what_fits(total: Total, needed: Sequence[Use], status: AccountStatus, fits: Callable[[Total], bool]) -> str | None:
    """Return in words a total near the one asked for that the account would still pay for, or None if none is found.

    A filter prices everything by rho. Laplace noise has more of it than Gaussian noise of the same (epsilon, delta), so
    that is tried first; then a smaller epsilon.
    """
    for words, other in (*_gaussian(total, status), *_smaller(total, needed, status)):
        try:
            if fits(other):
                return f"it would fit with {words}"
        except SetwiseError:
            continue  # no mechanism has these parameters
    return None


def _gaussian(total: Total, status: AccountStatus) -> Iterator[tuple[str, Total]]:
    if total.counts in (CountNoise.BEST, CountNoise.LAPLACE) and total.mechanism is None:
        if total.delta:
            yield "gaussian counts", replace(total, counts=CountNoise.GAUSSIAN)
        else:
            delta = status.delta / 10
            yield (
                f"gaussian counts and a delta of {delta:g}",
                replace(total, counts=CountNoise.GAUSSIAN, delta=Fraction(delta)),
            )


def _smaller(total: Total, needed: Sequence[Use], status: AccountStatus) -> Iterator[tuple[str, Total]]:
    there, asked = filter_parameters(status.left).rho, filter_parameters(needed).rho
    if not 0.0 < there < asked:
        return
    for share in _SMALLER:
        epsilon = _two_digits(share * float(total.epsilon) * math.sqrt(there / asked))
        yield f"an epsilon of {float(epsilon):g}", replace(total, epsilon=epsilon)


def _two_digits(value: float) -> Fraction:
    """Return the value rounded down to two digits."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 1)
    return math.floor(Fraction(value) / unit) * unit
