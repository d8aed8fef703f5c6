"""Asking in SQL and for means, quantiles and several columns, in a real browser; screenshots are kept in artefacts/."""

import itertools

import pytest
from playwright.sync_api import Browser, expect

from tests.service.team import Team, made
from tests.web.browsing import Browsing, browsing, window, write_sql, written_sql

TWO = """SELECT country, product, COUNT(DISTINCT visitor) AS people
FROM shop
WHERE country <> 'DK'
GROUP BY country, product
ORDER BY people DESC
LIMIT 8"""


_NUMBERS = itertools.count(1)


@pytest.fixture
def total(shop: Team) -> str:
    """An account of ada's that no other test draws on: two thresholds use up what an account may fail with."""
    name = f"ada-total-{next(_NUMBERS)}"
    account = {"kind": "filter", "name": name, "analyst": "ada", "dataset": "shop", "epsilon": 4.0, "delta": 1e-6}
    made(shop.steward.post("/accounts", json=account))
    return name


@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 390)])
def test_sql_is_previewed_as_it_is_typed_and_its_rows_are_shown(
    browser: Browser, shop: Team, total: str, scheme: str, width: int
) -> None:
    context = window(browser, scheme=scheme, width=width)
    ada = browsing(context, shop.url, shop.signed_in("ada").cookies["setwise_session"])
    page = ada.page
    ada.go(f"/ask?account={total}")
    ada.ready("ask")
    page.get_by_role("radio", name="SQL").check()
    field = page.get_by_role("textbox", name="SQL statement")
    first = (
        "SELECT product, COUNT(DISTINCT visitor) AS users\nFROM shop\nGROUP BY product\nORDER BY users DESC\nLIMIT 10"
    )
    assert written_sql(page) == first
    expect(page.locator("#columns li")).to_have_count(6)
    expect(page.locator("#preview")).to_contain_text("Mechanism")
    write_sql(page, "SELECT city FROM shop GROUP BY city")
    expect(page.locator("#problem")).to_contain_text("has no column 'city'")
    expect(field).to_have_attribute("aria-invalid", "true")
    write_sql(page, TWO.replace("country, product,", ", product,", 1))
    page.keyboard.press("Control+Home")
    for _ in range(7):
        page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="country", exact=True).click()
    assert written_sql(page) == TWO
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#preview")).to_contain_text("Costs at most")
    page.get_by_label("ε for this question").fill("0.3")
    page.get_by_role("button", name="Ask", exact=True).click()
    answer = page.locator("#answer")
    expect(answer.locator("h2")).to_contain_text("Top 8 of country and product, where country <> 'DK'")
    assert page.locator("#running").is_hidden(), "the answer is there, and nothing runs any more"
    expect(answer.locator("thead th")).to_have_text(["country", "product", "people", "95 % interval"])
    expect(answer.locator(".answer-chart .bars .point")).to_have_count(8)
    expect(answer.locator(".answer-chart .legend .traces")).to_have_count(2)
    expect(answer.locator("[data-language=sql]")).to_have_text(TWO)
    assert ada.overhang() == 0
    assert ada.cut_titles() == []
    ada.picture(f"ask-sql-{scheme}-{width}")
    ada.check(refused=(422,))
    context.close()


def test_a_public_table_stands_beside_the_columns_and_is_joined(ada: Browsing, total: str) -> None:
    page = ada.page
    ada.go(f"/ask?account={total}")
    ada.ready("ask")
    page.get_by_role("radio", name="SQL").check()
    write_sql(page, "SELECT , COUNT(DISTINCT visitor) AS n FROM shop JOIN regions USING (country) GROUP BY 1")
    expect(page.locator("#problem")).to_be_visible()
    page.keyboard.press("Control+Home")
    for _ in range(7):
        page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="regions.region").click()
    page.get_by_label("ε for this question").fill("0.3")
    expect(page.locator("#preview")).to_contain_text("Costs at most")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#answer .answer-chart .bars .point")).to_have_count(3)
    expect(page.locator("#answer thead th").first).to_have_text("region")
    ada.check(refused=(422,))


def test_the_clause_spends_what_it_says(ada: Browsing, total: str) -> None:
    page = ada.page
    ada.go(f"/ask?account={total}")
    ada.ready("ask")
    page.get_by_role("radio", name="SQL").check()
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.125, delta = 0) COUNT(DISTINCT visitor) FROM shop"
    write_sql(page, clause)
    expect(page.locator("#preview")).to_contain_text("0.125")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#answer .big-number")).to_contain_text("users")
    ada.check()


