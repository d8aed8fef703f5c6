"""The README cannot lie: its examples run, its output is what comes out, and its numbers are recomputed."""

import contextlib
import io
import math
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from setwise import compose
from setwise.accounting.methods.moments import subgaussian_sum
from setwise.cli import demo

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FOR_READERS = (ROOT / "docs" / "paper" / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
WIDTH = "96"
"""Of the terminal whose output is shown."""
EVENTS = 2_000_000
"""In the table, as in the README's: with fewer, an answer may list fewer titles, or list two in the other order."""
TRIES = 3
"""An answer in five hundred has two counts in the other order, and says so in one more line; three in turn do not."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table such as `setwise demo --keep events.parquet` leaves behind."""
    place = tmp_path_factory.mktemp("readme")
    demo.make_events(place / "events.parquet", seed=demo._SEED, events=EVENTS)
    return place


def run(command: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "setwise", *shlex.split(command)[1:]],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "COLUMNS": WIDTH},
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def shape(output: str) -> list[str]:
    """The words of the output, line by line; noise changes its numbers and the lengths of its bars.

    A sentence that is continued in the next line counts as one line: where it is broken depends on its numbers' digits.
    """
    whole = re.sub(r" *\n {9}(?=\S)", " ", output.strip())
    return [" ".join(re.sub(r"-?[\d.,]+|[█░]+", "#", line).split()) for line in whole.splitlines()]


def test_python_examples_print_what_they_say(folder, monkeypatch):
    monkeypatch.chdir(folder)
    source = "".join(text for language, text in BLOCKS if language == "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "README.md", "exec"), {})
    promised = re.findall(r"print\(.*\)  # (.*)", source)
    assert promised == printed.getvalue().splitlines()
    assert len(promised) == 2
    assert (folder / "answer.png").stat().st_size > 10_000


def test_the_output_shown_is_what_comes_out(folder):
    commands = [text.strip() for language, text in BLOCKS if language == "sh"]
    (shown,) = (text for language, text in BLOCKS if language == "text" and "promise" in text)
    tried = []
    while shape(shown) not in tried and len(tried) < TRIES:
        tried.append(shape(run(commands[0], folder)))
    assert tried[-1] == shape(shown)


def test_commands_run_one_after_the_other(folder, setwise, monkeypatch):
    monkeypatch.chdir(folder)
    commands = [line for language, text in BLOCKS if language == "sh" for line in text.splitlines()]
    assert len(commands) == 7
    for command in commands[1:]:
        program, *words = shlex.split(command)
        done = setwise(*words, COLUMNS=WIDTH)
        assert program == "setwise"
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout.strip()


def test_what_epsilon_means():
    """The factors, and what even odds become at most."""
    (paragraph,) = re.findall(r"## What epsilon means\n\n(.*?)\n\n", README, re.DOTALL)
    for epsilon, factor, sure in re.findall(r"epsilon = ([\d.]+) .*?is ([\d.]+)[,:].*?become ([\d.]+)%", paragraph):
        digits = len(factor.partition(".")[2])
        assert round(math.exp(float(epsilon)), digits) == float(factor)
        digits = len(sure.partition(".")[2])
        assert round(100 / (1 + math.exp(-float(epsilon))), digits) == float(sure)
    assert paragraph.count("epsilon = ") == 3


def test_gains_over_the_paper():
    ranges, pure, *stated = re.search(
        r"For (\d+) bounded-range and (\d+) pure uses of epsilon 0\.1 at delta = 1e-6 the paper's set-wise bound is "
        r"([\d.]+), the optimum ([\d.]+), and if everything is chosen up front ([\d.]+) ",
        FOR_READERS,
    ).groups()
    half = [f"bounded-range:0.1x{ranges}", f"pure:0.1x{pure}"]
    found = [
        subgaussian_sum(compose(half).uses).paper_epsilon(1e-6),
        compose(half).epsilon(1e-6).upper,
        compose(half, "batch").epsilon(1e-6).upper,
    ]
    assert [float(value) for value in stated] == pytest.approx(found, abs=1.01e-3)


def test_published_deployment():
    whole = compose(["bounded-range:0.15x3000"])
    quick, narrow = re.findall(r"\[([\d.]+), ([\d.]+)\]", FOR_READERS)
    for (lower, upper), answer in ((quick, whole.epsilon(1e-9)), (narrow, whole.epsilon(1e-9, width=2e-4))):
        assert float(lower) <= answer.lower <= answer.upper <= float(upper)
    assert float(quick[1]) <= 32.46


def test_every_make_target_named_exists():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`?make (\w+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_extra_that_people_install_is_named():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    install = README.partition("## Install")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", install))
    assert named == set(declared) - {"bench", "dev", "docs"}
