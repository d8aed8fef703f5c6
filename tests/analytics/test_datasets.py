"""An account opened for a dataset pays for that one only, and no other account pays for it."""

import pyarrow as pa
import pytest
from pyarrow import parquet

import setwise
from setwise.analytics.engines.connect import location_of
from setwise.errors import InvalidParameter
from setwise.ledger.ledger import Ledger

VISITS = pa.table({"who": list(range(50)), "page": ["home"] * 50})


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parquet.write_table(VISITS, "visits.parquet")
    parquet.write_table(VISITS, "purchases.parquet")
    (tmp_path / "logs").mkdir()
    parquet.write_table(VISITS, "logs/one.parquet")
    with setwise.open("visits.parquet", user="who") as table:
        table.prepare("ready", item="page")
    with Ledger.open("ledger.db") as opened:
        opened.set_cap("visits", epsilon=1.0, delta=1e-6)
        opened.open_filter("ada", epsilon=5.0, delta=1e-6, dataset="visits")
        opened.open_filter("bob", epsilon=5.0, delta=1e-6, dataset="purchases")
        opened.open_filter("eve", epsilon=5.0, delta=1e-6)
        yield opened


def count(ledger, name, source, **words):
    with setwise.open(source, user="who", account=ledger.account(name), **words) as table:
        return table.count(counts="pure:0.1")


@pytest.mark.parametrize(
    ("name", "source", "words"),
    [
        ("ada", "visits.parquet", {}),
        ("ada", "ready", {"dataset": "visits"}),
        ("ada", "purchases.parquet", {"dataset": "visits"}),
        ("ada", VISITS, {"dataset": "visits"}),
        ("bob", "purchases.parquet", {}),
        ("eve", "logs", {}),
        ("eve", VISITS, {}),
        ("eve", "visits.parquet", {"dataset": "something else"}),
    ],
)
def test_who_may_pay(ledger, name, source, words):
    if source == "ready":
        with setwise.open(source, user="who", account=ledger.account(name), **words):
            return
    assert len(count(ledger, name, source, **words)) == 1
    assert ledger.account(name).status().charges == 1


@pytest.mark.parametrize(
    ("name", "source", "words", "named"),
    [
        ("ada", "purchases.parquet", {}, "'visits'.*'purchases'"),
        ("ada", "visits.parquet", {"dataset": "purchases"}, "'visits'.*'purchases'"),
        ("ada", VISITS, {}, "'visits'.*no name"),
        ("bob", "visits.parquet", {}, "'purchases'.*'visits'"),
        ("bob", "ready", {}, "'purchases'.*'visits'"),
        ("eve", "visits.parquet", {}, "'visits'.*'eve'"),
        ("eve", "purchases.parquet", {}, "'purchases'.*'eve'"),
        ("eve", VISITS, {"dataset": "visits"}, "'visits'.*'eve'"),
    ],
)
def test_who_may_not(ledger, name, source, words, named):
    with pytest.raises(InvalidParameter, match=named):
        count(ledger, name, source, **words)
    assert ledger.account(name).status().charges == 0


def test_a_dataset_without_an_account_says_nothing(ledger):
    with pytest.raises(InvalidParameter, match="account"):
        setwise.open("visits.parquet", user="who", dataset="visits")


@pytest.mark.parametrize(
    ("source", "engine", "table", "name"),
    [
        ("logs", "duckdb", None, "logs"),
        ("logs/", "duckdb", None, "logs"),
        ("logs/*.parquet", "duckdb", None, "logs"),
        ("logs/one.parquet", "duckdb", None, "one"),
        ("shop.db", "duckdb", "visits", "visits"),
        ("shop.db::main.visits", "duckdb", None, "visits"),
        ("public.visits", "postgresql://host/db", None, "visits"),
        ("shop.visits", "spark", None, "visits"),
        ("ready", "duckdb", None, "visits"),
    ],
)
def test_what_a_table_is_known_as(ledger, source, engine, table, name):
    assert location_of(source, engine, table).name == name
