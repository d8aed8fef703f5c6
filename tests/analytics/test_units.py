"""A composite unit of privacy: its units are bounded and protected as users are, and the promise says so first."""

import datetime
import json
import re

import pyarrow as pa
import pytest

import setwise
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import Joined, open_engine
from setwise.analytics.units import unit_column, unit_derivation
from setwise.errors import InvalidParameter, SetwiseError, UnknownColumn
from tests.analytics.engines.backends import DuckDBBackend, PostgresqlBackend

ROWS = [
    ("a", "x", 0), ("a", "x", 0), ("a", "y", 0), ("a", "x", 1), ("a", "x", 2), ("b", "x", 0), ("b", "y", 1),
    ("a\n1", "x", 0), (None, "x", 0), ("c", "x", None),
]  # fmt: skip


def visits(rows=ROWS):
    first = datetime.datetime(2026, 1, 1, 8)
    moments = [None if day is None else first + datetime.timedelta(days=day) for _, _, day in rows]
    return pa.table(
        {
            "who": pa.array([user for user, _, _ in rows], pa.string()),
            "page": pa.array([page for _, page, _ in rows], pa.string()),
            "at": pa.array(moments, pa.timestamp("us")),
        }
    )


@pytest.fixture(params=["duckdb", "postgresql"])
def backend(request, tmp_path):
    if request.param == "duckdb":
        return DuckDBBackend(tmp_path)
    return PostgresqlBackend(request.getfixturevalue("postgresql_server").schema())


@pytest.mark.parametrize("unit", ["user,day", "user,at by day", "user,page", "user,at by month"])
def test_units_are_the_distinct_pairs_of_user_and_value(backend, unit):
    table = visits()
    source, engine = (table, "duckdb") if backend.name == "duckdb" else (backend.store(table), backend.url)
    with open_engine(source, engine) as plain:
        derivation = unit_derivation("who", unit, plain.describe())
    part = {"page": lambda row: row[1], "at by month": lambda row: None if row[2] is None else 0}.get(
        unit.partition(",")[2], lambda row: row[2]
    )
    wanted = {(row[0], part(row)) for row in ROWS if row[0] is not None and part(row) is not None}
    column = unit_column("who", unit)
    with open_engine(source, engine, joined=Joined(derivation=derivation)) as derived:
        found = derived.histogram(Aggregation(user=column))
        bounded = derived.histogram(Aggregation(user=column, item="page", contributions=1))
    assert found.counts.tolist() == [len(wanted)]
    assert sum(bounded.counts.tolist()) == len(wanted), "each unit keeps one group"


def test_a_count_is_one_of_units_and_says_which_it_protects():
    many = [(f"u{number % 50}", "x", number % 20) for number in range(1000)]
    with setwise.open(visits(many), user="who", unit="user,day") as session:
        answer = session.count(epsilon=20.0)
    assert abs(answer.items[0].count - len({(user, day) for user, _, day in many})) <= 5
    assert answer.promise.startswith("Each single day of a user is protected, but not the user")
    found = answer.to_dict()
    assert (found["unit"], found["promise"]) == ("user,day", answer.promise)
    assert "each unit 'user,day' of a user" in answer.guarantee
    with setwise.open(visits(many), user="who") as session:
        plain = session.count(epsilon=20.0)
    assert "unit" not in plain.to_dict()
    assert plain.promise.startswith("Whether or not one person")


@pytest.mark.parametrize("question", [{"item": "who"}, {"item": "page", "where": "who = 'a'"}])
def test_users_whom_nothing_protects_cannot_be_singled_out(question):
    with (
        setwise.open(visits(), user="who", unit="user,day") as session,
        pytest.raises(InvalidParameter, match="users themselves are not protected"),
    ):
        session.histogram(epsilon=1.0, delta=1e-6, contributions=1, **question)


@pytest.mark.parametrize(
    ("unit", "error", "said"),
    [
        ("day", InvalidParameter, "unit is user"),
        ("user,", InvalidParameter, "unit is user"),
        ("user,nothing", UnknownColumn, "nothing"),
        ("user,at", InvalidParameter, "told apart by"),
        ("user,at by hour", InvalidParameter, "told apart by"),
        ("user,who", InvalidParameter, "beside the user column"),
        ("user,page by day", SetwiseError, "dates or times"),
    ],
)
def test_units_that_cannot_be_are_refused(unit, error, said):
    with pytest.raises(error, match=said):
        setwise.open(visits(), user="who", unit=unit)


