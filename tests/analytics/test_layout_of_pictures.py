"""No text of a picture overlaps its panels or leaves the picture, whatever is drawn, and matplotlib does not warn."""

import warnings
from itertools import combinations

import pyarrow as pa
import pytest

import setwise
from setwise.analytics.present.plot import Bar, Caption, Chart, plot_charts

PEOPLE = pa.table(
    {"user": list(range(3000)), "gender": ["MF"[n % 2] for n in range(3000)], "age": [20 + n % 50 for n in range(3000)]}
)
LONG = "mean of the minutes that a user spent on the average page of this site, by user"


@pytest.fixture(scope="module")
def session():
    with setwise.open(PEOPLE, user="user", name="people") as opened:
        yield opened


@pytest.fixture(scope="module")
def answer(session):
    return session.mean(value="age", item="gender", epsilon=1)


def ticks_of(axis):
    """Return the labels of the ticks that are drawn: those between the ends of the axis."""
    low, high = sorted(axis.get_view_interval())
    placed = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    return [label for place, label in placed if low <= place <= high and label.get_text() and label.get_visible()]


def check(draw):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = draw()
        figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    panels = [axes for axes in figure.axes if axes.get_visible()]
    areas = [axes.get_window_extent(renderer) for axes in panels]
    axes_ticks = [ticks_of(axis) for axes in panels for axis in (axes.xaxis, axes.yaxis)]
    inner = [text for ticks in axes_ticks for text in ticks]
    inner += [axis.label for axes in panels for axis in (axes.xaxis, axes.yaxis)]
    outer = [text for text in (figure._suptitle, figure._supxlabel) if text is not None]
    boxes = {text: text.get_window_extent(renderer) for text in (*inner, *outer) if text.get_text().strip()}
    width, height = figure.canvas.get_width_height()
    for text, box in boxes.items():
        assert not [area for area in areas if overlap(area, box)], text
        assert -1 <= box.x0 <= box.x1 <= width + 1, text
        assert -1 <= box.y0 <= box.y1 <= height + 1, text
        if text in outer:
            assert not [other for other, area in boxes.items() if other is not text and overlap(area, box)], text
    for ticks in axes_ticks:
        level = [boxes[text] for text in ticks if text.get_rotation() == 0 and text in boxes]
        assert not [pair for pair in combinations(level, 2) if overlap(*pair)]
    return figure, areas


def overlap(one, other, slack=1.5):
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return width > slack and height > slack


def charts(count, *, panels=1, long=False, over_time=False):
    def label(place):
        if over_time:
            return f"{2020 + place // 12}-{place % 12 + 1:02}-01"
        return f"a long label of a group {place} and more" if long else f"g{place}"

    bars = [
        Bar(cells=(label(place),), value=5.0 + place, interval=(2.0, 9.0 + place), unreliable=place % 3 == 0)
        for place in range(count)
    ]
    return [Chart(name=LONG if long else "users", bars=bars, over_time=over_time) for _ in range(panels)]


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize(("count", "panels"), [(1, 1), (2, 1), (2, 2), (10, 1), (10, 2), (40, 1), (40, 2), (90, 1)])
def test_bars_have_room_beside_titles_and_notes(answer, count, panels, long):
    """`mean age by gender`, two bars, had its caption over the bars, its title cut off and a label struck through."""
    caption = Caption(title=LONG * 2 if long else "", groups=("gender", "the age in decades") if long else ("gender",))
    note = ["A further sentence about these numbers, which explains one of them." * (8 if long else 1)]
    drawn = charts(count, panels=panels, long=long)
    figure, areas = check(lambda: plot_charts(drawn, answer, None, note, caption=caption).figure)
    least = 0.2 * figure.dpi * min(count, 60)
    assert min(area.height for area in areas) > least


@pytest.mark.parametrize("count", [2, 12, 60])
def test_lines_over_time_have_room(answer, count):
    drawn = charts(count, over_time=True)
    check(lambda: plot_charts(drawn, answer, None, caption=Caption(title=LONG, groups=("month",))).figure)


def test_the_answers_of_a_newcomer_have_room(session, answer):
    check(lambda: answer.plot(title=f"{LONG} by gender, people").figure)
    for asked in ("AVG(age) AS age", "AVG(age) AS age, COUNT(*) AS users"):
        result = session.sql(f"SELECT gender, {asked} FROM people GROUP BY gender", epsilon=1)
        check(lambda result=result: result.plot().figure)
