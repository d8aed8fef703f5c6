"""Parses a SELECT in a worker process before it is asked, to find out how to answer it.

A SELECT may be a query of PostgreSQL's catalogue, a request for the names of columns only (LIMIT 0), a request for
private rows, which is refused, or a question to charge. A client can write statements that take long to parse, or
catalogue queries that take much memory. A worker process has limits of both, and the replica's own process stays free
for other requests.
"""

import re
import time
from dataclasses import dataclass, replace
from functools import lru_cache

import duckdb
from sqlglot import exp

from setwise.errors import InvalidParameter
from setwise.service.postgres.catalogue import Catalogue, name_as_postgresql_does, parse_catalogue_query
from setwise.service.postgres.replies import ReadSelect, Refusal
from setwise.service.postgres.statements import parameter_count, with_parameters
from setwise.service.postgres.values import (
    BOOL,
    DATE,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    ResultColumn,
)

_CLAUSE = re.compile(r"^SELECT\s+WITH\s+DIFFERENTIAL_PRIVACY(?:\s+OPTIONS\s*\([^()]*\))?(?!\w)", re.IGNORECASE)
"""Pattern of the beginning of a statement with GoogleSQL's clause, which does not change the columns."""

_CLOCK = re.compile(
    r"now\s*\(|current_(?:time|date)|localtime|_timestamp|_time\s*\(|today\s*\(|getdate\s*\(|random|uuid", re.IGNORECASE
)
"""Pattern of statements with a clock or a random function, whose results are not cached."""

_TYPE_OF_CAST = {
    "BOOLEAN": BOOL,
    "SMALLINT": INT2,
    "INT": INT4,
    "BIGINT": INT8,
    "DOUBLE PRECISION": FLOAT8,
    "DECIMAL": NUMERIC,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMPTZ,
}
"""The types of parameters that are cast, such as $1::date, by the name of the type; others are texts."""

PRIVATE_ROWS = (
    "Rows are private: ask for numbers over groups, for example "
    "SELECT {column}, COUNT(DISTINCT {user}) AS users FROM {table} GROUP BY {column}"
)


def mentions_clock(text: str) -> bool:
    """Return whether the SQL `text` seems to call a clock or a random function, so that its result changes with time.

    A statement with the same text as an earlier one usually gets the stored result of the earlier one. If this function
    returns True, there are two exceptions: a stored answer is used again on the same day only, and a stored result of a
    catalogue query (a query of system tables) is never used again.
    """
    return _CLOCK.search(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTables:
    """The tables that one PostgreSQL client sees.

    - `database`: the name of the database, which is the name of the account
    - `user`: the name of the person
    - `user_column`: the column of the dataset that identifies its users
    - `tables`: each table's name and its columns; a column is a name and the identifier of its PostgreSQL type
    """

    database: str
    user: str
    user_column: str
    tables: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]


@lru_cache(maxsize=2)
def _catalogue(shown: ShownTables) -> Catalogue:
    """Return the PostgreSQL catalogue (system tables) that lists the tables `shown`.

    A worker process keeps the last two catalogues, because filling one takes 0.1 s. Each takes up to 80 MiB of the
    memory that the process may allocate.
    """
    return Catalogue(shown.database, shown.user, dict(shown.tables))


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectTask:
    """Task for a worker process: parse the SELECT `text` of a client that sees the tables `shown`.

    The service caches the results of tasks, and a task that equals an earlier task gets the cached result. If the
    result of the statement depends only on its text, `asked_at` is 0.0, so that the same statement makes an equal task.
    For a statement with a clock or a random function, `asked_at` is the time of arrival in seconds since 1970, so that
    the task equals no earlier one.
    """

    shown: ShownTables
    text: str
    asked_at: float = 0.0

    @staticmethod
    def of(shown: ShownTables, text: str) -> "SelectTask":
        """Return the task that parses the SELECT `text`, which a client that sees the tables `shown` has just sent."""
        return SelectTask(shown=shown, text=text, asked_at=time.time() if mentions_clock(text) else 0.0)

    def result(self) -> ReadSelect:
        """Parse the SELECT and return it, with rows if it reads only PostgreSQL's catalogue (system tables).

        Raises `InvalidParameter` if the catalogue cannot answer the SELECT, and `MemoryError` if answering takes more
        memory than the process may allocate.
        """
        try:
            return read_select(_catalogue(self.shown), self.text, self.shown.user_column)
        except duckdb.OutOfMemoryException:
            raise MemoryError from None


def read_select(catalogue: Catalogue, text: str, user_column: str) -> ReadSelect:
    """Parse the SELECT `text`, and return it with its result columns, and with its rows if it reads system tables only.

    - `catalogue`: answers queries of PostgreSQL's system tables, such as pg_class, and knows the tables of the account
    - `user_column`: the column that identifies users. If the SELECT is refused because it asks for private rows, the
      error suggests a question with this column

    If the SELECT cannot be parsed here, the result has no columns and no rows: the SELECT may have syntax that only the
    parser of questions knows. Raises `InvalidParameter` if the SELECT reads system tables and `catalogue` cannot answer
    it.
    """
    try:
        names = [f":parameter_{number}" for number in range(1, parameter_count(text) + 1)]
        tree = parse_catalogue_query(with_parameters(_CLAUSE.sub("SELECT", text), names))
    except InvalidParameter:
        return ReadSelect()  # the statement may have syntax that only the parser of questions reads
    parameters = _take_parameters(catalogue, tree)
    return replace(_read_tree(catalogue, tree, user_column), parameters=parameters)


