"""Cells of text under a declared type: one grammar, the same on every engine and in plain Python, to the cell."""

from pathlib import Path

import pyarrow as pa
import pytest

import setwise
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.duckdb.engine import DuckDBEngine
from setwise.analytics.engines.duckdb.tables import ArrowTable, TypedTable
from setwise.analytics.query import Query
from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter, UnknownColumn, UnsuitableTable
from setwise.mechanisms.planning.request import Total
from tests.analytics.reading.cells import EXAMPLES, Value, examples, value_of


@pytest.mark.parametrize("kind", list(EXAMPLES))
def test_duckdb_reads_every_cell_as_specified(kind: Kind):
    cells = examples(kind, seed=1, count=2000)
    table = TypedTable(ArrowTable(pa.table({"n": range(len(cells)), "c": cells})), {"c": kind})
    with DuckDBEngine(table) as engine, engine._connection.cursor() as cursor:
        found = cursor.execute(f"SELECT c FROM {table.relation(cursor)} ORDER BY n").fetchall()
    assert_as_specified(kind, cells, [value for (value,) in found])


def assert_as_specified(kind: Kind, cells: list[str], found: list[Value]) -> None:
    wanted = [value_of(cell, kind) for cell in cells]
    assert [(cell, each) for cell, each in zip(cells, found, strict=True)] == list(zip(cells, wanted, strict=True))
    assert sum(value is not None for value in wanted) > len(EXAMPLES[kind].split("|")) // 4


def test_integers_as_pandas_writes_nullable_ones_are_summed(tmp_path: Path):
    file = tmp_path / "table.csv"
    file.write_text("who,what,much\na,x,2.0\nb,x,40.0\nc,x,\nd,x,1.5\n")
    with open_engine(file, types={"much": Kind.INTEGER}) as engine:
        assert engine.histogram(Aggregation(user="who", item="what", value="much", per_item=99)).counts.tolist() == [42]


def test_only_text_is_read_as_something_else():
    table = pa.table({"who": [1], "what": ["2"]})
    with open_engine(table, types={"who": Kind.INTEGER, "what": Kind.INTEGER}) as engine:
        assert [(column.kind, column.from_text) for column in engine.describe()] == [
            (Kind.INTEGER, False),
            (Kind.INTEGER, True),
        ]
    with pytest.raises(UnsuitableTable, match="only text can be read as date"):
        open_engine(table, types={"who": Kind.DATE})
    with pytest.raises(UnknownColumn, match="no column 'which'"):
        open_engine(table, types={"which": Kind.DATE})
    with pytest.raises(InvalidParameter, match="has types of its own"):
        open_engine("table", "postgresql://127.0.0.1/none", types={"who": Kind.DATE})


@pytest.mark.parametrize("cell", ["2.0", "two"])
def test_the_heading_says_that_unreadable_cells_count_as_nothing_whether_or_not_there_are_any(
    tmp_path: Path, cell: str
):
    (tmp_path / "table.csv").write_text(f"who,what,much,age\na,x,{cell},1\n")
    types = {"much": "integer", "age": "integer"}
    with setwise.open(tmp_path / "table.csv", user="who", types=types, scan=False) as session:
        answer = session.ask(Query.sum(value="much", clip=9, where="age > 0"), Total(epsilon=1, delta=1e-6))
    said = "cells of much that are not whole numbers are skipped; cells of age that are not whole numbers are skipped"
    assert answer.measure == f"sum of much, at most 9 of a user; {said}"
    assert answer.to_dict()["measure"] == answer.measure
    assert said in answer._repr_html_()
