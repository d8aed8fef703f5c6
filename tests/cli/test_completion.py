"""The shell completes commands and options."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("setwise top", "top-k"),
        ("setwise top-k --eps", "--epsilon"),
        ("setwise ledger ver", "verify"),
        ("setwise top-k t --engine cl", "clickhouse://"),
    ],
)
def test_the_shell_completes(typed, completed):
    asked = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" ")), "_SETWISE_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-m", "setwise"], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [completed], done.stderr
