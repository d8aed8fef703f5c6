"""How answers and previews are shown: tables with bars for people, JSON for programs."""

from typing import TYPE_CHECKING

from setwise.accounting.notation import format_use, rounded_up, use_in_words
from setwise.analytics.answer import in_words, number
from setwise.cli.output import left_in_words, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table
    from rich.text import Text

    from setwise.analytics.answer import PrivateAnswer
    from setwise.analytics.planning import Plan
    from setwise.analytics.sql.result import SqlAnswer
    from setwise.ledger.status import AccountStatus
    from setwise.mechanisms.release import Item

_BAR, _SHORTEST_BAR = 30, 6
"""Cells of the widest bar, and of the narrowest that is worth drawing."""

_HEADING = 14
"""Cells after which a heading is folded."""


def show_answer(answer: "PrivateAnswer", status: "AccountStatus | None") -> None:
    """Print the items as bars with their intervals, then the promise and the reasons in words."""
    from rich.console import Console

    console = Console()
    if answer.items:
        console.print(answer_table(answer, console.width))
    console.print(_notes(answer, status))


def show_rows(result: "SqlAnswer", status: "AccountStatus | None") -> None:
    """Print the rows of a SELECT, each statistic with its interval, then the promise and the reasons in words."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=None, pad_edge=False)
    barred = _with_intervals(result.answer)
    for each in result.outputs:
        table.add_column(each.name, justify="left" if each.statistic is None else "right", overflow="fold")
        if each.statistic is not None and barred[each.statistic]:
            table.add_column(f"{result.answer.confidence:.0%} interval", justify="right", style="dim", no_wrap=True)
    for row in result.rows:
        cells: list[str] = []
        for each, value in zip(result.outputs, row.values(), strict=True):
            if isinstance(value, dict):
                cells += _estimated(value["value"], value["interval"], barred=barred[each.statistic or 0])
            else:
                cells.append(str(value))
        table.add_row(*map(Text, cells))
    if result.rows:
        console.print(table)
    console.print(_notes(result.answer, status))


def _with_intervals(answer: "PrivateAnswer") -> list[bool]:
    """Return of each statistic whether any item has an interval of it; quantiles have none."""
    places = range(len(answer.statistics))
    return [any(each.estimates[place].interval is not None for each in answer.items) for place in places] or [True]


def _estimated(value: float | None, ends: "Sequence[float] | None", *, barred: bool) -> list[str]:
    shown = "" if value is None else number(value)
    return [shown, "" if ends is None else f"{number(ends[0])} to {number(ends[1])}"] if barred else [shown]


def _notes(answer: "PrivateAnswer", status: "AccountStatus | None") -> "Table":
    """Return the promise and the reasons in words."""
    from rich.table import Table
    from rich.text import Text

    done = "complete" if answer.complete else "not complete"
    lines = [
        ("list", f"{done}: {answer.reason}{f' ({answer.hint})' if answer.hint else ''}"),
        ("promise", answer.promise),
        ("formally", answer.guarantee),
        ("spent", ", ".join(use_in_words(use) for use in answer.spent)),
        *([("charged", "nothing now: this is the answer that was stored under this key")] if answer.replayed else []),
        ("mechanism", answer.why),
    ]
    if answer.interval_note:
        lines.insert(1, ("intervals", answer.interval_note))
    if answer.heading != answer.measure:
        lines.insert(1, ("measure", answer.measure))
    if status is not None:
        lines.append(("account", _account_in_words(status)))
    notes = Table.grid(padding=(0, 2))
    notes.add_column(style="cyan", no_wrap=True)
    notes.add_column(overflow="fold")
    for name, text in lines:
        notes.add_row(name, Text(text))
    return notes


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
        bar = [_bar(each, reach, min(_BAR, room))] if barred else []
        table.add_row(*(Text(row[column]) for column in shown), *bar)
    return table


def _statistics_table(answer: "PrivateAnswer") -> "Table":
    """Return the statistics of every item: a value, and its interval where it has one."""
    from rich.table import Table
    from rich.text import Text

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
            cells += _estimated(found.value, found.interval, barred=barred)
        table.add_row(*map(Text, cells))
    return table


def _cells(place: int, each: "Item", truth: "dict[object, int] | None") -> list[str]:
    low, high = each.interval or (0, 0)
    counted = ["", ""] if each.count is None else [f"{each.count:,}", f"{low:,} to {high:,}"]
    return [str(place), in_words(each.label), *counted, "" if truth is None else f"{truth.get(each.label, 0):,}"]


def _bar(each: "Item", reach: float, width: int) -> "Text":
    """Return the count as a bar, and lighter how far the interval reaches beyond it."""
    from rich.text import Text

    high = 0 if each.interval is None else each.interval[1]
    likely, possible = (max(0, round(width * value / reach)) for value in (float(each.count or 0), high))
    return Text.assemble(("█" * likely, "blue"), ("░" * max(0, possible - likely), "blue"))


def show_preview(plan: "Plan", shortage: str | None, *, as_json: bool) -> None:
    """Print what would be run, what it costs at most, how far off it may be, and why an account cannot pay for it."""
    if as_json:
        print_json({**plan.to_dict(), "shortage": shortage})
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
