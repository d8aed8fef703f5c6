"""SUM(debit - credit) is null on each line of a bank statement, which the holder is told before the charge."""

import shlex
from pathlib import Path

import pytest
from tests.command_line import setwise  # noqa: F401 - a fixture

import setwise as package
from setwise.analytics.schema import Column, Kind, Schema
from setwise.analytics.sql.parser import parse_sql
from setwise.analytics.sql.statement_reader import TableFacts
from setwise.errors import UnsuitableTable

PAID = ("--user", "who", "--epsilon", "90")
DIFFERENCE = "SELECT SUM(Debit - Credit, contribution_bounds_per_group => (-300, 300)) AS n FROM t"


def table(path: Path, cells: str, every: int = 1) -> Path:
    """Write 300 rows with `cells` in turn; a row that is no multiple of `every` has both cells."""
    lines = (f"u{row},{'30,' if row % 2 else ',10'}" if row % every == 0 else f"u{row},30,10" for row in range(300))
    path.write_text(f"who,{cells}\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    "text",
    [
        DIFFERENCE,
        'SELECT SUM(debit-"Credit", contribution_bounds_per_group => (-300, 300)) AS n FROM t',
        "SELECT SUM(t.Debit\t-\tt.Credit, contribution_bounds_per_group => (-300, 300)) AS n FROM t WHERE 1 = 1",
    ],
)
def test_a_bank_statement_is_refused_and_asked_by_the_command_of_the_refusal(setwise, text, tmp_path):  # noqa: F811
    """The sum was 0 or near it, and nothing said that each difference was null."""
    refused = setwise("sql", text, "--table", f"t={table(tmp_path / 'bank.csv', 'Debit,Credit')}", *PAID)
    assert refused.returncode == 2
    assert "bank.csv: in 300 of 300 rows one of " in refused.stderr
    assert "nothing was charged (--no-scan asks anyway)" in refused.stderr
    done = setwise(*shlex.split(refused.stderr.partition("ask again with: setwise ")[2]), "--csv")
    assert done.returncode == 0, done.stderr
    assert 2900 < float(done.stdout.splitlines()[1].split(",")[0]) < 3100  # 150 times 30 less 150 times 10


@pytest.mark.parametrize(("every", "more"), [(4, []), (1, ["--explain"]), (1, ["--no-scan"])])
def test_a_few_rows_are_a_note_and_a_preview_is_not_refused(setwise, every, more, tmp_path):  # noqa: F811
    path = table(tmp_path / "bank.csv", "Debit,Credit", every)
    done = setwise("sql", DIFFERENCE, "--table", f"t={path}", *PAID, *more)
    assert done.returncode == 0, done.stderr
    rows = 300 // every
    expected = f"note: bank.csv: in {rows} of 300 rows one of Debit and Credit is empty, so that Debit - Credit is null"
    assert (expected in done.stderr) == ("--no-scan" not in more)
    if "--explain" not in more:
        assert "Rows in which one of Debit and Credit is null are left out of Debit - Credit" in " ".join(
            done.stdout.split()
        )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT SUM(COALESCE(Debit, 0) - COALESCE(Credit, 0)) AS n FROM t",
        "SELECT SUM(Debit - Credit) AS n FROM t WHERE Debit IS NOT NULL AND Credit IS NOT NULL",
        "SELECT SUM(Debit * Credit) AS n FROM t",
        "SELECT SUM(Debit + 1) AS n FROM t",
        "SELECT SUM(Debit + Debit) AS n FROM t",
        "SELECT n - m AS d FROM (SELECT SUM(Debit) AS n, SUM(Credit) AS m FROM t) AS s",
        "WITH s AS (SELECT SUM(Debit) AS n, SUM(Credit) AS m FROM t) SELECT n - m AS d FROM s",
    ],
)
def test_other_statements_have_no_note(text):
    assert parse_sql(text, user="who").null_sums == ()


def test_times_are_no_numbers_to_coalesce():
    columns = [Column(name="who", kind=Kind.INTEGER), *(Column(name=name, kind=Kind.TIMESTAMP) for name in "ab")]
    facts = TableFacts(schema_of=lambda *_: Schema(tuple(columns)))
    text = "SELECT COUNT(*) AS n FROM t WHERE a - b > INTERVAL '1 hour'"
    assert parse_sql(text, user="who", facts=facts).null_sums == ()


def test_an_answer_says_it_without_reading_a_row(tmp_path):
    """An analyst is told what the statement leaves out, whatever is in the table."""
    answers = []
    for every in (1, 300):
        path = table(tmp_path / f"bank{every}.csv", "Debit,Credit", every)
        with package.open(path, user="who", name="t", scan=False) as session:
            answers.append(session.sql(DIFFERENCE.replace("FROM t", f"FROM bank{every}"), epsilon=1).notes[-1])
    assert (
        answers
        == [
            "Rows in which one of Debit and Credit is null are left out of Debit - Credit; COALESCE(Debit, 0) - "
            "COALESCE(Credit, 0) counts a null as 0."
        ]
        * 2
    )


def test_a_session_of_the_holder_refuses_it_as_the_command_line_does(tmp_path):
    path = table(tmp_path / "bank.csv", "Debit,Credit")
    with (
        package.open(path, user="who") as session,
        pytest.raises(UnsuitableTable, match="in 300 of 300 rows one of Debit and Credit is empty"),
    ):
        session.sql(DIFFERENCE.replace("FROM t", "FROM bank"), epsilon=1)
