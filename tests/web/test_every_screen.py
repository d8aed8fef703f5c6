"""Every page fits its window, wide and narrow, dark and light: nothing is cut off, and a picture of each is kept."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, expect

from setwise.service.settings import Settings
from tests.service.replica import QUICK, running
from tests.service.team import Registered, Team, asked, gather
from tests.web.browsing import Browsing, browsing, window

PAGES = (
    *(("ada", name, address) for name, address in (("asking", "/ask"), ("accounts", "/accounts"))),
    *(("ada", name, address) for name, address in (("total", "/accounts/ada-total"), ("live", "/live"))),
    *(("ada", name, address) for name, address in (("series", "/live/reach"), ("reference", "/reference"))),
    *(("steward", name, f"/steward{address}") for name, address in (("stewarding", ""), ("audit", "/audit"))),
    *(("steward", name, address) for name, address in (("trail", "/steward/trail"), ("calculator", "/explore"))),
)
"""Whose page it is, what its picture is called, and its address."""

VISITS = Registered(
    body={
        "name": "visits",
        "table": "visits.parquet",
        "user": "user_id",
        "items": ["page"],
        "values": ["minutes"],
        "filters": ["at", "country", "minutes"],
        "contributions": 3,
    },
    uses=["gaussian:5.0x2", "approx:0,1e-7x2"],
    total=30.0,
)
SERIES = {"dataset": "visits", "account": "ada-total", "item": "page", "at": "at", "every": "day"}
RATIO = (
    "SELECT page, COUNT(*) AS people, MEDIAN(minutes) AS minutes, "
    "COUNTIF(minutes > 30) / COUNT(*) AS share FROM visits GROUP BY page"
)


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A team with a live series of ten days, and an answer whose small group is marked unreliable."""
    folder: Path = tmp_path_factory.mktemp("visits")
    random = np.random.default_rng(3)
    rows = 6000
    moments = [datetime(2026, 1, 1) + timedelta(days=int(day)) for day in random.integers(0, 10, rows)]
    pages = ["home", "help and frequently asked questions about returns", "shop"]
    table = {
        "user_id": random.integers(0, 2000, rows),
        "page": np.array(pages)[random.integers(0, 3, rows)],
        "country": np.array(["NO", "SE"])[random.integers(0, 2, rows)],
        "minutes": random.integers(0, 60, rows),
        "at": pa.array(moments, pa.timestamp("us")),
    }
    pq.write_table(pa.table(table), folder / "visits.parquet")
    settings = Settings(ledger=str(folder / "setwise.db"), data_dir=folder, live_dir=folder / "states", **QUICK)
    with running(settings) as replica:
        team = gather(replica, VISITS)
        opened = team.ada.post(
            "/live",
            json={**SERIES, "name": "reach", "start": "2026-01-01", "periods": 10, "epsilon": 1.0, "delta": 1e-8},
        )
        assert opened.status_code in (200, 201), opened.text
        updated = team.ada.post("/live/reach/update", json={})
        assert updated.status_code in (200, 202), updated.text
        yield team


def cut_off(ada: Browsing) -> list[str]:
    """Return the texts that stick out of the window and cannot be scrolled to."""
    found: list[str] = ada.page.evaluate("""() => {
        const scrolls = (node) => node && node !== document.body
            && (/(auto|scroll)/.test(getComputedStyle(node).overflowX) || scrolls(node.parentElement));
        const outside = [];
        for (const node of document.querySelectorAll("main *, header *")) {
            if (node.children.length || !node.textContent.trim() || !node.checkVisibility()) continue;
            const box = node.getBoundingClientRect();
            if (box.width && (box.right > innerWidth + 1 || box.left < -1) && !scrolls(node)
                && getComputedStyle(node).clipPath === "none" && !node.closest(".sr, svg")) {
                outside.push(node.textContent.trim());
            }
        }
        return outside;
    }""")
    return found


@pytest.mark.parametrize("width", [1360, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off(browser: Browser, visits: Team, scheme: str, width: int) -> None:
    body = {"dataset": "visits", "account": "ada-total", "query": {"kind": "sql", "text": RATIO}}
    spend = {"kind": "total", "epsilon": 2.0}
    answer = asked(visits.ada, "screens", {**body, "spend": spend})["id"]
    pages = (*PAGES, ("ada", "ratio", f"/answers/{answer}"))
    context = window(browser, scheme=scheme, width=width)
    for person in ("ada", "steward"):
        at = browsing(context, visits.url, visits.signed_in(person).cookies["setwise_session"])
        for _, name, address in (page for page in pages if page[0] == person):
            at.go(address)
            at.page.wait_for_load_state("networkidle")
            at.picture(f"screen-{name}-{scheme}-{width}")
            assert at.overhang() == 0, f"{name} is wider than the screen"
            assert cut_off(at) == [], name
            assert at.cut_titles() == [], name
            assert "{'" not in at.page.locator("main").inner_text(), f"{name} shows what only programs read"
            if name == "series":  # drawn in the page's own colours, where a picture was white on a dark page
                expect(at.page.locator("#series .scatterlayer .trace")).to_have_count(2 * 3)
        at.check()
    context.close()


def test_the_form_proposes_the_delta_of_the_chosen_account(browser: Browser, visits: Team) -> None:
    """It said 1e-8 where a question without a delta has another one."""
    context = window(browser)
    ada = browsing(context, visits.url, visits.signed_in("ada").cookies["setwise_session"])
    ada.go("/ask?account=ada-total")
    ada.ready("ask")
    assert "question_delta" in ada.page.locator("#choices").inner_text()
    assert float(ada.page.locator("#delta").input_value()) == 2e-8
    context.close()


def test_the_preview_states_the_delta_that_the_answer_will_state(browser: Browser, visits: Team) -> None:
    """It stated the account's delta, 1e-6, beside the question's own in the form."""
    context = window(browser)
    ada = browsing(context, visits.url, visits.signed_in("ada").cookies["setwise_session"])
    ada.go("/ask?account=ada-total")
    ada.ready("ask")
    cost = ada.page.locator("#preview dd").first
    expect(cost).to_contain_text("at δ 2e-8")
    context.close()
