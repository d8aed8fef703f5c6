"""Columns whose names are words of SQL, or aliases of the statement: the refusal has a statement that is answered."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from setwise.cli.main import app


def run(statement: str, folder: Path, header: str = "who,select,order,month,at"):
    path = folder / "table.csv"
    rows = (f"u{user},s{user % 2},{user % 3},{user % 12},2026-0{1 + user % 9}-01 10:00:00" for user in range(400))
    path.write_text("\n".join([header, *rows]) + "\n")
    words = ("--table", f"t={path}", "--user", "who", "--epsilon", "90", "--delta", "0.001", "--json")
    return CliRunner().invoke(app, ["sql", statement, *words])


@pytest.mark.parametrize(
    ("text", "words", "suggested"),
    [
        ("SELECT select, COUNT(*) AS n FROM t GROUP BY select", "select is a word of SQL", 2),
        ("SELECT COUNT(DISTINCT select) AS n FROM t", "select is a word of SQL", 1),
        ("SELECT AVG(month) AS n FROM t WHERE select = 's1'", "select is a word of SQL", 1),
        ("SELECT select, order, COUNT(*) AS n FROM t GROUP BY select, order", "select, order are words of SQL", 6),
    ],
)
def test_a_reserved_word_is_named_and_quoted(text: str, words: str, suggested: int, tmp_path: Path):
    message = str(run(text, tmp_path).exception)
    assert message.startswith(words)
    assert '"select"' in message.partition("; write: ")[0]
    done = run(message.partition("; write: ")[2], tmp_path)
    assert done.exit_code == 0, done.exception
    assert len(json.loads(done.stdout)["rows"]) == suggested


@pytest.mark.parametrize(
    "text", ["SELECT FROM t", "SELECT COUNT(*) FROM", "SELECT a b c FROM t", "SELECT 'select' FROM"]
)
def test_other_errors_name_no_reserved_word(text: str, tmp_path: Path):
    assert "word of SQL" not in str(run(text, tmp_path).exception)


@pytest.mark.parametrize(
    ("text", "suggested"),
    [
        (
            "SELECT DATE_TRUNC('month', at) AS month, COUNT(*) AS n FROM t GROUP BY month ORDER BY month",
            "SELECT DATE_TRUNC('month', at) AS month_1, COUNT(*) AS n FROM t GROUP BY month_1 ORDER BY month_1",
        ),
        (
            "SELECT SUBSTR(at, 1, 7) AS month, COUNT(*) AS n FROM t GROUP BY month",
            "SELECT SUBSTR(at, 1, 7) AS month_1, COUNT(*) AS n FROM t GROUP BY month_1",
        ),
    ],
)
def test_an_alias_that_is_a_column_has_another_name(text: str, suggested: str, tmp_path: Path):
    message = str(run(text, tmp_path).exception)
    assert message.partition("; write: ")[2].removesuffix(" NULLS FIRST") == suggested
    done = run(message.partition("; write: ")[2], tmp_path)
    assert done.exit_code == 0, done.exception
    assert len(json.loads(done.stdout)["rows"]) == 9


@pytest.mark.parametrize("negation", ["", "NOT "])
def test_null_in_a_list_is_named(negation: str, tmp_path: Path):
    message = str(run(f"SELECT COUNT(*) AS n FROM t WHERE at {negation}IN ('a', NULL)", tmp_path).exception)
    assert message.startswith("a comparison with NULL is not supported in SQL here: write IS NULL"), message


@pytest.mark.parametrize(
    "text",
    [
        'SELECT "Kunde Nr.", COUNT(*) AS n FROM t GROUP BY "Kunde Nr."',
        'SELECT s."Kunde Nr.", COUNT(*) AS n FROM t AS s WHERE s."net.total" >= 0 GROUP BY 1',
        'SELECT "Kunde Nr.", MAX(n) AS n FROM (SELECT "Kunde Nr.", COUNT(*) AS n FROM t GROUP BY 1) AS x GROUP BY 1',
    ],
)
def test_a_name_in_double_quotes_may_have_a_dot(text: str, tmp_path: Path):
    """The headers of spreadsheets, such as Kunde Nr., were taken for a table and its column, and never answered."""
    done = run(text, tmp_path, "who,Kunde Nr.,net.total,month,at")
    assert done.exit_code == 0, done.exception
    assert {row["Kunde Nr."] for row in json.loads(done.stdout)["rows"]} == {"s0", "s1"}
