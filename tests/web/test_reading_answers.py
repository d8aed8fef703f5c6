"""Asking and reading answers on a screen: previews in words, charts of the statistic asked for, tables without cuts."""

import itertools
import re

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.service.team import Team, made
from tests.web.browsing import Browsing, browsing, window, write_sql
from tests.web.shop import SHOP

_NUMBERS = itertools.count(1)
SEVERAL = """SELECT country, COUNT(DISTINCT visitor) AS people, AVG(minutes) AS average_minutes_per_visitor
FROM shop
GROUP BY country"""
TEN = """SELECT country, product, COUNT(DISTINCT visitor) AS people
FROM shop
GROUP BY country, product
ORDER BY people DESC
LIMIT 10"""


@pytest.fixture
def budget(shop: Team) -> str:
    name = f"ada-read-{next(_NUMBERS)}"
    account = {"kind": "filter", "name": name, "analyst": "ada", "dataset": "shop", "epsilon": 8.0, "delta": 1e-5}
    made(shop.steward.post("/accounts", json=account))
    return name


def ask(who: Browsing, account: str, text: str, epsilon: str = "1") -> Locator:
    page = who.page
    who.go(f"/ask?account={account}")
    who.ready("ask")
    page.get_by_role("radio", name="SQL").check()
    write_sql(page, text)
    page.get_by_label("ε for this question").fill(epsilon)
    expect(page.locator("#preview")).to_contain_text("Costs at most")
    page.get_by_role("button", name="Ask", exact=True).click()
    answer = page.locator("#answer")
    expect(answer.locator("h2")).to_be_visible()
    return answer


def test_the_preview_of_bounds_to_be_found_is_in_words_too(ada: Browsing, shop: Team) -> None:
    """It began with "Unknown_laplace: finds items whose count is ..." and named the next best mechanism in bold."""
    page = ada.page
    dataset = SHOP.body | {"name": "unbounded-shop", "contributions": None, "apart": "its contributions are found"}
    made(shop.steward.post("/datasets", json=dataset))
    account = {"kind": "filter", "name": "ada-unbounded", "analyst": "ada", "dataset": "unbounded-shop"}
    made(shop.steward.post("/accounts", json=account | {"epsilon": 8.0, "delta": 1e-5}))
    ada.go("/ask?account=ada-unbounded")
    ada.ready("ask")
    page.get_by_role("radio", name="SQL").check()
    write_sql(page, 'SELECT country, COUNT(DISTINCT visitor) AS people FROM "unbounded-shop" GROUP BY country')
    words = page.locator("#preview .in-words")
    close = (
        r"counts within about [\d,]+ \(with probability 95%\); groups with a count of at least about [\d,]+ are shown "
        r"with probability 95%"
    )
    expect(words).to_have_text(
        re.compile(
            rf"^If a user counts towards at most 4 groups: {close}\. This is an example: the bounds are found first, "
            r"and where one is ten times as large, the error is up to ten times as large\.$"
        )
    )


def test_the_preview_is_in_words_and_the_mechanism_one_click_away(ada: Browsing, budget: str) -> None:
    page = ada.page
    ada.go(f"/ask?account={budget}")
    ada.ready("ask")
    expect(page.locator("#preview .in-words")).to_contain_text("Counts within about ")
    expect(page.locator("#preview").get_by_text("Mechanism")).to_be_hidden()
    page.locator("#preview").get_by_text("How it is done").click()
    expect(page.locator("#preview").get_by_text("Mechanism")).to_be_visible()


def test_a_refused_question_clears_the_old_answer(ada: Browsing, budget: str) -> None:
    """The old numbers used to stay below the refusal, as if they answered the new question."""
    answer = ask(ada, budget, "SELECT COUNT(DISTINCT visitor) FROM shop")
    write_sql(ada.page, "SELECT * FROM shop")
    ada.page.get_by_role("button", name="Ask", exact=True).click()
    expect(ada.page.locator("#problem")).to_be_visible()
    expect(answer).to_be_hidden()
    ada.check(refused=(422,))


def test_ask_waits_until_the_account_can_pay(ada: Browsing, budget: str) -> None:
    page = ada.page
    ada.go(f"/ask?account={budget}")
    ada.ready("ask")
    button = page.get_by_role("button", name="Ask", exact=True)
    page.get_by_label("ε for this question").fill("50")
    expect(page.locator("#preview .alert")).to_be_visible()
    expect(button).to_be_disabled()
    page.get_by_label("ε for this question").fill("0.2")
    expect(button).to_be_enabled()
    ada.check()


