"""Filter totals in whole parts, so that no sum of charges is ever rounded.

A total rho (or total chance of failure) is cut into 2^60 parts. A charge takes the parts it needs, rounded up; what is
left is told rounded down. Both databases hold such numbers exactly.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from setwise.accounting.filters import Spent, ZcdpFilter
from setwise.accounting.guarantees import Use, ZeroConcentratedDP
from setwise.accounting.intervals import down, up
from setwise.accounting.methods.moments import zero_concentrated
from setwise.errors import Unattainable

PARTS = 2**60
"""The parts of a total."""

RHO = "rho"
FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a zCDP filter, as exact floats: `rho`, and the chance of outright `failure`."""

    rho: float
    failure: float

    def lines(self) -> dict[str, int]:
        """Return the whole parts of each total."""
        return {FAILURE: PARTS if self.failure else 0, RHO: PARTS if self.rho else 0}

    def price(self, uses: Iterable[Use]) -> dict[str, int]:
        """Return the parts the uses take, rounded up; never more than one part beyond the total.

        Theorem: WhitehouseRaRoWu23; a positive xi joins rho and a negative one is dropped, as in `Spent.plus`.
        """
        rho = failure = Fraction(0)
        for use in uses:
            parameters = zero_concentrated(use.guarantee)
            rho += use.count * (Fraction(parameters.rho) + max(Fraction(parameters.xi), Fraction(0)))
            failure += use.count * Fraction(parameters.delta)
        return {FAILURE: _parts(failure, self.failure), RHO: _parts(rho, self.rho)}

    def worth(self, parts: dict[str, int]) -> Spent:
        """Return what parts are worth, rounded up."""
        return Spent(_rounded_up(parts[RHO], self.rho), _rounded_up(parts[FAILURE], self.failure))

    def largest(self, parts: dict[str, int]) -> tuple[Use, ...]:
        """Return the largest single use that these parts pay for, or nothing."""
        rho, failure = _rounded_down(parts[RHO], self.rho), _rounded_down(parts[FAILURE], self.failure)
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


def _parts(amount: Fraction, total: float) -> int:
    if not amount:
        return 0
    return min(math.ceil(amount * PARTS / Fraction(total)), PARTS + 1) if total else 1


def _float_below(value: Fraction) -> float:
    found = float(value)
    return down(found) if Fraction(found) > value else found


def _rounded_down(parts: int, total: float) -> float:
    return _float_below(Fraction(total) * parts / PARTS)


def _rounded_up(parts: int, total: float) -> float:
    value = Fraction(total) * parts / PARTS
    found = float(value)
    return up(found) if Fraction(found) < value else found
