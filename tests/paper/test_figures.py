"""The committed numbers are those of the code; the pictures can be read without colour."""

import math
from pathlib import Path

import pytest
from matplotlib.collections import PathCollection

from setwise.paper import chart
from setwise.paper.figure import Table
from setwise.paper.study import FIGURES

FOLDER = Path(__file__).parents[2] / "docs" / "figures" / "paper"
LESS = {
    "setwise-family": {"most": 20},
    "batch-family": {"points": 3},
    "order-gap": {"points": 7},
    "histogram-once": {"sensitivities": (1, 10, 20)},
    "histogram-composed": {"histograms": (2, 10)},
    "thresholds": {"sensitivities": (1, 5, 20)},
    "adaptive-cost": {"counts": (5, 10)},
    "unequal-order": {"points": 3},
    "worst-answer": {"points": 13},
    "deployment": {"counts": (50, 100)},
    "filter-cost": {"counts": (4, 40)},
}
"""Fewer points than the files have, all of them among those of the files."""

KEYS = {"adaptive-cost": 2, "batch-family": 2, "unequal-order": 2, "filter-cost": 2}
"""How many leading columns tell rows apart, where it is not one."""

OKABE_ITO = {"#000000", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#666666"}


def committed(figure):
    return Table.read((FOLDER / f"{figure.file}.csv").read_text(encoding="utf-8"))


def rows(table):
    return list(zip(*(cells for _, cells in table.columns), strict=True))


def key(row, count):
    return tuple(cell if isinstance(cell, str) else round(cell, 9) for cell in row[:count])


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.label)
def test_the_committed_numbers_are_what_the_code_finds(figure):
    shares = []
    fresh, kept = figure.compute(shares.append, **LESS.get(figure.file, {})), committed(figure)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert fresh.names == kept.names
    count = KEYS.get(figure.file, 2 if "epsilon" in kept.names[:1] else 1)
    by_key = {key(row, count): row for row in rows(kept)}
    assert len(by_key) == len(rows(kept))
    # The worst answer is the top of a flat curve.
    nearly = {"rel": 1e-6, "abs": 1e-6 if figure.file == "worst-answer" else 1e-16}
    for row in rows(fresh):
        old = by_key[key(row, count)]
        assert [cell for cell in row if isinstance(cell, str)] == [cell for cell in old if isinstance(cell, str)]
        numbers = [cell for cell in row if not isinstance(cell, str)]
        assert numbers == pytest.approx([cell for cell in old if not isinstance(cell, str)], nan_ok=True, **nearly)


@pytest.fixture(scope="module", params=FIGURES, ids=lambda figure: figure.label)
def picture(request):
    return request.param.draw(committed(request.param))


def test_axes_have_names(picture):
    for panel in picture.axes:
        assert panel.get_xlabel() or panel.get_xticklabels()[0].get_text()
        assert panel.get_ylabel() or panel is not picture.axes[0]
    assert picture.axes[0].get_ylabel()


def test_curves_are_told_apart_without_colour(picture):
    for panel in picture.axes:
        curves = [line for line in panel.lines if len(line.get_xdata()) > 2 and line.get_linestyle() != "None"]
        looks = [(str(line._dash_pattern), line.get_marker()) for line in curves]
        assert len(set(looks)) == len(looks)


def test_colours_are_those_of_the_palette(picture):
    from matplotlib.colors import to_hex

    for panel in picture.axes:
        for line in panel.lines:
            if len(line.get_xdata()) > 2:
                assert to_hex(line.get_color()) in OKABE_ITO
        assert not [drawn for drawn in panel.collections if isinstance(drawn, PathCollection)]


def test_a_legend_names_the_curves(picture):
    legends = [*picture.legends, *(panel.get_legend() for panel in picture.axes if panel.get_legend())]
    words = " ".join(text.get_text() for legend in legends for text in legend.get_texts())
    assert "ours" in words or "certified bracket" in words


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.label)
def test_the_picture_is_committed(figure):
    text = (FOLDER / f"{figure.file}.svg").read_text(encoding="utf-8")
    assert text.lstrip().startswith("<?xml")
    assert len(text) < 150_000


def test_the_same_numbers_give_the_same_file(tmp_path):
    figure = next(figure for figure in FIGURES if figure.file == "worst-answer")
    files = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        files.append(chart.save(figure.draw, committed(figure), tmp_path / name, figure.file))
    for first, second in zip(*files, strict=True):
        assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.label)
def test_brackets_hold_together(figure):
    """Wherever a table has a lower and an upper end, they are in order."""
    table = committed(figure)
    for name in table.names:
        if name.endswith("_lower"):
            ends = zip(table.numbers(name), table.numbers(name.removesuffix("lower") + "upper"), strict=True)
            assert all(low <= high for low, high in ends if not math.isnan(low))
