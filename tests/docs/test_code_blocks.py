"""Every code block of the pages runs: one process a page, in a folder of its own, blocks in order."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import DOCS, PAGES, PRINTED, ROOT, Block, blocks, named

sys.path.insert(0, str(ROOT / "website"))

from notebook import NOTEBOOKS

import setwise

_PRELUDE = """
import subprocess as _subprocess
import sys as _sys

def _shows(expected, *values):
    said = " ".join(map(str, values))
    print(said)
    assert said == expected, f"the page says {expected!r}, the code {said!r}"

def _sh(script):
    _sys.stdout.flush()
    _subprocess.run(["bash", "-euo", "pipefail", "-c", script], check=True)
"""
_PATIENCE = 300


AS_NOTEBOOKS = {DOCS / page for page in NOTEBOOKS.values()}
"""Pages that are run as notebooks, by `test_notebooks.py`."""


def code_of(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.runs]


def script(page: list[Block]) -> str:
    """Return the page as one program; what a `print(...)  # comment` promises is checked."""
    parts = [_PRELUDE]
    for block in page:
        if block.language == "python":
            parts.append(PRINTED.sub(r"\g<indent>_shows(\g<expected>, \g<what>)", _quoted(block.code)))
        elif block.language == "sh":
            parts.append(f"_sh({block.code!r})\n")
    return "\n".join(parts)


def _quoted(code: str) -> str:
    return PRINTED.sub(lambda match: f"{match['indent']}print({match['what']})  # {match['expected']!r}", code)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_runs_or_says_why_not(page):
    assert [block.code for block in blocks(page) if block.fault] == [], {block.fault for block in blocks(page)}


SLOW_PAGES = {
    "analytics.md",
    "guides/a-years-budget.md",
    "guides/first-tasks.md",
    "guides/live-dashboard.md",
    "guides/reports.md",
    "guides/team-service.md",
    "paper/figures.md",
}
"""Pages that take more than a few seconds; that of Spark is slow as all of Spark is."""

RUN = [
    pytest.param(page, id=named(page), marks=[pytest.mark.slow] if str(page.relative_to(DOCS)) in SLOW_PAGES else [])
    for page in PAGES
    if page not in AS_NOTEBOOKS and code_of(page)
]


@pytest.mark.parametrize("page", RUN)
def test_the_blocks_of_a_page_run(page, tmp_path):
    code = script(blocks(page))
    if "spark" in page.stem:
        _needs_java()
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "setwise"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m setwise.cli.main "$@"\n')
    command.chmod(0o755)
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    where = tmp_path / "work"
    where.mkdir()
    said = tmp_path / "said"
    with said.open("w") as stream:
        running = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=where,
            env=_environment(tmp_path / "bin"),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        status = running.wait(timeout=_PATIENCE)
    finally:
        _end(running)
    assert status == 0, said.read_text()


def test_a_page_that_lies_is_caught():
    good, bad = Block("python", "print(1 + 1)  # 2\n", None), Block("python", "print(1 + 1)  # 3\n", None)
    assert _runs(script([good]))
    assert not _runs(script([bad]))
    assert not _runs(script([Block("sh", "false | true\n", None)]))
    assert Block("text", "setwise demo\n", None).fault
    assert Block("bash", "setwise demo\n", None).fault


def _runs(code: str) -> bool:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def _environment(commands: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SETWISE_")}
    source = str(Path(setwise.__file__).parents[1])  # wherever the tests have it from
    return kept | {
        "PATH": f"{commands}:{os.environ['PATH']}",
        "PYTHONPATH": source,
        "PYTHONWARNINGS": "ignore",
        "COLUMNS": "100",
    }


def _needs_java() -> None:
    if shutil.which("java") is None:
        reason = "Spark needs Java 17: install openjdk-17-jre-headless"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def _end(running: subprocess.Popen[bytes]) -> None:
    """End what the page has left running, and only that."""
    try:
        os.killpg(running.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    running.wait(timeout=10)
