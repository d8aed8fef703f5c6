"""Five tasks of usability studies and quartiles, with Setwise and five peers at (1, 1e-6): lines of code, and errors.

    python benchmarks/everyday/compare.py [--only LIBRARY ...]

Builds the environments it lacks, writes results.json beside this file after each library, and from it the table of
docs/comparison.md. With --only, results of other libraries are kept as they are.

Every row of the table is one person, so that a library without users asks the same as one with. The error of a median
is in ranks (people between it and the exact one), of a histogram the mean over its 21 groups, of the others absolute.
A peer runs at its default and at its other settings for the same promise; the table has the default, and a better one.
"""

import argparse
import json
import re
import subprocess
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, median
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "peers")]

import people  # noqa: E402 - beside this file
from environments import PEERS, Built, NotBuilt, build  # noqa: E402 - of the other comparison

TASKS = ("count", "mean", "median", "quartiles", "histogram", "left")
COMPARED = ("setwise", "opendp", "diffprivlib", "smartnoise-sql", "pipelinedp", "tumult")
RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs" / "comparison.md"
_TABLE = re.compile(r"<!-- everyday -->.*?<!-- end of everyday -->", re.DOTALL)
_DEFAULT = "default"
_PATIENCE = 1800
"""Seconds a library may take for its tasks; those it has not done by then count as failed."""


def run(name: str, python: Path) -> dict[str, dict[str, dict[str, object]]]:
    """Return what each task found at each setting of a library, by the interpreter that has it.

    The keys are settings, of which every library has "default", and then tasks.
    """
    command = [str(python), str(HERE / f"run_{name.replace('-', '_')}.py")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
        said, reason = done.stdout, done.stderr.strip()[-300:]
    except subprocess.TimeoutExpired as late:
        said, reason = (late.stdout or b"").decode(), f"not done after {_PATIENCE} seconds"
    found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    if not found:
        raise SystemExit(f"{name} did not run: {reason}")
    settings: dict[str, dict[str, dict[str, object]]] = {_DEFAULT: {task: {"failed": reason} for task in TASKS}}
    for each in found:
        settings.setdefault(str(each["setting"]), {})[str(each["task"])] = each
    return settings


def error(task: str, value: Any, truth: Mapping[str, list[Any]]) -> float:  # noqa: ANN401 - each task's own
    """Return how far off a value is."""
    match task:
        case "count":
            return abs(float(value) - float(sum(age >= 30 for age in truth["age"])))
        case "mean":
            return abs(float(value) - float(mean(truth["age"])))
        case "median":
            return _ranks_off(sorted(truth["minutes"]), 0.5, value)
        case "quartiles":
            minutes = sorted(truth["minutes"])
            return mean(_ranks_off(minutes, share, each) for share, each in zip((0.25, 0.5, 0.75), value, strict=True))
        case _:
            exact = Counter(truth["occupation"])
            return float(mean(abs(value.get(each, 0.0) - exact[each]) for each in people.OCCUPATIONS))


def _ranks_off(values: list[Any], share: float, value: float) -> float:
    """Return how many values are between one and a quantile of them."""
    rank = share * len(values)
    return max(0.0, bisect_left(values, value) - rank, rank - bisect_right(values, value))


def measured(name: str) -> dict[str, dict[str, Any]]:
    """Return lines and errors of one library, by task: at its default, and the mean errors at its other settings."""
    people.write()
    python = Path(sys.executable)
    if name != "setwise":
        match build(next(peer for peer in PEERS if peer.name == name)):
            case Built(python=python):
                pass
            case NotBuilt(reason=reason):
                return {task: {"cannot": f"not installed: {reason}"} for task in TASKS}
    settings, truth = run(name, python), people.columns()
    summaries = {
        setting: {task: _summary(task, line, truth) for task, line in tasks.items()}
        for setting, tasks in settings.items()
    }
    results = summaries.pop(_DEFAULT)
    for setting, tasks in summaries.items():
        for task, summary in tasks.items():
            results[task].setdefault("others", {})[setting] = summary.get("mean")
    return {task: results[task] for task in TASKS}


def _summary(task: str, line: Mapping[str, object], truth: Mapping[str, list[Any]]) -> dict[str, Any]:
    if "values" not in line:
        return {"cannot": line.get("unsupported") or line.get("failed")}
    values = line["values"]
    assert isinstance(values, list)
    if task == "left":
        return {"lines": line["lines"], "left": values[0]}
    errors = [error(task, value, truth) for value in values]
    return {"lines": line["lines"], "runs": len(errors), "mean": mean(errors), "median": median(errors)}


def table(results: Mapping[str, Mapping[str, Mapping[str, object]]]) -> str:
    """Return the results as the table of docs/comparison.md: lines of code, and the mean error."""
    titles = {"setwise": "Setwise"} | {peer.name: peer.title for peer in PEERS}
    heading = ["", "users over 30", "mean age", "median minutes", "quartiles", "21 groups"]
    compared = [task for task in TASKS if task != "left"]  # the remaining budget has no error to compare
    rows = [[titles[name], *(_in_words(each[task]) for task in compared)] for name, each in results.items()]
    top, *below = [f"| {' | '.join(cells)} |" for cells in (heading, *rows)]
    return "\n".join([top, "|" + "---|" * len(heading), *below])


def _in_words(found: Mapping[str, Any]) -> str:
    """Return a cell of the table: lines and mean error at the default, and a smaller error with its setting."""
    if "cannot" in found:
        return "–"
    text = f"{found['lines']} lines" + (f", ±{float(str(found['mean'])):.2g}" if "mean" in found else "")
    better = {name: value for name, value in found.get("others", {}).items() if value is not None}
    best = min(better, key=lambda name: better[name], default=None)
    if best is None or better[best] >= float(str(found["mean"])):
        return text
    return f"{text}; ±{better[best]:.2g} ({best})"


def filled(page: str, results: Mapping[str, Mapping[str, Mapping[str, object]]]) -> str:
    """Return the page with its table made anew."""
    return _TABLE.sub(f"<!-- everyday -->\n\n{table(results)}\n\n<!-- end of everyday -->", page)


def main() -> None:
    parser = argparse.ArgumentParser(description="Five everyday tasks with Setwise and five peers.")
    parser.add_argument("--only", nargs="+", choices=COMPARED, default=COMPARED, help="run these libraries only")
    results = json.loads(RESULTS.read_text())
    for name in parser.parse_args().only:
        results[name] = measured(name)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        print(f"{name}: {', '.join(_in_words(results[name][task]) for task in TASKS)}", flush=True)
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main()
