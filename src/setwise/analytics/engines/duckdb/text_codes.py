"""Users and labels that are text, as 64-bit numbers while a window sorts them: that takes half the time.

Numbers are used only after distinct texts were seen to have distinct hashes: where two have the same, two users or two
groups would become one, and the texts themselves are sorted. Whether that is so depends on all rows, and which items a
user keeps may not: so items are ranked by the hashes of texts in both cases, and a user keeps the same.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from setwise.analytics.engines.aggregation import Aggregation, label_kind
from setwise.analytics.engines.files import FilesVersion, files_version
from setwise.analytics.schema import Kind, Schema

if TYPE_CHECKING:
    import duckdb


class DistinctHashes:
    """Which columns of a table were seen to have distinct hashes; looked at again when its files have changed."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._seen: dict[tuple[FilesVersion, str], bool] = {}

    def of(self, column: str, look: Callable[[], bool]) -> bool:
        """Return what `look` finds about a column."""
        key = files_version(self._files), column
        if key not in self._seen:
            self._seen[key] = look()
        return self._seen[key]


class TextCodes:
    """The columns u, g0, g1, .. of rows that are hashes instead of texts, on the way of one question."""

    def __init__(self, columns: Sequence[str], cursor: "duckdb.DuckDBPyConnection") -> None:
        self._columns = columns
        self._cursor = cursor

    def users_differ(self, users: str) -> bool:
        """Return whether the distinct texts of `users`, which has one column u, have distinct hashes."""
        return self._differ(f"(SELECT {_hashed('u')} AS code FROM (SELECT DISTINCT u FROM ({users})))")

    def labels_differ(self, name: str, rows: str, values: dict[str, object]) -> bool:
        """Keep the distinct texts of a label of rows, and return whether they have distinct hashes."""
        texts = f"SELECT {_hashed(name)} AS code, {name} AS text FROM (SELECT DISTINCT {name} FROM ({rows}))"
        self._cursor.execute(f"CREATE TEMP TABLE {_table(name)} AS {texts}", values)
        return self._differ(_table(name))

    def _differ(self, codes: str) -> bool:
        [(number, distinct)] = self._cursor.execute(f"SELECT COUNT(*), COUNT(DISTINCT code) FROM {codes}").fetchall()
        return bool(number == distinct)

    def encoded(self, rows: str) -> str:
        """Return the rows with hashes for texts."""
        hashed = ", ".join(f"{_hashed(name)} AS {name}" for name in self._columns)
        return f"SELECT * REPLACE ({hashed}) FROM ({rows})"

    def decoded(self, found: str) -> str:
        """Return what was found about labels, with texts for hashes."""
        labels = [name for name in self._columns if name != "u"]
        if not labels:
            return found
        texts = ", ".join(f"{_table(name)}.text AS {name}" for name in labels)
        joins = " ".join(f"JOIN {_table(name)} ON {_table(name)}.code = found.{name}" for name in labels)
        return f"SELECT found.* REPLACE ({texts}) FROM ({found}) AS found {joins}"


def text_columns(aggregation: Aggregation, schema: Schema) -> list[str]:
    """Return which of the columns u, g0, g1, .. of rows are text."""
    user = ["u"] if schema.column(aggregation.user).kind is Kind.TEXT else []
    labels = [label_kind(group.labels(schema)) is str for group in aggregation.groups]
    return user + [f"g{place}" for place, text in enumerate(labels) if text]


def _hashed(name: str) -> str:
    return f"hash({name})"


def _table(name: str) -> str:
    return f"texts_of_{name}"
