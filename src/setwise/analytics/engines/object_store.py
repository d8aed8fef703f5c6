"""Objects of S3 (`s3://bucket/key`) and of stores with S3's protocol: credentials, timeouts, versions, and reading.

Credentials, the region and the endpoint come from the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
`AWS_SESSION_TOKEN`, `AWS_PROFILE`, `AWS_REGION`, `AWS_ENDPOINT_URL`) and are passed only to the client library. No
error message of this module quotes the store's response, because a response may contain an access key or a signed URL.

A `StoredObject` stands for the content that the object had when it was listed, which its ETag (the store's mark of a
content) identifies. Opening the object after its content has changed raises `UnsuitableTable`. An ETag is usually a
digest of the content, so it never leaves the process. The version of a table that does leave the process, in requests
and answers, is computed by `objects_version` from keys, modification times and version ids only.
"""

import hashlib
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

from setwise.errors import EngineFailed, InvalidParameter, UnsuitableTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem

SCHEME = "s3://"
"""The beginning of an address of an object store."""
Result = TypeVar("Result")

_VERSION = re.compile(r"[0-9a-f]{16}(-[1-9][0-9]*)?")
"""Pattern of the version of plain objects: 64 bits of a digest, and a number if the digest was seen before."""

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
"""Pattern of the name of a bucket."""
_REQUESTS_AT_ONCE = 16
"""The number of requests for ETags at the same time; each request only waits for the network."""
_MOST_OBJECTS = 100_000
"""The most objects of one table: each costs a request for its ETag, so more would take minutes before every query."""
_CONNECT_SECONDS = 10
_REQUEST_SECONDS = 60
_HTTP = "http"


class ObjectStat(NamedTuple):
    """The fields of an `os.stat_result` that readers of files use, for an object of an object store.

    `st_ino` is a number computed from the ETag and version id, and `st_size` the size in bytes. `st_mtime_ns` is always
    0, because `st_ino` already changes when the content changes.
    """

    st_ino: int
    st_size: int
    st_mtime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """One object of an object store, with the content that its ETag identifies.

    - `bucket` and `key` are its place in the store.
    - `size` is in bytes.
    - `etag` is the text by which the store marks the content.
    - `version_id` and `modified` (the time of the last modification) are texts of the store, or empty.

    It has the methods of `Path` that readers of files call.
    """

    bucket: str
    key: str
    size: int
    etag: str
    version_id: str = ""
    modified: str = ""

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key}"

    @property
    def name(self) -> str:
        """The name of the object: the part of its key after the last slash."""
        return PurePosixPath(self.key).name

    @property
    def stem(self) -> str:
        """The name of the object without its last ending: `visits.csv` for the key `logs/visits.csv.gz`."""
        return PurePosixPath(self.key).stem

    @property
    def suffix(self) -> str:
        """The last ending of the object's name with its dot: `.gz` for the key `logs/visits.csv.gz`."""
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> PurePosixPath:
        """The folder of the object: its bucket, and the part of its key before the last slash, as a path."""
        return PurePosixPath(self.bucket, self.key).parent

    @property
    def identity(self) -> tuple[str, int, str, str]:
        """Key, size in bytes, ETag and version id, which together identify the content of the object."""
        return self.key, self.size, self.etag, self.version_id

    def stat(self) -> ObjectStat:
        """Return the `ObjectStat` of the object as it was listed; its `st_ino` changes when the content changes."""
        number = int.from_bytes(hashlib.sha256(repr((self.etag, self.version_id)).encode()).digest()[:7])
        return ObjectStat(number, self.size, 0)

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open the object for reading; `mode` must be "rb".

        Raises: `UnsuitableTable` if the content changed since the object was listed.
        """
        assert mode == "rb", "objects are read, never written"
        opened = _open(self.bucket, self.key)
        self._check(_stored_object(self.bucket, self.key, opened))
        return cast(BinaryIO, opened)

    def check_unchanged(self) -> None:
        """Raise `UnsuitableTable` if the object is gone from the store, or its content changed since it was listed."""
        self._check(describe_object(self.bucket, self.key))

    def _check(self, current: "StoredObject") -> None:
        """Raise `UnsuitableTable` if the object was written again; `current` is the same object, looked up just now.

        The object was written again if its `identity` (key, size, ETag and version id) or its time of modification
        differs in `current`.
        """
        if (current.identity, current.modified) != (self.identity, self.modified):
            raise UnsuitableTable(f"the object {self} was written while the table was being read: ask again")


TableFile: TypeAlias = Path | StoredObject
"""A file of a table: on this machine, or in an object store."""


def is_stored(source: object) -> bool:
    """Return whether `source` is an address of an object store, that is, a text beginning with s3://."""
    return isinstance(source, str) and source.startswith(SCHEME)


