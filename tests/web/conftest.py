"""A replica with a shop, and browsers that are signed in to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from setwise.service.settings import Settings
from tests.service.replica import QUICK, running
from tests.service.team import Team, gather
from tests.web.browsing import PATIENCE as BROWSER_PATIENCE
from tests.web.browsing import Browsing, browsing, window
from tests.web.chromium import ARGUMENTS, needed
from tests.web.shop import SHOP, write_shop

expect.set_options(timeout=BROWSER_PATIENCE)


@pytest.fixture(scope="session")
def shop_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table of the shop."""
    folder = tmp_path_factory.mktemp("shop")
    write_shop(folder / "shop.parquet")
    return folder


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, shop_dir: Path) -> Iterator[Team]:
    """A team on a replica whose steward has registered the shop."""
    ledger = tmp_path_factory.mktemp("ledger") / "setwise.db"
    with running(Settings(ledger=str(ledger), data_dir=shop_dir, **QUICK)) as replica:
        yield gather(replica, SHOP)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for the tests of a file: while it runs, no other event loop can."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=needed("chromium"), args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def windows(browser: Browser, shop: Team) -> Iterator[dict[str, BrowserContext]]:
    """A window of ada's and one of the steward's; pages of one share what the browser keeps."""
    opened = {name: window(browser) for name in ("ada", "steward")}
    for name, context in opened.items():
        browsing(context, shop.url, shop.signed_in(name).cookies["setwise_session"]).page.close()
    yield opened
    for context in opened.values():
        context.close()


@pytest.fixture
def ada(windows: dict[str, BrowserContext], shop: Team) -> Iterator[Browsing]:
    """Ada, signed in."""
    found = browsing(windows["ada"], shop.url)
    yield found
    found.page.close()


@pytest.fixture
def steward(windows: dict[str, BrowserContext], shop: Team) -> Iterator[Browsing]:
    """The steward, signed in."""
    found = browsing(windows["steward"], shop.url)
    yield found
    found.page.close()
