"""The command line for tests: in this process, which saves its start, or as a process of its own."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from setwise.cli.main import main

Done = subprocess.CompletedProcess[str]


@pytest.fixture
def setwise(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run a command in this process: its words, and environment variables by name."""

    def run(*words: object, **environment: str) -> Done:
        with monkeypatch.context() as during:
            during.setattr(sys, "argv", ["setwise", *map(str, words)])
            for name, value in {"COLUMNS": "120", **environment}.items():
                during.setenv(name, value)
            with pytest.raises(SystemExit) as left:
                main()
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(words, int(str(left.value.code)), out, err)

    return run


def process(*words: object) -> Done:
    """Run a command as a process of its own."""
    command = [sys.executable, "-m", "setwise.cli.main", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
