"""Tasks that turn a stored answer into SQL rows, CSV for spreadsheets, JSON, or the charts and table of a page.

An answer may have 100,000 items, and a SQL statement may compute anything with its released rows, at no further charge.
In the service's own process, such work would hold the interpreter lock for a second and delay every request. So large
answers, and answers to such SQL, are rendered in worker processes. All others are rendered in the service's own
process, which takes less time than a message to a worker.
"""

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.present.html import table_columns
from setwise.analytics.present.plot import Chart, charts_of
from setwise.analytics.rows.expression import RowExpression
from setwise.analytics.schema import Schema
from setwise.analytics.sql.free.public_values import public_value
from setwise.analytics.sql.result import RowCell, SqlAnswer
from setwise.analytics.sql.statement import Statement
from setwise.mechanisms.labels import Label
from setwise.service.workers.pool import WorkerPool
from setwise.service.workers.tasks import Task

if TYPE_CHECKING:
    import pyarrow as pa

Made = TypeVar("Made")

BARS = 50
"""The most bars in the chart on a page."""

ROWS = 1000
"""The most rows in the table on a page; the downloads have all rows."""

_LARGE = 64 * 1024
"""Length, in characters, above which a stored answer is read in a worker process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """A stored answer, with everything that is needed to render it in a worker process, which can open no file.

    - `text`: the answer as JSON text
    - `statement`: the parsed SQL that the answer is for, or None if it was not asked in SQL
    - `public`: the public tables (tables without users) that the SQL joins to the noisy rows of the answer, as pairs of
      the table's name and its rows as bytes in Arrow's stream format
    """

    text: str
    statement: Statement | None
    public: tuple[tuple[str, bytes], ...] = ()

    @property
    def is_heavy(self) -> bool:
        """Whether a page or a download of the stored answer may take long to make.

        True if the answer is large, or if its SQL has a part that is computed from the noisy rows of the answer, such
        as a sum of released counts.
        """
        return len(self.text) > _LARGE or (self.statement is not None and self.statement.shell is not None)

    def read(self) -> PrivateAnswer:
        """Return the stored answer, parsed from its JSON text."""
        return PrivateAnswer.from_stored(self.text)

    def sql_result(self, answer: PrivateAnswer) -> SqlAnswer:
        """Return the columns and rows that the SQL computes from `answer`, the parsed form of this stored answer.

        The computation costs no privacy budget, because the numbers of the answer are noisy already.
        """
        assert self.statement is not None
        return self.statement.result(answer, {name: read_arrow(table) for name, table in self.public})


def read_arrow(table: bytes) -> "pa.Table":
    """Return the Arrow table that is stored in the bytes `table`, in Arrow's stream format."""
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(table)) as stream:
        return stream.read_all()


def without_rows(table: bytes) -> bytes:
    """Return a table with the same columns as `table` and no rows; both are bytes in Arrow's stream format.

    With such a table, DuckDB checks a SQL statement before the charge, and no row has to be sent to the worker process.
    """
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.open_stream(pa.py_buffer(table)) as stream, pa.ipc.new_stream(sink, stream.schema):
        pass  # closing the stream writes its schema
    return bytes(sink.getvalue())


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckShell:
    """Task for a worker process: check, before a charge, the SQL that `statement` will run over noisy rows.

    A statement consists of queries over private rows, and of SQL that runs over their noisy results. This task lets
    DuckDB plan the second part on empty tables, so that no row is needed.

    - `schemas`: the columns of the rows that each private query of `statement` reads
    - `public`: the public tables (tables without users) that the statement reads, as pairs of the table's name and the
      table as bytes in Arrow's stream format
    """

    statement: Statement
    schemas: tuple[Schema, ...]
    public: tuple[tuple[str, bytes], ...] = ()

    def result(self) -> bool:
        """Return True if DuckDB can plan the statement's SQL over released (noisy) rows.

        Raises `InvalidParameter` if DuckDB refuses that SQL.
        """
        # DuckDB computes constants while it plans, so this may take any time and memory; the worker's limits stop it.
        self.statement.check_shell(self.schemas, {name: read_arrow(table) for name, table in self.public})
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputePublicValue:
    """Task for a worker process: run the SQL `text`, a SELECT of a single value from public tables (without users).

    `public` has the tables that the SELECT reads, as pairs of the table's name and its rows as bytes in Arrow's stream
    format.
    """

    text: str
    public: tuple[tuple[str, bytes], ...]

    def result(self) -> RowExpression:
        """Run this task's SELECT and return its value as a constant in the SQL that computes with private rows.

        Raises `InvalidParameter` if the SELECT has several rows, or if its value is of a type that such SQL does not
        have.
        """
        return public_value(self.text, {name: read_arrow(table) for name, table in self.public})


