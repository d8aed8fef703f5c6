"""NaN in a column of floats is null, whatever a file's statistics, which leave NaN out, say about the column."""

from collections.abc import Callable
from math import inf, isnan, nan
from pathlib import Path

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import setwise
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.measure import Measure
from setwise.analytics.tables.check import check_table

ROWS = 60
COLUMNS = {
    "several numbers": [nan if row % 7 == 0 else 2.0 + row % 5 for row in range(ROWS)],
    "one number": [nan if row % 7 == 0 else 2.0 for row in range(ROWS)],
    "infinity": [nan if row % 7 == 0 else (inf if row % 7 == 1 else 2.0 + row % 5) for row in range(ROWS)],
    "NaN alone in a row group": [nan] * (ROWS // 2) + [3.0] * (ROWS // 2),
    "nothing but NaN": [nan] * ROWS,
}


def _parquet(table: pa.Table, folder: Path) -> str:
    pq.write_table(table, folder / "t.parquet")
    return str(folder / "t.parquet")


def _row_groups(table: pa.Table, folder: Path) -> str:
    pq.write_table(table, folder / "t.parquet", row_group_size=10)
    return str(folder / "t.parquet")


def _without_statistics(table: pa.Table, folder: Path) -> str:
    pq.write_table(table, folder / "t.parquet", write_statistics=False)
    return str(folder / "t.parquet")


def _several_files(table: pa.Table, folder: Path) -> str:
    for part in range(3):
        pq.write_table(table.slice(part * 20, 20), folder / f"{part}.parquet")
    return str(folder)


def _database(table: pa.Table, folder: Path) -> str:
    with duckdb.connect(folder / "t.duckdb") as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
    return f"{folder / 't.duckdb'}::t"


def _delta(table: pa.Table, folder: Path) -> str:
    deltalake.write_deltalake(str(folder / "t"), table)
    return str(folder / "t")


def _frame(table: pa.Table, folder: Path) -> pa.Table:
    del folder
    return table


SOURCES = [_parquet, _row_groups, _without_statistics, _several_files, _database, _delta, _frame]


def _sum(engine: Engine, most: int) -> int:
    measure = Measure(column="x", least=0, most=most)
    return dict(engine.statistics(Aggregation(user="u", item="all", measures=(measure,))).totals[0])["a"]


def _rows(engine: Engine, text: str) -> list[int]:
    where = parse_filter(text, engine.describe())
    found = engine.histogram(Aggregation(user="u", item="u", where=where))
    return sorted(int(label) for label in found.labels)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("source", SOURCES)
def test_nan_is_null_in_sums_counts_and_conditions(
    source: Callable[[pa.Table, Path], object], column: str, kind: pa.DataType, tmp_path: Path
):
    cells = COLUMNS[column]
    table = pa.table({"u": range(ROWS), "x": pa.array(cells, kind), "all": ["a"] * ROWS})
    numbers = {row: cell for row, cell in enumerate(cells) if not isnan(cell)}
    with open_engine(source(table, tmp_path)) as engine:
        if numbers:
            assert _sum(engine, 100) == sum(min(cell, 100) for cell in numbers.values())
            counted = engine.statistics(
                Aggregation(user="u", item="all", measures=(Measure(column="x", counted=True, most=1),))
            )
            assert dict(counted.totals[0]) == {"a": len(numbers)}
        for text, kept in {
            "x > 30": [row for row, cell in numbers.items() if cell > 30],
            "x <= 30": [row for row, cell in numbers.items() if cell <= 30],
            "x = 2": [row for row, cell in numbers.items() if cell == 2],
            "NOT x > 30": [row for row, cell in numbers.items() if cell <= 30],
            "x IS NULL": [row for row in range(ROWS) if row not in numbers],
            "x IS NOT NULL": list(numbers),
        }.items():
            assert _rows(engine, text) == kept, text


def test_one_user_does_not_decide_how_nan_of_others_is_read(tmp_path: Path):
    """A column of NaN alone has no statistics; the numbers of one user give it some, which are of these alone."""
    sums = []
    for last in ([nan, nan], [5.0, 6.0]):
        rows = ROWS + len(last)
        table = pa.table({"u": [*range(ROWS), ROWS, ROWS], "x": [nan] * ROWS + last, "all": ["a"] * rows})
        pq.write_table(table, tmp_path / "t.parquet")
        measures = (Measure(column="x", least=0, most=100), Measure(column="u", least=0, most=1))
        with open_engine(tmp_path / "t.parquet") as engine:
            totals = engine.statistics(Aggregation(user="u", item="all", measures=measures)).totals
            sums.append(dict(totals[0]).get("a", 0))
    assert sums == [0, 11]


def test_the_file_of_a_newcomer_is_answered_rightly(tmp_path: Path):
    cells = [nan if row % 7 == 0 else 2.0 + row % 5 for row in range(3000)]
    pq.write_table(pa.table({"u": [f"u{row % 300}" for row in range(3000)], "x": cells}), tmp_path / "m.parquet")
    statement = "SELECT SUM(x, contribution_bounds_per_group => (0, 100)) AS s, COUNT(x) AS c FROM m"
    with setwise.open(tmp_path / "m.parquet", user="u") as session:
        answer = session.sql(statement, epsilon=100, delta=1e-6)
    (row,) = answer.to_dict()["rows"]
    assert row["s"]["value"] == pytest.approx(10_285, abs=40)
    assert row["c"]["value"] == pytest.approx(2_571, abs=20)


def test_check_counts_the_cells_that_are_nan(tmp_path: Path):
    cells = [nan if row % 7 == 0 else 2.0 + row % 5 for row in range(700)]
    pq.write_table(pa.table({"u": range(700), "x": cells, "y": [1.0] * 700}), tmp_path / "m.parquet")
    check = check_table(str(tmp_path / "m.parquet"), CsvOptions(), {}, None)
    assert check.notes() == ["100 of 700 cells of 'x' are NaN, which counts as null"]
    assert [(column.filled, column.readable) for column in check.counts.columns] == [(700, 700), (700, 600), (700, 700)]
