"""Prepared datasets: each user's groups (items) are ranked once under a secret salt, and stored for all later queries.

A stored row is (item, n, rank, users): the number n that a user adds to the item, the item's rank in a uniformly random
order of that user's items, and the number of users with this n and rank. A query that counts a user in at most
`contributions` items reads the rows with `rank <= contributions`. Each row adds `users` times `LEAST(n, per_item)` to
the count of its item, where `per_item` is the most that one user adds to an item. Users themselves are not stored,
because nothing after the ranking needs them.

All queries of a dataset share one salt (the random number that decides the order). That is sound: for any fixed salt,
the items that a user keeps depend only on that user's rows, so that adding or removing a user changes nothing about the
other users.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from setwise.analytics.bins import Group
from setwise.analytics.engines.aggregation import Aggregation, check_suitable
from setwise.analytics.schema import Column, Schema
from setwise.errors import EngineFailed, InvalidFilter, InvalidParameter, UnsuitableTable
from setwise.mechanisms.labels import Label

if TYPE_CHECKING:
    import pyarrow as pa

MARK = "setwise prepared dataset: "
"""The beginning of the comment of a table that is a prepared dataset; the manifest as JSON follows."""
MANIFEST_NAME = "prepared.json"
"""The file with the manifest, in the directory of a prepared dataset."""
CONTRIBUTIONS_NAME = "contributions.parquet"
"""The file with the stored rows, in the directory of a prepared dataset."""
PREPARED_JOINED = "what was prepared cannot be joined: join its source"
PREPARED_DERIVED = "what was prepared cannot be computed with: ask its source"
"""The messages of `UnsuitableTable` for a prepared dataset, which has ranks of users' groups but no rows of users."""

