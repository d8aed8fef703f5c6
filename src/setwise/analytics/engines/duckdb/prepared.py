"""A prepared dataset as a directory: one Parquet file and the manifest, put in place at once."""

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from setwise.analytics.engines.prepared import CONTRIBUTIONS_NAME, MANIFEST_NAME, Manifest, check_destination
from setwise.errors import EngineFailed

if TYPE_CHECKING:
    import pyarrow as pa


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
