"""A cache of the parsed SQL of questions, which pages and repeated requests for the same query need again."""

import threading
from collections.abc import Sequence
from datetime import UTC, date, datetime

from setwise.analytics.engines.joins import Join
from setwise.analytics.schema import Schema
from setwise.analytics.sql.aggregates import DeclaredBounds
from setwise.analytics.sql.parser import TableFacts, parse_sql
from setwise.analytics.sql.statement import Statement
from setwise.errors import InvalidParameter
from setwise.service.problems import at_field
from setwise.service.queries.allowed_columns import AllowedColumns
from setwise.service.queries.engine_pool import Engines
from setwise.service.queries.runner import SqlSelect
from setwise.service.storage.datasets import Dataset
from setwise.service.workers.answers import CheckShell, ComputePublicValue, without_rows
from setwise.service.workers.pool import RememberedResults, WorkerPool

_STATEMENT_CHARACTERS = 4 << 20
"""The most characters of all SQL (with public labels) whose parsed form is cached, which takes ten times as much."""

_LONGEST_REMEMBERED = 1 << 20
"""The most characters of one SQL statement, with its public labels, whose parsed form is cached."""


def check_joined(tables: Sequence[str], dataset: Dataset) -> None:
    """Raise `InvalidParameter` if one of `tables`, which SQL joins, is no public table (without users) of `dataset`."""
    public = [name for name, _ in dataset.public]
    for table in tables:
        if table not in public:
            listed = f"its public tables ({', '.join(map(repr, public))})" if public else "no other"
            raise InvalidParameter(
                f"{table!r} cannot be joined: a question to the dataset {dataset.name!r} reads its table and {listed}; "
                "tables of the same users are joined before a steward registers them, in a view or a file, and a table "
                'without users is registered as "public"'
            )


def utc_day(seconds: float | None) -> date:
    """Return the day in UTC that contains the time `seconds` (seconds since 1970); None gives today.

    The day is the value of CURRENT_DATE in a question.
    """
    return (datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)).date()


class ParsedStatements:
    """A cache of parsed SQL. The key of a statement in the cache is its text and options, its dataset, and the day.

    The day is a part of the key because CURRENT_DATE becomes a constant in the parsed statement. Without the day, a
    service that runs past midnight would go on answering about yesterday.

    `engines` is the pool of connections that look up the columns of tables, and `workers` are the worker processes that
    check SQL over noisy rows.
    """

    def __init__(self, engines: Engines, workers: WorkerPool) -> None:
        self._engines = engines
        self._workers = workers
        self._parsed = RememberedResults(most=_STATEMENT_CHARACTERS, largest=_LONGEST_REMEMBERED)
        self._lock = threading.Lock()
        """Held while the cache is read or written."""

    def parse(self, select: SqlSelect, dataset: Dataset, day: date) -> Statement:
        """Return the parsed SQL of `select`, a question to `dataset`; `day` is the value of CURRENT_DATE.

        The result is cached, because the parsed SQL of a stored request is needed again each time that a client asks
        whether its answer is ready, and for each list or page that shows the query. SQL whose meaning depends on values
        in a public table (a table without users) is parsed again each time, because the table may have changed. Raises
        `InvalidParameter` or `UnknownColumn`.
        """
        place = (dataset, select, day)
        with self._lock:
            known: Statement | None = self._parsed.get(place)
        if known is not None:
            return known
        statement = self._read(select, dataset, day)
        size = len(select.text) + sum(len(str(label)) for label in select.domain or ())
        if not statement.has_public_values:  # their values are read again, because the public table may have changed
            with self._lock:
                self._parsed.add(place, statement, size)
        return statement

    def _read(self, select: SqlSelect, dataset: Dataset, day: date) -> Statement:
        """Return the parsed SQL of `select`, a question to `dataset`, if the steward allows the columns in it.

        `day` is the value of CURRENT_DATE. The part of the SQL that runs over released rows (the noisy rows of an
        answer) is checked, too, on empty tables in a worker process. Raises `InvalidParameter` or `UnknownColumn`, at
        the field `query.text`.
        """
        allowed = AllowedColumns(dataset, self._engines.schema(dataset))

        def schema_of(table: str, joins: tuple[Join, ...]) -> Schema:
            if table != dataset.name:
                raise InvalidParameter(f"the dataset is called {dataset.name!r}, not {table!r}: write it after FROM")
            check_joined([join.table for join in joins], dataset)
            for key in (key for join in joins for key in join.keys):
                allowed.check_key(key)
            return self._engines.schema(dataset, joins)

        facts = TableFacts(
            public=tuple(name for name, _ in dataset.public),
            private=(dataset.name,),
            declared=DeclaredBounds(
                columns={column: (low, high) for column, low, high in dataset.bounds},
                rows_per_user=dataset.rows_per_user,
            ),
            domains=dict(dataset.domains),
            contributions=dataset.contributions,
            schema_of=schema_of,
            public_value=lambda text, names: self._workers.calculate(
                ComputePublicValue(text=text, public=self._engines.public_tables(dataset, names))
            ),
        )
        with at_field("query.text"):
            statement = parse_sql(
                select.text,
                user=dataset.protected,
                contributions=select.contributions,
                domain=select.domain,
                facts=facts,
                today=day,
            )
            for core in statement.cores:
                allowed.check_derivation(core.source.derivation)
            if statement.shell is not None:
                schemas = tuple(
                    self._engines.schema(dataset, core.source.joins, core.source.derivation) for core in statement.cores
                )
                tables = self._engines.public_tables(dataset, statement.public)
                empty = tuple((name, without_rows(table)) for name, table in tables)
                self._workers.calculate(CheckShell(statement=statement, schemas=schemas, public=empty))
            return statement
