"""The outputs and times of `docs/guides/first-tasks.md`: run every command of the page and write what it said below it.

python website/first_tasks.py
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "first-tasks.md"
_TASK = re.compile(
    r"^```sh\n(?P<code>.*?)^```\n(?P<shown>\n```text\n.*?^```\n(\n\*[\d.]+ seconds\.\*\n)?)?", re.MULTILINE | re.DOTALL
)
_SETUP = 2
"""Blocks before the tasks."""
_SHOWN = 3
"""Lines of an answer that the page shows."""
_WIDTH = "96"


def tasks(page: str) -> list[tuple[str, str]]:
    """Return the commands of the page, in order, each with the output that the page shows ("" for those before)."""
    found = []
    for match in _TASK.finditer(page):
        shown = match["shown"] or ""
        found.append((match["code"], "".join(re.findall(r"```text\n(.*?)```", shown, flags=re.DOTALL))))
    return found


def run(code: str, folder: Path) -> str:
    """Return the first lines of what a command prints."""
    command = folder / "bin" / "setwise"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m setwise "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S603 - the page's own commands
        ["/bin/bash", "-euo", "pipefail", "-c", code],
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": _WIDTH},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{code}\n{done.stderr}")
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    return "\n".join(lines[:_SHOWN]) + ("\n...\n" if len(lines) > _SHOWN else "\n")


def main() -> None:
    """Write the page anew."""
    page = PAGE.read_text(encoding="utf-8")
    place = 0

    def answered(match: re.Match[str]) -> str:
        nonlocal place
        place += 1
        before = os.times()
        said = run(match["code"], folder)
        after = os.times()
        took = after.children_user + after.children_system - before.children_user - before.children_system
        shown = "" if place <= _SETUP else f"\n```text\n{said}```\n\n*{took:.1f} seconds.*\n"
        return f"```sh\n{match['code']}```\n{shown}"

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        PAGE.write_text(_TASK.sub(answered, page), encoding="utf-8")


if __name__ == "__main__":
    main()
