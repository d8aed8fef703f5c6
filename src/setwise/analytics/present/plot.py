"""Pictures of answers: whether bars or a line is drawn (`is_over_time`), error bars, labels, and notes below."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from setwise.accounting.promises import rounded_up
from setwise.analytics.present.palette import BLUE, SKY_BLUE
from setwise.analytics.present.text import average_of_all, visible_text
from setwise.analytics.query import EVERYTHING
from setwise.errors import InvalidParameter, MissingExtra
from setwise.mechanisms.labels import Label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from setwise.analytics.answer import PrivateAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a picture, with its value, and its interval or None.

    `cells` are the texts of its label: the keys of the bar's group, one for each group column. `unreliable` is True if
    noise may be as large as the value.
    """

    cells: tuple[str, ...]
    value: float | None
    interval: tuple[float, float] | None
    unreliable: bool = False

    @property
    def label(self) -> str:
        """The label of the bar as text: its cells, separated by commas."""
        return ", ".join(self.cells)

    @property
    def marked_label(self) -> str:
        """The label for a picture, shortened, followed by "(unreliable)" if noise may be as large as the value."""
        return short_label(self.label) + " (unreliable)" * self.unreliable


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The content of a picture: its `bars` in order, and `name`, the text at the axis of values.

    `over_time` is True if the labels of the bars are times; the picture is then a line instead of bars.
    """

    name: str
    bars: list[Bar]
    over_time: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Caption:
    """The texts around a picture: its `title`, and the names of the group columns, `groups`.

    If `title` is empty, the picture has the answer's heading as its title. If `groups` is empty, the axis of group
    labels has no name.
    """

    title: str = ""
    groups: tuple[str, ...] = ()

    @property
    def axis(self) -> str:
        """The name of the axis of labels: the group columns, separated by commas."""
        return ", ".join(self.groups)


def bars_of(answer: "PrivateAnswer", names: Sequence[str] | None = None) -> list[Bar]:
    """Return the bars that show an answer: one for each item, with its count, or with its first statistic.

    If the answer has several quantiles of one column, each item gets one bar for each quantile. `names` are the names
    of the quantiles in the picture; with None they are named as in the answer.
    """
    if answer.kind == "quantile" and len(answer.statistics) > 1:
        is_single_group = answer.labels == (EVERYTHING,)
        return [
            Bar(
                cells=(*(() if is_single_group else _texts(item.label)), name),
                value=estimate.value,
                interval=estimate.interval,
                unreliable=estimate.unreliable,
            )
            for item in answer.items
            for name, estimate in zip(names or answer.statistics, item.estimates, strict=True)
        ]
    bars = []
    for item in answer.items:
        estimate = item.estimates[0] if item.estimates else None
        value, interval = (item.count, item.interval) if estimate is None else (estimate.value, estimate.interval)
        unreliable = item.unreliable if estimate is None else estimate.unreliable
        bars.append(Bar(cells=_texts(item.label), value=value, interval=interval, unreliable=unreliable))
    return bars


def measure_of_bars(answer: "PrivateAnswer") -> str:
    """Return the text at the axis of values of a picture, which says what the bars measure.

    The text is the answer's heading if the answer has a single count per group, one statistic, or only quantiles.
    Otherwise the text is the name of the first statistic, because the bars of `bars_of` show only this one.
    """
    several = len(answer.statistics) > 1 and answer.kind != "quantile"
    return answer.statistics[0] if several else answer.heading


def is_over_time(bars: Sequence[Bar], axes: Sequence[str] = ()) -> bool:
    """Return whether a picture shows `bars` as a line over time; if not, it shows them as bars.

    The result is True if there is more than one bar, and if each is labelled by one time alone. `axes` has the kinds of
    the answer's group columns, such as ("time",). If it is empty, because SQL computed the rows and the kinds are not
    known, every label must begin with a year and a month, as 2024-05-01 and 2024-05 do.

    The same rule is used for files, notebooks and web pages, so that they show an answer as the same kind of picture.
    (On a web page, the reader can then switch to the other kind.)
    """
    if len(bars) < 2 or any(len(bar.cells) != 1 for bar in bars):
        return False
    return tuple(axes) == ("time",) if axes else all(_MONTH.match(bar.label) for bar in bars)


def _texts(label: Label) -> tuple[str, ...]:
    return tuple(map(str, label)) if isinstance(label, tuple) else (str(label),)


_MONTH = re.compile(r"\d{4}-\d{2}(?!\d)")
"""The beginning of a date or month, by which labels are known to be times."""
_FORMATS = {".png", ".svg"}
MOST_BARS = 60
"""The most bars that a picture shows."""
NOTE_WIDTH = 130
"""The most characters in a line of the note below the picture."""
PICTURE_WIDTH = 8.0
"""The width of a picture, in inches."""
_MARGIN = 0.2
"""The space kept free beside a line of text, in inches, left and right together."""
_NOTE_SIZE, _TITLE_SIZE, _AXIS_SIZE = 7.0, 9.0, 10.0
"""The font sizes of the note below a picture, of its title, and of labels and headings at its axes, in points."""
_LINE_HEIGHT = 1.35 / 72
"""The height of a line of text, in inches for each point of its font size, with some space for rounding."""
_TICKS_HEIGHT = 0.5
"""The height of the numbers at the axis of values and of the space around a panel, in inches."""
_BAR_HEIGHT, _LEAST_HEIGHT, _LINE_PANEL_HEIGHT = 0.3, 0.5, 3.2
"""The height of a bar with its space, the least height of the area with bars, and that of a line over time, in inches.
A line of a label is 0.19 inches high, so that neighbouring labels do not overlap."""
_TALLEST_WORD = 2.5
"""The most height, in inches, that a panel gets so that the longest word beside it is not broken."""
_TIMES_HEIGHT = 1.5
"""The most height that the slanted labels of times take below their axis, in inches."""
_MOST_TICKS = 24
"""The most labels of times on the axis; more would overlap."""
_LONGEST_LABEL = 32
"""The most characters of a group's label in a picture."""
_RESOLUTION = 150
"""The resolution of a .png file, in dots per inch."""


