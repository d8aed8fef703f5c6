"""A command that proposes another one: the proposed command has all of its options, and asks the same."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.command_line import setwise  # noqa: F401 - a fixture
from typer.testing import CliRunner

from setwise.analytics.sql.parser import parse_sql
from setwise.cli import holder_notes
from setwise.cli.advice import running_command, time_advice
from setwise.cli.main import app

SAMPLES = {
    "value": "v",
    "where": "v > 0",
    "per_item": "30",
    "per_user": "30",
    "domain": "weeks.txt",
    "null_item": "none",
    "limit": "50",
    "delta": "0.001",
    "within": "900",
    "counts": "laplace",
    "mechanism": "unknown_laplace",
    "unit": "user",
    "contributions": "2",
    "types": "v=integer",
    "separator": ",",
    "quote": "double",
    "encoding": "utf-8",
    "columns": "who,ts,v",
    "skip_lines": "1",
    "format": "csv",
    "decimal": ".",
    "null": "NA",
    "thousands": ",",
    "date_format": "%Y-%m-%d",
    "memory": "1GiB",
    "account": "me",
    "dataset": "d",
    "key": "k",
    "ledger": "l.db",
    "plot": "p.png",
    "engine": "duckdb",
    "epsilon": "90",
}


TWICE = ("distinct", "value")
"""The option whose two columns are what the refused command is about."""


def run(*words: object):
    return CliRunner().invoke(app, [*map(str, words)])


def command(name: str) -> Any:
    group = typer.main.get_command(app)
    return group.get_command(group.make_context("setwise", [], resilient_parsing=True), name)


def optional(kind: str) -> dict[str, list[str]]:
    """Return, for each option of the command `kind` that may be left out, the words that give it."""
    words = {}
    for parameter in command(kind).params:
        if parameter.required or parameter.name in ("item", "table_name") or (kind, parameter.name) == TWICE:
            continue
        words[parameter.name] = [parameter.opts[0], *([] if parameter.is_flag else [SAMPLES[parameter.name]])]
    return words


def parsed(words: list[str]) -> dict[str, Any]:
    """Return the values of the command line `words`, read by the real parser, after its statement was read as well."""
    context = command(words[0]).make_context(words[0], words[1:])
    assert parse_sql(context.params["query"], user=context.params["user"]).cores
    return dict(context.params)


@pytest.mark.parametrize("name", sorted(optional("histogram")))
def test_every_option_of_a_histogram_of_seconds_is_one_of_the_command_in_sql(name: str):
    words = optional("histogram")[name]
    running_command.command_words.set(("histogram", "t.csv", "--user", "who", "--item", "ts by week", *words))
    advice = time_advice.ask_for_times("t.csv", "who", "TO_TIMESTAMP")
    values = parsed(shlex.split(advice.partition("ask again with: setwise ")[2]))
    assert values["tables"] == ["t=t.csv"]
    if name not in ("value", "where", "per_item", "null_item", "limit", "preview"):
        given = values[name][0] if isinstance(values[name], list) else values[name]
        assert str(given).removesuffix(".0") == SAMPLES.get(name, "True")


@pytest.mark.parametrize("name", sorted(optional("distinct")))
def test_every_option_of_a_distinct_count_of_two_columns_is_one_of_the_command_in_sql(name: str):
    words = optional("distinct")[name]
    asked = ("distinct", "t.csv", "--user", "who", "--item", "day", "--value", "a,b", *words)
    running_command.command_words.set(asked)
    message = str(holder_notes.SeveralValues(["a", "b"], "t.csv"))
    parsed(shlex.split(message.partition("ask again with: setwise ")[2]))
    assert ("; SQL counts several together, and finds --per-user itself: " in message) == (name == "per_user")


@pytest.mark.parametrize(
    ("more", "total"),
    [
        ([], 300),
        (["--per-item", "30"], 1200),
        (["--per-item=30", "--value", "v"], 2400),
        (["--per-item", "30", "--where", "v > 3"], 0),
        (["--per-item", "2", "--null-item", "none", "--limit", "50"], 600),
    ],
)
def test_a_histogram_of_seconds_is_asked_in_sql_with_its_bounds(more: list[str], total: int, tmp_path: Path):
    path = tmp_path / "ts.csv"
    rows = [f"u{user},{1767225600 + 604800 * (user % 3)},2" for user in range(300) for _ in range(4)]
    path.write_text("who,ts,v\n" + "\n".join(rows) + "\n")
    paid = ("--contributions", "1", "--epsilon", "90", "--delta", "0.001", "--json", "--type", "v=integer")
    asked = ("histogram", path, "--user", "who", "--item", "ts by week", *more, *paid)
    done = run(*shlex.split(str(run(*asked).exception).partition("ask again with: setwise ")[2]))
    assert done.exit_code == 0, (done.exception, done.output)
    numbers = [row["users" if "users" in row else "n"]["value"] for row in json.loads(done.stdout)["rows"]]
    assert sum(numbers) == pytest.approx(total, abs=20)


def table_of_ages(path: Path) -> Path:
    lines = (f"u{user % 900},{'ab'[user % 2]},{20 + user % 50}" for user in range(1800))
    path.write_text("who,page,age\n" + "\n".join(lines) + "\n")
    return path


def pasted(error: str) -> list[str]:
    """Return the words of the command with which the error message `error` ends."""
    return shlex.split(error.rpartition("; ask again with: setwise ")[2])


@pytest.mark.parametrize("within", ["3", "40"])
@pytest.mark.parametrize(
    "asked",
    [
        ["sql", "SELECT page, AVG(age) AS a FROM t GROUP BY page", "--table", "t={path}"],
        ["sql", "SELECT SUM(age) AS a FROM t", "--table=t={path}"],
        ["sql", "@{path}.sql", "--table=t={path}"],
        ["mean", "{path}", "--value", "age", "--item", "page"],
        ["sum", "{path}", "--value", "age", "--bounds=auto"],
        ["histogram", "{path}", "--item", "page"],
        ["distinct", "{path}", "--value", "age"],
        ["stddev", "{path}", "--value", "age"],
        ["quantile", "{path}", "--value", "age", "--bounds", "auto"],
    ],
)
def test_a_refused_accuracy_ends_with_a_command_that_is_answered(setwise, asked, within, tmp_path):  # noqa: F811
    """It asked for bounds in several notations, and had no command to paste."""
    path = table_of_ages(tmp_path / "ages.csv")
    (tmp_path / "ages.csv.sql").write_text("SELECT AVG(age) AS a FROM t")
    words = [word.format(path=path) for word in asked]
    refused = setwise(*words, "--user", "who", "--within", within)
    assert refused.returncode == 2
    assert "to be replaced by what is known of the table" in refused.stderr
    assert setwise(*pasted(refused.stderr), "--preview" if words[0] != "sql" else "--explain").returncode == 0
    done = setwise(*pasted(refused.stderr))
    assert (done.returncode, "numbers" in done.stdout) == (0, True), done.stderr
