"""A running query can be stopped from another thread and by Ctrl-C, on every engine."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from setwise.analytics.engines.aggregation import Aggregation
from setwise.errors import EngineFailed
from tests.analytics.engines.backends import Backend


def test_cancelling_ends_the_query_and_the_engine_lives_on(backend: Backend):
    rows = 100_000
    generator = np.random.default_rng(5)
    table = pa.table({"u": generator.integers(50_000, size=rows), "i": generator.integers(1000, size=rows)})
    with backend.engine(table) as engine:
        raised: list[str] = []

        def ask() -> None:
            try:
                while True:
                    engine.histogram(Aggregation(user="u", item="i", contributions=3))
            except EngineFailed as error:
                raised.append(str(error))

        asking = threading.Thread(target=ask)
        asking.start()
        while asking.is_alive():
            engine.cancel()
            time.sleep(0.05)
        asking.join()
        assert raised == ["the query was cancelled"]
        assert len(engine.histogram(Aggregation(user="u"))) == 1


ENDLESS = """
import sys
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine

with open_engine(sys.argv[1]) as engine:
    # Arrow tries to import pandas when it is first used, and loses an interrupt that comes just then.
    engine.histogram(Aggregation(user="u", item="i", contributions=3))
    print("asking", flush=True)
    try:
        while True:
            engine.histogram(Aggregation(user="u", item="i", contributions=3))
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


def test_control_c_stops_duckdb(tmp_path: Path):
    generator = np.random.default_rng(5)
    table = pa.table({"u": generator.integers(500_000, size=2_000_000), "i": generator.integers(1000, size=2_000_000)})
    pq.write_table(table, tmp_path / "events.parquet")
    asking = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path / "events.parquet")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        # Started in the background, a test run ignores interrupts, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    assert asking.stdout is not None
    assert asking.stdout.readline() == "asking\n"
    time.sleep(1)
    asking.send_signal(signal.SIGINT)
    said, complained = asking.communicate(timeout=60)
    assert said == "stopped\n"
    assert complained == ""
    assert [path.name for path in tmp_path.iterdir()] == ["events.parquet"]