def make(task: "Task[Made]", stored: StoredAnswer, workers: WorkerPool) -> Made:
    """Run `task`, which renders the stored answer `stored` (as JSON or CSV, for example), and return its result.

    If the answer is large, or if its SQL computes with the answer's noisy rows, a process of the pool `workers` runs
    the task. Otherwise this process runs it, which takes less time than a message to a worker.
    """
    return workers.calculate(task) if stored.is_heavy else task.result()


@dataclass(frozen=True, slots=True)
class WriteRows:
    """Task for a worker process: return the columns and the rows of `stored`, the answer to a SQL query, as JSON."""

    stored: StoredAnswer

    def result(self) -> dict[str, str]:
        """Return the columns and rows that the SQL computes from the stored answer, as a dict of JSON texts.

        - `columns`: a list with a JSON object for each column that the SQL selects, with the fields of `OutputRecord`
        - `rows`: a list of the rows
        - `row_problem`: the error message, if the SQL that computes with the answer's noisy rows failed; otherwise left
          out
        - `row_notes`: a list of sentences about the rows; left out if there are none
        """
        result_rows = self.stored.sql_result(self.stored.read())
        texts = {
            "columns": json.dumps([asdict(output) for output in result_rows.outputs], ensure_ascii=False),
            "rows": json.dumps(result_rows.rows, ensure_ascii=False, allow_nan=False),
        }
        notes = [*result_rows.notes, *filter(None, [result_rows.advice])]
        more = {"row_problem": result_rows.problem, "row_notes": notes}
        return texts | {name: json.dumps(value, ensure_ascii=False) for name, value in more.items() if value}


@dataclass(frozen=True, slots=True)
class WriteJson:
    """Task for a worker process: write `stored`, a stored answer, as the JSON text that the command line prints."""

    stored: StoredAnswer

    def result(self) -> str:
        """Return the stored answer as the JSON text that the command line prints, with a line end.

        If the question was asked in SQL, the text has the rows that the SQL computes from the answer.
        """
        answer, statement = self.stored.read(), self.stored.statement
        return (answer if statement is None else self.stored.sql_result(answer)).to_json() + "\n"


@dataclass(frozen=True, slots=True)
class WriteCsv:
    """Task for a worker process: write `stored`, a stored answer, as CSV that is safe to open in a spreadsheet.

    A spreadsheet would run a label that begins like a formula. Such a label, and a label that begins with an
    apostrophe, gets a leading apostrophe; removing the first apostrophe restores the label.
    """

    stored: StoredAnswer

    def result(self) -> str:
        """Return the stored answer as CSV text, with an apostrophe before labels that look like formulas."""
        answer, statement = self.stored.read(), self.stored.statement
        if statement is not None and statement.shell is not None:
            result_rows = self.stored.sql_result(answer)
            cells = tuple({name: _quote_cell(cell) for name, cell in row.items()} for row in result_rows.rows)
            return replace(result_rows, computed=cells).to_csv()
        quoted = replace(answer, items=tuple(replace(item, label=_quote(item.label)) for item in answer.items))
        return quoted.to_csv() if statement is None else self.stored.sql_result(quoted).to_csv()


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_QUOTE = "'"


def _quote_cell(cell: RowCell) -> RowCell:
    """Return `cell` as it is written to a CSV file: text that a spreadsheet may take for a formula gets an apostrophe.

    The apostrophe is put before the text. Other cells, such as numbers, are returned unchanged.
    """
    return _quote_text(cell) if isinstance(cell, str) else cell


