"""A private directory for what does not fit in memory, with a limit that is enforced."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from weakref import finalize


class SpillDirectory:
    """A new directory under `parent`, open to this user alone and removed at the end.

    `limit` is how many bytes it may hold; by default half of what is free on its disk.
    """

    def __init__(self, parent: Path | None, limit: int | None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="setwise-", dir=parent))
        self.limit = shutil.disk_usage(self.path).free // 2 if limit is None else limit
        self.most = 0
        """The most bytes that were seen in it."""
        self.remove = finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def overflows(self) -> bool:
        """Measure the directory and return whether it has grown beyond its limit."""
        self.most = max(self.most, self._size())
        return self.most > self.limit

    def _size(self) -> int:
        total = 0
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # gone since it was listed
                    total += entry.stat().st_blocks * 512 if entry.is_file() else 0
        return total
