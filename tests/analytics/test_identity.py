"""Two requests have one identity only if they ask the same of the same data; what cannot be written is refused."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import setwise
from setwise.analytics.query import Count, Query
from setwise.analytics.request_identity import identify_source
from setwise.errors import InvalidParameter, KeyConflict
from setwise.ledger.ledger import Ledger
from setwise.mechanisms.planning.request import Total
from tests.analytics.recorded import recorded_session, visits

TOTAL = Total(epsilon=1, delta=1e-6)
LONE = "\ud800"


@pytest.fixture
def account(tmp_path):
    with Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        ledger.open_filter("ada", epsilon=50.0, delta=1e-3)
        yield ledger.account("ada")


def films():
    """Two public tables that both have a column `code`, with other countries behind it."""
    first = pa.table({"page": ["home", "help"], "code": [1, 2]})
    second = pa.table({"minutes": [5, 7], "code": [2, 1]})
    third = pa.table({"code": [1, 2], "country": ["NO", "SE"]})
    return {"first": first, "second": second, "third": third}


def test_joins_on_columns_of_different_tables_are_different_requests(account):
    def select(table):
        return (
            "SELECT country, COUNT(DISTINCT who) AS n FROM visits JOIN first USING (page) "
            f"JOIN second ON visits.minutes = second.minutes JOIN third ON {table}.code = third.code GROUP BY country"
        )

    words = {"epsilon": 1, "delta": 1e-6, "contributions": 2}
    with setwise.open(visits(), user="who", name="visits", public=films(), account=account) as session:
        answer = session.sql(select("first"), key="one", **words)
        assert session.sql(select("first"), key="one", **words) == answer
        with pytest.raises(KeyConflict):
            session.sql(select("second"), key="one", **words)


def test_a_relative_path_is_another_table_in_another_folder(tmp_path, account, monkeypatch):
    for folder, users in (("a", 100), ("b", 2000)):
        (tmp_path / folder).mkdir()
        pq.write_table(visits(users), tmp_path / folder / "visits.parquet")

    def count(**words):
        with setwise.open("visits.parquet", user="who", account=account, **words) as session:
            return session.count(epsilon=1, key="one").value

    monkeypatch.chdir(tmp_path / "a")
    first = count()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    monkeypatch.chdir(tmp_path / "link")
    assert count() == first
    monkeypatch.chdir(tmp_path / "b")
    with pytest.raises(KeyConflict):
        count()


def test_a_name_says_which_table_it_is(tmp_path, account):
    (tmp_path / "moved").mkdir()
    pq.write_table(visits(100), tmp_path / "visits.parquet")
    values = []
    for _ in range(2):
        path = next(tmp_path.rglob("visits.parquet"))
        with setwise.open(path, user="who", name="visits of June", account=account) as session:
            values.append(session.count(epsilon=1, key="one").value)
        os.replace(path, tmp_path / "moved" / "visits.parquet")
    assert values[0] == values[1]


def test_other_columns_change_nothing_and_another_kind_of_column_does():
    texts = []
    for table in (
        visits(10),
        visits(10).append_column("more", pa.array([1] * len(visits(10)))),
        visits(10).set_column(2, "minutes", visits(10).column("minutes").cast(pa.float64())),
    ):
        _, session = recorded_session(table)
        texts.append(session.request(Query.mean(value="minutes", low=0, high=9, where="page = 'home'"), TOTAL))
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(("words", "own"), [({}, "source"), ({"name": "visits"}, "visits")])
def test_a_table_in_memory_has_one_name(words, own):
    with setwise.open(visits(), user="who", **words) as session:
        assert session.sql(f"SELECT COUNT(DISTINCT who) AS n FROM {own}", epsilon=1, key="k").rows
        charged = session.spent
        for other in ("salaries", "Table", "visit"):
            with pytest.raises(InvalidParameter, match=f"on the table '{own}', not '{other}'"):
                session.sql(f"SELECT COUNT(DISTINCT who) AS n FROM {other}", epsilon=1, key="k")
        assert session.spent == charged


def test_a_dataset_names_its_table_in_memory(tmp_path):
    with Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        ledger.open_filter("ada", epsilon=5.0, delta=1e-6, dataset="visits")
        with setwise.open(visits(), user="who", dataset="visits", account=ledger.account("ada")) as session:
            assert session.sql("SELECT COUNT(DISTINCT who) AS n FROM visits", epsilon=1, delta=0).rows


def test_sources_are_what_they_resolve_to(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(visits(10), file)
    (tmp_path / "b.parquet").symlink_to(file)
    assert identify_source(file) == identify_source(f"{tmp_path}/x/../b.parquet") == f"file {file.resolve()}"
    assert identify_source("shop.duckdb::t") == identify_source("shop.duckdb", table="t")
    assert identify_source("t", "postgresql://ada:secret@one/db") != identify_source("t", "postgresql://ada@two/db")
    assert "secret" not in identify_source("t", "postgresql://ada:secret@one/db")
    assert identify_source("main.t", "spark") == "spark main.t"


REFUSED = {
    "domain": lambda session: session.histogram(item="page", domain=["home", LONE], epsilon=1),
    "domain of several columns": lambda session: session.histogram(
        item=["page", "minutes"], domain=[(LONE, 1)], epsilon=1
    ),
    "filter": lambda session: session.count(where=f"page = '{LONE}'", epsilon=1),
    "label of missing items": lambda session: session.histogram(
        item="page", null_item=LONE, contributions=1, epsilon=1, delta=1e-6
    ),
    "item": lambda session: session.histogram(item=LONE, contributions=1, epsilon=1, delta=1e-6),
    "value": lambda session: session.mean(value=LONE, low=0, high=1, epsilon=1),
    "counted column": lambda session: session.ask(Query(statistics=(Count(column=LONE),)), TOTAL),
    "key": lambda session: session.count(epsilon=1, key=LONE),
    "select": lambda session: session.sql(f'SELECT COUNT(DISTINCT who) AS "{LONE}" FROM visits', epsilon=1),
    "constant": lambda session: session.sql(f"SELECT COUNT(*) FROM visits WHERE page = '{LONE}'", epsilon=1),
    "preview": lambda session: session.preview(Query.count(where=f"page = '{LONE}'"), TOTAL),
}


@pytest.mark.parametrize("name", REFUSED)
def test_text_that_cannot_be_written_is_refused_before_anything_is_charged(name):
    events = []
    _, session = recorded_session(events=events)
    with pytest.raises(InvalidParameter):
        REFUSED[name](session)
    assert session.spent == ()
    assert events == []


def test_a_request_that_fails_before_its_charge_leaves_no_smaller_budget():
    """The promise is made of what was charged: 5, not the 0.1 of the request that failed under the same key."""
    _, session = recorded_session()
    describe = session._engine.describe
    calls = []

    def failing():
        calls.append(1)
        if len(calls) == 2:  # after the plan, before the charge
            raise InvalidParameter("the table has no columns")
        return describe()

    session._engine.describe = failing
    with pytest.raises(InvalidParameter):
        session.count(epsilon=0.1, key="one")
    assert len(calls) == 2
    session.count(epsilon=5, key="one")
    assert session.guarantee(1e-6).upper == pytest.approx(5.0, rel=0.01)
    assert session.guarantee(1e-6, "setwise").upper == pytest.approx(5.0, rel=0.01)


def test_a_key_is_charged_for_one_plan():
    """The same request is planned otherwise once its table has changed; the first plan was charged."""
    _, session = recorded_session()
    session.count(epsilon=1, key="one")
    with pytest.raises(KeyConflict):
        session._state.one_off.charge(
            [], (1.0, 0.0), key="one", request=session.request(Query.count(), Total(epsilon=1, delta=0))
        )


def test_a_private_table_beside_it_does_not_replace_the_identity_of_the_table(tmp_path, account):
    for name, users in (("a", 100), ("b", 200)):
        pq.write_table(visits(users), tmp_path / f"{name}.parquet")
    pq.write_table(pa.table({"who": [1], "age": [30]}), tmp_path / "people.parquet")

    def request(name):
        beside = {"people": tmp_path / "people.parquet"}
        with setwise.open(tmp_path / f"{name}.parquet", user="who", account=account, private=beside) as session:
            assert f"{name}.parquet" in repr(session)
            return session.request(Query.count(), TOTAL)

    assert request("a") != request("b")
