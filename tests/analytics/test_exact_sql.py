# ruff: noqa: E501 - statements stand on one line each
"""With the noise set to zero, random statements give what DuckDB computes on the bounded rows, or are refused."""

import math
import random
from datetime import date, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest

import setwise
from setwise.errors import SetwiseError
from tests.sizes import FULL

ROWS = 3000
USERS = 700
EVENTS = pa.table(
    {
        "user_id": [n * 11 % USERS for n in range(ROWS)],
        "country": [("NO", "SE", "DK")[n % 3] for n in range(ROWS)],
        "plan": [("free", "pro", None)[n % 7 % 3] for n in range(ROWS)],
        "seats": [(1, None, 2, 5)[n % 9 % 4] for n in range(ROWS)],
        "device": [("Phone", "phone", "web")[n % 5 % 3] for n in range(ROWS)],
        "minutes": [n % 59 for n in range(ROWS)],
        "price": [float(n % 11) / 2 for n in range(ROWS)],
        "paid": [n % 4 == 0 for n in range(ROWS)],
        "moment": list(range(ROWS)),
        "day": [date(2024, 1, 1) + timedelta(days=n * 7 % 400) for n in range(ROWS)],
        "seen": [datetime(2024, 1, 1) + timedelta(minutes=n * 37 + n % 7 * 9000) for n in range(ROWS)],
    }
)
COUNTRIES = pa.table({"country": ["NO", "SE", "DK"], "region": ["north", "north", "south"]})
STATEMENTS = 300 if FULL else 40


