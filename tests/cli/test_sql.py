"""`setwise sql`: its JSON, where the query and the table come from, and errors as one sentence."""

import json
from functools import partial

import pyarrow as pa
import pytest
from pyarrow import parquet

from setwise.ledger.ledger import Ledger

COUNTED = "SELECT page, COUNT(DISTINCT who) AS users FROM visits GROUP BY page ORDER BY users DESC LIMIT 2"
VISITS = ("--table", "visits=visits.parquet")
TOTAL = ("--user", "who", "--epsilon", "4", "--delta", "1e-6")


@pytest.fixture
def sql(setwise, monkeypatch, tmp_path):
    table = pa.table({"who": list(range(900)) * 2, "page": ["home"] * 900 + ["help", "shop", "help"] * 300})
    parquet.write_table(table, tmp_path / "visits.parquet")
    monkeypatch.chdir(tmp_path)
    return partial(setwise, "sql")


def test_json_is_columns_and_rows(sql):
    told = json.loads(sql(COUNTED, "--table", "visits=visits.parquet", *TOTAL, "--json").stdout)
    assert told["columns"] == ["page", "users"]
    assert [row["page"] for row in told["rows"]] == ["home", "help"]
    assert told["rows"][0]["users"]["value"] == pytest.approx(900, abs=50)
    assert len(told["rows"][0]["users"]["interval"]) == 2
    assert {"mechanism", "interaction", "epsilon", "delta", "spent", "complete"} <= set(told)


def test_the_query_may_be_in_a_file_and_the_table_a_path(sql, tmp_path):
    (tmp_path / "question.sql").write_text(COUNTED.replace("visits", "`./visits.parquet`"))
    assert sql("@question.sql", *TOTAL, "--csv").stdout.startswith("page,users,users_lower,users_upper,measure\nhome,")


def test_an_accuracy_stands_in_an_option_or_in_the_clause(sql):
    median = "SELECT {}MEDIAN(who, contribution_bounds_per_row => (0, 899)) AS m FROM visits"
    beside = json.loads(sql(median.format(""), *VISITS, "--user", "who", "--within", "90", "--json").stdout)
    clause = median.format("WITH DIFFERENTIAL_PRIVACY OPTIONS (within = 90, privacy_unit_column = who) ")
    assert json.loads(sql(clause, *VISITS, "--json").stdout)["epsilon"] == beside["epsilon"]


def test_people_get_a_table_and_the_promise(sql):
    shown = sql(COUNTED, "--table", "visits=visits.parquet", *TOTAL).stdout
    assert shown.split()[:2] == ["page", "users"]
    assert "promise" in shown


@pytest.mark.parametrize("words", [(f"EXPLAIN {COUNTED}",), (COUNTED, "--explain")])
def test_a_preview_reads_nothing(sql, words):
    told = json.loads(sql(*words, "--table", "visits=visits.parquet", *TOTAL, "--json").stdout)
    assert told["epsilon"]["upper"] <= 4
    assert "rows" not in told


def test_a_public_domain_is_read_from_a_file(sql, tmp_path):
    (tmp_path / "pages.txt").write_text("home\nhelp\nnews\n")
    asked = "SELECT page, COUNT(DISTINCT who) FROM visits GROUP BY page"
    told = sql(asked, "--table", "visits=visits.parquet", *TOTAL, "--domain", "pages.txt", "--json").stdout
    assert {row["page"] for row in json.loads(told)["rows"]} == {"home", "help", "news"}


def test_an_account_pays_and_a_key_replays(sql, tmp_path):
    with Ledger.open(str(tmp_path / "setwise.db")) as ledger:
        ledger.open_filter("ada", epsilon=5, delta=1e-6)
    words = (COUNTED, "--table", "visits=visits.parquet", "--user", "who", "--account", "ada", "--key", "a")
    total = ("--epsilon", "1", "--delta", "1e-8", "--json")
    first, second = (sql(*words, *total) for _ in range(2))
    assert first.stderr == ""
    assert json.loads(first.stdout)["rows"]
    assert first.stdout == second.stdout


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((COUNTED, *TOTAL), "--table visits=visits.parquet"),
        ((COUNTED, *TOTAL, "--table", "visits"), "NAME=PATH"),
        ((COUNTED, *TOTAL, "--table", "visits=a", "--table", "visits=b"), "twice"),
        (("@missing.sql", *TOTAL), "missing.sql"),
        ((COUNTED, "--epsilon", "1"), "privacy_unit_column"),
        ((COUNTED, "--user", "who", "--table", "visits=visits.parquet"), "--epsilon"),
        ((COUNTED.replace("page,", "page, *,"), *TOTAL), "*"),
        (
            (COUNTED.replace("visits", "visits JOIN v USING (who)"), *TOTAL, *VISITS),
            "declare its file, with --table v=FILE",
        ),
        ((COUNTED.replace("page", "pag"), *TOTAL, "--table", "visits=visits.parquet"), "pag"),
    ],
)
def test_errors_are_one_sentence(sql, words, named):
    done = sql(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "name",
    [
        "public.visits",
        '"public"."visits"',
        "VISITS",
        '"Visits"',
        "shop.visits",
        "`my-project.web.visits`",
        "`web.Visits`",
    ],
)
def test_names_of_tables_as_bi_tools_and_people_write_them(sql, name):
    answer = sql(f"SELECT COUNT(DISTINCT who) AS n FROM {name}", *VISITS, *TOTAL, "--json")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["columns"] == ["n"]
