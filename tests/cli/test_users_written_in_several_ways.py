"""Users 7, 7.0 and 00007 are one person, and so are Ada and ada: where they are several, a question is refused."""

import json
import shlex
import subprocess
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import setwise
from setwise.cli.main import app

ASKED = ("--user", "who", "--epsilon", "90")
WAYS = {"decimals": "{}.0", "zeros": "{:05}"}
TOLD = "which count as two users, so that a person is protected less than promised: "


def run(*words: object):
    return CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)


def write(folder: Path, way: str, *others: str) -> Path:
    path = folder / "visits.csv"
    users = [str(user) for user in range(1, 301)] + [way.format(user) for user in range(1, 301)]
    path.write_text("who,page\n" + "".join(f"{user},home\n" for user in [*users, *others]))
    return path


def refusal(*words: object) -> str:
    done = CliRunner().invoke(app, [*map(str, words)])
    assert isinstance(done.exception, setwise.SetwiseError), done.output
    assert done.stdout == ""
    return str(done.exception)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_users_written_in_several_ways_are_refused_until_they_are_read_as_one(way: str, tmp_path: Path):
    """Each such person counted as two, under a promise that holds for one."""
    path = write(tmp_path, way)
    message = refusal("count", path, *ASKED)
    assert "visits.csv: cells of 'who' write 300 users in several ways" in message
    assert f"{TOLD}--type who=integer reads them as one" in message
    typed = run(*shlex.split(message.partition("or ask again with: setwise ")[2]))
    assert typed.stderr == ""
    assert "300" in typed.stdout
    assert run("count", path, *ASKED, "--no-scan").exit_code == 0
    assert "in several ways" in run("count", path, *ASKED, "--preview").stderr


@pytest.mark.parametrize(
    ("ways", "shown"),
    [(["ada", "Ada"], "'Ada' and 'ada'"), (["bob ", "bob"], "'bob' and 'bob '"), (["7.0", "ada"], "")],
)
def test_names_are_written_in_one_way_by_the_command(ways: list[str], shown: str, tmp_path: Path):
    """U1, u1 and "U1 " counted as three users, of which each was protected by itself."""
    path = write(tmp_path, "{}", *ways, "7", "\u00d6zg\u00fcr", "\u00f6zg\u00fcr", '"a, ""b"""')
    assert shown in refusal("count", path, *ASKED)
    message = refusal("count", path, *ASKED)
    assert f"{TOLD}a copy with all users in lower case and without blanks around them" in message
    first, *commands = message.partition("or ask the copy with: ")[2].split(" && ")
    subprocess.run(first, shell=True, check=True)
    asked = [run(*shlex.split(command.removeprefix("setwise "))) for command in commands]
    assert all(done.exit_code == 0 for done in asked)
    assert "several ways" not in asked[-1].stderr
    kept = {line.rpartition(",")[0] for line in path.with_name("visits.clean.csv").read_text("utf-8").splitlines()}
    others = {"\u00f6zg\u00fcr", '"a, ""b"""', "who"} | {way.strip().lower() for way in ways} - {"7.0"}
    assert kept == {str(user) for user in range(1, 301)} | others


def test_check_counts_users_under_the_options_that_it_prints(tmp_path: Path):
    path = tmp_path / "visits.csv"
    users = [*(f"{user:03}" for user in range(100)), *map(str, range(100)), "NULL", "N/A", "-"]
    path.write_text("who,page\n" + "".join(f"{user},home\n" for user in users))
    checked = json.loads(run("check", path, "--user", "who", "--json").stdout)
    assert checked["options"][-2:] == ["--type", "who=integer"]
    assert checked["users"] == 100


def test_parquet_and_python_are_refused_too(tmp_path: Path):
    path = tmp_path / "visits.parquet"
    pq.write_table(pa.table({"who": ["7", "7.0", "8"], "page": ["home"] * 3}), path)
    assert "cells of 'who' write 1 user in several ways, such as '7' and '7.0'" in refusal("count", path, *ASKED)
    with setwise.open(path, user="who") as session, pytest.raises(setwise.SetwiseError, match="in several ways"):
        session.count(epsilon=1.0)


def test_codes_that_are_written_in_one_way_get_no_note(tmp_path: Path):
    path = tmp_path / "visits.csv"
    path.write_text("who,page\n" + "".join(f"{user:05},home\n" for user in range(300)))
    with setwise.open(path, user="who") as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        session.count(epsilon=1.0)
