"""Joins: every row of the result belongs to one user, contributions are bounded after the join, and no row decides."""

import json
import sys
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import setwise
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.duckdb.engine import DuckDBEngine
from setwise.analytics.engines.duckdb.tables import ArrowTable, JoinedTable
from setwise.analytics.engines.joins import Join, Key, NamedTable
from setwise.analytics.measure import Measure
from setwise.cli.main import main
from setwise.errors import InvalidParameter, SetwiseError, UnsuitableTable
from setwise.ledger.ledger import Ledger
from tests.sizes import examples

RATINGS = {"who": pa.int64(), "film": pa.int64(), "stars": pa.int64()}
FILMS = {"film": pa.int64(), "genre": pa.string()}
PEOPLE = {"who": pa.int64(), "age": pa.int64()}
KEYS = st.none() | st.integers(0, 3)
TOTAL = {"epsilon": 1.0, "delta": 1e-6}


def table(rows, kinds):
    return pa.table({name: pa.array([row[at] for row in rows], kind) for at, (name, kind) in enumerate(kinds.items())})


def using(name, *columns, **more):
    return Join(table=name, keys=tuple(Key(column=each, joined=each) for each in columns), **more)


def engine(ratings, joins, salt=5, **others):
    tables = [NamedTable(name="ratings", table=ArrowTable(table(ratings, RATINGS)), private=True)]
    tables += [
        NamedTable(name=join.table, table=ArrowTable(others[join.table]), private=join.table == "people")
        for join in joins
    ]
    return DuckDBEngine(JoinedTable(tables, joins, "who"), salts=lambda: salt)


rows_of = st.lists(st.tuples(KEYS, KEYS, st.integers(1, 5)), max_size=12)
films_of = st.lists(st.tuples(KEYS, st.sampled_from(["a", "b", "c", None])), max_size=6)
people_of = st.lists(st.tuples(KEYS, st.integers(20, 22)), max_size=6)


@settings(deadline=None, max_examples=examples(40, one_in=8))
@given(rows_of, films_of, people_of, st.booleans())
def test_a_join_is_what_nested_loops_find(ratings, films, people, keeps_all):
    """Duplicates of a key fan out, null equals nothing, and rows that find none are kept only when asked for."""
    joins = (using("films", "film", keeps_all=keeps_all), using("people", "who"))
    counts, expected, lines = {}, {}, 0
    for who, film, _ in ratings:
        met = [genre for key, genre in films if key is not None and key == film]
        for genre in met or ([None] if keeps_all else []):
            for other, age in people:
                if who is not None and other == who:
                    lines += 1
                    if genre is not None:
                        expected[genre, age] = expected.get((genre, age), 0) + 1
    with engine(ratings, joins, films=table(films, FILMS), people=table(people, PEOPLE)) as joined:
        assert joined.describe().names == ("who", "film", "stars", "genre", "age")
        found = joined.histogram(Aggregation(user="who", item=("genre", "age"), per_item=10**6))
        counts = dict(zip(found.labels, found.counts.tolist(), strict=True))
        every = joined.histogram(Aggregation(user="who", per_item=10**6))
    assert counts == expected
    assert sum(every.counts) == lines


@settings(deadline=None, max_examples=examples(40, one_in=8))
@given(rows_of, films_of, st.integers(1, 2), st.integers(1, 3), st.integers(0, 2**60))
def test_one_user_changes_no_more_than_the_bounds_after_the_join(ratings, films, contributions, per_item, salt):
    """However many rows a key meets."""
    joins = (using("films", "film"),)
    films = table(films * 3, FILMS)
    asked = Aggregation(user="who", item="genre", contributions=contributions, per_item=per_item)
    measures = (
        Measure(column="stars", least=-1, most=5),
        Measure(column="stars", averaged=True, origin=Fraction(3), least=-2, most=2),
        Measure(column="stars", averaged=True, rows=2, origin=Fraction(3), least=-2, most=2),
        Measure(column="stars", averaged=True, origin=Fraction(1), most=4, in_cells=True),
    )
    measured = Aggregation(user="who", item="genre", contributions=contributions, measures=measures)
    found, tables = [], []
    for kept in (ratings, [row for row in ratings if row[0] != 1]):
        with engine(kept, joins, salt, films=films) as joined:
            histogram = joined.histogram(asked)
            found.append(dict(zip(histogram.labels, histogram.counts.tolist(), strict=True)))
            tables.append(joined.statistics(measured))
    totals = [([each.totals[place] for each in tables], most) for place, most in enumerate((5, 2, 4))]
    numbers = [([each.numbers[place] for each in tables], most) for place, most in enumerate((1, 1, 2))]
    cells = [
        {(label, cell): n for label, held in each.cells[3].items() for cell, n in enumerate(held)} for each in tables
    ]
    for (with_user, without), most in ((found, per_item), *totals, *numbers, (cells, 1)):
        changes = [with_user.get(each, 0) - without.get(each, 0) for each in {*with_user, *without}]
        assert sum(change != 0 for change in changes) <= contributions
        assert all(abs(change) <= most for change in changes)


