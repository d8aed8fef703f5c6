"""No token, password or exact count in any log or error, with every logger at its most talkative."""

import contextlib
import json
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setwise.errors import StoreFailed
from setwise.service.problems import log_store_failure
from setwise.service.settings import Settings
from tests.service.replica import Clock, Replica, running
from tests.service.served import serving
from tests.service.team import TOP_3, ask, gather, write_events

EXACT = 98_765_432_101
"""The exact sum of the column `units`: noise of its scale cannot hit it by chance."""
CLIP = 10**8
SECRET_WORD = "the-words-of-a-defect"


class Collected(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter("%(name)s %(levelname)s %(message)s").format(record))


@pytest.fixture
def everything_logged() -> Iterator[Collected]:
    handler = Collected()
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    root.setLevel(before)


def of_the_service(logged: Collected) -> str:
    """Leave out what the test's own client logs."""
    return "\n".join(line for line in logged.lines if not line.startswith(("httpx", "httpcore", "urllib3")))


def test_nothing_private_is_logged_or_told(everything_logged: Collected, tmp_path: Path, postgresql_url: str):
    write_events(tmp_path / "events.parquet")
    users = 1_000
    units = [EXACT // users] * (users - 1) + [EXACT - (users - 1) * (EXACT // users)]
    pq.write_table(
        pa.table({"user_id": range(users), "word": ["a"] * users, "units": units}), tmp_path / "units.parquet"
    )
    password = "s3cret-of-the-database"
    url = postgresql_url.replace("postgres@", f"postgres:{password}@")
    told: list[str] = []
    with running(Settings(ledger=url, data_dir=tmp_path, answer_step=0.01, wait_seconds=30.0)) as replica:
        team = gather(replica)
        register(replica)
        spend = {"kind": "draws", "counts": "pure:0.1"}
        sums = {"dataset": "units", "account": "ada-units", "spend": spend}
        asked = ask(team.ada, "sum", sums | {"query": {"kind": "sum", "value": "units", "clip": CLIP}})
        assert asked.status_code == 200, asked.text
        told.append(asked.text)
        told.append(ask(team.ada, "sum", sums | {"query": {"kind": "count"}}).text)
        told.append(ask(team.ada, "bad", TOP_3 | {"query": {"kind": "count", "where": "x = 1"}}).text)
        told.append(replica.as_holder(team.ada_token[:-1]).get("/me").text)
        told.append(team.ada.post("/compose", json={"uses": team.ada_token}).text)
        (tmp_path / "units.parquet").unlink()
        told.append(ask(team.ada, "gone", sums | {"query": {"kind": "sum", "value": "units", "clip": CLIP}}).text)
        assert "engine-failed" in told[-1] or "unsuitable-table" in told[-1]
        assert str(tmp_path) not in told[-1]
        told.append(defect(replica).text)
    logged = of_the_service(everything_logged)
    assert "unexpected RuntimeError" in logged  # the place of a defect is logged, not its words
    for secret in (team.ada_token, team.ada_token[:-1], replica.steward, password, str(EXACT), SECRET_WORD):
        assert secret not in logged
        assert not [text for text in told if secret in text]


def test_a_broken_ledger_tells_the_operator_alone(tmp_path: Path, everything_logged: Collected):
    write_events(tmp_path / "events.parquet")
    file = tmp_path / "hidden-place.db"
    with running(Settings(ledger=str(file), data_dir=tmp_path, answer_step=0.0)) as replica:
        team = gather(replica)
        with contextlib.closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA legacy_alter_table = ON")
            database.execute("ALTER TABLE ledger_balances RENAME TO elsewhere")
        page = team.ada.get(f"{replica.url}/accounts/ada-events", headers={"Accept": "text/html"})
        for told in (team.ada.get("/accounts/ada-events"), ask(team.ada, "top", TOP_3), page):
            assert told.status_code == 503
            assert "did not answer" in told.text
            assert "hidden-place" not in told.text
            assert "ledger_balances" not in told.text
    assert "no such table" in of_the_service(everything_logged)


def test_what_a_database_says_is_logged_without_passwords(everything_logged: Collected):
    log_store_failure(StoreFailed("the ledger postgresql://ada:s3cr3t@db/x failed: no password=0ther for ada"))
    logged = of_the_service(everything_logged)
    assert "postgresql://ada:***@db/x" in logged
    assert "s3cr3t" not in logged
    assert "0ther" not in logged


def register(replica: Replica) -> None:
    steward = replica.as_holder(replica.steward)
    dataset = {"name": "units", "table": "units.parquet", "user": "user_id", "items": ["word"], "values": ["units"]}
    assert steward.post("/datasets", json=dataset).status_code == 201
    account = {"name": "ada-units", "analyst": "ada", "dataset": "units", "delta": 1e-6, "kind": "setwise"}
    assert steward.post("/accounts", json=account | {"uses": ["pure:0.1x10"]}).status_code == 201


def defect(replica: Replica):
    """Break a part on purpose, in words that must not get out."""

    def broken() -> None:
        raise RuntimeError(f"{SECRET_WORD} {EXACT}")

    replica.service.people.all = broken  # type: ignore[method-assign]
    response = replica.as_holder(replica.steward).get("/people")
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    return response


def test_json_lines_carry_the_request_and_nothing_private(tmp_path: Path, data_dir: Path):
    with serving(tmp_path, "logged", "--data-dir", str(data_dir), "--log", "json") as served:
        token = served.ready().printed.read_text().split()[-1]
        reached = Replica(served.url, None, Clock(), token)  # type: ignore[arg-type]
        team = gather(reached)
        mine = team.ada.get("/accounts/ada-events", headers={"X-Request-Id": "mine-7"})
        assert mine.headers["x-request-id"] == "mine-7"
        odd = team.ada.get("/me", headers={"X-Request-Id": 'x" onload="'})
        assert len(odd.headers["x-request-id"]) == 16
        filtered = {"query": {"kind": "count", "where": "country = 'NO'"}, "spend": TOP_3["spend"] | {"discover": None}}
        assert ask(team.ada, "logged", TOP_3 | filtered).status_code in {200, 202}
        for client in reached.clients:
            client.close()
    lines = [json.loads(line) for line in served.complained.read_text().splitlines()]
    (logged,) = [line for line in lines if line["request"] == "mine-7"]
    assert (logged["route"], logged["status"]) == ("/api/v1/accounts/{account}", 200)
    text = json.dumps([{name: value for name, value in line.items() if name != "request"} for line in lines])
    assert not any(word in text for word in ("ada", "country", "'NO'", token, team.ada_token))
