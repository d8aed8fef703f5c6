"""An agent that talks to a service, with an analyst's token."""

import asyncio

import pytest
from mcp import Client

from setwise import connect
from setwise.agents import ServiceTables, agent_server
from tests.service.conftest import data_dir, start, team  # noqa: F401 - fixtures

SQL = "SELECT word, COUNT(DISTINCT user_id) AS users FROM events GROUP BY word ORDER BY users DESC LIMIT 3"
DRAWS = {"discover": "bounded-range:0.1", "counts": "pure:0.1", "delta": 1e-9}


@pytest.fixture(scope="module")
def told(team):  # noqa: F811
    async def conversation(client):
        async with Client(agent_server(ServiceTables(client, "ada-events"))) as agent:
            calls = {
                "list_datasets": {},
                "describe": {"dataset": "events"},
                "preview": {"dataset": "events", "sql": SQL, **DRAWS},
                "ask": {"dataset": "events", "sql": SQL, **DRAWS, "key": "top-3-by-agent"},
                "balance": {"dataset": "events"},
            }
            found = {name: await agent.call_tool(name, arguments) for name, arguments in calls.items()}
            found["again"] = await agent.call_tool("ask", calls["ask"])
            found["other"] = await agent.call_tool("balance", {"dataset": "salaries"})
            found["refused"] = await agent.call_tool(
                "ask", {**calls["ask"], "key": "other", "sql": "SELECT * FROM events"}
            )
            return found

    with connect(team.replica.url, token=team.ada_token) as client:
        return asyncio.run(conversation(client))


def test_datasets_are_those_of_the_person(told):
    assert {"name": "events", "user": "user_id"} in told["list_datasets"].structured_content["result"]
    assert told["describe"].structured_content["name"] == "events"
    assert told["describe"].structured_content["user"] == "user_id"
    assert told["describe"].structured_content["count_users"] == "COUNT(DISTINCT user_id)"


def test_a_question_is_previewed_answered_and_replayed(told):
    assert told["preview"].structured_content["mechanism"]
    answer = told["ask"].structured_content
    assert answer["columns"] == ["word", "users"]
    assert 1 <= len(answer["rows"]) <= 3
    assert told["again"].structured_content["rows"] == answer["rows"]


def test_the_balance_is_the_account_s(told):
    assert told["balance"].structured_content["account"] == "ada-events"
    assert told["balance"].structured_content["charges"] >= 1


def test_refusals_of_the_service_are_told(told):
    assert told["refused"].is_error
    assert "SELECT" in told["refused"].content[0].text or "*" in told["refused"].content[0].text