def test_a_hint_stands_with_the_answer_in_words_of_the_question(ada: Browsing, budget: str) -> None:
    """It was hidden under "How it was done", and named parameters that neither the form nor SQL has."""
    answer = ask(ada, budget, "SELECT product, COUNT(*) AS n FROM shop GROUP BY product", "0.2")
    hint = answer.locator(".advice")
    expect(hint).to_be_visible()
    expect(hint).to_contain_text("OPTIONS (")
    expect(hint).not_to_contain_text("per_item")
    expect(hint).not_to_contain_text("--")


def test_a_mean_from_the_form_is_headed_by_its_own_words(ada: Browsing, shop: Team) -> None:
    account = {"kind": "filter", "name": "ada-headed", "analyst": "ada", "dataset": "shop"}
    made(shop.steward.post("/accounts", json=account | {"epsilon": 8.0, "delta": 1e-5}))
    page = ada.page
    ada.go("/ask?account=ada-headed")
    ada.ready("ask")
    page.get_by_role("radio", name="Mean").check()
    page.get_by_label("Values count from").fill("")
    page.get_by_label("to", exact=True).fill("")
    page.get_by_label("For each").select_option("country")
    page.get_by_label("ε for this question").fill("1")
    expect(page.locator("#preview")).to_contain_text("Costs at most")
    page.get_by_role("button", name="Ask", exact=True).click()
    answer = page.locator("#answer")
    expect(answer.locator("h2")).to_have_text("Mean of minutes by country (bounds found privately)")
    expect(answer.locator("thead th")).to_have_text(["country", "mean of minutes", "95 % interval"])
    expect(answer.locator(".left-out")).not_to_contain_text("AVG")
    ada.check()


def test_intervals_of_several_statistics_stand_below_their_numbers_on_a_phone(
    browser: Browser, shop: Team, budget: str
) -> None:
    """The table was cut with its last interval beyond the screen, and nothing showed that it goes on."""
    context = window(browser, width=390)
    ada = browsing(context, shop.url, shop.signed_in("ada").cookies["setwise_session"])
    answer = ask(ada, budget, SEVERAL, "3")
    region = answer.get_by_role("region", name="The numbers")
    assert region.evaluate("each => each.scrollWidth - each.clientWidth") == 0
    below = region.locator("td[data-interval]").first
    shown = below.evaluate("each => getComputedStyle(each, '::after').content")
    assert shown == f'"{below.get_attribute("data-interval")}"'
    expect(region.locator("td.interval").first).to_be_hidden()
    ada.check()
    context.close()


@pytest.mark.parametrize("width", [1360, 390])
def test_no_number_of_the_table_is_off_the_screen(browser: Browser, shop: Team, budget: str, width: int) -> None:
    context = window(browser, width=width)
    ada = browsing(context, shop.url, shop.signed_in("ada").cookies["setwise_session"])
    answer = ask(ada, budget, TEN, "3")
    region = answer.get_by_role("region", name="The numbers")
    sizes = region.evaluate("each => [each.scrollWidth - each.clientWidth, each.scrollHeight - each.clientHeight]")
    assert sizes == [0, 0]
    expect(answer.locator("thead th")).to_have_text(["country", "product", "people", "95 % interval"])
    expect(region.locator("tbody tr")).to_have_count(10)
    assert ada.overhang() == 0
    ada.check()
    context.close()


def test_the_chart_shows_the_statistic_that_is_chosen(ada: Browsing, budget: str) -> None:
    answer = ask(ada, budget, SEVERAL, "3")
    chosen = answer.get_by_label("Statistic")
    assert chosen.locator("option").all_inner_texts() == ["people", "average_minutes_per_visitor"]
    expect(answer.locator(".answer-chart .xtitle")).to_have_text("people")
    chosen.select_option("average_minutes_per_visitor")
    expect(answer.locator(".answer-chart .xtitle")).to_have_text("average_minutes_per_visitor")
    names = answer.locator(".answer-chart .ytick")
    answer.get_by_label("Order").select_option("by name")
    expect(names).to_have_text(sorted(names.all_text_contents()))
    answer.get_by_role("radio", name="Line").check()
    expect(answer.locator(".answer-chart .scatterlayer .trace")).to_have_count(1)
    expect(answer.locator(".answer-chart .bars .point")).to_have_count(0)
    ada.check()


def test_the_table_is_sorted_by_the_column_that_is_clicked(ada: Browsing, budget: str) -> None:
    answer = ask(ada, budget, SEVERAL, "3")
    first = answer.locator("tbody tr td:first-child, tbody tr th:first-child")
    answer.get_by_role("button", name="country").click()
    expect(first).to_have_text(sorted(first.all_inner_texts()))
    expect(answer.locator("thead th").first).to_have_attribute("aria-sort", "ascending")
    answer.get_by_role("button", name="country").click()
    expect(first).to_have_text(sorted(first.all_inner_texts(), reverse=True))
    ada.check()
