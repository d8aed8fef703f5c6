"""Single sign-on in a real browser, by way of a provider's own pages and back."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from setwise.service.settings import Settings
from tests.servers.openid import Provider, provider
from tests.service.replica import QUICK, Replica, running
from tests.web.browsing import browsing, window


@pytest.fixture(scope="module")
def openid() -> Iterator[Provider]:
    with provider() as found:
        yield found


@pytest.fixture(scope="module")
def replica(openid: Provider, tmp_path_factory: pytest.TempPathFactory, shop_dir: Path) -> Iterator[Replica]:
    """A replica behind an address that is known before it starts."""
    import socket

    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port = probe.getsockname()[1]
    settings = Settings(
        ledger=str(tmp_path_factory.mktemp("sign-on") / "l.db"),
        data_dir=shop_dir,
        public_url=f"http://127.0.0.1:{port}",
        oidc_issuer=openid.url,
        oidc_client_id="setwise",
        oidc_client_secret="secret",
        oidc_roles={"data-office": "steward", "research": "analyst"},
        **QUICK,
    )
    with running(settings, port=port) as found:
        yield found


@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 1360), ("light", 390), ("dark", 390)])
def test_sign_on_and_off(browser: Browser, replica: Replica, openid: Provider, scheme: str, width: int) -> None:
    openid.knows("grace", "research")
    context = window(browser, scheme=scheme, width=width)
    grace = browsing(context, replica.url)
    page = grace.page
    grace.go("/accounts?most=5")
    expect(page).to_have_title("Sign in · Setwise")
    assert grace.overhang() == 0
    grace.picture(f"sign-on-{scheme}-{width}")
    page.get_by_role("link", name="Single sign-on").click()
    expect(page.get_by_role("heading", name="Authorize Client")).to_be_visible()
    page.locator("input[name=sub]").fill("grace")
    page.get_by_role("button", name="Authorize").click()
    expect(page).to_have_url(f"{replica.url}/accounts?most=5")
    expect(page.locator(".who-name")).to_have_text("grace")
    assert {cookie["name"] for cookie in context.cookies(replica.url)} == {"setwise_session"}
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_title("Sign in · Setwise")
    page.get_by_role("link", name="Single sign-on").click()
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("alert")).to_contain_text("The sign-on was refused: the provider has refused it")
    grace.picture(f"sign-on-refused-{scheme}-{width}")
    context.close()


def test_whoever_has_no_role_is_told_so(browser: Browser, replica: Replica, openid: Provider) -> None:
    openid.knows("mallory", "football")
    context = window(browser)
    page = browsing(context, replica.url).page
    page.goto(f"{replica.url}/sign-on")
    page.locator("input[name=sub]").fill("mallory")
    page.get_by_role("button", name="Authorize").click()
    expect(page.get_by_role("alert")).to_contain_text("None of your groups has a role here")
    expect(page.get_by_label("Your token")).to_be_visible()
    context.close()
