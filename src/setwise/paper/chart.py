"""The common style of the pictures: one palette, one set of line styles, and files that depend only on the numbers."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from setwise.analytics.present.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY_BLUE, VERMILION
from setwise.errors import MissingExtra
from setwise.paper.figure import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Picture: TypeAlias = Figure

_SETTINGS: Any = {  # Any, because matplotlib's type lists every allowed key
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "svg.fonttype": "none",  # write text as text, so that files are smaller and can be searched
    "svg.hashsalt": "setwise",  # fixed identifiers, so that the same numbers give the same file
}


Dashes = str | tuple[float, tuple[float, ...]]
"""A line style by name, or as an offset and the lengths of dashes and gaps."""

SHARES: dict[int, Dashes] = {0: "-", 25: (0, (6, 1.5)), 50: "-.", 75: (0, (3, 1, 1, 1, 1, 1)), 100: "--"}
"""The line style for each share of pure-DP uses, in percent."""


@dataclass(frozen=True, slots=True)
class Stroke:
    """How a curve is drawn: its `color` (of Okabe and Ito's palette), line `style`, `marker`, and `width` in points.

    The style and the marker distinguish curves without colour.
    """

    color: str
    style: Dashes = "-"
    marker: str = ""
    width: float = 1.6


OURS = Stroke(BLUE, "-")
OURS_TOO = Stroke(SKY_BLUE, "-", "s")
PAPER = Stroke(VERMILION, "-.")
PAPER_TOO = Stroke(PURPLE, "--", "o")
BATCH = Stroke(GREEN, "--")
PURE = Stroke(GREY, ":", "", 2.0)
OTHER = Stroke(ORANGE, "-", "^")


def check_matplotlib() -> None:
    """Raise `MissingExtra` if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise MissingExtra("the pictures need matplotlib: pip install 'setwise[paper]'")


def panels(
    count: int, size: tuple[float, float], ratios: "Sequence[float] | None" = None
) -> "tuple[Picture, list[Axes]]":
    """Return a picture with `count` panels in a row, and its panels.

    `size` is the width and height of the picture in inches, and `ratios` are the relative widths of the panels (None:
    all equal).
    """
    from matplotlib.figure import Figure

    picture = Figure(figsize=size, layout="constrained")
    grid = picture.subplots(1, count, squeeze=False, width_ratios=ratios)
    return picture, list(grid[0])


def dots(
    axes: "Axes", x: "Sequence[float]", y: "Sequence[float]", stroke: Stroke, label: str, marker: str = "o"
) -> None:
    """Draw open markers, without a line, at the points (x, y); a curve that they lie on stays visible.

    `axes` is the panel to draw in. `stroke` gives the colour only. `marker` is matplotlib's name of the marker, and
    `label` is the entry in the legend.
    """
    axes.plot(
        x, y, marker, color=stroke.color, markerfacecolor="none", markersize=4.5, markeredgewidth=1.2, label=label
    )


def line(
    axes: "Axes", x: "Sequence[float]", y: "Sequence[float]", stroke: Stroke, label: str, every: int | None = None
) -> None:
    """Draw a curve through the points (x, y) in the panel `axes`; `label` is its entry in the legend.

    `stroke` has its colour, line style and marker. `every` = n puts the marker at every n-th point; None at every
    point.
    """
    axes.plot(
        x,
        y,
        color=stroke.color,
        linestyle=stroke.style,
        marker=stroke.marker or None,
        markevery=every,
        linewidth=stroke.width,
        markersize=4,
        label=label,
    )


def band(
    axes: "Axes",
    x: "Sequence[float]",
    low: "Sequence[float]",
    high: "Sequence[float]",
    stroke: Stroke,
    label: str,
    every: int | None = None,
) -> None:
    """Draw certified intervals over `x`: a line at the upper ends `high`, and the area below it filled down to `low`.

    `low` are the lower ends. `axes` is the panel to draw in, `stroke` the colour and style of the line, and `label` the
    entry in the legend. `every` = n puts a marker at every n-th point; None at every point.
    """
    axes.fill_between(x, low, high, color=stroke.color, alpha=0.35, linewidth=0)
    line(axes, x, high, stroke, label, every)


def legend_below(picture: "Picture", axes: "Axes", columns: int) -> None:
    """Put a legend with the curves of the panel `axes` below all panels of `picture`, in `columns` columns."""
    handles, labels = axes.get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=8.5, frameon=False)


def save(draw: "Callable[[Table], Picture]", table: Table, folder: Path, name: str) -> list[Path]:
    """Draw `table` with `draw`, write the picture to `folder` as an SVG file and a PNG file, and return both paths.

    `name` is the name of both files, without the ending.
    """
    check_matplotlib()
    import matplotlib as mpl

    files = [folder / f"{name}.svg", folder / f"{name}.png"]
    with mpl.rc_context(_SETTINGS):
        picture = draw(table)
        picture.savefig(files[0], metadata={"Date": None})
        picture.savefig(files[1], dpi=150)
    return files