def test_a_mean_and_a_quantile_from_the_form(ada: Browsing, total: str) -> None:
    page = ada.page
    ada.go(f"/ask?account={total}")
    ada.ready("ask")
    page.get_by_role("radio", name="Mean").check()
    page.get_by_label("to", exact=True).fill("60")
    page.get_by_label("ε for this question").fill("0.2")
    expect(page.locator("#preview")).to_contain_text("a mean of minutes")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#answer h2")).to_have_text("Mean of minutes between 0 and 60")
    assert 20 < float(page.locator("#answer .big-number").inner_text().split()[0]) < 40
    page.get_by_label("For each").select_option("country")
    expect(page.locator("#preview")).to_contain_text("Mechanism")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#answer h2")).to_have_text("Mean of minutes between 0 and 60 by country")
    expect(page.locator("#answer .answer-chart .bars .point")).to_have_count(3)
    page.get_by_role("radio", name="Quantile").check()
    page.get_by_label("For each").select_option("")
    page.get_by_label("Share of users below").fill("0.9")
    expect(page.locator("#preview")).to_contain_text("a quantile of minutes")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#answer h2")).to_have_text("0.9 quantile of minutes between 0 and 60")
    expect(page.locator("#answer thead th")).to_have_text(["measured", "quantile 0.9 of minutes"])
    ada.picture("ask-quantile-light")
    ada.check()


def test_several_shares_are_asked_for_at_once(ada: Browsing, total: str) -> None:
    page = ada.page
    ada.go(f"/ask?account={total}")
    ada.ready("ask")
    page.get_by_role("radio", name="Quantile").check()
    page.get_by_label("to", exact=True).fill("60")
    page.get_by_label("ε for this question").fill("0.4")
    shares = page.get_by_label("Share of users below")
    shares.fill("0.25, 1.5")
    expect(page.locator("#problem")).to_contain_text("less than 1")
    expect(shares).to_have_attribute("aria-invalid", "true")
    shares.fill("0.25, 0.5, 0.75")
    expect(page.locator("#preview")).to_contain_text("2 picks")
    page.get_by_role("button", name="Ask", exact=True).click()
    answer = page.locator("#answer")
    expect(answer.locator("h2")).to_have_text("0.25, 0.5 and 0.75 quantiles of minutes between 0 and 60")
    names = ["quantile 0.25 of minutes", "median of minutes", "quantile 0.75 of minutes"]
    expect(answer.locator("thead th")).to_have_text(["measured", *names])
    expect(answer.locator(".answer-chart .bars .point")).to_have_count(3)
    expect(answer.locator(".answer-chart .ytick")).to_have_text(names)
    page.get_by_label("For each").select_option("country")
    expect(page.locator("#preview")).to_contain_text("Mechanism")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(answer.locator("h2")).to_have_text("0.25, 0.5 and 0.75 quantiles of minutes between 0 and 60 by country")
    expect(answer.locator(".answer-chart .bars .point")).to_have_count(9)
    expect(answer.locator(".answer-chart .legend .traces")).to_have_count(3)
    assert ada.overhang() == 0
    assert ada.cut_titles() == []
    page.get_by_role("radio", name="Line").check(force=True)
    assert ada.cut_titles() == []
    page.get_by_role("radio", name="Bars").check(force=True)
    ada.picture("ask-quartiles-light")
    ada.check(refused=(422,))


def test_bins_and_bounds_to_be_found_from_the_form(ada: Browsing, total: str) -> None:
    page = ada.page
    ada.go(f"/ask?account={total}")
    ada.ready("ask")
    page.get_by_role("radio", name="Mean").check()
    expect(page.get_by_label("in bins")).to_be_hidden()
    page.get_by_label("Values count from").fill("")
    page.get_by_label("to", exact=True).fill("")
    page.get_by_label("For each").select_option("country")
    page.get_by_text("Known labels and bounds").click()
    page.get_by_label("Items one user may count towards").fill("auto")
    page.get_by_label("ε for this question").fill("0.5")
    expect(page.locator("#preview")).to_contain_text("auto")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#answer h2")).to_have_text("Mean of minutes by country (bounds found privately)")
    expect(page.locator("#answer [data-language=python]")).to_contain_text("contributions='auto'")
    page.get_by_label("in bins").fill("by 10")
    expect(page.locator("#problem")).to_contain_text("'country by 10' needs a column of numbers")
    page.get_by_role("radio", name="Histogram").check()
    page.get_by_label("Item", exact=True).select_option("country")
    page.get_by_label("in bins").fill("month of")
    expect(page.locator("#problem")).to_contain_text("'month of country' needs a column of dates or times")
    ada.check(refused=(422,))


def test_the_form_asks_for_two_columns_of_a_list(ada: Browsing) -> None:
    page = ada.page
    ada.go("/ask?account=ada-shop")
    ada.ready("ask")
    page.get_by_role("radio", name="Histogram").check()
    page.get_by_label("and by").select_option("country")
    page.get_by_text("Known labels and bounds").click()
    page.get_by_label("Labels that may come back").fill("tent, NO\ntent, SE\ngloves, NO\ngloves, SE")
    expect(page.locator("#preview")).to_contain_text("known_")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#answer h2")).to_contain_text("Histogram of product and country, from a given list")
    expect(page.locator("#answer .answer-chart .bars .point")).to_have_count(4)
    ada.check()
