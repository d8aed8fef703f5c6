"""What a charge needs and is not left, in the terms of who should pay."""

from collections.abc import Mapping, Sequence

from setwise.accounting.filter import filter_parameters
from setwise.accounting.notation import format_use
from setwise.accounting.use import Use
from setwise.accounting.written import rounded_down, rounded_up
from setwise.ledger.parts import FAILURE, RHO, Totals
from setwise.ledger.pricing import line_of

_DIGITS = 4


def lacking_draws(uses: Sequence[Use], rest: Mapping[str, int], left: Sequence[Use]) -> str | None:
    """Return which of the uses are not left in a multiset of registered ones, in words; None when all are."""
    lacking = [format_use(use) for use in uses if use.count > rest[line_of(use)]]
    if not lacking:
        return None
    return f"it needs {', '.join(lacking)}, and {', '.join(format_use(use) for use in left) or 'nothing'} is left"


def lacking_totals(uses: Sequence[Use], totals: Totals, rest: Mapping[str, int]) -> str | None:
    """Return what the uses need beyond the parts that are left of a filter, in words; None when they fit."""
    price, needed = totals.price(uses), filter_parameters(uses)
    left = filter_parameters(totals.largest(dict(rest)))
    told = [
        f"it needs a {what} of {rounded_up(asked, _DIGITS)}, and {rounded_down(there, _DIGITS)} is left"
        for line, what, asked, there in (
            (RHO, "rho", needed.rho, left.rho),
            (FAILURE, "failure probability", needed.failed, left.failed),
        )
        if price[line] > rest[line]
    ]
    return "; ".join(told) or None