# Rows that a statement may read, with the numbers, conditions and keys that they have. Sums clip to steps of a
# thousandth of their bounds, and all numbers here are whole multiples of these steps, so that sums are exact.
SOURCES = {
    "events": (
        ["minutes", "price", "minutes + 1", "price * 2", "ABS(price - 3)", "minutes / 4"],
        ["minutes > 20", "paid", "country = 'NO'", "price BETWEEN 1 AND 4", "NOT paid AND minutes < 50",
         "device ILIKE 'p%'", "minutes % 2 = 0", "country IN ('NO', 'DK')", "price > 1 OR paid"],
        ["country", "device", "LOWER(device)", "paid", "minutes % 3", "CASE WHEN minutes < 30 THEN 'a' ELSE 'b' END",
         "plan", "seats", "UPPER(plan)", "SUBSTR(device, 1, 2)", "country || '-' || TRIM(device)",
         "CASE WHEN device LIKE 'p%' THEN LOWER(device) WHEN paid THEN 'paid' ELSE COALESCE(plan, '-') END"],
    ),
    "events AS e LEFT JOIN countries AS c ON e.country = c.country AND c.region = 'north'": (
        ["minutes", "price + 1"], ["c.country IS NULL", "c.region = 'north' OR paid", "c.country IS NOT NULL"],
        ["c.region", "device", "CASE WHEN c.country IS NULL THEN 'none' ELSE 'found' END", "c.country"],
    ),
    "events LEFT JOIN (SELECT user_id, COUNT(*) AS n FROM events WHERE paid GROUP BY user_id) AS p USING (user_id)": (
        ["minutes", "COALESCE(n, 0)"], ["p.user_id IS NULL", "n > 1", "p.user_id IS NOT NULL AND paid"],
        ["country", "n", "CASE WHEN p.user_id IS NULL THEN 'never' ELSE 'paid' END"],
    ),
    "(SELECT * FROM events WHERE country IN (SELECT country FROM countries WHERE region = 'north')) AS e": (
        ["minutes", "price"], ["paid", "minutes > 20"], ["country", "device"],
    ),
    "(SELECT * FROM events AS o WHERE paid OR NOT EXISTS (SELECT 1 FROM countries AS c WHERE c.country = o.country AND c.region <> 'south')) AS e": (
        ["minutes", "price"], ["paid", "minutes > 20"], ["country", "device"],
    ),
    "(SELECT user_id, COUNT(*) AS n, MAX(minutes) AS top FROM events WHERE country IN (SELECT country FROM countries WHERE region = 'south') "
    "GROUP BY user_id) AS e": (["n", "top"], ["n > 1", "top > 30"], ["n", "top % 3"]),
    "(SELECT user_id, plan, seats, minutes, CASE WHEN plan = 'pro' THEN DATE_TRUNC('month', day) END AS month FROM events) AS e": (
        ["minutes", "minutes + 1"], ["seats > 1", "plan IS NULL", "minutes > 20"],
        ["plan", "seats", "seats % 2", "STRFTIME(month, '%Y-%m')"],
    ),
    "(SELECT user_id, UPPER(country) AS c, minutes * 2 AS m FROM events WHERE paid) AS e": (
        ["m", "m + 1"], ["m > 20", "c = 'SE'"], ["c", "m % 3"],
    ),
    "(SELECT user_id, COUNT(*) AS n, MAX(minutes) AS top, MIN(price) AS low, SUM(minutes) AS all_minutes FROM events "
    "GROUP BY user_id HAVING COUNT(*) > 1) AS e": (
        ["n", "top", "low", "all_minutes", "all_minutes / 4"], ["n > 3", "top >= 50", "low < 1"], ["n % 2", "top % 2"],
    ),
    "(SELECT user_id, country, COUNT(*) AS n, AVG(minutes) AS mean FROM events GROUP BY user_id, country) AS e": (
        ["n", "n * 3"], ["n > 1", "mean > 30", "country <> 'DK'"], ["country", "n % 2"],
    ),
    "events JOIN countries USING (country)": (
        ["minutes", "price"], ["region = 'north'", "minutes > 20"], ["region", "device"],
    ),
    "(SELECT user_id, day, seen FROM events) AS e": (
        ["DATE_DIFF('day', day, seen)", "DATE_DIFF('month', day, seen) + 5", "DATE_DIFF('hour', day, seen) % 7",
         "EXTRACT(MINUTE FROM seen)", "EXTRACT(DOY FROM day)", "CAST(seen AS DATE) - day"],
        ["day + INTERVAL 40 DAY > seen", "DATE_TRUNC('month', day) = DATE_TRUNC('month', seen)",
         "seen - INTERVAL 3 HOUR >= '2024-02-01'"],
        ["STRFTIME(seen, '%Y-%m')", "CAST(CAST(DATE_TRUNC('quarter', day - INTERVAL 1 MONTH) AS DATE) AS VARCHAR)",
         "MONTHNAME(day)", "CAST(EXTRACT(DOW FROM day) AS VARCHAR)", "FLOOR(EXTRACT(EPOCH FROM seen) / 864000)"],
    ),
    "(SELECT user_id, MIN(seen) AS earliest, MAX(seen) AS latest, DATE_TRUNC('month', MIN(day)) AS cohort FROM events GROUP BY user_id) "
    "AS e": (
        ["DATE_DIFF('day', earliest, latest)", "DATE_DIFF('month', cohort, latest)"],
        ["latest > earliest + INTERVAL 20 DAY", "cohort < earliest"], ["STRFTIME(cohort, '%Y-%m')"],
    ),
    # Rows of the same user beside each other.
    "(SELECT user_id, country, minutes, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY moment DESC) AS r, minutes - "
    "LAG(minutes) OVER (PARTITION BY user_id ORDER BY moment) AS gap FROM events) AS e": (
        ["minutes", "r", "minutes * r"], ["r = 1", "r <= 2", "gap > 0"], ["country", "r % 2"],
    ),
    "(SELECT * FROM events QUALIFY RANK() OVER (PARTITION BY user_id, country ORDER BY price) = 1) AS e": (
        ["minutes", "price"], ["paid", "minutes > 20"], ["country", "device"],
    ),
    "events JOIN (SELECT user_id, COUNT(*) AS n, MAX(minutes) AS top FROM events GROUP BY user_id) AS p USING (user_id)": (
        ["minutes", "n", "top - minutes"], ["n > 4", "minutes = top", "paid"], ["country", "n"],
    ),
    "(SELECT a.user_id, a.country, a.minutes AS m, b.minutes AS later FROM events AS a JOIN events AS b "
    "ON a.user_id = b.user_id AND a.moment < b.moment) AS e": (
        ["m", "later"], ["later > m", "country = 'NO'"], ["country", "later % 2"],
    ),
    "(SELECT * FROM events AS o WHERE minutes > (SELECT AVG(f.minutes) FROM events AS f WHERE f.user_id = o.user_id)) AS e": (
        ["minutes", "price"], ["paid"], ["country"],
    ),
    "(SELECT * FROM events WHERE user_id NOT IN (SELECT user_id FROM events WHERE minutes > 55)) AS e": (
        ["minutes", "price"], ["paid"], ["country"],
    ),
    "(SELECT * FROM events AS o WHERE EXISTS (SELECT 1 FROM events AS f WHERE f.user_id = o.user_id AND f.moment < "
    "o.moment AND f.country = o.country)) AS e": (["minutes", "price"], ["paid"], ["country"]),
    "(SELECT * FROM events WHERE (user_id, moment) IN (SELECT user_id, MIN(moment) FROM events GROUP BY user_id)) AS e": (
        ["minutes", "price"], ["paid"], ["country", "device"],
    ),
    "(SELECT DISTINCT ON (user_id, country) user_id, country, minutes FROM events "
    "ORDER BY user_id, country, minutes DESC NULLS LAST) AS d": (
        ["minutes"], ["minutes > 20", "country = 'NO'", "minutes IS NOT NULL"], ["country", "minutes % 3"],
    ),
}  # fmt: skip
"""Text of FROM, with the numbers, conditions and group keys that its rows have."""

