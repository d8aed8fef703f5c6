"""Tables of 400 users in four cities, questions about them, and the commands that refusals propose to paste."""

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command_line import Done

USERS = range(400)
CITIES = ("Oslo", "Paris", "Bergen", "Rome")
COUNTS = dict.fromkeys(CITIES, 100)
PAID = ("--user", "user", "--epsilon", "90", "--delta", "0.001", "--json")
Command = Callable[..., Done]


def table(row: Callable[[int], str], header: str = "user,city,amount", end: str = "\n") -> str:
    """Return a file with a row for each of 400 users, of which `row` returns all but the user."""
    return end.join([header, *(f"u{user},{row(user)}" for user in USERS)]) + end


def plain(user: int) -> str:
    return f"{CITIES[user % 4]},{user % 50}"


def statement(path: Path) -> str:
    return f"SELECT city, COUNT(*) AS n, AVG(amount) AS mean FROM '{path}' GROUP BY city"


def ask(setwise: Command, path: Path, *words: str) -> Done:
    return setwise("sql", statement(path), *PAID, *words)


def pasted(setwise: Command, refused: Done) -> Done:
    """Run the command with which a refusal says to ask again, or to ask a copy, as it stands."""
    message = " ".join(refused.stderr.split())
    _, found, copy = message.partition("ask the copy with: ")
    if not found:
        _, found, command = message.partition("ask again with: setwise ")
        assert found, message
        return setwise(*shlex.split(command))
    mending, *commands = copy.split(" && setwise ")
    subprocess.run(mending, shell=True, check=True, timeout=60)
    return [setwise(*shlex.split(command)) for command in commands][-1]


def counts(done: Done) -> dict[str, float]:
    """Return the released number of rows of each city."""
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout[done.stdout.find('{"') :])["rows"]
    return {row["city"]: row["n"]["value"] for row in rows}


def assert_counts(done: Done) -> None:
    """Check the released counts against the true ones; noise beyond 20 has a chance below 1e-9."""
    assert counts(done) == pytest.approx(COUNTS, abs=20)
