"""A person at a browser: everything that it asked for and said is kept, and checked at the end."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response, expect

from tests.web.chromium import ARTEFACTS

PATIENCE = 30_000


@dataclass
class Browsing:
    page: Page
    url: str
    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    def go(self, address: str) -> None:
        """Open a page of ours."""
        self.page.goto(self.url + address)

    def ready(self, what: str) -> None:
        """Wait until the scripts of a page have drawn what they draw first."""
        expect(self.page.locator("body")).to_have_attribute("data-ready", what)

    def picture(self, name: str) -> Path:
        """Keep a screenshot of the whole page."""
        ARTEFACTS.mkdir(exist_ok=True)
        path = ARTEFACTS / f"{name}.png"
        self.page.evaluate("() => scrollTo(0, 0)")
        self.page.screenshot(path=path, full_page=True, animations="disabled")
        return path

    def overhang(self) -> int:
        """Return by how much the page is wider than the window."""
        return int(
            self.page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        )

    def cut_titles(self) -> list[str]:
        """Return the titles of axes that stick out of their chart, whose picture ends there."""
        cut: list[str] = self.page.evaluate("""() => [...document.querySelectorAll(".chart .xtitle, .chart .ytitle")]
            .filter((title) => title.checkVisibility())
            .filter((title) => {
                const [box, chart] = [title, title.closest(".chart")].map((node) => node.getBoundingClientRect());
                return box.left < chart.left - 1 || box.right > chart.right + 1
                    || box.top < chart.top - 1 || box.bottom > chart.bottom + 1;
            }).map((title) => title.textContent)""")
        return cut

    def check(self, *, refused: tuple[int, ...] = (), perhaps: tuple[int, ...] = ()) -> None:
        """Nothing was asked of anybody else, and nothing was said but for the refusals that were meant.

        `refused` are statuses that must have come, `perhaps` those that may have, by how quickly somebody types.
        """
        elsewhere = [each for each in self.requests if _host(each) not in {_host(self.url), ""}]
        assert elsewhere == []
        assert sorted(set(self.statuses) - set(perhaps)) == sorted(refused)
        meant = (*refused, *perhaps)
        loud = [line for line in self.said if not any(f"status of {status}" in line for status in meant)]
        assert loud == []


def _host(address: str) -> str:
    parts = urlsplit(address)
    return "" if parts.scheme in {"data", "blob"} else parts.netloc


def window(browser: Browser, *, scheme: str = "light", width: int = 1360, height: int = 900) -> BrowserContext:
    """Return a window of its own, without cookies."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,  # type: ignore[arg-type]
        reduced_motion="reduce",
        accept_downloads=True,
    )
    context.set_default_timeout(PATIENCE)
    return context


def browsing(context: BrowserContext, url: str, session: str | None = None) -> Browsing:
    """Open a page in a window; with a session's cookie, as whoever signed in."""
    if session is not None:
        context.add_cookies([{"name": "setwise_session", "value": session, "url": url, "httpOnly": True}])
    page = context.new_page()
    found = Browsing(page=page, url=url)

    def asked(request: Request) -> None:
        found.requests.append(request.url)

    def said(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning", "trace"}:
            found.said.append(f"{message.type}: {message.text}")

    def answered(response: Response) -> None:
        if response.status >= 400:
            found.statuses.append(response.status)

    page.on("request", asked)
    page.on("console", said)
    page.on("pageerror", lambda error: found.said.append(f"uncaught: {error}"))
    page.on("response", answered)
    return found


def write_sql(page: Page, text: str) -> None:
    """Write a statement into the SQL editor, in place of what is there, as somebody who pastes it."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


def written_sql(page: Page) -> str:
    """Return the statement in the SQL editor."""
    return "\n".join(page.locator(".cm-content .cm-line").all_inner_texts())