def test_a_day_of_a_table_with_two_times_must_name_its_column():
    table = visits().append_column("seen", visits().column("at"))
    with pytest.raises(InvalidParameter, match="2 columns of times"):
        setwise.open(table, user="who", unit="user,day")
    setwise.open(table, user="who", unit="user,seen by day").close()


@pytest.mark.parametrize(
    ("protects", "unit"), [("user", "user,day"), ("user,day", "user"), ("user,at by week", "user,day")]
)
def test_an_account_pays_for_the_unit_that_it_protects_and_no_other(tmp_path, protects, unit):
    with setwise.Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        ledger.open_filter("ada", epsilon=1.0, delta=1e-6, unit=protects)
        with pytest.raises(InvalidParameter, match="promises about two units do not add up"):
            setwise.open(visits(), user="who", unit=unit, account=ledger.account("ada"))
        assert ledger.account("ada").status().charges == 0


@pytest.mark.parametrize("unit", ["user,day", "user,at by day"])
def test_an_account_of_days_pays_for_days_however_they_are_written(tmp_path, unit):
    with setwise.Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        ledger.open_filter("ada", epsilon=1.0, delta=1e-6, unit="user,day")
        with setwise.open(visits(), user="who", unit=unit, account=ledger.account("ada")) as session:
            answer = session.count(epsilon=0.5, key="k")
            assert session.count(epsilon=0.5, key="k").replayed
        assert ledger.account("ada").status().charges == 1
        assert answer.promise.startswith("Each single value of 'at by day'" if "at" in unit else "Each single day")


def test_private_tables_are_joined_by_users():
    with pytest.raises(InvalidParameter, match="joined by users"):
        setwise.open(visits(), user="who", unit="user,day", private={"other": visits()})


