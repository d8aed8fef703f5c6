"""The README cannot lie: its examples run, and its numbers are recomputed."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from setwise import compose
from setwise.accounting.methods.moments import subgaussian_sum
from setwise.cli.demo import make_events

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the table that `setwise demo --keep events.parquet` leaves behind."""
    place = tmp_path_factory.mktemp("readme")
    make_events(place / "events.parquet", seed=1)
    return place


def test_python_examples_print_what_they_say(folder, monkeypatch):
    monkeypatch.chdir(folder)
    source = "".join(text for language, text in BLOCKS if language == "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "README.md", "exec"), {})
    *promised, released = printed.getvalue().splitlines()
    assert promised == re.findall(r"print\(.*\)  # (.*)", source)
    assert released.endswith("] True")  # which labels come out is up to the noise


def test_commands_run_one_after_the_other(folder):
    commands = [
        line
        for language, text in BLOCKS
        if language == "sh"
        for line in text.splitlines()
        if line.startswith("setwise ")
    ]
    assert len(commands) > 10
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "setwise.cli.main", *shlex.split(command)[1:]],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env={**os.environ, "COLUMNS": "100"},
        )
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout.strip()


def test_pages_named_exist():
    for page in re.findall(r"`((?:docs|benchmarks)/[\w./-]*)`", README):
        assert (ROOT / page).exists(), page


@pytest.mark.parametrize(
    "row", re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", README, re.MULTILINE)
)
def test_table_of_gains(row):
    count = int(row[0])
    half = [f"pure:0.1x{count // 2}", f"bounded-range:0.1x{count // 2}"]
    found = [
        subgaussian_sum(compose(half).uses).paper_epsilon(1e-6),
        compose(half).epsilon(1e-6).upper,
        compose(half, "batch").epsilon(1e-6).upper,
        compose([f"pure:0.1x{count}"]).epsilon(1e-6).upper,
    ]
    assert [float(value) for value in row[1:]] == pytest.approx(found, abs=1.01e-3)


def test_published_deployment():
    whole = compose(["bounded-range:0.15x3000"])
    quick, narrow = re.findall(r"\[([\d.]+), ([\d.]+)\]", README)
    for (lower, upper), answer in ((quick, whole.epsilon(1e-9)), (narrow, whole.epsilon(1e-9, width=2e-4))):
        assert float(lower) <= answer.lower <= answer.upper <= float(upper)
    assert float(quick[1]) <= 32.46


def test_every_make_target_named_exists():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`?make (\w+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