def split_address(address: str) -> tuple[str, str]:
    """Return (bucket, key) of an address of an object store; the key does not end in a slash and may be empty.

    Raises: `InvalidParameter` for an address that names no bucket, holds credentials or is a pattern. The message does
    not quote the address, because it may contain a password.

    >>> split_address("s3://lake/events/2026/")
    ('lake', 'events/2026')
    """
    bucket, _, key = address.removeprefix(SCHEME).partition("/")
    if "@" in bucket or ":" in bucket or "?" in address:
        raise InvalidParameter(
            "an address of an object store is s3://BUCKET/KEY and nothing else: credentials and endpoints come from "
            "the environment, such as AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL"
        )
    parts = key.rstrip("/").split("/") if key else []
    if not _BUCKET.fullmatch(bucket) or any(part in ("", ".", "..") for part in parts):
        raise InvalidParameter("an address of an object store is written s3://BUCKET/KEY")
    if set("*[") & set(key):
        raise InvalidParameter("an object store is read by a key or by a prefix, s3://BUCKET/FOLDER, not by a pattern")
    return bucket, "/".join(parts)


def list_keys(address: str) -> tuple[str, tuple[str, ...]]:
    """Return (bucket, sorted keys) of the objects at `address`, such as s3://bucket/key.

    The address names one object, or is a folder and names all objects under it. The keys are empty if the store has no
    object there.
    """
    from pyarrow.fs import FileSelector, FileType

    bucket, key = split_address(address)
    place = f"{bucket}/{key}" if key else bucket
    if key and _call(lambda: _filesystem().get_file_info(place)).type is FileType.File:
        return bucket, (key,)
    selector = FileSelector(place, recursive=True, allow_not_found=True)
    entries = _call(lambda: _filesystem().get_file_info(selector))
    return bucket, tuple(sorted(each.path.partition("/")[2] for each in entries if each.type is FileType.File))


def list_names(address: str) -> tuple[str, ...]:
    """Return the sorted names of the objects and folders directly under the prefix `address`; empty if none exist."""
    from pyarrow.fs import FileSelector

    bucket, key = split_address(address)
    selector = FileSelector(f"{bucket}/{key}" if key else bucket, recursive=False, allow_not_found=True)
    entries = _call(lambda: _filesystem().get_file_info(selector))
    return tuple(sorted(each.base_name for each in entries))


def describe_objects(bucket: str, keys: Sequence[str]) -> tuple[StoredObject, ...]:
    """Return the objects of `bucket` with the keys `keys`, each with its ETag, size and time of modification.

    The requests to the store are sent several at a time.
    Raises: `UnsuitableTable` if there are too many objects, or one cannot be read.
    """
    if len(keys) > _MOST_OBJECTS:
        raise UnsuitableTable(f"a table in an object store has at most {_MOST_OBJECTS:,} objects, not {len(keys):,}")
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as threads:
        return tuple(threads.map(lambda key: describe_object(bucket, key), keys))


def describe_object(bucket: str, key: str) -> StoredObject:
    """Return the object `key` of `bucket` with its size, ETag and time of modification.

    Raises: `UnsuitableTable` if it cannot be read.
    """
    with _open(bucket, key) as opened:
        return _stored_object(bucket, key, opened)


def check_unchanged(objects: Iterable[StoredObject]) -> None:
    """Raise `UnsuitableTable` if the content of one of the objects changed since the objects were listed."""
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as threads:
        for _ in threads.map(StoredObject.check_unchanged, objects):
            pass


def objects_version(objects: Sequence[StoredObject]) -> str:
    """Return a short text that names the version of `objects`: a digest of keys, modification times and version ids.

    Two contents that were written within one second can have equal digests. If this process has seen the digest with
    other ETags, a number is appended, so that the versions differ.
    """
    listed = sorted((each.bucket, each.key, each.modified, each.version_id) for each in objects)
    digest = hashlib.sha256(repr(listed).encode()).hexdigest()[:16]
    content = hashlib.sha256(repr(sorted(each.identity for each in objects)).encode()).hexdigest()
    # Stores report times in seconds, so two contents written within a second can have one digest.
    with _lock:
        seen = _contents.setdefault(digest, [])
        _contents.move_to_end(digest)
        if content not in seen:
            seen.append(content)
        if len(_contents) > _MOST_VERSIONS:
            _contents.popitem(last=False)
        number = seen.index(content)
    return f"{digest}-{number}" if number else digest


_MOST_VERSIONS = 10_000
"""The number of versions that are remembered with their ETags; older versions are distinguished by times only."""
_contents: OrderedDict[str, list[str]] = OrderedDict()
_lock = threading.Lock()


def split_version(address: str) -> tuple[str, str | None]:
    """Return (address without version, version) of an address; the version is None if the address names none.

    >>> split_version("s3://lake/events@0123456789abcdef")
    ('s3://lake/events', '0123456789abcdef')
    """
    place, mark, version = address.rpartition("@")
    if mark and (_VERSION.fullmatch(version) or version.isdecimal()):
        return place, version
    return address, None


