"""Spark on a cluster of two workers, each a process of its own: nothing depends on local mode."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.servers.spark import MASTER, standalone_cluster

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
SHARED = ["test_contract.py", "test_measures.py", "test_group_weights.py", "test_joined_tables.py", "test_prepared.py"]
"""The files of tests that every engine passes, and that are run here on the cluster."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def test_what_every_engine_does_is_done_on_a_cluster(master: str, tmp_path: Path):
    report = tmp_path / "report.xml"
    words = ["-k", "spark", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", f"--junitxml={report}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *(str(HERE / name) for name in SHARED)],
        env={**os.environ, MASTER: master, "PYSPARK_PYTHON": sys.executable},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    found = ElementTree.parse(report).getroot().find("testsuite")
    assert found is not None
    assert int(found.attrib["tests"]) >= 70
    assert found.attrib["skipped"] == "0"


def test_the_command_line_asks_a_cluster(master: str, tmp_path: Path):
    rows = [(user, f"page{(user * user + turn) % 7}") for user in range(4000) for turn in range(1 + user % 3)]
    names, pages = zip(*rows, strict=True)
    for part in range(4):  # several files, so that both workers read
        pq.write_table(pa.table({"who": names[part::4], "page": pages[part::4]}), tmp_path / f"{part}.parquet")
    question = ["top-k", str(tmp_path), "--user", "who", "--item", "page", "-k", "3", "--contributions", "3"]
    done = subprocess.run(
        [sys.executable, "-m", "setwise", *question, "--engine", master, "--epsilon", "5", "--delta", "1e-6"],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    counted = {}
    for _, page in set(rows):
        counted[page] = counted.get(page, 0) + 1
    first = sorted(counted, key=counted.__getitem__, reverse=True)[:3]
    assert all(page in done.stdout for page in first), done.stdout
