"""Runs the statements of one PostgreSQL connection: settings, catalogue queries, and questions that are charged.

A `Session` belongs to one connection. It handles no bytes: the server passes statements in and sends the replies.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from setwise.errors import SetwiseError
from setwise.service.postgres.catalogue_tables import SETTINGS
from setwise.service.postgres.replies import ReadSelect, Rejected, Reply, Result, interval_columns
from setwise.service.postgres.statements import check_length, first_word, without_leading_comments
from setwise.service.postgres.values import FLOAT8, INT8, TEXT, Column, fit


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedBudget:
    """The budget (epsilon, delta) and idempotency key of the next question, from the session's settings.

    A field is None if its setting was not set.
    """

    epsilon: float | None = None
    delta: float | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a question of a PostgreSQL client: its columns, and its rows by column name.

    A cell of a statistic is a mapping with `value` and `interval`; other cells are plain values. `notices` are
    sentences for the person who asked: the privacy guarantee, and the remaining budget.
    """

    columns: tuple[str, ...]
    rows: Sequence[dict[str, object]]
    notices: tuple[str, ...] = ()


class Asker(Protocol):
    """Asks questions on behalf of the person, and from the account, of one PostgreSQL connection."""

    async def read(self, sql: str) -> ReadSelect:
        """Parse the SELECT `sql`, and answer it if it reads only PostgreSQL's catalogue. Nothing is charged."""
        ...

    async def ask(self, sql: str, budget: AskedBudget) -> Answer:
        """Ask the SQL statement `sql` as a question: charge the account, and return the answer's rows.

        `budget` is spent if the statement states none. The same statement on the same version of the table gets its
        stored answer and is not charged again.
        """
        ...

    async def explain(self, sql: str, budget: AskedBudget) -> Sequence[str]:
        """Return the preview of the SQL statement `sql` (cost, accuracy, remaining budget) as lines of text.

        `budget` is assumed if the statement states none; nothing is charged.
        """
        ...

    async def cancel(self) -> None:
        """Cancel the question that is running, if there is one."""
        ...


class Transaction(StrEnum):
    """The state of a session's transaction, as it is reported to the client.

    A transaction has no other effect: a charge is not rolled back.
    """

    NONE = "none"
    OPEN = "open"
    FAILED = "failed"


_DEFAULTS = {
    **SETTINGS,
    "setwise.epsilon": "",
    "setwise.delta": "",
    "setwise.key": "",
    "setwise.intervals": "off",
}

REPORTED = (
    "server_version",
    "server_encoding",
    "client_encoding",
    "DateStyle",
    "TimeZone",
    "integer_datetimes",
    "IntervalStyle",
    "standard_conforming_strings",
    "is_superuser",
    "application_name",
)
"""Settings whose values PostgreSQL sends to every client when a session begins."""

_MOST_SETTINGS = 200
"""The most settings that one session keeps, so that a client cannot fill the memory with SET."""

_SET = re.compile(r"SET\s+(?:SESSION\s+|LOCAL\s+)?([\w.\"]+)(?:\s*=|\s+TO\s)\s*(.*)", re.IGNORECASE | re.DOTALL)
_SET_SPECIAL = re.compile(r"SET\s+(?:SESSION\s+|LOCAL\s+)?(TIME\s+ZONE|NAMES|SCHEMA)\s+(.*)", re.IGNORECASE | re.DOTALL)
_SPECIAL_NAMES = {"TIME ZONE": "timezone", "NAMES": "client_encoding", "SCHEMA": "search_path"}
"""Settings for which SET has a syntax of its own, such as SET NAMES 'UTF8', by the words of that syntax."""

_SET_WITHOUT_EFFECT = re.compile(
    r"SET\s+(?:(?:SESSION|LOCAL)\s+)?(?:TRANSACTION|CHARACTERISTICS|AUTHORIZATION|ROLE|CONSTRAINTS)\b", re.IGNORECASE
)
_SHOW = re.compile(r"SHOW\s+(.+)", re.IGNORECASE | re.DOTALL)
_RESET = re.compile(r"RESET\s+([\w.]+)", re.IGNORECASE)
_UTF8 = ("UTF8", "UTF-8", "UNICODE")
_SELECTS = ("SELECT", "WITH", "VALUES", "TABLE")

_MANY_ROWS = 1000
"""Rows of an answer above which they are converted in a thread, so that other connections do not wait."""

_MOST_ROWS_KEPT = 200_000
"""The most rows that the cursors and portals of one connection keep."""

_MOST_CURSORS = 20
"""The most cursors that one session keeps, because each keeps the rows of an answer."""

