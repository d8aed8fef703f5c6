"""The private state of a live series (counted users and noise) in Parquet files that Spark writes and reads.

A live series is a set of noisy user counts that is charged once and released period by period. Spark has no
transactions over several tables, so updates become valid by markers (`markers.py`), which are small files.

Object stores such as S3 cannot write a marker in one atomic step, so two updates must not run at the same time there.
If both write a marker, the ledger refuses the releases of the second one, and the series may be unable to continue.
"""

# The pairs of user and group of each attempt are a folder of Parquet files. A marker is written under another name,
# synced, and then gets its own name, which fails if that name is taken. On local disks and on HDFS this is one atomic
# step.

import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from setwise.errors import EngineFailed, InvalidParameter, MissingExtra
from setwise.live.states.base import SELECTION, UNSEEN
from setwise.live.states.markers import TOKEN, MarkedState

try:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from setwise.analytics.engines.spark.engine import join_session
    from setwise.analytics.engines.spark.tables import Views
except ImportError:  # pragma: no cover - tests install PySpark
    raise MissingExtra("Spark needs PySpark and Java 17: pip install 'setwise[spark]'") from None

if TYPE_CHECKING:
    import pyarrow as pa

_PAIRS = "u STRING, g STRING, period INT"
"""Columns of the pairs, for Spark."""

_OWNER_ONLY = 0o700


class MarkerFiles(Protocol):
    """Protocol of the folder that stores the private state of one live series, on the storage that Spark uses.

    The private state has the users counted so far and the noise; it is updated period by period. An object of this
    protocol reads and writes the marker files in the folder. A marker is a small file that makes one update of the
    state valid; it appears whole and is never replaced.
    """

    def create(self) -> None:
        """Create the folder for the private state of a live series (counted users and noise), unless it exists.

        Only its owner can read the folder.
        """
        ...

    def read_all(self) -> dict[str, str]:
        """Return a dict from the name of every marker file to its text; empty if the folder does not exist.

        A marker is a small file that makes one update of the private state of a live series (counted users and noise)
        valid.
        """
        ...

    def write_new(self, name: str, text: str) -> bool:
        """Write `text` to the marker file `name` unless it exists; return whether this call has written it.

        A marker is a small file that makes one update of the private state of a live series (counted users and noise)
        valid. If two updates run at the same time, only one of them writes the marker, so only that update is valid.
        """
        ...

    def delete(self) -> None:
        """Delete the folder with the private state of a live series (counted users and noise), and all files in it."""
        ...


