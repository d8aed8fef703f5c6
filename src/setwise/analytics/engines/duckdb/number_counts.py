"""Numbers of a column that repeat often and lie far from all others, as codes such as -999 do; for the data holder.

The counts are exact, so only the data holder may see them.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from setwise.analytics.engines.duckdb.dialect import quoted, sql_text
from setwise.analytics.engines.duckdb.instances import scanning
from setwise.analytics.engines.duckdb.tables import DuckDBTable, converted_cell
from setwise.analytics.engines.typed_cells import BLANKS, CellGrammar
from setwise.analytics.schema import NUMBER_KINDS, Kind

if TYPE_CHECKING:
    import duckdb

_MOST_ROWS = 200_000
"""How many of the first rows of a table are looked at."""
_FREQUENT = 50
"""How many of the most frequent numbers of a column are looked at."""
_LEAST_SHARE = 0.002
_LEAST_CELLS = 5
"""A number repeats often if it is in at least this share of the cells, and in at least this many."""
_LEAST_OTHERS = 5
"""The least number of other distinct numbers, below which no number can be said to lie far from them."""
_LEAST_WIDTH = 20
"""The least width of a range of numbers from 0 on, below which -1 may be one of them, as in a change of -1, 0 or 1."""
_MOST_SPELLINGS = 5
_MOST_COLUMNS = 100
_MOST_CELLS = 1_000_000
"""The most columns, and the most cells of them, that are read together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FarNumber:
    """A number of the column `name` that repeats often and lies far from all others, such as -999.

    - `words` are at most five of the ways in which cells write the number.
    - `cells` is the exact number of cells with this number.
    - `filled` is the exact number of cells with any number. Both counts are of the first 200,000 rows of the table
      only.
    - `low` and `high` are the least and the greatest of the other numbers of the column. Frequent numbers whose digits
      are all 9, such as 99, are not among these, because they may be codes as well.
    """

    name: str
    words: tuple[str, ...]
    cells: int
    filled: int
    low: float
    high: float


def far_numbers(
    table: DuckDBTable, names: Collection[str], kinds: Mapping[str, Kind], grammar: CellGrammar
) -> list[FarNumber]:
    """Return the numbers of some columns of `table` that repeat often and lie far from all others of their column.

    Such a number may be a code, as -999 for a missing value, which the data holder should declare.
    - `names` are the columns. A name that is no column, and a column without numbers, is ignored.
    - `kinds` has the types as which columns of text are read, by name, and `grammar` says how their cells are written.

    Only the first 200,000 rows are read, and only the 50 most frequent numbers except 0 are examined.
    - A number repeats often if at least 0.2% of the cells with numbers have it, and at least 5 cells.
    - It is compared with the other numbers of the column, of which at least 5 must be different. Frequent numbers whose
      digits are all 9, such as -999 and 99, are left out of these, because they may be codes as well.
    - It lies far from the others if it is outside their range, and its distance from the range is greater than the
      width of the range. If its digits are all 9, as people choose for a code, a twentieth of the width suffices, but
      the number must be three times as frequent as the others are on average. So it is for -1, if no other number is
      negative and their range has a width of 20 or more.
    """
    found: dict[str, list[FarNumber]] = {}
    with scanning(table) as connection:
        with connection.cursor() as cursor:
            columns = [column for column in table.describe(cursor) if column.name in names]
        alike: dict[Kind | None, list[str]] = {}  # None: columns that are stored as numbers
        for column in columns:
            is_text = column.kind is Kind.TEXT
            kind = kinds.get(column.name, Kind.TEXT) if is_text else column.kind
            if kind in NUMBER_KINDS:
                alike.setdefault(kind if is_text else None, []).append(column.name)
        step = _columns_at_once(table, connection, columns[0].name) if alike else 1
        for text_kind, some_names in alike.items():
            number = "CAST(cell AS DOUBLE)" if text_kind is None else converted_cell("cell", text_kind, grammar)
            for first in range(0, len(some_names), step):
                with connection.cursor() as cursor:
                    found |= _far_in_columns(table, cursor, some_names[first : first + step], number)
    return [far for column in columns for far in found.get(column.name, ())]