VERSION = 2
"""The version of the format of prepared datasets; a dataset of another version must be prepared again."""
TAKES_NO_FILTER = (
    "a prepared dataset takes no filter, because its contributions are bounded already: "
    "give the filter when preparing it, or ask the table it was prepared from"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Description of a prepared dataset, which stores a random ranking of each user's items (groups) for later queries.

    - `user` and `item` are the columns of the source table that were read.
    - `value` is the column that is summed, or None if the dataset counts rows.
    - `where` is the text of the filter, or None.
    - `null_item` is the label of rows without an item. None means that they were left out.
    - `origin` is the name of the source.
    - `fingerprint` is the digest of the source's data when the dataset was prepared.
    - `source_version` is the version of the source, if it is a Delta or Iceberg table or objects in an object store. It
      is empty for other sources.
    """

    user: Column
    item: Column
    value: Column | None
    where: str | None
    null_item: Label | None
    origin: str
    fingerprint: str
    source_version: str = ""

    def schema(self) -> Schema:
        """Return the columns that queries of the prepared dataset may name: user, item and, if it stores sums, value.

        A prepared dataset stores a random ranking of each user's items (groups). The schema's `version` is the version
        of the table from which the dataset was made.
        """
        columns = (self.user, self.item) if self.value is None else (self.user, self.item, self.value)
        return Schema(columns, version=self.source_version, prepared=True)

    def check(self, aggregation: Aggregation) -> None:
        """Raise an error unless the prepared dataset that this manifest describes can answer `aggregation`.

        A prepared dataset stores a random ranking of each user's groups, for counts or for sums of one column.
        Raises: `InvalidFilter` if `aggregation` has a filter. `UnsuitableTable` if it reads other columns than the
        dataset was made for, has another label for missing items, or has measures (other numbers that users add to
        groups).
        """
        if aggregation.where is not None:
            raise InvalidFilter(TAKES_NO_FILTER)
        if aggregation.measures:
            raise UnsuitableTable(
                "a prepared dataset answers counts and sums by the column it was prepared for: "
                "ask the table it was prepared from for other statistics"
            )
        check_suitable(aggregation, self.schema())
        value = None if self.value is None else self.value.name
        query_columns = (aggregation.user, aggregation.groups, aggregation.value, aggregation.null_item)
        if query_columns != (self.user.name, (Group(self.item.name),), value, self.null_item):
            summed = "" if value is None else f", with the value {value!r}"
            missing = "" if self.null_item is None else f", with missing items as {self.null_item!r}"
            raise UnsuitableTable(
                f"the dataset was prepared for users {self.user.name!r} and items {self.item.name!r}{summed}{missing}: "
                f"ask for these, or prepare another"
            )

    def check_fresh(self, fingerprint: str) -> None:
        """Raise `UnsuitableTable` if the table from which the prepared dataset was made has changed since.

        A prepared dataset stores a random ranking of each user's groups. `fingerprint` is the current digest of the
        table, and is compared with the digest in this manifest.
        """
        if fingerprint != self.fingerprint:
            raise UnsuitableTable(f"{self.origin} has changed since the dataset was prepared: prepare it again")

    @classmethod
    def in_comment(cls, comment: str | None) -> "Manifest | None":
        """Return the manifest in `comment`, the comment of a server's table, or None if the comment has no manifest.

        A manifest describes a prepared dataset (a stored random ranking of each user's groups), and only the comment of
        such a table has one; it begins with `MARK`. `comment` is None if the table has no comment.
        """
        return cls.read(comment.removeprefix(MARK)) if comment and comment.startswith(MARK) else None

    def to_text(self) -> str:
        """Return this manifest as JSON text, from which `Manifest.read` makes an equal one.

        A manifest describes a prepared dataset (a stored random ranking of each user's groups).
        """
        return json.dumps({"version": VERSION, **asdict(self)}, sort_keys=True)

    @classmethod
    def read(cls, text: str) -> "Manifest":
        """Return the manifest that `to_text` wrote as the JSON text `text`.

        A manifest describes a prepared dataset (a stored random ranking of each user's groups).
        Raises: `UnsuitableTable` if the text is damaged or was written by another version.
        """
        try:
            values = json.loads(text)
            if values.pop("version") != VERSION:
                raise UnsuitableTable("the dataset was prepared by another version of Setwise: prepare it again")
            for name in ("user", "item", "value"):
                values[name] = None if values[name] is None else Column(**values[name])
            return cls(**values)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UnsuitableTable("the prepared dataset's manifest is damaged: prepare it again") from None


def read_prepared(directory: Path) -> Manifest | None:
    """Return the manifest of the prepared dataset in `directory`; None if the directory holds no prepared dataset.

    A prepared dataset stores a random ranking of each user's groups; its manifest describes it.
    """
    manifest = directory / MANIFEST_NAME
    return Manifest.read(manifest.read_text()) if manifest.is_file() else None


def check_destination(path: Path) -> None:
    """Raise `InvalidParameter` if `path` exists but holds no prepared dataset.

    A new prepared dataset (a stored random ranking of each user's groups) may replace an older one, but nothing else.
    """
    if path.exists() and not (path / MANIFEST_NAME).is_file():
        raise not_replaceable(path)


def not_replaceable(destination: str | Path) -> InvalidParameter:
    """Return the error for a `destination` that exists and must not be overwritten, because it is no prepared dataset.

    A prepared dataset stores a random ranking of each user's groups.
    """
    return InvalidParameter(f"{destination} exists and is not a prepared dataset: name another destination")


def write_prepared(destination: Path, parts: "Iterable[pa.RecordBatchReader]", manifest: Manifest) -> None:
    """Write a prepared dataset to the directory `destination`: its rows, and `manifest`, which describes it.

    A prepared dataset stores a random ranking of each user's groups. `parts` has its rows as Arrow readers; there are
    several if the users were split into parts to save memory. Only the operating system's current user can read the
    directory.

    Raises: `EngineFailed` if the files cannot be written, `InvalidParameter` if `destination` exists and is not a
    prepared dataset.
    """
    check_destination(destination)
    target = destination.absolute()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # A process that dies while it writes rows leaves the earlier dataset in place.
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError:
        raise EngineFailed(f"{destination} cannot be written") from None
    try:
        _write(scratch / CONTRIBUTIONS_NAME, parts)
        (scratch / MANIFEST_NAME).write_text(manifest.to_text())
        if target.exists():
            shutil.rmtree(target)
        os.replace(scratch, target)
    except OSError:
        raise EngineFailed(f"{destination} cannot be written") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write(file: Path, parts: "Iterable[pa.RecordBatchReader]") -> None:
    """Write the rows of a prepared dataset to `file`, one new Parquet file.

    `parts` are Arrow readers that yield the rows in batches. A prepared dataset stores a random ranking of each user's
    groups.
    """
    import pyarrow.parquet as pq

    writer: pq.ParquetWriter | None = None
    try:
        for reader in parts:
            if writer is None:
                writer = pq.ParquetWriter(file, reader.schema)
            for batch in reader:
                writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()
