"""What people stumbled over on the pages: each said plainly now."""

import pytest
from playwright.sync_api import expect

from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.schema import Column, Kind, Schema
from setwise.service.pages.ask import _EXAMPLES
from tests.service.team import Team, made
from tests.web.browsing import Browsing
from tests.web.shop import SHOP


@pytest.mark.parametrize("kind", list(Kind))
def test_the_example_of_a_filter_is_one(kind: Kind):
    parse_filter(f"c {_EXAMPLES[kind]}", Schema((Column(name="c", kind=kind),)), ("c",))


def test_what_a_histogram_needs_is_shown_and_named(ada: Browsing, shop: Team):
    made(shop.steward.post("/datasets", json=SHOP.body | {"name": "unbounded", "contributions": None}))
    account = {"kind": "filter", "name": "ada-unbounded", "analyst": "ada", "dataset": "unbounded"}
    made(shop.steward.post("/accounts", json=account | {"epsilon": 2.0, "delta": 1e-6}))
    ada.go("/ask?account=ada-unbounded")
    ada.ready("ask")
    ada.page.get_by_label("Histogram", exact=True).check(force=True)
    told = ada.page.locator("#problem")
    expect(told).to_contain_text("Items one user may count towards: A histogram of this data set needs contributions")
    field = ada.page.get_by_label("Items one user may count towards")
    expect(field).to_be_visible()
    field.fill("5")
    expect(told).to_be_hidden()
    expect(ada.page.locator("#preview")).to_contain_text("Costs at most")
    ada.check(refused=(422,))


def test_what_would_fit_is_said_where_a_total_cannot_be_paid(shop: Team):
    account = {
        "kind": "filter",
        "name": "ada-little",
        "analyst": "ada",
        "dataset": "shop",
        "epsilon": 1.0,
        "delta": 1e-6,
    }
    made(shop.steward.post("/accounts", json=account))
    body = {
        "dataset": "shop",
        "account": "ada-little",
        "query": {"kind": "count"},
        "spend": {"kind": "total", "epsilon": 1.5, "delta": 0.0},
    }
    refused = shop.ada.post("/queries", json=body, headers={"Idempotency-Key": "little"})
    assert refused.status_code == 402
    assert "it would fit with" in refused.json()["detail"]


def test_chips_have_few_digits_and_stay_in_their_card(ada: Browsing, shop: Team):
    account = {"kind": "setwise", "name": "ada-odd", "analyst": "ada", "dataset": "shop", "delta": 1e-6}
    made(shop.steward.post("/accounts", json=account | {"uses": ["gaussian:34.808465999999996x3"]}))
    for address in ("/accounts/ada-odd", "/ask?account=ada-odd"):
        ada.go(address)
        expect(ada.page.locator("body")).to_contain_text("σ 34.8085")
    ada.page.set_viewport_size({"width": 390, "height": 900})
    assert ada.overhang() == 0
    assert "34.808465999" not in ada.page.locator("main").inner_text()
    ada.page.set_viewport_size({"width": 1360, "height": 900})


def test_an_account_is_opened_by_sliders_with_its_promise_beside_them(steward: Browsing):
    steward.go("/steward")
    steward.ready("steward")
    page = steward.page
    page.get_by_text("Open an account").click()
    expect(page.locator("#account-says")).to_contain_text("promises ε ≤")
    page.get_by_label("Top-tens with counts").fill("3")
    expect(page.get_by_role("textbox", name="Draws")).to_have_value("bounded-range:0.1x30 pure:0.1x30 approx:0,1e-9x3")
    expect(page.locator("#account-says")).to_contain_text("30 picks at ε 0.1, 30 counts at ε 0.1, 3 thresholds")
    first = page.locator("#account-says").inner_text()
    page.get_by_label("Single counts").fill("100")
    expect(page.locator("#account-says")).to_contain_text("130 counts")
    assert page.locator("#account-says").inner_text() != first
    page.locator("#account-name").fill("by-sliders")
    steward.picture("steward-sliders-light")
    steward.check()
