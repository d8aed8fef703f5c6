import asyncio
import os
import signal
import socket
import subprocess
import sys
import time

import httpx
import pyarrow.parquet as pq
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from setwise import Ledger
from setwise.cli.main import main
from tests.agents.test_local_tables import COUNT, visits

ARGUMENTS = ["-m", "setwise", "mcp", "visits.parquet", "--user", "who", "--account", "agent", "--answer-step", "0"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agents")
    pq.write_table(visits(), folder / "visits.parquet")
    with Ledger.open(str(folder / "setwise.db")) as ledger:
        ledger.open_filter("agent", epsilon=2.0, delta=1e-6, dataset="visits")
    return folder


async def ask(client, key):
    asked = {"dataset": "visits", "sql": COUNT, "epsilon": 0.1, "key": key}
    return (await client.call_tool("ask", asked)).structured_content


def test_an_agent_on_standard_input(folder):
    async def conversation():
        server = StdioServerParameters(command=sys.executable, args=ARGUMENTS, cwd=folder, env=dict(os.environ))
        async with Client(server) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            return tools, await ask(client, "first"), await ask(client, "first")

    tools, first, again = asyncio.run(conversation())
    assert sorted(tools) == ["ask", "balance", "describe", "list_datasets", "list_series", "preview", "show_series"]
    assert abs(first["rows"][0]["users"]["value"] - 400) < 200
    assert again["rows"] == first["rows"]


def test_a_data_set_keeps_the_name_that_it_was_given(folder):
    """It used to be called by its file, so that FROM had to name the file although the account is on `journeys`."""
    pq.write_table(visits(), folder / "export_2026_11.parquet")
    with Ledger.open(str(folder / "setwise.db")) as ledger:
        ledger.open_filter("traveller", epsilon=2.0, delta=1e-6, dataset="journeys")
    arguments = ["export_2026_11.parquet", "--user", "who", "--account", "traveller", "--dataset", "journeys"]
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "setwise", "mcp", *arguments, "--answer-step", "0"],
        cwd=folder,
        env=dict(os.environ),
    )
    question = {"dataset": "journeys", "sql": COUNT.replace("visits", "journeys"), "epsilon": 0.5, "key": "given-name"}

    async def conversation():
        async with Client(server) as client:
            listed = (await client.call_tool("list_datasets", {})).structured_content["result"]
            return listed, (await client.call_tool("ask", question)).structured_content

    listed, answer = asyncio.run(conversation())
    assert [each["name"] for each in listed] == ["journeys"]
    assert abs(answer["rows"][0]["users"]["value"] - 400) < 200


def test_an_agent_over_http_brings_the_token(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp"
    environment = os.environ | {"SETWISE_MCP_TOKEN": "for-this-test"}
    with subprocess.Popen(
        [sys.executable, *ARGUMENTS, "--port", str(port)],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            until = time.monotonic() + 60
            while (status := _status(url)) is None and time.monotonic() < until:
                time.sleep(0.1)
            assert status == 401
            assert _status(url, "Bearer wrong") == 401
            assert _status(url, "Bearer for-this-test", host="attacker.example") == 421  # another name for this address

            async def conversation():
                headers = {"Authorization": "Bearer for-this-test"}
                async with (
                    httpx.AsyncClient(headers=headers, timeout=30) as http,
                    Client(streamable_http_client(url, http_client=http)) as client,
                ):
                    return await ask(client, "over-http")

            assert asyncio.run(conversation())["columns"] == ["users"]
        finally:
            server.send_signal(signal.SIGINT)
            said = server.stderr.read()
    assert f"serving {url}" in said
    assert "for-this-test" not in said


def _status(url, authorization=None, host=None):
    headers = {} if authorization is None else {"Authorization": authorization}
    headers |= {} if host is None else {"Host": host}
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    try:
        return httpx.post(
            url, json=message, headers=headers | {"Accept": "application/json, text/event-stream"}
        ).status_code
    except httpx.TransportError:
        return None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "name the tables to serve, or a service"),
        (["visits.parquet", "--user", "who"], "--account"),
        (["visits.parquet", "--service", "http://127.0.0.1:1"], "not both"),
        (["--service", "http://127.0.0.1:1"], "--token-file"),
        (["--service", "http://127.0.0.1:1", "--token-file", "nowhere"], "'nowhere'"),
        (["visits.parquet", "visits.parquet", "--user", "who", "--account", "agent"], "two tables are called 'visits'"),
        (["visits.parquet", "--user", "who", "--account", "nobody"], "nobody"),
    ],
)
def test_what_is_missing_is_named(folder, arguments, named, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["setwise", "mcp", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert named in capsys.readouterr().err
