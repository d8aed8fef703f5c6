"""What is made of a stored answer: rows of SQL, CSV, JSON, and the parts of a page.

An answer may have 100,000 items, and the free part of SQL may compute with them what an analyst likes. Both are tasks
of worker processes: in the replica's own process they would hold the interpreter for a second, and every request with
it. Small answers without a free part are made in the replica, which takes less than a message to a worker.
"""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.present.plot import bars_of, measure_of_bars
from setwise.analytics.sql.parser import Statement
from setwise.analytics.sql.result import RowCell
from setwise.mechanisms.labels import Label
from setwise.service.workers.pool import WorkerPool
from setwise.service.workers.tasks import Task

Made = TypeVar("Made")

BARS = 50
"""Bars of the chart on a page."""

ROWS = 1000
"""Rows of the table on a page; the downloads have all."""

_LARGE = 64 * 1024
"""Characters of a stored answer beyond which a worker process reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """The text of a stored answer, and the SQL that it answers, if it was asked in SQL."""

    text: str
    statement: Statement | None

    @property
    def is_heavy(self) -> bool:
        """Whether making anything of the answer may take long: it is large, or its SQL computes with released rows."""
        return len(self.text) > _LARGE or (self.statement is not None and self.statement.shell is not None)

    def read(self) -> PrivateAnswer:
        """Return the answer."""
        return PrivateAnswer.from_stored(self.text)


def make(task: "Task[Made]", stored: StoredAnswer, workers: WorkerPool) -> Made:
    """Return the result of a task about an answer, from a worker process if that may take long."""
    return workers.calculate(task) if stored.is_heavy else task.result()


@dataclass(frozen=True, slots=True)
class WriteRows:
    """The columns and rows of an answer to SQL, as JSON texts by their names in a response."""

    stored: StoredAnswer

    def result(self) -> dict[str, str]:
        """Return the texts of `columns` and `rows`, and of `row_problem` if the free part failed."""
        assert self.stored.statement is not None
        found = self.stored.statement.result(self.stored.read())
        texts = {
            "columns": json.dumps([asdict(output) for output in found.outputs], ensure_ascii=False),
            "rows": json.dumps(found.rows, ensure_ascii=False, allow_nan=False),
        }
        return texts | ({"row_problem": json.dumps(found.problem, ensure_ascii=False)} if found.problem else {})


@dataclass(frozen=True, slots=True)
class WriteJson:
    """An answer as the command line prints it."""

    stored: StoredAnswer

    def result(self) -> str:
        """Return the JSON text."""
        answer, statement = self.stored.read(), self.stored.statement
        return (answer if statement is None else statement.result(answer)).to_json() + "\n"


@dataclass(frozen=True, slots=True)
class WriteCsv:
    """An answer for a spreadsheet, in which no label is a formula; leaving out a first apostrophe restores it."""

    stored: StoredAnswer

    def result(self) -> str:
        """Return the CSV text."""
        answer, statement = self.stored.read(), self.stored.statement
        if statement is not None and statement.shell is not None:
            found = statement.result(answer)
            cells = tuple({name: _quote_cell(cell) for name, cell in row.items()} for row in found.rows)
            return replace(found, computed=cells).to_csv()
        quoted = replace(answer, items=tuple(replace(item, label=_quote(item.label)) for item in answer.items))
        return quoted.to_csv() if statement is None else statement.result(quoted).to_csv()


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_QUOTE = "'"


def _quote_cell(cell: RowCell) -> RowCell:
    return _quote_text(cell) if isinstance(cell, str) else cell


def _quote(label: Label) -> Label:
    """Return a label with an apostrophe before a text that a spreadsheet might take for a formula, or that has one.

    >>> _quote("=1+1"), _quote("'x"), _quote("a=b"), _quote(-5)
    ("'=1+1", "''x", 'a=b', -5)
    """
    if isinstance(label, tuple):
        return tuple(cell if isinstance(cell, int) else _quote_text(cell) for cell in label)
    return label if isinstance(label, int) else _quote_text(label)


def _quote_text(text: str) -> str:
    return _QUOTE + text if text.startswith((*_FORMULA, _QUOTE)) else text


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerParts:
    """What a page shows of an answer: its first items, bars and rows, and how many there are of each.

    `table` has the columns where an item is more than a name and a count, without those that are empty.
    """

    answer: PrivateAnswer
    count: int
    bars: list[dict[str, object]]
    bar_count: int
    table: dict[str, list[Any]] | None
    row_count: int
    measure: str


@dataclass(frozen=True, slots=True)
class ShowAnswer:
    """The parts of an answer that a page shows."""

    stored: StoredAnswer

    def result(self) -> AnswerParts:
        """Return the parts."""
        answer, statement = self.stored.read(), self.stored.statement
        bars = _bars(answer, statement)
        table = _table(answer, statement)
        rows = len(answer.items) if table is None else max(map(len, table.values()), default=0)
        return AnswerParts(
            answer=replace(answer, items=answer.items[:ROWS]),
            count=len(answer.items),
            bars=bars[:BARS],
            bar_count=len(bars),
            table=None if table is None else {name: values[:ROWS] for name, values in table.items()},
            row_count=rows,
            measure=measure_of_bars(answer),
        )


def _bars(answer: PrivateAnswer, statement: Statement | None) -> list[dict[str, object]]:
    """Return the bars to draw, with the names that SQL gave to statistics."""
    named = {} if statement is None else {output.statistic: output.name for output in statement.outputs}
    names = [named.get(place, name) for place, name in enumerate(answer.statistics)]
    return [
        {"item": bar.label, "cells": bar.cells, "count": bar.value, "interval": bar.interval}
        for bar in bars_of(answer, names)
    ]


def _table(answer: PrivateAnswer, statement: Statement | None) -> dict[str, list[Any]] | None:
    if statement is None and not answer.statistics and not answer.groups:
        return None
    columns = answer.columns() if statement is None else statement.result(answer).by_column()
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}