RATED = [(user, user % 7, 1 + user % 5) for user in range(3000)]
CSV = "film,genre,year\n" + "".join(f"{film},{'even' if film % 2 == 0 else 'odd'},19{film}0\n" for film in range(7))


@pytest.fixture
def session(tmp_path):
    (tmp_path / "films.csv").write_text(CSV)
    pq.write_table(table([(user, 20 + user % 50) for user in range(3000)], PEOPLE), tmp_path / "people.parquet")
    public, private = {"films": tmp_path / "films.csv"}, {"people": tmp_path / "people.parquet"}
    with setwise.open(table(RATED, RATINGS), user="who", name="r", public=public, private=private) as opened:
        yield opened


@pytest.mark.parametrize(
    "text",
    [
        "SELECT genre, COUNT(DISTINCT who) AS n FROM r JOIN films USING (film) GROUP BY genre",
        "SELECT f.genre, COUNT(DISTINCT r.who) AS n FROM r INNER JOIN films f ON f.film = r.film GROUP BY f.genre",
        "SELECT genre, COUNT(DISTINCT who) AS n FROM r LEFT JOIN films USING (film) WHERE genre = 'even' OR "
        "films.genre = 'odd' GROUP BY genre",
        "SELECT genre, COUNT(DISTINCT who) AS n FROM r JOIN films USING (film) JOIN people USING (who) "
        "WHERE age >= 20 GROUP BY genre",
    ],
)
def test_sql_joins(session, text):
    found = {row["genre"]: row["n"] for row in session.sql(text, contributions=1, epsilon=5.0, delta=1e-6)}
    exact = {"even": sum(user % 7 % 2 == 0 for user in range(3000)), "odd": sum(user % 7 % 2 for user in range(3000))}
    assert set(found) == set(exact)
    for genre, each in found.items():
        assert abs(each["value"] - exact[genre]) < 30


def test_a_left_join_is_tested_by_another_column(session):
    text = (
        "SELECT COUNT(DISTINCT CASE WHEN b.n IS NOT NULL THEN a.who END) AS n FROM r a "
        "LEFT JOIN (SELECT who, COUNT(*) AS n FROM r WHERE film = 3 GROUP BY who) b ON a.who = b.who"
    )
    (row,) = session.sql(text, epsilon=5.0, delta=1e-6)
    assert abs(row["n"]["value"] - sum(user % 7 == 3 for user in range(3000))) < 30


def test_words_join_as_sql_does_and_add_up_together(session):
    joined = session.join("films", using="film")
    plan = joined.preview(setwise.Query.histogram(item="genre", contributions=1, per_item=1), setwise.Total(**TOTAL))
    sql = "SELECT genre, COUNT(DISTINCT who) FROM r JOIN films USING (film) GROUP BY genre"
    assert session.explain(sql, contributions=1, **TOTAL) == plan
    joined.histogram(item="genre", contributions=1, **TOTAL)
    assert session.spent == joined.spent != ()
    assert session.guarantee(1e-5).upper >= plan.epsilon.lower


@pytest.mark.parametrize(
    ("join", "says"),
    [
        ("JOIN nowhere USING (film)", "no table is called 'nowhere'"),
        ("JOIN people ON r.film = people.age", "on the user column alone"),
        ("JOIN people ON r.who = people.age", "on the user column alone"),
        ("JOIN films USING (stars)", "the table 'films' has no column 'stars'"),
        ("JOIN films USING (genre)", "no earlier table has a column 'genre'"),
        ("JOIN films USING (film) JOIN films USING (film)", "two tables are called 'films'"),
        ("LEFT JOIN films f ON r.film = f.film AND r.stars = 1", "put only columns of f there"),
        ("LEFT JOIN films f ON r.film = f.film AND f.genre > 5", "cannot be compared"),
        ("LEFT JOIN films f ON r.film = f.film AND f.nothing > 5", "has no column 'nothing'"),
        ("JOIN films AS r USING (film)", "two tables are called 'r'"),
    ],
)
def test_joins_that_cannot_be_are_refused_before_anything_is_charged(session, join, says):
    with pytest.raises(SetwiseError, match=says):
        session.sql(f"SELECT COUNT(DISTINCT who) FROM r {join}", **TOTAL)
    assert session.spent == ()


