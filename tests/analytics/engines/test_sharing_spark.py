"""A process has one Spark session: closing one table must not take it from the others."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SCRIPT = """
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pyspark import SparkContext
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine
from setwise.errors import UnsuitableTable

def opened(file):
    with ThreadPoolExecutor(1) as thread:  # each table is opened on a thread of its own, as the service does
        return thread.submit(open_engine, file, "local[1]").result()

first, second = opened(sys.argv[1]), opened(sys.argv[1])
second.close()
second.close()
heap = SparkContext._active_spark_context._jvm.java.lang.Runtime.getRuntime().maxMemory()
quarter = max(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4, 2**30)
print(0.8 < heap / quarter < 1.2, "SPARK_DRIVER_MEMORY" in os.environ)
try:
    opened(sys.argv[1] + ".missing.parquet")
except UnsuitableTable:
    print("refused")
print(first.histogram(Aggregation(user="who", item="what", contributions=1)).counts.tolist())
first.close()
print(SparkContext._active_spark_context is None)
"""


@pytest.mark.usefixtures("spark_session")
def test_the_session_is_stopped_with_the_last_table_on_it(tmp_path: Path):
    pq.write_table(pa.table({"who": [1, 2], "what": ["a", "a"]}), tmp_path / "table.parquet")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "table.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    # The driver has a quarter of the machine's memory, and the variable that says so is gone.
    assert done.stdout.split() == ["True", "False", "refused", "[2]", "True"], done.stderr[-2000:]


def test_the_operators_memory_for_the_driver_stands(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("pyspark")
    from setwise.analytics.engines.spark.engine import _default_driver_memory

    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "3g")
    with _default_driver_memory():
        assert os.environ["SPARK_DRIVER_MEMORY"] == "3g"
    assert os.environ["SPARK_DRIVER_MEMORY"] == "3g"


def test_a_session_of_the_caller_outlives_the_table(tmp_path: Path, spark_session):
    from setwise.analytics.engines.connect import open_engine

    pq.write_table(pa.table({"who": [1, 2], "what": ["a", "a"]}), tmp_path / "table.parquet")
    open_engine(str(tmp_path / "table.parquet"), "spark").close()
    assert spark_session.range(3).count() == 3
