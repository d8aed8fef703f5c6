"""A real Spark for the tests: one session per test process, in local mode or on a cluster of processes here."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MASTER = "SETWISE_SPARK_MASTER"
"""The environment variable with the address of the Spark master that the tests of Spark run on."""

PATIENCE = 120.0


@pytest.fixture(scope="session")
def spark_session() -> "Iterator[SparkSession]":
    """A session on two cores, or at the master that SETWISE_SPARK_MASTER names.

    Without Java the test is skipped, and fails under CI=true.
    """
    missing = _missing()
    if missing:
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory(prefix="setwise-spark-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = (
            SparkSession.builder.master(os.environ.get(MASTER, "local[2]"))
            .appName("setwise-tests")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "1g")
            .config("spark.executor.memory", "1g")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
            .config("spark.log.level", "OFF")
            .getOrCreate()
        )
        try:
            yield session
        finally:
            session.stop()


def _missing() -> str | None:
    java = shutil.which("java")
    if java is None:
        return "Spark needs Java 17: install openjdk-17-jre-headless"
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    return None if told else "java is installed but does not run"


@contextlib.contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """Context manager: a Spark master and two workers, each a process; yields the address of the master."""
    with contextlib.ExitStack() as running:
        master = running.enter_context(_daemon(folder / "master", "master.Master", r"(spark://[\d.]+:\d+)"))
        for number in (1, 2):
            place = folder / f"worker-{number}"
            words = ("--cores", "1", "--memory", "1g", "--work-dir", str(place), master)
            running.enter_context(_daemon(place, "worker.Worker", r"(Successfully registered)", *words))
        yield master


@contextlib.contextmanager
def _daemon(folder: Path, name: str, said: str, *words: str) -> Iterator[str]:
    """Context manager: a Spark daemon; yields what the first group of the pattern `said` matches in its log.

    Ends the process when the context is left.
    """
    import pyspark

    folder.mkdir(parents=True)
    starter = Path(pyspark.__file__).parent / "bin" / "spark-class"
    log = folder / "log"
    with log.open("w", encoding="utf-8") as written:
        own = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        daemon = subprocess.Popen(
            [starter, f"org.apache.spark.deploy.{name}", *own, *words],
            stdout=subprocess.DEVNULL,
            stderr=written,
            cwd=folder,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"},
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(said, log.read_text(encoding="utf-8"))) is None:
            assert daemon.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < deadline, f"Spark's {name} did not start"
            time.sleep(0.1)
        yield found[1]
    finally:
        daemon.terminate()
        daemon.wait(PATIENCE)
