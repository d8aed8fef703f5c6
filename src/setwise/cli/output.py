"""What commands print: one JSON object for programs; tables of values, accounts and answers for people; progress."""

import json
import math
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.accounting.brackets import CertifiedBound
from setwise.accounting.guarantees import Use, ZeroConcentratedDP
from setwise.accounting.notation import format_use, promise_in_words, rounded_down, rounded_up, shown_by, use_in_words

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from setwise.analytics.answer import PrivateAnswer
    from setwise.analytics.planning import Plan
    from setwise.analytics.sql.result import RowCell, SqlAnswer
    from setwise.ledger.records import Entry
    from setwise.ledger.register import Record
    from setwise.ledger.status import AccountStatus, Joint
    from setwise.mechanisms.release import Item

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

_COVERS = {
    "batch": "every mechanism chosen up front",
    "ordered": "parameters in this order, each mechanism chosen after the answers before it",
    "setwise": "parameters drawn in any order, order and mechanisms chosen after the answers so far",
    "adaptive": "parameters too chosen on the fly, up to these totals",
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


def _print_lines(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[str]
) -> None:
    """Print a table with headings and a line for each row; `numbers` are the columns that stand right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(markup=False).print(table)


def answer_rows(
    uses: Sequence[Use], answer: CertifiedBound, asked: tuple[str, float], found: str
) -> list[tuple[str, str]]:
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


def epsilon_left_in_words(status: "AccountStatus") -> str:
    """Return the epsilon that is left of an account's budget, rounded down, and the whole, as in "2.6 of 3"."""
    return f"{rounded_down(status.epsilon_left or 0.0, 2)} of {rounded_up(status.epsilon.upper, 4)}"


def _more_in_words(count: int) -> str:
    """Return how many more questions like the last one an account can pay for."""
    if not count:
        return "no other question like the last one fits"
    return f"{count:,} more question{'' if count == 1 else 's'} like the last one fit{'s' if count == 1 else ''}"


def _so_far(status: "AccountStatus") -> str:
    if not status.spent:
        return "nothing was drawn"
    odometer = status.odometer
    if odometer.upper > status.epsilon.upper:
        return f"epsilon {rounded_up(status.epsilon.upper)}, by the promise"
    path = (
        "" if math.isinf(status.path_odometer.upper) else f"; {rounded_up(status.path_odometer.upper, 4)} on the path"
    )
    return f"epsilon {rounded_up(odometer.upper, 4)} if the questions stop here{path}"


def print_status(status: "AccountStatus", *, as_json: bool) -> None:
    """Print how one account stands."""
    if as_json:
        print_json(status.to_dict())
        return
    every = f" per {status.every}, now {status.period}" if status.every else ""
    rows = [
        ("account", f"{status.name} ({status.kind}{'' if status.state == 'open' else f', {status.state}'})"),
        *_left_rows(status),
        ("so far", _so_far(status)),
        ("analyst", status.analyst or "-"),
        ("dataset", status.dataset or "-"),
        ("promise", f"epsilon {rounded_up(status.epsilon.upper)} at delta {status.delta:g}{every}"),
        ("in words", promise_in_words(status.epsilon.upper, status.delta)),
        ("statement", shown_by(status.epsilon.statement)),
        ("charges", f"{status.charges:,}"),
    ]
    print_table("Account", rows)


def _left_rows(status: "AccountStatus") -> list[tuple[str, str]]:
    if status.epsilon_left is not None:
        of_total = f"epsilon {epsilon_left_in_words(status)} left"
        fitting = f"; {_more_in_words(status.more_like_last)}" if status.more_like_last is not None else ""
        return [("left", f"{_bar(status.share_left)} {of_total}{fitting}")]
    left = {use.guarantee: use.count for use in status.left}
    spent = {use.guarantee: use.count for use in status.spent}
    rows = []
    for guarantee in {**left, **spent}:
        rest, total = left.get(guarantee, 0), left.get(guarantee, 0) + spent.get(guarantee, 0)
        rows.append(("left", f"{_bar(rest / total)} {rest:,} of {total:,}  {format_use(Use(guarantee))}"))
    return rows


def _short_left(status: "AccountStatus") -> str:
    """Return what is left in a few characters, as in "2.8 of 3" epsilon, or as a share of the registered uses."""
    return f"{status.share_left:.0%}" if status.epsilon_left is None else epsilon_left_in_words(status)


def _bar(share: float, width: int = _BAR) -> str:
    """Draw a share; a bar is empty only when nothing is left, and full only when all is."""
    filled = min(max(round(share * width), 1 if share > 0 else 0), width if share >= 1 else width - 1)
    full, empty = ("█", "░") if (sys.stdout.encoding or "").lower().startswith("utf") else ("#", "-")
    return full * filled + empty * (width - filled)


def print_statuses(statuses: Sequence["AccountStatus"]) -> None:
    """Print how all accounts stand, a line each."""
    columns = ("account", "dataset", "promise", "left", "so far", "charges")
    rows = (
        (
            f"{status.name} ({status.kind})",
            status.dataset,
            f"{rounded_up(status.epsilon.upper)} at {status.delta:g}{f' per {status.every}' if status.every else ''}",
            f"{_bar(status.share_left, 10)} {_short_left(status)}",
            rounded_up(status.loss_so_far, 4),
            f"{status.charges:,}",
        )
        for status in statuses
    )
    _print_lines("Accounts", columns, rows, numbers=("so far", "charges"))


def print_entries(name: str, entries: Sequence["Entry"]) -> None:
    """Print entries, a line each: when, what was asked, what it drew or gave back."""
    from setwise.analytics.present.text import charge_in_words

    rows = []
    for entry in entries:
        contents = entry.contents
        uses = ", ".join(map(format_use, entry.uses))
        shown = f"returned {uses}" if contents.kind == "settle" and uses else uses
        what = f"charge: {charge_in_words(contents.text)}" if contents.kind == "charge" else contents.kind
        if contents.kind == "slice":
            what = "slice of the cap"
        at = f"{entry.moment:%Y-%m-%d %H:%M:%S}"
        rows.append((str(entry.position), at, what, contents.key, shown, entry.hash[:12]))
    _print_lines(f"History of {name}", ("entry", "at (UTC)", "what", "key", "uses", "hash"), rows, numbers=("entry",))


def print_acts(records: Sequence["Record"]) -> None:
    """Print acts, a line each: when, what, by whom, to whom."""
    rows = []
    for record in records:
        act = record.event
        details = "" if act.kind == "head" else ", ".join(f"{name}: {value}" for name, value in act.details.items())
        at = f"{record.moment:%Y-%m-%d %H:%M:%S}"
        rows.append((str(record.holder), at, act.action, act.by, act.subject, details))
    columns = ("number", "at (UTC)", "action", "by", "subject", "details")
    _print_lines("Acts", columns, rows, numbers=("number",))


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


_WIDEST_BAR, _SHORTEST_BAR = 30, 6
"""Cells of the widest bar of a count, and of the narrowest that is worth drawing."""

_HEADING = 14
"""Cells after which a heading is folded."""


def show_answer(answer: "PrivateAnswer | SqlAnswer", status: "AccountStatus | None", *, details: bool) -> None:
    """Print the groups with their intervals, then what the numbers are, what is promised and what it cost.

    `status` is that of the account that paid, after the charge. `details` adds the formal promise, the mechanism and
    the uses that were spent.
    """
    from rich.console import Console

    from setwise.analytics.answer import PrivateAnswer, number

    console = Console()
    private = answer if isinstance(answer, PrivateAnswer) else answer.answer
    if len(answer):
        console.print(answer_table(answer, console.width) if isinstance(answer, PrivateAnswer) else sql_table(answer))
    problem = "" if isinstance(answer, PrivateAnswer) else answer.problem
    if problem:
        console.print(f"{problem}; these are the released rows", markup=False, highlight=False)
    if not isinstance(answer, PrivateAnswer) and answer.bounds:
        told = "; ".join(
            f"{each['of']} {number(each['low'])} to {number(each['high'])} ({each['source']})" for each in answer.bounds
        )
        console.print(f"bounds   {told}", markup=False, highlight=False, style="dim")
    console.print(_notes(private, status, details=details))


def sql_table(result: "SqlAnswer", truth: "dict[object, int] | None" = None) -> "Table":
    """Return the rows of a SELECT as a table, each statistic with its interval.

    `truth` adds a column of exact numbers by the first cell of a row, which only made-up data may show.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    rows = result.rows
    barred = {
        name: any(isinstance(cell := row[name], dict) and "interval" in cell for row in rows) for name in result.columns
    }
    for each in result.outputs:
        numbers = each.group is None and not any(isinstance(row[each.name], str) for row in rows)
        table.add_column(each.name, justify="right" if numbers else "left", overflow="fold")
        if barred[each.name]:
            table.add_column(f"{result.answer.confidence:.0%} interval", justify="right", style="dim", no_wrap=True)
    if truth:
        table.add_column("truth (made-up data)", justify="right", style="magenta", max_width=_HEADING)
    for row in rows:
        cells: list[str] = []
        for each in result.outputs:
            cells += _sql_cells(row[each.name], is_group=each.group is not None, barred=barred[each.name])
        exact = "" if not truth else f"{truth.get(row[result.columns[0]], 0):,}"
        table.add_row(*map(Text, cells), *([exact] if truth else []))
    return table


def _sql_cells(cell: "RowCell", *, is_group: bool, barred: bool) -> list[str]:
    """Return a cell of a row as text, with its interval in a second cell where the column has intervals (`barred`)."""
    from setwise.analytics.answer import number

    value = cell["value"] if isinstance(cell, dict) else cell
    ends = cell.get("interval") if isinstance(cell, dict) else None
    plain = is_group or value is None or isinstance(value, str | bool)
    shown = ("" if value is None else str(value)) if plain else number(value)  # type: ignore[arg-type]
    if not barred:
        return [shown]
    return [shown, "" if ends is None else f"{number(ends[0])} to {number(ends[1])}"]


def _with_intervals(answer: "PrivateAnswer") -> list[bool]:
    """Return of each statistic whether any item has an interval of it; quantiles have none."""
    places = range(len(answer.statistics))
    return [any(each.estimates[place].interval is not None for each in answer.items) for place in places] or [True]


def _estimated(value: float | None, ends: Sequence[float] | None, *, barred: bool) -> list[str]:
    """Return the cells of a statistic: its value, and its interval where it is `barred`."""
    from setwise.analytics.answer import number

    shown = "" if value is None else number(value)
    return [shown, "" if ends is None else f"{number(ends[0])} to {number(ends[1])}"] if barred else [shown]


def _notes(answer: "PrivateAnswer", status: "AccountStatus | None", *, details: bool) -> "Table":
    """Return the lines below an answer: a label and a sentence each."""
    from rich.table import Table
    from rich.text import Text

    lines = [
        ("numbers", _numbers_in_words(answer)),
        ("promise", answer.promise),
        ("cost", _cost_in_words(answer, status)),
    ]
    if answer.hint:
        lines.insert(1, ("hint", f"{answer.reason}: {answer.hint}"))
    if details:
        done = "complete" if answer.complete else "not complete"
        lines += [
            ("list", f"{done}: {answer.reason}"),
            ("measure", answer.measure),
            ("intervals", answer.interval_note),
            ("formally", answer.guarantee),
            ("spent", ", ".join(use_in_words(use) for use in answer.spent)),
            ("mechanism", answer.why),
        ]
        if status is not None:
            lines.append(("account", _account_in_words(status)))
    notes = Table.grid(padding=(0, 2))
    notes.add_column(style="cyan", no_wrap=True)
    notes.add_column(overflow="fold")
    for name, text in lines:
        if text:
            notes.add_row(name, Text(text))
    return notes


def _numbers_in_words(answer: "PrivateAnswer") -> str:
    """Return what the numbers count, what they leave out and what their intervals hold."""
    intervals = answer.interval_note.partition(". ")[0].rstrip(".")
    sentences = [f"{answer.heading[:1].upper()}{answer.heading[1:]}.", answer.left_out]
    return " ".join(filter(None, [*sentences, f"{intervals}." if intervals else ""]))


def _cost_in_words(answer: "PrivateAnswer", status: "AccountStatus | None") -> str:
    """Return what the answer cost as epsilon and delta, and what is left in the account that paid."""
    if answer.replayed:
        cost = "Nothing: this is the answer that was stored under this key"
    else:
        epsilon, delta = answer.alone or (answer.epsilon.upper, answer.delta)
        cost = f"Epsilon {rounded_up(epsilon, 3)}" + (f" at delta {rounded_up(delta, 3)}" if delta else "")
    return f"{cost}." if status is None else f"{cost}; {remaining_in_words(status)}."


def remaining_in_words(status: "AccountStatus") -> str:
    """Return what is left of an account's budget, as people say it: a share of its epsilon, or registered uses."""
    if status.kind == "setwise":
        return f"left in {status.name}: {left_in_words(status)}"
    return f"epsilon {epsilon_left_in_words(status)} left in {status.name}"


def _account_in_words(status: "AccountStatus") -> str:
    together = f"({rounded_up(status.epsilon.upper, 4)}, {status.delta:g})"
    how = status.epsilon.interaction
    return f"{status.name}: {left_in_words(status)} left; all its answers together are promised {together}, {how}"


def answer_table(answer: "PrivateAnswer", width: int, truth: "dict[object, int] | None" = None) -> "Table":
    """Return the items as a table no wider than `width`, with bars where there is room for them.

    `truth` adds a column of exact counts, which only made-up data may show.
    """
    from rich.table import Table
    from rich.text import Text

    if answer.statistics:
        return _statistics_table(answer)
    rows = [_cells(place, each, truth) for place, each in enumerate(answer.items, start=1)]
    headings = [
        "",
        ", ".join(answer.groups) or "item",
        answer.heading,
        f"{answer.confidence:.0%} interval",
        "truth (made-up data)",
    ]
    widest = [max(len(row[column]) for row in rows) for column in range(len(headings))]
    table = Table(box=None, pad_edge=False)
    table.add_column(headings[0], justify="right", style="dim", no_wrap=True)
    table.add_column(headings[1], overflow="fold")
    counted = any(each.count is not None for each in answer.items)
    shown = [0, 1]
    if counted:
        shown += [2, 3]
        table.add_column(headings[2], justify="right", max_width=max(_HEADING, widest[2]))
        table.add_column(headings[3], justify="right", style="dim", no_wrap=True)
    if truth is not None:
        shown.append(4)
        table.add_column(headings[4], justify="right", style="magenta", max_width=max(_HEADING, widest[4]))
    room = width - sum(max(widest[column], min(len(headings[column]), _HEADING)) + 2 for column in shown)
    barred = counted and room >= _SHORTEST_BAR
    if barred:
        table.add_column("", no_wrap=True)
    reach = max([1.0, *(float(each.interval[1]) for each in answer.items if each.interval is not None)])
    for row, each in zip(rows, answer.items, strict=True):
        bar = [_count_bar(each, reach, min(_WIDEST_BAR, room))] if barred else []
        table.add_row(*(Text(row[column]) for column in shown), *bar)
    return table


def _statistics_table(answer: "PrivateAnswer") -> "Table":
    """Return the statistics of every item: a value, and its interval where it has one."""
    from rich.table import Table
    from rich.text import Text

    from setwise.analytics.answer import in_words

    table = Table(box=None, pad_edge=False)
    table.add_column("", justify="right", style="dim", no_wrap=True)
    table.add_column(", ".join(answer.groups) or "item", overflow="fold")
    with_intervals = _with_intervals(answer)
    for name, barred in zip(answer.statistics, with_intervals, strict=True):
        table.add_column(name, justify="right", overflow="fold")
        if barred:
            table.add_column(f"{answer.confidence:.0%} interval", justify="right", style="dim", no_wrap=True)
    for place, each in enumerate(answer.items, start=1):
        cells = [str(place), in_words(each.label)]
        for found, barred in zip(each.estimates, with_intervals, strict=True):
            value, *interval = _estimated(found.value, found.interval, barred=barred)
            cells += [f"{value} (unreliable)" if found.unreliable else value, *interval]
        table.add_row(*map(Text, cells))
    return table


def _cells(place: int, each: "Item", truth: "dict[object, int] | None") -> list[str]:
    from setwise.analytics.answer import in_words

    low, high = each.interval or (0, 0)
    counted = ["", ""] if each.count is None else [f"{each.count:,}", f"{low:,} to {high:,}"]
    return [str(place), in_words(each.label), *counted, "" if truth is None else f"{truth.get(each.label, 0):,}"]


def _count_bar(each: "Item", reach: float, width: int) -> "Text":
    """Return the count as a bar, and lighter how far the interval reaches beyond it."""
    from rich.text import Text

    high = 0 if each.interval is None else each.interval[1]
    likely, possible = (max(0, round(width * value / reach)) for value in (float(each.count or 0), high))
    return Text.assemble(("█" * likely, "blue"), ("░" * max(0, possible - likely), "blue"))


def show_preview(plan: "Plan", shortage: str | None, warning: str | None = None, *, as_json: bool) -> None:
    """Print what would be run, what it costs at most, how far off it may be, and why an account cannot pay for it."""
    if as_json:
        print_json({**plan.to_dict(), "shortage": shortage, "warning": warning})
        return
    rows = [
        ("mechanism", plan.mechanism),
        ("why", plan.why),
        ("at most", "  ".join(format_use(use) for use in plan.uses)),
        ("epsilon", f"{rounded_up(plan.epsilon.upper)} at delta {plan.delta:g} ({plan.interaction})"),
    ]
    if plan.alone is not None:
        epsilon, delta = plan.alone
        rows.append(("by itself", f"{rounded_up(epsilon)} at delta {rounded_up(delta)}"))
    if shortage is not None:
        rows.append(("too little left", shortage))
    if warning is not None:
        rows.append(("warning", warning))
    expected = plan.error
    if expected.radius is not None and expected.expected_error is not None:
        within = f"within ±{expected.radius:,} with probability {float(expected.confidence):.0%}"
        if expected.detectable is not None and "+" not in plan.mechanism:  # the counts themselves pass the threshold
            within += " where clear of the threshold"
        rows.append(("count error", f"{expected.expected_error:.3g} on average, {within}"))
    if expected.detectable is not None:
        rows.append(("found when", f"a count is {expected.detectable:,} above those left out"))
    if expected.shortfall is not None:
        rows.append(("in order when", f"counts are apart by {expected.shortfall:,}"))
    print_table("Preview: nothing was read or charged", rows)
