"""Export of a ledger to JSON lines and back.

The lines are the register (openings of accounts and caps, and audit events), the entries of each account, and a digest
over all lines. A cap is the joint budget of a dataset's accounts. Tables of the service may be included; the ledger
knows only their names and columns.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TextIO, get_args

from sqlalchemy import Connection, Integer, Table, bindparam, insert, select
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
_FORMATS_WITHOUT_MOVES = ("setwise-ledger-1", "setwise-ledger-2", "setwise-ledger-3")
"""Formats of old exports, whose entries do not list their balance changes.

Restoring such an export computes the changes, and appends a seal with a digest of them to the register.
"""


def export(connection: Connection, stream: TextIO, tables: Sequence[Table]) -> int:
    """Write the whole ledger, and the rows of `tables`, to `stream` as JSON lines; return the number of lines.

    `tables` are further tables of the same database, such as those of the service. The last line has the number of the
    lines before it, and a running digest of these lines.
    """
    running, count = "", 0
    for record in _records(connection, tables):
        line = json.dumps(record, sort_keys=True, ensure_ascii=False)
        stream.write(line + "\n")
        running, count = digest(running + line), count + 1
    stream.write(json.dumps({"end": running, "lines": count}) + "\n")
    return count + 1


def _records(connection: Connection, tables: Sequence[Table]) -> Iterator[dict[str, object]]:
    """Yield the JSON object of every line of an export but the last.

    The first line names the format. Then follow the openings and audit events, the entries of all accounts, and the
    rows of `tables`.
    """
    yield {"format": FORMAT}
    records = records_of(connection)
    for record in records:
        yield {"opening": record.holder, "at": record.at, "body": record.body, "hash": record.hash}
    for record in records:
        if record.kind not in AUDIT_EVENT_KINDS and (terms := record.terms).kind != "cap":
            yield from map(_entry_record, entries_of(connection, record.holder, terms.name))
    for table in tables:
        for row in connection.execute(select(table).order_by(*table.primary_key)).mappings():
            yield {"table": table.name, "row": {name: _to_json(value) for name, value in row.items()}}


def _is_priced(terms: Terms) -> bool:
    """Return whether the price of a charge depends on what remains in the budget of an account with these `terms`.

    If not, equal charges take equal units from the account's balances. The restoration of an export then computes these
    units only once for all equal charges.
    """
    return terms.slices or (terms.totals is not None and terms.totals.price_depends_on_balance)


def _entry_record(entry: Entry) -> dict[str, object]:
    """Return an entry of an account (a charge, for example) as the JSON object of its line in an export."""
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
    """Return a column's value as JSON allows it: bytes become an object with their base64 text."""
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _from_json(value: object) -> object:
    """Return the value of a database column from its JSON form in an export, where bytes are written in base64."""
    return base64.b64decode(value["base64"], validate=True) if isinstance(value, dict) else value


