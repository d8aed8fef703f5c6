"""64-bit hashes that replace texts of users and labels while a window function sorts rows, which halves the time.

Two texts with the same hash would merge two users or two groups. So texts are replaced only after a check that distinct
texts have distinct hashes; if the check fails, the texts themselves are sorted.

The outcome of the check depends on the rows of all users, but which groups a user keeps must depend only on that user's
rows. So groups are ranked by the hashes of their texts even if the texts are not replaced: a user keeps the same groups
in both cases.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from setwise.analytics.engines.aggregation import Aggregation, label_kind
from setwise.analytics.engines.files import FilesVersion, files_version
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.schema import Kind, Schema

if TYPE_CHECKING:
    import duckdb


class DistinctHashes:
    """A cache that says which text columns of a table are free of hash collisions.

    A collision is two distinct texts with the same hash. An answer is valid until one of the table's files, `files`, is
    written again.
    """

    def __init__(self, files: Sequence[TableFile]) -> None:
        self._files = files
        self._seen: dict[tuple[FilesVersion, str], bool] = {}

    def of(self, column: str, compare_hashes: Callable[[], bool]) -> bool:
        """Return whether all distinct texts of the column named `column` have distinct hashes.

        The answer comes from the cache if it is there for the present version of the table's files. Otherwise the
        function `compare_hashes` finds the answer, which is then kept.
        """
        key = files_version(self._files), column
        if key not in self._seen:
            self._seen[key] = compare_hashes()
        return self._seen[key]


class TextCodes:
    """Hashes of 64 bits in place of the text columns of one DuckDB query, because integers sort faster than texts.

    - `columns` are the names of the text columns: u for the user, g0, g1, ... for labels.
    - `cursor` is the query's DuckDB cursor.

    `encode` replaces texts by hashes, and `decode` turns hashes of labels back into texts.
    """

    def __init__(self, columns: Sequence[str], cursor: "duckdb.DuckDBPyConnection") -> None:
        self._columns = columns
        self._cursor = cursor

    def users_differ(self, users: str) -> bool:
        """Return whether all distinct users have different hashes, so that hashes can replace the texts of users.

        `users` is the SQL of a query with the column u, the user.
        """
        return self._differ(f"(SELECT {_hash_sql('u')} AS code FROM (SELECT DISTINCT u FROM ({users})))")

    def labels_differ(self, name: str, rows: str, values: dict[str, object]) -> bool:
        """Store the distinct texts of the label column `name` with their hashes; return whether all hashes differ.

        If they differ, hashes can replace the labels. The texts and hashes are stored in a temporary table, by which
        `decode` finds the texts again. `rows` is the SQL query that has the column, and `values` are the query's
        parameters.
        """
        texts = f"SELECT {_hash_sql(name)} AS code, {name} AS text FROM (SELECT DISTINCT {name} FROM ({rows}))"
        self._cursor.execute(f"CREATE TEMP TABLE {_table(name)} AS {texts}", values)
        return self._differ(_table(name))

    def _differ(self, codes: str) -> bool:
        """Return whether all values of the column `code`, hashes of distinct texts, are distinct.

        `codes` is SQL text, after FROM, of the rows that have this column.
        """
        [(number, distinct)] = self._cursor.execute(f"SELECT COUNT(*), COUNT(DISTINCT code) FROM {codes}").fetchall()
        return bool(number == distinct)

    def encode(self, rows: str) -> str:
        """Return the text of a SELECT with the rows of the SQL query `rows`, but 64-bit hashes in place of texts.

        The texts are those of the user and label columns that the object was made with. Hashes sort faster than texts.
        """
        hashed = ", ".join(f"{_hash_sql(name)} AS {name}" for name in self._columns)
        return f"SELECT * REPLACE ({hashed}) FROM ({rows})"

    def decode(self, statement: str) -> str:
        """Return the text of a SELECT with the rows of the SQL query `statement`, but texts in place of label hashes.

        The texts come from the temporary tables that `labels_differ` has stored.
        """
        labels = [name for name in self._columns if name != "u"]
        if not labels:
            return statement
        texts = ", ".join(f"{_table(name)}.text AS {name}" for name in labels)
        joins = " ".join(f"JOIN {_table(name)} ON {_table(name)}.code = found.{name}" for name in labels)
        return f"SELECT found.* REPLACE ({texts}) FROM ({statement}) AS found {joins}"


def text_columns(aggregation: Aggregation, schema: Schema) -> list[str]:
    """Return which of the SQL columns u (the user) and g0, g1, ... (labels) in statements of `aggregation` are text.

    `schema` has the columns of the table.
    """
    user = ["u"] if schema.column(aggregation.user).kind is Kind.TEXT else []
    labels = [label_kind(group.labels(schema)) is str for group in aggregation.groups]
    return user + [f"g{place}" for place, text in enumerate(labels) if text]


def _hash_sql(name: str) -> str:
    """Return a SQL expression for the 64-bit hash of the SQL column `name`."""
    return f"hash({name})"


def _table(name: str) -> str:
    """Return the name of the temporary SQL table that maps hashes of the label column `name` back to texts."""
    return f"texts_of_{name}"
