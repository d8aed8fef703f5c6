"""A picture of an answer: bars with their intervals."""

import io
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from setwise.accounting.notation import rounded_up
from setwise.analytics.answer import in_words
from setwise.analytics.present.text import average_of_all
from setwise.errors import InvalidParameter, MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from setwise.analytics.answer import PrivateAnswer
    from setwise.mechanisms.release import Item

_FORMATS = {".png", ".svg"}
MOST_BARS = 60
_NOTE_WIDTH = 130
"""Characters of a line below the picture."""
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

    def _repr_png_(self) -> bytes:
        drawn = io.BytesIO()
        self.figure.savefig(drawn, format="png", dpi=_RESOLUTION)
        return drawn.getvalue()


def plot_answer(answer: "PrivateAnswer", path: str | None) -> Picture:
    """Draw the items as bars, highest first, with their intervals as error bars; into a file if one is named."""
    _check_matplotlib()
    if path is not None:
        check_picture(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = answer.items[:MOST_BARS]
    figure = Figure(figsize=(8.0, max(1.8, 1.2 + 0.3 * len(shown))), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places = list(range(len(shown)))
    counts, intervals = zip(*map(_drawn, shown), strict=True) if shown else ((), ())
    # Blue of the palette of Okabe and Ito, intervals in black: readable without colour.
    axes.barh(places, counts, color="#56B4E9", height=0.72)
    for place, count, interval in zip(places, counts, intervals, strict=True):
        if interval is not None:
            ends = [[count - interval[0]], [interval[1] - count]]
            axes.errorbar(count, place, xerr=ends, color="black", capsize=3, linewidth=1.1)
    axes.set_yticks(places, [_short(in_words(each.label)) for each in shown])
    axes.invert_yaxis()
    if answer.statistics or any(each.count is not None for each in shown):
        axes.set_xlabel(answer.heading)
        note = f"{answer.interval_note} {average_of_all(answer, MOST_BARS)}".strip()
        figure.supxlabel("\n".join(wrap(note, _NOTE_WIDTH)).replace("$", r"\$"), fontsize=7, x=0.01, ha="left")
    else:
        axes.set_xticks([])
        axes.set_xlabel("in order; no counts were asked for" if shown else "no item passed the threshold")
    axes.set_title(
        f"epsilon {rounded_up(answer.epsilon.upper, 4)}, delta {answer.delta:g}, {answer.mechanism}", fontsize=9
    )
    axes.spines[["top", "right"]].set_visible(False)
    picture = Picture(figure)
    if path is not None:
        picture.save(path)
    return picture


def _drawn(each: "Item") -> tuple[float, tuple[float, float] | None]:
    """Return the value and interval to draw: the count, or the first statistic."""
    if each.estimates:
        return each.estimates[0].value, each.estimates[0].interval
    return each.count or 0, each.interval


def _short(label: str) -> str:
    # A dollar sign would start a formula.
    plain = label.replace("$", r"\$")
    return plain if len(plain) <= 32 else plain[:31] + "…"
