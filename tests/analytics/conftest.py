"""What the tests of this room open is closed again; searches for bounds that take no empty bin for an occupied one."""

from fractions import Fraction

import pytest

from setwise.mechanisms import contribution_bound, doubling_bounds
from tests.analytics.recorded import OPENED


@pytest.fixture(autouse=True)
def _close_engines():
    yield
    while OPENED:
        OPENED.pop().close()


@pytest.fixture
def empty_bins_never_stand_out(monkeypatch):
    """Lower the chance of taking an empty bin for one with users to 10^-9, so that no test here fails by it."""
    for search in (contribution_bound, doubling_bounds):
        for name in [name for name in vars(search) if name.startswith("_MISTAKEN")]:
            monkeypatch.setattr(search, name, Fraction(1, 10**9))
