"""Every peer on the same tasks, in one run: accuracy against the truth, time as a ratio to ours.

    python benchmarks/peers/run.py [--only PEER ...] [--task TASK ...]

Builds the environments it lacks, writes results.json beside this file, and from it the tables of docs/comparison.md and
of the README. With --only, results of other peers are kept as they are; with --task, those of other tasks. A histogram
is asked of every peer at its default setting (task `histogram`) and at its other documented settings for the same
promise (tasks `histogram-SETTING`); the tables show the setting that finds the most items, and the default beside it.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
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
_PATIENCE = 3600
"""Seconds one peer may take for all its tasks."""


def results(python: str, runner: str, exact: Counter[str], tasks: Sequence[str]) -> dict[str, Any]:
    """Run the named tasks, or all, of one runner and return what it found, by task."""
    done = subprocess.run(
        [python, str(HERE / f"run_{runner}.py"), *tasks],
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


def peer_results(peer: Peer, exact: Counter[str], tasks: Sequence[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return one peer's entry: its version, and its tasks or the reason why there are none.

    Of the tasks that are not run, the entry has the results in `known`.
    """
    entry: dict[str, Any] = {"title": peer.title, "version": peer.version}
    match build(peer):
        case NotBuilt(reason=reason):
            return entry | {"not_installed": reason}
        case Built(python=python):
            found = results(str(python), peer.name.replace("-", "_"), exact, tasks)
            return entry | {"tasks": (known.get("tasks", {}) if tasks else {}) | found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", metavar="PEER", help="run these peers only, and Setwise")
    parser.add_argument("--task", nargs="*", default=[], metavar="TASK", help="run these tasks only")
    asked = parser.parse_args()
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"setwise": {"tasks": {}}, "peers": {}}
    table.write()
    exact = table.users_per_item()
    ours = results(sys.executable, "setwise", exact, asked.task)
    found: dict[str, Any] = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "truth": {
            task.name: str(mpmath.nstr(value, truth.DIGITS)) for task in ACCOUNTING if (value := truth.epsilon(task))
        },
        "setwise": {"tasks": (known["setwise"]["tasks"] if asked.task else {}) | ours},
        "peers": known["peers"],
    }
    for peer in PEERS:
        if asked.only is None or peer.name in asked.only:
            print(peer.title, file=sys.stderr, flush=True)
            found["peers"][peer.name] = peer_results(peer, exact, asked.task, known["peers"].get(peer.name, {}))
    RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    page.write(found)


if __name__ == "__main__":
    main()
