"""What people stumbled over on the pages: each said plainly now."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.schema import Column, Kind, Schema
from setwise.service.auth.permissions import API_ROUTES
from setwise.service.pages.ask import _EXAMPLES
from tests.service.team import Team, asked, made
from tests.web.browsing import Browsing, browsing, window
from tests.web.shop import SHOP, top


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
    expect(told).to_contain_text("Items one user may count towards: A histogram of this dataset needs contributions")
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
    """The noise scale 34.808... is rounded down to 34.80, because a page may not claim more noise than there is."""
    account = {"kind": "setwise", "name": "ada-odd", "analyst": "ada", "dataset": "shop", "delta": 1e-6}
    made(shop.steward.post("/accounts", json=account | {"uses": ["gaussian:34.808465999999996x3"]}))
    for address in ("/accounts/ada-odd", "/ask?account=ada-odd"):
        ada.go(address)
        expect(ada.page.locator("body")).to_contain_text(re.compile(r"σ 34\.8(?![01])"))
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


def test_the_promise_beside_the_sliders_counts_the_wallet_too(steward: Browsing, shop: Team):
    steward.go("/steward")
    steward.ready("steward")
    page = steward.page
    page.get_by_text("Open an account").click()
    form = page.locator("form[data-address='/api/v1/accounts']")
    form.get_by_label("Name").fill("with-wallet")
    form.get_by_label("Wallet beside").fill("0.5")
    form.get_by_label("Failures of the wallet").fill("1e-9")
    expect(page.locator("#account-says")).to_contain_text("Gaussian")
    said = page.locator("#account-says").inner_text()
    form.get_by_role("button", name="Open the account").click()
    expect(page.get_by_role("link", name="with-wallet")).to_be_visible()
    opened = shop.steward.get("/accounts/with-wallet").json()
    promised = float(re.search(r"ε ≤ ([0-9.]+)", said)[1])
    assert opened["epsilon"]["upper"] <= promised <= opened["epsilon"]["upper"] + 0.01
    assert "approx:0.0,1e-09" in opened["left"]
    steward.check()


def test_a_steward_caps_by_either_rule_and_takes_slices_back(steward: Browsing, shop: Team):
    for name in ("by-zcdp", "by-wallet"):
        made(shop.steward.post("/datasets", json=SHOP.body | {"name": name, "apart": "for a test"}))
    page = steward.page
    for name, rule in (("by-zcdp", "zcdp"), ("by-wallet", "wallet")):
        steward.go("/steward")
        steward.ready("steward")
        page.get_by_text("Cap a dataset").click()
        form = page.locator("form[data-address$='/cap']")
        form.get_by_label("Dataset").select_option(name)
        form.get_by_label("Uses add up by").select_option(rule)
        form.get_by_label("Share of δ for failures").fill("0.25")
        form.get_by_role("button", name="Set the cap").click()
        card = page.locator(".account-card", has=page.get_by_role("heading", name=name))
        expect(card).to_contain_text("by zCDP" if rule == "zcdp" else "accounts hold slices of it")
    assert shop.replica.service.ledger.cap("by-wallet").terms.failure_share == 0.25
    account = {"kind": "filter", "name": "ada-sliced", "analyst": "ada", "dataset": "by-wallet"}
    made(shop.steward.post("/accounts", json=account | {"epsilon": 2.0, "delta": 1e-6}))
    total = {"kind": "total", "epsilon": 0.5, "delta": 1e-9}
    asked(shop.ada, "sliced", top(3) | {"dataset": "by-wallet", "account": "ada-sliced", "spend": total})
    page.get_by_text("Take back what accounts hold of a cap").click()
    form = page.locator("form[data-address$='/cap/reclaim']")
    assert form.get_by_label("Dataset").locator("option").all_inner_texts() == ["by-wallet"]
    form.get_by_label("Hours without a charge").fill("0")
    form.get_by_role("button", name="Take back").click()
    expect(form.locator(".result")).to_contain_text("It is taken back")
    (act,) = (each for each in shop.steward.get("/trail").json() if each["action"] == "cap.reclaimed")
    assert act["details"] == {"idle_hours": 0.0, "accounts": 1}
    steward.check()


def test_a_steward_freezes_removes_and_sees_it_in_the_trail(steward: Browsing, shop: Team):
    made(shop.steward.post("/people", json={"name": "carl", "role": "analyst"}))
    account = {"kind": "filter", "name": "carl-shop", "analyst": "carl", "dataset": "shop"}
    made(shop.steward.post("/accounts", json=account | {"epsilon": 1.0, "delta": 1e-6}))
    page = steward.page
    steward.go("/steward")
    steward.ready("steward")
    page.get_by_text("Freeze or close an account").click()
    form = page.locator("form[data-address='/api/v1/accounts/{account}/state']")
    form.get_by_label("Account").select_option("carl-shop")
    form.get_by_label("Reason").fill("<b>on leave</b>")
    form.get_by_role("button", name="Change the state").click()
    expect(page.get_by_role("row", name="carl-shop").locator(".badge")).to_have_text("frozen")
    page.get_by_text("Remove a person").click()
    form = page.locator("form[data-method=DELETE]")
    form.get_by_label("Person").select_option("carl")
    form.get_by_role("button", name="Remove").click()  # not yet: the box is not ticked
    assert "carl" in {each["name"] for each in shop.steward.get("/people").json()}
    form.get_by_label("They shall not come back").check()
    form.get_by_role("button", name="Remove").click()
    expect(page.locator("#people-title ~ .scroll")).not_to_contain_text("carl")
    page.get_by_role("link", name="Who did what").click()
    rows = page.locator("tbody tr")
    expect(rows.nth(0)).to_contain_text("person.removed")
    expect(rows.nth(1)).to_contain_text("reason: <b>on leave</b>")
    steward.picture("trail-light")
    steward.check()


def test_a_csv_file_is_registered_with_its_separator_and_encoding(steward: Browsing, shop: Team, shop_dir: Path):
    (shop_dir / "orte.csv").write_bytes("who;place\n1;Köln\n2;Bonn\n".encode("latin-1"))
    page = steward.page
    steward.go("/steward")
    steward.ready("steward")
    page.get_by_text("Register a dataset").click()
    form = page.locator("form[data-address='/api/v1/datasets']")
    for label, value in (("Name", "places"), ("Table or file", "orte.csv"), ("User column", "who")):
        form.get_by_label(label).fill(value)
    form.get_by_label("Item columns").fill("place")
    page.get_by_text("How the file is written").click()
    form.get_by_label("Separator").fill(";")
    form.get_by_label("Encoding").fill("latin-1")
    form.get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", name="places")).to_be_visible()
    registered = shop.replica.service.datasets.get("places").csv
    assert (registered.separator, registered.encoding) == (";", "latin-1")
    steward.check(perhaps=(422,))  # its columns could not be listed before its separator was known


def test_public_tables_are_registered_beside_a_table(steward: Browsing, shop: Team, shop_dir: Path):
    (shop_dir / "stays.csv").write_text("who,place\n1,Oslo\n2,Bonn\n")
    (shop_dir / "year=2026").mkdir()
    (shop_dir / "year=2026" / "towns.csv").write_text("place,country\nOslo,NO\nBonn,DE\n")
    page = steward.page
    steward.go("/steward")
    steward.ready("steward")
    page.get_by_text("Register a dataset").click()
    form = page.locator("form[data-address='/api/v1/datasets']")
    for label, value in (("Name", "stays"), ("Table or file", "stays.csv"), ("User column", "who")):
        form.get_by_label(label).fill(value)
    expect(form.get_by_label("User: who")).to_be_visible()  # the columns of the file are offered by now
    form.get_by_label("Item columns").fill("place")
    form.get_by_label("Public tables to join").fill("towns")
    form.get_by_role("button", name="Register").click()
    expect(form.get_by_label("Public tables to join")).to_have_attribute("aria-invalid", "true")
    form.get_by_label("Public tables to join").fill("towns = year=2026/towns.csv")
    form.get_by_role("button", name="Register").click()
    card = page.locator(".account-card", has=page.get_by_role("heading", name="stays"))
    expect(card).to_contain_text("towns (year=2026/towns.csv)")
    assert shop.replica.service.datasets.get("stays").public == (("towns", "year=2026/towns.csv"),)
    steward.check(refused=(422,))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_column_is_hidden_on_a_narrow_screen(browser: Browser, shop: Team, scheme: str):
    made(shop.steward.post("/people", json={"name": f"narrow-{scheme}", "role": "analyst"}))
    asked(shop.ada, f"narrow-{scheme}", top(3))
    context = window(browser, scheme=scheme, width=390)
    steward = browsing(context, shop.url, shop.signed_in("steward").cookies["setwise_session"])
    for name, address in (
        ("steward", "/steward"),
        ("trail", "/steward/trail"),
        ("audit", "/steward/audit?account=ada-shop"),
        ("account", "/accounts/ada-shop"),
    ):
        steward.go(address)
        assert steward.overhang() == 0, name
        hidden = "() => [...document.querySelectorAll('.scroll')].map((each) => each.scrollWidth - each.clientWidth)"
        assert max(steward.page.evaluate(hidden)) <= 0, name
        steward.picture(f"{name}-{scheme}-390")
    context.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 390)])
def test_the_api_can_be_read_and_tried(browser: Browser, shop: Team, scheme: str, width: int):
    context = window(browser, scheme=scheme, width=width)
    ada = browsing(context, shop.url, shop.signed_in("ada").cookies["setwise_session"])
    page = ada.page
    ada.go("/reference")
    ada.ready("reference")
    assert page.locator("details.more").count() == len(API_ROUTES)
    page.get_by_text("GET /api/v1/accounts/{account}", exact=True).click()
    route = page.locator("details[open]")
    expect(route).to_contain_text("analysts and stewards")
    route.get_by_role("textbox", name="account").fill("ada-shop")
    route.get_by_role("button", name="Send").click()
    expect(route.get_by_role("status")).to_contain_text("200")
    expect(route.locator("pre")).to_contain_text('"account": "ada-shop"')
    page.get_by_text("POST /api/v1/compose", exact=True).click()
    route = page.locator("details[open]", has=page.get_by_text("POST /api/v1/compose", exact=True))
    route.get_by_role("button", name="Send, for real").click()
    expect(route.locator("pre")).to_contain_text('"epsilon"')
    page.get_by_text("GET /api/v1/trail", exact=True).click()
    route = page.locator("details[open]", has=page.get_by_text("GET /api/v1/trail", exact=True))
    route.get_by_role("button", name="Send").click()
    expect(route.get_by_role("status")).to_contain_text("403")
    assert ada.overhang() == 0
    ada.picture(f"reference-{scheme}-{width}")
    ada.check(refused=(403,))
    context.close()


def test_an_account_states_what_is_left_for_laplace_noise(ada: Browsing, shop: Team):
    """The page said 'ε 0.8 of 1', and a count with Laplace noise of epsilon 0.4 was refused."""
    account = {"kind": "filter", "name": "ada-noisy", "analyst": "ada", "dataset": "shop"}
    made(shop.steward.post("/accounts", json=account | {"epsilon": 1.0, "delta": 1e-6}))
    spend = {"kind": "total", "epsilon": 0.6, "delta": 1e-7, "counts": "gaussian"}
    body = {"dataset": "shop", "account": "ada-noisy", "query": {"kind": "count"}, "spend": spend}
    assert shop.ada.post("/queries", json=body, headers={"Idempotency-Key": "noisy"}).status_code in (200, 202)
    ada.go("/accounts/ada-noisy")
    told = re.compile(r"for one question with Gaussian noise; ε 0\.\d+ with Laplace noise")
    expect(ada.page.locator("main")).to_contain_text(told)
