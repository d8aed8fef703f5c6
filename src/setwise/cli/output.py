"""What commands print: one JSON object for programs; tables of values, accounts and entries for people; progress."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from setwise.accounting.brackets import Answer
from setwise.accounting.guarantees import Use, ZeroConcentratedDP
from setwise.accounting.notation import format_use, promise_in_words, rounded_down, rounded_up, shown_by

if TYPE_CHECKING:
    from setwise.ledger.records import Entry
    from setwise.ledger.register import Record
    from setwise.ledger.status import AccountStatus, Joint

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
def progress(what: str, detail: Callable[[float], str] = lambda _: "") -> Iterator[Callable[[float], None]]:
    """Yield a function to call with the share done; on a terminal a line follows it after `PATIENCE` seconds.

    `detail` returns, from the share, what the line says beside it.
    """
    started = time.monotonic()
    shown, width = -1, 0

    def report(share: float) -> None:
        nonlocal shown, width
        percent = int(100 * share)
        if sys.stderr.isatty() and time.monotonic() - started > PATIENCE and percent != shown:
            line = f"{what}: {percent:3d}%{detail(share)}"
            shown, width = percent, max(width, len(line))
            print(f"\r{line:<{width}}", end="", file=sys.stderr, flush=True)

    try:
        yield report
    finally:
        if width:
            print("\r" + " " * width + "\r", end="", file=sys.stderr, flush=True)


_BAR = 24


def _written(uses: Sequence[Use]) -> list[str]:
    return [format_use(use) for use in uses]


def left_in_words(status: "AccountStatus") -> str:
    """Return what is left: registered uses, or the largest single use of a filter with a few digits, rounded down."""
    written = []
    for use in status.left:
        match use.guarantee:
            case ZeroConcentratedDP(rho=rho, delta=delta) if status.kind != "setwise":
                written.append(f"zcdp:{rounded_down(rho, 4)},0,{rounded_down(delta, 4)}")
            case _:
                written.append(format_use(use))
    return "  ".join(written) or "nothing"


def _so_far(status: "AccountStatus") -> str:
    if not status.spent:
        return "nothing was drawn"
    odometer = status.odometer
    if odometer.upper > status.epsilon.upper:
        return f"epsilon {rounded_up(status.epsilon.upper)}, by the promise"
    return f"epsilon {rounded_up(odometer.upper)} ({odometer.method})"


def print_status(status: "AccountStatus") -> None:
    """Print how one account stands."""
    every = f" per {status.every}, now {status.period}" if status.every else ""
    rows = [
        ("account", f"{status.name} ({status.kind}{'' if status.state == 'open' else f', {status.state}'})"),
        ("analyst", status.analyst or "-"),
        ("dataset", status.dataset or "-"),
        ("promise", f"epsilon {rounded_up(status.epsilon.upper)} at delta {status.delta:g}{every}"),
        ("in words", promise_in_words(status.epsilon.upper, status.delta)),
        ("statement", shown_by(status.epsilon.statement)),
        *_left_rows(status),
        ("so far", _so_far(status)),
        ("charges", f"{status.charges:,}"),
    ]
    print_table("Account", rows)


def _left_rows(status: "AccountStatus") -> list[tuple[str, str]]:
    if status.kind != "setwise":
        return [("left", f"{_bar(status.share_left)} {status.share_left:.1%}, at most {left_in_words(status)}")]
    left = {use.guarantee: use.count for use in status.left}
    spent = {use.guarantee: use.count for use in status.spent}
    rows = []
    for guarantee in {**left, **spent}:
        rest, total = left.get(guarantee, 0), left.get(guarantee, 0) + spent.get(guarantee, 0)
        rows.append(("left", f"{_bar(rest / total)} {rest:,} of {total:,}  {format_use(Use(guarantee))}"))
    return rows


def _bar(share: float, width: int = _BAR) -> str:
    """Draw a share; a bar is empty only when nothing is left, and full only when all is."""
    filled = min(max(round(share * width), 1 if share > 0 else 0), width if share >= 1 else width - 1)
    full, empty = ("█", "░") if (sys.stdout.encoding or "").lower().startswith("utf") else ("#", "-")
    return full * filled + empty * (width - filled)


def print_statuses(statuses: Sequence["AccountStatus"]) -> None:
    """Print how all accounts stand, a line each."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Accounts", title_justify="left", title_style="bold")
    for name in ("account", "dataset", "promise", "left"):
        table.add_column(name, overflow="fold")
    for name in ("so far", "charges"):
        table.add_column(name, justify="right")
    for status in statuses:
        every = f" per {status.every}" if status.every else ""
        table.add_row(
            f"{status.name} ({status.kind})",
            status.dataset,
            f"{rounded_up(status.epsilon.upper)} at {status.delta:g}{every}",
            f"{_bar(status.share_left, 10)} {status.share_left:.0%}",
            rounded_up(status.loss_so_far),
            f"{status.charges:,}",
        )
    Console(markup=False).print(table)


def print_entries(name: str, entries: Sequence["Entry"]) -> None:
    """Print entries, a line each: when, what was asked, what it drew or gave back."""
    from rich.console import Console
    from rich.table import Table

    from setwise.analytics.present.text import charge_in_words

    table = Table(title=f"History of {name}", title_justify="left", title_style="bold")
    table.add_column("entry", justify="right")
    for column in ("at (UTC)", "what", "key", "uses", "hash"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        contents = entry.contents
        uses = ", ".join(_written(entry.uses))
        shown = f"returned {uses}" if contents.kind == "settle" and uses else uses
        at = f"{entry.moment:%Y-%m-%d %H:%M:%S}"
        what = f"charge: {charge_in_words(contents.text)}" if contents.kind == "charge" else contents.kind
        if contents.kind == "slice":
            what = "slice of the cap"
        table.add_row(str(entry.position), at, what, contents.key, shown, entry.hash[:12])
    Console(markup=False).print(table)


def print_acts(records: Sequence["Record"]) -> None:
    """Print acts, a line each: when, what, by whom, to whom."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Acts", title_justify="left", title_style="bold")
    table.add_column("number", justify="right")
    for column in ("at (UTC)", "action", "by", "subject", "details"):
        table.add_column(column, overflow="fold")
    for record in records:
        act = record.act
        details = "" if act.kind == "head" else ", ".join(f"{name}: {value}" for name, value in act.details.items())
        at = f"{record.moment:%Y-%m-%d %H:%M:%S}"
        table.add_row(str(record.holder), at, act.action, act.by, act.subject, details)
    Console(markup=False).print(table)


def print_joint(joint: "Joint") -> None:
    """Print the joint promise of the accounts on a dataset."""
    promise = f"epsilon {rounded_up(joint.epsilon.upper)} at delta {joint.delta:g}"
    rows = [
        ("dataset", joint.dataset),
        ("accounts", ", ".join(joint.accounts)),
        ("together", f"{promise}, over {joint.periods} period(s) of each"),
        ("method", joint.epsilon.method),
        ("in words", promise_in_words(joint.epsilon.upper, joint.delta)),
        ("statement", shown_by(joint.epsilon.statement)),
    ]
    if joint.cap is not None:
        cap = joint.cap
        limit = f"epsilon {rounded_up(cap.epsilon.upper)} at delta {cap.delta:g}, for good"
        rows.append(("cap", f"{limit}; {_bar(cap.share_left)} {cap.share_left:.1%} left"))
    print_table("Joint promise", rows)
