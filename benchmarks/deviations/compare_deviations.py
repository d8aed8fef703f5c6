"""Errors of standard deviations and distinct counts with Setwise, Tumult Analytics and PipelineDP at (1, 1e-6).

    python benchmarks/deviations/compare_deviations.py [--environments FOLDER] [--only LIBRARY ...]

Builds the environments it lacks, writes results.json beside this file after each library, and from it the table of
benchmarks/README.md. Every peer runs at its default and at other documented settings for the same promise; the table
has the default and the setting with the smallest error. With --only, results of other libraries are kept as they are.

An error is the mean distance from the exact number over all rows, without any bound on a user's rows: in years of age,
in minutes, and in pages. For teams it is the mean over the 20 of them.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "peers")]

import visits  # noqa: E402 - beside this file
from environments import CACHE, PEERS, Built, NotBuilt, build  # noqa: E402 - of the other comparison

SETTINGS = {
    "setwise": ("default",),
    "tumult": ("default", "gaussian"),
    "pipelinedp": ("default", "gaussian", "default-pld", "gaussian-pld"),
}
RUNS = {"setwise": 100, "tumult": 5, "pipelinedp": 20}
TASKS = ("ages", "ages_by_team", "minutes", "pages")
RESULTS = HERE / "results.json"
PAGE = HERE.parent / "README.md"
_TABLE = re.compile(r"<!-- deviations -->.*?<!-- end of deviations -->", re.DOTALL)
_PATIENCE = 1800
"""Seconds that one setting of a library may take."""


def exact() -> dict[str, Any]:
    """Return the exact number of every task, over all rows."""
    teams: dict[str, list[int]] = defaultdict(list)
    for _, age, team in visits.people():
        teams[team].append(age)
    rows = visits.visits()
    return {
        "ages": pstdev(age for _, age, _ in visits.people()),
        "ages_by_team": {team: pstdev(ages) for team, ages in teams.items()},
        "minutes": pstdev(minutes for _, minutes, _ in rows),
        "pages": len({page for _, _, page in rows}),
    }


def error(value: Any, truth: Any) -> float:  # noqa: ANN401 - a number, or a number by team
    """Return the distance of a value from the truth, or the mean distance over the groups of both."""
    if isinstance(truth, dict):
        return float(mean(abs(value[group] - number) for group, number in truth.items()))
    return abs(float(value) - float(truth))


def measured(name: str, setting: str, python: Path) -> dict[str, dict[str, object]]:
    """Return the mean error of every task for one setting of a library, or why there is none."""
    command = [str(python), str(HERE / f"run_{name}.py"), str(RUNS[name]), setting]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    truth = exact()
    found: dict[str, dict[str, object]] = {}
    for line in (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")):
        task = line["task"]
        if "values" in line:
            errors = [error(value, truth[task]) for value in line["values"]]
            found[task] = {"runs": len(errors), "mean": mean(errors)}
        else:
            found[task] = {"cannot": line.get("unsupported") or line.get("failed")}
    if set(found) != set(TASKS):
        raise SystemExit(f"{name} {setting} did not run: {done.stderr.strip()[-300:]}")
    return found


def table(results: dict[str, dict[str, dict[str, dict[str, object]]]]) -> str:
    """Return the table of benchmarks/README.md: for each library its default, and where another is better its best."""
    titles = {"setwise": "Setwise"} | {peer.name: peer.title for peer in PEERS}
    lines = [["", "ages", "ages by team", "minutes, 10 rows of a user", "distinct pages, 10 of a user"], ["---"] * 5]
    for name, settings in results.items():
        cells = []
        for task in TASKS:
            errors = {setting: float(str(of[task]["mean"])) for setting, of in settings.items() if "mean" in of[task]}
            if not errors:
                cells.append("–")
                continue
            best = min(errors, key=lambda setting: errors[setting])
            cell = _short(errors["default"])
            cells.append(cell if best == "default" else f"{cell}; {_short(errors[best])} ({best})")
        lines.append([titles[name], *cells])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _short(number: float) -> str:
    """Return an error with two digits, or as a whole number from 100 on."""
    return f"{number:.2g}" if number < 100 else f"{number:.0f}"


def main() -> None:
    """Measure, and rewrite the results and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, default=CACHE, help="where the environments of peers are built")
    parser.add_argument("--only", nargs="*", choices=list(SETTINGS), default=list(SETTINGS))
    given = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in given.only:
        python = Path(sys.executable)
        if name != "setwise":
            match build(next(peer for peer in PEERS if peer.name == name), given.environments):
                case Built(python=python):
                    pass
                case NotBuilt(reason=reason):
                    raise SystemExit(f"{name} is not installed: {reason}")
        results[name] = {setting: measured(name, setting, python) for setting in SETTINGS[name]}
        ordered = {each: results[each] for each in SETTINGS if each in results}
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")
        print(table(ordered), flush=True)
    if results:
        ordered = {each: results[each] for each in SETTINGS if each in results}
        filled = f"<!-- deviations -->\n\n{table(ordered)}\n\n<!-- end of deviations -->"
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(_TABLE.sub(filled, page), encoding="utf-8")


if __name__ == "__main__":
    main()
