"""Exact counts of rows without a user, and of users and values written in several ways; only for the data holder."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from setwise.analytics.engines.csv_format import INVISIBLE
from setwise.analytics.engines.duckdb.cell_counts import aggregate_columns
from setwise.analytics.engines.duckdb.dialect import quoted, sql_text
from setwise.analytics.engines.duckdb.instances import scanning
from setwise.analytics.engines.duckdb.tables import DuckDBTable, filled_cell
from setwise.analytics.engines.typed_cells import BLANKS, DIVIDED_DIGITS, SPACES, CellGrammar
from setwise.analytics.schema import Kind

if TYPE_CHECKING:
    import duckdb

_NUMBER = "[+]?[0-9]+([.]0*)?"
"""The regular expression of a whole number, as it may be written in a user column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCount:
    """Exact counts (no noise) of all rows of a table, and of those that may belong to no real user.

    - `rows` is the number of all rows.
    - `missing` is the number of rows whose user is null.
    - `texts` maps each text that may stand for an unknown user, such as "" or N/A, to its number of rows.
    """

    rows: int
    missing: int
    texts: Mapping[str, int]


def has_rows(table: DuckDBTable) -> bool:
    """Return whether `table` has a row with any value; the blank lines of CSV files make rows without one."""
    with scanning(table) as connection, connection.cursor() as cursor:
        names = table.describe(cursor).names
        filled = " OR ".join(f"{quoted(name)} IS NOT NULL" for name in names) or "FALSE"
        return bool(cursor.execute(f"SELECT 1 FROM {table.relation(cursor, names)} WHERE {filled} LIMIT 1").fetchall())