class LocalFiles:
    """Reads and writes the marker files of a live series in the folder `folder` on a disk of this machine.

    A live series is a set of noisy user counts, released period by period. The folder has its private state: the users
    counted so far, and the noise. A marker is a small file that makes one update of this state valid.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._markers = self._folder / "markers"

    def create(self) -> None:
        """Create the folder for the private state of a live series (counted users and noise) here, unless it exists.

        Only its owner can read the folder.
        """
        self._folder.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
        self._markers.mkdir(mode=_OWNER_ONLY, exist_ok=True)

    def read_all(self) -> dict[str, str]:
        """Return the texts of the marker files in the local folder, by file name; empty if there is no folder.

        A marker is a small file that makes one update of the private state of a live series (counted users and noise)
        valid.
        """
        if not self._markers.is_dir():
            return {}
        return {path.name: path.read_text("utf-8") for path in self._markers.iterdir() if path.suffix != ".tmp"}

    def write_new(self, name: str, text: str) -> bool:
        """Write `text` to the local marker file `name` unless it exists; return whether this call has written it.

        A marker is a small file that makes one update of the private state of a live series (counted users and noise)
        valid. The file is written under another name first. A hard link then gives it the name `name`, and fails if
        this name is taken.
        """
        unfinished = self._markers / f"{uuid.uuid4().hex}.tmp"
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(unfinished, self._markers / name)
        except FileExistsError:
            return False
        finally:
            unfinished.unlink()
        folder = os.open(self._markers, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return True

    def delete(self) -> None:
        """Delete the local folder with the private state of a live series (counted users and noise)."""
        shutil.rmtree(self._folder, ignore_errors=True)


class HadoopFiles:
    """The folder with the private state of a live series, on HDFS or on other storage that Spark reads by Hadoop.

    The private state has the counted users and the noise. The object reads and writes the marker files in the folder; a
    marker is a small file that makes one update of the state valid. `session` is the Spark session, and `folder` the
    URL of the folder.
    """

    def __init__(self, session: SparkSession, folder: str) -> None:
        self._java: Any = session._jvm
        self._folder = folder
        path = self._path("")
        self._storage = path.getFileSystem(session._jsc.hadoopConfiguration())

    def create(self) -> None:
        """Create the folder for the private state of a live series on Hadoop's storage, unless it exists.

        The private state has the counted users and the noise, so only the owner of the folder can read it.
        """
        self._storage.mkdirs(self._path("markers"))
        permission = self._java.org.apache.hadoop.fs.permission.FsPermission(f"{_OWNER_ONLY:o}")
        self._storage.setPermission(self._path(""), permission)

    def read_all(self) -> dict[str, str]:
        """Return the texts of the marker files on Hadoop's storage, by file name; empty if there is no folder.

        A marker is a small file that makes one update of the private state of a live series (counted users and noise)
        valid.
        """
        if not self._storage.exists(self._path("markers")):
            return {}
        paths = [status.getPath() for status in self._storage.listStatus(self._path("markers"))]
        return {str(path.getName()): self._read(path) for path in paths if not str(path.getName()).endswith(".tmp")}

    def write_new(self, name: str, text: str) -> bool:
        """Write `text` to the marker file `name` on Hadoop's storage unless it exists; return whether this call did.

        A marker is a small file that makes one update of the private state of a live series (counted users and noise)
        valid. The file is written under another name first, and then renamed to `name`. HDFS refuses to rename it if
        the name `name` is taken. Other storage may not refuse; there, two calls at the same moment may both write the
        file.
        """
        unfinished, final = self._path(f"markers/{uuid.uuid4().hex}.tmp"), self._path(f"markers/{name}")
        stream = self._storage.create(unfinished, False)
        try:
            stream.write(text.encode())
            stream.hsync()
        finally:
            stream.close()
        # Not every storage refuses by itself; the test before renaming leaves those a gap of a moment.
        has_renamed = not self._storage.exists(final) and bool(self._storage.rename(unfinished, final))
        if not has_renamed:
            self._storage.delete(unfinished, False)
        return has_renamed

    def delete(self) -> None:
        """Delete the folder with the private state of a live series from Hadoop's storage, and all files in it.

        The private state has the counted users and the noise.
        """
        self._storage.delete(self._path(""), True)

    def _path(self, name: str) -> Any:  # noqa: ANN401 - an object of Java
        """Return Hadoop's path object for the file `name` in the state's folder; "" stands for the folder itself."""
        return self._java.org.apache.hadoop.fs.Path(f"{self._folder}/{name}" if name else self._folder)

    def _read(self, path: Any) -> str:  # noqa: ANN401 - an object of Java
        """Return the text of the file at a Hadoop path, decoded as UTF-8."""
        stream = self._storage.open(path)
        try:
            return str(self._java.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()


class SparkState(MarkedState):
    """The private state of the live series `name`: a folder with its counted pairs of user and group, and its markers.

    A live series releases noisy user counts period by period; the private state is what it must remember. A marker is a
    small file with the counts and noise of one update; it makes the update valid. `address` is either spark:FOLDER, or
    the address of a Spark engine; the folder is then in the warehouse of the engine's session.
    """

    def __init__(self, address: str, name: str) -> None:
        super().__init__(name)
        is_folder = address.startswith("spark:") and not address.startswith("spark://")
        self._given_folder = address.removeprefix("spark:") if is_folder else None
        self._master = None if is_folder or address == "spark" else address
        self._session: SparkSession | None = None
        self._leave: Callable[[], None] | None = None
        self._digest = hashlib.sha256(name.encode()).hexdigest()[:16]

    def destroy(self) -> None:
        with self._working() as session:
            self._files(session).delete()

    def close(self) -> None:
        leave, self._session, self._leave = self._leave, None, None
        if leave is not None:
            leave()

    def _prepare(self) -> None:
        with self._working() as session:
            self._files(session).create()

    def _markers(self) -> dict[int, str]:
        with self._working() as session:
            return {int(name): text for name, text in self._files(session).read_all().items()}

    def _write_marker(self, number: int, text: str) -> bool:
        with self._working() as session:
            return self._files(session).write_new(str(number), text)

    def _store_pairs(
        self, candidates: "pa.Table", attempt: str, valid: Sequence[str], contributions: int
    ) -> list[tuple[str, int, int]]:
        token = self._markers()[TOKEN]
        with self._working() as session:
            folder = f"{self._folder(session)}/pairs"
            views = Views(session, f"setwise_{uuid.uuid4().hex}")
            reader = session.read.schema(_PAIRS)
            counted = (
                reader.parquet(*(f"{folder}/{number}" for number in valid))
                if valid
                else session.createDataFrame([], _PAIRS)
            )
            pairs = views.add("pairs", counted)
            # Plans are shown and logged with their constants, so the token is read from a view.
            secret = views.add("token", session.createDataFrame([(token,)], "token STRING"))
            new = SELECTION.format(
                candidates=views.add("candidates", session.createDataFrame(candidates)),
                pairs=pairs,
                unseen=UNSEEN.format(pairs=pairs),
                order=f"md5(concat((SELECT token FROM {secret}), fresh.u, chr(10), fresh.g))",
                contributions=int(contributions),
            )
            try:
                session.sql(new).write.parquet(f"{folder}/{attempt}")
                rows = reader.parquet(f"{folder}/{attempt}").groupBy("g", "period").count().collect()
            finally:
                views.drop()
        return [(str(group), int(period), int(count)) for group, period, count in rows]

    def _folder(self, session: SparkSession) -> str:
        """Return the path of this state's own folder.

        It lies inside the folder that the state's address names or, if the address names none, inside the warehouse of
        the Spark `session`. Raises `InvalidParameter` if the warehouse of a cluster is on a local disk, because its
        nodes do not share that disk.
        """
        place = self._given_folder
        if place is None:
            place = str(session.conf.get("spark.sql.warehouse.dir"))
            if place.startswith("file:") and not str(session.sparkContext.master).startswith("local"):
                raise InvalidParameter(
                    "the warehouse of this Spark cluster is on a local disk, which its nodes do not share: give "
                    "state = spark:FOLDER with a folder that all nodes reach, or set spark.sql.warehouse.dir"
                )
        return f"{place.rstrip('/')}/setwise_live/{self._digest}"

    def _files(self, session: SparkSession) -> MarkerFiles:
        """Return the object that reads and writes the marker files of the state.

        A marker is a small file that makes one update of the state valid. Marker files are on a local disk, or are
        reached through the Hadoop classes of the Spark `session`.
        """
        java: Any = session._jvm
        path = java.org.apache.hadoop.fs.Path(self._folder(session))
        storage = path.getFileSystem(session._jsc.hadoopConfiguration())
        if str(storage.getUri().getScheme()) == "file":
            return LocalFiles(str(path.toUri().getPath()))
        return HadoopFiles(session, self._folder(session))

    @contextmanager
    def _working(self) -> Iterator[SparkSession]:
        """Context manager that yields the Spark session, and turns errors of Spark and of files into `EngineFailed`.

        The original messages may quote users, so they are dropped. The session is started when it is first needed, and
        `close` releases it.
        """
        if self._session is None:
            self._session, self._leave = join_session(self._master)
        with suppress(PySparkException, Py4JError, OSError):
            yield self._session
            return
        raise EngineFailed("Spark cannot read or write the state of the series")
