"""What a charge takes from which lines."""

from collections.abc import Sequence

from setwise.accounting.notation import format_use
from setwise.accounting.use import Use
from setwise.errors import InvalidParameter
from setwise.ledger.parts import Totals
from setwise.ledger.period import WHOLE_LIFE
from setwise.ledger.store import Movement
from setwise.ledger.terms import Terms


def line_of(use: Use) -> str:
    """Return the name of the line that a registered use is drawn from."""
    return format_use(Use(use.guarantee))


def drawn(holder: int, terms: Terms, cap: Totals | None, uses: Sequence[Use], period: str) -> list[Movement]:
    """Return what a charge draws: the account's own lines first, then those of the cap, which others share."""
    if terms.totals is None:
        registered = terms.lines()
        if strange := [use for use in uses if line_of(use) not in registered]:
            raise InvalidParameter(
                f"{format_use(strange[0])} is not registered with the account {terms.name!r}, "
                f"which has {', '.join(format_use(use) for use in terms.uses)}"
            )
        own = {line_of(use): use.count for use in uses}
    else:
        own = terms.totals.price(uses)
    movements = [Movement(holder, period, what, amount) for what, amount in own.items() if amount]
    if cap is not None:
        assert terms.cap is not None
        shared = cap.price(uses).items()
        movements += [Movement(terms.cap, WHOLE_LIFE, what, amount) for what, amount in shared if amount]
    return movements


def given_back(holder: int, uses: Sequence[Use], period: str) -> list[Movement]:
    """Return what a settlement gives back to a set-wise account."""
    return [Movement(holder, period, line_of(use), -use.count) for use in uses]
