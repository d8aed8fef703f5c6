"""A picture of an answer: bars with their intervals."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from setwise.accounting.notation import rounded_up
from setwise.analytics.present.text import average_of_all
from setwise.analytics.query import EVERYTHING
from setwise.errors import InvalidParameter, MissingExtra
from setwise.mechanisms.labels import Label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from setwise.analytics.answer import PrivateAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What is drawn of an item: its cells, a value, and its interval where it has one."""

    cells: tuple[str, ...]
    value: float | None
    interval: tuple[float, float] | None

    @property
    def label(self) -> str:
        """The cells as people read them."""
        return ", ".join(self.cells)


def bars_of(answer: "PrivateAnswer", names: Sequence[str] | None = None) -> list[Bar]:
    """Return one bar for each item: its count, or its first statistic; of several quantiles one for each.

    These are in one unit, and their names, as `names` has them, are one more cell.
    """
    if answer.kind == "quantile" and len(answer.statistics) > 1:
        whole = answer.labels == (EVERYTHING,)
        return [
            Bar(cells=(*(() if whole else _texts(each.label)), name), value=found.value, interval=found.interval)
            for each in answer.items
            for name, found in zip(names or answer.statistics, each.estimates, strict=True)
        ]
    drawn = []
    for each in answer.items:
        found = each.estimates[0] if each.estimates else None
        value, interval = (each.count, each.interval) if found is None else (found.value, found.interval)
        drawn.append(Bar(cells=_texts(each.label), value=value, interval=interval))
    return drawn


def measure_of_bars(answer: "PrivateAnswer") -> str:
    """Return what the bars measure: of several statistics that are no quantiles of one column, the first."""
    several = len(answer.statistics) > 1 and answer.kind != "quantile"
    return answer.statistics[0] if several else answer.heading


def _texts(label: Label) -> tuple[str, ...]:
    return tuple(map(str, label)) if isinstance(label, tuple) else (str(label),)


_FORMATS = {".png", ".svg"}
MOST_BARS = 60
_NOTE_WIDTH = 130
"""Characters of a line below the picture."""
_HEADING_WIDTH = 80
"""Characters of a line of the heading."""
_MOST_TICKS = 24
"""Labels of times below a line; more would overlap."""
_RESOLUTION = 150
"""Dots per inch of a .png file."""


def check_picture(path: str) -> None:
    """Raise `InvalidParameter` unless the path names a .png or .svg file in a directory that exists."""
    place = Path(path)
    if place.suffix.lower() not in _FORMATS:
        raise InvalidParameter(f"a plot is written to a .png or .svg file, not to {path!r}")
    if not place.absolute().parent.is_dir():
        raise InvalidParameter(f"the directory of {path!r} does not exist")
    _check_matplotlib()


def _check_matplotlib() -> None:
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError:
        raise MissingExtra("plots need matplotlib: pip install 'setwise[plots]'") from None


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that notebooks show, whatever their settings; `figure` is matplotlib's."""

    figure: "Figure"

    def save(self, path: str | Path) -> None:
        """Write the picture to a .png or .svg file."""
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


def plot_answer(answer: "PrivateAnswer", path: str | None) -> Picture:
    """Draw the groups as bars with their intervals as error bars, or as a line if they are times.

    `path` names a file to write the picture to; None writes none.
    """
    _check_matplotlib()
    if path is not None:
        check_picture(path)
    picture = _lines(answer) if answer.axes == ("time",) and len(answer) > 1 else _bars(answer)
    if path is not None:
        picture.save(path)
    return picture


def _lines(answer: "PrivateAnswer") -> Picture:
    """Draw the numbers as a line over time, with a band for their intervals."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    bars = sorted(bars_of(answer), key=lambda bar: bar.label)  # labels of times are written so that text order is time
    figure = Figure(figsize=(8.0, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places = list(range(len(bars)))
    values = [bar.value or 0 for bar in bars]
    ends = [bar.interval or (value, value) for bar, value in zip(bars, values, strict=True)]
    axes.fill_between(places, [low for low, _ in ends], [high for _, high in ends], color="#56B4E9", alpha=0.35)
    axes.plot(places, values, color="#0072B2", marker="o", markersize=3, linewidth=1.4)
    every = -(-len(bars) // _MOST_TICKS)
    axes.set_xticks(places[::every], [_short(bar.label) for bar in bars[::every]], rotation=45, ha="right")
    axes.set_ylim(bottom=min(0, *(low for low, _ in ends)))
    axes.set_ylabel(_wrapped(measure_of_bars(answer), _HEADING_WIDTH // 2))
    _annotate(figure, axes, answer, len(bars))
    return Picture(figure)


def _bars(answer: "PrivateAnswer") -> Picture:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = bars_of(answer)[:MOST_BARS]
    figure = Figure(figsize=(8.0, max(1.8, 1.2 + 0.3 * len(shown))), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places = list(range(len(shown)))
    # Blue of the palette of Okabe and Ito, intervals in black: readable without colour.
    axes.barh(places, [each.value or 0 for each in shown], color="#56B4E9", height=0.72)
    for place, each in zip(places, shown, strict=True):
        if each.interval is not None and each.value is not None:
            ends = [[each.value - each.interval[0]], [each.interval[1] - each.value]]
            axes.errorbar(each.value, place, xerr=ends, color="black", capsize=3, linewidth=1.1)
    axes.set_yticks(places, [_short(each.label) for each in shown])
    axes.invert_yaxis()
    if any(each.value is not None for each in shown):
        axes.set_xlabel(_wrapped(measure_of_bars(answer), _HEADING_WIDTH))
    else:
        axes.set_xticks([])
        axes.set_xlabel("in order; no counts were asked for" if shown else "no item passed the threshold")
    _annotate(figure, axes, answer, MOST_BARS)
    return Picture(figure)


def _annotate(figure: "Figure", axes: "Axes", answer: "PrivateAnswer", shown: int) -> None:
    """Write below the picture which rows are left out and what the intervals promise, and above it the budget spent."""
    if any(bar.value is not None for bar in bars_of(answer)):
        note = " ".join(filter(None, (answer.left_out, answer.interval_note, average_of_all(answer, shown))))
        figure.supxlabel(_wrapped(note, _NOTE_WIDTH), fontsize=7, x=0.01, ha="left")
    axes.set_title(
        f"epsilon {rounded_up(answer.epsilon.upper, 4)}, delta {answer.delta:g}, {answer.mechanism}", fontsize=9
    )
    axes.spines[["top", "right"]].set_visible(False)


def _short(label: str) -> str:
    plain = _plain(label)
    return plain if len(plain) <= 32 else plain[:31] + "…"


def _wrapped(text: str, width: int) -> str:
    return _plain("\n".join(wrap(text, width)))


def _plain(text: str) -> str:
    """Return text for matplotlib: a dollar sign would start a formula."""
    return text.replace("$", r"\$")
