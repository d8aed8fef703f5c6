"""Numbers that SQL computes from released numbers have intervals, are marked where noise may dominate, and have names.

With a thousand users in one group and ten in another, and noise of a few dozen, the marks below are the same in all but
one of a million runs: the noise scale at epsilon 4 is below 20 rows, and a mark would change only at 15 noise scales.
"""

import csv
import io
import re
from dataclasses import replace

import pyarrow as pa
import pytest

import setwise
from setwise.analytics.sql.parser import parse_sql
from setwise.mechanisms.release import Estimate, Item
from setwise.reports.outputs import rows_of

LARGE, SMALL = 4000, 12
TABLE = pa.table(
    {
        "plane": [f"N{plane:05}" for plane in range(LARGE + SMALL)],
        "carrier": ["AA"] * LARGE + ["YV"] * SMALL,
        "delay": [plane % 100 for plane in range(LARGE + SMALL)],
    }
)
CARRIERS = ["AA", "YV"]


@pytest.fixture(scope="module")
def flights():
    with setwise.open(TABLE, user="plane", name="flights") as session:
        yield session


def by_carrier(result) -> dict[str, dict]:
    return {row["carrier"]: row for row in result.to_dict()["rows"]}


RATIO = "SELECT carrier, {} AS share FROM flights GROUP BY carrier ORDER BY carrier"
COUNTS = "COUNT(*, contribution_bounds_per_group => (0, 1))"


@pytest.mark.parametrize(
    "part",
    [
        "SUM(CASE WHEN delay >= 50 THEN 1 ELSE 0 END, contribution_bounds_per_group => (0, 1))",
        "1.0 * COUNTIF(delay >= 50, contribution_bounds_per_group => (0, 1))",
    ],
)
def test_a_ratio_has_the_interval_of_interval_arithmetic(flights, part):
    """A share of 1.135 and one of -0.34 stood there as if they were exact."""
    text = (
        f"SELECT carrier, {part} AS part, {COUNTS} AS whole, {part} / NULLIF({COUNTS}, 0) AS share "
        "FROM flights GROUP BY carrier ORDER BY carrier"
    )
    result = flights.sql(text, epsilon=4, delta=1e-6, contributions=1, domain=CARRIERS)
    large = by_carrier(result)["AA"]
    (a, b), (c, d) = large["part"]["interval"], large["whole"]["interval"]
    scale = 1.0
    assert large["share"]["interval"] == pytest.approx([scale * a / d, scale * b / c])
    assert "unreliable" not in large["share"]
    assert any("computed from the intervals of 2 released numbers" in note for note in result.notes)
    assert "90% or more" in " ".join(result.notes)


PART_AND_WHOLE = f"COUNTIF(delay >= 50, contribution_bounds_per_group => (0, 1)) / {COUNTS}"


@pytest.mark.parametrize(
    ("part", "whole", "interval", "unreliable"),
    [
        ((500, (480, 520)), (1000, (960, 1040)), [480 / 1040, 520 / 960], False),
        ((5, (-30, 40)), (12, (4, 20)), [-30 / 4, 40 / 4], True),
        ((5, (-30, 40)), (12, (-8, 32)), None, True),
        ((-5, (-9, -1)), (-12, (-20, -4)), [1 / 20, 9 / 4], True),
    ],
)
def test_a_ratio_that_noise_may_dominate_is_marked(flights, part, whole, interval, unreliable):
    """The divisor may be 0, or the interval is twice as wide as the ratio is large; the released numbers are fixed."""
    text = RATIO.format(PART_AND_WHOLE)
    drawn = flights.sql(text, epsilon=4, delta=1e-6, contributions=1, domain=CARRIERS).answer
    estimates = tuple(Estimate(value=value, interval=ends) for value, ends in (part, whole))
    fixed = replace(drawn, items=(Item(label="AA", estimates=estimates),))
    statement = parse_sql(text, user="plane", contributions=1, domain=CARRIERS)
    (row,) = statement.result(fixed).rows
    assert row["share"].get("interval") == (None if interval is None else pytest.approx(interval))
    assert row["share"].get("unreliable", False) is unreliable


def test_a_share_is_asked_for_by_an_average(flights):
    text = RATIO.format("SUM(CASE WHEN delay >= 50 THEN 1 ELSE 0 END) / COUNT(*)")
    result = flights.sql(text, epsilon=4, delta=1e-6, contributions=1, domain=CARRIERS)
    better = "AVG(CASE WHEN delay >= 50 THEN 1 ELSE 0 END)"
    assert better in result.advice
    assert result.to_dict()["advice"] == result.advice
    answer = flights.sql(RATIO.format(better), epsilon=4, delta=1e-6, contributions=1, domain=CARRIERS)
    assert answer.advice == ""
    assert {"low": 0.0, "high": 1.0, "source": "statement"}.items() <= answer.bounds[0].items(), "nothing was searched"
    low, high = by_carrier(answer)["AA"]["share"]["interval"]
    assert 0 <= low <= high <= 1


