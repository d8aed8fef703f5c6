"""An object store that speaks S3's protocol on this machine: moto in server mode."""

import itertools
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SECRET_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
ACCESS_KEY = "AKIAIOSFODNN7EXAMPLE"


@dataclass
class Bucket:
    """A bucket of its own for a test, written through boto3."""

    name: str
    client: Any
    endpoint: str

    def address(self, key: str) -> str:
        return f"s3://{self.name}/{key}"

    def put(self, key: str, content: bytes) -> str:
        self.client.put_object(Bucket=self.name, Key=key, Body=content)
        return self.address(key)

    def put_folder(self, folder: Path, prefix: str) -> str:
        """Copy a folder with all that is in it, and return its address."""
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.put(f"{prefix}/{file.relative_to(folder).as_posix()}", file.read_bytes())
        return self.address(prefix)


@pytest.fixture(scope="session")
def object_store() -> Iterator[str]:
    """The address of the store."""
    pytest.importorskip("moto")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from moto.server import ThreadedMotoServer
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for every request
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


_numbers = itertools.count(1)


@pytest.fixture
def bucket(object_store: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A new bucket, with the environment that leads to it."""
    import boto3

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", object_store)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    client = boto3.client("s3", endpoint_url=object_store)
    name = f"lake-{next(_numbers)}"
    client.create_bucket(Bucket=name)
    return Bucket(name, client, object_store)
