"""The picture of a SQL answer draws the rows and columns of the result: after HAVING, ORDER BY and arithmetic."""

import base64
import re

import pyarrow as pa
import pytest
from matplotlib.container import ErrorbarContainer

import setwise
from setwise.analytics.sql.parser import parse_sql
from setwise.reports.outputs import _picture
from setwise.service.workers.answers import ShowAnswer, StoredAnswer

USERS = {"AA": 400, "BB": 900, "CC": 100, "DD": 600}
CARRIERS = [carrier for carrier, users in USERS.items() for _ in range(users)]
TABLE = pa.table(
    {
        "plane": list(range(len(CARRIERS))),
        "carrier": CARRIERS,
        "year": [2000 + sorted(USERS).index(carrier) for carrier in CARRIERS],
        "month": [f"2026-0{1 + sorted(USERS).index(carrier)}-01" for carrier in CARRIERS],
        "late": [int(carrier != "AA") for carrier in CARRIERS],
    }
)
SORTED = """SELECT carrier, 100 * AVG(CASE WHEN late = 1 THEN 1 ELSE 0 END) AS percent, COUNT(DISTINCT plane) AS planes
FROM source GROUP BY carrier HAVING COUNT(DISTINCT plane) > 250 ORDER BY planes DESC"""
BUDGET = {"contributions": 1, "epsilon": 20, "delta": 1e-6}


@pytest.fixture(scope="module")
def planes():
    with setwise.open(TABLE, user="plane") as session:
        yield session


def ask(planes, sql):
    return planes.sql(sql, **BUDGET)


def labels(axes):
    return [tick.get_text() for tick in axes.get_yticklabels()]


def test_the_picture_has_the_rows_the_order_and_the_numbers_of_the_result(planes):
    result = ask(planes, SORTED)
    axes = result.plot().figure.axes[0]
    assert [row["carrier"] for row in result.rows] == ["BB", "DD", "AA"]
    assert labels(axes) == ["BB", "DD", "AA (unreliable)"]  # none of its planes is late, so its percentage is noise
    assert [bar.get_width() for bar in axes.patches] == [row["percent"]["value"] for row in result.rows]
    assert axes.get_xlabel() == "percent"
    error_bars = [each for each in axes.containers if isinstance(each, ErrorbarContainer)]
    lower_ends = [row["percent"]["interval"][0] for row in result.rows]
    assert [caps[0].get_xdata()[0] for _, caps, _ in error_bars] == pytest.approx(lower_ends)


def test_each_column_of_numbers_has_a_panel(planes, tmp_path):
    """Of a count and a mean only the count was drawn, below a title and above a note about the mean."""
    result = ask(planes, SORTED)
    panels = result.plot(tmp_path / "two.svg").figure.axes
    assert [axes.get_xlabel() for axes in panels] == ["percent", "planes"]
    assert [bar.get_width() for bar in panels[1].patches] == [row["planes"]["value"] for row in result.rows]
    assert labels(panels[1]) == ["BB", "DD", "AA"]
    assert panels[0].figure.get_suptitle().startswith("percent and planes\nepsilon 20")
    both = planes.sql("SELECT month, COUNT(DISTINCT plane) AS n, AVG(late) AS m FROM source GROUP BY month", **BUDGET)
    assert [axes.get_ylabel() for axes in both.plot().figure.axes] == ["n", "m"]
    drawn = both.answer.plot().figure.axes
    assert [axes.get_xlabel() for axes in drawn] == ["users", "mean_late"]
    assert [len(axes.patches) for axes in drawn] == [4, 4]


def test_integer_keys_are_labels_and_not_the_number_that_is_drawn(planes):
    result = ask(planes, "SELECT year, 2 * COUNT(DISTINCT plane) AS twice FROM source GROUP BY year ORDER BY year DESC")
    axes = result.plot().figure.axes[0]
    assert labels(axes) == ["2003", "2002", "2001", "2000"]
    assert axes.get_xlabel() == "twice"
    passed = ask(
        planes, "SELECT y + 1 AS next, n FROM (SELECT year AS y, COUNT(DISTINCT plane) AS n FROM source GROUP BY 1)"
    )
    (chart,) = passed.charts()
    assert sorted(bar.label for bar in chart.bars) == ["2001", "2002", "2003", "2004"]
    assert chart.name == "n"


def test_times_are_a_line_in_their_own_order(planes):
    result = ask(planes, "SELECT month, 2 * COUNT(DISTINCT plane) AS n FROM source GROUP BY month ORDER BY n DESC")
    axes = result.plot().figure.axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [f"2026-0{month}-01" for month in range(1, 5)]
    drawn = dict(zip([row["month"] for row in result.rows], [row["n"]["value"] for row in result.rows], strict=True))
    assert list(axes.lines[0].get_ydata()) == [drawn[month] for month in sorted(drawn)]


def test_rows_without_labels_or_numbers_are_drawn_too(planes):
    one = ask(planes, "SELECT COUNT(DISTINCT plane) / 2 AS half FROM source").charts()
    assert [(chart.name, [bar.label for bar in chart.bars]) for chart in one] == [("half", ["half"])]
    only_names = ask(planes, "SELECT carrier FROM source GROUP BY carrier ORDER BY COUNT(DISTINCT plane) DESC LIMIT 2")
    axes = only_names.plot().figure.axes[0]
    assert labels(axes) == ["BB", "DD"]
    assert axes.get_xlabel() == "in order; no counts were asked for"
    numbers = ask(planes, "SELECT COUNT(DISTINCT plane) + 0 AS n FROM source GROUP BY carrier ORDER BY n DESC").charts()
    assert [bar.label for bar in numbers[0].bars] == ["1", "2", "3", "4"]


def test_reports_and_pages_draw_the_rows_of_the_result(planes):
    result = ask(planes, SORTED)
    encoded = re.search("base64,([^']+)'", _picture("late", result, ()))
    assert encoded is not None
    svg = base64.b64decode(encoded[1]).decode()
    comments = re.findall(
        r"<!-- ([A-D]{2})(?: \(unreliable\))? -->", svg
    )  # matplotlib writes each text as a comment beside its glyphs
    assert comments == ["BB", "DD", "AA"] * 2  # a panel for percent, and one for planes
    stored = StoredAnswer(text=result.answer.stored(), statement=parse_sql(SORTED, user="plane", contributions=1))
    parts = ShowAnswer(stored).result()
    assert [chart["name"] for chart in parts.charts] == ["percent", "planes"]
    assert [bar["item"] for bar in parts.bars] == ["BB", "DD", "AA"]
    assert [bar["count"] for bar in parts.bars] == [row["percent"]["value"] for row in result.rows]
    assert (parts.bar_count, parts.measure, parts.over_time) == (3, "percent", False)
