"""Exact counts of join keys that both tables have, and of cells that are like a text; only for the data holder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from setwise.analytics.engines.duckdb.dialect import quoted, sql_text
from setwise.analytics.engines.duckdb.instances import scanning
from setwise.analytics.engines.duckdb.tables import DuckDBTable
from setwise.analytics.engines.duckdb.user_counts import visible_text
from setwise.analytics.engines.typed_cells import BLANKS
from setwise.analytics.schema import Kind

if TYPE_CHECKING:
    import duckdb

_ZEROS = "^[+]?0*([0-9]+)([.]0*)?$"
"""The regular expression of a whole number; its first group is the number without the zeros around it."""
_TRIMMED = f"trim(k0, {sql_text(BLANKS)})"
_WAYS = {
    "blanks": _TRIMMED,
    "case": rf"regexp_replace(lower({_TRIMMED}), '{_ZEROS}', '\1')",
    "hidden": rf"regexp_replace(lower({visible_text('k0')}), '{_ZEROS}', '\1')",
}
"""SQL of the key `k0` written in one way: without blanks; in lower case, without zeros; without hidden characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearKeys:
    """Exact counts of keys that the joined table lacks, but would have if both tables spelled them alike, as 7 and 007.

    Keys are spelled alike by one of three changes, each of which includes the one before it:
    1. remove blanks around a key;
    2. also ignore case, and write whole numbers in one way (+7, 007 and 7.0 become 7);
    3. also remove characters that are not seen.

    The change that finds the most keys is chosen, and the first of them if several find as many. The fields describe
    its effect.

    - `keys` is the number of different keys, and `rows` the number of rows with them.
    - `first` and `second` are an example: such a key, and the key of the joined table that it is like.
    - `by_blanks` says whether the first change was chosen.
    - `are_hidden` says whether the third change was chosen, because keys have characters that are not seen, such as a
      NUL.
    - `are_numbers` says whether all keys of both tables are whole numbers, as 7 and 007.
    - `earlier_changes` and `joined_changes` say whether the chosen change alters any key of the first and of the joined
      table.
    """

    keys: int
    rows: int
    first: str
    second: str
    by_blanks: bool
    are_hidden: bool
    are_numbers: bool
    earlier_changes: bool
    joined_changes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCount:
    """Exact counts (no noise) of the keys of a table, and of those that a joined table has, too.

    - `keys` is the number of different keys without null, and `rows` the number of rows with them.
    - `met_keys` and `met_rows` are the numbers of those keys and rows whose key the joined table has.
    - `near` has counts of the keys that the joined table has only in another spelling: with other case, blanks or
      zeros, or without invisible characters. It is None if there are none, if a key has several columns, or if a column
      of the key is not text.
    """

    keys: int
    rows: int
    met_keys: int
    met_rows: int
    near: NearKeys | None


def count_keys(earlier: DuckDBTable, joined: DuckDBTable, pairs: Sequence[tuple[str, str]]) -> KeyCount:
    """Return how many keys of the table `earlier` occur in the table `joined`, and how many rows have them.

    `pairs` are the columns that the join compares, each as (column of `earlier`, column of `joined`).

    Raises: `UnknownColumn` if a table has no such column.
    """
    with scanning(earlier, joined) as connection, connection.cursor() as cursor:
        is_text = len(pairs) == 1
        for place, (name, table) in enumerate((("left_keys", earlier), ("right_keys", joined))):
            columns = [pair[place] for pair in pairs]
            schema = table.describe(cursor)
            is_text = is_text and schema.column(columns[0]).kind is Kind.TEXT
            values = ", ".join(
                f"CAST({quoted(schema.column(column).name)} AS VARCHAR) AS k{number}"
                for number, column in enumerate(columns)
            )
            filled = " AND ".join(f"k{number} IS NOT NULL" for number in range(len(columns)))
            source = table.relation(cursor, columns, f"{name}_source")
            cursor.execute(
                f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT *, COUNT(*) AS n FROM (SELECT {values} FROM {source}) "
                f"WHERE {filled} GROUP BY ALL"
            )
        equal = " AND ".join(f"left_keys.k{number} = right_keys.k{number}" for number in range(len(pairs)))
        met = f"EXISTS (SELECT 1 FROM right_keys WHERE {equal})"
        row = cursor.execute(
            f"SELECT COUNT(*), SUM(n), COUNT(*) FILTER (met), SUM(n) FILTER (met) FROM (SELECT n, {met} AS met "
            "FROM left_keys)"
        ).fetchone()
        assert row is not None, "an aggregate without groups has a row"
        keys, rows, met_keys, met_rows = (int(number or 0) for number in row)
        near = _near_keys(cursor) if is_text and met_keys < keys else None
        for name in ("left_keys", "right_keys"):
            cursor.execute(f"DROP TABLE {name}")
    return KeyCount(keys=keys, rows=rows, met_keys=met_keys, met_rows=met_rows, near=near)