CAUTION = "divides two numbers that are bounded separately for each plane"


@pytest.mark.parametrize(
    ("ratio", "instead"),
    [
        ("SUM(delay) / COUNT(delay)", "AVG(delay) asks for a mean itself"),
        ("ROUND(SUM(delay) * 1.0 / NULLIF(COUNT(*), 0), 2)", "AVG(delay) asks for a mean itself"),
        ("SAFE_DIVIDE(SUM(delay), COUNT(*))", "AVG(delay) asks for a mean itself"),
        ("COUNTIF(delay >= 50) / COUNT(*)", "AVG(CASE WHEN delay >= 50 THEN 1 ELSE 0 END) asks for a share"),
        ("COUNT(*) FILTER (WHERE delay >= 50) * 1.0 / COUNT(*)", "AVG(CASE WHEN delay >= 50 THEN 1 ELSE 0 END)"),
        ("SUM(delay) / SUM(delay + 1)", "State contribution_bounds_per_group => (low, high) for both numbers"),
        (
            "COUNTIF(delay >= 50, contribution_bounds_per_group => (0, 2)) / "
            "COUNT(*, contribution_bounds_per_group => (0, 2))",
            "AVG(CASE WHEN delay >= 50 THEN 1 ELSE 0 END)",
        ),
    ],
)
def test_a_ratio_of_numbers_that_are_bounded_separately_says_so(ratio, instead):
    """A mean of 2.53 where the table has 3.46, and a share of 0.78 for one of 0.39, stood there without a warning."""
    advice = parse_sql(f"SELECT {ratio} AS share FROM flights", user="plane").advice
    assert f"share {CAUTION}" in advice
    assert "in either direction, and its interval does not allow for that" in advice
    assert instead in advice


@pytest.mark.parametrize(
    "column",
    [
        "COUNT(DISTINCT CASE WHEN delay >= 50 THEN plane END) / COUNT(DISTINCT plane)",
        "AVG(delay) / 60",
        "SUM(delay) / 60",
        PART_AND_WHOLE,
    ],
)
def test_a_ratio_whose_numbers_are_not_both_cut_has_no_caution(column):
    assert CAUTION not in parse_sql(f"SELECT {column} AS share FROM flights", user="plane").advice


NUMBERS = "SELECT carrier, SUM(delay) AS s, COUNT(*) AS n FROM flights GROUP BY carrier"
SUMS = "SELECT carrier, SUM(delay) AS s FROM flights GROUP BY carrier"
COUNTED = "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier"
AVERAGE = "AVG(delay) asks for a mean itself"
WIDE = "State contribution_bounds_per_group => (low, high) for both numbers"


@pytest.mark.parametrize(
    ("statement", "instead"),
    [
        (f"WITH c AS ({NUMBERS}) SELECT carrier, s / n AS share FROM c", AVERAGE),
        (f"SELECT carrier, ROUND(1.0 * s / NULLIF(n, 0), 2) AS share FROM ({NUMBERS}) c ORDER BY share DESC", AVERAGE),
        (f"SELECT c.carrier, SAFE_DIVIDE(c.s, c.n) AS share FROM ({NUMBERS}) AS c", AVERAGE),
        (f"WITH c AS ({NUMBERS}), d AS (SELECT * FROM c WHERE n > 10) SELECT s / n AS share FROM d", AVERAGE),
        (
            f"WITH d AS (WITH c AS ({NUMBERS}) SELECT carrier, s AS a, n AS b FROM c) SELECT a / b AS share FROM d",
            AVERAGE,
        ),
        (f"WITH c AS ({NUMBERS}), d AS (SELECT carrier, s / n AS share FROM c) SELECT carrier, share FROM d", AVERAGE),
        (f"WITH c(x, a, b) AS ({NUMBERS}) SELECT x, a / b AS share FROM c", AVERAGE),
        (f"SELECT x, a / b AS share FROM ({NUMBERS}) AS c(x, a, b)", AVERAGE),
        (f"WITH c AS ({NUMBERS}) SELECT SUM(s) / SUM(n) AS share FROM c", AVERAGE),
        (f"WITH c AS ({NUMBERS}) SELECT carrier, s AS a, n AS b, a / b AS share FROM c", AVERAGE),
        (f"WITH c AS ({NUMBERS} UNION ALL {NUMBERS}) SELECT s / n AS share FROM c", AVERAGE),
        (
            f"WITH a AS ({SUMS}), b AS ({COUNTED}) SELECT a.carrier, a.s / b.n AS share FROM a JOIN b USING (carrier)",
            WIDE,
        ),
        (f"SELECT s / n AS share FROM ({SUMS}) a JOIN ({COUNTED}) b ON a.carrier = b.carrier", WIDE),
        ("SELECT carrier, SUM(delay) / GREATEST(COUNT(*), 1) AS share FROM flights GROUP BY carrier", AVERAGE),
        ("SELECT carrier, COALESCE(SUM(delay), 0) / COUNT(*) AS share FROM flights GROUP BY carrier", AVERAGE),
    ],
)
def test_a_ratio_over_the_results_of_subqueries_says_so_too(statement, instead):
    """A common table expression dropped the caution that the same ratio of two aggregates has."""
    advice = parse_sql(statement, user="plane").advice
    assert advice.count(f"share {CAUTION}") == 1
    assert instead in advice


