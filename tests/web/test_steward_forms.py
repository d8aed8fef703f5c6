"""Stewards' forms: a budget calculator, files and columns to pick from, and every file option of the command line."""

import itertools
import re
from dataclasses import fields
from pathlib import Path

import pytest
from playwright.sync_api import expect

from setwise.analytics.engines.files import CsvOptions
from tests.service.team import Team
from tests.web.browsing import Browsing

_NUMBERS = itertools.count(1)


def test_the_calculator_says_how_close_counts_are_and_how_many_questions_fit(steward: Browsing) -> None:
    page = steward.page
    steward.go("/explore")
    says = page.locator("#budget-says")
    expect(says).to_contain_text("pays for 50 questions with counts within about ")
    error = float(re.search(r"about ([\d.]+)\.$", says.inner_text())[1])  # type: ignore[index]
    page.get_by_role("radio", name="how many questions fit").check()
    page.get_by_label("Counts within ±").fill(str(error))
    expect(says).to_contain_text(re.compile("pays for (49|50|51) questions"))
    page.get_by_label("Groups one user counts towards").fill("4")
    expect(says).to_contain_text(re.compile("pays for 1[23] questions"))
    page.get_by_label("Budget ε").fill("-1")
    expect(page.locator("#budget-problem")).to_be_visible()
    steward.check(refused=(422,))


def test_only_stewards_find_it_in_the_menu(ada: Browsing, steward: Browsing) -> None:
    for who, count in ((ada, 0), (steward, 1)):
        who.go("/ask")
        expect(who.page.get_by_role("navigation", name="Pages").get_by_role("link", name="Budgets")).to_have_count(
            count
        )


def test_a_table_is_registered_by_picking_its_file_and_columns(steward: Browsing, shop: Team, shop_dir: Path) -> None:
    page, name = steward.page, f"picked-{next(_NUMBERS)}"
    (shop_dir / "visits.csv").write_text(
        "who;city;spent\n" + "".join(f"{who};Oslo;1,5\n" for who in range(30)), encoding="utf-8"
    )
    steward.go("/steward")
    steward.ready("steward")
    page.get_by_text("Register a dataset").click()
    form = page.locator("form[data-address='/api/v1/datasets']")
    expect(form.locator("#dataset-files option[value='visits.csv']")).to_have_count(1)
    form.get_by_label("Name").fill(name)
    form.get_by_label("Table or file").fill("visits.csv")
    page.get_by_text("How the file is written").click()
    form.get_by_label("Separator").fill(";")
    form.get_by_label("Decimal point").select_option(",")
    form.get_by_label("Decimal point").blur()
    form.get_by_label("User: who").check()
    form.get_by_label("Group by: city").check()
    form.get_by_label("Add up: spent").check()
    form.get_by_label("Kind of spent").select_option("float")
    expect(form.get_by_label("User column")).to_have_value("who")
    expect(form.get_by_label("Item columns")).to_have_value("city")
    expect(form.get_by_label("Types in a CSV file")).to_have_value("spent=float")
    form.get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    shown = shop.steward.get(f"/datasets/{name}").json()
    assert shown["values"] == [{"name": "spent", "kind": "float"}]
    steward.check(perhaps=(422,))  # its columns could not be listed before its separator was known


def test_a_file_that_cannot_be_read_says_so_before_it_is_registered(steward: Browsing) -> None:
    page = steward.page
    steward.go("/steward")
    steward.ready("steward")
    page.get_by_text("Register a dataset").click()
    form = page.locator("form[data-address='/api/v1/datasets']")
    form.get_by_label("Table or file").fill("nowhere.parquet")
    form.get_by_label("Table or file").blur()
    expect(form.locator("#column-says")).to_contain_text("nowhere.parquet")
    steward.check(refused=(422,))


@pytest.mark.parametrize("option", ["engine", "table", "types", *(f"csv.{each.name}" for each in fields(CsvOptions))])
def test_every_file_option_of_the_command_line_is_on_the_form(shop: Team, option: str) -> None:
    page = shop.signed_in("steward").get("/steward").text
    assert f'name="{option}"' in page