def test_a_catalog_names_the_unit(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(visits(), tmp_path / "visits.parquet")
    (tmp_path / "tables.toml").write_text(
        '[tables.visits]\nsource = "visits.parquet"\nuser = "who"\nunit = "user,day"\n', encoding="utf-8"
    )
    with setwise.open("visits", catalog=tmp_path / "tables.toml") as session:
        assert session.count(epsilon=1.0).unit == "user,day"


def test_the_command_line_takes_a_unit(setwise, tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(visits([(f"u{number % 5}", "x", number) for number in range(20)]), tmp_path / "visits.parquet")
    words = ["count", tmp_path / "visits.parquet", "--user", "who", "--epsilon", "20"]
    found = json.loads(setwise(*words, "--unit", "user,day", "--json").stdout)
    assert abs(found["items"][0]["count"] - 20) <= 5
    assert found["unit"] == "user,day"
    people = setwise(*words, "--unit", "user,day", "--details")
    assert "Each single day of a user is protected" in " ".join(people.stdout.split())
    preview = " ".join(setwise(*words, "--per-user", "3", "--unit", "user,day", "--preview").stdout.split())
    assert "released │ Number of events, at most 3 of a user-day" in preview
    refused = setwise(*words, "--unit", "week")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_sql_counts_units_too():
    many = [(f"u{number % 50}", "xy"[number % 2], number % 29) for number in range(3000)]
    with setwise.open(visits(many), user="who", unit="user,day") as session:
        result = session.sql("SELECT page, COUNT(*) AS n FROM source GROUP BY page", epsilon=20.0, delta=1e-4)
    assert result.to_dict()["rows"]
    assert result.answer.promise.startswith("Each single day of a user is protected")


def test_units_are_called_by_their_name_and_not_users():
    many = [(f"u{number % 5}", "users", number % 20) for number in range(1000)]
    with setwise.open(visits(many), user="who", unit="user,day") as session:
        count = session.count(epsilon=20.0)
        pages = session.histogram(item="page", contributions=1, epsilon=20.0, delta=1e-4)
    assert (count.measure, count.items[0].label) == ("user-days", "user-days")
    assert pages.measure.startswith("user-days; each user-day counts towards one group")
    assert [item.label for item in pages.items] == ["users"], "a label of the table stays as it is"
    with setwise.open(visits(many), user="who", unit="user,page") as session:
        assert session.count(epsilon=20.0).measure == "units 'user,page'"


def test_groups_are_hidden_below_a_number_of_units():
    rows = [(f"u{number % 50}", "x", number % 20) for number in range(1000)]
    with setwise.open(visits(rows), user="who", unit="user,day") as session:
        answer = session.histogram(item="page", epsilon=1.0, delta=1e-6, contributions=1)
    for text in (answer.measure, answer.left_out, answer.hidden, answer.number_sentences()):
        assert "user-days may be hidden" in text
        assert "users may be hidden" not in text


def test_every_sentence_of_an_answer_and_its_preview_is_about_units():
    """Sentences said "each user's own mean", "at most 4 of a user" and "28 users" where each day of a user counts."""
    rows = [(f"u{number % 50}", "xyz"[number % 3], number % 20) for number in range(6000)]
    table = visits(rows).append_column("price", pa.array([number % 90 for number in range(6000)], pa.float64()))
    about_users = re.compile(r"\busers?\b(?!-day)")
    price = {"value": "price", "low": 0, "high": 90}
    with setwise.open(table, user="who", unit="user,day") as session:
        answers = [
            session.count(per_user=5, epsilon=1.0),
            session.mean(**price, epsilon=1.0),
            session.mean(value="price", epsilon=1.0),
            session.sum(**price, epsilon=1.0),
            session.quantile(**price, item="page", contributions=2, epsilon=1.0, delta=1e-6),
            session.variance(**price, per_user=3, epsilon=1.0),
            session.distinct(value="page", epsilon=1.0),
            session.histogram(item="page", contributions=5, epsilon=0.05, delta=1e-9),
        ]
        text = "SELECT page, COUNT(*) AS n, AVG(price) AS m, MEDIAN(price) AS q FROM source GROUP BY page"
        answers.append(session.sql(text, epsilon=1.0).answer)
        plan = session.explain(text, epsilon=1.0).to_dict()
    names = ("measure", "left_out", "brief", "hidden", "interval_note", "why", "reason", "hint", "heading")
    sentences = [getattr(answer, name, "") for answer in answers for name in names]
    sentences += [answer.number_sentences() for answer in answers]
    sentences += [plan[name] for name in ("accuracy", "about", "threshold", "why")]
    assert not [sentence for sentence in sentences if about_users.search(sentence)]
    assert answers[0].measure == "events, at most 5 of a user-day"
    assert "Each user-day's own mean of price is clipped to 0 .. 90" in answers[1].left_out
    assert "groups with a number of user-days of at least about" in plan["accuracy"]


def test_names_of_columns_stay_where_units_are_called_by_their_name():
    rows = [(f"u{number % 50}", "x", number % 20) for number in range(1000)]
    table = visits(rows).append_column("users", pa.array([number % 9 for number in range(1000)], pa.float64()))
    with setwise.open(table, user="who", unit="user,day") as session:
        answer = session.sum(value="users", low=0, high=9, epsilon=1.0)
        plan = session.explain("SELECT SUM(users, contribution_bounds_per_group => (0, 9)) FROM source", epsilon=1.0)
    assert answer.measure == "sum of users, at most 9 of a user-day"
    assert "Each user-day's own sum of users is clipped" in answer.left_out
    assert (plan.accuracy.about, plan.accuracy.text[:23]) == ("sums of users", "Sums of users within ±2")
    with setwise.open(table, user="who", unit="user,page") as session:
        of_pages = session.mean(value="users", low=0, high=9, epsilon=1.0)
    assert "Each unit's own mean of users is clipped" in of_pages.left_out
    assert "a unit's own between 0 and 9" in of_pages.measure


def test_each_select_of_a_statement_counts_in_units():
    rows = [(f"u{number % 50}", "xy"[number % 2], number % 20) for number in range(3000)]
    count = "COUNT(*, contribution_bounds_per_group => (0, 1)) AS n"
    parts = [f"SELECT page, {count} FROM source WHERE page >= '{least}' GROUP BY page" for least in "xy"]
    with setwise.open(visits(rows), user="who", unit="user,day") as session:
        answer = session.sql(" UNION ALL ".join(parts), epsilon=4.0, delta=1e-6, contributions=1).answer
    assert [part.unit for part in answer.parts] == ["user,day"] * 2
    for text in (answer.measure, answer.left_out, answer.brief, answer.number_sentences()):
        assert "user-days may be hidden" in text
        assert "users may be hidden" not in text
    assert "each user-day counts" in answer.measure
    assert "each user counts" not in answer.measure


def test_public_tables_are_not_joined_by_users_whom_nothing_protects():
    people = pa.table({"who": ["a"], "team": ["red"]})
    with setwise.open(visits(), user="who", unit="user,day", public={"people": people}) as session:
        with pytest.raises(InvalidParameter, match="users themselves are not protected"):
            session.join("people", using="who")
        with pytest.raises(InvalidParameter, match="users themselves are not protected"):
            session.sql(
                "SELECT team, COUNT(*) AS n FROM source JOIN people USING (who) GROUP BY team",
                epsilon=1.0, delta=1e-6, contributions=1,
            )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(DISTINCT who) AS n FROM source",
        "SELECT COUNT(*) AS n FROM source WHERE who = 'a'",
        "SELECT SUM(CASE WHEN who = 'a' THEN 1 ELSE 0 END) AS n FROM source",
        # Rows of one user compared over several days: one day's rows would change what others of the user count.
        "SELECT COUNT(*) AS n FROM (SELECT who, ROW_NUMBER() OVER (PARTITION BY who ORDER BY at) AS r FROM source) "
        "WHERE r = 1",
        "SELECT COUNT(*) AS n FROM source WHERE who IN (SELECT who FROM source WHERE page = 'x')",
        "SELECT AVG(n) AS n FROM (SELECT who, COUNT(*) AS n FROM source GROUP BY who)",
        "SELECT COUNT(*) AS n FROM source JOIN (SELECT who, COUNT(*) AS c FROM source GROUP BY who) AS p USING (who) "
        "WHERE c > 1",
        "SELECT COUNT(*) AS n FROM source AS a WHERE EXISTS (SELECT 1 FROM source AS b WHERE b.who = a.who "
        "AND b.page = 'y')",
        "SELECT COUNT(*) AS n FROM source AS a WHERE at > (SELECT MIN(at) FROM source AS b WHERE b.who = a.who)",
    ],
)
def test_sql_cannot_single_out_users_whom_nothing_protects(text):
    with (
        setwise.open(visits(), user="who", unit="user,day") as session,
        pytest.raises(SetwiseError, match="who"),
    ):
        session.sql(text, epsilon=1.0, delta=1e-6, contributions=1)


