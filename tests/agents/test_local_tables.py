import asyncio
import random
import re
from itertools import count

import pyarrow as pa
import pytest
from mcp import Client

import setwise
from setwise import Ledger, compose
from setwise.agents import INSTRUCTIONS, LocalTables, agent_server
from setwise.mechanisms.doubling_bounds import DoublingBounds
from tests import sizes

USERS = 400
COUNT = "SELECT COUNT(DISTINCT who) AS users FROM visits"
BY_PAGE = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, delta = 1e-9, max_groups_contributed = 2) "
    "page, COUNT(DISTINCT who) AS users FROM visits GROUP BY page"
)


def visits(users=USERS):
    who = [user for user in range(users) for _ in range(2)]
    return pa.table({"who": who, "page": ["home", "help"] * users, "minutes": [row % 60 for row in range(2 * users)]})


@pytest.fixture
def served(tmp_path):
    """Return a function that serves the visits of so many users on an account of a new ledger."""
    opened, names = [], count()

    def serve(*, users=USERS, epsilon=2.0, large=None, **options):
        ledger = Ledger.open(str(tmp_path / f"{next(names)}.db"))
        ledger.open_filter("agent", epsilon=epsilon, delta=1e-6, dataset="visits")
        account = ledger.account("agent")
        table = visits(users)
        if large is not None:
            table = table.append_column("spent", pa.array([large] * len(table), pa.int64()))
        session = setwise.open(table, user="who", account=account, dataset="visits")
        opened.extend((session, ledger))
        tables = LocalTables({"visits": session}, account, **({"answer_step": 0.0} | options))
        return agent_server(tables), ledger

    yield serve
    for each in opened:
        each.close()


def talk(server, calls):
    """Return whether each call was refused, and what was told."""

    async def conversation():
        async with Client(server) as client:
            told = []
            for name, arguments in calls:
                result = await client.call_tool(name, arguments)
                told.append((result.is_error, result.content[0].text if result.is_error else result.structured_content))
            return told

    return asyncio.run(conversation())


def one(server, name, **arguments):
    ((refused, told),) = talk(server, [(name, arguments)])
    return refused, told


def test_an_agent_finds_out_previews_asks_and_sees_the_balance(served):
    server, _ = served()
    (_, datasets), (_, described), (_, previewed), (_, answered), (_, balance) = talk(
        server,
        [
            ("list_datasets", {}),
            ("describe", {"dataset": "visits"}),
            ("preview", {"dataset": "visits", "sql": BY_PAGE}),
            ("ask", {"dataset": "visits", "sql": BY_PAGE, "key": "pages"}),
            ("balance", {"dataset": "visits"}),
        ],
    )
    assert datasets == {"result": [{"name": "visits", "user": "who", "account": "agent"}]}
    assert described["user"] == "who"
    assert described["count_users"] == "COUNT(DISTINCT who)"
    assert [each["name"] for each in described["columns"]] == ["who", "page", "minutes"]
    assert previewed["shortage"] is None
    assert answered["columns"] == ["page", "users"]
    assert {row["page"] for row in answered["rows"]} == {"home", "help"}
    assert all(abs(row["users"]["value"] - USERS) < 200 for row in answered["rows"])
    assert balance["charges"] == 1


