"""Output of commands: JSON, tables, bars, formats of numbers, progress lines, and the remaining budget in words."""

import json
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from setwise.accounting.brackets import CertifiedBound
from setwise.accounting.guarantees import Use, ZeroConcentratedDP
from setwise.accounting.notation import format_use, shown_by, use_in_words
from setwise.accounting.promises import promise_in_words, promised_pair, rounded_down, rounded_up
from setwise.cli.advice.option_names import with_option_names

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from setwise.analytics.answer import PrivateAnswer
    from setwise.analytics.sql.result import RowCell, SqlAnswer
    from setwise.ledger.status import AccountStatus
    from setwise.mechanisms.release import Item

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
"""The option --json."""

_COVERS = {
    "batch": "every mechanism chosen up front",
    "ordered": "parameters in this order, each mechanism chosen after the answers before it",
    "setwise": "parameters drawn in any order, order and mechanisms chosen after the answers so far",
    "adaptive": "parameters too chosen on the fly, up to these totals",
}
"""What each interaction allows the analyst to choose, in words."""


def print_json(value: Mapping[str, object]) -> None:
    """Print `value` as one JSON object on one line."""
    print(json.dumps(value, allow_nan=False))


def print_table(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print a table of two columns under `title`; `rows` are pairs (name, value)."""
    from rich.console import Console
    from rich.table import Table

    from setwise.analytics.present.text import visible_text

    table = Table(title=title, show_header=False, title_justify="left", title_style="bold")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(visible_text(name), visible_text(value))
    Console(markup=False).print(table)


def print_lines(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[str]) -> None:
    """Print a table under `title`, with the column headings `columns` and one line for each of `rows`.

    The columns whose headings are in `numbers` are aligned to the right.
    """
    from rich.console import Console
    from rich.table import Table

    from setwise.analytics.present.text import visible_text

    table = Table(title=title, title_justify="left", title_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(visible_text, row))
    Console(markup=False).print(table)


def answer_rows(
    uses: Sequence[Use], answer: CertifiedBound, stated: tuple[str, float], missing: str
) -> list[tuple[str, str]]:
    """Return rows (label, text) that explain a composition: its mechanisms, its (epsilon, delta), and the theorem.

    - `uses`: the composed mechanisms, each as a privacy guarantee and a number of runs
    - `stated`: the name and value of the parameter that the user stated, such as ("delta", 1e-6)
    - `missing`: the name of the parameter that was computed, such as "epsilon"
    - `answer`: the certified bound on the computed parameter
    """
    name, value = stated
    lower, upper = rounded_down(answer.lower), rounded_up(answer.upper)
    where = "there" if f"{answer.lower:.6g}" == upper else f"between {lower} and {upper}"
    return [
        ("uses", "  ".join(format_use(use) for use in uses)),
        ("interaction", f"{answer.interaction}: {_COVERS[str(answer.interaction)]}"),
        (name, f"{value:g}"),
        (missing, f"{upper} is promised (the optimum lies {where})"),
        ("in words", promise_in_words(*((value, answer.upper) if missing == "delta" else (answer.upper, value)))),
        ("method", answer.method),
        ("statement", shown_by(answer.statement)),
    ]


PATIENCE = 2.0
"""The number of seconds before progress is shown."""


@contextmanager
def progress(work: str, detail: Callable[[float], str] = lambda _: "") -> Iterator[Callable[[float], None]]:
    """Context manager that yields a function which shows progress as a line on a terminal.

    The function takes the share of the work that is done, from 0 to 1. The line begins with `work`, the name of the
    work. Quick work shows no line: it appears only after `PATIENCE` (2) seconds. `detail` takes the same share, and
    returns the text to show after the percentage.
    """
    started = time.monotonic()
    shown, width = -1, 0

    def report(share: float) -> None:
        nonlocal shown, width
        percent = int(100 * share)
        if sys.stderr.isatty() and time.monotonic() - started > PATIENCE and percent != shown:
            line = f"{work}: {percent:3d}%{detail(share)}"
            shown, width = percent, max(width, len(line))
            print(f"\r{line:<{width}}", end="", file=sys.stderr, flush=True)

    try:
        yield report
    finally:
        if width:
            print("\r" + " " * width + "\r", end="", file=sys.stderr, flush=True)


def left_in_words(status: "AccountStatus") -> str:
    """Return what an account can still pay for as text, such as "pure:0.1x25", or "nothing".

    `status` is the status of the account. If it pays with mechanisms that were registered when it was opened, the text
    has the mechanisms that were not used yet. If it pays from an (epsilon, delta) budget, the text has the largest
    single mechanism that it can still pay for; zCDP parameters are then rounded down to four digits.
    """
    written = []
    for use in status.left:
        match use.guarantee:
            case ZeroConcentratedDP(rho=rho, delta=delta) if status.kind != "setwise":
                written.append(f"zcdp:{rounded_down(rho, 4)},0,{rounded_down(delta, 4)}")
            case _:
                written.append(format_use(use))
    return "  ".join(written) or "nothing"


def epsilon_left_in_words(status: "AccountStatus") -> str:
    """Return an account's remaining epsilon (rounded down) and its whole epsilon as text, as in "2.6 of 3".

    `status` is the status of the account.
    """
    return f"{rounded_down(status.epsilon_left or 0.0, 2)} of {rounded_up(status.epsilon.upper, 4)}"


def budget_left_in_words(status: "AccountStatus", account: str = "") -> str:
    """Return an account's remaining epsilon as text, such as "epsilon 2.6 of 3 left in ada", or two numbers.

    `status` is the status of the account, and `account` its name, or "" to leave the name out. The account's remaining
    epsilon is the largest epsilon of one more question with Gaussian noise. Laplace noise of the same epsilon can cost
    the account more, and so can a search for bounds, which is charged before its noise is known. If the largest epsilon
    of such a question is smaller by more than 1%, the text states both numbers, the one for any question first: "of
    epsilon 3, at least 0.53 is left for any question, up to 2.8 for counts with Gaussian noise, which add up more
    slowly". It says "at least", because a question that divides its epsilon among several noisy numbers, such as a
    mean, may get more.
    """
    laplace, largest = status.laplace_epsilon_left, status.epsilon_left or 0.0
    place = f" in {account}" if account else ""
    if laplace is None or laplace >= 0.99 * largest:
        return f"epsilon {epsilon_left_in_words(status)} left{place}"
    return (
        f"of epsilon {rounded_up(status.epsilon.upper, 4)}{place}, at least {rounded_down(laplace, 2)} is left for any "
        f"question, up to {rounded_down(largest, 2)} for counts with Gaussian noise, which add up more slowly"
    )


_WIDEST_BAR, _SHORTEST_BAR = 30, 6
"""The width of the widest bar of a count, and of the narrowest that is worth drawing, in characters."""

_HEADING = 14
"""The width after which a heading is wrapped, in characters."""


def show_answer(
    answer: "PrivateAnswer | SqlAnswer",
    status: "AccountStatus | None",
    allowed: float | None = None,
    stored: "datetime | None" = None,
    *,
    details: bool,
) -> None:
    """Print an answer: its groups with their intervals, then what the numbers count, the privacy promise and the cost.

    - `status`: the status, after the charge, of the account that paid, or None
    - `allowed`: the largest epsilon that the caller allowed, or None
    - `stored`: the time (UTC) at which the answer was stored if it was not asked for now, or None
    - `details`: whether to add the formal promise, the mechanism that was chosen, and the mechanism uses (runs of
      mechanisms) that were spent
    """
    from rich.console import Console

    from setwise.analytics.answer import PrivateAnswer, number

    console = Console()
    private = answer if isinstance(answer, PrivateAnswer) else answer.answer
    if len(answer):
        width = console.width
        console.print(answer_table(answer, width) if isinstance(answer, PrivateAnswer) else sql_table(answer, width))
    if not isinstance(answer, PrivateAnswer) and answer.problem:
        console.print(f"{answer.problem}; these are the released rows", markup=False, highlight=False)
    if details and not isinstance(answer, PrivateAnswer) and answer.bounds:
        bounds = "; ".join(
            f"{stated['of']} {number(stated['low'])} to {number(stated['high'])} ({stated['source']})"
            for stated in answer.bounds
        )
        console.print(f"bounds   {bounds}", markup=False, highlight=False, style="dim")
    is_sql = not isinstance(answer, PrivateAnswer)
    advice = "" if isinstance(answer, PrivateAnswer) or not len(answer) else answer.advice
    notes = _notes(
        private, status, answer.summary, advice, is_sql=is_sql, allowed=allowed, stored=stored, details=details
    )
    console.print(notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Columns of a printed table that stay together: a column of labels, or a statistic and its interval.

    - `headings`: the heading of each column
    - `rows`: for each row, the texts of these columns
    - `is_label`: True for labels of groups, which every table repeats if the columns need several tables
    - `right`: True if the first column is aligned to the right; a second column, the interval, always is
    - `style`: the color or style of the first column; "" for plain
    """

    headings: tuple[str, ...]
    rows: list[list[str]]
    is_label: bool = False
    right: bool = True
    style: str = ""

    @property
    def width(self) -> int:
        """The number of characters that the columns take in a line, including two blanks after each column."""
        cells = [[heading, *column] for heading, *column in zip(self.headings, *self.rows, strict=True)]
        return sum(max(map(len, column)) + 2 for column in cells)


def _tables_within(width: int, blocks: "Sequence[_Block]") -> "Group":
    """Return `blocks` as one table, or as several tables below each other that are at most `width` characters wide.

    A block is one or two columns that stay together, such as a statistic and its interval. Every table repeats the
    blocks with group labels. A table with a single statistic may need more than `width`; its cells are then wrapped.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from setwise.analytics.present.text import visible_text

    labels = [block for block in blocks if block.is_label]
    room = width - sum(block.width for block in labels)
    parts: list[list[_Block]] = [[]]  # the statistics of each table
    for block in blocks:
        if not block.is_label:
            if parts[-1] and sum(each.width for each in parts[-1]) + block.width > room + 2:
                parts.append([])
            parts[-1].append(block)
    tables: list[Table | str] = []
    for part in parts:
        shown = [block for block in blocks if block.is_label or any(block is each for each in part)]
        table = Table(box=None, pad_edge=False)
        for block in shown:
            justify: Literal["right", "left"] = "right" if block.right else "left"
            no_wrap = block.right and not any(" " in cells[0] for cells in block.rows)
            table.add_column(block.headings[0], justify=justify, overflow="fold", no_wrap=no_wrap, style=block.style)
            for heading in block.headings[1:]:  # narrow terminals break intervals before "to", not within a number
                table.add_column(heading, justify="right", style="dim")
        for cells in zip(*(block.rows for block in shown), strict=True):
            table.add_row(*(Text(visible_text(cell)) for block_cells in cells for cell in block_cells))
        tables += ["", table] if tables else [table]
    return Group(*tables)


def sql_table(
    result: "SqlAnswer", width: int, truth: "dict[object, int] | None" = None, most: int | None = None
) -> "Group":
    """Return the rows of `result`, the answer to a SELECT, as tables for the terminal, with confidence intervals.

    Columns that do not fit into `width` characters are moved to a further table. `truth` maps the value in a row's
    first column to an exact number, which is printed too (only for synthetic data); None prints no exact numbers. Only
    the first `most` rows are shown, or all rows if `most` is None.
    """
    rows = result.rows[:most]
    interval = f"{result.answer.confidence:.0%} interval"
    blocks = []
    for output in result.outputs:
        has_interval = any(isinstance(cell := row[output.name], dict) and "interval" in cell for row in rows)
        blocks.append(
            _Block(
                headings=(output.name, interval) if has_interval else (output.name,),
                rows=[
                    _sql_cells(row[output.name], is_label=output.is_label, has_interval=has_interval) for row in rows
                ],
                is_label=output.is_label,
                right=not output.is_label and not any(isinstance(row[output.name], str) for row in rows),
            )
        )
    if truth:
        exact = [[f"{truth.get(row[result.columns[0]], 0):,}"] for row in rows]
        blocks.append(_Block(headings=("truth (made-up data)",), rows=exact, style="magenta"))
    return _tables_within(width, blocks)


def _sql_cells(cell: "RowCell", *, is_label: bool, has_interval: bool) -> list[str]:
    """Return the texts that show one cell of a SQL result: its value and, if `has_interval`, its confidence interval.

    `has_interval` says that the column has intervals; the interval's text is "" if this cell has none. `is_label` is
    True for a label of a group, which is printed unchanged even if it is a number.
    """
    from setwise.analytics.answer import UNRELIABLE_MARK, number

    value = cell["value"] if isinstance(cell, dict) else cell
    ends = cell.get("interval") if isinstance(cell, dict) else None
    plain = is_label or value is None or isinstance(value, str | bool)
    missing = "null" if is_label else ""
    shown = (missing if value is None else str(value)) if plain else number(value)  # type: ignore[arg-type]
    if isinstance(cell, dict) and cell.get("unreliable"):
        shown += UNRELIABLE_MARK
    if not has_interval:
        return [shown]
    return [shown, "" if ends is None else f"{number(ends[0])} to {number(ends[1])}"]


def _with_intervals(answer: "PrivateAnswer") -> list[bool]:
    """Return, for each statistic of the answer, whether at least one item has a confidence interval for the statistic.

    A statistic without any interval gets no column for intervals. If each item has only its count, `answer.statistics`
    is empty, and the result is [True], because a count is shown with its interval.
    """
    places = range(len(answer.statistics))
    return [any(each.estimates[place].interval is not None for each in answer.items) for place in places] or [True]


def _estimate_cells(value: float | None, ends: Sequence[float] | None, *, has_interval: bool) -> list[str]:
    """Return the texts that show one statistic in a table: its value and, if `has_interval`, its confidence interval.

    `has_interval` says that the column has intervals. `ends` are the two ends of this interval; if they are None, the
    text of the interval is "".
    """
    from setwise.analytics.answer import number

    value_text = "" if value is None else number(value)
    return (
        [value_text, "" if ends is None else f"{number(ends[0])} to {number(ends[1])}"]
        if has_interval
        else [value_text]
    )


def _notes(
    answer: "PrivateAnswer",
    status: "AccountStatus | None",
    summary: str,
    advice: str = "",
    *,
    is_sql: bool,
    allowed: float | None,
    stored: "datetime | None",
    details: bool,
) -> "Table":
    """Return the notes below an answer as a table of (label, sentence): what is counted, the guarantee and the cost.

    - `status`: the status of the account that paid, or None
    - `summary`: sentences about the numbers that are shown
    - `advice`: a sentence on how ratios of released numbers can mislead, and what to ask instead; "" if there is none
    - `is_sql`: whether the question was SQL, so that hints name clauses where a command has an option
    - `allowed`: the largest epsilon that the caller allowed, or None
    - `stored`: the time (UTC) at which the answer was stored if it was not asked for now, or None
    - `details`: whether to add the formal promise, the mechanism that was chosen, and the mechanism uses (runs of
      mechanisms) that were spent
    """
    from rich.table import Table
    from rich.text import Text

    lines = [
        (
            "numbers",
            with_option_names(" ".join(filter(None, (summary, _open_interval_note(answer)))), is_sql=is_sql),
        ),
        ("promise", answer.promise),
        ("cost", _cost_in_words(answer, status, allowed, stored)),
    ]
    if answer.hint:
        hint = affordable_hint(with_option_names(answer.hint, is_sql=is_sql), status)
        shown = hint if answer.items and answer.hidden else ": ".join(filter(None, (answer.reason, hint)))
        lines.insert(1, ("hint", shown))
    if advice:
        lines.insert(1, ("hint", advice))
    if details:
        done = "complete" if answer.complete else "not complete"
        lines += [
            ("list", f"{done}: {answer.reason}"),
            ("measure", answer.measure),
            ("left out", answer.left_out),
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


_EPSILON = re.compile(r"--epsilon ([\d.]*\d)")
"""An epsilon that a hint proposes."""


def affordable_hint(hint: str, status: "AccountStatus | None") -> str:
    """Return `hint`, about an answer, without the proposals that the account which pays cannot pay for.

    `hint` has clauses, with semicolons between them, and a clause has alternatives, with ", or " between them. Left out
    are those with an epsilon above what is left for any question. If (to two digits) nothing is left, the result is "".
    `status` is the status of the account, or None if no account pays.

    >>> affordable_hint("shown from 30, or at least 9 with --epsilon 2; if public, list them", None)
    'shown from 30, or at least 9 with --epsilon 2; if public, list them'
    """
    if status is None:
        return hint
    remaining = status.epsilon_left if status.laplace_epsilon_left is None else status.laplace_epsilon_left
    if not remaining or float(rounded_down(remaining, 2)) == 0:
        return ""

    def is_affordable(text: str) -> bool:
        return all(float(epsilon) <= remaining for epsilon in _EPSILON.findall(text))

    clauses = (", or ".join(filter(is_affordable, clause.split(", or "))) for clause in hint.split("; "))
    return "; ".join(filter(None, clauses))


def _open_interval_note(answer: "PrivateAnswer") -> str:
    """Return a sentence that explains intervals whose lower end is 1; "" if the answer has none.

    A lower end of 1 does not say how small the exact number may be. Counts have it if they are near the threshold for
    showing a group, because noise may have lifted a small count over the threshold.
    """
    counts = [item.interval for item in answer.items]
    estimates = [estimate.interval for item in answer.items for estimate in item.estimates]
    ends = [*(interval[0] for interval in counts if interval), *(interval[0] for interval in estimates if interval)]
    if _UNKNOWN_BELOW not in answer.interval_note or 1 not in ends:
        return ""
    return "An interval that starts at 1 says only how large the number may be: luck may have shown a small group."


_UNKNOWN_BELOW = "cannot tell how small"
"""Words of an answer's note about its intervals (`PrivateAnswer.interval_note`) if some have no useful lower end."""


def _cost_in_words(
    answer: "PrivateAnswer",
    status: "AccountStatus | None",
    allowed: float | None = None,
    stored: "datetime | None" = None,
) -> str:
    """Return a text with the cost of the answer (epsilon and delta), and the remaining budget of the account that paid.

    - `status`: the status of that account, or None if no account paid
    - `allowed`: the largest epsilon that the caller allowed, or None; the text states it if the answer cost less than
      99% of it
    - `stored`: the time (UTC) at which the answer was stored, if a stored answer is shown again, or None
    """
    if answer.replayed:
        cost = f"Nothing: {stored_in_words(stored)}"
    else:
        epsilon, delta = answer.cost
        of_allowed = f" of the {allowed:g} allowed" if allowed is not None and epsilon < 0.99 * allowed else ""
        cost = f"Epsilon {rounded_up(epsilon, 3)}{of_allowed}" + (f" at delta {rounded_up(delta, 3)}" if delta else "")
    return f"{cost}." if status is None else f"{cost}; {remaining_in_words(status)}."


def stored_in_words(stored: "datetime | None") -> str:
    """Return a phrase that says when the answer shown was stored, and how to ask the table as it is now.

    `stored` is the time (UTC); None if it is not known.
    """
    when = "" if stored is None else f" on {stored:%Y-%m-%d at %H:%M} UTC"
    return f"this is the answer that was stored under this key{when}; a new key asks the table as it is now"


def remaining_in_words(status: "AccountStatus") -> str:
    """Return the remaining budget of an account as text: its remaining epsilon, or the mechanisms left to run.

    `status` is the status of the account. An account pays either from an epsilon, or with runs of mechanisms that were
    registered when it was opened.
    """
    if status.kind == "setwise":
        return f"left in {status.name}: {left_in_words(status)}"
    return budget_left_in_words(status, status.name)


def _account_in_words(status: "AccountStatus") -> str:
    together = promised_pair(status.epsilon.upper, status.delta)
    how = status.epsilon.interaction
    return f"{status.name}: {left_in_words(status)} left; all its answers together are promised {together}, {how}"


def answer_table(answer: "PrivateAnswer", width: int, truth: "dict[object, int] | None" = None) -> "Table | Group":
    """Return the items of an answer as a table for the terminal, with bars for their counts if they fit into `width`.

    `width` is the width of the terminal in characters. `truth` maps labels to exact counts, which are printed in a
    further column; only synthetic data may show exact counts, and with None no such column is printed.
    """
    from rich.table import Table
    from rich.text import Text

    if answer.statistics:
        return _statistics_table(answer, width)
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
    for row, item in zip(rows, answer.items, strict=True):
        bar = [_count_bar(item, reach, min(_WIDEST_BAR, room))] if barred else []
        table.add_row(*(Text(row[column]) for column in shown), *bar)
    return table


def _statistics_table(answer: "PrivateAnswer", width: int) -> "Group":
    """Return the statistics of the answer's items as tables of at most `width` characters.

    Each statistic has its value, and its interval if it has one.
    """
    from setwise.analytics.answer import UNRELIABLE_MARK, in_words

    places = [[str(place)] for place in range(1, len(answer.items) + 1)]
    labels = [[in_words(item.label)] for item in answer.items]
    blocks = [
        _Block(headings=("",), rows=places, is_label=True, style="dim"),
        _Block(headings=(", ".join(answer.groups) or "item",), rows=labels, is_label=True, right=False),
    ]
    interval = f"{answer.confidence:.0%} interval"
    for column, (name, has_interval) in enumerate(zip(answer.statistics, _with_intervals(answer), strict=True)):
        rows = []
        for item in answer.items:
            estimate = item.estimates[column]
            value, *ends = _estimate_cells(estimate.value, estimate.interval, has_interval=has_interval)
            rows.append([value + UNRELIABLE_MARK * estimate.unreliable, *ends])
        blocks.append(_Block(headings=(name, interval) if has_interval else (name,), rows=rows))
    return _tables_within(width, blocks)


def _cells(place: int, each: "Item", truth: "dict[object, int] | None") -> list[str]:
    from setwise.analytics.answer import UNRELIABLE_MARK, in_words

    low, high = each.interval or (0, 0)
    mark = UNRELIABLE_MARK * each.unreliable
    counted = ["", ""] if each.count is None else [f"{each.count:,}{mark}", f"{low:,} to {high:,}"]
    return [str(place), in_words(each.label), *counted, "" if truth is None else f"{truth.get(each.label, 0):,}"]


def _count_bar(item: "Item", reach: float, width: int) -> "Text":
    """Return a text bar for the count of `item`, continued in a lighter shade to the upper end of its interval.

    The length of a bar is in proportion to the number: a bar for the number `reach` is `width` characters long.
    """
    from rich.text import Text

    high = 0 if item.interval is None else item.interval[1]
    likely, possible = (max(0, round(width * value / reach)) for value in (float(item.count or 0), high))
    return Text.assemble(("█" * likely, "blue"), ("░" * max(0, possible - likely), "blue"))
