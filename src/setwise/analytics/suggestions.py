"""What would fit into an account that cannot pay for a question."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

from setwise.accounting.guarantees import Use
from setwise.analytics.payer import AccountPayer
from setwise.errors import SetwiseError
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.planning.request import CountNoise, Total

_LEAST = 1e-3
_HALVINGS = 10
"""A smaller epsilon is looked for down to this share of the one asked for, to within 0.7% of itself."""

_FEWER = (1.0, 0.9, 0.7, 0.4)
"""Shares of the epsilon that would fit if the same mechanism with the same split were planned for it."""


def what_fits(total: Total, needed: Sequence[Use], account: AccountPayer, fits: Callable[[Total], bool]) -> str | None:
    """Return in words a total near the one asked for that the account would still pay for, or None if none is found.

    A wallet pays less for Gaussian noise than for Laplace noise of the same (epsilon, delta), so that is tried first;
    then the largest epsilon, to two digits, at which the account pays for uses like those planned, by whichever rule.
    """
    for words, other in (*_gaussian(total, account.status()), *_smaller(total, needed, account)):
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


def _smaller(total: Total, needed: Sequence[Use], account: AccountPayer) -> Iterator[tuple[str, Total]]:
    found = _paid_share(needed, account)
    if found is None:
        return
    for fewer in _FEWER:
        epsilon = _two_digits(fewer * float(total.epsilon) * found)
        yield f"an epsilon of {float(epsilon):g}", replace(total, epsilon=epsilon)


def _paid_share(needed: Sequence[Use], account: AccountPayer) -> float | None:
    """Return the share of their epsilon at which the account pays for the uses, None when it does at none.

    What it pays falls with the epsilon, so it is found by halving on a logarithmic scale.
    """
    low, high = math.log(_LEAST), 0.0

    def pays(log_share: float) -> bool:
        try:
            return account.shortage([_weaker(use, math.exp(log_share)) for use in needed]) is None
        except SetwiseError:
            return False  # no mechanism has these parameters, or no use of that kind is registered

    if not pays(low):
        return None
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if pays(middle) else (low, middle)
    return math.exp(low)


def _weaker(use: Use, share: float) -> Use:
    """Return the use with a share of its epsilon, and that much more noise."""
    guarantee: Any = use.guarantee
    names = {each.name for each in fields(guarantee)}
    changed: dict[str, float] = {name: getattr(guarantee, name) * share for name in names & {"epsilon"}}
    changed |= {name: getattr(guarantee, name) / share for name in names & {"scale", "sigma"}}
    changed |= {name: math.ceil(getattr(guarantee, name) / share) for name in names & {"bound"}}
    return Use(replace(guarantee, **changed), use.count)


def _two_digits(value: float) -> Fraction:
    """Return the value rounded down to two digits."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 1)
    return math.floor(Fraction(value) / unit) * unit
