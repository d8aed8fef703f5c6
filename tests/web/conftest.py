"""A replica with a shop, and browsers that are signed in to it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from setwise.service.settings import Settings
from tests.service.replica import PATIENCE, QUICK, Replica, running
from tests.web.browsing import PATIENCE as BROWSER_PATIENCE
from tests.web.browsing import Browsing, browsing, window
from tests.web.chromium import ARGUMENTS, needed
from tests.web.shop import open_shop, write_shop

expect.set_options(timeout=BROWSER_PATIENCE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file on one worker, for they share a replica and a browser."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@dataclass
class Shop:
    replica: Replica
    tokens: dict[str, str]
    steward: httpx.Client
    ada: httpx.Client
    bob: httpx.Client

    @property
    def url(self) -> str:
        return self.replica.url

    def signed_in(self, person: str) -> httpx.Client:
        """Return a browser of a person: cookies, and pages asked for as HTML."""
        browser = self.browser()
        form = browser.get("/login")
        csrf = re.search(r'name="csrf" value="([^"]+)"', form.text)
        assert csrf is not None
        response = browser.post("/login", data={"token": self.tokens[person], "csrf": csrf[1], "next": "/ask"})
        assert response.status_code == 303, response.text
        return browser

    def browser(self) -> httpx.Client:
        """Return a browser that nobody is signed in with; it does not follow where it is led."""
        client = httpx.Client(base_url=self.url, headers={"Accept": "text/html"}, timeout=PATIENCE)
        self.replica.clients.append(client)
        return client


@pytest.fixture(scope="session")
def shop_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table of the shop."""
    folder = tmp_path_factory.mktemp("shop")
    write_shop(folder / "shop.parquet")
    return folder


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, shop_dir: Path) -> Iterator[Shop]:
    """A replica whose steward has registered the shop, with two analysts."""
    ledger = tmp_path_factory.mktemp("ledger") / "setwise.db"
    with running(Settings(ledger=str(ledger), data_dir=shop_dir, **QUICK)) as replica:
        steward = replica.as_holder(replica.steward)
        tokens = open_shop(steward) | {"steward": replica.steward}
        yield Shop(
            replica=replica,
            tokens=tokens,
            steward=steward,
            ada=replica.as_holder(tokens["ada"]),
            bob=replica.as_holder(tokens["bob"]),
        )


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for the tests of a file: while it runs, no other event loop can."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=needed("chromium"), args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def windows(browser: Browser, shop: Shop) -> Iterator[dict[str, BrowserContext]]:
    """A window of ada's and one of the steward's; pages of one share what the browser keeps."""
    opened = {name: window(browser) for name in ("ada", "steward")}
    for name, context in opened.items():
        browsing(context, shop.url, shop.signed_in(name).cookies["setwise_session"]).page.close()
    yield opened
    for context in opened.values():
        context.close()


@pytest.fixture
def ada(windows: dict[str, BrowserContext], shop: Shop) -> Iterator[Browsing]:
    """Ada, signed in."""
    found = browsing(windows["ada"], shop.url)
    yield found
    found.page.close()


@pytest.fixture
def steward(windows: dict[str, BrowserContext], shop: Shop) -> Iterator[Browsing]:
    """The steward, signed in."""
    found = browsing(windows["steward"], shop.url)
    yield found
    found.page.close()