SHELLS = [
    "{core}",
    "SELECT * FROM ({core}) AS t",
    "WITH t AS ({core}) SELECT * FROM t WHERE a0 > 100",
    "WITH t AS ({core}) SELECT ROUND(a0 / 3, 2) AS r, a0 * 2 - 1 AS d, CASE WHEN a0 > 300 THEN 'x' ELSE 'y' END FROM t",
    "WITH t AS ({core}) SELECT a0, RANK() OVER (ORDER BY a0 DESC) AS r, SUM(a0) OVER () AS s FROM t",
    "WITH t AS ({core}) SELECT MAX(a0) AS most, COUNT(*) AS groups, AVG(a0) AS mean FROM t",
    "WITH t AS ({core}), s AS (SELECT SUM(a0) AS s FROM t) SELECT ROUND(t.a0 / s.s, 4) AS share FROM t, s",
    "{core} UNION ALL {core}",
    "SELECT a0 FROM ({core} ORDER BY a0 DESC LIMIT 2) AS t",  # a private top 2 where a0 counts, and free otherwise
    "SELECT a0 FROM ({core} ORDER BY a0 LIMIT 1) AS t",
]

ROWS_KEPT = 20
"""The most rows of a user in a variance; no user has more in any of the sources."""


def aggregate(choose: random.Random, numbers: list[str], conditions: list[str], place: int) -> tuple[str, str, str]:
    """Return an aggregate as analysts write it, its part over the rows of one user, and its part over users."""
    number, condition = choose.choice(numbers), choose.choice(conditions)
    high = choose.choice([2, 5, 50])
    bounds = f"contribution_bounds_per_group => (0, {high})"
    clipped = f"LEAST(GREATEST(p{place}, 0), {high})"
    match choose.randrange(11):
        case 0:
            return f"COUNT(*, {bounds})", "COUNT(*)", f"SUM({clipped})"
        case 1:
            return f"COUNTIF({condition}, {bounds})", f"COUNT_IF({condition})", f"SUM({clipped})"
        case 2:
            return "COUNT(DISTINCT user_id)", "COUNT(*)", "COUNT(*)"
        case 3:
            return f"SUM({number}, {bounds})", f"COALESCE(SUM({number}), 0)", f"SUM({clipped})"
        case 4:
            written = f"SUM({number}, {bounds}) FILTER (WHERE {condition})"
            return written, f"COALESCE(SUM({number}) FILTER (WHERE {condition}), 0)", f"SUM({clipped})"
        case 5:
            step, centre = high / 1000, high / 2  # the mean of each user is rounded to a thousandth of the bounds
            rounded = f"{centre} + {step} * ROUND(({clipped} - {centre}) / {step}::DOUBLE)"
            return f"AVG({number}, {bounds})", f"AVG({number})", f"AVG({rounded})"
        case 6:
            counted = choose.choice([number, *conditions])
            values = f"LIST(DISTINCT {counted}) FILTER (WHERE ({counted}) IS NOT NULL)"
            return f"COUNT(DISTINCT {counted})", values, f"COALESCE(LEN(LIST_DISTINCT(FLATTEN(LIST(p{place})))), 0)"
        case 7 | 8:
            function = choose.choice(["VARIANCE", "STDDEV", "VAR_POP", "STDDEV_POP"])
            population = f"{'var' if function.startswith('VAR') else 'stddev'}_pop"
            rows = f"contribution_bounds_per_row => (0, {high}), max_rows_contributed => {ROWS_KEPT}"
            values = f"LIST(LEAST(GREATEST({number}, 0), {high}) :: DOUBLE) FILTER (WHERE ({number}) IS NOT NULL)"
            over = f"COALESCE(LIST_AGGREGATE(FLATTEN(LIST(p{place})), '{population}'), 0)"
            return f"{function}({number}, {rows})", values, over
        case 9:
            first, second = (
                f"CASE WHEN {condition} THEN 'x' END",
                f"CASE WHEN {choose.choice(conditions)} THEN 'y' ELSE 'z' END",
            )
            pairs = f"STRUCT_PACK(a := {first}, b := {second})"
            values = f"LIST(DISTINCT {pairs}) FILTER (WHERE ({first}) IS NOT NULL)"
            over = f"COALESCE(LEN(LIST_DISTINCT(FLATTEN(LIST(p{place})))), 0)"
            return f"COUNT(DISTINCT {first}, {second})", values, over
        case _:
            inner = f"CASE WHEN {condition} THEN {number} ELSE 0 END"
            return f"SUM({inner}, {bounds})", f"SUM({inner})", f"SUM({clipped})"


