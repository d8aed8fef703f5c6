"""Answers as HTML: for notebooks a table with bars and the promise, for web pages a plain table; most rows shown."""

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

from setwise.analytics.answer import UNRELIABLE_MARK, PrivateAnswer, in_words, number
from setwise.analytics.present.palette import BLUE
from setwise.analytics.present.text import average_of_all
from setwise.mechanisms.release import Item

MOST_ROWS = 100
"""The most rows that the HTML table shows."""

_BAR = BLUE
"""The colour of bars. The interval is drawn in the text colour, so that colour carries no meaning alone."""


def answer_html(answer: PrivateAnswer) -> str:
    """Return an answer as HTML: a table of its items, then its notes and its privacy promise.

    Counts and their intervals are also drawn as bars. The HTML needs no script and no style sheet, so notebooks can
    show it.
    """
    if answer.statistics:
        return columns_html(answer.columns(), answer, answer.unreliable_columns(), answer.groups or ("item",))
    counted = any(each.count is not None for each in answer.items)
    reach = max([1.0, *(_upper_end(each) for each in answer.items)])
    rows = "".join(_row(place, each, counted, reach) for place, each in enumerate(answer.items[:MOST_ROWS], start=1))
    hidden = len(answer.items) - MOST_ROWS
    more = f"<p style='margin:4px 0'>and {hidden:,} more</p>" if hidden > 0 else ""
    explained = (answer.left_out, answer.interval_note) if answer.items else (answer.number_sentences(),)
    words = " ".join(filter(None, (*explained, average_of_all(answer, MOST_ROWS))))
    note = f"<p style='margin:6px 0'>{escape(words)}</p>" if words else ""
    interval = f"<th style='{_CELL}'>{answer.confidence:.0%} interval</th><th></th>" if counted else ""
    count = f"<th style='{_CELL}text-align:right'>{escape(answer.heading)}</th>" if counted else ""
    return (
        "<div style='font-family:system-ui,sans-serif;font-size:13px;max-width:60em'>"
        "<table style='border-collapse:collapse'><thead><tr>"
        f"<th style='{_CELL}'></th><th style='{_CELL}text-align:left'>item</th>{count}{interval}</tr></thead>"
        f"<tbody>{rows}</tbody></table>{more}{note}"
        f"<p style='margin:6px 0'>{'Complete' if answer.complete else 'Not complete'}: {_ending_html(answer)}</p></div>"
    )


def _ending_html(answer: PrivateAnswer) -> str:
    """Return HTML that says why an answer lists no further items, how to get more, and what the privacy promise is."""
    ending = f"{answer.reason}{f' ({answer.hint})' if answer.hint else ''}."
    if answer.items and answer.heading != answer.measure:
        ending += f" Measured: {answer.measure}."
    formally = f"<span style='color:#888'>{escape(answer.guarantee)}</span>"
    return f"{escape(ending)} <strong>{escape(answer.promise)}</strong> {formally}"


def columns_html(
    columns: Mapping[str, Sequence[object]],
    answer: PrivateAnswer,
    unreliable: Sequence[Sequence[str]],
    keys: Collection[str],
    notes: Sequence[str] = (),
) -> str:
    """Return `columns` (cells by column name) as an HTML table, followed by the answer's notes and privacy promise.

    - `unreliable` has for each row the names of the columns whose number may be mostly noise; these cells are marked.
    - `keys` names the columns of group keys, whose numbers (years, identifiers) get no separators.
    - `notes` are further sentences below the table; of a table without rows, they are the only ones.

    Only the first 100 rows (`MOST_ROWS`) are shown.
    """
    headings = "".join(f"<th style='{_CELL}text-align:left'>{escape(name)}</th>" for name in columns)
    words = answer.number_sentences() if not answer.items else " ".join(notes)
    if unreliable:
        words = " ".join((f"{answer.measure}.", answer.left_out, answer.interval_note, *notes))
    rows = ""
    for place, line in enumerate(zip(*(values[:MOST_ROWS] for values in columns.values()), strict=True)):
        cells = (
            _cell_html(cell, is_key=name in keys) + UNRELIABLE_MARK * (name in unreliable[place])
            for name, cell in zip(columns, line, strict=True)
        )
        rows += f"<tr>{''.join(f'<td style={_CELL!r}>{cell}</td>' for cell in cells)}</tr>"
    return (
        "<div style='font-family:system-ui,sans-serif;font-size:13px;max-width:80em'>"
        f"<table style='border-collapse:collapse'><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table>"
        f"<p style='margin:6px 0'>{escape(words)}</p>"
        f"<p style='margin:6px 0'>{_ending_html(answer)}</p></div>"
    )


def _cell_html(cell: object, *, is_key: bool = False) -> str:
    """Return the HTML text of a cell: a number with thousands separators, unless it is a group key (`is_key`)."""
    if cell is None:
        return ""
    return number(cell) if isinstance(cell, int | float) and not is_key else escape(str(cell))


_CELL = "padding:2px 10px;white-space:nowrap;"