@pytest.mark.parametrize(
    "text",
    [
        'SELECT SUBSTR("who and day", 12, 20) AS w, COUNT(*) AS n FROM source GROUP BY w',
        "SELECT COUNT(*) AS n FROM source WHERE SUBSTR(\"who and day\", 12, 20) = 'a'",
        "SELECT COUNT(*) AS n FROM (SELECT *, LOWER(\"who and day\") AS w FROM source) AS x WHERE w LIKE '%a'",
        'SELECT COUNT(*) AS n FROM (SELECT *, "who and day" AS w FROM source) AS x',
        'SELECT COUNT(*) AS n FROM (SELECT "who and day", MAX("who and day") AS w FROM source GROUP BY 1) AS x',
        'SELECT COUNT(*) AS n FROM (SELECT "who and day", LENGTH("who and day") AS w FROM source) AS x',
        'SELECT COUNT(*) AS n FROM (SELECT "who and day", LAG("who and day") OVER (PARTITION BY "who and day" '
        "ORDER BY at) AS w FROM source) AS x",
    ],
)
def test_sql_computes_nothing_with_the_units_whose_text_holds_the_user(text):
    with (
        setwise.open(visits(), user="who", unit="user,day") as session,
        pytest.raises(InvalidParameter, match="users themselves are not protected"),
    ):
        session.sql(text, epsilon=1.0, delta=1e-6, contributions=1)


@pytest.mark.parametrize(
    "text",
    [
        'SELECT COUNT(DISTINCT "who and day") AS n FROM source',
        'SELECT AVG(n) AS n FROM (SELECT "who and day", COUNT(*) AS n FROM source GROUP BY "who and day") AS o',
        'SELECT COUNT(*) AS n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "who and day" ORDER BY at) AS r '
        "FROM source) AS o WHERE r = 1",
        'SELECT COUNT(*) AS n FROM source WHERE "who and day" IN (SELECT "who and day" FROM source WHERE page = \'x\')',
        'SELECT COUNT(*) AS n FROM source a JOIN (SELECT "who and day", COUNT("who and day") AS c FROM source '
        'GROUP BY "who and day") AS b ON a."who and day" = b."who and day" WHERE c = 1',
    ],
)
def test_sql_groups_and_joins_the_rows_of_each_unit(text):
    with setwise.open(visits(), user="who", unit="user,day") as session:
        assert session.sql(text, epsilon=1.0, delta=1e-6, contributions=1).rows