def delta_options() -> dict[str, str]:
    """Return the storage options for the library `deltalake`: the store's endpoint, and whether HTTP is allowed.

    `deltalake` reads all other options, such as credentials, from the environment itself.
    """
    endpoint = _endpoint()
    options = {} if endpoint is None else {"AWS_ENDPOINT_URL": endpoint}
    return options | ({"AWS_ALLOW_HTTP": "true"} if endpoint and urlsplit(endpoint).scheme == _HTTP else {})


def iceberg_properties() -> dict[str, str]:
    """Return the properties for the library `pyiceberg`: Arrow's client, the store's endpoint and its region.

    Arrow's client reads the credentials from the environment itself.
    """
    properties = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
    if (endpoint := _endpoint()) is not None:
        properties["s3.endpoint"] = endpoint
    if (region := _region()) is not None:
        properties["s3.region"] = region
    return properties


def _endpoint() -> str | None:
    """Return the URL of the object store from AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL; None for Amazon's own store."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def _region() -> str | None:
    """Return the region of the object store from AWS_REGION or AWS_DEFAULT_REGION; None if neither is set."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None


def _filesystem() -> "FileSystem":
    """Return Arrow's client for the object store that the environment variables AWS_* name.

    A new client is made only when one of these variables changes.
    """
    variables = sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_"))
    return _client(hashlib.sha256(repr(variables).encode()).hexdigest())


@lru_cache(maxsize=4)
def _client(_environment: str) -> "FileSystem":
    """Return a new client for the object store that the environment variables AWS_* name.

    `_environment` is a digest of these variables. It is not read: it is the key of the cache, so that a new client is
    made when the variables change.

    Raises: `InvalidParameter` if AWS_ENDPOINT_URL is not a URL without credentials.
    """
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    words: dict[str, object] = {}
    if (endpoint := _endpoint()) is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in (_HTTP, "https") or not parts.hostname or parts.username or parts.password:
            raise InvalidParameter("AWS_ENDPOINT_URL must be https://HOST, or http://HOST:PORT, without credentials")
        words = {"endpoint_override": parts.netloc, "scheme": parts.scheme, "region": _region() or "us-east-1"}
    elif (region := _region()) is not None:
        words = {"region": region}
    return S3FileSystem(
        **words,
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_REQUEST_SECONDS,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=3),
    )


def _open(bucket: str, key: str) -> "pa.NativeFile":
    """Open the object `key` of `bucket` for reading.

    Raises: `UnsuitableTable` if it does not exist or may not be read, `EngineFailed` if the store does not answer. The
    messages are fixed and never quote the store.
    """
    return _call(lambda: _filesystem().open_input_file(f"{bucket}/{key}"), f"{SCHEME}{bucket}/{key}")


def _stored_object(bucket: str, key: str, opened: "pa.NativeFile") -> StoredObject:
    """Return the `StoredObject` for the object `key` of `bucket`, with the size and metadata that the store reports.

    `opened` is the object, open for reading.
    """
    metadata, size = _call(lambda: (opened.metadata(), opened.size()), f"{SCHEME}{bucket}/{key}")
    headers = {name: bytes(value).decode("utf-8", "replace") for name, value in metadata.items()}
    return StoredObject(
        bucket=bucket,
        key=key,
        size=int(size),
        etag=headers.get("ETag", ""),
        version_id=headers.get("VersionId", ""),
        modified=headers.get("Last-Modified", ""),
    )


def _call(call: Callable[[], Result], address: str = "") -> Result:
    """Return the result of `call`, which calls the object store's client, and replace the client's errors.

    `address` names the object in error messages. It is empty if the call is about a bucket.
    Raises: `UnsuitableTable` if the object or bucket does not exist or may not be read, `EngineFailed` for other
    failures.
    """
    # Messages are fixed, because the client's may quote secrets.
    failure: EngineFailed | UnsuitableTable
    try:
        return call()
    except FileNotFoundError:
        failure = UnsuitableTable(f"there is no object {address}" if address else "there is no such bucket")
    except OSError as error:
        failure = _failure(str(error))
    raise failure  # outside the handler, so that the client's error is not kept as its context


def _failure(message: str) -> EngineFailed | UnsuitableTable:
    """Return the error to raise after an error of the object store's client whose text is `message`.

    It is `UnsuitableTable` if the text names refused credentials or a missing bucket, and `EngineFailed` otherwise.
    """
    if any(name in message for name in ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "403")):
        return UnsuitableTable(
            "the object store refuses the credentials of the environment: look at AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_PROFILE, and at what they may read"
        )
    if "NO_SUCH_BUCKET" in message:
        return UnsuitableTable("there is no such bucket in the object store")
    return EngineFailed(
        "the object store cannot be reached or did not answer: look at AWS_ENDPOINT_URL, AWS_REGION and the network"
    )
