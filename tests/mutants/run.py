"""Break each mechanism and each bound on purpose and show that the suite notices: every mutant must be killed.

python tests/mutants/run.py                  run them all; exit status 1 if one survives
python tests/mutants/run.py --write FILE     and write the table to FILE
python tests/mutants/run.py --only TEXT      run those with TEXT in their name
python tests/mutants/run.py --room ROOM      run those of mechanisms, analytics or accounting
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from accounting_mutants import MUTANTS as ACCOUNTING
from mechanism_mutants import MUTANTS as MECHANISMS
from mutant import Mutant
from series_mutants import MUTANTS as SERIES
from statistics_mutants import MUTANTS as STATISTICS

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = MECHANISMS + SERIES + STATISTICS + ACCOUNTING
TESTS = ROOT / "tests" / "mechanisms"
FASTEST_FIRST = (
    "recorder",
    "shared_noise",
    "intervals",
    "unknown_domain",
    "known_domain",
    "hot_parameters",
    "cut_points",
    "gumbel_order",
    "goodness_of_fit",
    "truncation_level",
)


def suite(mutant: Mutant | None) -> list[str]:
    """Return the test files: those named for the mutant, else all of mechanisms, those that kill quickest first."""
    if mutant is not None and mutant.tests:
        paths = (Path(name if "/" in name else f"{mutant.room}/{name}") for name in mutant.tests)
        return [str(ROOT / "tests" / path.parent / f"test_{path.name}.py") for path in paths]
    first = [TESTS / f"test_{name}.py" for name in FASTEST_FIRST]
    # The page lists the mutants; it must not be what kills them.
    rest = (path for path in sorted(TESTS.glob("test_*.py")) if path.name != "test_mechanisms_page.py")
    return [str(path) for path in [*first, *(path for path in rest if path not in first)]]


def killer(mutant: Mutant | None) -> str | None:
    """Return the first test that fails on the mutant, or None if it survives."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src" / "setwise", Path(folder) / "setwise")
        if mutant is not None:
            file = Path(folder) / "setwise" / mutant.room / mutant.file
            text = file.read_text(encoding="utf-8")
            if text.count(mutant.before) != 1:
                raise SystemExit(f"{mutant.name}: the text to change occurs {text.count(mutant.before)} times")
            file.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(ROOT),
            *suite(mutant),
        ]
        environment = os.environ | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1", "SETWISE_TESTS": "all"}
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) \S*/(test_\w+\.py(?:::\w+)?)", run.stdout, re.MULTILINE)
    if found is None:
        raise SystemExit(f"the suite could not run:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return found[1]


def main() -> int:
    """Run the suite on every mutant and print the table."""
    parser = argparse.ArgumentParser(description="Break each mechanism and bound on purpose; the suite must notice.")
    parser.add_argument("--write", type=Path, help="also write the table to this file")
    parser.add_argument("--only", default="", help="run only the mutants with this text in their name")
    parser.add_argument(
        "--room", choices=["mechanisms", "analytics", "accounting"], help="run only the mutants of this room"
    )
    arguments = parser.parse_args()
    chosen = [m for m in MUTANTS if arguments.only in m.name and arguments.room in (None, m.room)]
    lines = ["| mutant | file | killed by |", "|---|---|---|"]
    survivors = 0
    for mutant in chosen:
        start = time.perf_counter()
        test = killer(mutant)
        survivors += test is None
        verdict = f"`{test}`" if test else "**survived**"
        lines.append(f"| {mutant.name} | `{mutant.room}/{mutant.file}` | {verdict} |")
        print(f"{mutant.name:58}{test or 'SURVIVED':70}{time.perf_counter() - start:6.1f} s", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} killed")
    if arguments.write:
        title = (
            "# Mutants\n\nEach breaks one mechanism, one bound or one reading of SQL on purpose; "
            "the test named is the first to fail.\n\n"
        )
        arguments.write.write_text(title + "\n".join(lines) + "\n", encoding="utf-8")
    return 1 if survivors else 0


if __name__ == "__main__":
    raise SystemExit(main())