@pytest.mark.parametrize(
    "statement",
    [
        "WITH c AS (SELECT carrier, SUM(delay) AS s, COUNT(DISTINCT plane) AS n FROM flights GROUP BY carrier) "
        "SELECT s / n AS share FROM c",
        f"WITH c AS ({NUMBERS}) SELECT carrier, s / 60 AS share, n / (SELECT SUM(n) FROM c) AS part FROM c",
        f"WITH c AS ({NUMBERS}) SELECT carrier, n, s FROM c",
        f"WITH c AS ({COUNTED}) SELECT c.n / d.n AS share FROM c JOIN c AS d USING (carrier)",
    ],
)
def test_a_number_of_users_or_a_constant_divides_without_a_caution(statement):
    assert CAUTION not in parse_sql(statement, user="plane").advice


@pytest.mark.parametrize("ending", ["", "WHERE carrier > 'A'", "ORDER BY carrier LIMIT 3"])
def test_unions_of_unions_do_not_take_time_that_doubles_with_each_level(ending):
    columns = "SELECT carrier, s, n FROM"
    levels = [f"c{n} AS ({columns} c{n - 1} UNION ALL {columns} c{n - 1})" for n in range(1, 30)]
    statement = f"WITH c0 AS ({NUMBERS}), {', '.join(levels)} SELECT carrier, s / n AS share FROM c29 {ending}"
    assert f"share {CAUTION}" in parse_sql(statement, user="plane").advice


QUANTILE = "PERCENTILE_CONT(delay, 0.9, contribution_bounds_per_row => (0, 320))"


@pytest.mark.parametrize("columns", [f"{QUANTILE} AS p90", f"ROUND({QUANTILE}, 1) AS p90, {QUANTILE} + 1 AS more"])
@pytest.mark.parametrize("order", ["", " ORDER BY carrier"])
def test_a_quantile_of_a_small_group_is_marked_in_every_form(flights, columns, order):
    """The 0.9 quantile of a carrier with 58 aircraft was 319 where the table has 79, without a word."""
    text = f"SELECT carrier, COUNT(DISTINCT plane) AS planes, {columns} FROM flights GROUP BY carrier{order}"
    result = flights.sql(text, epsilon=1, delta=1e-6, contributions=1, domain=CARRIERS)
    rows = by_carrier(result)
    assert rows["YV"]["p90"]["unreliable"] is True
    assert "unreliable" not in rows["AA"]["p90"]
    assert "(unreliable)" in str(result)
    measures = {row["carrier"]: row["measure"] for row in csv.DictReader(io.StringIO(result.to_csv()))}
    assert re.search(r"p90( and more)? of this row (is|are) unreliable", measures["YV"])
    assert "unreliable" not in measures["AA"]
    stored = {row["carrier"]: row["measure"] for row in rows_of(result).to_pylist()}
    assert stored == measures
    assert "(unreliable)" in result._repr_html_()


def test_a_column_without_an_alias_is_called_by_its_text(flights):
    text = (
        "SELECT CASE WHEN delay < 50 THEN 'early' ELSE 'late' END, AVG(CASE WHEN delay > 15 THEN 1 ELSE 0 END), "
        "COUNTIF(delay > 15) FROM flights GROUP BY 1"
    )
    result = flights.sql(text, epsilon=4, delta=1e-6, contributions=1)
    assert result.columns == (
        "CASE WHEN delay < 50 THEN 'early' ELSE 'late' END",
        "AVG(CASE WHEN delay > 15 THEN 1 ELSE 0 END)",
        "COUNTIF(delay > 15)",
    )
    assert "expression_" not in result.to_json()
    assert {row[result.columns[0]] for row in result.rows} == {"early", "late"}
