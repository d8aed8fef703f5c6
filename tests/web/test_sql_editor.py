"""The SQL editor of the Ask page: its bundle, its colours and completion, and problems marked at their place."""

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.web.browsing import Browsing, write_sql, written_sql

EDITOR = Path(__file__).parents[2] / "editor"
STATIC = files("setwise.service.pages").joinpath("static")


def test_the_bundle_is_built_from_the_sources_beside_it() -> None:
    """Whoever changes the sources runs `make editor`; the first line of the bundle has their digest."""
    digest = hashlib.sha256()
    for name in ("package.json", "package-lock.json", "sql_editor.mjs"):
        digest.update(EDITOR.joinpath(name).read_bytes())
    assert f"sha256 {digest.hexdigest()}" in STATIC.joinpath("sql_editor.js").read_text(encoding="utf-8").split("\n")[0]


def test_the_licence_of_every_bundled_package_is_kept() -> None:
    texts = STATIC.joinpath("sql_editor.LICENSES.txt").read_text(encoding="utf-8")
    for name in ("@codemirror/view", "@codemirror/lang-sql", "@lezer/lr", "style-mod", "crelt"):
        assert re.search(rf"^{re.escape(name)} [\d.]+ \(MIT\)$", texts, re.MULTILINE), name
    assert texts.count("Permission is hereby granted") == len(re.findall(r"^\S+ [\d.]+ \(MIT\)$", texts, re.MULTILINE))


@pytest.fixture
def sql(ada: Browsing) -> Browsing:
    ada.go("/ask?account=ada-total")
    ada.ready("ask")
    ada.page.get_by_role("radio", name="SQL").check()
    return ada


def test_keywords_are_coloured_and_columns_completed(sql: Browsing) -> None:
    page = sql.page
    write_sql(page, "SELECT ")
    content = page.locator(".cm-content")
    keyword = content.locator("span", has_text="SELECT").first
    colours = [each.evaluate("each => getComputedStyle(each).color") for each in (keyword, content)]
    assert colours[0] != colours[1]
    page.keyboard.type("pro")
    options = page.locator(".cm-tooltip-autocomplete li")
    expect(options.filter(has_text="product").first).to_be_visible()
    expect(options.filter(has_text="product").first).to_contain_text("text")
    page.wait_for_timeout(200)  # a list that has just opened does not take Enter yet
    page.keyboard.press("Enter")
    expect(content).to_have_text("SELECT product")
    expect(page.locator("#problem")).to_be_visible()  # the statement is not finished
    sql.check(refused=(422,))


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("SELECT prodct, COUNT(*) AS n\nFROM shop\nGROUP BY prodct", "prodct"),
        ("SELECT product,\n  COUNT(* FROM shop", "FROM"),
    ],
)
def test_what_is_wrong_is_marked_at_its_place(sql: Browsing, text: str, marked: str) -> None:
    page = sql.page
    write_sql(page, text)
    expect(page.locator(".cm-lintRange-error").first).to_have_text(marked)
    expect(page.locator("#problem")).to_be_visible()
    write_sql(page, "SELECT COUNT(DISTINCT visitor) FROM shop")
    expect(page.locator(".cm-lintRange-error")).to_have_count(0)
    sql.check(refused=(422,))


def test_a_refusal_offers_a_statement_that_can_be_asked(sql: Browsing) -> None:
    page = sql.page
    write_sql(page, "SELECT prodct, COUNT(*) AS n FROM shop GROUP BY prodct")
    expect(page.locator("#problem")).to_contain_text("This can be asked:")
    offered = page.locator("#problem code").inner_text()
    page.locator("#problem").get_by_role("button", name="Use it").click()
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#preview .in-words")).to_be_visible()
    assert written_sql(page) == offered
    sql.check(refused=(422,))


def test_examples_are_statements_of_the_chosen_data_set(sql: Browsing) -> None:
    page = sql.page
    examples = page.get_by_label("Examples")
    titles = examples.locator("option").all_inner_texts()
    assert len(titles) >= 4
    for title in titles[1:]:
        with page.expect_response("**/api/v1/preview") as found:
            examples.select_option(title)
        assert found.value.status == 200, (title, found.value.text())
        expect(page.locator(".cm-content")).to_contain_text("FROM shop")
    sql.check()
