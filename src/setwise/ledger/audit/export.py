"""The ledger as JSON lines, and back: openings, then the entries of each account, then a digest over all of it."""

import json
from collections.abc import Iterator
from typing import Any, TextIO

from sqlalchemy import Connection, select

from setwise.errors import InvalidParameter, SetwiseError
from setwise.ledger.amounts import Totals
from setwise.ledger.records import Contents, Entry, check_text, digest
from setwise.ledger.stores.base import Draft, Refused, Store
from setwise.ledger.stores.queries import entries_of
from setwise.ledger.stores.schema import openings
from setwise.ledger.terms import Opening, Terms, drawn, given_back, openings_of, write_opening

FORMAT = "setwise-ledger-1"


def export(connection: Connection, stream: TextIO) -> int:
    """Write the whole ledger; return the number of lines."""
    running, count = "", 0
    for record in _records(connection):
        line = json.dumps(record, sort_keys=True, ensure_ascii=False)
        stream.write(line + "\n")
        running, count = digest(running + line), count + 1
    stream.write(json.dumps({"end": running, "lines": count}) + "\n")
    return count + 1


def _records(connection: Connection) -> Iterator[dict[str, object]]:
    yield {"format": FORMAT}
    known = openings_of(connection)
    for opening in known:
        yield {"opening": opening.holder, "at": opening.at, "body": opening.body, "hash": opening.hash}
    for opening in known:
        if (terms := opening.terms).kind != "cap":
            for entry in entries_of(connection, opening.holder, terms.name):
                yield _entry_record(entry)


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


class Restoration:
    """Write exported lines into an empty ledger, inside one transaction; every hash must come out as it was."""

    def __init__(self, store: Store, connection: Connection) -> None:
        if connection.execute(select(openings.c.holder).limit(1)).first():
            raise InvalidParameter(f"the ledger {store.address} is not empty; restore into a new one")
        self._store = store
        self._connection = connection
        self._holders: dict[str, tuple[int, Terms]] = {}
        self._totals: dict[int, Totals] = {}

    def run(self, stream: TextIO) -> int:
        """Read every line; return the number of entries."""
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
        return written

    def _write(self, record: dict[str, Any], number: int) -> int:
        try:
            if number == 1:
                if record.get("format") != FORMAT:
                    raise InvalidParameter(f"the first line does not say {FORMAT}")
                return 0
            if "opening" in record:
                self._open(record)
                return 0
            self._append(record)
        except (SetwiseError, Refused, KeyError, TypeError, ValueError, AssertionError) as error:
            reason = str(error) if isinstance(error, SetwiseError) else "it does not fit the lines before it"
            raise InvalidParameter(f"line {number} of the export cannot be restored: {reason}") from None
        return 1

    def _open(self, record: dict[str, Any]) -> None:
        terms = Terms.read(_text(record, "body"))
        opening: Opening = write_opening(self._connection, terms, _whole(record, "at"))
        _same(opening.hash, record["hash"])
        if terms.kind == "cap":
            assert terms.totals is not None
            self._totals[opening.holder] = terms.totals
        else:
            self._holders[terms.name] = (opening.holder, terms)

    def _append(self, record: dict[str, Any]) -> None:
        holder, terms = self._holders[record["account"]]
        contents = Contents(
            account=terms.name,
            kind="settle" if record["kind"] == "settle" else "charge",
            key=_text(record, "key"),
            period=_text(record, "period"),
            uses=_text(record, "uses"),
            text=_text(record, "text"),
        )
        position, at = _whole(record, "entry"), _whole(record, "at")
        known = Entry(contents=contents, position=position, at=at, previous="", hash=record["hash"])
        if contents.kind == "charge":
            cap = None if terms.cap is None else self._totals[terms.cap]
            moves = drawn(holder, terms, cap, known.uses, contents.period)
        else:
            moves = given_back(holder, known.uses, contents.period)
        draft = Draft(holder=holder, at=known.at, contents=contents, movements=moves)
        _same(self._store.append_in(self._connection, draft).hash, known.hash)


def _same(found: str, expected: object) -> None:
    if found != expected:
        raise InvalidParameter("it was changed, for its hash does not fit what it says")


def _text(record: dict[str, Any], name: str) -> str:
    return check_text(record[name], name)


def _whole(record: dict[str, Any], name: str) -> int:
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