def statement(choose: random.Random) -> tuple[str, str]:
    """Return a random statement, and SQL for DuckDB that computes its answer on the bounded rows."""
    source = choose.choice(list(SOURCES))
    numbers, conditions, keys = SOURCES[source]
    found = [aggregate(choose, numbers, conditions, place) for place in range(choose.randint(1, 3))]
    key = choose.choice([None, *keys])
    where = choose.choice([None, *conditions])
    filtered = "" if where is None else f" WHERE {where}"
    selected = ", ".join(f"{written} AS a{place}" for place, (written, _, _) in enumerate(found))
    core = f"SELECT {'' if key is None else f'{key} AS k, '}{selected} FROM {source}{filtered}"
    core += "" if key is None else " GROUP BY k"
    label = "" if key is None else f"{key} AS k, "
    parts = ", ".join(f"{part} AS p{place}" for place, (_, part, _) in enumerate(found))
    users = f"SELECT {label}user_id, {parts} FROM {source}{filtered} GROUP BY ALL"
    over = ", ".join(f"{each} AS a{place}" for place, (_, _, each) in enumerate(found))
    exact = f"SELECT {over} FROM ({users})" if key is None else f"SELECT k, {over} FROM ({users}) GROUP BY k"
    if key is not None and len(found) == 1 and found[0][0].startswith("SUM"):
        exact += " HAVING a0 > 0"  # private groups are found by their only sum, so that groups of sum 0 are not shown
    shell = choose.choice(SHELLS)
    return shell.format(core=core), shell.format(core=exact)


