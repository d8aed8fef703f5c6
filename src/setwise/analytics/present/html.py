"""How an answer looks in a notebook: a table with bars, and the promise below it."""

from collections.abc import Mapping, Sequence
from html import escape

from setwise.analytics.answer import PrivateAnswer, in_words, number
from setwise.analytics.present.text import average_of_all
from setwise.mechanisms.release import Item

MOST_ROWS = 100

_BAR = "#0072B2"
"""Blue of the palette of Okabe and Ito; the interval is drawn in ink, so colour carries no meaning alone."""


def answer_html(answer: PrivateAnswer) -> str:
    """Return the answer as an HTML table; nothing in it needs a script or a style sheet of its own."""
    if answer.statistics:
        return columns_html(answer.columns(), answer)
    counted = any(each.count is not None for each in answer.items)
    reach = max([1.0, *(_high(each) for each in answer.items)])
    rows = "".join(_row(place, each, counted, reach) for place, each in enumerate(answer.items[:MOST_ROWS], start=1))
    left = len(answer.items) - MOST_ROWS
    more = f"<p style='margin:4px 0'>and {left:,} more</p>" if left > 0 else ""
    words = " ".join(filter(None, (answer.left_out, answer.interval_note, average_of_all(answer, MOST_ROWS))))
    note = f"<p style='margin:6px 0'>{escape(words)}</p>" if words else ""
    interval = f"<th style='{_CELL}'>{answer.confidence:.0%} interval</th><th></th>" if counted else ""
    count = f"<th style='{_CELL}text-align:right'>{escape(answer.heading)}</th>" if counted else ""
    return (
        "<div style='font-family:system-ui,sans-serif;font-size:13px;max-width:60em'>"
        "<table style='border-collapse:collapse'><thead><tr>"
        f"<th style='{_CELL}'></th><th style='{_CELL}text-align:left'>item</th>{count}{interval}</tr></thead>"
        f"<tbody>{rows}</tbody></table>{more}{note}"
        f"<p style='margin:6px 0'>{'Complete' if answer.complete else 'Not complete'}: {_said(answer)}</p></div>"
    )


def _said(answer: PrivateAnswer) -> str:
    """Return why the list ends, what would have shown more, and the promise: first in plain words, then formally."""
    ending = f"{answer.reason}{f' ({answer.hint})' if answer.hint else ''}."
    if answer.heading != answer.measure:
        ending += f" Measured: {answer.measure}."
    formally = f"<span style='color:#888'>{escape(answer.guarantee)}</span>"
    return f"{escape(ending)} <strong>{escape(answer.promise)}</strong> {formally}"


def columns_html(columns: Mapping[str, Sequence[object]], answer: PrivateAnswer) -> str:
    """Return columns as an HTML table, and below it what the answer they are of promises."""
    headings = "".join(f"<th style='{_CELL}text-align:left'>{escape(name)}</th>" for name in columns)
    lines = zip(*(values[:MOST_ROWS] for values in columns.values()), strict=True)
    words = f"{answer.measure}. {answer.left_out} {answer.interval_note}"
    rows = "".join(f"<tr>{''.join(f'<td style={_CELL!r}>{_shown(cell)}</td>' for cell in line)}</tr>" for line in lines)
    return (
        "<div style='font-family:system-ui,sans-serif;font-size:13px;max-width:80em'>"
        f"<table style='border-collapse:collapse'><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table>"
        f"<p style='margin:6px 0'>{escape(words)}</p>"
        f"<p style='margin:6px 0'>{_said(answer)}</p></div>"
    )


def _shown(cell: object) -> str:
    return "" if cell is None else number(cell) if isinstance(cell, int | float) else escape(str(cell))


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
        f"<tr>{name}<td style='{_CELL}text-align:right'>{each.count:,}</td>"
        f"<td style='{_CELL}text-align:center;color:#888'>{low:,} to {high:,}</td><td style='{_CELL}'>{drawn}</td></tr>"
    )


def _high(each: Item) -> float:
    return float(each.interval[1]) if each.interval is not None else 0.0
