"""Prepared datasets: every user's items ranked once under a secret salt, for any number of questions.

What is stored is (item, n, rank, users): how much a user contributes under an item, the item's place in a uniformly
random order of that user's items, and how many users have the same of both. A question keeps `rank <= contributions`
and counts `users` times `LEAST(n, per_item)`. Who they are is not stored: nothing after the ranking needs it.
One salt for the lifetime of the dataset is sound, because which items a user keeps depends on that user's rows alone,
whatever the salt.
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
"""How the comment of a table that is a prepared dataset begins; the manifest follows."""
MANIFEST_NAME = "prepared.json"
CONTRIBUTIONS_NAME = "contributions.parquet"
VERSION = 2
TAKES_NO_FILTER = (
    "a prepared dataset takes no filter, because its contributions are bounded already: "
    "give the filter when preparing it, or ask the table it was prepared from"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a prepared dataset was made of: whose items, by which columns, from which source as it then was."""

    user: Column
    item: Column
    value: Column | None
    where: str | None
    null_item: Label | None
    origin: str
    fingerprint: str

    def schema(self) -> Schema:
        """Return the columns that questions may name."""
        return Schema((self.user, self.item) if self.value is None else (self.user, self.item, self.value))

    def check(self, aggregation: Aggregation) -> None:
        """Raise unless the dataset was prepared for this aggregation."""
        if aggregation.where is not None:
            raise InvalidFilter(TAKES_NO_FILTER)
        if aggregation.measures:
            raise UnsuitableTable(
                "a prepared dataset answers counts and sums by the column it was prepared for: "
                "ask the table it was prepared from for other statistics"
            )
        check_suitable(aggregation, self.schema())
        value = None if self.value is None else self.value.name
        asked = (aggregation.user, aggregation.groups, aggregation.value, aggregation.null_item)
        if asked != (self.user.name, (Group(self.item.name),), value, self.null_item):
            summed = "" if value is None else f", with the value {value!r}"
            missing = "" if self.null_item is None else f", with missing items as {self.null_item!r}"
            raise UnsuitableTable(
                f"the dataset was prepared for users {self.user.name!r} and items {self.item.name!r}{summed}{missing}: "
                f"ask for these, or prepare another"
            )

    def check_fresh(self, fingerprint: str) -> None:
        """Raise unless the source still has the fingerprint it had when the dataset was prepared."""
        if fingerprint != self.fingerprint:
            raise UnsuitableTable(f"{self.origin} has changed since the dataset was prepared: prepare it again")

    @classmethod
    def in_comment(cls, comment: str | None) -> "Manifest | None":
        """Return the manifest in the comment of a table that is a prepared dataset, or None for another table."""
        return cls.read(comment.removeprefix(MARK)) if comment and comment.startswith(MARK) else None

    def written(self) -> str:
        """Return the manifest as JSON text."""
        return json.dumps({"version": VERSION, **asdict(self)}, sort_keys=True)

    @classmethod
    def read(cls, text: str) -> "Manifest":
        """Return the manifest of JSON text, or raise `UnsuitableTable`."""
        try:
            told = json.loads(text)
            if told.pop("version") != VERSION:
                raise UnsuitableTable("the dataset was prepared by another version of Setwise: prepare it again")
            for name in ("user", "item", "value"):
                told[name] = None if told[name] is None else Column(**told[name])
            return cls(**told)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UnsuitableTable("the prepared dataset's manifest is damaged: prepare it again") from None


def read_prepared(directory: Path) -> Manifest | None:
    """Return the manifest of a prepared dataset in a directory, or None if it holds none."""
    manifest = directory / MANIFEST_NAME
    return Manifest.read(manifest.read_text()) if manifest.is_file() else None


def check_destination(path: Path) -> None:
    """Raise unless nothing is there, or a dataset prepared earlier."""
    if path.exists() and not (path / MANIFEST_NAME).is_file():
        raise not_replaceable(path)


def not_replaceable(destination: str | Path) -> InvalidParameter:
    """Return the refusal to replace what is no prepared dataset."""
    return InvalidParameter(f"{destination} exists and is not a prepared dataset: name another destination")


def write_prepared(destination: Path, parts: "Iterable[pa.RecordBatchReader]", manifest: Manifest) -> None:
    """Write the parts and the manifest beside the destination, then move them there.

    A process that dies on the way leaves the dataset that was there before; the directory is open to this user alone.
    """
    check_destination(destination)
    target = destination.absolute()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError:
        raise EngineFailed(f"{destination} cannot be written") from None
    try:
        _write(scratch / CONTRIBUTIONS_NAME, parts)
        (scratch / MANIFEST_NAME).write_text(manifest.written())
        if target.exists():
            shutil.rmtree(target)
        os.replace(scratch, target)
    except OSError:
        raise EngineFailed(f"{destination} cannot be written") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write(file: Path, parts: "Iterable[pa.RecordBatchReader]") -> None:
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
