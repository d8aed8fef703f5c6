"""How answers and previews look in a terminal."""

from typing import TYPE_CHECKING

from setwise.accounting.notation import format_use
from setwise.accounting.written import rounded_up
from setwise.analytics.words import guarantee_in_words, number
from setwise.cli.report import print_json

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from setwise.analytics.planned import Planned
    from setwise.analytics.private_answer import AnswerItem, PrivateAnswer
    from setwise.ledger.standing import Standing

_BAR = 30
"""Cells of the widest bar."""


def show_answer(answer: "PrivateAnswer", standing: "Standing | None") -> None:
    """Print the items as bars with their intervals, then the promise and the reasons in words."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if answer.items:
        console.print(answer_table(answer))
    done = "complete" if answer.complete else "not complete"
    lines = [
        ("list", f"{done}: {answer.reason}"),
        ("promise", guarantee_in_words(answer)),
        ("spent", "  ".join(format_use(use) for use in answer.spent)),
        *([("charged", "nothing now: this is the answer that was stored under this key")] if answer.replayed else []),
        ("mechanism", answer.why),
    ]
    if standing is not None:
        lines.append(("account", _account_in_words(standing)))
    notes = Table.grid(padding=(0, 2))
    notes.add_column(style="cyan", no_wrap=True)
    notes.add_column(overflow="fold")
    for name, text in lines:
        notes.add_row(name, Text(text))
    console.print(notes)


def _account_in_words(standing: "Standing") -> str:
    from setwise.cli.ledger_view import left_in_words

    together = f"({rounded_up(standing.epsilon.upper, 4)}, {standing.delta:g})"
    how = standing.epsilon.interaction
    return f"{standing.name}: {left_in_words(standing)} left; all its answers together are promised {together}, {how}"


def answer_table(answer: "PrivateAnswer", truth: "dict[object, int] | None" = None) -> "Table":
    """Return the items as a table; `truth` adds a column of exact counts, which only made-up data may show."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    counted = any(each.count is not None for each in answer.items)
    reach = max([1.0, *(float(each.interval[1]) for each in answer.items if each.interval is not None)])
    table.add_column("", justify="right", style="dim")
    table.add_column("item", overflow="fold")
    if counted:
        table.add_column(answer.measure, justify="right")
        table.add_column(f"{answer.confidence:.0%} interval", justify="right", style="dim")
        table.add_column("")
    if truth is not None:
        table.add_column("truth (made-up data)", justify="right", style="magenta")
    for place, each in enumerate(answer.items, start=1):
        cells: list[Text | str] = [str(place), Text(str(each.item))]
        if counted:
            low, high = each.interval or (0, 0)
            cells += [number(each.count or 0), f"{low:,} to {high:,}", _bar(each, reach)]
        if truth is not None:
            cells.append(f"{truth.get(each.item, 0):,}")
        table.add_row(*cells)
    return table


def _bar(each: "AnswerItem", reach: float) -> "Text":
    """Return the count as a bar, and lighter how far the interval reaches beyond it."""
    from rich.text import Text

    high = 0 if each.interval is None else each.interval[1]
    likely, possible = (max(0, round(_BAR * value / reach)) for value in (float(each.count or 0), high))
    return Text.assemble(("█" * likely, "blue"), ("░" * max(0, possible - likely), "blue"))


def show_preview(planned: "Planned", shortage: str | None, *, as_json: bool) -> None:
    """Print what would be run, what it costs at most, how far off it may be, and why an account cannot pay for it."""
    expected = planned.preview
    if as_json:
        print_json(
            {
                "mechanism": planned.name,
                "why": planned.why,
                "uses": [format_use(use) for use in planned.uses],
                "interaction": str(planned.overall.interaction),
                "epsilon": {"lower": planned.overall.lower, "upper": planned.overall.upper},
                "delta": planned.delta,
                "expected_error": expected.expected_error,
                "radius": expected.radius,
                "detectable": expected.detectable,
                "shortfall": expected.shortfall,
                "confidence": float(expected.confidence),
                "alone": None if planned.alone is None else dict(zip(("epsilon", "delta"), planned.alone, strict=True)),
                "shortage": shortage,
            }
        )
        return
    from setwise.cli.report import print_table

    rows = [
        ("mechanism", planned.name),
        ("why", planned.why),
        ("at most", "  ".join(format_use(use) for use in planned.uses)),
        ("epsilon", f"{rounded_up(planned.overall.upper)} at delta {planned.delta:g} ({planned.overall.interaction})"),
    ]
    if planned.alone is not None:
        epsilon, delta = planned.alone
        rows.append(("by itself", f"{rounded_up(epsilon)} at delta {rounded_up(delta)}"))
    if shortage is not None:
        rows.append(("too little left", shortage))
    if planned.shows_counts and expected.radius is not None and expected.expected_error is not None:
        within = f"within ±{expected.radius:,} with probability {float(expected.confidence):.0%}"
        rows.append(("count error", f"{expected.expected_error:.3g} on average, {within}"))
    if expected.detectable is not None:
        rows.append(("found when", f"a count is ahead by {expected.detectable:,}"))
    if expected.shortfall is not None:
        rows.append(("in order when", f"counts are apart by {expected.shortfall:,}"))
    print_table("Preview: nothing was read or charged", rows)