def _read_tree(catalogue: Catalogue, tree: exp.Expr, user_column: str) -> ReadSelect:
    """Return the SELECT whose syntax tree is `tree` as a `ReadSelect`: with rows, with columns, or with a refusal.

    - A SELECT that reads only PostgreSQL's catalogue (system tables) is answered by `catalogue`: the result has rows.
    - A SELECT that asks for private rows themselves is refused: the result has a refusal, which suggests a question
      with `user_column`, the column that identifies users.
    - Any other SELECT can be asked as a question: the result has the columns if they are known. The rows are None, or
      empty if the SELECT has LIMIT 0. If it has LIMIT 0 and the columns are not known, the result has a refusal.

    `tree` has no parameters. Raises `InvalidParameter` for a query of system tables that `catalogue` cannot answer.
    """
    if catalogue.reads_catalogue(tree):
        result = catalogue.answer(tree)
        return ReadSelect(columns=result.columns, rows=result.rows)
    is_look = _has_limit_zero(tree)
    if not is_look and (refusal := _refuse_rows(catalogue, tree, user_column)) is not None:
        return ReadSelect(refusal=refusal)
    described = catalogue.describe(tree)
    if described is None and is_look:
        message = "the columns of this statement cannot be told without running it"
        return ReadSelect(refusal=Refusal(code="42601", message=message))
    projections = tree.expressions if isinstance(tree, exp.Select) else []
    if described is None or len(described) != len(projections):
        return ReadSelect(columns=described, rows=[] if is_look else None)
    return ReadSelect(
        columns=tuple(map(_with_statistic_type, described, projections)),
        statistics=tuple(isinstance(projection.unalias(), exp.AggFunc) for projection in projections),
        rows=[] if is_look else None,
    )


def _take_parameters(catalogue: Catalogue, tree: exp.Expr) -> dict[int, int]:
    """Replace each parameter ($1, $2, ...) in `tree` by null, and return the types of the parameters by number.

    `tree` is the syntax tree of a statement. A parameter's type follows from its place: a cast, LIMIT or OFFSET, or a
    comparison with a statistic or with a column of a table that `catalogue` knows. A parameter in any other place has
    no known type and is left out of the result.
    """
    tables = [catalogue.columns_of(table.name) or () for table in tree.find_all(exp.Table)]
    columns = {name: type_ for table in tables for name, type_ in table}
    types: dict[int, int] = {}
    for parameter in list(tree.find_all(exp.Placeholder)):
        place = parameter.parent
        number = int(parameter.name.removeprefix("parameter_") or 0)
        if isinstance(place, exp.Cast):
            types[number] = _TYPE_OF_CAST.get(place.to.sql(dialect="postgres").upper(), TEXT)
        elif isinstance(place, exp.Limit | exp.Offset):
            types[number] = INT8
        elif isinstance(place, exp.Predicate):
            named = [column.name for column in place.find_all(exp.Column) if column.name in columns]
            if named and not place.find(exp.AggFunc):
                types[number] = columns[named[0]]
            elif place.find(exp.AggFunc):  # HAVING COUNT(*) > $1: a statistic may have a fraction
                types[number] = FLOAT8
        parameter.replace(exp.Null())
    return types


def _has_limit_zero(tree: exp.Expr) -> bool:
    """Return whether a SELECT, as the syntax tree `tree`, has LIMIT 0, which tools send to learn its result columns."""
    limit = tree.args.get("limit")
    return limit is not None and isinstance(limit.expression, exp.Literal) and limit.expression.this == "0"


def _with_statistic_type(column: ResultColumn, projection: exp.Expr) -> ResultColumn:
    """Return `column`, a result column of a question, with the name and the type that the client is told.

    `projection` is the SQL expression of the column. Without an alias, the column gets the name that PostgreSQL would
    give. A count has an integer type. Any other integer that is computed from aggregates gets the type float, because
    noise may give it a fraction.
    """
    name = column.name if projection.alias else name_as_postgresql_does(projection.copy()).alias_or_name
    if column.type in (INT2, INT4, INT8) and projection.find(exp.AggFunc):
        return ResultColumn(name, INT8 if isinstance(projection.unalias(), exp.Count) else FLOAT8)
    return ResultColumn(name, column.type)


def _refuse_rows(catalogue: Catalogue, tree: exp.Expr, user_column: str) -> Refusal | None:
    """Return the refusal of a SELECT that asks for rows themselves, such as a scan, a sample or distinct values.

    `tree` is the syntax tree of the SELECT. Rows are private, so the hint shows a question that can be asked instead.
    It names a column that `catalogue` has for the table, and `user_column`, which identifies users. A SELECT from a
    table that does not exist is refused too. Returns None for any other SELECT.
    """
    if not isinstance(tree, exp.Select) or tree.args.get("group") or tree.find(exp.AggFunc, exp.Anonymous, exp.With):
        return None
    source = tree.find(exp.Table)
    if source is None or tree.find(exp.Subquery):
        return None
    columns = catalogue.columns_of(source.name)
    if columns is None:
        return Refusal(
            code="42P01",
            message=f'relation "{source.name}" does not exist',
            hint="List the tables with \\d or the browser.",
        )
    others = [name for name, _ in columns if name != user_column] or ["group"]
    return Refusal(
        code="42501",
        message=f'permission denied to read rows of "{source.name}"',
        hint=PRIVATE_ROWS.format(column=others[0], user=user_column, table=source.name),
    )
