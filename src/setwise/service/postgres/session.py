"""What a statement over PostgreSQL's protocol means: a setting, a catalogue query, or a question that is charged.

One `Session` belongs to one connection. It knows nothing of bytes: the server hands it statements and sends what it
returns.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from sqlglot import exp

from setwise.errors import InvalidParameter, SetwiseError
from setwise.service.postgres.catalogue import SERVER_VERSION, Catalogue, Result, parse_catalogue_query
from setwise.service.postgres.values import FLOAT8, TEXT, Column


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedBudget:
    """What the settings of a session say about the budget of its next question; None where they say nothing."""

    epsilon: float | None = None
    delta: float | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of a question, as the service stored them.

    A cell of a statistic is a mapping with `value` and `interval`; other cells are plain. `notices` are sentences for
    the person who asked: the promise, and what is left of the budget.
    """

    columns: tuple[str, ...]
    rows: Sequence[dict[str, object]]
    notices: tuple[str, ...] = ()


class Asker(Protocol):
    """Asks questions for the person and the account of one connection."""

    async def ask(self, sql: str, budget: AskedBudget) -> Answer:
        """Charge, answer and return; the same statement on the same version of the table replays its stored answer."""
        ...

    async def explain(self, sql: str, budget: AskedBudget) -> Sequence[str]:
        """Return the preview of a question as lines of text; nothing is charged."""
        ...

    async def cancel(self) -> None:
        """Stop the question that runs, if one does."""
        ...


