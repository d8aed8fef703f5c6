"""Runs the statements of one PostgreSQL connection: settings, catalogue queries, and questions that are charged.

A `PostgresSession` belongs to one connection. It handles no bytes: server.py passes statements in and sends the
replies.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from setwise.errors import InvalidParameter, SetwiseError
from setwise.service.postgres.copy_out import parse_copy
from setwise.service.postgres.replies import ReadSelect, Rejected, Reply, Result, interval_columns
from setwise.service.postgres.session_settings import SessionSettings, columns_of_show, unquote
from setwise.service.postgres.statements import check_length, first_word, without_leading_comments
from setwise.service.postgres.values import FLOAT8, INT8, TEXT, ResultColumn, fit


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
    """The answer to a question of a PostgreSQL client.

    - `columns`: the names of the columns
    - `rows`: each row as a mapping from column names to cells; the cell of a statistic is a mapping with `value` and
      `interval`, and any other cell is a plain value
    - `notices`: sentences for the person who asked, with the privacy guarantee and the remaining budget
    """

    columns: tuple[str, ...]
    rows: Sequence[dict[str, object]]
    notices: tuple[str, ...] = ()


class Asker(Protocol):
    """Asks questions on behalf of the person of one PostgreSQL connection, and charges them to one account."""

    async def read(self, sql: str) -> ReadSelect:
        """Parse the SELECT `sql`, and answer it if it reads only PostgreSQL's catalogue (system tables).

        For any other SELECT the result has no rows, because it must be asked as a question. Nothing is charged.
        """
        ...

    async def ask(self, sql: str, budget: AskedBudget) -> Answer:
        """Ask the SQL statement `sql` as a question: charge the account, and return the answer's rows.

        `budget` has the epsilon and delta to spend if the statement states none, and the idempotency key of the
        question. If the key is None, a statement that is repeated soon gets its stored answer and is not charged again,
        unless the table is known to have changed.
        """
        ...

    async def explain(self, sql: str, budget: AskedBudget) -> Sequence[str]:
        """Return the preview of the SQL statement `sql` (cost, accuracy, remaining budget) as sentences.

        `budget` has the epsilon and delta that the preview assumes if the statement states none. Nothing is charged.
        """
        ...

    async def cancel(self) -> None:
        """Cancel the statement that is running, if there is one."""
        ...


class Transaction(StrEnum):
    """The state of a session's transaction, as the client is told it: no transaction, an open one, or a failed one.

    A failed transaction accepts only ROLLBACK and COMMIT, and COMMIT rolls it back too. A rollback restores only the
    session's settings; a charge is not rolled back.
    """

    NONE = "none"
    OPEN = "open"
    FAILED = "failed"


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
_ROLLBACK_TO = re.compile(
    r'(?:ROLLBACK|ABORT)\s+(?:(?:WORK|TRANSACTION)\s+)?TO\s+(?:SAVEPOINT\s+)?("[^"]+"|\w+)', re.IGNORECASE
)
_FETCH = re.compile(
    r'(?:FETCH|MOVE)\s+(?:(?:FORWARD\s+)?(NEXT|ALL|\d{1,9})\s+|FORWARD\s+)?(?:(?:IN|FROM)\s+)?("[^"]+"|\w+)',
    re.IGNORECASE,
)


def _parse_fetch(text: str) -> tuple[int | None, str]:
    """Return the number of rows that the FETCH or MOVE statement `text` asks for (None for all), and the cursor's name.

    Raises `Rejected` for a direction other than forward.
    """
    match = _FETCH.fullmatch(text.strip().rstrip(";").strip())
    if match is None:
        raise Rejected("0A000", "a cursor goes forward only: FETCH 100 FROM name, or FETCH ALL FROM name")
    count = (match[1] or "1").upper()
    return None if count == "ALL" else 1 if count == "NEXT" else int(count), unquote(match[2])


@dataclass
class _Cursor:
    """A cursor: the rows that the SELECT of a DECLARE statement returned, read a few at a time.

    `result` has all rows, and `place` is the number of rows that were fetched so far.
    """

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
    """A prepared statement of a client, which is SQL text with parameters such as $1.

    - `text`: the statement
    - `types`: the type identifiers (OIDs) of its parameters, 0 for a type that is not known yet
    - `columns`: the result columns that the client was told when it asked to describe the statement; None if it has not
      asked
    """

    text: str
    types: tuple[int, ...]
    columns: tuple[ResultColumn, ...] | None = None


@dataclass(slots=True)
class Portal:
    """A portal: a prepared statement with its parameters inserted, which a client's Bind message makes.

    - `text`: the statement with the values of its parameters
    - `formats`: the formats of the result's columns, 0 for text and 1 for binary
    - `columns`: the result columns that the client was told before the statement ran, or None if it was told none
    - `reply`: the result, or None until the statement has run
    - `sent`: the number of rows sent so far
    """

    text: str
    formats: tuple[int, ...]
    columns: tuple[ResultColumn, ...] | None = None
    reply: Reply | None = None
    sent: int = 0


@dataclass
class PostgresSession:
    """The state of one PostgreSQL connection, and the methods that run its statements.

    - `asker`: asks questions for the person of the connection
    - `settings`: the values that SET has stored
    - `transaction`: the transaction state that is reported to the client
    - `cursors`, `prepared` (statements), `portals` (statements with parameters, ready to run): by the name that the
      client gave them
    """

    asker: Asker
    settings: SessionSettings = field(default_factory=SessionSettings)
    transaction: Transaction = Transaction.NONE
    cursors: "dict[str, _Cursor]" = field(default_factory=dict)
    prepared: dict[str, Prepared] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)

    async def run(self, statement: str) -> Reply:
        """Run one SQL statement of the client and return its reply.

        Raises `Rejected` for a statement that cannot be run, and a `SetwiseError` if the service refuses to answer a
        SELECT.
        """
        check_length(statement)
        text = without_leading_comments(statement)
        word = first_word(text)
        if self.transaction is Transaction.FAILED and word not in ("ROLLBACK", "ABORT", "COMMIT", "END"):
            raise Rejected("25P02", "the transaction has failed: end it with ROLLBACK")
        if not text:
            return Reply("")
        if word in _SELECTS:
            return self.settings.run_call(text) or await self._select(text)
        if word == "EXPLAIN":
            lines = await self.asker.explain(_statement_to_explain(text), self._budget())
            return Reply("EXPLAIN", Result((ResultColumn("QUERY PLAN", TEXT),), [(line,) for line in lines]))
        if word == "COPY":
            return await self._copy(text)
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
                self.settings.begin()
                return Reply("BEGIN")
            case "COMMIT" | "END" if self.transaction is not Transaction.FAILED:
                self.transaction = Transaction.NONE
                self.settings.commit()
                return Reply("COMMIT")
            case "COMMIT" | "END" | "ROLLBACK" | "ABORT":
                return self._roll_back(text)
            case "SAVEPOINT":
                if self.transaction is not Transaction.NONE:
                    self.settings.save(unquote(text.partition(" ")[2]))
                return Reply(word)
            case "RELEASE" | "LISTEN" | "UNLISTEN":
                return Reply(word)
            case "SET":
                return self.settings.run_set(text)
            case "RESET":
                return self.settings.run_reset(text)
            case "DISCARD":
                return self._discard(text)
            case "DEALLOCATE":
                return self._deallocate(text)
            case "SHOW":
                return self.settings.run_show(text)
            case _:
                raise Rejected(
                    "0A000",
                    f"{word or text[:20]} is not available: this database answers SELECT, EXPLAIN, SET and SHOW",
                    "Its tables are private and cannot be changed.",
                )

    def _roll_back(self, text: str) -> Reply:
        """Run ROLLBACK, ROLLBACK TO a savepoint, or the COMMIT of a failed transaction, and return its reply.

        The session's settings become those at the beginning of the transaction, or at the savepoint. A charge is not
        rolled back. `text` is the statement.
        """
        savepoint = _ROLLBACK_TO.fullmatch(text)
        is_inside = self.transaction is not Transaction.NONE
        self.settings.roll_back(unquote(savepoint[1]) if savepoint and is_inside else None)
        self.transaction = Transaction.OPEN if savepoint and is_inside else Transaction.NONE
        return Reply("ROLLBACK")

    async def describe(self, statement: str) -> ReadSelect:
        """Return the result columns of a statement and the types of its parameters, without running or charging it.

        A statement that returns no rows has no columns. Raises `Rejected` if the columns are not known before it runs.
        """
        check_length(statement)
        text = without_leading_comments(statement)
        word = first_word(text)
        if word == "SHOW":
            return ReadSelect(columns=columns_of_show(text))
        if word == "EXPLAIN":
            return ReadSelect(columns=(ResultColumn("QUERY PLAN", TEXT),))
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

    async def parameter_types(self, statement: str) -> Mapping[int, int]:
        """Return the PostgreSQL types of the parameters of `statement` that its text determines, by parameter number.

        A parameter that is compared with a column of integers, for example, is an integer. Nothing is charged. The
        result is empty for a statement that is not a SELECT, or that cannot be parsed.
        """
        text = without_leading_comments(statement)
        if first_word(text) not in _SELECTS:
            return {}
        try:
            return (await self.asker.read(text)).parameters
        except InvalidParameter:
            return {}

    def keep_rows(self, rows: int) -> None:
        """Raise `Rejected` if the connection would keep too many rows in memory when `rows` more are added.

        A connection keeps the rows of its open cursors and portals (statements with parameters that were run), at most
        200,000 in total. If it keeps none yet, `rows` may be any number, so that a single result can always be read.
        """
        row_count = sum(len(cursor.result.rows) for cursor in self.cursors.values())
        for portal in self.portals.values():
            if portal.reply is not None and portal.reply.result is not None:
                row_count += len(portal.reply.result.rows)
        if row_count and row_count + rows > _MOST_ROWS_KEPT:
            raise Rejected("53400", f"a connection keeps at most {_MOST_ROWS_KEPT:,} rows: close cursors and portals")

    async def _copy(self, text: str) -> Reply:
        """Run the statement `text`, which must be COPY (SELECT ...) TO STDOUT; its SELECT is charged like any other.

        Raises `Rejected` for any other COPY.
        """
        query, copied = parse_copy(text)
        if first_word(query) not in _SELECTS:
            raise Rejected("42601", "COPY takes a SELECT in parentheses")
        reply = await self._select(without_leading_comments(query))
        result = reply.result or Result((), [])
        return replace(reply, tag=f"COPY {len(result.rows)}", result=result, copied=copied)

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
            self.cursors[unquote(declared[1])] = _Cursor(result)
            return Reply("DECLARE CURSOR", notices=reply.notices)
        if word == "CLOSE":
            name = unquote(text.partition(" ")[2])
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
        """Return the reply to the SELECT `text`.

        A query of PostgreSQL's catalogue, and a SELECT with LIMIT 0, are answered without a charge. Any other SELECT is
        asked as a question and charged.
        """
        read = self._accept(await self.asker.read(text))
        if read.rows is not None:
            columns = read.with_intervals() if self._has_intervals() else read.columns
            return Reply(f"SELECT {len(read.rows)}", Result(columns or (), read.rows))
        answer = await self.asker.ask(text, self._budget())
        if len(answer.rows) > _MANY_ROWS:
            return await asyncio.to_thread(self._reply, answer, read.columns)
        return self._reply(answer, read.columns)

    def _accept(self, read: ReadSelect) -> ReadSelect:
        """Return the parsed SELECT `read` unchanged if it may be asked; otherwise raise `Rejected`.

        A SELECT may not be asked if parsing found a reason to refuse it (`read.refusal`), which the error repeats.
        """
        if read.refusal is not None:
            raise Rejected(read.refusal.code, read.refusal.message, read.refusal.hint)
        return read

    def _has_intervals(self) -> bool:
        """Return whether results have columns with interval ends, which the setting setwise.intervals decides."""
        return self.settings.get("setwise.intervals") == "on"

    def _reply(self, answer: Answer, described: tuple[ResultColumn, ...] | None) -> Reply:
        """Return `answer` as columns and rows for the client, with each statistic as a plain number.

        If the setting setwise.intervals is on, columns NAME_lower and NAME_upper follow each statistic. `described` are
        the columns of the statement that are known from parsing it, whose names and types are used. If `described` is
        None, or has another number of columns than `answer`, names and types follow from the answer.
        """
        is_described = described is not None and len(described) == len(answer.columns)
        types = [column.type for column in described or ()] if is_described else [None] * len(answer.columns)
        names = [column.name for column in described or ()] if is_described else answer.columns
        columns: list[ResultColumn] = []
        cells: list[list[object]] = [[] for _ in answer.rows]
        for name, key, described_type in zip(names, answer.columns, types, strict=True):
            values = [row.get(key) for row in answer.rows]
            is_statistic = any(isinstance(value, dict) for value in values)
            plain = [value["value"] if isinstance(value, dict) else value for value in values]
            type_, fitted = fit(plain, described_type or _type_of(plain))
            columns.append(ResultColumn(name, type_))
            for row, cell in zip(cells, fitted, strict=True):
                row.append(cell)
            if is_statistic and self._has_intervals():
                columns += interval_columns(name)
                for row, value in zip(cells, values, strict=True):
                    interval = value.get("interval") if isinstance(value, dict) else None
                    row.extend([None, None] if interval is None else [float(interval[0]), float(interval[1])])
        return Reply(f"SELECT {len(cells)}", Result(tuple(columns), cells), answer.notices)

    def _budget(self) -> AskedBudget:
        """Return the epsilon, delta and idempotency key of the next question from the session's settings.

        A value is None if its setting was not set. Raises `Rejected` if setwise.epsilon or setwise.delta is set to a
        text that is not a number.
        """
        try:
            epsilon, delta = (
                float(text) if (text := self.settings.get(f"setwise.{name}")) else None for name in ("epsilon", "delta")
            )
        except ValueError:
            raise Rejected(
                "22023", "setwise.epsilon and setwise.delta must be numbers", "SET setwise.epsilon = 0.1"
            ) from None
        return AskedBudget(epsilon=epsilon, delta=delta, key=self.settings.get("setwise.key") or None)

    def _discard(self, text: str) -> Reply:
        """Run the DISCARD statement `text`, and return its reply.

        DISCARD ALL restores the defaults of all settings, and drops prepared statements and cursors. Other forms of
        DISCARD change nothing.
        """
        if "ALL" in text.upper().split():
            self.settings.clear()
            self.prepared.clear()
            self.cursors.clear()
        return Reply(" ".join(text.upper().split()))

    def _deallocate(self, text: str) -> Reply:
        """Run the DEALLOCATE statement `text`: drop one prepared statement, or all.

        Raises `Rejected` if there is no prepared statement of that name.
        """
        name = unquote(re.sub(r"^DEALLOCATE\s+(?:PREPARE\s+)?", "", text, flags=re.IGNORECASE))
        if name.upper() == "ALL":
            self.prepared.clear()
            return Reply("DEALLOCATE ALL")
        if self.prepared.pop(name, None) is None:
            raise Rejected("26000", f'prepared statement "{name}" does not exist')
        return Reply("DEALLOCATE")


def _statement_to_explain(text: str) -> str:
    """Return the SQL statement that follows EXPLAIN and its options in `text`."""
    statement = re.sub(r"^EXPLAIN\s*(\([^)]*\)|(?:ANALYZE|VERBOSE)\b)?\s*", "", text, flags=re.IGNORECASE)
    return re.sub(r"^(?:VERBOSE|ANALYZE)\s+", "", statement, flags=re.IGNORECASE)


def _type_of(values: Sequence[object]) -> int:
    """Return the PostgreSQL type identifier for a column with these `values`; None among them is null and is ignored.

    The type is an integer if all values are integers, a float if all are numbers, and otherwise text.
    """
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
