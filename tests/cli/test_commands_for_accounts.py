"""A refusal about an account or a ledger ends with a command that works when it is pasted, and shows no password."""

import re
import shlex
from pathlib import Path

import pytest
from tests.command_line import setwise  # noqa: F401 - a fixture

from setwise.cli import refusals
from setwise.cli.account_output import account_advice
from setwise.cli.refusals import with_proposed_command, with_usable_addresses, without_passwords
from setwise.ledger.ledger import Ledger, opening_command

SECRET = "postgresql://ada:s3cret@db.example/ledger?sslpassword=s3cret"


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    lines = (f"u{user % 900},{'ab'[user % 2]},{20 + user % 50}" for user in range(1800))
    path.write_text("who,page,age\n" + "\n".join(lines) + "\n")
    return path


def commands(error: str) -> list[list[str]]:
    """Return the words of each command in the error message `error`, without the name of the program."""
    return [shlex.split(part) for part in re.findall(r"setwise ((?:[a-z-]+ ).*?)(?=; ask again|\n|$)", error)[-2:]]


@pytest.mark.parametrize(
    "asked",
    [
        ["count", "{path}", "--epsilon", "0.8"],
        ["count", "{path}", "--epsilon=0.8", "--counts", "gaussian", "--delta", "1e-7"],
        ["count", "{path}", "--per-user", "5", "--within", "19"],
        ["histogram", "{path}", "--item", "page", "--epsilon", "0.8"],
        ["mean", "{path}", "--value", "age", "--item", "page", "--epsilon", "0.8"],
        ["sql", "SELECT page, AVG(age) AS a FROM t GROUP BY page", "--table", "t={path}", "--epsilon", "0.8"],
        [
            "sql",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.8, delta = 1e-7) COUNT(*) n FROM t GROUP BY page",
            "--table=t={path}",
        ],
        [
            "sql",
            "SELECT SUM(age, contribution_bounds_per_group => (0, 100)) n FROM t UNION ALL SELECT COUNT(*) FROM t",
            "--table=t={path}",
            "--epsilon=0.8",
        ],
    ],
)
@pytest.mark.parametrize("spent", [0.4, 0.7])
def test_the_command_that_an_account_can_pay_is_accepted_when_it_is_pasted(setwise, visits, asked, spent, tmp_path):  # noqa: F811
    """It said "it would fit with an epsilon of 0.1", and the analyst had to work out the rest."""
    paid = ("--user", "who", "--account", "ada", "--ledger", tmp_path / "l.db")
    assert setwise("ledger", "open", "ada", "--filter", "--epsilon", "1", "--delta", "1e-6", *paid[-2:]).returncode == 0
    assert setwise("count", visits, "--epsilon", spent, *paid).returncode == 0
    refused = setwise(*(word.format(path=visits) for word in asked), *paid)
    assert refused.returncode == 3
    assert "it would fit with" in refused.stderr
    (again,) = commands(refused.stderr)
    done = setwise(*again)
    assert done.returncode == 0, (again, done.stderr)


@pytest.mark.parametrize("dataset", ["", "visits"])
def test_an_empty_account_ends_with_commands_that_open_another_one_and_ask_it(setwise, visits, dataset, tmp_path):  # noqa: F811
    ledger = ("--ledger", str(tmp_path / "my ledger.db"))
    named = ("--dataset", dataset) if dataset else ()
    assert (
        setwise("ledger", "open", "ada", "--filter", "--epsilon", 2, "--delta", "1e-7", *named, *ledger).returncode == 0
    )
    paid = ("--user", "who", "--account", "ada", *ledger)
    assert setwise("count", visits, "--epsilon", 2, *paid).returncode == 0
    refused = setwise("count", visits, "--epsilon", 1, *paid)
    opening, again = commands(refused.stderr)
    assert opening[:3] == ["ledger", "open", "ada-2"]
    assert opening[3:8] == ["--filter", "--epsilon", "2", "--delta", "1e-07"]
    assert (setwise(*opening).returncode, setwise(*again).returncode) == (0, 0)


def test_an_unknown_account_is_opened_in_the_ledger_that_was_named(setwise, visits, tmp_path):  # noqa: F811
    ledger = tmp_path / "l.db"
    Ledger.open(str(ledger)).close()
    refused = setwise("count", visits, "--user", "who", "--epsilon", 1, "--account", "ada", "--ledger", ledger)
    (opening,) = commands(refused.stderr)
    assert opening[-2:] == ["--ledger", str(ledger)]
    assert setwise(*opening).returncode == 0
    assert opening_command("ada", "postgresql://ada@host/l").endswith(" --ledger postgresql://ada@host/l")


