"""What the tests of this room open is closed again."""

import pytest

from tests.analytics.recorded import OPENED


@pytest.fixture(autouse=True)
def _close_engines():
    yield
    while OPENED:
        OPENED.pop().close()