_DECLARE = re.compile(
    r'DECLARE\s+("[^"]+"|\w+)\s+(?:BINARY\s+|INSENSITIVE\s+|ASENSITIVE\s+|NO\s+SCROLL\s+|SCROLL\s+)*CURSOR\s+'
    r"(?:WITH\s+HOLD\s+|WITHOUT\s+HOLD\s+)?FOR\s+(.+)",
    re.IGNORECASE | re.DOTALL,
)
_FETCH = re.compile(
    r'(?:FETCH|MOVE)\s+(?:(?:FORWARD\s+)?(NEXT|ALL|\d{1,9})\s+|FORWARD\s+)?(?:(?:IN|FROM)\s+)?("[^"]+"|\w+)',
    re.IGNORECASE,
)


def _parse_fetch(text: str) -> tuple[int | None, str]:
    """Return the number of rows that the FETCH or MOVE statement `text` asks for (None for all), and the cursor's name.

    Raises `Rejected` for a direction other than forward.
    """
    found = _FETCH.fullmatch(text.strip().rstrip(";").strip())
    if found is None:
        raise Rejected("0A000", "a cursor goes forward only: FETCH 100 FROM name, or FETCH ALL FROM name")
    count = (found[1] or "1").upper()
    return None if count == "ALL" else 1 if count == "NEXT" else int(count), _unquote(found[2])


@dataclass
class _Cursor:
    """A cursor: the result of a statement that DECLARE ran, and in `place` the number of rows fetched so far."""

    result: Result
    place: int = 0

    def take(self, count: int | None) -> Sequence[Sequence[object]]:
        """Return the next `count` rows of the cursor, or all remaining rows if `count` is None.

        The cursor moves past the returned rows.
        """
        end = len(self.result.rows) if count is None else min(len(self.result.rows), self.place + count)
        rows = self.result.rows[self.place : end]
        self.place = end
        return rows


@dataclass(slots=True)
class Prepared:
    """A prepared statement: its `text`, and `types`, the type identifiers (OIDs) of its parameters."""

    text: str
    types: tuple[int, ...]


@dataclass(slots=True)
class Portal:
    """A portal: a prepared statement with its parameters inserted, which a client's Bind message makes.

    `reply` is the result once the statement has run, kept from Describe to Execute so that it runs only once. `formats`
    are the formats of the result's columns (0 text, 1 binary), and `sent` is the number of rows sent so far.
    """

    text: str
    formats: tuple[int, ...]
    reply: Reply | None = None
    sent: int = 0