def check_picture(path: str) -> None:
    """Raise `InvalidParameter` unless `path` names a .png or .svg file in a directory that exists.

    Raises: `MissingExtra` if matplotlib is not installed.
    """
    place = Path(path)
    if place.suffix.lower() not in _FORMATS:
        raise InvalidParameter(f"a plot is written to a .png or .svg file, not to {path!r}")
    if not place.absolute().parent.is_dir():
        raise InvalidParameter(f"the directory of {path!r} does not exist")
    check_matplotlib()


def check_matplotlib() -> None:
    """Raise `MissingExtra` if matplotlib is not installed."""
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError:
        raise MissingExtra("plots need matplotlib: pip install 'setwise[plots]'") from None


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that notebooks show as PNG; `figure` is the matplotlib figure."""

    figure: "Figure"

    def save(self, path: str | Path) -> None:
        """Write the picture to the .png or .svg file `path`, or raise `InvalidParameter` if it cannot be written."""
        check_picture(str(path))
        try:
            self.figure.savefig(path, dpi=_RESOLUTION)
        except OSError:
            raise InvalidParameter(f"{str(path)!r} cannot be written") from None

    def svg(self) -> bytes:
        """Return the picture as an SVG document."""
        drawn = io.BytesIO()
        self.figure.savefig(drawn, format="svg")
        return drawn.getvalue()

    def _repr_png_(self) -> bytes:
        drawn = io.BytesIO()
        self.figure.savefig(drawn, format="png", dpi=_RESOLUTION)
        return drawn.getvalue()


def plot_answer(answer: "PrivateAnswer", path: str | None, caption: Caption | None = None) -> Picture:
    """Draw the groups of an answer as bars with error bars, or as a line if their labels are times; return the picture.

    Several statistics have a panel each. `caption` has the title and the name of the axis of groups; with None they are
    taken from the answer. The picture is also written to the file `path`, unless `path` is None.
    """
    return plot_charts(charts_of(answer), answer, path, caption=caption or Caption(groups=answer.groups))


def charts_of(answer: "PrivateAnswer") -> list[Chart]:
    """Return the charts that show `answer`, which was not asked for in SQL: one for each statistic.

    Several quantiles share one chart, because all of them are values of the same column.
    """
    bars = bars_of(answer)
    over_time = is_over_time(bars, answer.axes)
    if len(answer.statistics) < 2 or answer.kind == "quantile":
        return [Chart(name=measure_of_bars(answer), bars=bars, over_time=over_time)]
    labels = [bar.cells for bar in bars]
    return [
        Chart(
            name=name,
            bars=[
                Bar(
                    cells=cells,
                    value=item.estimates[place].value,
                    interval=item.estimates[place].interval,
                    unreliable=item.estimates[place].unreliable,
                )
                for cells, item in zip(labels, answer.items, strict=True)
            ],
            over_time=over_time,
        )
        for place, name in enumerate(answer.statistics)
    ]


def plot_charts(
    charts: Sequence[Chart],
    answer: "PrivateAnswer",
    path: str | None,
    notes: Sequence[str] = (),
    *,
    caption: Caption | None = None,
) -> Picture:
    """Draw `charts`, whose numbers are in `answer` or were computed from it, and return the picture.

    The charts have the same labels; each is drawn in a panel of its own, below the one before it. `caption` has the
    title and the name of the axis of groups. Below the picture stand the answer's sentences about its numbers, then the
    sentences `notes`. The picture is also written to the file `path`, unless `path` is None.
    """
    caption = Caption() if caption is None else caption
    check_matplotlib()
    if path is not None:
        check_picture(path)
    picture = _draw_panels(charts, answer, notes, caption)
    if path is not None:
        picture.save(path)
    return picture


def _draw_panels(charts: Sequence[Chart], answer: "PrivateAnswer", notes: Sequence[str], caption: Caption) -> Picture:
    """Return a picture with a panel for each of `charts`: the values as a line over time, or the first 60 as bars.

    Below the picture stand the sentences of `answer` about its numbers, then the sentences `notes`. `caption` has the
    title and the name of the axis of groups. Without a title, several panels are titled by the names of their charts.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [chart.name for chart in charts]
    title = caption.title or (f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "")
    shown = charts[0].bars if charts[0].over_time else charts[0].bars[:MOST_BARS]
    heading, note = _heading(answer, title), _note(shown, answer, notes)
    room = [_panel_room(chart, caption) for chart in charts]
    around = wrapped_height(heading, _TITLE_SIZE) + wrapped_height(note, _NOTE_SIZE)
    height = around + sum(panel.height + panel.around for panel in room)
    figure = Figure(figsize=(PICTURE_WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    # With the room of titles and notes added, the constrained layout never has to shrink panels to nothing.
    ratios = [panel.height for panel in room]
    panels = figure.subplots(len(charts), 1, squeeze=False, gridspec_kw={"height_ratios": ratios})[:, 0]
    for axes, chart, panel in zip(panels, charts, room, strict=True):
        (_draw_line if chart.over_time else _draw_bars)(axes, chart, panel)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(heading, fontsize=_TITLE_SIZE)
    if note:
        figure.supxlabel(note, fontsize=_NOTE_SIZE, x=0.01, ha="left")
    return Picture(figure)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PanelRoom:
    """The room of a panel, and the texts at its axes, wrapped so that they fit.

    - `height` is the height of the area with bars or a line, and `around` that of the labels below it, in inches.
    - `across` is the text below the panel, and `upright` the text to its left.
    """

    height: float
    around: float
    across: str
    upright: str


def _panel_room(chart: Chart, caption: Caption) -> _PanelRoom:
    """Return the room that the panel of `chart` needs; `caption` has the name of the axis of groups."""
    if chart.over_time:
        across, upright = wrap_to(caption.axis, _AXIS_SIZE, PICTURE_WIDTH - 1.5), chart.name
        height, around = _LINE_PANEL_HEIGHT, _TIMES_HEIGHT + wrapped_height(across, _AXIS_SIZE)
    else:
        bars = chart.bars[:MOST_BARS]
        height = max(_LEAST_HEIGHT, _BAR_HEIGHT * len(bars))
        labels = max((text_width(bar.marked_label, _AXIS_SIZE) for bar in bars), default=0.0)
        if any(bar.value is not None for bar in bars):
            below = chart.name
        else:
            below = "in order; no counts were asked for" if bars else "no item passed the threshold"
        # The text below a panel is centred on it, so beside long labels of groups it has less room.
        across = wrap_to(below, _AXIS_SIZE, max(1.0, PICTURE_WIDTH - labels - 1.0))
        upright = caption.axis
        around = _TICKS_HEIGHT + wrapped_height(across, _AXIS_SIZE)
    longest = max((text_width(word, _AXIS_SIZE) for word in upright.split()), default=0.0)
    height = max(height, min(longest + 1.5 * _MARGIN, _TALLEST_WORD))
    return _PanelRoom(height=height, around=around, across=across, upright=wrap_to(upright, _AXIS_SIZE, height))


def _draw_line(axes: "Axes", chart: Chart, panel: _PanelRoom) -> None:
    """Draw the values of `chart` on `axes` as a line over time, with a band for their confidence intervals.

    `panel` has the texts at the axes.
    """
    bars = sorted(chart.bars, key=lambda bar: bar.label)  # text order of time labels is their order in time
    places = list(range(len(bars)))
    values = [bar.value or 0 for bar in bars]
    ends = [bar.interval or (value, value) for bar, value in zip(bars, values, strict=True)]
    axes.fill_between(places, [low for low, _ in ends], [high for _, high in ends], color=SKY_BLUE, alpha=0.35)
    axes.plot(places, values, color=BLUE, marker="o", markersize=3, linewidth=1.4)
    every = -(-len(bars) // _MOST_TICKS)
    axes.set_xticks(places[::every], [bar.marked_label for bar in bars[::every]], rotation=45, ha="right")
    axes.set_ylim(bottom=min(0, *(low for low, _ in ends)))
    axes.set_ylabel(panel.upright)
    axes.set_xlabel(panel.across)


def _draw_bars(axes: "Axes", chart: Chart, panel: _PanelRoom) -> None:
    """Draw the first 60 values of `chart` (`MOST_BARS`) on `axes` as bars with error bars for their intervals.

    `panel` has the texts at the axes.
    """
    bars = chart.bars[:MOST_BARS]
    places = list(range(len(bars)))
    # Intervals in black: readable without colour.
    axes.barh(places, [bar.value or 0 for bar in bars], color=SKY_BLUE, height=0.72)
    for place, bar in zip(places, bars, strict=True):
        if bar.interval is not None and bar.value is not None:
            low, high = bar.interval
            ends = [[max(0.0, bar.value - low)], [max(0.0, high - bar.value)]]  # matplotlib refuses negative lengths
            axes.errorbar(bar.value, place, xerr=ends, color="black", capsize=3, linewidth=1.1)
    axes.set_yticks(places, [bar.marked_label for bar in bars])
    axes.invert_yaxis()
    if not any(bar.value is not None for bar in bars):
        axes.set_xticks([])
    axes.set_xlabel(panel.across)
    axes.set_ylabel(panel.upright)


def _note(shown: Sequence[Bar], answer: "PrivateAnswer", notes: Sequence[str]) -> str:
    """Return the text below a picture: which rows are omitted, what the intervals promise, and the sentences `notes`.

    `shown` are the bars of the first panel. The text is "" if no bar has a value.
    """
    if not any(bar.value is not None for bar in shown):
        return ""
    sentences = (answer.left_out, answer.interval_note, average_of_all(answer, len(shown)), *notes)
    return wrap_to(" ".join(filter(None, sentences)), _NOTE_SIZE, PICTURE_WIDTH)


def _heading(answer: "PrivateAnswer", title: str) -> str:
    """Return the text above a picture: `title`, and the epsilon and delta of `answer`.

    If `title` is empty, what the numbers measure is written in its place.
    """
    heading = answer.heading[:1].upper() + answer.heading[1:]
    cost = f"epsilon {rounded_up(answer.cost[0], 4)}, delta {rounded_up(answer.cost[1])}"
    return f"{wrap_to(title or heading, _TITLE_SIZE, PICTURE_WIDTH)}\n{cost}"


def short_label(label: str) -> str:
    """Return the text of a group's `label` for a picture: on one line, and at most 32 characters long."""
    plain = " ".join(label.split())
    return plain_text(plain if len(plain) <= _LONGEST_LABEL else plain[: _LONGEST_LABEL - 1] + "…")


def text_width(text: str, size: float) -> float:
    """Return the width of a line of `text` in inches, in matplotlib's own font with a `size` in points."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    renderer: Any = RendererAgg(1, 1, _RESOLUTION)  # type: ignore[no-untyped-call]
    width, _, _ = renderer.get_text_width_height_descent(text, FontProperties(size=size), ismath=False)
    return float(width) / _RESOLUTION


def wrap_to(text: str, size: float, width: float) -> str:
    """Return `text` with line breaks, so that its lines fit into `width` inches in letters of `size` points.

    Some space is kept free beside the lines, and words that are longer are broken. The text is made safe for
    matplotlib (`plain_text`).
    """
    available = width - _MARGIN
    letters = max(4, int(NOTE_WIDTH * available / PICTURE_WIDTH * 2))
    while letters > 4:
        lines = wrap(text, letters)
        widest = max((text_width(visible_text(line), size) for line in lines), default=0.0)
        if widest <= available:
            break
        letters = max(4, min(letters - 1, int(letters * available / widest)))
    return plain_text("\n".join(wrap(text, letters)))


def wrapped_height(text: str, size: float) -> float:
    """Return the height in inches of `text`, which has line breaks, in letters of `size` points; 0 for no text."""
    return (text.count("\n") + 2) * size * _LINE_HEIGHT if text else 0.0


def plain_text(text: str) -> str:
    """Return `text` for matplotlib: without control characters, and with escaped dollar signs.

    A dollar sign would start a formula.
    """
    return visible_text(text).replace("$", r"\$")