def comparable(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Return rows in one order, with numbers as floats and all other cells as text."""

    def cell(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return str(value).lower() if isinstance(value, bool) else str(value)
        return str(None) if math.isnan(value) else float(value)  # JSON has no NaN, so that 0 / 0 is shown as null

    plain = [tuple(map(cell, row)) for row in rows]
    return sorted(plain, key=lambda row: [f"{each:20.6f}" if isinstance(each, float) else str(each) for each in row])


def test_random_statements_without_noise_give_exactly_what_duckdb_computes(noiseless: None):
    choose = random.Random(25)
    answered = 0
    with (
        setwise.open(EVENTS, user="user_id", name="events", public={"countries": COUNTRIES}) as session,
        duckdb.connect() as connection,
    ):
        connection.register("events", EVENTS)
        connection.register("countries", COUNTRIES)
        for _ in range(STATEMENTS):
            text, exact = statement(choose)
            try:
                found = session.sql(text, epsilon=50, delta=1e-2, contributions=20)
            except SetwiseError:
                continue
            assert not found.problem, (text, found.problem)
            # Sums and counts are exact. A user's mean that lies between two steps may be rounded to either of them, and
            # what a user adds to a variance is rounded to 1/52,428 of half the bounds.
            off = 0.05 if "AVG(" in text or "LIST_AGGREGATE" in exact else 1e-9
            answered += 1
            cells = [tuple(c["value"] if isinstance(c, dict) else c for c in row.values()) for row in found]
            expected = connection.execute(exact).fetchall()
            ours, theirs = comparable(cells), comparable([tuple(map(_plain, row)) for row in expected])
            assert len(ours) == len(theirs), (text, ours, theirs)
            for our, their in zip(ours, theirs, strict=True):
                for mine, other in zip(our, their, strict=True):
                    numbers = isinstance(mine, float) and isinstance(other, float)
                    same = numbers and math.isclose(mine, other, rel_tol=1e-9, abs_tol=off)
                    assert same or mine == other, (text, our, their)
    assert answered > 0.8 * STATEMENTS, answered


@pytest.mark.parametrize("source", list(SOURCES))
def test_every_source_of_the_grammar_is_answered_exactly(noiseless: None, source: str):
    """Each source once with a key, a condition and a count, so that no form of the grammar is only ever refused."""
    _, conditions, keys = SOURCES[source]
    core = "SELECT {key} AS k, COUNT(*{bounds}) AS n FROM {source} WHERE {condition} GROUP BY k"
    words = {"key": keys[0], "source": source, "condition": conditions[-1]}
    with (
        setwise.open(EVENTS, user="user_id", name="events", public={"countries": COUNTRIES}) as session,
        duckdb.connect() as connection,
    ):
        connection.register("events", EVENTS)
        connection.register("countries", COUNTRIES)
        bounds = ", contribution_bounds_per_group => (0, 50)"
        found = session.sql(core.format(bounds=bounds, **words), epsilon=50, delta=1e-2, contributions=20)
        ours = {_label(row["k"]): row["n"]["value"] for row in found}
        expected = connection.execute(core.format(bounds="", **words)).fetchall()
        assert ours == {_label(key): count for key, count in expected}


def test_statements_that_differ_in_the_type_of_a_constant_do_not_share_their_rows(noiseless: None):
    """1 = TRUE in Python: the groups of the second statement were those of the first, true and false."""
    text = "SELECT CASE WHEN paid THEN {} ELSE {} END AS k, COUNT(DISTINCT user_id) AS n FROM events GROUP BY k"
    with setwise.open(EVENTS, user="user_id", name="events") as session:
        keys = [
            {row["k"] for row in session.sql(text.format(*ends), epsilon=50, delta=1e-2, contributions=2)}
            for ends in (("TRUE", "FALSE"), (1, 0))
        ]
    assert [sorted(map(str, each)) for each in keys] == [["false", "true"], ["0", "1"]]


GROUPING_SETS = [
    ("country, plan", "CUBE (country, plan)"),
    ("plan, seats", "ROLLUP (plan, seats)"),
    ("country, device", "GROUPING SETS ((country), (device), (country, device), ())"),
    ("paid, device, country", "paid, ROLLUP (device, country)"),
    ("LOWER(device), minutes % 3", "ROLLUP (1), CUBE (minutes % 3)"),
]
"""Columns of a SELECT, and a GROUP BY with several sets of these columns."""

GROUPED = [
    "SELECT {columns}, COUNT(*{rows}) AS n, SUM(minutes{sums}) AS s, COUNT(DISTINCT user_id) AS u FROM events GROUP BY {sets}",
    "SELECT {columns}, GROUPING({first}) AS g, 2 * COUNT(*{rows}) AS n FROM events WHERE paid GROUP BY {sets} HAVING COUNT(*{rows}) > 90",
    "SELECT n FROM (SELECT {columns}, COUNT(*{rows}) AS n FROM events GROUP BY {sets} ORDER BY GROUPING({first}) DESC, SUM(minutes{sums}) DESC LIMIT 3)",
]
"""Statements with several grouping sets; the bounds of {rows} and {sums} cut no user."""

GROUPED_BY = [
    (columns, sets, GROUPED if FULL else [GROUPED[place % 3]]) for place, (columns, sets) in enumerate(GROUPING_SETS)
]
"""Every GROUP BY with its statements: all in the full run, one in the small run, which has each statement at least once."""


@pytest.mark.parametrize(("columns", "sets", "texts"), GROUPED_BY)
def test_grouping_sets_without_noise_are_those_of_duckdb(noiseless: None, columns: str, sets: str, texts: list[str]):
    words = {"columns": columns, "sets": sets, "first": columns.partition(", ")[0]}
    bounds = {
        "rows": ", contribution_bounds_per_group => (0, 20)", "sums": ", contribution_bounds_per_group => (0, 2000)"
    }  # fmt: skip
    with setwise.open(EVENTS, user="user_id", name="events") as session, duckdb.connect() as connection:
        connection.register("events", EVENTS)
        for text in texts:
            found = session.sql(text.format(**words, **bounds), epsilon=100, delta=1e-2, contributions=20)
            assert not found.problem
            cells = [tuple(c["value"] if isinstance(c, dict) else c for c in row.values()) for row in found]
            expected = connection.execute(text.format(**words, rows="", sums="")).fetchall()
            assert comparable(cells) == comparable([tuple(map(_plain, row)) for row in expected]), text


OF_TOP_GROUPS = [
    "SELECT country, device, COUNT(*{rows}) AS n FROM events WHERE paid AND device IN ({devices}) GROUP BY country, device",
    "SELECT STRFTIME(day, '%Y-%m') AS m, device, SUM(minutes{sums}) AS s FROM events JOIN (SELECT device AS device__, COUNT(*{rows}) AS c "
    "FROM events GROUP BY device ORDER BY c DESC LIMIT 2) AS t ON device = device__ GROUP BY 1, 2",
    "SELECT e.country, e.seats, COUNT(DISTINCT e.user_id) AS n FROM events AS e JOIN (SELECT seats, COUNT(*{rows}) AS c FROM "
    "events GROUP BY seats ORDER BY c DESC LIMIT 1) AS t ON e.seats = t.seats GROUP BY e.country, e.seats HAVING COUNT(*{rows}) > 9",
    "WITH top AS (SELECT plan, COUNT(*{rows}) AS c FROM events GROUP BY plan ORDER BY c DESC LIMIT 1) "
    "SELECT plan, country, COUNT(*{rows}) AS n FROM events WHERE plan NOT IN (SELECT plan FROM top) GROUP BY plan, country",
    "WITH top AS (SELECT plan, COUNT(*{rows}) AS c FROM events GROUP BY plan ORDER BY c DESC LIMIT 1) "
    "SELECT plan, country, COUNT(*{rows}) AS n FROM events JOIN top USING (plan) GROUP BY plan, country",
]
"""Statements about the rows of released groups, as the series limits of BI tools write them."""


@pytest.mark.parametrize("text", OF_TOP_GROUPS)
def test_rows_of_released_groups_without_noise_are_those_of_duckdb(noiseless: None, text: str):
    devices = "SELECT device FROM events GROUP BY device ORDER BY COUNT(*{rows}) DESC LIMIT 2"
    rows, sums = ", contribution_bounds_per_group => (0, 20)", ", contribution_bounds_per_group => (0, 2000)"
    with setwise.open(EVENTS, user="user_id", name="events") as session, duckdb.connect() as connection:
        connection.register("events", EVENTS)
        asked = text.format(rows=rows, sums=sums, devices=devices.format(rows=rows))
        found = session.sql(asked, epsilon=100, delta=1e-2, contributions=60)
        assert not found.problem
        assert len(found.answer.parts) == 2
        cells = [tuple(c["value"] if isinstance(c, dict) else c for c in row.values()) for row in found]
        expected = connection.execute(text.format(rows="", sums="", devices=devices.format(rows=""))).fetchall()
        assert comparable(cells) == comparable([tuple(map(_plain, row)) for row in expected])
        assert cells


@pytest.mark.parametrize(
    "text",
    [
        "SELECT country, COUNT(*) FROM events WHERE device IN (SELECT device FROM events GROUP BY device) GROUP BY country",
        "SELECT device, COUNT(*) FROM events JOIN (SELECT device AS d, country AS c FROM events GROUP BY 1, 2) AS t ON device = d "
        "GROUP BY device",
        "SELECT device, t.n, COUNT(*) FROM events JOIN (SELECT device AS d, COUNT(*) AS n FROM events GROUP BY 1) AS t "
        "ON device = d GROUP BY device, t.n",
        "SELECT device, COUNT(*) FROM events LEFT JOIN (SELECT device AS d, COUNT(*) AS n FROM events GROUP BY 1) AS t "
        "ON device = d GROUP BY device",
    ],
)
def test_rows_of_released_groups_are_refused_where_released_rows_cannot_tell_them_apart(text: str):
    """Rows are not grouped by the compared column, meet several released rows, read other columns, or are all kept."""
    with setwise.open(EVENTS, user="user_id", name="events") as session, pytest.raises(SetwiseError):
        session.sql(text, epsilon=1)


WEIGHTED = """
WITH own AS (SELECT user_id, {key} AS k, LEAST(GREATEST({number}, 0), 50) AS x FROM {source} WHERE ({number}) IS NOT NULL),
weighted AS (SELECT k, x, 1.0 / COUNT(*) OVER (PARTITION BY user_id, k) AS w FROM own)
SELECT k, SUM(w), SUM(w) FILTER (WHERE x < {value} - {step}), SUM(w) FILTER (WHERE x <= {value} + {step})
FROM weighted WHERE COALESCE(CAST(k AS VARCHAR), 'None') = '{label}' GROUP BY k
"""
"""The weights of all rows, of those below a value, and of those up to a value, where every user weighs 1."""


def test_quantiles_without_noise_divide_the_rows_as_duckdb_counts_them(noiseless: None):
    """The share of rows below a quantile is at most the share asked for, and that up to it is at least that share.

    Every user has one vote. Votes are divided in thousandths, and a pick is on a grid, so that one step and two votes
    are allowed.
    """
    choose = random.Random(26)
    checked = 0
    with (
        setwise.open(EVENTS, user="user_id", name="events", public={"countries": COUNTRIES}) as session,
        duckdb.connect() as connection,
    ):
        connection.register("events", EVENTS)
        connection.register("countries", COUNTRIES)
        for _ in range(40 if FULL else 10):
            source = choose.choice(list(SOURCES))
            numbers, _, keys = SOURCES[source]
            key, number, share = choose.choice(keys), choose.choice(numbers), choose.choice([0.1, 0.5, 0.9])
            step = 1 if "price" not in number and "/" not in number and number != "low" else 0.05
            text = (
                f"SELECT {key} AS k, COUNT(DISTINCT user_id) AS n, PERCENTILE_CONT({number}, {share}, "
                f"contribution_bounds_per_row => (0, 50)) AS q FROM {source} GROUP BY k"
            )
            for row in session.sql(text, epsilon=50, delta=1e-2, contributions=20):
                value = row["q"]["value"]
                exact = WEIGHTED.format(
                    key=key, number=number, source=source, value=value, step=step, label=_label(row["k"])
                )
                ((_, total, below, upto),) = connection.execute(exact).fetchall()
                room = 2 + total / 500
                assert float(below or 0) <= share * float(total) + float(room), (text, row)
                assert float(upto or 0) >= share * float(total) - float(room), (text, row)
                checked += 1
    assert checked >= 15


def _label(value: object) -> str:
    """Return a group key as DuckDB casts it to text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: object) -> object:
    """Return a cell of DuckDB with decimals and large integers as floats."""
    return value if value is None or isinstance(value, str | bool | int | float) else float(str(value))
