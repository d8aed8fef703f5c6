"""Registered uses of an account: which of them a charge may give back, and which are lacking to pay for a charge.

Registered uses are privacy guarantees that were fixed when the account was opened, each with how often it may be used.
A charge takes some of them. When its answer is stored, the ledger entry of the answer may give back those that were not
needed.
"""

from collections.abc import Mapping, Sequence

from setwise.accounting.guarantees import Use
from setwise.accounting.notation import format_use
from setwise.errors import InvalidParameter
from setwise.ledger.terms import line_of


def lacking_draws(
    uses: Sequence[Use], spent: Mapping[str, int], remaining_uses: Sequence[Use], lines: Mapping[str, int]
) -> str:
    """Return a sentence on why an account has too few registered guarantees to pay for `uses`, or "" if it has enough.

    The sentence names the guarantees that are lacking, and what the account has left.

    - `uses` lists the registered guarantees that a charge needs, and how often each.
    - `lines` maps each guarantee in its written form, such as "pure:0.1", to how often the account may use it in all,
      and `spent` maps it to how often earlier charges used it. The account can pay if, for each guarantee, the first
      number minus the second is at least the number in `uses`.
    - `remaining_uses` is only printed: the guarantees that the account has left, and how often it may use each.
    """
    lacking = [format_use(use) for use in uses if use.count > lines[line_of(use)] - spent.get(line_of(use), 0)]
    remaining = ", ".join(format_use(use) for use in remaining_uses) or "nothing"
    return f"it needs {', '.join(lacking)}, and {remaining} is left" if lacking else ""


def subtract_returned(uses: Sequence[Use], returned: Sequence[Use]) -> tuple[Use, ...]:
    """Return the guarantees of a charge without the `returned` ones, which were not needed and were refunded.

    `uses` lists all guarantees of the charge, and how often each was charged. A guarantee of which nothing remains is
    omitted.
    """
    returned_counts = {use.guarantee: use.count for use in returned}
    counts = [(use.guarantee, use.count - returned_counts.get(use.guarantee, 0)) for use in uses]
    return tuple(Use(guarantee, count) for guarantee, count in counts if count > 0)


def check_refund(refund: Sequence[Use], charged: Sequence[Use]) -> None:
    """Raise `InvalidParameter` if `refund` has a guarantee more often than `charged`, the guarantees of a charge."""
    counts = {use.guarantee: use.count for use in charged}
    for use in refund:
        if use.count > counts.get(use.guarantee, 0):
            raise InvalidParameter(f"{format_use(use)} cannot be returned, because the charge drew less")
