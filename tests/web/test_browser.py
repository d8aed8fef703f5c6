"""The pages in a real browser, from signing in to the audit; screenshots are kept in artefacts/."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from setwise.service.settings import Settings
from tests.service.replica import QUICK, running
from tests.service.team import Team, asked, gather, open_account
from tests.web.browsing import Browsing, browsing, window
from tests.web.shop import HOSTILE, SHOP, top


def _preview(page: Page) -> str:
    return page.locator("#preview").inner_text()


def test_sign_in_preview_ask_and_see_the_chart(browser: Browser, shop: Team) -> None:
    context = window(browser)
    ada = browsing(context, shop.url)
    page = ada.page
    ada.go("/ask?account=ada-shop")
    expect(page).to_have_title("Sign in · Setwise")
    page.get_by_label("Your token").fill(shop.tokens["ada"])
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{shop.url}/ask?account=ada-shop")
    ada.ready("ask")
    expect(page.locator("#preview")).to_contain_text("10 picks at ε 0.1")
    page.get_by_label("How many, k").fill("6")
    expect(page.locator("#preview")).to_contain_text("6 picks at ε 0.1")
    assert re.search(r"Counts within about \d", _preview(page))
    before = shop.ada.get("/accounts/ada-shop").json()["charges"]
    page.get_by_role("button", name="Ask", exact=True).click()
    answer = page.locator("#answer")
    expect(answer.get_by_role("heading", name="Top 6 of product")).to_be_focused()
    expect(answer.get_by_role("heading", name="Top 6 of product")).to_be_visible()
    expect(answer.locator(".answer-chart .bars .point")).to_have_count(6)
    assert page.locator("#answer .answer-chart .errorbar, #answer .answer-chart .errorbars").count() > 0
    expect(answer.locator(".guarantee")).to_contain_text("one person")
    expect(answer).to_contain_text("differentially private")
    rows = answer.locator("tbody th")
    expect(rows).to_have_count(6)
    assert HOSTILE in rows.all_inner_texts()
    assert page.locator("#answer img").count() == 0
    assert shop.ada.get("/accounts/ada-shop").json()["charges"] == before + 1
    expect(page.locator("#discover option:checked")).to_contain_text("left")
    ada.picture("ask-light")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_title("Sign in · Setwise")
    ada.check()
    context.close()


def test_an_answer_can_be_taken_along(ada: Browsing, shop: Team) -> None:
    page = ada.page
    id_ = asked(shop.ada, "along", top(5))["id"]
    ada.go(f"/answers/{id_}")
    ada.ready("answer")
    for name, begins in (("CSV", b"item,count,lower,upper"), ("JSON", b'{"items"'), ("Picture", b"\x89PNG")):
        with page.expect_download() as download:
            page.locator(".actions").get_by_text(name, exact=True).click()
        path = download.value.path()
        assert path.read_bytes().startswith(begins)
        assert path.stat().st_size > (10_000 if name == "Picture" else 50)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy Python").click()
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied.startswith("import os\n")
    assert f"setwise.connect(\n    '{shop.url}'," in copied
    ada.check()


def test_a_budget_that_is_used_up_is_told_in_a_sentence(ada: Browsing, shop: Team) -> None:
    open_account(shop.steward, "ada-small", "ada", ["bounded-range:0.1x8", "pure:0.1x8", "approx:0,1e-9x2"], "shop")
    page = ada.page
    ada.go("/ask?account=ada-small")
    ada.ready("ask")
    page.get_by_label("How many, k").fill("8")
    expect(page.locator("#preview")).to_contain_text("8 picks")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#answer")).to_be_visible()
    expect(page.locator("#preview .alert")).to_contain_text(
        "Not enough is left: this needs 8 picks at ε 0.1, and 0 are there."
    )
    expect(page.get_by_role("button", name="Ask", exact=True)).to_be_disabled()
    ada.picture("exhausted-light")
    page.set_viewport_size({"width": 390, "height": 900})
    assert ada.overhang() == 0
    ada.go("/accounts/ada-small")
    ada.ready("account")
    expect(page.get_by_text("0 of 8")).to_have_count(1)
    ada.check(perhaps=(402,))  # the preview of the form's first question, of 10 picks


def test_bad_input_names_its_field(ada: Browsing) -> None:
    page = ada.page
    ada.go("/ask?account=ada-shop")
    ada.ready("ask")
    page.get_by_label("How many, k").fill("0")
    expect(page.locator("#problem")).to_be_visible()
    expect(page.locator("#problem")).to_contain_text("greater than or equal to 1")
    expect(page.get_by_label("How many, k")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("How many, k").fill("5")
    expect(page.locator("#problem")).to_be_hidden()
    page.get_by_label("Only rows where").fill("visitor = 1")
    expect(page.locator("#problem")).to_be_visible()
    expect(page.locator("#problem")).to_contain_text("visitor")
    expect(page.get_by_label("Only rows where")).to_have_attribute("aria-invalid", "true")
    ada.check(refused=(422,))


def test_every_kind_of_question_has_a_preview_and_an_answer(ada: Browsing) -> None:
    page = ada.page
    ada.go("/ask?account=ada-total")
    ada.ready("ask")
    page.get_by_role("radio", name="Count").check()
    expect(page.locator("#preview")).to_contain_text("Mechanism")
    page.get_by_label("ε for this question").fill("0.2")
    page.get_by_label("δ for this question").fill("0")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#answer .big-number")).to_contain_text("users")
    page.get_by_role("radio", name="Sum").check()
    expect(page.get_by_label("Column to add up")).to_be_visible()
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#answer h2")).to_contain_text("Sum of minutes, at most 60 of a user")
    page.get_by_label("δ for this question").fill("1e-7")  # until the labels are given, they have to be found
    page.get_by_role("radio", name="Histogram").check()
    page.get_by_text("Known labels and bounds").click()
    page.get_by_label("Labels that may come back").fill(f"tent\n{HOSTILE}\ngloves\n")
    expect(page.locator("#preview")).to_contain_text("known_")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#answer h2")).to_contain_text("Histogram of product, from a given list")
    expect(page.locator("#answer .answer-chart .bars .point")).to_have_count(3)
    ada.check()


def test_a_question_that_takes_long_is_polled(browser: Browser, shop_dir: Path, tmp_path: Path) -> None:
    """Every request is told at once where to poll, and the answer leaves after half a second."""
    settings = Settings(
        ledger=str(tmp_path / "l.db"), data_dir=shop_dir, **QUICK | {"wait_seconds": 0.0, "answer_step": 0.5}
    )
    with running(settings) as replica:
        tokens = gather(replica, SHOP).tokens
        context = window(browser)
        ada = browsing(context, replica.url)
        ada.go("/login?next=/ask")
        ada.page.get_by_label("Your token").fill(tokens["ada"])
        ada.page.keyboard.press("Enter")
        ada.ready("ask")
        ada.page.get_by_role("button", name="Ask", exact=True).click()
        expect(ada.page.get_by_role("button", name="Cancel")).to_be_visible()
        expect(ada.page.locator("#answer .answer-chart .bars .point")).to_have_count(10)
        expect(ada.page.locator("#running")).to_be_hidden()
        assert any("/api/v1/queries/" in address for address in ada.requests)
        ada.check()
        context.close()


def test_ask_by_keyboard_alone(ada: Browsing) -> None:
    page = ada.page
    ada.go("/ask?account=ada-shop")
    ada.ready("ask")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    _tab_to(page, "dataset")
    _tab_to(page, "account")
    _tab_to(page, "kind")
    page.keyboard.press("ArrowRight")
    expect(page.locator("input[name=kind]:checked")).to_have_value("histogram")
    page.keyboard.press("ArrowLeft")
    _tab_to(page, "k")
    page.keyboard.press("Control+A")
    page.keyboard.type("3")
    expect(page.locator("#preview")).to_contain_text("3 picks")
    _tab_to(page, "ask")
    page.keyboard.press("Enter")
    expect(page.locator("#answer h2")).to_be_focused()
    expect(page.locator("#answer .answer-chart .bars .point")).to_have_count(3)
    ada.check()


_OUTLINE = """() => {
    const focused = document.activeElement;
    return getComputedStyle(focused.type === 'radio' ? focused.nextElementSibling : focused).outlineStyle;
}"""


def _tab_to(page: Page, name: str) -> None:
    """Press Tab until the field is focused, and see that its focus can be seen."""
    for _ in range(30):
        page.keyboard.press("Tab")
        found = page.evaluate("() => [document.activeElement.id, document.activeElement.getAttribute('name')]")
        if name in found:
            assert page.evaluate(_OUTLINE) == "solid"
            return
    pytest.fail(f"{name} cannot be reached with Tab")


def test_explore_moves_with_the_numbers(ada: Browsing) -> None:
    page = ada.page
    ada.go("/explore")
    ada.ready("explore")
    expect(page.locator('[data-tile="setwise"]')).to_contain_text("ε 2.433")
    expect(page.locator('[data-tile="paper"]')).to_contain_text("ε 3.095")
    for chart, count in (("bounds", 4), ("gap", 2), ("noise", 3)):
        expect(page.locator(f"#{chart} .scatterlayer .trace")).to_have_count(count)
    ada.picture("explore-light")
    page.get_by_label("Number of uses k").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#k-value")).to_have_text("49")
    expect(page.locator('[data-tile="setwise"]')).not_to_contain_text("ε 2.433")
    page.get_by_label("the bounded-range share", exact=True).check()
    page.get_by_text("The numbers as a table").first.click()
    expect(page.locator("#bounds-table thead")).to_contain_text("share of bounded-range uses")
    expect(page.locator("#bounds-table tbody tr")).to_have_count(12)
    assert "along=share" in page.url
    ada.check()


def test_the_account_and_its_odometer(ada: Browsing, shop: Team) -> None:
    asked(shop.ada, "odometer-1", top(3))
    asked(shop.ada, "odometer-2", top(2, where="country = 'DK'"))
    ada.go("/accounts/ada-shop")
    ada.ready("account")
    page = ada.page
    expect(page.locator("#odometer .scatterlayer .trace")).to_have_count(2)
    expect(page.locator("tbody")).to_contain_text("Top 2 of product, where country = 'DK'")
    ada.picture("account-light")
    page.get_by_role("radio", name="By time").check()
    expect(page.locator("#odometer")).to_contain_text("time (UTC)")
    page.get_by_role("link", name=re.compile("see the answer of charge 1$")).click()
    expect(page.locator("#answer .answer-chart .bars .point")).not_to_have_count(0)
    ada.check()


def test_the_steward_registers_opens_issues_and_audits(steward: Browsing, shop: Team) -> None:
    page = steward.page
    steward.go("/steward")
    steward.ready("steward")
    expect(page.locator("[data-joint=shop]")).to_contain_text("accounts together, should their analysts collude: ε ≤")
    steward.picture("steward-light")
    page.get_by_text("Register a dataset").click()
    form = page.locator("form[data-address='/api/v1/datasets']")
    form.get_by_label("Name").fill("again")
    form.get_by_label("Table or file").fill("missing.parquet")
    form.get_by_label("User column").fill("visitor")
    form.get_by_label("Item columns").fill("product, country")
    form.get_by_role("button", name="Register").click()
    expect(form.locator(".result")).to_contain_text("missing.parquet")
    expect(form.get_by_label("Table or file")).to_have_attribute("aria-invalid", "true")
    form.get_by_label("Table or file").fill("shop.parquet")
    form.get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", name="again")).to_be_visible()
    page.get_by_text("Open an account").click()
    form = page.locator("form[data-address='/api/v1/accounts']")
    form.get_by_role("radio", name="A total").check()
    form.get_by_label("Name").fill("bob-again")
    form.get_by_label("Analyst").select_option("bob")
    form.get_by_label("Dataset").select_option("again")
    form.get_by_role("button", name="Open the account").click()
    expect(page.get_by_role("link", name="bob-again")).to_be_visible()
    page.get_by_text("Issue a token").click()
    form = page.locator("form[data-secret]")
    form.get_by_label("For", exact=True).select_option("bob")
    form.get_by_role("button", name="Issue").click()
    secret = form.locator(".secret").inner_text()
    page.set_viewport_size({"width": 390, "height": 900})
    assert steward.overhang() == 0
    assert shop.replica.as_holder(secret).get("/me").json()["name"] == "bob"
    steward.check(refused=(422,))


def test_the_audit_verifies_and_names_what_was_changed(steward: Browsing, shop: Team) -> None:
    asked(shop.ada, "audited", top(3))
    page = steward.page
    steward.go("/steward/audit?account=ada-shop")
    expect(page.locator("tbody")).to_contain_text("Top 3 of product")
    page.get_by_role("button", name="Verify").click()
    told = page.locator("#verified")
    expect(told.locator(".good")).to_contain_text("Nothing is wrong")
    head = told.locator("code").inner_text()
    assert re.fullmatch("[0-9a-f]{64}", head)
    steward.picture("audit-light")
    page.set_viewport_size({"width": 390, "height": 900})
    assert steward.overhang() == 0
    asked(shop.ada, "audited-later", top(2))
    page.get_by_label("Head noted earlier").fill(head)
    page.get_by_role("button", name="Verify").click()
    expect(told.locator(".alert")).to_contain_text(f"not {head}")
    steward.check()
