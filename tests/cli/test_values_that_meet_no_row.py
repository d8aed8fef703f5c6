"""Keys of a join that meet no row, and texts of a condition that no cell has, are told to the holder before the charge.

Each test asks by the command line or in Python; what a refusal or note says to paste is run, and has the true counts.
"""

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.command_line import Done
from tests.command_line import setwise as setwise_fixture  # noqa: F401

import setwise as package

Command = Callable[..., Done]
USERS = range(1, 301)
PAID = ("--user", "user", "--epsilon", "90", "--delta", "0.001", "--json")
BY_PLAN = "SELECT plan, COUNT(DISTINCT user) AS n FROM t JOIN p USING (user) GROUP BY plan"
BY_LABEL = "SELECT label, COUNT(*) AS n FROM t JOIN i USING (grp) GROUP BY label"


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """A file with one row for each of 300 users, who are in the groups a, b and c."""
    path = tmp_path / "events.csv"
    path.write_text("user,grp\n" + "".join(f"{user},{'abc'[user % 3]}\n" for user in USERS))
    return path


def plans(folder: Path, written: Callable[[int], str]) -> Path:
    path = folder / "plans.csv"
    path.write_text("user,plan\n" + "".join(f"{written(user)},{'free' if user % 2 else 'pro'}\n" for user in USERS))
    return path


def items(folder: Path, *keys: str) -> Path:
    path = folder / "items.csv"
    path.write_text("grp,label\n" + "".join(f"{key},Label{key.strip().upper()}\n" for key in keys))
    return path


def numbers(done: Done) -> dict[str, float]:
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout[done.stdout.find('{"') :])["rows"]
    return {next(iter(row.values())): row["n"]["value"] for row in rows}


def pasted(setwise: Command, refused: Done) -> Done:
    """Run the command with which a refusal says to ask again, or to ask copies, as it stands."""
    message = " ".join(refused.stderr.split())
    assert refused.returncode == 2, message
    assert "nothing was charged" in message
    copied = message.partition("or ask the copy with: ")[2]
    if copied:
        mending, _, question = copied.partition(" && setwise ")
        subprocess.run(mending, shell=True, check=True, timeout=60)
        return setwise(*shlex.split(question))
    return setwise(*shlex.split(message.partition("ask again with: setwise ")[2]))


@pytest.mark.parametrize("written", ["{:06}", "+{}", "{}.0"])
def test_users_of_two_files_that_are_one_number_are_joined_by_the_command_of_the_refusal(
    written: str, setwise: Command, tmp_path: Path, events: Path
):
    """Users 1 and 000001 were charged for, met nobody, and the empty answer spoke of a threshold."""
    words = ("--table", f"t={events}", "--table", f"p={plans(tmp_path, written.format)}")
    refused = setwise("sql", BY_PLAN, *words, *PAID)
    assert "300 users (in 300 rows) would be in the table 'p'" in " ".join(refused.stderr.split())
    assert numbers(pasted(setwise, refused)) == pytest.approx({"free": 150, "pro": 150}, abs=5)


@pytest.mark.parametrize("keys", [(" a", "b", "c "), ("A", "B", "c"), (" a", "B", "c"), ("a\u200b", "b", "c")])
def test_keys_that_meet_but_for_case_or_blanks_are_joined_in_the_copy_of_the_refusal(
    keys: tuple[str, ...], setwise: Command, tmp_path: Path, events: Path
):
    """Two thirds of the rows were left out without a word."""
    words = ("--table", f"t={events}", "--public", f"i={items(tmp_path, *keys)}")
    refused = setwise("sql", BY_LABEL, *words, *PAID)
    assert len(numbers(pasted(setwise, refused))) == 3


def test_users_written_in_two_cases_are_joined_in_copies_of_the_two_files(setwise: Command, tmp_path: Path):
    path = tmp_path / "visits.csv"
    path.write_text("user,grp\n" + "".join(f"U{user},a\n" for user in USERS))
    other = plans(tmp_path, lambda user: f" u{user}" if user % 2 else f"u{user}")
    (tmp_path / "plans.csv.toml").write_text('separator = ","\n')
    words = ("--table", f"t={path}", "--table", f"p={other}")
    answer = pasted(setwise, setwise("sql", BY_PLAN, *words, *PAID))
    assert numbers(answer) == pytest.approx({"free": 150, "pro": 150}, abs=5)


def test_a_join_that_no_key_meets_is_refused_and_asked_without_the_scan(setwise: Command, tmp_path: Path, events: Path):
    words = ("--table", f"t={events}", "--public", f"i={items(tmp_path, 'x', 'y')}")
    refused = setwise("sql", BY_LABEL, *words, *PAID)
    assert refused.returncode == 2
    assert "none of the 3 values of 'grp' is in the table 'i'" in " ".join(refused.stderr.split())
    assert setwise("sql", BY_LABEL, *words, *PAID, "--no-scan").returncode == 0
    assert setwise("sql", BY_LABEL.replace("JOIN", "LEFT JOIN"), *words, *PAID).returncode == 0
    assert setwise("sql", "SELECT COUNT(*) AS n FROM t WHERE grp IN (SELECT grp FROM i)", *words, *PAID).returncode == 0