@dataclass
class Session:
    """The state of one PostgreSQL connection, and the methods that run its statements.

    `asker` asks the questions of the connection's person. `settings` has the values that SET has stored, by name, and
    `transaction` the state that is reported to the client. A portal is a statement with its parameters inserted, ready
    to run; `cursors`, `prepared` (statements) and `portals` are kept by the names that the client gave them.
    """

    asker: Asker
    settings: dict[str, str] = field(default_factory=dict)
    transaction: Transaction = Transaction.NONE
    cursors: "dict[str, _Cursor]" = field(default_factory=dict)
    prepared: dict[str, Prepared] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)

    def setting(self, name: str) -> str | None:
        """Return the value of the session's setting `name`, or its default if it was not set; None if it is unknown."""
        lowered = name.lower()
        return self.settings.get(lowered, _DEFAULTS.get(lowered))

    async def run(self, statement: str) -> Reply:
        """Run one SQL statement of the client and return its reply.

        Raises `Rejected` for a statement that cannot be run, and a `SetwiseError` for a question that is refused.
        """
        check_length(statement)
        text = without_leading_comments(statement)
        word = first_word(text)
        if self.transaction is Transaction.FAILED and word not in ("ROLLBACK", "ABORT", "COMMIT", "END"):
            raise Rejected("25P02", "the transaction has failed: end it with ROLLBACK")
        if not text:
            return Reply("")
        if word in _SELECTS:
            return await self._select(text)
        if word == "EXPLAIN":
            lines = await self.asker.explain(_statement_to_explain(text), self._budget())
            return Reply("EXPLAIN", Result((Column("QUERY PLAN", TEXT),), [(line,) for line in lines]))
        if word in ("DECLARE", "FETCH", "MOVE", "CLOSE"):
            return await self._run_cursor(word, text)
        return self._run_command(word, text)

    def _run_command(self, word: str, text: str) -> Reply:
        """Run a statement about transactions, settings or prepared statements, which reads no table.

        `word` is the first word of `text`. Raises `Rejected` for any other statement.
        """
        match word:
            case "BEGIN" | "START":
                self.transaction = Transaction.OPEN
                return Reply("BEGIN")
            case "COMMIT" | "END":
                tag = "ROLLBACK" if self.transaction is Transaction.FAILED else "COMMIT"
                self.transaction = Transaction.NONE
                return Reply(tag)
            case "ROLLBACK" | "ABORT":
                to_savepoint = "TO" in text.upper().split() and self.transaction is not Transaction.NONE
                self.transaction = Transaction.OPEN if to_savepoint else Transaction.NONE
                return Reply("ROLLBACK")
            case "SAVEPOINT" | "RELEASE" | "LISTEN" | "UNLISTEN":
                return Reply(word)
            case "SET":
                return self._set(text)
            case "RESET" | "DISCARD":
                return self._reset(word, text)
            case "DEALLOCATE":
                return self._deallocate(text)
            case "SHOW":
                return self._show(text)
            case _:
                raise Rejected(
                    "0A000",
                    f"{word or text[:20]} is not available: this database answers SELECT, EXPLAIN, SET and SHOW",
                    "Its tables are private and cannot be changed.",
                )

    async def describe(self, statement: str) -> ReadSelect:
        """Return the result columns of a statement, and the types of its parameters, without charging for it.

        A statement that returns no rows has no columns. Raises `Rejected` if the columns are not known before it runs.
        """
        check_length(statement)
        text = without_leading_comments(statement)
        word = first_word(text)
        if word == "SHOW":
            return ReadSelect(columns=tuple(Column(name, TEXT) for name in _columns_of_show(_setting_to_show(text))))
        if word == "EXPLAIN":
            return ReadSelect(columns=(Column("QUERY PLAN", TEXT),))
        if word == "FETCH":
            return ReadSelect(columns=self._cursor(_parse_fetch(text)[1]).result.columns)
        if word not in _SELECTS:
            return ReadSelect(columns=())
        read = self._accept(await self.asker.read(text))
        if read.columns is None:
            raise Rejected(
                "0A000",
                "the columns of this statement are not known before it runs",
                "Send it without preparing it, for example as a simple query.",
            )
        return replace(read, columns=read.with_intervals()) if self._has_intervals() else read

    def keep_rows(self, rows: int) -> None:
        """Raise `Rejected` if the connection's cursors and portals would keep too many rows with `rows` more."""
        kept = sum(len(cursor.result.rows) for cursor in self.cursors.values())
        for portal in self.portals.values():
            if portal.reply is not None and portal.reply.result is not None:
                kept += len(portal.reply.result.rows)
        if kept and kept + rows > _MOST_ROWS_KEPT:
            raise Rejected("53400", f"a connection keeps at most {_MOST_ROWS_KEPT:,} rows: close cursors and portals")

    async def _run_cursor(self, word: str, text: str) -> Reply:
        """Run a DECLARE, FETCH, MOVE or CLOSE statement of a cursor, as ODBC drivers and Tableau send them.

        DECLARE runs the cursor's SELECT, which is charged like any other, and keeps its rows; FETCH and MOVE only go
        forward. `word` is the first word of `text`.
        """
        if word == "DECLARE":
            declared = _DECLARE.fullmatch(text)
            if declared is None:
                raise Rejected("42601", "a cursor is declared by DECLARE name CURSOR FOR SELECT")
            if len(self.cursors) >= _MOST_CURSORS:
                raise Rejected("53400", f"a session keeps at most {_MOST_CURSORS} cursors")
            reply = await self._select(declared[2])
            result = reply.result or Result((), [])
            self.keep_rows(len(result.rows))
            self.cursors[_unquote(declared[1])] = _Cursor(result)
            return Reply("DECLARE CURSOR", notices=reply.notices)
        if word == "CLOSE":
            name = _unquote(text.partition(" ")[2])
            if name.upper() == "ALL":
                self.cursors.clear()
            else:
                self._cursor(name)
                del self.cursors[name]
            return Reply("CLOSE CURSOR")
        count, name = _parse_fetch(text)
        rows = self._cursor(name).take(count)
        if word == "MOVE":
            return Reply(f"MOVE {len(rows)}")
        return Reply(f"FETCH {len(rows)}", Result(self._cursor(name).result.columns, rows))

    def _cursor(self, name: str) -> "_Cursor":
        """Return the cursor called `name`; raise `Rejected` if there is none."""
        if name not in self.cursors:
            raise Rejected("34000", f'cursor "{name}" does not exist')
        return self.cursors[name]

    async def _select(self, text: str) -> Reply:
        """Answer the SELECT `text`: from the catalogue, without rows for LIMIT 0, or as a question that is charged."""
        read = self._accept(await self.asker.read(text))
        if read.rows is not None:
            columns = read.with_intervals() if self._has_intervals() else read.columns
            return Reply(f"SELECT {len(read.rows)}", Result(columns or (), read.rows))
        answer = await self.asker.ask(text, self._budget())
        if len(answer.rows) > _MANY_ROWS:
            return await asyncio.to_thread(self._reply, answer, read.columns)
        return self._reply(answer, read.columns)

    def _accept(self, read: ReadSelect) -> ReadSelect:
        """Return the parsed SELECT `read` unchanged; raise `Rejected` if it has a refusal."""
        if read.refusal is not None:
            raise Rejected(read.refusal.code, read.refusal.message, read.refusal.hint)
        return read

    def _has_intervals(self) -> bool:
        """Return whether the setting setwise.intervals is on, so that results have columns with interval ends."""
        return self.setting("setwise.intervals") == "on"

    def _reply(self, answer: Answer, described: tuple[Column, ...] | None) -> Reply:
        """Return an answer as columns and rows for the client, with each statistic as a plain number.

        If the setting setwise.intervals is on, columns NAME_lower and NAME_upper follow each statistic. `described` are
        the columns and types that the client was told before the answer; with None, types follow from the values.
        """
        is_described = described is not None and len(described) == len(answer.columns)
        types = [column.type for column in described or ()] if is_described else [None] * len(answer.columns)
        columns: list[Column] = []
        cells: list[list[object]] = [[] for _ in answer.rows]
        for name, described_type in zip(answer.columns, types, strict=True):
            values = [row.get(name) for row in answer.rows]
            is_statistic = any(isinstance(value, dict) for value in values)
            plain = [value["value"] if isinstance(value, dict) else value for value in values]
            type_, fitted = fit(plain, described_type or _type_of(plain))
            columns.append(Column(name, type_))
            for row, cell in zip(cells, fitted, strict=True):
                row.append(cell)
            if is_statistic and self._has_intervals():
                columns += interval_columns(name)
                for row, value in zip(cells, values, strict=True):
                    interval = value.get("interval") if isinstance(value, dict) else None
                    row.extend([None, None] if interval is None else [float(interval[0]), float(interval[1])])
        return Reply(f"SELECT {len(cells)}", Result(tuple(columns), cells), answer.notices)

    def _budget(self) -> AskedBudget:
        """Return the budget of the next question from the session's settings.

        Raises `Rejected` if setwise.epsilon or setwise.delta is set to a text that is not a number.
        """
        try:
            epsilon, delta = (
                float(text) if (text := self.setting(f"setwise.{name}")) else None for name in ("epsilon", "delta")
            )
        except ValueError:
            raise Rejected(
                "22023", "setwise.epsilon and setwise.delta must be numbers", "SET setwise.epsilon = 0.1"
            ) from None
        return AskedBudget(epsilon=epsilon, delta=delta, key=self.setting("setwise.key") or None)

    def _set(self, text: str) -> Reply:
        """Run the SET statement `text`: store the value of a setting.

        Raises `Rejected` for an unknown setting whose name begins with setwise, and for an encoding other than UTF-8.
        """
        if _SET_WITHOUT_EFFECT.match(text):
            return Reply("SET")
        if special := _SET_SPECIAL.fullmatch(text):
            name, value = _SPECIAL_NAMES[" ".join(special[1].upper().split())], _unquote(special[2])
        elif match := _SET.fullmatch(text):
            name, value = match[1].strip('"').lower(), _unquote(match[2])
        else:
            raise Rejected("42601", "SET is written SET name = value")
        if name.startswith("setwise.") and name not in _DEFAULTS:
            known = ", ".join(setting for setting in _DEFAULTS if setting.startswith("setwise."))
            raise Rejected("42704", f"there is no setting {name}", f"The settings are {known}.")
        if value.upper() == "DEFAULT":
            self.settings.pop(name, None)
            return Reply("SET")
        if name == "client_encoding":
            if value.upper() not in _UTF8:
                raise Rejected("22023", "texts are sent in UTF8 and in no other encoding", "SET client_encoding = UTF8")
            value = "UTF8"
        if name == "setwise.intervals":
            value = "on" if value.lower() in ("on", "true", "1", "yes") else "off"
        self.keep_setting(name, value)
        return Reply("SET")

    def keep_setting(self, name: str, value: str) -> None:
        """Store the `value` of the session's setting `name`, cut to 1000 characters.

        Raises `Rejected` if the session has too many settings.
        """
        if name not in self.settings and len(self.settings) >= _MOST_SETTINGS:
            raise Rejected("53400", f"a session keeps at most {_MOST_SETTINGS} settings")
        self.settings[name] = value[:1000]

    def _reset(self, word: str, text: str) -> Reply:
        """Run a RESET or DISCARD statement: restore the default of one setting, or of all.

        DISCARD ALL also drops prepared statements and cursors. `word` is the first word of `text`.
        """
        match = _RESET.fullmatch(text)
        name = match[1].lower() if match else "all"
        if word == "DISCARD":
            if "ALL" in text.upper().split():
                self.settings.clear()
                self.prepared.clear()
                self.cursors.clear()
            return Reply(" ".join(text.upper().split()))
        if name == "all":
            self.settings.clear()
        else:
            self.settings.pop(name, None)
        return Reply("RESET")

    def _deallocate(self, text: str) -> Reply:
        """Run the DEALLOCATE statement `text`: drop one prepared statement, or all.

        Raises `Rejected` if there is no prepared statement of that name.
        """
        name = _unquote(re.sub(r"^DEALLOCATE\s+(?:PREPARE\s+)?", "", text, flags=re.IGNORECASE))
        if name.upper() == "ALL":
            self.prepared.clear()
            return Reply("DEALLOCATE ALL")
        if self.prepared.pop(name, None) is None:
            raise Rejected("26000", f'prepared statement "{name}" does not exist')
        return Reply("DEALLOCATE")

    def _show(self, text: str) -> Reply:
        """Run the SHOW statement `text`: reply with the value of one setting, or of all.

        Raises `Rejected` if the setting is unknown.
        """
        name = _setting_to_show(text)
        columns = tuple(Column(column, TEXT) for column in _columns_of_show(name))
        if name.upper() == "ALL":
            names = sorted({**_DEFAULTS, **self.settings})
            return Reply("SHOW", Result(columns, [(each, self.setting(each), "") for each in names]))
        value = self.setting(name)
        if value is None:
            raise Rejected("42704", f'unrecognized configuration parameter "{name}"')
        return Reply("SHOW", Result(columns, [(value,)]))


