"""The same tests for every store."""

import pytest

from setwise.ledger.ledger import Ledger
from tests.ledger.clocks import ManualClock


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path):
    """The address of a store that does not exist yet."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    return request.getfixturevalue("postgresql_server").schema()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def ledger(store_url, clock):
    with Ledger.open(store_url, clock=clock) as opened:
        yield opened


@pytest.fixture
def sqlite_ledger(tmp_path, clock):
    """For what does not depend on the store."""
    with Ledger.open(str(tmp_path / "plain.db"), clock=clock) as opened:
        yield opened