def test_rows_that_a_join_leaves_out_are_counted_in_a_note_and_not_in_the_answer(
    setwise: Command, tmp_path: Path, events: Path
):
    words = ("--table", f"t={events}", "--public", f"i={items(tmp_path, 'a', 'b')}")
    done = setwise("sql", BY_LABEL, *words, *PAID)
    noted = " ".join(done.stderr.split())
    assert "2 of 3 values of 'grp' (in 200 of 300 rows) are in the table 'i'; all other rows are left out" in noted
    assert "left out" not in setwise("sql", BY_LABEL, *words, *PAID, "--no-scan").stderr
    whole = ("--table", f"t={events}", "--public", f"i={items(tmp_path, 'a', 'b', 'c')}")
    assert "in the table" not in setwise("sql", BY_LABEL, *whole, *PAID).stderr


CONDITIONS = {
    "grp = 'A'": "grp = 'a'",
    "grp = 'a '": "grp = 'a'",
    "'A' = t.grp": "grp = 'a'",
    "grp IN ('b', 'A')": "grp = 'a'",
    "grp = ' A'": "grp = 'a'",
}
"""Conditions with a text that no cell has, and the condition that the note says to write."""


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_text_that_no_cell_has_is_noted_with_the_spelling_of_the_cells(
    condition: str, setwise: Command, events: Path
):
    """The answer was empty or 0, and was charged without a note."""
    words = ("--table", f"t={events}")
    noted = " ".join(setwise("sql", f"SELECT COUNT(*) AS n FROM t WHERE {condition}", *words, *PAID).stderr.split())
    assert f"100 are 'a': write {CONDITIONS[condition]}" in noted
    mended = setwise("sql", f"SELECT 'all' AS g, COUNT(*) AS n FROM t WHERE {CONDITIONS[condition]}", *words, *PAID)
    assert numbers(mended) == pytest.approx({"all": 100}, abs=5)
    assert "no cell" not in mended.stderr
    counted = setwise("count", events, "--where", CONDITIONS[condition].upper().replace("GRP", "grp"), *PAID)
    assert "no cell of 'grp' is 'A'" in counted.stderr


def test_a_text_without_a_like_is_noted_with_the_most_frequent_cells(setwise: Command, events: Path):
    question = "SELECT COUNT(*) AS n FROM t WHERE grp = 'zz'"
    done = setwise("sql", question, "--table", f"t={events}", *PAID)
    assert "no cell of 'grp' is 'zz'; its most frequent cells are 'a', 'b', 'c'" in " ".join(done.stderr.split())
    assert "no cell" not in done.stdout
    upper = "SELECT n FROM (SELECT UPPER(grp) AS grp, COUNT(*) AS n FROM t GROUP BY 1) WHERE grp = 'A'"
    assert "no cell" not in setwise("sql", upper, "--table", f"t={events}", *PAID).stderr


def test_a_session_refuses_such_joins_and_warns_of_such_texts_until_an_agent_asks(tmp_path: Path, events: Path):
    private = {"p": plans(tmp_path, "{:06}".format)}
    budget = {"epsilon": 90, "delta": 1e-3}
    with package.open(events, user="user", name="t", private=private) as session:
        with pytest.raises(package.errors.UnsuitableTable, match=r"open\(\.\.\., types=.*p\.user"):
            session.sql(BY_PLAN, **budget)
        with pytest.raises(package.errors.UnsuitableTable, match="nothing was charged"):
            session.join("p", using="user").histogram(item="plan", **budget)
        with pytest.warns(package.UnreadCellsWarning, match="no cell of 'grp' is 'A'"):
            session.sql("SELECT COUNT(*) AS n FROM t WHERE grp = 'A'", **budget)
        session.stop_scan()
        assert len(session.sql(BY_PLAN, **budget)) == 0
    types = {"user": "integer", "p.user": "integer"}
    with package.open(events, user="user", name="t", private=private, types=types) as session:
        assert len(session.sql(BY_PLAN, **budget)) == 2


def test_texts_of_several_columns_are_looked_up(setwise: Command, tmp_path: Path):
    path = tmp_path / "visits.csv"
    path.write_text("user,city,plan\n" + "".join(f"{user},Oslo,free\n" for user in USERS))
    question = "SELECT COUNT(*) AS n FROM t WHERE city = 'oslo' AND plan = 'Free'"
    noted = " ".join(setwise("sql", question, "--table", f"t={path}", *PAID).stderr.split())
    assert "write city = 'Oslo'" in noted
    assert "write plan = 'free'" in noted