class _Account:
    """An account while it is restored from an export.

    - `record` is the record that opens the account.
    - `cap` is the joint budget of all accounts on the dataset, if each charge is also paid from it directly. This is so
      for a cap that adds up zCDP. None if there is no cap, or if each account pays from a part of the cap that it has
      reserved.

    The attribute `row` is the account's row for the database, and is updated with each restored entry.
    """

    def __init__(self, record: Record, cap: Totals | None) -> None:
        self.terms = record.terms
        self.cap = cap
        self.holder = record.holder
        self.row = account_row(record)

    def moves(self, contents: Contents, spent: Mapping[str, int], moved: Mapping[str, int] | None) -> list[Movement]:
        """Return the balance changes of an entry, for an export that an early version of Setwise wrote.

        An export of an early version lists only the changes of the account's own balances, or none.

        - `contents` says what the entry is: a charge, for example.
        - `spent` maps each balance, such as "wallet", to the units spent from it before the entry. Prices may depend on
          what remains.
        - `moved` maps each of the account's own balances to its change in units, as the export lists it; None if it
          lists none. All other changes are computed from `contents` and `spent`.

        A full balance such as "wallet" has 2^60 units. The balance of a guarantee that was registered at the account's
        opening, such as "pure:0.1", counts its uses.
        """
        if contents.kind != "charge":
            return entry_movements(self.holder, self.terms, self.cap, contents, spent)
        if moved is not None and self.cap is None:
            return self._account_changes(contents.period, moved)
        drawn = entry_movements(self.holder, self.terms, self.cap, contents, spent)
        if moved is not None:
            return [
                *self._account_changes(contents.period, moved),
                *(move for move in drawn if move.holder != self.holder),
            ]
        return [self._limit_to_balance(move, read_uses(contents.uses), spent) for move in drawn]

    def _account_changes(self, period: str, moved: Mapping[str, int]) -> list[Movement]:
        """Return the changes of the account's own balances as `Movement` objects; `moved` maps balances to units.

        For example, {"wallet": 5} in the period "2026-11" gives one `Movement` of 5 units of "wallet" in that period. A
        balance such as "slice:wallet" has units of the cap (the joint budget of a dataset's accounts) that are reserved
        for this account. Its changes get the period "" instead of `period`, because a cap has no periods.
        """
        # The account's reserved part of the dataset's cap has no periods.
        slices = set(SLICES.values())
        return [
            Movement(self.holder, WHOLE_LIFE if balance_name in slices else period, balance_name, amount)
            for balance_name, amount in moved.items()
        ]

    def _limit_to_balance(self, move: Movement, uses: Sequence[Use], spent: Mapping[str, int]) -> Movement:
        """Return the balance change `move`, made smaller if it exceeds the remaining balance only by a rounding error.

        The change is a price that this machine computed. The machine that accepted the charge may have computed a
        slightly smaller one. `uses` lists the privacy guarantees that the change pays for, and how often each. `spent`
        maps each balance to the units spent from it before.
        """
        totals = self.terms.totals
        if move.balance_name != WALLET or not isinstance(totals, WalletTotals):
            return move
        # Another machine, which computed a slightly smaller price, may have accepted the charge. The payment is reduced
        # only if the remaining units still cover the uses at the prices of this machine.
        remaining = totals.lines()[WALLET] - spent.get(WALLET, 0)
        _, priced = self.terms.split(uses)
        return (
            replace(move, amount=remaining)
            if move.amount > remaining and totals.covers(priced, remaining, remaining)
            else move
        )


_KINDS: Mapping[str, EntryKind] = {kind: kind for kind in get_args(EntryKind)}

_BATCH = 2000
"""Rows inserted by one statement."""