def count_users(
    table: DuckDBTable, user: str, grammar: CellGrammar, words: Collection[str], *, is_csv: bool
) -> UserCount:
    """Return how many rows `table` has, how many of them have no user, and how many name each text such as N/A as user.

    The counts are exact, and only for the data holder, who can so notice rows that belong to no real user.

    - `user` is the user column.
    - `grammar` lists the words that mean an empty cell: a row with such a word in the user column has no user.
    - `words` are the texts to count, such as N/A and Total, which may stand for an unknown user. The empty text is
      always counted.
    - `is_csv` says that `table` is read from CSV files. Then blanks around texts, and rows without any value, are
      ignored.

    Raises: `UnknownColumn` if `user` is not a column.
    """
    with scanning(table) as connection, connection.cursor() as cursor:
        schema = table.describe(cursor)
        kind = schema.column(user).kind
        cell = filled_cell(quoted(user), grammar) if kind is Kind.TEXT else quoted(user)
        trimmed = f"trim({cell}, {sql_text(BLANKS)})" if is_csv else f"CAST({cell} AS VARCHAR)"
        listed = ", ".join(map(sql_text, ("", *words)))
        has_words = kind in (Kind.TEXT, Kind.INTEGER)
        text = f"CASE WHEN {trimmed} IN ({listed}) THEN {trimmed} END" if has_words else "NULL"
        # Blank lines make rows without any value in CSV files. Other tables have none, so only one column is read.
        read = schema.names if is_csv else (user,)
        filled = " OR ".join(f"{quoted(name)} IS NOT NULL" for name in read) if is_csv else "TRUE"
        counted = cursor.execute(
            f"SELECT {cell} IS NULL, {text}, COUNT(*) FROM {table.relation(cursor, read)} WHERE {filled} GROUP BY ALL"
        ).fetchall()
    return UserCount(
        rows=sum(int(rows) for *_, rows in counted),
        missing=sum(int(rows) for is_null, _, rows in counted if is_null),
        texts={str(text): int(rows) for _, text, rows in counted if text is not None},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spellings:
    """A count and an example of users that a text column writes in several ways, such as 7 and 007, or ada and Ada.

    - `users` is the exact number of users with several spellings.
    - `first` and `second` are two spellings of one of them.
    - `are_hidden` says whether some of them are written with characters that are not seen, or that look alike.
    - `are_numbers` says whether every cell that is not empty is a whole number, so that reading the column as integers
      makes the spellings equal.
    """

    users: int
    first: str
    second: str
    are_hidden: bool
    are_numbers: bool


def count_country_codes(table: DuckDBTable, user: str, grammar: CellGrammar) -> tuple[int, str, str] | None:
    """Return (users, first, second) for users whose nine last digits another user has without a country code; or None.

    An example is 0170 1234567 (second) beside +49 170 1234567 (first). `users` is the exact number of texts of the
    column `user` of `table` that begin with + and have such a second text. `grammar` lists the words for an empty cell.
    """
    with scanning(table) as connection, connection.cursor() as cursor:
        if table.describe(cursor).column(user).kind is not Kind.TEXT:
            return None
        row = cursor.execute(
            f"WITH cells AS (SELECT DISTINCT trim({filled_cell(quoted(user), grammar)}, {sql_text(BLANKS)}) AS cell "
            f"FROM {table.relation(cursor, (user,))}), phones AS (SELECT cell, "
            "right(regexp_replace(cell, '[^0-9]', '', 'g'), 9) AS digits, starts_with(cell, '+') AS has_code "
            f"FROM cells WHERE regexp_full_match(cell, '{DIVIDED_DIGITS}') AND len(cell) >= 10) "
            "SELECT COUNT(*), MIN(a.cell), ARG_MIN(b.cell, a.cell) FROM phones AS a JOIN (SELECT digits, MIN(cell) AS "
            "cell FROM phones WHERE NOT has_code AND starts_with(cell, '0') GROUP BY digits) AS b "
            "ON a.digits = b.digits WHERE a.has_code"
        ).fetchone()
    assert row is not None, "an aggregate without groups has a row"
    return (int(row[0]), row[1], row[2]) if row[0] else None


def median_rows(table: DuckDBTable, user: str, grammar: CellGrammar) -> int:
    """Return the median number of rows of a user, by the column `user` of `table`; 0 for a table without users.

    `grammar` lists the words for an empty cell. The number is exact, so it is only for the data holder.
    """
    with scanning(table) as connection, connection.cursor() as cursor:
        is_text = table.describe(cursor).column(user).kind is Kind.TEXT
        cell = filled_cell(quoted(user), grammar) if is_text else quoted(user)
        cells = f"(SELECT {cell} AS cell FROM {table.relation(cursor, (user,))})"
        counts = f"(SELECT COUNT(*) AS n FROM {cells} WHERE cell IS NOT NULL GROUP BY cell)"
        row = cursor.execute(f"SELECT quantile_disc(n, 0.5) FROM {counts}").fetchone()
    return 0 if row is None or row[0] is None else int(row[0])


def count_spellings(table: DuckDBTable, user: str, grammar: CellGrammar) -> Spellings | None:
    """Return a count and an example of the users that the text column `user` of `table` writes in several ways.

    Cells are the same user if they differ only in upper and lower case, in blanks around them, in characters that are
    not seen, or in how they write one whole number, as 7, +7, 007 and 7.0. Cells of at least seven digits, such as
    numbers of telephones, are the same user if their digits are, and other signs stand between them: 0170 1234567 and
    0170/1234567 are, and 12-34567 and 1-234567 are not. The result is None if there are no such users, or if the column
    is not text. `grammar` lists the words for an empty cell.

    Raises: `UnknownColumn` if `user` is not a column.
    """
    with scanning(table) as connection, connection.cursor() as cursor:
        if table.describe(cursor).column(user).kind is not Kind.TEXT:
            return None
        trimmed, plain = f"trim(cell, {sql_text(BLANKS)})", f"lower({visible_text('cell')})"
        row = cursor.execute(
            f"WITH cells AS (SELECT DISTINCT {filled_cell(quoted(user), grammar)} AS cell "
            f"FROM {table.relation(cursor, (user,))}), "
            f"users AS (SELECT COUNT(DISTINCT CASE WHEN regexp_full_match({plain}, '{DIVIDED_DIGITS}') "
            f"AND NOT regexp_full_match({plain}, '{_NUMBER}') THEN regexp_replace({plain}, '[0-9+]', '', 'g') "
            f"ELSE cell END) AS ways, MIN(cell) AS first, MAX(cell) AS second, "
            f"BOOL_OR({trimmed} <> {visible_text('cell')}) AS hidden FROM cells "
            f"WHERE {plain} <> '' GROUP BY CASE WHEN regexp_full_match({plain}, '{_NUMBER}') "
            rf"THEN regexp_replace({plain}, '^[+]?0*([0-9]+)([.]0*)?$', '\1') "
            f"WHEN regexp_full_match({plain}, '{DIVIDED_DIGITS}') "
            f"THEN ltrim(regexp_replace({plain}, '[^0-9]', '', 'g'), '0') ELSE {plain} END) "
            "SELECT COUNT(*), MIN(first), ARG_MIN(second, first), BOOL_OR(hidden), "
            f"(SELECT COUNT(*) FROM cells WHERE NOT regexp_full_match({trimmed}, '|{_NUMBER}')) "
            "FROM users WHERE ways > 1"
        ).fetchone()
    assert row is not None, "an aggregate without groups has a row"
    users, first, second, hidden, others = row
    if not users:
        return None
    return Spellings(users=int(users), first=first, second=second, are_hidden=bool(hidden), are_numbers=others == 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAlikes:
    """A count and an example of cells of the text column `name` that look the same but differ, as "Paris" and "Paris ".

    - `values` is the exact number of values that the column writes in several ways which look the same.
    - `first` and `second` are two such ways of one value. If there is no such value, `first` is a cell with characters
      that are not seen, such as a NUL, and `second` is this cell without them.
    - `are_blanks` says whether the cells differ from their visible text only in usual blanks around it.
    """

    name: str
    values: int
    first: str
    second: str
    are_blanks: bool


def find_look_alikes(table: DuckDBTable, names: Sequence[str]) -> list[LookAlikes]:
    """Return, for each text column of `table` in `names` that has misleading cells, a count and an example of them.

    A misleading cell looks like another text: "Paris " with a blank, for example, looks like "Paris". Two cells look
    the same if they differ only in characters that are not seen, in kinds of spaces, in blanks around them, or in
    whether a letter with an accent is one character or two.
    """
    with scanning(table) as connection:
        changed = [f"COUNT(*) FILTER ({visible_text('cell')} <> cell)"]
        counts = aggregate_columns(table, connection, names, lambda _: changed)
        return [_look_alikes(table, connection, name) for name, (cells,) in counts.items() if cells]


def find_cases(table: DuckDBTable, columns: Mapping[str, str]) -> list[LookAlikes]:
    """Return, for each text column that writes a value in several cases, as Oslo and OSLO, a count and an example.

    `columns` maps names of text columns of `table` to SQL expressions of what a question makes of a cell, such as
    trim(cell) if it has TRIM of the column. Two cells are one value if they differ only in case, in blanks around them,
    or in characters that are not seen. A value is counted if it is written in several cases for which the expressions
    differ.
    """
    found = []
    with scanning(table) as connection:
        for name, counted in columns.items():
            with connection.cursor() as cursor:
                cells = f"(SELECT {quoted(name)} AS cell FROM {table.relation(cursor, (name,))})"
                [(values, first, second)] = cursor.execute(
                    "SELECT COUNT(*), MIN(first), ARG_MIN(second, first) FROM (SELECT MIN(seen) AS first, "
                    f"MAX(seen) AS second FROM (SELECT DISTINCT {counted} AS text, {visible_text('cell')} AS seen FROM "
                    f"{cells} WHERE cell IS NOT NULL) WHERE seen <> '' GROUP BY lower(seen) "
                    "HAVING COUNT(DISTINCT text) > 1 AND COUNT(DISTINCT seen) > 1)"
                ).fetchall()
            if values:
                found.append(LookAlikes(name=name, values=int(values), first=first, second=second, are_blanks=False))
    return found


def _look_alikes(table: DuckDBTable, connection: "duckdb.DuckDBPyConnection", name: str) -> LookAlikes:
    """Return a count and an example of the values of a text column that look the same but are different texts.

    For example, "Paris" and "Paris " with a blank look the same. If there are no such values, the example is a cell and
    its visible text; the caller has found that at least one cell differs from its visible text. `name` is the column of
    `table`, and `connection` reads the table.
    """
    cell = quoted(name)
    with connection.cursor() as cursor:

        def cells() -> str:
            """Return SQL of a subquery with the cells (`cell`) of a column and the visible text of each (`plain`).

            The visible text of a cell lacks blanks around it and characters that are not seen. Each call makes a new
            subquery, because a table that is a stream of batches can be read only once.
            """
            relation = table.relation(cursor, (name,))
            return f"(SELECT {cell} AS cell, {visible_text(cell)} AS plain FROM {relation} WHERE {cell} IS NOT NULL)"

        cursor.execute(f"CREATE OR REPLACE TEMP TABLE changed AS SELECT DISTINCT * FROM {cells()} WHERE cell <> plain")
        [(are_blanks, example, plain)] = cursor.execute(
            "SELECT COUNT(*) FILTER (trim(cell, ' ') <> plain) = 0, MIN(cell), ARG_MIN(plain, cell) FROM changed"
        ).fetchall()
        [(values, first, second)] = cursor.execute(
            "SELECT COUNT(*), MIN(first), ARG_MIN(second, first) FROM (SELECT MIN(cell) AS first, MAX(cell) AS second "
            f"FROM {cells()} WHERE plain IN (SELECT plain FROM changed) AND plain <> '' "
            "GROUP BY plain HAVING COUNT(DISTINCT cell) > 1)"
        ).fetchall()
    if not values:
        first, second = example, plain
    return LookAlikes(name=name, values=int(values), first=first, second=second, are_blanks=bool(are_blanks))


def visible_text(cell: str) -> str:
    """Return a SQL expression for the visible text of a text cell, with the SQL expression `cell`.

    Characters that are not seen, and blanks around the cell, are left out. All kinds of spaces become the usual one,
    and letters with accents become one character each. So cells that look the same have equal visible texts.
    """
    hidden, spaces = (
        "[" + "".join(f"\\x{{{ord(character):x}}}" for character in characters) + "]"
        for characters in (INVISIBLE, SPACES)
    )
    text = f"regexp_replace(regexp_replace({cell}, '{hidden}', '', 'g'), '{spaces}', ' ', 'g')"
    return f"trim(nfc_normalize({text}), {sql_text(BLANKS)})"
