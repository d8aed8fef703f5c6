"""How a runner reports: one JSON line per task. Standard library only, so that every peer's interpreter can read it."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_ENOUGH = 2.0
"""Seconds after which a task is not repeated a second time."""

_RUNS = 7


class Unsupported(Exception):
    """The peer has no way to do the task; the message says what is missing."""


def report(tasks: Iterable[tuple[str, Callable[[], Mapping[str, Any]]]]) -> None:
    """Run every task, the fastest of a few times, and print what it found, how long it took, or why it cannot."""
    for name, task in tasks:
        line: dict[str, Any] = {"task": name}
        try:
            line |= _timed(task)
        except Unsupported as reason:
            line |= {"unsupported": str(reason)}
        except Exception as error:  # a peer that fails is a result, not the end of the run
            line |= {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
        print(json.dumps(line), flush=True)


def _timed(task: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the task found with its shortest time on the clock and on the processor, in seconds.

    The clock also measures what else the machine does; the processor's time only what this process does, with all its
    threads, but not a Java machine it has started.
    """
    times: list[tuple[float, float]] = []
    found: dict[str, Any] = {}
    spent = 0.0
    while len(times) < 2 or (len(times) <= _RUNS and spent < _ENOUGH):
        clock, processor = time.perf_counter(), time.process_time()
        found = dict(task())
        times.append((time.perf_counter() - clock, time.process_time() - processor))
        spent += times[-1][0]
    measured = times[1:]  # the first run warms up
    return {
        **found,
        "seconds": min(clock for clock, _ in measured),
        "processor": min(processor for _, processor in measured),
    }


def wanted(tasks: Mapping[str, Callable[[], Mapping[str, Any]]]) -> list[tuple[str, Callable[[], Mapping[str, Any]]]]:
    """Return the tasks named on the command line, or all; `histogram` also names `histogram-gaussian` and the like."""
    names = sys.argv[1:]
    return [
        (task_name, task)
        for task_name, task in tasks.items()
        if not names or any(task_name == name or task_name.startswith(f"{name}-") for name in names)
    ]
