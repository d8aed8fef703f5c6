"""What every command prints with: one JSON object for programs, a table of names and values for people, progress."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from setwise.accounting.answer import Answer
from setwise.accounting.guarantees import Use
from setwise.accounting.notation import format_use, promise_in_words, rounded_down, rounded_up, shown_by

_COVERS = {
    "batch": "every mechanism chosen up front",
    "ordered": "parameters in this order, each mechanism chosen after the answers before it",
    "setwise": "parameters drawn in any order, order and mechanisms chosen after the answers so far",
    "adaptive": "parameters too chosen on the fly, up to these totals",
}


def as_json(epsilon: tuple[float, float], delta: tuple[float, float], answer: Answer) -> dict[str, object]:
    """Return the object that `--json` prints: a contract."""
    return {
        "interaction": str(answer.interaction),
        "epsilon": {"lower": epsilon[0], "upper": epsilon[1]},
        "delta": {"lower": delta[0], "upper": delta[1]},
        "method": answer.method,
        "statement": answer.statement,
    }


def print_json(value: dict[str, object]) -> None:
    """Print one object."""
    print(json.dumps(value, allow_nan=False))


def print_table(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print a table of names and values."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, show_header=False, title_justify="left", title_style="bold")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    Console(markup=False).print(table)


def answer_rows(uses: Sequence[Use], answer: Answer, asked: tuple[str, float], found: str) -> list[tuple[str, str]]:
    """Return the rows that explain an answer: what was composed, the promise, and what it rests on."""
    name, value = asked
    lower, upper = rounded_down(answer.lower), rounded_up(answer.upper)
    where = "there" if f"{answer.lower:.6g}" == upper else f"between {lower} and {upper}"
    return [
        ("uses", "  ".join(format_use(use) for use in uses)),
        ("interaction", f"{answer.interaction}: {_COVERS[str(answer.interaction)]}"),
        (name, f"{value:g}"),
        (found, f"{upper} is promised (the optimum lies {where})"),
        ("in words", promise_in_words(*((value, answer.upper) if found == "delta" else (answer.upper, value)))),
        ("method", answer.method),
        ("statement", shown_by(answer.statement)),
    ]


PATIENCE = 2.0
"""Seconds before progress is shown."""


@contextmanager
def progress(what: str) -> Iterator[Callable[[float], None]]:
    """Yield a function to call with the share done; on a terminal a line follows it after `PATIENCE` seconds."""
    started = time.monotonic()
    shown = -1

    def report(share: float) -> None:
        nonlocal shown
        percent = int(100 * share)
        if sys.stderr.isatty() and time.monotonic() - started > PATIENCE and percent != shown:
            shown = percent
            print(f"\r{what}: {percent:3d}%", end="", file=sys.stderr, flush=True)

    try:
        yield report
    finally:
        if shown >= 0:
            print("\r" + " " * (len(what) + 8) + "\r", end="", file=sys.stderr, flush=True)