def test_a_table_with_the_user_column_is_not_public(tmp_path):
    people = table([(1, 20)], PEOPLE)
    with (
        setwise.open(table(RATED, RATINGS), user="who", name="r", public={"people": people}) as session,
        pytest.raises(InvalidParameter, match="so it is not public"),
    ):
        session.join("people", using="who")


def test_a_name_of_two_tables_says_which():
    other = pa.table({"film": pa.array(range(7), pa.int64()), "stars": ["x", "y", "x", "y", "x", "y", "x"]})
    with setwise.open(table(RATED, RATINGS), user="who", name="r", public={"marks": other}) as session:
        text = "SELECT {}, COUNT(DISTINCT who) AS n FROM r JOIN marks USING (film) GROUP BY {}"
        with pytest.raises(InvalidParameter, match=r"write r\.stars or marks\.stars"):
            session.sql(text.format("stars", "stars"), contributions=1, **TOTAL)
        found = session.sql(text.format("marks.stars", "marks.stars"), contributions=1, **TOTAL)
        assert found.columns == ("stars", "n")
        assert {row["stars"] for row in found} == {"x", "y"}
        assert {row["stars"] for row in session.sql(text.format("r.stars", "r.stars"), contributions=1, **TOTAL)} == {
            1, 2, 3, 4, 5,
        }  # fmt: skip


def test_names_that_differ_in_case_say_which():
    """DuckDB took both for the first."""
    other = pa.table({"film": pa.array(range(7), pa.int64()), "Stars": ["x", "y", "x", "y", "x", "y", "x"]})
    with setwise.open(table(RATED, RATINGS), user="who", name="r", public={"marks": other}) as session:
        text = "SELECT {}, COUNT(DISTINCT who) AS n FROM r JOIN marks USING (film) WHERE r.stars = 1 GROUP BY {}"
        with pytest.raises(InvalidParameter, match=r"write marks\.Stars"):
            session.sql(text.format("Stars", "Stars"), contributions=1, **TOTAL)
        found = session.sql(text.format("marks.Stars", "marks.Stars"), contributions=1, **TOTAL)
        assert {row["Stars"] for row in found} == {"x", "y"}


@pytest.mark.parametrize(
    ("left", "right", "fits"),
    [
        (pa.int64(), pa.uint8(), True),
        (pa.uint64(), pa.int8(), True),
        (pa.timestamp("s"), pa.timestamp("ns"), True),
        (pa.date32(), pa.date32(), True),
        (pa.decimal128(10, 2), pa.decimal128(10, 2), True),
        (pa.decimal128(10, 2), pa.decimal128(38, 30), False),
        (pa.float64(), pa.float64(), False),
        (pa.int64(), pa.string(), True),  # the text of a public table is read as integers
        (pa.string(), pa.int64(), False),
        (pa.int64(), pa.date32(), False),
        (pa.date32(), pa.timestamp("us"), False),
    ],
)
def test_keys_are_compared_by_their_types_and_no_cell_fails(left, right, fits):
    extreme = {
        pa.int64(): [2**63 - 1, 1],
        pa.uint64(): [2**64 - 1, 1],
        pa.timestamp("s"): [2**62, 0],
        pa.timestamp("ns"): [2**62, 0],
        pa.string(): ["99999999999999999999999", "1"],
    }
    keys = [pa.array(extreme.get(kind, [None, None]), kind) for kind in (left, right)]
    with setwise.open(
        pa.table({"who": [1, 2], "key": keys[0]}),
        user="who",
        public={"other": pa.table({"key": keys[1], "label": ["a", "b"]})},
        scan=False,  # which refuses keys that meet nowhere
    ) as session:
        if fits:
            session.join("other", using="key").histogram(item="label", contributions=1, **TOTAL)
        else:
            with pytest.raises(InvalidParameter, match="compared"):
                session.join("other", using="key")


def test_users_a_nanosecond_apart_are_two():
    """Filters compare times to the microsecond, which would give one user's rows to another."""
    times = [pa.array([nanoseconds], pa.timestamp("ns")) for nanoseconds in (1_000, 1_001)]
    for other, count in ((times[0], 1), (times[1], 0)):
        with users(times[0], other) as joined:
            assert sum(joined.histogram(Aggregation(user="who", item="born")).counts) == count
    with pytest.raises(InvalidParameter, match="cannot be compared exactly"):
        users(times[0], times[0].cast(pa.timestamp("us")))


