"""An agent looks at live series for free, and at none but those of its account or with a budget of their own."""

from datetime import date, datetime, timedelta

import pyarrow as pa
import pytest

import setwise
from setwise.agents import LocalTables, agent_server
from setwise.analytics.engines.connect import open_engine
from setwise.live.series import open_live
from tests.agents.test_local_tables import one, talk

START = date(2026, 1, 1)


@pytest.fixture
def server(tmp_path):
    moments = [datetime(2026, 1, 1) + timedelta(days=number % 5) for number in range(600)]
    users = pa.array([f"u{number % 300}" for number in range(600)])
    table = pa.table({"who": users, "page": ["home", "help"] * 300, "at": pa.array(moments, pa.timestamp("us"))})
    with open_engine(table) as engine:
        schema = engine.describe()
    with setwise.Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        ledger.open_filter("agent", epsilon=2.0, delta=1e-6, dataset="visits")
        ledger.open_filter("other", epsilon=2.0, delta=1e-6, dataset="visits")
        for name, account in (("reach", "agent"), ("secret", "other")):
            series = open_live(
                ledger, name, "visits", user="who", item="page", at="at", every="day", start=START, periods=5,
                contributions=2, epsilon=1.0, delta=1e-7, domain=["home", "help"], account=account, dataset="visits",
                schema=schema, state=str(tmp_path / f"{name}.db"),
            )  # fmt: skip
            series.update(source=table, today=date(2026, 6, 1))
        account = ledger.account("agent")
        with setwise.open(table, user="who", account=account, dataset="visits") as session:
            yield agent_server(LocalTables({"visits": session}, account, answer_step=0.0, ledger=ledger)), ledger


def test_an_agent_shows_the_series_of_its_account_for_free(server):
    agent, ledger = server
    charges = ledger.account("agent").status().charges
    (_, listed), (_, shown), (_, windows), (_, largest) = talk(
        agent,
        [
            ("list_series", {}),
            ("show_series", {"series": "reach"}),
            ("show_series", {"series": "reach", "window": 2, "items": ["home"]}),
            ("show_series", {"series": "reach", "top": 1, "on": "2026-01-02"}),
        ],
    )
    assert [each["name"] for each in listed["result"]] == ["reach"]
    assert len(shown["periods"]) == 5
    assert {line["item"] for line in shown["series"]} == {"home", "help"}
    assert [line["item"] for line in windows["series"]] == ["home"]
    assert largest["series"][0]["values"][1] == max(line["values"][1] for line in shown["series"])
    assert len(largest["series"]) == 1
    assert ledger.account("agent").status().charges == charges


def test_another_accounts_series_and_a_missing_one_are_refused_alike(server):
    agent, _ = server
    for name in ("secret", "none"):
        refused, told = one(agent, "show_series", series=name)
        assert refused
        assert told.replace(name, "NAME").endswith("there is no live series 'NAME': reach can be shown")


def test_an_agent_is_told_which_unit_its_answers_and_series_protect(tmp_path):
    words = "Each single day of a user is protected, but not the user"
    moments = [datetime(2026, 1, 1) + timedelta(days=number % 5) for number in range(600)]
    users = pa.array([f"u{number % 300}" for number in range(600)])
    table = pa.table({"who": users, "page": ["home"] * 600, "at": pa.array(moments, pa.timestamp("us"))})
    with open_engine(table) as engine:
        schema = engine.describe()
    with setwise.Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        ledger.open_filter("agent", epsilon=2.0, delta=1e-6, dataset="visits", unit="user,day")
        account = ledger.account("agent")
        series = open_live(
            ledger, "reach", "visits", user="who", item="page", at="at", every="day", start=START, periods=5,
            contributions=1, epsilon=1.0, delta=1e-7, domain=["home"], account="agent", dataset="visits",
            schema=schema, state=str(tmp_path / "reach.db"), unit="user,day",
        )  # fmt: skip
        series.update(source=table, today=date(2026, 6, 1))
        with setwise.open(table, user="who", unit="user,day", account=account, dataset="visits") as session:
            agent = agent_server(LocalTables({"visits": session}, account, answer_step=0.0, ledger=ledger))
            (_, shown), (refused, answer) = talk(
                agent,
                [
                    ("show_series", {"series": "reach"}),
                    (
                        "ask",
                        {"dataset": "visits", "sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": 0.1, "key": "n"},
                    ),
                ],
            )
    assert shown["promise"].startswith(words)
    assert not refused, answer
    assert words in str(answer)