class Restoration:
    """Writes the lines of an export into an empty ledger, inside one transaction, and verifies the whole ledger.

    - `tables` are tables of the service that are restored too.
    - `address` names the ledger in messages.
    - `at` is the time of the restoration, in microseconds since 1970. Only an export of an early format needs this
      time: its hashes do not cover the balance changes of entries, so a record with digests of these changes (the seal)
      is added with this timestamp.

    Raises `InvalidParameter` if the ledger is not empty.
    """

    def __init__(self, connection: Connection, address: str, tables: Sequence[Table], at: int) -> None:
        if connection.execute(select(openings.c.holder).limit(1)).first():
            raise InvalidParameter(f"the ledger {address} is not empty; restore into a new one")
        self._connection = connection
        self._at = at
        self._tables = {table.name: table for table in tables}
        self._accounts: dict[str, _Account] = {}
        self._totals: dict[int, Totals | None] = {}
        self._balance_sizes: dict[int, dict[str, int]] = {}
        self._priced: dict[tuple[str, str, str, str], list[Movement]] = {}
        self._balances: dict[tuple[int, str, str], tuple[int, int]] = {}
        self._number = 0
        self._has_moves = True
        self._sealed: dict[str, int] = {}
        self._moves: dict[str, list[str]] = {}
        self._waiting: dict[Table, list[dict[str, object]]] = {entries: [], movements: []}

    def run(self, stream: TextIO) -> int:
        """Restore the export in `stream`: write every line into the ledger, and return the number of entries.

        Raises `InvalidParameter` for an export that was changed or is cut short, or if verification of the restored
        ledger finds a fault.
        """
        # Triggers would update a balance once for every entry, and the time for that grows with the square of the
        # number of entries in the transaction. So rows are written as the triggers would have left them.
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
        """Write `record`, line `number` of the export, into the ledger.

        Returns 1 if the line is an entry of an account, and 0 for any other line, to count the entries.
        Raises `InvalidParameter`, with the line's number, if the line cannot be restored.
        """
        try:
            if number == 1:
                if record.get("format") not in (FORMAT, *_FORMATS_WITHOUT_MOVES):
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
        """Write `line` of the export, which opens an account or cap or is an audit event, into the ledger.

        A cap is the joint budget of a dataset's accounts.
        Raises `InvalidParameter` if the hash of the record is not the exported one.
        """
        body, at = _text(line, "body"), _integer_field(line, "at")
        if json.loads(body)["kind"] in AUDIT_EVENT_KINDS:
            event = AuditEvent.read(body)
            _check_hash(write_event(self._connection, event, at).hash, line["hash"])
            if event.kind in ("freeze", "thaw", "close"):
                row = self._accounts[event.subject].row
                row["state"] = next_state(row["state"], event.kind)  # type: ignore[arg-type]
            elif event.kind == "seal":
                self._sealed = {name: int(count) for name, (count, _) in event.details["accounts"].items()}
            return
        terms = Terms.read(body)
        record = write_record(self._connection, terms, at)
        _check_hash(record.hash, line["hash"])
        self._balance_sizes[record.holder] = terms.lines()
        if terms.kind == "cap":
            self._totals[record.holder] = terms.totals if isinstance(terms.totals, Totals) else None
        elif terms.name in self._accounts:
            raise InvalidParameter(f"the account {terms.name!r} is opened twice")
        else:
            account = _Account(record, None if terms.cap is None else self._totals[terms.cap])
            self._accounts[terms.name] = account
            # Entries refer to this row, so it is inserted now; `_finish` updates it to its last state.
            self._connection.execute(insert(accounts), account.row)

    def _append(self, line: dict[str, Any]) -> None:
        """Queue the entry in `line`, a line of an export, and its balance changes for insertion into the new ledger.

        The account's row in memory gets the position, hash and timestamp of this entry, because the next entry
        continues the chain from there; `_finish` writes the row at the end. Raises `InvalidParameter` if the hash that
        is computed for the entry is not the hash in the export.
        """
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
        position, at = int(str(row["entries"])) + 1, _integer_field(line, "at")
        if self._has_moves:
            contents = replace(contents, moves=_text(line, "moves"))
            moves = read_moves(contents.moves)
        else:
            moves = self._priced_moves(account, contents, line.get("moved"))
            contents = replace(contents, moves=write_moves(moves))
            self._moves.setdefault(account.terms.name, []).append(contents.moves)
        early = not self._has_moves or position <= self._sealed.get(account.terms.name, 0)
        contents_digest = contents.digest_without_moves() if early else contents.digest()
        hashed = link(str(row["head"]), position, at, contents_digest)
        _check_hash(hashed, line["hash"])
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
                "digest": contents_digest,
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
        """Return the balance changes of one entry of `account` that is restored from the export of an early version.

        Such an export lists only how the entry changes the account's own balances, or lists no changes. The changes
        that are missing are computed here, for example those of the joint budget of the dataset's accounts.

        - `contents` says what the entry is, for example a charge, and for which privacy guarantees.
        - `moved` maps each of the account's own balances to its change in units, as the export lists it; None if it
          lists none.
        """
        price_key = (contents.account, contents.kind, contents.uses, contents.period)
        if _is_priced(account.terms):
            places = self._balances
            before = {
                balance_name: places.get((account.holder, contents.period, balance_name), (0, 0))[0]
                for balance_name in account.terms.lines()
            }
            return account.moves(contents, before, moved)
        # Prices do not depend on the balance, so equal entries have equal changes, which are computed once.
        if price_key not in self._priced:
            self._priced[price_key] = account.moves(contents, {}, None)
        return self._priced[price_key]

    def _move(self, account: _Account, position: int, moves: Sequence[Movement]) -> None:
        """Queue balance changes, those of entry number `position` of `account`, to be written into the restored ledger.

        `moves` are the changes of budget balances that the entry made. Raises `InvalidParameter` if a change overdraws
        its balance. A cap (joint budget) from which accounts reserve parts is not checked here. An export lists all
        entries of one account, then those of the next, so that an account may seem to reserve parts which another one
        has not returned yet. The whole ledger is verified at the end.
        """
        for move in moves:
            self._number += 1
            place = (move.holder, move.period, move.balance_name)
            spent = self._balances.get(place, (0, 0))[0] + move.amount
            total = self._balance_sizes[move.holder][move.balance_name]
            if not 0 <= spent <= total and not (account.terms.slices and move.holder == account.terms.cap):
                raise InvalidParameter(f"it draws more than the balance {move.balance_name!r} has")
            self._balances[place] = (spent, self._number)
            entry = {"account": account.holder, "position": position, "number": self._number}
            change = {"holder": move.holder, "period": move.period, "what": move.balance_name, "amount": move.amount}
            self._put(movements, entry | change)

    def _copy(self, line: dict[str, Any]) -> None:
        """Queue the row in `line` of the export for insertion into one of the service's own tables.

        Raises `InvalidParameter` if the caller did not ask to restore this table, or if the row has other columns than
        the table.
        """
        table = self._tables.get(line["table"])
        if table is None:
            raise InvalidParameter(f"it belongs to the table {line['table']!r} of the service, which was not asked for")
        if line["row"].keys() != {column.name for column in table.c}:
            raise InvalidParameter(f"the table {table.name!r} has other columns")
        self._put(table, {name: _from_json(value) for name, value in line["row"].items()})

    def _put(self, table: Table, row: dict[str, object]) -> None:
        """Queue `row` for insertion into `table`; the whole queue is written once it has 2000 rows of one table."""
        rows = self._waiting.setdefault(table, [])
        rows.append(row)
        if len(rows) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        """Insert all queued rows into their tables, and empty the queue.

        Rows of a restored ledger are queued, because one statement with many rows is faster than one statement for each
        row.
        """
        for table, rows in self._waiting.items():
            if rows:
                self._connection.execute(insert(table), rows)
                rows.clear()

    def _finish(self) -> None:
        """Finish the restoration: insert queued rows and balances, create the triggers, and verify the whole ledger.

        Raises `InvalidParameter` if the database refuses the rows, because they contradict each other, or if
        verification finds a fault.
        """
        rows = [
            {
                "holder": holder,
                "period": period,
                "what": balance_name,
                "total": self._balance_sizes[holder][balance_name],
            }
            | {"spent": spent, "movement": number}
            for (holder, period, balance_name), (spent, number) in self._balances.items()
        ]
        try:
            self._flush()
            if rows:
                self._connection.execute(insert(balances), rows)
            ends = [{**account.row, "the_holder": account.row["holder"]} for account in self._accounts.values()]
            if ends:
                values: dict[str, Any] = {name: bindparam(name) for name in ends[0] if name != "the_holder"}
                last_state = accounts.update().where(accounts.c.holder == bindparam("the_holder")).values(values)
                self._connection.execute(last_state, ends)
        except DBAPIError:
            raise InvalidParameter("the lines of the export do not fit together") from None
        # Hashes of an early export do not cover balance changes, so a record called seal gets a digest of the changes.
        if self._moves:
            sealed = {name: (len(moves), moves_digest(moves)) for name, moves in self._moves.items()}
            write_seal(self._connection, sealed, self._at)
        for table in (movements, *self._tables.values()):
            _continue_numbers(self._connection, table)
        renew_triggers(self._connection)
        if self._connection.dialect.name == "postgresql":  # without statistics its plans take quadratic time
            self._connection.exec_driver_sql("ANALYZE ledger_entries, ledger_movements, ledger_balances")
        if faults := verify(self._connection).faults:
            raise InvalidParameter(f"the export cannot be restored: {faults[0]}")


