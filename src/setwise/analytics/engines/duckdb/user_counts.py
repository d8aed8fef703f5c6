"""Exact counts of rows without a user, and of users who are written in several ways; only for the data holder."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from setwise.analytics.engines.duckdb.dialect import quoted, sql_text
from setwise.analytics.engines.duckdb.instances import scanning
from setwise.analytics.engines.duckdb.tables import DuckDBTable, filled_cell
from setwise.analytics.engines.typed_cells import BLANKS, CellGrammar
from setwise.analytics.schema import Kind

_NUMBER = "[+]?[0-9]+([.]0*)?"
"""The regular expression of a whole number, as it may be written in a user column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCount:
    """Exact counts (no noise) of the rows of a table that may belong to no real user.

    - `rows` is the number of all rows.
    - `missing` is the number of rows whose user is null.
    - `texts` maps each text that may stand for an unknown user, such as "" or N/A, to its number of rows.
    """

    rows: int
    missing: int
    texts: Mapping[str, int]


def count_users(
    table: DuckDBTable, user: str, grammar: CellGrammar, words: Collection[str], *, is_csv: bool
) -> UserCount:
    """Return how many rows `table` has, and how many of them have no user, or a text that may mean no real user.

    - `grammar` lists words that mean an empty cell, so that rows with these words have no user.
    - `words` are further texts that may mean no real user, such as N/A and Total. The empty text is one of them, too.
    - `is_csv` says that blanks around texts, and rows without any value, are ignored.

    Raises: `UnknownColumn` if `user` is not a column.
    """
    with scanning(table) as connection, connection.cursor() as cursor:
        schema = table.describe(cursor)
        is_text = schema.column(user).kind is Kind.TEXT
        cell = filled_cell(quoted(user), grammar) if is_text else quoted(user)
        trimmed = f"trim({cell}, {sql_text(BLANKS)})" if is_csv else cell
        listed = ", ".join(map(sql_text, ("", *words)))
        text = f"CASE WHEN {trimmed} IN ({listed}) THEN {trimmed} END" if is_text else "NULL"
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
    """Users that a text column writes in several ways, such as 7 and 007, ada and Ada, or "x" and "x " with a blank.

    - `users` is the exact number of users with several spellings.
    - `first` and `second` are two spellings of one of them.
    - `are_numbers` says whether every cell that is not empty is a whole number, so that reading the column as integers
      makes the spellings equal.
    """

    users: int
    first: str
    second: str
    are_numbers: bool


def count_spellings(table: DuckDBTable, user: str, grammar: CellGrammar) -> Spellings | None:
    """Return the users that the text column `user` of `table` writes in several ways.

    Cells are the same user if they differ only in upper and lower case, in blanks around them, or in the zeros around a
    whole number. None if there are no such users, or if the column is not text. `grammar` lists the words for an empty
    cell.

    Raises: `UnknownColumn` if `user` is not a column.
    """
    with scanning(table) as connection, connection.cursor() as cursor:
        if table.describe(cursor).column(user).kind is not Kind.TEXT:
            return None
        plain = f"lower(trim(cell, {sql_text(BLANKS)}))"
        row = cursor.execute(
            f"WITH cells AS (SELECT DISTINCT {filled_cell(quoted(user), grammar)} AS cell "
            f"FROM {table.relation(cursor, (user,))}), "
            f"users AS (SELECT COUNT(*) AS ways, MIN(cell) AS first, MAX(cell) AS second FROM cells "
            f"WHERE {plain} <> '' GROUP BY CASE WHEN regexp_full_match({plain}, '{_NUMBER}') "
            rf"THEN regexp_replace({plain}, '^[+]?0*([0-9]+)([.]0*)?$', '\1') ELSE {plain} END) "
            "SELECT COUNT(*), MIN(first), ARG_MIN(second, first), "
            f"(SELECT COUNT(*) FROM cells WHERE NOT regexp_full_match({plain}, '|{_NUMBER}')) "
            "FROM users WHERE ways > 1"
        ).fetchone()
    assert row is not None, "an aggregate without groups has a row"
    users, first, second, others = row
    return Spellings(users=int(users), first=first, second=second, are_numbers=others == 0) if users else None
