"""The statement of an account: each charge with what it bought, and the odometer after it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from setwise.accounting.guarantees import Guarantee, Use
from setwise.accounting.notation import format_use
from setwise.analytics.present.text import charge_in_words
from setwise.ledger.account import Account
from setwise.ledger.records import Entry

_POINTS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One charge: when (seconds since 1970), what it bought, and what it drew after what came back."""

    number: int
    at: float
    key: str
    period: str
    bought: str
    drawn: tuple[Use, ...]
    returned: tuple[Use, ...]
    answered: bool

    @property
    def uses(self) -> list[str]:
        """What was kept of the draws, written."""
        back = {use.guarantee: use.count for use in self.returned}
        kept = [(use.guarantee, use.count - back.get(use.guarantee, 0)) for use in self.drawn]
        return [format_use(Use(guarantee, count)) for guarantee, count in kept if count > 0]

    @property
    def came_back(self) -> list[str]:
        """What came back of the draws, written."""
        return [format_use(use) for use in self.returned]


def charges_of(entries: Iterable[Entry]) -> list[Charge]:
    """Return the charges of an account, oldest first, each with what its settlement gave back."""
    found: dict[str, Charge] = {}
    for entry in entries:
        contents = entry.contents
        charged = found.get(contents.key)
        if contents.kind == "charge":
            found[contents.key] = Charge(
                number=len(found) + 1,
                at=entry.moment.timestamp(),
                key=contents.key,
                period=contents.period,
                bought=charge_in_words(contents.text),
                drawn=entry.uses,
                returned=(),
                answered=False,
            )
        elif contents.kind == "settle" and charged is not None:
            found[contents.key] = Charge(
                number=charged.number,
                at=charged.at,
                key=charged.key,
                period=charged.period,
                bought=charged.bought,
                drawn=charged.drawn,
                returned=entry.uses,
                answered=True,
            )
    return list(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the odometer showed after a charge, at most the promise."""

    charge: int
    at: float
    bought: str
    epsilon: float


def odometer_readings(account: Account, charges: Iterable[Charge], period: str) -> list[Reading]:
    """Return the odometer after each charge of a period; of many charges, some spread evenly with the last."""
    present = [charge for charge in charges if charge.period == period]
    step = max(1, -(-len(present) // _POINTS))
    readings = []
    spent: Counter[Guarantee] = Counter()
    for place, charge in enumerate(present, 1):
        for sign, uses in ((1, charge.drawn), (-1, charge.returned)):
            for use in uses:
                spent[use.guarantee] += sign * use.count
        if place % step == 0 or place == len(present):
            drawn = tuple(Use(guarantee, count) for guarantee, count in spent.items() if count > 0)
            loss = min(account.loss_of(drawn), account.terms.epsilon.upper)
            readings.append(Reading(charge=charge.number, at=charge.at, bought=charge.bought, epsilon=loss))
    return readings
