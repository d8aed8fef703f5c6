"""The ledger as JSON lines, and back: the register, the entries of each account, then a digest over all of it.

Tables of the service may come along; the ledger knows nothing about them but their names and columns.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TextIO, get_args

from sqlalchemy import Connection, Integer, Table, insert, select
from sqlalchemy.exc import DBAPIError

from setwise.accounting.guarantees import Use
from setwise.errors import InvalidParameter, SetwiseError
from setwise.ledger.amounts import WALLET, Totals, WalletTotals
from setwise.ledger.audit.verification import verify
from setwise.ledger.records import Contents, Entry, EntryKind, check_text, digest, link, read_uses
from setwise.ledger.register import (
    AUDIT_EVENT_KINDS,
    AuditEvent,
    Record,
    account_row,
    next_state,
    records_of,
    write_event,
    write_record,
)
from setwise.ledger.slices import SLICES
from setwise.ledger.stores.base import Movement, read_moves, write_moves
from setwise.ledger.stores.migrations import drop_triggers, renew_triggers
from setwise.ledger.stores.read_queries import entries_of
from setwise.ledger.stores.schema import accounts, balances, entries, movements, openings
from setwise.ledger.stores.seal import moves_digest, write_seal
from setwise.ledger.terms import WHOLE_LIFE, Terms, entry_movements

FORMAT = "setwise-ledger-4"
_WITHOUT_MOVES = ("setwise-ledger-1", "setwise-ledger-2", "setwise-ledger-3")
"""Formats of exports from before entries stored their movements; these are computed anew, and sealed."""


def export(connection: Connection, stream: TextIO, tables: Sequence[Table]) -> int:
    """Write the whole ledger, and the rows of other tables; return the number of lines."""
    running, count = "", 0
    for record in _records(connection, tables):
        line = json.dumps(record, sort_keys=True, ensure_ascii=False)
        stream.write(line + "\n")
        running, count = digest(running + line), count + 1
    stream.write(json.dumps({"end": running, "lines": count}) + "\n")
    return count + 1


def _records(connection: Connection, tables: Sequence[Table]) -> Iterator[dict[str, object]]:
    yield {"format": FORMAT}
    known = records_of(connection)
    for record in known:
        yield {"opening": record.holder, "at": record.at, "body": record.body, "hash": record.hash}
    for record in known:
        if record.kind not in AUDIT_EVENT_KINDS and (terms := record.terms).kind != "cap":
            yield from map(_entry_record, entries_of(connection, record.holder, terms.name))
    for table in tables:
        for row in connection.execute(select(table).order_by(*table.primary_key)).mappings():
            yield {"table": table.name, "row": {name: _to_json(value) for name, value in row.items()}}


def _is_priced(terms: Terms) -> bool:
    """Return whether charges are priced by what is left, so that restoring needs to know what they moved."""
    return terms.slices or (terms.totals is not None and terms.totals.price_depends_on_balance)


def _entry_record(entry: Entry) -> dict[str, object]:
    contents = entry.contents
    return {
        "account": contents.account,
        "entry": entry.position,
        "kind": contents.kind,
        "key": contents.key,
        "period": contents.period,
        "at": entry.at,
        "uses": contents.uses,
        "text": contents.text,
        "moves": contents.moves,
        "hash": entry.hash,
    }


def _to_json(value: object) -> object:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _from_json(value: object) -> object:
    return base64.b64decode(value["base64"], validate=True) if isinstance(value, dict) else value


class _Account:
    """An account as it is restored: where its chain ends, and what its charges draw on."""

    def __init__(self, record: Record, cap: Totals | None) -> None:
        self.terms = record.terms
        self.cap = cap
        self.holder = record.holder
        self.row = account_row(record)

    def moves(self, contents: Contents, spent: Mapping[str, int], moved: Mapping[str, int] | None) -> list[Movement]:
        """Return the movements of an entry when so much was spent, or when it `moved` that much of its own lines."""
        if contents.kind != "charge":
            return entry_movements(self.holder, self.terms, self.cap, contents, spent)
        if moved is not None and self.cap is None:
            return self._own(contents.period, moved)
        drawn = entry_movements(self.holder, self.terms, self.cap, contents, spent)
        if moved is not None:
            return [*self._own(contents.period, moved), *(move for move in drawn if move.holder != self.holder)]
        return [self._within(move, read_uses(contents.uses), spent) for move in drawn]

    def _own(self, period: str, moved: Mapping[str, int]) -> list[Movement]:
        slices = set(SLICES.values())
        return [
            Movement(self.holder, WHOLE_LIFE if what in slices else period, what, amount)
            for what, amount in moved.items()
        ]

    def _within(self, move: Movement, uses: Sequence[Use], spent: Mapping[str, int]) -> Movement:
        """Return a payment from a wallet that is all that is left, where that is enough but for another rounding."""
        totals = self.terms.totals
        if move.what != WALLET or not isinstance(totals, WalletTotals):
            return move
        left = totals.lines()[WALLET] - spent.get(WALLET, 0)
        _, priced = self.terms.split(uses)
        return replace(move, amount=left) if move.amount > left and totals.covers(priced, left, left) else move


_KINDS: Mapping[str, EntryKind] = {kind: kind for kind in get_args(EntryKind)}

_BATCH = 2000
"""Rows that are inserted at once."""


class Restoration:
    """Write exported lines into an empty ledger, inside one transaction.

    Rows are written as the triggers would have left them, with the triggers dropped, because a transaction that updates
    one row of a balance for every entry takes time in proportion to their square. Every hash is recomputed on the way,
    and the whole is verified before the transaction ends.
    """

    def __init__(self, connection: Connection, address: str, tables: Sequence[Table], at: int) -> None:
        if connection.execute(select(openings.c.holder).limit(1)).first():
            raise InvalidParameter(f"the ledger {address} is not empty; restore into a new one")
        self._connection = connection
        self._at = at
        self._tables = {table.name: table for table in tables}
        self._accounts: dict[str, _Account] = {}
        self._totals: dict[int, Totals | None] = {}
        self._lines: dict[int, dict[str, int]] = {}
        self._priced: dict[tuple[str, str, str, str], list[Movement]] = {}
        self._balances: dict[tuple[int, str, str], tuple[int, int]] = {}
        self._number = 0
        self._has_moves = True
        self._sealed: dict[str, int] = {}
        self._moves: dict[str, list[str]] = {}
        self._waiting: dict[Table, list[dict[str, object]]] = {entries: [], movements: []}

    def run(self, stream: TextIO) -> int:
        """Read every line; return the number of entries."""
        drop_triggers(self._connection)
        for table in self._tables.values():
            table.create(self._connection, checkfirst=True)
        running, count, ended, written = "", 0, False, 0
        for number, text in enumerate(stream, 1):
            line = text.rstrip("\n")
            record = _read(line, number)
            if ended:
                raise InvalidParameter(f"line {number} comes after the end of the export")
            if "end" in record:
                if (record["end"], record.get("lines")) != (running, count):
                    raise InvalidParameter(f"the export was changed: line {number} does not fit the lines before it")
                ended = True
                continue
            running, count = digest(running + line), count + 1
            written += self._write(record, number)
        if not ended:
            raise InvalidParameter("the export is cut short: its last line is missing")
        self._finish()
        return written

    def _write(self, record: dict[str, Any], number: int) -> int:
        try:
            if number == 1:
                if record.get("format") not in (FORMAT, *_WITHOUT_MOVES):
                    raise InvalidParameter(f"the first line does not say {FORMAT}")
                self._has_moves = record["format"] == FORMAT
            elif "opening" in record:
                self._open(record)
            elif "table" in record:
                self._copy(record)
            else:
                self._append(record)
                return 1
        except (SetwiseError, KeyError, TypeError, ValueError, AttributeError, DBAPIError) as error:
            reason = str(error) if isinstance(error, SetwiseError) else "it does not fit the lines before it"
            raise InvalidParameter(f"line {number} of the export cannot be restored: {reason}") from None
        return 0

    def _open(self, line: dict[str, Any]) -> None:
        body, at = _text(line, "body"), _whole(line, "at")
        if json.loads(body)["kind"] in AUDIT_EVENT_KINDS:
            event = AuditEvent.read(body)
            _same(write_event(self._connection, event, at).hash, line["hash"])
            if event.kind in ("freeze", "thaw", "close"):
                row = self._accounts[event.subject].row
                row["state"] = next_state(row["state"], event.kind)  # type: ignore[arg-type]
            elif event.kind == "seal":
                self._sealed = {name: int(count) for name, (count, _) in event.details["accounts"].items()}
            return
        terms = Terms.read(body)
        record = write_record(self._connection, terms, at)
        _same(record.hash, line["hash"])
        self._lines[record.holder] = terms.lines()
        if terms.kind == "cap":
            self._totals[record.holder] = terms.totals if isinstance(terms.totals, Totals) else None
        elif terms.name in self._accounts:
            raise InvalidParameter(f"the account {terms.name!r} is opened twice")
        else:
            account = _Account(record, None if terms.cap is None else self._totals[terms.cap])
            self._accounts[terms.name] = account
            self._connection.execute(insert(accounts), account.row)  # entries refer to it; its last state is put later

    def _append(self, line: dict[str, Any]) -> None:
        account = self._accounts[line["account"]]
        row = account.row
        contents = Contents(
            account=account.terms.name,
            kind=_KINDS[line["kind"]],
            key=_text(line, "key"),
            period=_text(line, "period"),
            uses=_text(line, "uses"),
            text=_text(line, "text"),
        )
        position, at = int(str(row["entries"])) + 1, _whole(line, "at")
        if self._has_moves:
            contents = replace(contents, moves=_text(line, "moves"))
            moves = read_moves(contents.moves)
        else:
            moves = self._priced_moves(account, contents, line.get("moved"))
            contents = replace(contents, moves=write_moves(moves))
            self._moves.setdefault(account.terms.name, []).append(contents.moves)
        early = not self._has_moves or position <= self._sealed.get(account.terms.name, 0)
        own = contents.digest_without_moves() if early else contents.digest()
        hashed = link(str(row["head"]), position, at, own)
        _same(hashed, line["hash"])
        self._put(
            entries,
            {
                "holder": row["holder"],
                "position": position,
                "kind": contents.kind,
                "key": contents.key,
                "period": contents.period,
                "at": at,
                "uses": contents.uses,
                "content": contents.text,
                "digest": own,
                "previous": row["head"],
                "hash": hashed,
                "moves": contents.moves,
            },
        )
        self._move(account, position, moves)
        row["entries"], row["head"], row["at"] = position, hashed, at
        row["charges"] = int(str(row["charges"])) + (contents.kind == "charge")
        row["period"] = max(str(row["period"]), contents.period)

    def _priced_moves(self, account: _Account, contents: Contents, moved: dict[str, int] | None) -> list[Movement]:
        """Return the movements of an entry from an export that does not list them."""
        known = (contents.account, contents.kind, contents.uses, contents.period)
        if _is_priced(account.terms):  # a price that depends on what is left
            places = self._balances
            before = {
                what: places.get((account.holder, contents.period, what), (0, 0))[0] for what in account.terms.lines()
            }
            return account.moves(contents, before, moved)
        if known not in self._priced:
            self._priced[known] = account.moves(contents, {}, None)
        return self._priced[known]

    def _move(self, account: _Account, position: int, moves: Sequence[Movement]) -> None:
        for move in moves:
            self._number += 1
            place = (move.holder, move.period, move.what)
            spent = self._balances.get(place, (0, 0))[0] + move.amount
            total = self._lines[move.holder][move.what]
            if not 0 <= spent <= total and not (account.terms.slices and move.holder == account.terms.cap):
                raise InvalidParameter(f"it draws more of {move.what} than there is")
            self._balances[place] = (spent, self._number)
            entry = {"account": account.holder, "position": position, "number": self._number}
            self._put(movements, entry | asdict(move))

    def _copy(self, line: dict[str, Any]) -> None:
        table = self._tables.get(line["table"])
        if table is None:
            raise InvalidParameter(f"it belongs to the table {line['table']!r} of the service, which was not asked for")
        if line["row"].keys() != {column.name for column in table.c}:
            raise InvalidParameter(f"the table {table.name!r} has other columns")
        self._put(table, {name: _from_json(value) for name, value in line["row"].items()})

    def _put(self, table: Table, row: dict[str, object]) -> None:
        rows = self._waiting.setdefault(table, [])
        rows.append(row)
        if len(rows) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        for table, rows in self._waiting.items():
            if rows:
                self._connection.execute(insert(table), rows)
                rows.clear()

    def _finish(self) -> None:
        """Write what waits and the balances, create the triggers again, and verify the whole."""
        rows = [
            {"holder": holder, "period": period, "what": what, "total": self._lines[holder][what]}
            | {"spent": spent, "movement": number}
            for (holder, period, what), (spent, number) in self._balances.items()
        ]
        try:
            self._flush()
            if rows:
                self._connection.execute(insert(balances), rows)
            for account in self._accounts.values():
                holder = account.row["holder"]
                self._connection.execute(accounts.update().where(accounts.c.holder == holder).values(**account.row))
        except DBAPIError:
            raise InvalidParameter("the lines of the export do not fit together") from None
        if self._moves:
            ends = {name: (len(moves), moves_digest(moves)) for name, moves in self._moves.items()}
            write_seal(self._connection, ends, self._at)
        for table in (movements, *self._tables.values()):
            _continue_numbers(self._connection, table)
        renew_triggers(self._connection)
        if self._connection.dialect.name == "postgresql":  # without statistics its plans take quadratic time
            self._connection.exec_driver_sql("ANALYZE ledger_entries, ledger_movements, ledger_balances")
        if faults := verify(self._connection).faults:
            raise InvalidParameter(f"the export cannot be restored: {faults[0]}")


def _continue_numbers(connection: Connection, table: Table) -> None:
    """Let PostgreSQL number the next row after those restored; SQLite does so by itself."""
    if connection.dialect.name != "postgresql":
        return
    for column in table.primary_key:
        if isinstance(column.type, Integer):
            connection.exec_driver_sql(
                f"SELECT setval(found, greatest((SELECT max({column.name}) FROM {table.name}), 1)) "  # noqa: S608
                f"FROM pg_get_serial_sequence('{table.name}', '{column.name}') AS found WHERE found IS NOT NULL"
            )


def _same(found: str, expected: object) -> None:
    if found != expected:
        raise InvalidParameter("it was changed: its hash does not fit what it says")


def _text(record: Mapping[str, Any], name: str) -> str:
    return check_text(record[name], name)


def _whole(record: Mapping[str, Any], name: str) -> int:
    value = record[name]
    if type(value) is not int or abs(value) >= 2**62:
        raise InvalidParameter(f"{name} must be a whole number, not {value!r}")
    return value


def _read(line: str, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise InvalidParameter(f"line {number} of the export is not a JSON object")
    return record