def _continue_numbers(connection: Connection, table: Table) -> None:
    """Let PostgreSQL number new rows of `table` from the highest number among the restored rows on.

    Otherwise a new row would get a number that a restored row has. SQLite needs no such step, because it numbers a new
    row after the highest number in the table.
    """
    if connection.dialect.name != "postgresql":
        return
    for column in table.primary_key:
        if isinstance(column.type, Integer):
            connection.exec_driver_sql(
                f"SELECT setval(found, greatest((SELECT max({column.name}) FROM {table.name}), 1)) "  # noqa: S608
                f"FROM pg_get_serial_sequence('{table.name}', '{column.name}') AS found WHERE found IS NOT NULL"
            )


def _check_hash(computed: str, expected: object) -> None:
    """Raise `InvalidParameter` if the hash `computed` from an exported record is not the exported hash `expected`."""
    if computed != expected:
        raise InvalidParameter("it was changed: its hash does not fit what it says")


def _text(record: Mapping[str, Any], name: str) -> str:
    """Return the text under the key `name` in `record`, a line of the export, or raise `InvalidParameter`."""
    return check_text(record[name], name)


def _integer_field(record: Mapping[str, Any], name: str) -> int:
    """Return the integer under the key `name` in `record`, a line of the export, or raise `InvalidParameter`."""
    value = record[name]
    if type(value) is not int or abs(value) >= 2**62:
        raise InvalidParameter(f"{name} must be a whole number, not {value!r}")
    return value


def _read(line: str, number: int) -> dict[str, Any]:
    """Return the JSON object in `line`, which is line `number` of an export.

    Raises `InvalidParameter`, with the line's number, for text that is no JSON object.
    """
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise InvalidParameter(f"line {number} of the export is not a JSON object")
    return record
