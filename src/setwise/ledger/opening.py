"""Writing an opening: the next link of the chain, the lines it may spend, and the account's head."""

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select

from setwise.ledger.records import NOTHING_BEFORE, digest
from setwise.ledger.stores.schema import accounts, lines, openings
from setwise.ledger.terms import WHOLE_LIFE, Terms


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
