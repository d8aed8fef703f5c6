"""Updates in a process of their own, which a test kills."""

import multiprocessing
import os
import time
from collections.abc import Sequence
from datetime import date, timedelta
from multiprocessing.process import BaseProcess

PER_PROCESS = 2
"""Periods that one process releases, each with an update of its own, before it waits to be killed."""

_SMALL_SPARK = (
    "--master local[1] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=1 --conf spark.log.level=OFF "
    "--conf spark.driver.host=127.0.0.1 --conf spark.driver.bindAddress=127.0.0.1 "
    "--conf spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 --driver-memory 512m pyspark-shell"
)
"""Options of the Spark that a process starts, for small tables."""

_PROCESSES = multiprocessing.get_context("forkserver")


def update_and_wait(url: str, state: str, first: int) -> None:
    """Release the periods `first` and `first` + 1 of the series "reach", one by one, and then wait for the end.

    `url` is the address of the ledger, and `state` that of the private state of the series.
    """
    os.environ["PYSPARK_SUBMIT_ARGS"] = _SMALL_SPARK
    from setwise.ledger.ledger import Ledger
    from setwise.live.series import find_live

    with Ledger.open(url) as ledger:
        for place in range(first, first + PER_PROCESS):
            until = date(2026, 1, 1) + timedelta(days=place + 1)
            find_live(ledger, "reach").update(until=until, today=date(2030, 1, 1), state=state)
    time.sleep(600)  # so that no process stays for long if the test itself is killed


def start_update(url: str, state: str, first: int, modules: Sequence[str]) -> BaseProcess:
    """Return a new process that runs `update_and_wait`.

    Processes are forked from a server that has imported the `modules` before, so that starting one takes milliseconds.
    """
    _PROCESSES.set_forkserver_preload(list(modules))
    process = _PROCESSES.Process(target=update_and_wait, args=(url, state, first), daemon=True)
    process.start()
    return process