def _columns_at_once(table: DuckDBTable, connection: "duckdb.DuckDBPyConnection", name: str) -> int:
    """Return how many columns of `table`, 1 to 100, are read together, so that few enough cells are in memory.

    At most about a million cells are read together. Reading one column of a CSV file splits all its rows into cells, so
    it would take long to read a file once for each of thousands of columns. But the cells of all columns together would
    take too much memory. `connection` reads the table. The rows that would be read are counted by reading the column
    `name`.
    """
    with connection.cursor() as cursor:
        relation = table.relation(cursor, (name,))
        [(rows,)] = cursor.execute(f"SELECT COUNT(*) FROM (SELECT 1 FROM {relation} LIMIT {_MOST_ROWS})").fetchall()
    return max(1, min(_MOST_COLUMNS, _MOST_CELLS // max(1, int(rows))))


def _far_in_columns(
    table: DuckDBTable, cursor: "duckdb.DuckDBPyConnection", names: Sequence[str], number: str
) -> dict[str, list[FarNumber]]:
    """Return {column: its numbers that repeat often and lie far from all others}, for the columns in `names`.

    `far_numbers` states what "often" and "far" mean. `cursor` reads the columns of `table`. `number` is the SQL
    expression of the number in a cell, where the SQL name `cell` stands for the cell as text. The expression is the
    same for all columns, so that DuckDB plans it once.
    """
    relation = table.relation(cursor, names)
    cells = ", ".join(f"CAST({quoted(name)} AS VARCHAR)" for name in names)
    cursor.execute(
        "CREATE OR REPLACE TEMP TABLE numbers AS "
        f"SELECT place, CAST(number AS DOUBLE) AS number, word, SUM(cells) AS cells FROM ("
        f"SELECT place, {number} AS number, trim(cell, {sql_text(BLANKS)}) AS word, COUNT(*) AS cells FROM ("
        f"SELECT unnest(range({len(names)})) AS place, unnest([{cells}]) AS cell "
        f"FROM (SELECT * FROM {relation} LIMIT {_MOST_ROWS})) WHERE cell IS NOT NULL GROUP BY place, cell) "
        "WHERE number IS NOT NULL AND isfinite(CAST(number AS DOUBLE)) GROUP BY ALL"
    )
    counted = cursor.execute(
        "SELECT place, number, CAST(SUM(cells) AS BIGINT) AS cells FROM numbers GROUP BY ALL ORDER BY place"
    ).fetchnumpy()
    places = np.asarray(counted["place"])
    found = {}
    for place, name in enumerate(names):
        first, last = np.searchsorted(places, [place, place + 1])
        found[name] = _far_numbers(cursor, name, place, counted["number"][first:last], counted["cells"][first:last])
    return found


def _far_numbers(
    cursor: "duckdb.DuckDBPyConnection",
    name: str,
    column_place: int,
    numbers: npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64],
) -> list[FarNumber]:
    """Return the numbers of one column that repeat often and lie far from all others, such as -999.

    Such numbers may be codes for missing values. `far_numbers` states what "often" and "far" mean.

    - `name` is the column.
    - `numbers` are its distinct numbers, and `counts` has the number of cells with each.
    - `cursor` reads the temporary table `numbers` of DuckDB, which has the words, such as 7 and 007, by which cells
      write each number. The rows of this column are those whose field `place` is `column_place`.
    """
    order = np.lexsort((numbers, -counts))  # the most frequent first, and equally frequent ones by their size
    frequent = [place for place in order.tolist() if numbers[place] != 0 and counts[place] >= _LEAST_CELLS]
    candidates = frequent[:_FREQUENT]
    is_code = np.zeros(len(numbers), dtype=bool)
    is_code[[place for place in candidates if _is_code(float(numbers[place]))]] = True
    filled = int(counts.sum())
    found = []
    for place in candidates:
        number, cells = float(numbers[place]), int(counts[place])
        is_other = ~is_code
        is_other[place] = False
        others = numbers[is_other]
        if len(others) < _LEAST_OTHERS or cells < _LEAST_SHARE * filled:
            continue
        low, high = float(others.min()), float(others.max())
        if low <= number <= high:
            continue
        distance, width = max(low - number, number - high), high - low
        cells_of_others = int(counts[is_other].sum())
        is_far_code = bool(is_code[place]) and cells >= 3 * cells_of_others / len(others) and distance >= width / 20
        is_minus_one = (
            number == -1 and low >= 0 and width >= _LEAST_WIDTH and cells >= 3 * cells_of_others / len(others)
        )
        if distance > width or is_far_code or is_minus_one:
            [(words,)] = cursor.execute(
                "SELECT list(DISTINCT word) FROM numbers WHERE place = $place AND number = $number",
                {"place": column_place, "number": number},
            ).fetchall()
            shown = tuple(sorted(words)[:_MOST_SPELLINGS])
            found.append(FarNumber(name=name, words=shown, cells=cells, filled=filled, low=low, high=high))
    return found


def _is_code(number: float) -> bool:
    """Return whether `number` is an integer of two or more digits, all 9, such as 99 or -999.

    People choose such numbers as codes, as for a missing value.
    """
    return re.fullmatch("-?99+([.]0)?", repr(number)) is not None