def _columns_of_show(name: str) -> tuple[str, ...]:
    """Return the names of the result columns of SHOW `name`."""
    return ("name", "setting", "description") if name.upper() == "ALL" else (name,)


def _setting_to_show(text: str) -> str:
    """Return the name of the setting in the SHOW statement `text`, or "ALL"."""
    match = _SHOW.match(text)
    words = "" if match is None else " ".join(match[1].strip().rstrip(";").strip('"').split())
    aliases = {
        "TRANSACTION ISOLATION LEVEL": "transaction_isolation",
        "TIME ZONE": "TimeZone",
        "SESSION AUTHORIZATION": "session_authorization",
    }
    return aliases.get(words.upper(), words)


def _statement_to_explain(text: str) -> str:
    """Return the SQL statement after EXPLAIN and its options in `text`."""
    statement = re.sub(r"^EXPLAIN\s*(\([^)]*\)|(?:ANALYZE|VERBOSE)\b)?\s*", "", text, flags=re.IGNORECASE)
    return re.sub(r"^(?:VERBOSE|ANALYZE)\s+", "", statement, flags=re.IGNORECASE)


def _unquote(text: str) -> str:
    """Return a value or name of a statement without its quotes, and without a semicolon at the end."""
    plain = text.strip().rstrip(";").strip()
    if len(plain) >= 2 and plain[0] == plain[-1] and plain[0] in "'\"":
        return plain[1:-1].replace(plain[0] * 2, plain[0])
    return plain


def _type_of(values: Sequence[object]) -> int:
    """Return the PostgreSQL type identifier for a column with these `values`: of integers, floats, or else texts."""
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, int) and not isinstance(value, bool) for value in present):
        return INT8
    if present and all(isinstance(value, int | float) and not isinstance(value, bool) for value in present):
        return FLOAT8
    return TEXT


_CODES = {
    "BudgetExhausted": "53400",
    "TooManyRequests": "53300",
    "UnknownColumn": "42703",
    "UnknownName": "42P01",
    "UnknownAccount": "3D000",
    "KeyConflict": "23505",
    "EngineFailed": "58000",
    "StoreFailed": "58030",
    "MissingExtra": "0A000",
    "Forbidden": "42501",
    "NotSignedIn": "28P01",
}


def sqlstate(error: SetwiseError) -> str:
    """Return the SQLSTATE code that PostgreSQL clients are sent for `error`; 22023 (invalid value) if no other fits."""
    return next((_CODES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _CODES), "22023")
