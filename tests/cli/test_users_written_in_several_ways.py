"""Users 7, 7.0 and 00007 are one person: the holder is told where they are read as several."""

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


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_users_written_in_several_ways_are_told(way: str, tmp_path: Path):
    path = write(tmp_path, way)
    told = run("count", path, *ASKED)
    assert "note: visits.csv: cells of 'who' write 300 users in several ways" in told.stderr
    assert f"{TOLD}--type who=integer reads them as one" in told.stderr
    assert "several ways" not in told.stdout
    typed = run("count", path, *ASKED, "--type", "who=integer")
    assert typed.stderr == ""
    assert "300" in typed.stdout


def test_users_of_which_some_are_names_have_to_be_mended_in_the_file(tmp_path: Path):
    told = run("count", write(tmp_path, "{}.0", "ada", "bob"), *ASKED).stderr
    assert f"{TOLD}write each user in one way in the file" in told


def test_parquet_and_python_are_told_too(tmp_path: Path):
    path = tmp_path / "visits.parquet"
    pq.write_table(pa.table({"who": ["7", "7.0", "8"], "page": ["home"] * 3}), path)
    assert "cells of 'who' write 1 user in several ways, such as '7' and '7.0'" in run("count", path, *ASKED).stderr
    with setwise.open(path, user="who") as session, pytest.warns(setwise.UnreadCellsWarning, match="in several ways"):
        session.count(epsilon=1.0)


def test_codes_that_are_written_in_one_way_get_no_note(tmp_path: Path):
    path = tmp_path / "visits.csv"
    path.write_text("who,page\n" + "".join(f"{user:05},home\n" for user in range(300)))
    with setwise.open(path, user="who") as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        session.count(epsilon=1.0)
