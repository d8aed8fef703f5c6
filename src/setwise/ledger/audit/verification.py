"""Verification: every chain and every balance recomputed and compared with what the store holds."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from sqlalchemy import Connection, Table, select

from setwise.errors import InvalidParameter, SetwiseError
from setwise.ledger.audit.chain import Chain, ChainCheck, Fault, Tally
from setwise.ledger.records import NOTHING_BEFORE, digest
from setwise.ledger.stores.schema import accounts, balances, entries, lines, movements, openings
from setwise.ledger.terms import Opening, Terms, account_row, opening_hash, openings_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """The number and hash of the last opening, and of each account's last entry.

    Kept outside the store, it shows whether the past was rewritten, even by someone who owns the database.
    """

    openings: tuple[int, str]
    accounts: Mapping[str, tuple[int, str]]

    @property
    def head(self) -> str:
        """One digest over all of it."""
        lines = [f"{self.openings[0]} {self.openings[1]}"]
        lines += [f"{digest(name)} {count} {head}" for name, (count, head) in sorted(self.accounts.items())]
        return digest("\n".join(lines))

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object that `parse` reads."""
        return {"openings": list(self.openings), "accounts": {name: list(at) for name, at in self.accounts.items()}}

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the anchor in what an earlier `setwise ledger verify --json` printed."""
        try:
            record = json.loads(text)["anchor"]
            number, hashed = record["openings"]
            chains = {str(name): (int(count), str(head)) for name, (count, head) in record["accounts"].items()}
            return cls(openings=(int(number), str(hashed)), accounts=chains)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InvalidParameter("this is not what setwise ledger verify --json printed") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What verifying found: nothing is wrong when there are no `faults`."""

    anchor: Anchor
    entries: int
    faults: tuple[Fault, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object that `setwise ledger verify --json` prints."""
        return {
            "verified": not self.faults,
            "accounts": len(self.anchor.accounts),
            "entries": self.entries,
            "head": self.anchor.head,
            "faults": [{"account": fault.account, "entry": fault.entry, "what": fault.what} for fault in self.faults],
            "anchor": self.anchor.to_dict(),
        }


def verify(connection: Connection, *, head: str | None, since: Anchor | None) -> Verification:
    """Recompute everything in one consistent view.

    With `head`, the digest of an earlier anchor, nothing may have changed since; with `since`, an earlier anchor,
    entries may have been added, and nothing else.
    """
    known = openings_of(connection)
    faults = list(_check_openings(connection, known))
    terms = {opening.holder: found for opening in known if (found := _terms(opening)) is not None}
    tally: Tally = {}
    chains: dict[str, Chain] = {}
    for opening in known:
        own = terms.get(opening.holder)
        if own is not None and own.kind != "cap":
            cap = terms[own.cap].totals if own.cap in terms else None
            watched = since.accounts.get(own.name, (0, ""))[0] if since is not None else 0
            chain = ChainCheck(opening, cap, tally).run(connection, watched)
            chains[own.name] = chain
            faults += [*chain.faults, *_check_account(connection, opening, chain)]
    faults += _check_balances(connection, tally, terms)
    faults += _check_strays(connection, terms)
    last = (known[-1].holder, known[-1].hash) if known else (0, NOTHING_BEFORE)
    anchor = Anchor(openings=last, accounts={name: (chain.count, chain.head) for name, chain in chains.items()})
    if head is not None and head != anchor.head:
        faults.append(Fault(None, None, f"has the head {anchor.head}, not {head}"))
    if since is not None:
        faults += _check_since(since, known, chains)
    return Verification(anchor=anchor, entries=sum(chain.count for chain in chains.values()), faults=tuple(faults))


def _terms(opening: Opening) -> Terms | None:
    try:
        return opening.terms
    except (SetwiseError, ValueError, TypeError, KeyError):
        return None


def _check_openings(connection: Connection, known: list[Opening]) -> Iterator[Fault]:
    previous, count = NOTHING_BEFORE, 0
    columns = (openings.c.holder, openings.c.kind, openings.c.name, openings.c.lines)
    rows = {row.holder: row for row in connection.execute(select(*columns))}
    for opening in known:
        name = rows[opening.holder].name
        if opening.holder != count + 1:
            yield Fault(None, None, f"misses opening {count + 1}, before that of {name!r}")
            previous = opening.previous
        if opening.hash != opening_hash(opening.previous, opening.holder, opening.at, opening.body):
            yield Fault(name, None, "has an opening that was changed: its hash does not fit what it says")
        elif opening.previous != previous:
            yield Fault(None, None, f"has a replaced opening {count}: that of {name!r} follows another")
        previous, count = opening.hash, opening.holder
        terms = _terms(opening)
        if terms is None:
            yield Fault(name, None, "has an opening that cannot be read")
            continue
        row, totals = rows[opening.holder], terms.lines()
        if (row.kind, row.name, row.lines) != (terms.kind, terms.name, len(totals)):
            yield Fault(terms.name, None, "has an opening whose columns do not fit what it says")
        found = select(lines.c.what, lines.c.total).where(lines.c.holder == opening.holder)
        if {line.what: line.total for line in connection.execute(found)} != totals:
            yield Fault(terms.name, None, "has other lines than its opening says")


def _check_account(connection: Connection, opening: Opening, chain: Chain) -> Iterator[Fault]:
    """Compare the row of an account with its opening and its chain."""
    expected = account_row(opening)
    name = str(expected["name"])
    row = connection.execute(select(accounts).where(accounts.c.holder == opening.holder)).mappings().one_or_none()
    if row is None:
        yield Fault(name, None, "was deleted")
        return
    if any(row[column] != expected[column] for column in ("name", "kind", "dataset", "cap")):
        yield Fault(name, None, "does not fit its opening")
    if row["entries"] > chain.count:
        yield Fault(name, chain.count + 1, f"is missing: the account counts {row['entries']} entries")
    elif row["entries"] < chain.count:
        yield Fault(name, row["entries"] + 1, f"was added: the account counts {row['entries']} entries")
    elif row["head"] != chain.head:
        yield Fault(name, chain.count or None, "was replaced: the account ends with another")
    elif (row["charges"], row["at"], row["period"]) != (chain.charges, chain.at, chain.period):
        yield Fault(name, None, "has a row that does not fit its entries")


def _check_balances(connection: Connection, tally: Tally, terms: dict[int, Terms]) -> Iterator[Fault]:
    """Compare every balance with the sum of what the entries drew and returned."""
    rows = {(row.holder, row.period, row.what): row for row in connection.execute(select(balances))}
    for place in sorted(rows.keys() | tally.keys()):
        holder, period, what = place
        row, spent = rows.get(place), tally.get(place, 0)
        name = terms[holder].name if holder in terms else f"number {holder}"
        when = f" in {period}" if period else ""
        if row is None or row.spent != spent:
            shown = "no balance" if row is None else f"a balance of {row.spent}"
            yield Fault(name, None, f"has {shown} for {what}{when}, and its entries add up to {spent}")
        elif holder in terms and (row.total != terms[holder].lines().get(what) or not 0 <= spent <= row.total):
            yield Fault(name, None, f"has a balance for {what}{when} outside its line")


def _check_strays(connection: Connection, terms: dict[int, Terms]) -> Iterator[Fault]:
    """Look for rows that belong to nothing that was opened."""
    held = {holder for holder, own in terms.items() if own.kind != "cap"}
    for table, column in ((accounts, "holder"), (entries, "holder"), (movements, "account"), (lines, "holder")):
        known = set(terms) if table is lines else held
        for holder in sorted(_holders(connection, table, column) - known):
            yield Fault(None, None, f"has rows in {table.name} of {holder}, which was never opened")


def _holders(connection: Connection, table: Table, column: str) -> set[int]:
    """Return the distinct holders in a table, one index step each."""
    found: set[int] = set()
    place = table.c[column]
    after = -(2**62)
    while True:
        following = connection.execute(select(place).where(place > after).order_by(place).limit(1)).scalar_one_or_none()
        if following is None:
            return found
        found.add(following)
        after = following


def _check_since(since: Anchor, known: list[Opening], chains: dict[str, Chain]) -> Iterator[Fault]:
    """Compare with an earlier anchor: what was there then must still be there."""
    number, hashed = since.openings
    if number and (number > len(known) or known[number - 1].hash != hashed):
        yield Fault(None, None, f"no longer has opening {number} of the anchor")
    for name, (count, head) in since.accounts.items():
        chain = chains.get(name)
        if chain is None:
            yield Fault(name, None, "of the anchor is no longer there")
        elif count and chain.watched != head:
            yield Fault(name, count, "is not the one of the anchor")
