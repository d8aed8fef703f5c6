"""A real Spark in local mode for the tests: one session per test process, without its web pages."""

import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark_session() -> "Iterator[SparkSession]":
    """A session on two cores; without Java the test is skipped, and fails under CI=true."""
    missing = _missing()
    if missing:
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory(prefix="setwise-spark-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = (
            SparkSession.builder.master("local[2]")
            .appName("setwise-tests")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "1g")
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
