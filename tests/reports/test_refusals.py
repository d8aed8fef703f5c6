"""Refusals of a report name the question and speak of entries of the report; a second run says what it charged."""

import sys

import pytest

from setwise.cli.main import main
from tests.reports.conftest import REPORT


def call(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["setwise", "run", "weekly.toml", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    return ended.value.code, " ".join(printed.out.replace("│", " ").split()), printed.err


HISTOGRAM = '[[questions]]\nname = "months"\nkind = "count"\nitem = "page"\n'


@pytest.mark.parametrize("option", ["--preview", "--key=k1"])
def test_a_refusal_names_the_question_and_the_entry_that_mends_it(option, folder, monkeypatch, capsys):
    kind = HISTOGRAM.replace("count", "quantile") + 'value = "minutes"\nlow = 0\nhigh = 60\n'
    (folder / "weekly.toml").write_text(f"{REPORT}\n{kind}")
    code, _, err = call(monkeypatch, capsys, option)
    assert code == 2
    assert "question 'months': " in err
    assert 'add contributions = "auto", or list the groups with domain' in err
    assert "--" not in err
    assert "in SQL" not in err
    (folder / "weekly.toml").write_text(f'{REPORT}\n{kind}contributions = "auto"\n')
    assert call(monkeypatch, capsys, option)[0] == 0


@pytest.mark.parametrize(
    "entries",
    [
        'kind = "sum"\nvalue = "minutse"\n',
        'sql = "SELECT pages, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY pages"\n',
        'sql = "SELECT page FROM visits GROUP BY page, CUBE("\n',
        'kind = "count"\nper_user = 0\n',
    ],
)
def test_every_refusal_names_the_question(entries, folder, monkeypatch, capsys):
    (folder / "weekly.toml").write_text(f'{REPORT}\n[[questions]]\nname = "third"\n{entries}')
    code, _, err = call(monkeypatch, capsys, "--preview")
    assert code == 2
    assert "question 'third': " in err, err
    assert "--per-user" not in err


def test_a_second_run_says_that_nothing_was_charged(folder, monkeypatch, capsys):
    assert "nothing was charged" not in call(monkeypatch, capsys, "--key", "k1")[1]
    _, out, _ = call(monkeypatch, capsys, "--key", "k1")
    assert "nothing was charged now, and the answers stored under the key 'k1' are shown" in out
    assert "nothing was charged" not in call(monkeypatch, capsys, "--key", "k2")[1]


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("FROM people JOIN visits USING (user_id)", "FROM visits JOIN people USING (user_id)"),
        (
            "FROM people p JOIN visits v ON p.user_id = v.user_id",
            "FROM visits v JOIN people p ON p.user_id = v.user_id",
        ),
    ],
)
def test_a_join_that_begins_with_the_other_table_ends_with_the_statement(asked, written, folder, monkeypatch, capsys):
    """It said "'occupations' asks the table 'users', and the report is on 'u'", and no way out."""
    people = "user_id,city\n" + "".join(f"{user},c{user % 3}\n" for user in range(100))
    (folder / "people.csv").write_text(people)
    select = "SELECT city, COUNT(DISTINCT user_id) AS n {} GROUP BY city"
    text = REPORT.replace("epsilon = 1.0", 'private = {people = "people.csv"}\nepsilon = 1.0')
    question = '\n[[questions]]\nname = "cities"\nsql = "' + select.format(asked) + '"\n'
    if "p.user_id" in asked:
        question = question.replace("DISTINCT user_id", "DISTINCT v.user_id")
    (folder / "weekly.toml").write_text(text + question)
    code, _, err = call(monkeypatch, capsys, "--preview")
    assert code == 2
    assert written in err.partition("; write: ")[2], err
