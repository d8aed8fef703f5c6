"""A replica with a team, shared by the tests of a file."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from setwise.service.settings import Settings
from tests.service.replica import QUICK, Replica, running
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
