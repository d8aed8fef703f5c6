"""How a runner reports: one JSON line per task, with the lines of code it took. Standard library only."""

import inspect
import json
import sys
import warnings
from collections.abc import Callable


class Unsupported(Exception):
    """The library has no way to do the task; the message says what is missing."""


def lines(*functions: Callable[..., object]) -> int:
    """Return how many lines the bodies of functions have, without blank ones and comments."""
    found = 0
    for function in functions:
        body = inspect.getsource(function).split("\n")[1:]
        found += sum(bool(line.strip()) and not line.strip().startswith(("#", '"""', "return {")) for line in body)
    return found


def report(
    opened: Callable[[], object],
    tasks: list[Callable[..., object]],
    runs: int,
    helpers: tuple[Callable[..., object], ...] = (),
    setting: str = "default",
) -> None:
    """Run every task a number of times on what `opened` returns each time, and print what it found.

    `helpers` are functions that every task calls, whose lines count with each. `setting` names the settings of the
    library for the same promise.
    """
    warnings.simplefilter("ignore")
    for task in tasks:
        line: dict[str, object] = {"task": task.__name__, "setting": setting, "lines": lines(opened, task, *helpers)}
        try:
            line["values"] = [task(opened()) for _ in range(int(sys.argv[1]) if sys.argv[1:] else runs)]
        except Unsupported as reason:
            line["unsupported"] = str(reason)
        except Exception as error:  # a library that fails is a result, not the end of the run
            line["failed"] = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        print(json.dumps(line), flush=True)