def _row(place: int, each: Item, counted: bool, reach: float) -> str:
    label = escape(in_words(each.label))
    name = f"<td style='{_CELL}color:#888'>{place}</td><td style='{_CELL}text-align:left'>{label}</td>"
    if not counted or each.count is None or each.interval is None:
        return f"<tr>{name}</tr>"
    low, high = each.interval
    bar, left, width = (100.0 * value / reach for value in (each.count, low, high - low))
    drawn = (
        "<div style='position:relative;width:240px;height:12px;background:rgba(128,128,128,.12)'>"
        f"<div style='position:absolute;height:12px;width:{bar:.2f}%;background:{_BAR}'></div>"
        "<div style='position:absolute;top:5px;height:2px;background:currentColor;"
        f"left:{left:.2f}%;width:{width:.2f}%'></div></div>"
    )
    return (
        f"<tr>{name}<td style='{_CELL}text-align:right'>{each.count:,}{UNRELIABLE_MARK * each.unreliable}</td>"
        f"<td style='{_CELL}text-align:center;color:#888'>{low:,} to {high:,}</td><td style='{_CELL}'>{drawn}</td></tr>"
    )


def _upper_end(each: Item) -> float:
    return float(each.interval[1]) if each.interval is not None else 0.0


def table_columns(
    table: Mapping[str, Sequence[Any]], statistics: Sequence[str], unreliable: Sequence[Sequence[str]] = ()
) -> list[dict[str, Any]]:
    """Return the columns of a table as people read it, in order, each as a dictionary.

    - `table` maps column names to cells. The two columns with the ends of an interval become one column of pairs.
      Columns in which every cell is None, and the raw noisy counts, are left out.
    - `statistics` names the columns of estimates.
    - `unreliable` has for each row the names of the columns whose number may be mostly noise.

    The keys of a dictionary are `name`, `cells`, `interval` (True for pairs), `number` (True for estimates and their
    intervals) and `unreliable` (a bool for each cell).

    >>> table_columns({"page": ["a"], "count": [5], "lower": [3], "upper": [7], "noisy": [5]}, ["count"])[2]["cells"]
    [(3, 7)]
    """
    columns: list[dict[str, Any]] = []
    ends = {end for name in statistics for end in _ends(name)}
    for name, cells in table.items():
        # The noisy counts, exactly as drawn, are for adding up and not for reading.
        if name in ends or (name == "noisy" and "count" in statistics) or all(cell is None for cell in cells):
            continue
        marks = [name in names for names in unreliable] or [False] * len(cells)
        columns.append(
            {"name": name, "cells": cells, "interval": False, "number": name in statistics, "unreliable": marks}
        )
        lower, upper = (table.get(end) for end in _ends(name))
        if name in statistics and lower and upper and any(end is not None for end in lower):
            pairs = [None if low is None else (low, high) for low, high in zip(lower, upper, strict=True)]
            plain = [False] * len(pairs)
            columns.append({"name": name, "cells": pairs, "interval": True, "number": True, "unreliable": plain})
    return columns


def _ends(name: str) -> tuple[str, str]:
    """Return the names of the columns with the lower and upper ends of the intervals of the statistic `name`."""
    return ("lower", "upper") if name == "count" else (f"{name}_lower", f"{name}_upper")


def numbers_html(
    columns: Mapping[str, Sequence[Any]],
    statistics: Sequence[str],
    confidence: float,
    unreliable: Sequence[Sequence[str]] = (),
) -> str:
    """Return an HTML table of `columns` (cells by column name), without styles, for a page that styles `table.numbers`.

    - `statistics` names the columns of estimates.
    - `confidence` is the confidence of the intervals, stated in their heading.
    - `unreliable` has for each row the names of the columns whose number may be mostly noise; these cells are marked.

    Only the first 100 rows (`MOST_ROWS`) are shown.
    """
    columns_shown = table_columns(
        {name: cells[:MOST_ROWS] for name, cells in columns.items()}, statistics, unreliable[:MOST_ROWS]
    )
    headings = "".join(
        f"<th{_class(column)}>{f'{confidence:.0%} interval' if column['interval'] else escape(column['name'])}</th>"
        for column in columns_shown
    )
    lines = zip(*(zip(column["cells"], column["unreliable"], strict=True) for column in columns_shown), strict=True)
    rows = "".join(
        "<tr>"
        + "".join(_numbers_cell(column, cell, mark) for column, (cell, mark) in zip(columns_shown, line, strict=True))
        + "</tr>"
        for line in lines
    )
    return f"<table class='numbers'><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table>"


def _class(column: Mapping[str, Any]) -> str:
    return " class='number'" if column["number"] else ""


def _numbers_cell(column: Mapping[str, Any], cell: object, unreliable: bool) -> str:
    """Return the HTML of one table cell: an interval as "low to high", a number with separators, other values as text.

    `column` is the dictionary of the cell's column from `table_columns`. `unreliable` adds the mark "(unreliable)".
    """
    if isinstance(cell, tuple) and column["interval"]:
        words = f"{number(cell[0])} to {number(cell[1])}"
    else:
        words = _cell_html(cell) if column["number"] else escape("" if cell is None else str(cell))
    return f"<td{_class(column)}>{words}{UNRELIABLE_MARK * unreliable}</td>"