def _quote(label: Label) -> Label:
    """Return a group label in which texts that a spreadsheet might take for formulas begin with an apostrophe.

    A label is a text or a number, or a tuple of them for several group columns. A text that begins with an apostrophe
    gets one more, so that removing one apostrophe restores every changed text.

    >>> _quote("=1+1"), _quote("'x"), _quote("a=b"), _quote(-5)
    ("'=1+1", "''x", 'a=b', -5)
    """
    if isinstance(label, tuple):
        return tuple(cell if isinstance(cell, int) else _quote_text(cell) for cell in label)
    return label if isinstance(label, int) else _quote_text(label)


def _quote_text(text: str) -> str:
    """Return `text` with an apostrophe put before it if a spreadsheet might take the text for a formula.

    A text that begins with an apostrophe gets one more, so that removing one apostrophe restores every changed text.
    """
    return _QUOTE + text if text.startswith((*_FORMULA, _QUOTE)) else text


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerParts:
    """The parts of an answer that a page shows: its first items, bars and table rows, and how many there are in all.

    - `answer`: the answer with its first 1000 items (groups)
    - `count`: the number of all items
    - `charts`: a dict for each chart, with its name and its first 50 bars. There is one chart for each statistic of the
      answer, except that several quantiles share one chart
    - `bars`, `bar_count`: the first 50 bars of the first chart, and the number of all its bars
    - `measure`: what the bars of the first chart show, in words
    - `over_time`: True if the labels of the bars are times
    - `columns`, `row_count`: the columns of the table, each with its cells in the first 1000 rows, and the number of
      all rows
    - `notes`: sentences about rows that SQL computed, and on how to ask with less noise
    """

    answer: PrivateAnswer
    count: int
    bars: list[dict[str, object]]
    bar_count: int
    charts: list[dict[str, object]]
    over_time: bool
    columns: list[dict[str, object]]
    row_count: int
    measure: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShowAnswer:
    """Task for a worker process: compute the parts of `stored`, a stored answer, that its page shows."""

    stored: StoredAnswer

    def result(self) -> AnswerParts:
        """Return the parts of the stored answer that a page shows: its first items, table rows and bars of charts."""
        answer, statement = self.stored.read(), self.stored.statement
        result = None if statement is None else self.stored.sql_result(answer)
        table = answer.columns() if result is None else result.by_column()
        unreliable = (answer if result is None else result).unreliable_columns()
        charts = charts_of(answer) if result is None else result.charts()
        return AnswerParts(
            answer=replace(answer if result is None else result.answer, items=answer.items[:ROWS]),
            count=len(answer.items),
            bars=_first_bars(charts[0]),
            bar_count=len(charts[0].bars),
            charts=[{"name": chart.name, "items": _first_bars(chart)} for chart in charts],
            over_time=charts[0].over_time,
            columns=table_columns(
                {name: values[:ROWS] for name, values in table.items()},
                _statistics(answer, statement),
                unreliable[:ROWS],
            ),
            notes=() if result is None else (*result.notes, *filter(None, [result.advice])),
            row_count=max(map(len, table.values()), default=0),
            measure=charts[0].name,
        )


def _statistics(answer: PrivateAnswer, statement: Statement | None) -> list[str]:
    """Return the names of those columns in an answer's table that have statistics; the other columns have group labels.

    `statement` is the parsed SQL, or None if the answer was not asked for in SQL.
    """
    if statement is None:
        return list(answer.statistics or ("count",))
    return [output.name for output in statement.outputs if output.statistic is not None or output.interval]


def _first_bars(chart: Chart) -> list[dict[str, object]]:
    """Return the first 50 (`BARS`) bars of `chart` as JSON objects, which a page's script draws.

    - `item`: the label of the bar
    - `cells`: the parts of the label, one for each group column
    - `count`: the value of the bar, which need not be a count
    - `interval`: the confidence interval of the value, or None
    - `unreliable`: True if noise may be as large as the value; otherwise left out
    """
    return [
        {
            "item": bar.label,
            "cells": bar.cells,
            "count": bar.value,
            "interval": bar.interval,
            **({"unreliable": True} if bar.unreliable else {}),
        }
        for bar in chart.bars[:BARS]
    ]
