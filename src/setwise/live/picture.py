"""Charts of a live series, the counts of groups over periods: lines with confidence bands.

A live series is a set of noisy user counts that is released period by period. Few groups share one chart, and many
groups get a small chart each.
"""

import math
from datetime import date
from typing import TYPE_CHECKING

from setwise.analytics.present.plot import Picture, check_matplotlib, short_label, wrap_to, wrapped_height
from setwise.errors import InvalidParameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from setwise.live.view import Line, SeriesView

MOST_IN_ONE = 6
"""The most groups drawn in one chart; more lines could not be told apart by colour."""

MOST_LINES = 60
"""The most groups drawn at all; the groups with the largest values in the last period are taken."""

_COLUMNS = 4

_NOTE_SIZE, _TITLE_SIZE = 7.0, 11.0
"""The font sizes of the note below the picture and of its title, in points."""

_WIDTH = 11.0
"""The width of the picture, in inches."""

_ONE_HEIGHT, _PANEL_HEIGHT = 4.0, 1.9
"""The height of the only chart, and of a small one with its dates, in inches."""

_MOST_DATES = 4
"""The most dates at the axis of a small chart."""


def draw_series(view: "SeriesView") -> Picture:
    """Return a chart of the estimated counts in `view`: a line for each group, with a band for its 95% intervals.

    If there are more than 60 groups (`MOST_LINES`), only the largest in the last period are drawn. Raises
    `MissingExtra` without matplotlib and `InvalidParameter` if no group is shown yet.
    """
    check_matplotlib()
    from matplotlib.figure import Figure

    if not view.periods or not view.lines:
        raise InvalidParameter(f"the series {view.name!r} shows nothing yet, so that there is nothing to draw")
    lines = view.top(MOST_LINES)
    days = [date.fromisoformat(period) for period in view.periods]
    left_out = f" The {len(lines)} largest of {len(view.lines)} items." if len(lines) < len(view.lines) else ""
    note = f"{view.confidence_note('band')}{left_out} {view.left_out} {view.promise()}"
    title, note = wrap_to(f"{view.name}: {view.measure}", _TITLE_SIZE, _WIDTH), wrap_to(note, _NOTE_SIZE, _WIDTH)
    around = wrapped_height(title, _TITLE_SIZE) + wrapped_height(note, _NOTE_SIZE)
    if len(lines) <= MOST_IN_ONE:
        figure = Figure(figsize=(_WIDTH, _ONE_HEIGHT + around), layout="constrained")
        axes = figure.subplots()
        for place, line in enumerate(lines):
            _draw(axes, days, line, f"C{place}")
        legend = axes.legend(axes.lines, [str(place) for place in range(len(lines))], frameon=False, loc="upper left")
        for text, line in zip(legend.get_texts(), lines, strict=True):
            text.set_text(short_label(str(line.item)))  # given to legend itself, a label such as "_x" would be left out
        axes.set_ylabel("users" if view.unit == "user" else "user-days")
    else:
        rows = math.ceil(len(lines) / _COLUMNS)
        figure = Figure(figsize=(_WIDTH, _PANEL_HEIGHT * rows + around), layout="constrained")
        grid = figure.subplots(rows, _COLUMNS, sharex=True, squeeze=False)
        for axes, line in zip(grid.flat, lines, strict=False):
            _draw(axes, days, line, "C0")
            axes.set_title(short_label(str(line.item)), fontsize=9, loc="left")
            axes.tick_params(axis="x", labelbottom=True)  # every panel has its dates, not only those of the last row
            shown = days[:: -(-len(days) // _MOST_DATES)]
            axes.set_xticks(shown, [str(day) for day in shown])
        for axes in list(grid.flat)[len(lines) :]:
            axes.set_visible(False)
    figure.suptitle(title, fontsize=_TITLE_SIZE, x=0.01, ha="left")
    figure.supxlabel(note, fontsize=_NOTE_SIZE, color="0.35", x=0.01, ha="left")
    return Picture(figure)


def _draw(axes: "Axes", days: list[date], line: "Line", colour: str) -> None:
    """Draw on `axes` one group's estimated counts and their confidence band, in this `colour`.

    `line` has the estimates and intervals of the group, one for each of `days`, the first days of the periods.
    """
    lows, highs = zip(*line.intervals, strict=True)
    marker = "o" if len(days) == 1 else None
    axes.plot(days, line.values, color=colour, linewidth=1.4, marker=marker)  # type: ignore[arg-type]
    axes.fill_between(days, lows, highs, color=colour, alpha=0.2, linewidth=0)  # type: ignore[arg-type]
    axes.set_ylim(bottom=0)
    axes.tick_params(axis="x", labelrotation=30, labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
