"""Every peer on the same tasks, in one run: accuracy against the truth, time as a ratio to ours.

    python benchmarks/peers/run.py [--only PEER ...]

Builds the environments it lacks, writes results.json beside this file, and from it the tables of docs/comparison.md and
of the README. With --only, results of other peers are kept as they are.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import goodness
import mpmath
import page
import table
import truth
from environments import PEERS, Built, NotBuilt, Peer, build
from tasks import ACCOUNTING

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
_PATIENCE = 1800
"""Seconds one peer may take for all its tasks."""


def results(python: str, runner: str, exact: Counter[str]) -> dict[str, Any]:
    """Run one runner and return what it found, by task."""
    done = subprocess.run(
        [python, str(HERE / f"run_{runner}.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{runner} said nothing: {done.stderr.strip()[-500:]}")
    return {line.pop("task"): _measured(line, exact) for line in lines}


def _measured(line: dict[str, Any], exact: Counter[str]) -> dict[str, Any]:
    """Return the line with raw draws and releases replaced by what they amount to."""
    if "values" in line:
        values = line.pop("values")
        line |= {"goodness": goodness.p_value(values, line["law"]), "million": line["processor"] * 1e6 / line["draws"]}
    if "released" in line:
        line |= table.score(line.pop("released"), exact)
    return line


def peer_results(peer: Peer, exact: Counter[str]) -> dict[str, Any]:
    """Return one peer's entry: its version, and its tasks or the reason why there are none."""
    entry: dict[str, Any] = {"title": peer.title, "version": peer.version}
    match build(peer):
        case NotBuilt(reason=reason):
            return entry | {"not_installed": reason}
        case Built(python=python):
            return entry | {"tasks": results(str(python), peer.name.replace("-", "_"), exact)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", metavar="PEER", help="run these peers only, and Setwise")
    chosen = parser.parse_args().only
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"peers": {}}
    table.write()
    exact = table.users_per_item()
    found: dict[str, Any] = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "truth": {
            task.name: str(mpmath.nstr(value, truth.DIGITS)) for task in ACCOUNTING if (value := truth.epsilon(task))
        },
        "setwise": {"tasks": results(sys.executable, "setwise", exact)},
        "peers": known["peers"],
    }
    for peer in PEERS:
        if chosen is None or peer.name in chosen:
            print(peer.title, file=sys.stderr, flush=True)
            found["peers"][peer.name] = peer_results(peer, exact)
    RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    page.write(found)


if __name__ == "__main__":
    main()