def test_the_tools_describe_the_sql_that_they_take(served):
    """The description used to ask for bounds that are found by now, and said nothing of most clauses."""
    server, _ = served()

    async def tools():
        async with Client(server) as client:
            return {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}

    for name, properties in asyncio.run(tools()).items():
        if name not in ("preview", "ask"):
            continue
        written = properties["sql"]["description"]
        for word in ("FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "WITH", "CASE", "DATE_TRUNC", "JOIN"):
            assert word in written, (name, word)
        for function in ("COUNT", "SUM", "AVG", "MEDIAN", "PERCENTILE_CONT", "VAR_SAMP", "STDDEV"):
            assert function in written, (name, function)
        assert "need bounds" not in written
        assert "contributions" in properties


def test_the_instructions_say_where_the_user_column_is_named(served):
    server, _ = served()
    assert "COUNT(DISTINCT user)" not in INSTRUCTIONS
    assert "`user`" in INSTRUCTIONS
    assert server.instructions == INSTRUCTIONS


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("balance", {}, "balance cannot be called like this: give dataset"),
        ("ask", {"epsilon": 1}, "ask cannot be called like this: give dataset and sql and key"),
        ("show_series", {"series": "a", "window": "many"}, "show_series cannot be called like this: window: input"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(served, name, arguments, expected):
    refused, told = one(served()[0], name, **arguments)
    assert refused
    assert told.startswith(expected)
    assert "\n" not in told
    assert "http" not in told
    assert "many" not in told


def test_hints_name_what_the_tools_take(served):
    """A hint named `per_item` and a domain, which no tool takes, and options of the command line."""
    server, _ = served()
    rare = "SELECT page, COUNT(*) AS n FROM visits WHERE minutes = 1 GROUP BY page"
    refused, told = one(server, "ask", dataset="visits", sql=rare, key="rare", epsilon=0.5, delta=1e-7)
    assert not refused, told
    assert told["hint"]
    assert not re.search(r"per_item|state it as the domain|--[a-z]", " ".join(map(str, told.values()))), told
    refused, told = one(server, "preview", dataset="visits", sql="SELECT AVG(minutes) FROM visits GROUP BY", epsilon=1)
    assert refused
    assert not re.search(" --[a-z]", told)


@pytest.mark.parametrize("contributions", [2, "auto"])
def test_an_agent_says_in_how_many_groups_a_user_counts(served, contributions):
    server, _ = served()
    select = "SELECT page, COUNT(DISTINCT who) AS users FROM visits GROUP BY page"
    asked = {"dataset": "visits", "sql": select, "epsilon": 1.0, "delta": 1e-7, "contributions": contributions}
    refused, told = one(server, "ask", key="groups", **asked)
    assert not refused, told
    assert "of page are counted for each who" in told["left_out"]
    assert one(server, "preview", **asked)[0] is False
    assert one(server, "preview", **(asked | {"contributions": "many"}))[0] is True


def test_a_preview_reads_nothing_and_costs_nothing(served):
    server, ledger = served()
    talk(server, [("preview", {"dataset": "visits", "sql": COUNT, "epsilon": 0.1})] * 5)
    assert ledger.account("agent").status().charges == 0


def test_a_key_is_mandatory_and_replays(served):
    server, ledger = served()
    refused, told = one(server, "ask", dataset="visits", sql=COUNT, epsilon=0.1)
    assert refused
    assert "key" in told
    asked = ("ask", {"dataset": "visits", "sql": COUNT, "epsilon": 0.1, "key": "users"})
    (_, first), (_, again) = talk(server, [asked, asked])
    assert again["rows"] == first["rows"]
    assert ledger.account("agent").status().charges == 1


def test_another_question_under_a_used_key_is_refused(served):
    server, ledger = served()
    talk(server, [("ask", {"dataset": "visits", "sql": COUNT, "epsilon": 0.1, "key": "users"})])
    refused, told = one(server, "ask", dataset="visits", sql=BY_PAGE, key="users")
    assert refused
    assert "users" in told
    assert ledger.account("agent").status().charges == 1


@pytest.mark.parametrize(
    ("name", "arguments", "named"),
    [
        ("describe", {"dataset": "people"}, "there is no dataset 'people': visits can be asked"),
        ("ask", {"dataset": "visits", "sql": "DROP TABLE visits", "key": "a", "epsilon": 0.1}, "DROP"),
        ("ask", {"dataset": "visits", "sql": COUNT, "key": "a"}, "epsilon = 1"),
        ("ask", {"dataset": "visits", "sql": COUNT, "key": "a", "epsilon": -1}, "-1"),
        (
            "preview",
            {"dataset": "visits", "sql": "SELECT name, COUNT(DISTINCT who) FROM visits GROUP BY name", "epsilon": 1},
            "name",
        ),
    ],
)
def test_refusals_say_what_is_wrong(served, name, arguments, named):
    refused, told = one(served()[0], name, **arguments)
    assert refused
    assert named in told


def test_a_crash_tells_the_agent_nothing(served, monkeypatch):
    server, _ = served()
    monkeypatch.setattr(LocalTables, "balance", lambda self, dataset: 1 / len(dataset[:0]))
    refused, told = one(server, "balance", dataset="visits")
    assert refused
    assert "division" not in told


def test_answers_and_refusals_leave_on_the_step(served):
    now, waits = [0.0], []

    def pass_time(seconds):
        waits.append(seconds)
        now[0] += seconds

    def clock():
        now[0] += 0.3  # what the question took
        return now[0]

    server, _ = served(answer_step=0.25, sleep=pass_time, monotonic=clock)
    one(server, "ask", dataset="visits", sql=COUNT, key="users", epsilon=0.1)
    one(server, "ask", dataset="visits", sql="SELECT 1", key="users", epsilon=0.1)
    assert waits == [pytest.approx(0.2), pytest.approx(0.2)]  # 0.3 seconds become 0.5


def hostile(seed, calls):
    """Return calls of an agent that spends what it can, retries, guesses keys and columns, and writes nonsense."""
    rng = random.Random(seed)
    epsilons = [0.01, 0.05, 0.2, 1.0, 2.0, 3.0, 0.0, -1.0, 1e9, 1e-300, None]
    selects = [
        COUNT,
        COUNT + " WHERE page = 'home' AND who = 7",
        COUNT + " WHERE who = 'x'",
        "SELECT SUM(minutes, contribution_bounds_per_group => (0, 60)) FROM visits",
        "SELECT SUM(minutes, contribution_bounds_per_group => (0, 1e400)) FROM visits",
        BY_PAGE,
        "SELECT * FROM visits",
        "SELECT who FROM visits; SELECT 1",
        "SELECT COUNT(DISTINCT who) FROM visits WHERE 1/(who - 7) > 0",
        "SELECT COUNT(DISTINCT who) FROM 'visits.parquet'",
        "SELECT COUNT(DISTINCT who) FROM visits WHERE page = (SELECT MIN(page) FROM visits)",
        "-- nothing",
        "",
    ]
    for _ in range(calls):
        asked = {
            "dataset": rng.choice(["visits"] * 9 + ["visits.parquet"]),
            "sql": rng.choice(selects),
            "key": rng.choice(["a", "b", f"k{rng.randrange(10**6)}", "", "x" * 5000, "é\0"]),
        }
        epsilon = rng.choice(epsilons)
        if epsilon is not None:
            asked["epsilon"] = epsilon
        if rng.random() < 0.5:
            asked["delta"] = rng.choice([1e-9, 1e-7, 0.5, 2.0])
        tool = rng.choice(["ask"] * 6 + ["preview", "balance", "describe"])
        wanted = {"ask": asked, "preview": {k: v for k, v in asked.items() if k != "key"}}
        yield tool, wanted.get(tool, {"dataset": asked["dataset"]})


def test_a_hostile_agent_never_overspends_and_learns_nothing_from_refusals(served):
    """The same calls are made with and without one user; refusals must read the same, and the ledger add up."""
    calls = list(hostile(3, sizes.CALLS))
    told, spent = [], []
    for users in (USERS, USERS - 1):
        server, ledger = served(users=users)
        told.append(
            [
                (name, refused, text if refused else None)
                for (name, _), (refused, text) in zip(calls, talk(server, calls), strict=True)
            ]
        )
        status = ledger.account("agent").status()
        spent.append(status.spent)
        assert not ledger.verify().faults
        assert status.charges > 5
        charged = [use for entry in ledger.history("agent") if entry.contents.kind == "charge" for use in entry.uses]
        assert compose(charged).epsilon(1e-6).lower <= 2.0
    assert told[0] == told[1]
    assert spent[0] == spent[1]
    refusals = [text for _, refused, text in told[0] if refused]
    assert any("left" in text for text in refusals)  # it came to the end of the budget


def test_hundreds_of_attempts_under_one_key_are_one_outcome(served, monkeypatch):
    """A sum whose bound is found would be planned with noise too wide to draw, if its step stayed 1."""
    server, ledger = served(large=2**33)
    drawn = []
    release = DoublingBounds.release
    monkeypatch.setattr(DoublingBounds, "release", lambda *given: drawn.append(1) or release(*given))
    sql = "SELECT SUM(spent, contribution_bounds_per_group => AUTO) AS total FROM visits"
    calls = [("ask", {"dataset": "visits", "sql": sql, "epsilon": 0.5, "key": "one"})] * sizes.ATTEMPTS
    told = talk(server, calls)
    assert {refused for refused, _ in told} == {False}
    assert len({str(answer["rows"]) for _, answer in told}) == 1
    assert len(drawn) == 1
    assert ledger.account("agent").status().charges == 1
