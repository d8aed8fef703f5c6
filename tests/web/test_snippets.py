"""The Python and the curl beside an answer: run as they stand, they get the same answer and pay nothing."""

import contextlib
import csv
import html
import io
import json
import os
import re
import subprocess
import sys

import pytest

from tests.service.team import Team, asked
from tests.web.chromium import needed
from tests.web.shop import HOSTILE, top

DRAWS = {"kind": "draws", "counts": "pure:0.1"}
QUESTIONS = {
    "top-k": top(5),
    "filtered": top(3, where="country = 'NO' OR country = 'it''s \"quoted\" $HOME `x` \\ %'", contributions=2),
    "domain": top(2, domain=[HOSTILE, "tent", "gloves"]),
    "histogram": {
        "dataset": "shop",
        "account": "ada-shop",
        "query": {"kind": "histogram", "item": "product", "domain": [HOSTILE, "tent"]},
        "spend": DRAWS,
    },
    "count": {"dataset": "shop", "account": "ada-shop", "query": {"kind": "count", "per_user": 3}, "spend": DRAWS},
    "sum": {
        "dataset": "shop",
        "account": "ada-total",
        "query": {"kind": "sum", "value": "minutes", "clip": 50},
        "spend": {"kind": "total", "epsilon": 0.25, "delta": 0.0, "counts": "laplace"},
    },
    "total": {
        "dataset": "shop",
        "account": "ada-total",
        "query": {"kind": "top-k", "item": "product", "k": 3},
        "spend": {"kind": "total", "epsilon": 0.5, "delta": 1e-8},
    },
    "sql": {
        "dataset": "shop",
        "account": "ada-total",
        "query": {
            "kind": "sql",
            "text": "SELECT product AS item, COUNT(DISTINCT visitor) AS `count`\n"
            "FROM shop WHERE country <> 'it\\'s \"$HOME\"'\n"
            "GROUP BY product",
        },
        "spend": {"kind": "total", "epsilon": 0.5, "delta": 1e-8},
    },
}


def _snippet(page: str, language: str) -> str:
    found = re.search(rf'<code id="[^"]+" data-language="{language}">(.*?)</code>', page, re.S)
    assert found is not None
    return html.unescape(found[1])


def _run(command: list[str], shop: Team) -> str:
    environment = os.environ | {"SETWISE_TOKEN": shop.tokens["ada"]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _printed(program: str, shop: Team, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a program here, for starting an interpreter takes longer than the program."""
    monkeypatch.setenv("SETWISE_TOKEN", shop.tokens["ada"])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        names: dict[str, object] = {}
        exec(program, names)
        names["client"].close()  # type: ignore[attr-defined]
    return printed.getvalue()


@pytest.mark.parametrize("name", QUESTIONS)
def test_both_do_the_same_for_nothing(shop: Team, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = QUESTIONS[name]
    query = asked(shop.ada, f"snippet-{name}", body)
    before = shop.ada.get(f"/accounts/{body['account']}").json()
    page = shop.signed_in("ada").get(f"/answers/{query['id']}").text
    printed = _printed(_snippet(page, "python"), shop, monkeypatch)
    rows = list(csv.DictReader(io.StringIO(printed.rstrip("\n") + "\n")))
    answer = query["answer"]
    assert isinstance(answer, dict)
    assert [(row["item"], row["count"]) for row in rows] == [
        (str(each["item"]), str(each["count"])) for each in answer["items"]
    ]
    replayed = json.loads(_run(["bash", "-c", _snippet(page, "shell").replace("curl ", f"{needed('curl')} ", 1)], shop))
    assert replayed["answer"] == answer
    assert shop.ada.get(f"/accounts/{body['account']}").json() == before


@pytest.mark.parametrize(
    ("query", "heading"),
    [
        (
            {"kind": "mean", "value": "minutes", "low": 0, "high": 60, "item": "product", "contributions": 1},
            "mean_minutes",
        ),
        ({"kind": "sum", "value": "minutes", "low": -5, "high": 60}, "sum_minutes"),
        (
            {
                "kind": "query",
                "item": "product",
                "k": 2,
                "statistics": [
                    {"statistic": "count"},
                    {"statistic": "quantile", "column": "minutes", "low": 0, "high": 60},
                ],
            },
            "median_minutes",
        ),
    ],
)
def test_statistics_are_shown_and_repeated(
    shop: Team, query: dict, heading: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spend = {"kind": "total", "epsilon": 0.2, "delta": 1e-9}
    found = asked(
        shop.ada, f"snippet-{heading}", {"dataset": "shop", "account": "ada-total", "query": query, "spend": spend}
    )
    page = shop.signed_in("ada").get(f"/answers/{found['id']}")
    assert page.status_code == 200
    headings = re.findall(r'data-sort="\d+">(.*?)</button></th>', page.text.replace("<wbr>", ""))
    in_words = {"mean_minutes": "mean of minutes", "sum_minutes": "sum of minutes"}
    assert in_words.get(heading, heading) in headings
    rows = list(
        csv.DictReader(io.StringIO(_printed(_snippet(page.text, "python"), shop, monkeypatch).rstrip("\n") + "\n"))
    )
    assert [float(row[heading]) for row in rows] == [each[heading]["value"] for each in found["answer"]["items"]]


def test_the_program_runs_on_its_own(shop: Team) -> None:
    query = asked(shop.ada, "program", top(2))
    page = shop.signed_in("ada").get(f"/answers/{query['id']}").text
    assert _run([sys.executable, "-c", _snippet(page, "python")], shop).startswith(
        "item,count,lower,upper,noisy,measure\n"
    )


def test_downloads_are_the_answer(shop: Team) -> None:
    query = asked(shop.ada, "downloads", top(4))
    ada = shop.signed_in("ada")
    answer = query["answer"]
    assert isinstance(answer, dict)
    table = ada.get(f"/answers/{query['id']}/answer.csv")
    assert table.headers["content-disposition"].startswith("attachment")
    assert [row["item"] for row in csv.DictReader(io.StringIO(table.text))] == [
        each["item"] for each in answer["items"]
    ]
    found = ada.get(f"/answers/{query['id']}/answer.json").json()
    assert found["items"] == answer["items"]
    assert found["epsilon"] == answer["epsilon"]


def test_no_label_of_a_download_is_a_formula_and_every_label_comes_back(shop: Team) -> None:
    labels = ["=1+1", "+1", "-1", "@x", "'x", "''", "tent", "a=b"]
    body = {
        "dataset": "shop",
        "account": "ada-shop",
        "query": {"kind": "histogram", "item": "product", "contributions": 1, "domain": labels},
        "spend": {"kind": "draws", "counts": "pure:0.1"},
    }
    query = asked(shop.ada, "formulas", body)
    text = shop.signed_in("ada").get(f"/answers/{query['id']}/answer.csv").text
    cells = [row["item"] for row in csv.DictReader(io.StringIO(text))]
    assert not [cell for cell in cells if cell[0] in "=+-@"]
    assert {cell.removeprefix("'") for cell in cells} == set(labels)