class Rejected(Exception):
    """A statement that is refused: its SQLSTATE, one sentence, and what to do instead."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.hint = code, hint


class Transaction(StrEnum):
    """Where a session's transaction stands; statements take effect one by one all the same."""

    NONE = "none"
    OPEN = "open"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a statement gives: columns and rows, or only a tag such as SET; and notices to show beside it."""

    tag: str
    result: Result | None = None
    notices: tuple[str, ...] = ()


_DEFAULTS = {
    "server_version": SERVER_VERSION,
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "datestyle": "ISO, MDY",
    "timezone": "UTC",
    "integer_datetimes": "on",
    "intervalstyle": "postgres",
    "standard_conforming_strings": "on",
    "is_superuser": "off",
    "application_name": "",
    "transaction_isolation": "read committed",
    "transaction_read_only": "on",
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "read committed",
    "search_path": '"$user", public',
    "max_identifier_length": "63",
    "statement_timeout": "0",
    "lc_collate": "C",
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
"""Settings that PostgreSQL tells every client when a session begins."""

_MOST_SETTINGS = 200
"""The most settings that one session keeps, so that a client cannot fill the memory with SET."""

_SET = re.compile(r"SET\s+(?:SESSION\s+|LOCAL\s+)?([\w.\"]+)\s*(?:=|\s+TO\s+)\s*(.*)", re.IGNORECASE | re.DOTALL)
_SET_TIME_ZONE = re.compile(r"SET\s+(?:SESSION\s+|LOCAL\s+)?TIME\s+ZONE\s+(.*)", re.IGNORECASE | re.DOTALL)
_SHOW = re.compile(r"SHOW\s+(.+)", re.IGNORECASE | re.DOTALL)
_RESET = re.compile(r"RESET\s+([\w.]+)", re.IGNORECASE)
_LEADING = re.compile(r"(?:\s+|--[^\n]*\n|/\*.*?\*/)*", re.DOTALL)

PRIVATE_ROWS = (
    "Rows are private: ask for numbers over groups, for example "
    "SELECT {column}, COUNT(DISTINCT {user}) AS users FROM {table} GROUP BY {column}"
)


@dataclass
class Session:
    """The state of one connection: settings, the transaction, and the catalogue that it reads."""

    asker: Asker
    catalogue: Catalogue
    user_column: str
    settings: dict[str, str] = field(default_factory=dict)
    transaction: Transaction = Transaction.NONE

    def setting(self, name: str) -> str | None:
        """Return the value of a setting, or None if it is not known."""
        lowered = name.lower()
        return self.settings.get(lowered, _DEFAULTS.get(lowered))

    async def run(self, statement: str) -> Reply:  # noqa: PLR0912 - one branch for each kind of statement
        """Run one statement and return what it gives.

        Raises: `Rejected`, or a `SetwiseError` for a question that is refused.
        """
        text = statement[_LEADING.match(statement).end() :].rstrip().rstrip(";")  # type: ignore[union-attr]
        word = text.partition(" ")[0].split("\n")[0].upper().rstrip(";")
        if self.transaction is Transaction.FAILED and word not in ("ROLLBACK", "ABORT", "COMMIT", "END"):
            raise Rejected("25P02", "the transaction has failed: end it with ROLLBACK")
        match word:
            case "":
                return Reply("")
            case "BEGIN" | "START":
                self.transaction = Transaction.OPEN
                return Reply("BEGIN")
            case "COMMIT" | "END":
                tag = "ROLLBACK" if self.transaction is Transaction.FAILED else "COMMIT"
                self.transaction = Transaction.NONE
                return Reply(tag)
            case "ROLLBACK" | "ABORT":
                if "TO" not in text.upper().split():
                    self.transaction = Transaction.NONE
                return Reply("ROLLBACK")
            case "SAVEPOINT" | "RELEASE":
                return Reply(word)
            case "SET":
                return self._set(text)
            case "RESET" | "DISCARD" | "DEALLOCATE":
                return self._reset(word, text)
            case "SHOW":
                return self._show(text)
            case "EXPLAIN":
                lines = await self.asker.explain(_explained(text), self._budget())
                return Reply("EXPLAIN", Result((Column("QUERY PLAN", TEXT),), [(line,) for line in lines]))
            case "SELECT" | "WITH" | "VALUES" | "TABLE" | "(SELECT" | "(":
                return await self._select(text)
            case _:
                raise Rejected(
                    "0A000",
                    f"{word} is not available: this database answers SELECT, EXPLAIN, SET and SHOW",
                    "Its tables are private and cannot be changed.",
                )

    def describe(self, statement: str) -> tuple[Column, ...] | None:
        """Return the columns that a statement will give, without running it; None if they are not known beforehand."""
        text = statement[_LEADING.match(statement).end() :]  # type: ignore[union-attr]
        word = text.partition(" ")[0].upper()
        if word == "SHOW":
            return (Column(_shown_name(text), TEXT),)
        if word == "EXPLAIN":
            return (Column("QUERY PLAN", TEXT),)
        if word not in ("SELECT", "WITH", "VALUES", "TABLE"):
            return ()
        try:
            tree = parse_catalogue_query(text)
            if self.catalogue.reads_catalogue(tree):
                return self.catalogue.answer(tree).columns
        except InvalidParameter:
            return None
        columns = self.catalogue.describe(tree)
        return None if columns is None else self._with_intervals(columns, tree)

    async def _select(self, text: str) -> Reply:
        tree: exp.Expr | None
        try:
            tree = parse_catalogue_query(text)
        except InvalidParameter:
            tree = None  # GoogleSQL's clauses are read by the question itself
        if tree is not None and self.catalogue.reads_catalogue(tree):
            result = self.catalogue.answer(tree)
            return Reply(f"SELECT {len(result.rows)}", result)
        if tree is not None:
            empty = self._columns_only(tree)
            if empty is not None:
                return Reply("SELECT 0", Result(empty, []))
            self._refuse_rows(tree)
        answer = await self.asker.ask(text, self._budget())
        return self._reply(answer, None if tree is None else self.catalogue.describe(tree))

    def _columns_only(self, tree: exp.Expr) -> tuple[Column, ...] | None:
        """Return the columns of a statement that asks for no rows (LIMIT 0), as tools do to learn them; else None."""
        limit = tree.args.get("limit")
        if limit is None or not isinstance(limit.expression, exp.Literal) or limit.expression.this != "0":
            return None
        columns = self.catalogue.describe(tree)
        if columns is None:
            raise Rejected("42601", "the columns of this statement cannot be told without running it")
        return self._with_intervals(columns, tree)

    def _refuse_rows(self, tree: exp.Expr) -> None:
        """Raise `Rejected` for a SELECT of rows: a scan, a sample, or the distinct values of a field."""
        if (
            not isinstance(tree, exp.Select)
            or tree.args.get("group")
            or tree.find(exp.AggFunc, exp.Anonymous, exp.With)
        ):
            return
        source = tree.find(exp.Table)
        if source is None or tree.find(exp.Subquery):
            return
        columns = self.catalogue.columns_of(source.name)
        if columns is None:
            raise Rejected(
                "42P01", f'relation "{source.name}" does not exist', "List the tables with \\d or the browser."
            )
        others = [name for name, _ in columns if name != self.user_column] or ["group"]
        hint = PRIVATE_ROWS.format(column=others[0], user=self.user_column, table=source.name)
        raise Rejected("42501", f'permission denied to read rows of "{source.name}"', hint)

    def _reply(self, answer: Answer, described: tuple[Column, ...] | None) -> Reply:
        """Return the rows with statistics as numbers and, if the session asks for them, their intervals beside them."""
        intervals = self.setting("setwise.intervals") == "on"
        types = {column.name: column.type for column in described or ()}
        columns: list[Column] = []
        cells: list[list[object]] = [[] for _ in answer.rows]
        for name in answer.columns:
            values = [row.get(name) for row in answer.rows]
            is_statistic = any(isinstance(value, dict) for value in values)
            numbers = [value["value"] if isinstance(value, dict) else value for value in values]
            columns.append(Column(name, types.get(name, _type_of(numbers))))
            for row, number in zip(cells, numbers, strict=True):
                row.append(number)
            if intervals and is_statistic:
                for place, end in enumerate(("lower", "upper")):
                    columns.append(Column(f"{name}_{end}", FLOAT8))
                    for row, value in zip(cells, values, strict=True):
                        interval = value.get("interval") if isinstance(value, dict) else None
                        row.append(None if interval is None else float(interval[place]))
        return Reply(f"SELECT {len(cells)}", Result(tuple(columns), cells), answer.notices)

    def _with_intervals(self, columns: tuple[Column, ...], tree: exp.Expr) -> tuple[Column, ...]:
        projections = tree.expressions if isinstance(tree, exp.Select) else []
        if self.setting("setwise.intervals") != "on" or len(projections) != len(columns):
            return columns
        found: list[Column] = []
        for column, projection in zip(columns, projections, strict=True):
            found.append(column)
            inner = projection.this if isinstance(projection, exp.Alias) else projection
            if isinstance(inner, exp.AggFunc):
                found += [Column(f"{column.name}_{end}", FLOAT8) for end in ("lower", "upper")]
        return tuple(found)

    def _budget(self) -> AskedBudget:
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
        upper = " ".join(text.upper().split()[:3])
        if upper.startswith(
            ("SET TRANSACTION", "SET SESSION CHARACTERISTICS", "SET SESSION AUTHORIZATION", "SET ROLE")
        ):
            return Reply("SET")
        if zone := _SET_TIME_ZONE.fullmatch(text):
            self._keep("timezone", _unquoted(zone[1]))
            return Reply("SET")
        found = _SET.fullmatch(text)
        if found is None:
            raise Rejected("42601", "SET is written SET name = value")
        name, value = found[1].strip('"').lower(), _unquoted(found[2])
        if name.startswith("setwise.") and name not in _DEFAULTS:
            known = ", ".join(setting for setting in _DEFAULTS if setting.startswith("setwise."))
            raise Rejected("42704", f"there is no setting {name}", f"The settings are {known}.")
        if name == "setwise.intervals":
            value = "on" if value.lower() in ("on", "true", "1", "yes") else "off"
        self._keep(name, "" if value.upper() == "DEFAULT" else value)
        return Reply("SET")

    def _keep(self, name: str, value: str) -> None:
        if name not in self.settings and len(self.settings) >= _MOST_SETTINGS:
            raise Rejected("53400", f"a session keeps at most {_MOST_SETTINGS} settings")
        self.settings[name] = value[:1000]

    def _reset(self, word: str, text: str) -> Reply:
        found = _RESET.fullmatch(text)
        if word == "DISCARD" or (found and found[1].upper() == "ALL"):
            self.settings.clear()
        elif found:
            self.settings.pop(found[1].lower(), None)
        return Reply("DISCARD ALL" if word == "DISCARD" else word)

    def _show(self, text: str) -> Reply:
        name = _shown_name(text)
        value = self.setting(name)
        if value is None:
            raise Rejected("42704", f'unrecognized configuration parameter "{name}"')
        return Reply("SHOW", Result((Column(name, TEXT),), [(value,)]))


def _shown_name(text: str) -> str:
    found = _SHOW.match(text)
    words = "" if found is None else " ".join(found[1].strip().rstrip(";").strip('"').split())
    named = {"TRANSACTION ISOLATION LEVEL": "transaction_isolation", "TIME ZONE": "TimeZone"}
    return named.get(words.upper(), words)


def _explained(text: str) -> str:
    """Return the statement after EXPLAIN and its options."""
    rest = re.sub(r"^EXPLAIN\s*(\([^)]*\)|(?:ANALYZE|VERBOSE)\b)?\s*", "", text, flags=re.IGNORECASE)
    return re.sub(r"^(?:VERBOSE|ANALYZE)\s+", "", rest, flags=re.IGNORECASE)


def _unquoted(text: str) -> str:
    plain = text.strip().rstrip(";").strip()
    if len(plain) >= 2 and plain[0] == plain[-1] and plain[0] in "'\"":
        return plain[1:-1].replace(plain[0] * 2, plain[0])
    return plain


def _type_of(values: Sequence[object]) -> int:
    from setwise.service.postgres.values import INT8

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
    """Return the SQLSTATE for an error of ours; 22023, invalid parameter value, where nothing fits better."""
    return next((_CODES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _CODES), "22023")
