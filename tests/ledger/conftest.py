"""The same tests for every store."""

import pytest
from hypothesis import HealthCheck, settings

from setwise.ledger.ledger import Ledger
from tests.ledger.clocks import ManualClock

settings.register_profile(
    "ledger",
    derandomize=True,
    deadline=None,
    max_examples=25,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(autouse=True, scope="session")
def _profile():
    settings.load_profile("ledger")


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
