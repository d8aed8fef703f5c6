"""The ledger as JSON lines, and back: the register, the entries of each account, then a digest over all of it.

Tables of the service may come along; the ledger knows nothing about them but their names and columns.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from sqlalchemy import Connection, Integer, Table, insert, select
from sqlalchemy.exc import DBAPIError

from setwise.errors import InvalidParameter, SetwiseError
from setwise.ledger.amounts import Totals, WalletTotals
from setwise.ledger.audit.verification import verify
from setwise.ledger.records import Contents, Entry, check_text, digest, link, read_uses
from setwise.ledger.register import ACTS, Act, Record, account_row, next_state, records_of, write_act, write_record
from setwise.ledger.stores.migrations import drop_triggers, renew_triggers
from setwise.ledger.stores.queries import entries_of
from setwise.ledger.stores.schema import accounts, balances, entries, movements, openings
from setwise.ledger.terms import Terms, drawn, given_back

FORMAT = "setwise-ledger-2"
_FORMATS = ("setwise-ledger-1", FORMAT)


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
        if record.kind not in ACTS and (terms := record.terms).kind != "cap":
            for entry in entries_of(connection, record.holder, terms.name):
                yield _entry_record(entry)
    for table in tables:
        for row in connection.execute(select(table).order_by(*table.primary_key)).mappings():
            yield {"table": table.name, "row": {name: _to_json(value) for name, value in row.items()}}


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
        self.row = account_row(record)

    def moves(self, contents: Contents, spent: Mapping[str, int]) -> list[tuple[int, str, str, int]]:
        """Return the movements of an entry when so much was spent."""
        holder, uses = int(str(self.row["holder"])), read_uses(contents.uses)
        if contents.kind == "charge":
            found = drawn(holder, self.terms, self.cap, uses, contents.period, spent)
        else:
            found = given_back(holder, uses, contents.period)
        return [(move.holder, move.period, move.what, move.amount) for move in found]


_BATCH = 2000
"""Rows that are inserted at once."""


class Restoration:
    """Write exported lines into an empty ledger, inside one transaction.

    Rows are written as the triggers would have left them, with the triggers dropped, because a transaction that updates
    one row of a balance for every entry takes time in proportion to their square. Every hash is recomputed on the way,
    and the whole is verified before the transaction ends.
    """

    def __init__(self, connection: Connection, address: str, tables: Sequence[Table]) -> None:
        if connection.execute(select(openings.c.holder).limit(1)).first():
            raise InvalidParameter(f"the ledger {address} is not empty; restore into a new one")
        self._connection = connection
        self._tables = {table.name: table for table in tables}
        self._accounts: dict[str, _Account] = {}
        self._totals: dict[int, Totals] = {}
        self._lines: dict[int, dict[str, int]] = {}
        self._priced: dict[tuple[str, str, str, str], list[tuple[int, str, str, int]]] = {}
        self._balances: dict[tuple[int, str, str], tuple[int, int]] = {}
        self._number = 0
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
                if record.get("format") not in _FORMATS:
                    raise InvalidParameter(f"the first line does not say {FORMAT}")
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
        if json.loads(body)["kind"] in ACTS:
            act = Act.read(body)
            _same(write_act(self._connection, act, at).hash, line["hash"])
            if act.kind in ("freeze", "thaw", "close"):
                row = self._accounts[act.subject].row
                row["state"] = next_state(row["state"], act.kind)  # type: ignore[arg-type]
            return
        terms = Terms.read(body)
        record = write_record(self._connection, terms, at)
        _same(record.hash, line["hash"])
        self._lines[record.holder] = terms.lines()
        if terms.kind == "cap" and isinstance(terms.totals, Totals):
            self._totals[record.holder] = terms.totals
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
            kind="settle" if line["kind"] == "settle" else "charge",
            key=_text(line, "key"),
            period=_text(line, "period"),
            uses=_text(line, "uses"),
            text=_text(line, "text"),
        )
        position, at, own = int(str(row["entries"])) + 1, _whole(line, "at"), contents.digest()
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
            },
        )
        self._move(account, contents, position)
        row["entries"], row["head"], row["at"] = position, hashed, at
        row["charges"] = int(str(row["charges"])) + (contents.kind == "charge")
        row["period"] = max(str(row["period"]), contents.period)

    def _move(self, account: _Account, contents: Contents, position: int) -> None:
        known = (contents.account, contents.kind, contents.uses, contents.period)
        if isinstance(account.terms.totals, WalletTotals):  # a price that depends on what is left
            own, places = int(str(account.row["holder"])), self._balances
            before = {what: places.get((own, contents.period, what), (0, 0))[0] for what in account.terms.lines()}
            self._priced[known] = account.moves(contents, before)
        elif known not in self._priced:
            self._priced[known] = account.moves(contents, {})
        for holder, period, what, amount in self._priced[known]:
            self._number += 1
            spent = self._balances.get((holder, period, what), (0, 0))[0] + amount
            if not 0 <= spent <= self._lines[holder][what]:
                raise InvalidParameter(f"it draws more of {what} than there is")
            self._balances[holder, period, what] = (spent, self._number)
            place = {"account": account.row["holder"], "position": position, "number": self._number}
            self._put(movements, {**place, "holder": holder, "period": period, "what": what, "amount": amount})

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
