"""Amounts of a filter as whole numbers, so that no sum of charges is ever rounded.

A total rho (or total chance of failure) is `UNITS` = 2^60 units. A charge takes the units it needs, rounded up; what is
left is reported rounded down. Both databases hold such numbers exactly.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from setwise.accounting.filters import Spent, ZcdpFilter
from setwise.accounting.guarantees import (
    ApproxDP,
    DiscreteLaplace,
    Guarantee,
    Laplace,
    PureDP,
    Use,
    ZeroConcentratedDP,
    raised,
)
from setwise.accounting.intervals import down, up
from setwise.errors import Unattainable

UNITS = 2**60
"""Units in a total."""

RHO = "rho"
FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a zCDP filter, as exact floats: `rho`, and the chance of outright `failure`."""

    rho: float
    failure: float

    def lines(self) -> dict[str, int]:
        """Return the units of each total."""
        return {FAILURE: UNITS if self.failure else 0, RHO: UNITS if self.rho else 0}

    def price(self, uses: Iterable[Use]) -> dict[str, int]:
        """Return the units the uses take, rounded up; never more than one unit beyond the total.

        Theorem: WhitehouseRaRoWu23; a positive xi joins rho and a negative one is dropped, as in `Spent.plus`.
        """
        rho = failure = Fraction(0)
        for use in uses:
            parameters = _zero_concentrated(use.guarantee)
            rho += use.count * (Fraction(parameters.rho) + max(Fraction(parameters.xi), Fraction(0)))
            failure += use.count * Fraction(parameters.delta)
        return {FAILURE: _units(failure, self.failure), RHO: _units(rho, self.rho)}

    def worth(self, amounts: Mapping[str, int]) -> Spent:
        """Return what these units are worth, rounded up."""
        return Spent(_rounded_up(amounts[RHO], self.rho), _rounded_up(amounts[FAILURE], self.failure))

    def largest(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return the largest single use that these units pay for, or nothing."""
        rho, failure = _rounded_down(amounts[RHO], self.rho), _rounded_down(amounts[FAILURE], self.failure)
        return (Use(ZeroConcentratedDP(rho=rho, delta=failure)),) if rho or failure else ()


def totals_of(promise: ZcdpFilter) -> Totals:
    """Return the totals of a filter: conversion and failures together stay within its delta."""
    rho = promise.rho_budget
    if rho <= 0.0:
        raise Unattainable(
            f"epsilon = {promise.epsilon:g} at delta = {promise.delta:g} leaves nothing to draw on; ask for more"
        )
    converted = Fraction(promise.delta * (1.0 - promise.failure_share))
    failure = _float_below(max(Fraction(0), Fraction(promise.delta) - converted)) if promise.failure_share else 0.0
    return Totals(rho, failure)


def _zero_concentrated(guarantee: Guarantee) -> ZeroConcentratedDP:
    """Return the zCDP a use is charged: pure DP and Laplace by epsilon^2/2, as every filter account was opened on.

    The exact constants are smaller; a chain that was priced by these would no longer verify.
    """
    match guarantee:
        case PureDP(epsilon=epsilon):
            return ZeroConcentratedDP(rho=raised(0.5 * epsilon**2))
        case ApproxDP(epsilon=epsilon, delta=delta):
            return ZeroConcentratedDP(rho=raised(0.5 * epsilon**2), delta=delta)
        case Laplace() | DiscreteLaplace():
            return _zero_concentrated(guarantee.pure())
        case _:
            return guarantee.zero_concentrated()


def _units(amount: Fraction, total: float) -> int:
    if not amount:
        return 0
    return min(math.ceil(amount * UNITS / Fraction(total)), UNITS + 1) if total else 1


def _float_below(value: Fraction) -> float:
    found = float(value)
    return down(found) if Fraction(found) > value else found


def _rounded_down(units: int, total: float) -> float:
    return _float_below(Fraction(total) * units / UNITS)


def _rounded_up(units: int, total: float) -> float:
    value = Fraction(total) * units / UNITS
    found = float(value)
    return up(found) if Fraction(found) < value else found
