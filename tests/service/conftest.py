"""A replica with a team, shared by the tests of a file."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from setwise.service.settings import Settings
from tests.service.replica import QUICK, Replica, free_port, running
from tests.service.team import Team, gather, write_events

SETTINGS = {**QUICK, "token_cache_seconds": 1000.0}


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of events."""
    folder = tmp_path_factory.mktemp("data")
    write_events(folder / "events.parquet")
    return folder


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Iterator[Team]:
    """A team on a replica that the tests of a file share."""
    ledger = tmp_path_factory.mktemp("ledger") / "setwise.db"
    with running(Settings(ledger=str(ledger), data_dir=data_dir, **SETTINGS)) as replica:
        yield gather(replica)


@pytest.fixture
def start(tmp_path: Path, data_dir: Path) -> Iterator[Callable[..., Replica]]:
    """Start a replica of one's own, with settings of one's own."""
    with ExitStack() as stack:
        yield lambda **settings: _started(stack, {"ledger": str(tmp_path / "setwise.db"), **settings}, data_dir)


def _started(stack: ExitStack, settings: dict[str, Any], data_dir: Path) -> Replica:
    return stack.enter_context(running(Settings(**{"data_dir": data_dir, **SETTINGS, **settings})))


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Team, int]]:
    """A team on a replica with the door open, and the door's port."""
    folder = tmp_path_factory.mktemp("door")
    write_events(folder / "events.parquet")
    port = free_port()
    settings = Settings(ledger=str(folder / "s.db"), data_dir=folder, postgres=f"127.0.0.1:{port}", **QUICK)
    with running(settings) as replica:
        team = gather(replica)
        body = {
            "name": "visits",
            "table": "events.parquet",
            "user": "user_id",
            "items": ["country"],
            "values": ["minutes"],
            "filters": ["country", "minutes"],
            "contributions": 2,
        }
        assert team.steward.post("/datasets", json=body).status_code == 201
        account = {"kind": "filter", "name": "ada-visits", "analyst": "ada", "dataset": "visits", "delta": 1e-6}
        assert team.steward.post("/accounts", json=account | {"epsilon": 50.0}).status_code == 201
        yield team, port
