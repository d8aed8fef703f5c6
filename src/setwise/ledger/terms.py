"""Terms of accounts and caps: what was promised when each was opened, and what its charges draw.

Terms never change. They are stored as openings, a chain of hashes; `holder`, the number of an opening in that chain,
identifies the account or cap in all other tables.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Self, assert_never

from sqlalchemy import Connection, insert, select

from setwise.accounting.answer import Answer, Interaction
from setwise.accounting.guarantees import Use
from setwise.accounting.notation import format_use, parse_use
from setwise.errors import InvalidParameter
from setwise.ledger.amounts import Totals
from setwise.ledger.records import NOTHING_BEFORE, canonical, digest
from setwise.ledger.stores.base import Movement
from setwise.ledger.stores.schema import accounts, lines, openings


class Period(StrEnum):
    """How long a budget lasts, in UTC.

    >>> from datetime import UTC
    >>> Period.MONTH.of(datetime(2026, 11, 15, tzinfo=UTC)), Period.WEEK.of(datetime(2026, 11, 15, tzinfo=UTC))
    ('2026-11', '2026-W46')
    """

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"

    def of(self, moment: datetime) -> str:
        """Return the name of the period; names of one kind sort as time does."""
        match self:
            case Period.DAY:
                return f"{moment:%Y-%m-%d}"
            case Period.WEEK:
                year, week, _ = moment.isocalendar()
                return f"{year:04d}-W{week:02d}"
            case Period.MONTH:
                return f"{moment:%Y-%m}"
            case Period.QUARTER:
                return f"{moment.year:04d}-Q{(moment.month + 2) // 3}"
            case Period.YEAR:
                return f"{moment.year:04d}"
            case _:
                assert_never(self)


WHOLE_LIFE = ""
"""The name of the only period of an account without periods."""


def parse_period(value: "str | Period | None") -> Period | None:
    """Return the period of that name, None for an account without periods, or raise `InvalidParameter`."""
    if value is None:
        return None
    try:
        return Period(value)
    except ValueError:
        raise InvalidParameter(f"period must be one of {', '.join(Period)}, not {value!r}") from None


def period_id(period: Period | None, moment: datetime) -> str:
    """Return the name of the period that a moment lies in; empty for an account without periods."""
    return WHOLE_LIFE if period is None else period.of(moment)


Kind = Literal["setwise", "filter", "cap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What was promised at the opening, and what may be spent for it in each period.

    A set-wise account has `uses` to draw; a filter and a cap have `totals`. `cap` is the holder of the cap that the
    account's charges also draw on.
    """

    kind: Kind
    name: str
    analyst: str
    dataset: str
    period: Period | None
    epsilon: Answer
    delta: float
    failure_share: float
    uses: tuple[Use, ...] = ()
    totals: Totals | None = None
    cap: int | None = None

    def lines(self) -> dict[str, int]:
        """Return what may be spent in a period, per line."""
        if self.totals is not None:
            return self.totals.lines()
        return {format_use(Use(use.guarantee)): use.count for use in self.uses}

    def body(self) -> str:
        """Return the canonical text of the terms."""
        totals = None if self.totals is None else {"rho": self.totals.rho, "failure": self.totals.failure}
        return canonical(
            {
                "kind": self.kind,
                "name": self.name,
                "analyst": self.analyst,
                "dataset": self.dataset,
                "period": self.period,
                "epsilon": {"lower": self.epsilon.lower, "upper": self.epsilon.upper},
                "interaction": self.epsilon.interaction,
                "method": self.epsilon.method,
                "statement": self.epsilon.statement,
                "delta": self.delta,
                "failure_share": self.failure_share,
                "uses": [format_use(use) for use in self.uses],
                "totals": totals,
                "cap": self.cap,
            }
        )

    @classmethod
    def read(cls, body: str) -> Self:
        """Return the terms of a canonical text."""
        record: dict[str, Any] = json.loads(body)
        epsilon, totals = record["epsilon"], record["totals"]
        return cls(
            kind=record["kind"],
            name=record["name"],
            analyst=record["analyst"],
            dataset=record["dataset"],
            period=parse_period(record["period"]),
            epsilon=Answer(
                epsilon["lower"],
                epsilon["upper"],
                Interaction.parse(record["interaction"]),
                record["method"],
                record["statement"],
            ),
            delta=record["delta"],
            failure_share=record["failure_share"],
            uses=tuple(parse_use(text) for text in record["uses"]),
            totals=None if totals is None else Totals(totals["rho"], totals["failure"]),
            cap=record["cap"],
        )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """An account or cap in the chain of openings; `holder` is its number there, and its name in all other tables."""

    holder: int
    at: int
    body: str
    previous: str
    hash: str

    @property
    def terms(self) -> Terms:
        """The terms it was opened on."""
        return Terms.read(self.body)


def opening_hash(previous: str, holder: int, at: int, body: str) -> str:
    """Return the hash of an opening, over the opening before it."""
    return digest(f"{previous}\n{holder}\n{at}\n{digest(body)}")


def write_opening(connection: Connection, terms: Terms, at: int) -> Opening:
    """Append an opening to the chain, inside a transaction that is alone in doing so."""
    last = connection.execute(
        select(openings.c.holder, openings.c.hash).order_by(openings.c.holder.desc()).limit(1)
    ).one_or_none()
    holder, previous = (1, NOTHING_BEFORE) if last is None else (last.holder + 1, last.hash)
    body = terms.body()
    opening = Opening(holder=holder, at=at, body=body, previous=previous, hash=opening_hash(previous, holder, at, body))
    totals = terms.lines()
    record = {"kind": terms.kind, "name": terms.name, "lines": len(totals)}
    link = {"holder": holder, "at": at, "body": body, "previous": previous, "hash": opening.hash}
    connection.execute(insert(openings), {**record, **link})
    connection.execute(
        insert(lines),
        [
            {"holder": holder, "what": what, "place": place, "total": total}
            for place, (what, total) in enumerate(totals.items())
        ],
    )
    if terms.kind != "cap":
        connection.execute(insert(accounts), account_row(opening))
    return opening


def account_row(opening: Opening) -> dict[str, object]:
    """Return the row of an account without entries."""
    terms = opening.terms
    return {
        "holder": opening.holder,
        "name": terms.name,
        "kind": terms.kind,
        "dataset": terms.dataset,
        "cap": terms.cap,
        "entries": 0,
        "charges": 0,
        "head": opening.hash,
        "at": opening.at,
        "period": WHOLE_LIFE,
    }


def cap_of(connection: Connection, dataset: str) -> int | None:
    """Return the holder of a dataset's cap, if it has one."""
    found = select(openings.c.holder).where(openings.c.kind == "cap", openings.c.name == dataset)
    return connection.execute(found).scalar_one_or_none()


def openings_of(connection: Connection) -> list[Opening]:
    """Return every opening, in order."""
    columns = (openings.c.holder, openings.c.at, openings.c.body, openings.c.previous, openings.c.hash)
    rows = connection.execute(select(*columns).order_by(openings.c.holder)).mappings()
    return [Opening(**row) for row in rows]
