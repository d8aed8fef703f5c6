"""`setwise demo` runs and tells the story in order: batch, then set-wise, then looser bounds."""

import re
import subprocess
import sys


def test_demo():
    done = subprocess.run(
        [sys.executable, "-m", "setwise.cli.main", "demo"], capture_output=True, text=True, check=True
    )
    rows = [
        tuple(map(float, found))
        for found in re.findall(r"│\s+([\d.]+) │\s+([\d.]+) │\s+([\d.]+) │\s+([\d.]+) │", done.stdout)
    ]
    assert len(rows) == 5
    for batch, setwise, paper, on_the_fly in rows:
        assert batch <= setwise < min(paper, on_the_fly)
