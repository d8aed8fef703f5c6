"""The ten first tasks do what their page shows: every command runs on raw files, and prints what is below it."""

import contextlib
import re
import shlex
import sys

import pytest
from tests.docs.pages import ROOT
from typer.testing import CliRunner

sys.path.insert(0, str(ROOT / "website"))

from first_tasks import PAGE, run, tasks

from setwise.cli.main import app

TASKS = tasks(PAGE.read_text(encoding="utf-8"))


NOTES = ("numbers", "hint", "promise", "cost", "...")


def shape(output: str) -> list[str]:
    """Headings and notes in words, rows as what their cells are: noise changes numbers, order and lengths of bars."""
    lines, found = output.splitlines(), []
    for place, line in enumerate(lines):
        table = place > 0 and not line.startswith(NOTES) and not found[-1].startswith(NOTES)
        kinds = re.sub(r"(\S*\d\S*|[^\w\s']+)\s*", "# ", line) if table else line
        found.append(re.sub(r"(#|w)( \1)+", r"\1", re.sub(r"[^\W\d][\w']*", "w", kinds)) if table else kinds)
    return [re.sub(r"[\d.,]+", "#", " ".join(line.split())) for line in found]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of the page with their descriptions, made in this process: six commands would take as many starts."""
    place = tmp_path_factory.mktemp("tasks")
    with contextlib.chdir(place):
        for line in "".join(code for code, _ in TASKS[:2]).splitlines():
            told = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
            assert told.exit_code == 0, told.output
    return place


def test_there_are_ten_tasks_of_at_most_two_lines():
    page = PAGE.read_text(encoding="utf-8")
    assert len(re.findall(r"^## \d+\. ", page, flags=re.MULTILINE)) == 10
    assert all(len(code.replace("\\\n", "").splitlines()) <= 2 for code, _ in TASKS[2:])
    assert len(re.findall(r"^\*[\d.]+ seconds\.\*$", page, flags=re.MULTILINE)) == len(TASKS) - 2


QUICK = (3, 4)
"""Tasks that `make test` runs: a histogram, and means after a join."""


@pytest.mark.parametrize(
    "task", [pytest.param(task, marks=() if task in QUICK else pytest.mark.slow) for task in range(2, len(TASKS))]
)
def test_a_command_prints_what_the_page_shows(task: int, folder):
    code, shown = TASKS[task]
    assert shape(run(code, folder)) == shape(shown)