def test_no_password_stands_in_a_proposed_command(tmp_path):
    assert without_passwords(["--ledger", SECRET]) == ("--ledger", "postgresql://ada@db.example/ledger")
    assert without_passwords(["--engine=" + SECRET, "t=" + SECRET, "x = 'a://b:c@d'"]) == (
        "--engine=postgresql://ada@db.example/ledger",
        "t=postgresql://ada@db.example/ledger",
        "x = 'a://b:c@d'",
    )
    with Ledger.open(str(tmp_path / "l.db")) as ledger:
        advice = account_advice(ledger, "visits", SECRET)
    assert "s3cret" not in advice
    assert advice.endswith(" --ledger postgresql://ada@db.example/ledger")


def test_a_password_of_the_command_line_is_asked_for_again(setwise):  # noqa: F811
    done = setwise("count", "visits", "--user", "who", "--epsilon", 1, "--account", "ada", "--engine", SECRET)
    assert "s3cret" not in done.stderr
    token = refusals.command_words.set(without_passwords(["count", "t", "--ledger", SECRET]))
    left_out = refusals.password_left_out.set(True)
    try:
        message = with_usable_addresses(with_proposed_command("too little", {"epsilon": "0.1"}))
    finally:
        refusals.command_words.reset(token)
        refusals.password_left_out.reset(left_out)
    assert message == (
        "too little; ask again with: setwise count t --ledger postgresql://ada@db.example/ledger --epsilon 0.1 "
        "(with the password, which is not shown)"
    )


def test_a_ledger_of_the_environment_is_not_named_again(monkeypatch):
    message = f"there is no account; this makes one: {opening_command('ada', 'postgresql://ada@db.example/ledger')}"
    token = refusals.command_words.set(("count", "t", "--account", "ada"))
    refusals.password_left_out.set(False)
    try:
        assert with_usable_addresses(message) == message
        monkeypatch.setenv("SETWISE_LEDGER", SECRET)
        assert with_usable_addresses(message).endswith("--epsilon 1 --delta 1e-6")
    finally:
        refusals.command_words.reset(token)


@pytest.mark.parametrize(("spent", "proposed"), [(0, "1"), (0.6, "0.4")])
def test_a_question_without_an_epsilon_is_told_one_that_fits(setwise, visits, tmp_path, spent, proposed):  # noqa: F811
    """It said "say what to draw from the account: discover, counts, or both", which this account does not have."""
    paid = ("--user", "who", "--account", "ada", "--ledger", tmp_path / "l.db")
    assert setwise("ledger", "open", "ada", "--filter", "--epsilon", "1", "--delta", "1e-6", *paid[-2:]).returncode == 0
    if spent:
        assert setwise("count", visits, "--epsilon", spent, *paid).returncode == 0
    for asked in (["sql", "SELECT COUNT(*) AS n FROM t", "--table", f"t={visits}"], ["count", visits]):
        refused = setwise(*asked, *paid)
        assert refused.returncode == 2
        assert "discover" not in refused.stderr
        assert f"--epsilon {proposed}; ask again with: setwise {asked[0]} " in refused.stderr


def test_an_empty_account_of_a_year_names_what_stays_free_and_another_account(setwise, visits, tmp_path):  # noqa: F811
    """It ended with "cannot pay for this until year 2026 ends: nothing is left", and its bar still had a full block."""
    ledger = ("--ledger", tmp_path / "l.db")
    paid = ("--user", "who", "--account", "ada", "--epsilon", "1", *ledger)
    opening = ("ledger", "open", "ada", "--filter", "--epsilon", "1", "--delta", "1e-6", "--period", "year", *ledger)
    assert setwise(*opening).returncode == 0
    assert setwise("count", visits, *paid).returncode == 0
    refused = setwise("count", visits, *paid)
    assert refused.returncode == 3
    assert "answers stored under their keys stay free" in refused.stderr
    assert "setwise ledger open ada-2 --filter --epsilon 1 --delta 1e-06" in refused.stderr
    assert "--period year" in refused.stderr
    balance = setwise("ledger", "show", "ada", *ledger).stdout
    assert "epsilon 0 of 1 left" in balance
    assert not set("█#") & set(balance)