def users(mine, theirs):
    tables = {"main": pa.table({"who": mine}), "people": pa.table({"who": theirs, "born": [1990]})}
    named = [NamedTable(name=name, table=ArrowTable(each), private=True) for name, each in tables.items()]
    return DuckDBEngine(JoinedTable(named, (using("people", "who"),), "who"))


def test_joins_follow_one_another_but_not_what_was_prepared(session, tmp_path):
    both = session.join("films", using="film").join("people", using="who")
    assert both.schema.names == ("who", "film", "stars", "genre", "year", "age")
    pq.write_table(table(RATED, RATINGS), tmp_path / "ratings.parquet")
    with setwise.open(tmp_path / "ratings.parquet", user="who") as source:
        source.prepare(tmp_path / "prepared", item="film")
    films = {"films": tmp_path / "films.csv"}
    with (
        setwise.open(tmp_path / "prepared", user="who", public=films) as prepared,
        pytest.raises(UnsuitableTable, match="what was prepared cannot be joined"),
    ):
        prepared.join("films", using="film")


def test_names_are_quoted(tmp_path):
    odd = 'f"); DROP TABLE x; --'
    rated = pa.table({"who": list(range(500)), odd: [n % 2 for n in range(500)]})
    films = pa.table({odd: [0, 1], "it's": ["no", "yes"]})
    with setwise.open(rated, user="who", name="r", public={"o'dd": films}) as session:
        found = session.join("o'dd", using=odd).histogram(item="it's", contributions=1, **TOTAL)
    assert set(found.labels) == {"no", "yes"}


def test_an_account_of_one_dataset_does_not_pay_for_another(tmp_path):
    ratings, people = tmp_path / "ratings.parquet", tmp_path / "people.parquet"
    pq.write_table(table(RATED, RATINGS), ratings)
    pq.write_table(table([(1, 20)], PEOPLE), people)
    with Ledger.open(str(tmp_path / "l.db")) as ledger:
        ledger.open_filter("ada", epsilon=1.0, delta=1e-6, dataset="ratings")
        for called in ("people", "ratings"):
            with pytest.raises(SetwiseError, match="people"):
                setwise.open(ratings, user="who", private={called: people}, account=ledger.account("ada"))


def test_the_command_line_joins(tmp_path, capsys, monkeypatch):
    pq.write_table(table(RATED, RATINGS), tmp_path / "ratings.parquet")
    pq.write_table(table([(user, 30) for user in range(3000)], PEOPLE), tmp_path / "people.parquet")
    (tmp_path / "films.csv").write_text(CSV)
    text = (
        "SELECT f.year, COUNT(DISTINCT who) AS n FROM ratings JOIN films AS f USING (film) JOIN people USING (who) "
        "WHERE year >= 1930 AND age = 30 GROUP BY f.year"
    )
    tables = [f"ratings={tmp_path / 'ratings.parquet'}", f"people={tmp_path / 'people.parquet'}"]
    words = [
        "setwise",
        "sql",
        text,
        "--public",
        str(tmp_path / "films.csv"),
        "--user",
        "who",
        "--epsilon",
        "3",
        "--delta",
        "1e-6",
    ]
    words += ["--contributions", "1", "--type", "films.year=integer", "--json"]
    monkeypatch.setattr(sys, "argv", [*words, *(each for path in tables for each in ("--table", path))])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert {row["year"] for row in json.loads(capsys.readouterr().out)["rows"]} == {1930, 1940, 1950, 1960}
    monkeypatch.setattr(sys, "argv", [*words, "--table", tables[0]])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "no table is called 'people'" in capsys.readouterr().err


def test_a_public_table_is_not_joined_on_the_column_of_the_users():
    """Rows about users are not public because their column has another name: users.csv was taken without a word."""
    ratings = pa.table({"who": [1, 1, 2], "film": [7, 8, 7]})
    people = pa.table({"id": [1, 2], "gender": ["F", "M"]})
    join = "ratings JOIN people ON ratings.who = people.id"
    statement = f"SELECT gender, COUNT(DISTINCT who) AS n FROM {join} GROUP BY gender"
    with (
        setwise.open(ratings, user="who", name="ratings", public={"people": people}) as session,
        pytest.raises(InvalidParameter, match=r"joined on the user column 'who', so .* not public: .* USING \(who\)"),
    ):
        session.sql(statement, epsilon=1, delta=1e-6)
