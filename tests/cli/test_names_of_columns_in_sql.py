"""Columns whose names are words of SQL, or aliases of the statement: the refusal has a statement that is answered."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.command_line import Done
from tests.command_line import setwise as setwise_fixture  # noqa: F401
from typer.testing import CliRunner

import setwise as package
from setwise.cli.main import app

Command = Callable[..., Done]


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


PAID = ("--user", "user", "--epsilon", "90", "--delta", "0.001", "--json")


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """A file with a saved description, whose columns are text, a number, a truth value and a Unix time."""
    path = tmp_path / "visits.csv"
    lines = [f"u{user},{'AB'[user % 2]},{user % 12 + 1},{'yes' if user % 2 else 'no'},{1704067200 + user * 86400}"
             for user in range(400)]  # fmt: skip
    path.write_text("user,carrier,month,member,time\n" + "\n".join(lines) + "\n")
    kinds = 'month = "integer"\nmember = "boolean"\ntime = "integer"\n'
    path.with_name("visits.csv.toml").write_text(f"[types]\n{kinds}")
    return path


def ask(path: Path, *words: str):
    return CliRunner().invoke(app, [*words, "--table", f"visits={path}", *PAID])


def test_a_misspelt_column_ends_with_the_corrected_statement(visits: Path):
    """The refusal ended with a command that asked the misspelt statement again, with options that were saved."""
    message = str(ask(visits, "sql", "SELECT carier, COUNT(*) AS n FROM visits GROUP BY carier").exception)
    written = message.partition("; write: ")[2]
    assert written == "SELECT carrier, COUNT(*) AS n FROM visits GROUP BY carrier"
    assert "another file" not in message
    assert ask(visits, "sql", written).exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("histogram", "--item", "carier", "--user", "user"),
        ("count", "--where", "carier = 'A'", "--user", "user"),
        ("count", "--user", "users"),
    ],
)
def test_a_misspelt_column_of_another_command_ends_with_the_corrected_command(
    words: tuple[str, ...], visits: Path, setwise: Command
):
    refused = setwise(words[0], str(visits), *words[1:], "--epsilon", "9", "--delta", "0.001")
    command = refused.stderr.partition("ask again with: setwise ")[2]
    assert command, refused.stderr
    assert "another file" not in refused.stderr
    assert setwise(*shlex.split(command)).returncode == 0


CORRECTED = {
    "SELECT COUNT(*) AS n FROM visits WHERE member = 'yes'": "member = TRUE",
    "SELECT COUNT(*) AS n FROM visits WHERE member IN ('no')": "member IN (FALSE)",
    "SELECT COUNTIF(member = 'Y') AS n FROM visits": "member = TRUE",
    "SELECT COUNT(*) AS n FROM visits WHERE month = 'June'": "month = 6",
    "SELECT COUNT(*) AS n FROM visits WHERE '4' < month": "4 < month",
    "SELECT COUNT(*) AS n FROM visits WHERE month BETWEEN '2' AND '4'": "month BETWEEN 2 AND 4",
    "SELECT DATE_TRUNC('month', time) AS m, COUNT(*) AS n FROM visits GROUP BY 1": "TO_TIMESTAMP(time)",
    "SELECT EXTRACT(YEAR FROM time) AS y, COUNT(*) AS n FROM visits GROUP BY 1": "TO_TIMESTAMP(time)",
}
"""Statements that take a column for another type than it has, and a part of the statement to write instead."""


@pytest.mark.parametrize("text", CORRECTED)
def test_a_constant_of_another_type_is_refused_with_the_statement_that_fits(text: str, visits: Path):
    """The refusal said to convert one of them, or that a column of dates is needed, and no statement."""
    message = str(ask(visits, "sql", text).exception)
    command = message.partition("ask again with: setwise ")[2]  # numbers that look like times have a whole command
    written = shlex.split(command)[1] if command else message.partition("write: ")[2]
    assert CORRECTED[text] in written
    assert ask(visits, "sql", written).exit_code == 0


def test_a_session_names_the_statement_that_fits_too():
    months = pa.table({"user": [*range(400)], "month": [user % 12 + 1 for user in range(400)]})
    with package.open(months, user="user", name="visits") as session:
        for text in ("SELECT COUNT(*) AS n FROM visits WHERE month = '6'",
                     "SELECT DATE_TRUNC('month', month) AS m, COUNT(*) AS n FROM visits GROUP BY 1"):  # fmt: skip
            with pytest.raises(package.errors.BadRequest, match="write: SELECT") as refused:
                session.sql(text, epsilon=9)
            assert session.sql(str(refused.value).partition("write: ")[2], epsilon=9, delta=1e-3) is not None


def test_a_constant_that_fits_no_value_of_the_type_has_no_statement(visits: Path):
    message = str(ask(visits, "sql", "SELECT COUNT(*) AS n FROM visits WHERE member = 'maybe'").exception)
    assert "cannot be compared" in message
    assert "write:" not in message


@pytest.mark.parametrize("path", ["data/visits.csv", "./data/visits.csv", "{folder}/data/visits.csv"])
def test_a_path_without_quotes_is_refused_with_the_path_in_quotes(
    path: str, visits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for file in tmp_path.glob("visits.*"):
        file.rename(tmp_path / "data" / file.name)
    text = f"SELECT COUNT(*) AS n FROM {path.format(folder=tmp_path)} WHERE month > 3"
    message = str(CliRunner().invoke(app, ["sql", text, *PAID]).exception)
    written = message.partition("; write: ")[2]
    assert f"'{path.format(folder=tmp_path)}'" in written
    assert CliRunner().invoke(app, ["sql", written, *PAID]).exit_code == 0


@pytest.mark.parametrize("words", [("sql", "SELECT city, COUNT(*) AS n FROM t GROUP BY city"), ("count",)])
def test_a_file_of_texts_without_a_header_is_refused_with_the_command_that_names_its_columns(
    words: tuple[str, ...], tmp_path: Path, setwise: Command
):
    """The refusal had nothing to paste, and spoke of columns of other files."""
    path = tmp_path / "towns.csv"
    path.write_text("".join(f"u{user % 200},{'Oslo' if user % 2 else 'Rome'},yes\n" for user in range(400)))
    table = [f"--table=t={path}"] if words[0] == "sql" else [str(path)]
    refused = setwise(*words, *table, "--user", "user", "--epsilon", "9")
    assert "another file" not in refused.stderr
    command = refused.stderr.partition("as in: setwise ")[2].partition(", if the first column")[0]
    named = [word.replace("column_2", "city") for word in shlex.split(command)]
    assert setwise(*named).returncode == 0
    assert setwise(*words, *table, "--user", "user", "--epsilon", "9").returncode == 0