def _near_keys(cursor: "duckdb.DuckDBPyConnection") -> NearKeys | None:
    """Return counts of the keys of one table that the other has only in another spelling, as 7 and 007, or None.

    None means that there are no such keys. `cursor` has the temporary tables left_keys and right_keys, with the
    different keys `k0` of the two tables and the number of rows `n` of each.
    """
    counted = {}
    for name, plain in _WAYS.items():
        counted[name] = cursor.execute(
            "SELECT COUNT(*), SUM(n), MIN(k0), ARG_MIN(other, k0), "
            f"(SELECT COUNT(*) FROM left_keys WHERE {plain} <> k0), "
            f"(SELECT COUNT(*) FROM right_keys WHERE {plain} <> k0) "
            f"FROM (SELECT k0, n, {plain} AS plain FROM left_keys WHERE k0 NOT IN (SELECT k0 FROM right_keys)) "
            f"JOIN (SELECT MIN(k0) AS other, {plain} AS plain FROM right_keys GROUP BY ALL) USING (plain) "
            "WHERE plain <> ''"
        ).fetchone() or (0,)
    most = max(row[0] for row in counted.values())
    if not most:
        return None
    way, (keys, rows, first, second, left, right) = next((each, row) for each, row in counted.items() if row[0] == most)
    others = cursor.execute(
        "SELECT COUNT(*) FROM (SELECT k0 FROM left_keys UNION ALL SELECT k0 FROM right_keys) "
        f"WHERE NOT regexp_full_match({_TRIMMED}, '[+]?[0-9]+([.]0*)?')"
    ).fetchone()
    assert others is not None, "an aggregate without groups has a row"
    return NearKeys(
        keys=int(keys),
        rows=int(rows),
        first=first,
        second=second,
        by_blanks=way == "blanks",
        are_hidden=way == "hidden",
        are_numbers=others[0] == 0,
        earlier_changes=left > 0,
        joined_changes=right > 0,
    )


def cells_like(
    table: DuckDBTable, texts: Mapping[str, Sequence[str]], most: int
) -> dict[str, tuple[dict[str, int], list[str]]]:
    """Return {column: (cells like a text, frequent cells)} for the columns of `table` that `texts` names.

    The first is a dict from each cell that is like one of the column's texts to its number of rows; the second lists
    the most frequent cells, at most `most`. A cell is like a text if the two differ at most in case, in blanks around
    them, and in characters that are not seen. `texts` maps text columns to texts. The counts are exact, so they are
    only for the data holder.
    """
    found = {}
    with scanning(table) as connection:
        for column, constants in texts.items():
            listed = ", ".join(f"lower({visible_text(sql_text(text))})" for text in constants)
            with connection.cursor() as cursor:
                relation = table.relation(cursor, (column,))
                cursor.execute(
                    "CREATE OR REPLACE TEMP TABLE cells_of_column AS SELECT cell, COUNT(*) AS n FROM (SELECT "
                    f"{quoted(column)} AS cell FROM {relation}) WHERE cell IS NOT NULL GROUP BY cell"
                )
                alike = cursor.execute(
                    f"SELECT cell, n FROM cells_of_column WHERE lower({visible_text('cell')}) IN ({listed}) "
                    "ORDER BY n DESC, cell"
                ).fetchall()
                frequent = cursor.execute(
                    f"SELECT cell FROM cells_of_column WHERE trim(cell) <> '' ORDER BY n DESC, cell LIMIT {int(most)}"
                ).fetchall()
                cursor.execute("DROP TABLE cells_of_column")
            found[column] = ({cell: int(rows) for cell, rows in alike}, [cell for (cell,) in frequent])
    return found
