"""Five tasks of usability studies with Setwise and five peers at (1, 1e-6): lines of code, and error over some runs.

python benchmarks/everyday/compare.py [--json]       builds the pinned environments of the peers when they are missing

Every row of the table is one person, so that a library without users asks the same as one with. The error of a median
is in ranks (people between it and the exact one), of a histogram the mean over its 21 groups, of the others absolute.
"""

import json
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
from environments import PEERS, Built, build  # noqa: E402 - of the other comparison

TASKS = ("count", "mean", "median", "histogram", "left")
COMPARED = ("opendp", "diffprivlib", "smartnoise-sql", "pipelinedp", "tumult")


def run(name: str, python: Path) -> dict[str, dict[str, object]]:
    """Return what each task found, by the interpreter that has the library."""
    script = HERE / f"run_{name.replace('-', '_')}.py"
    done = subprocess.run([str(python), str(script)], capture_output=True, text=True, timeout=900, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not found:
        raise SystemExit(f"{name} did not run: {done.stderr[-300:]}")
    return {str(each["task"]): each for each in found}


def error(task: str, value: Any, truth: Mapping[str, list[Any]]) -> float:  # noqa: ANN401 - each task's own
    """Return how far off a value is."""
    match task:
        case "count":
            return abs(float(value) - float(sum(age >= 30 for age in truth["age"])))
        case "mean":
            return abs(float(value) - float(mean(truth["age"])))
        case "median":
            minutes, half = sorted(truth["minutes"]), len(truth["minutes"]) / 2
            return max(0.0, bisect_left(minutes, value) - half, half - bisect_right(minutes, value))
        case _:
            exact = Counter(truth["occupation"])
            return float(mean(abs(value.get(each, 0.0) - exact[each]) for each in people.OCCUPATIONS))


def compared() -> dict[str, dict[str, dict[str, object]]]:
    """Return lines and errors of every library and task."""
    people.write()
    truth = people.columns()
    found = {}
    for name in ("setwise", *COMPARED):
        built = None if name == "setwise" else build(next(peer for peer in PEERS if peer.name == name))
        if built is not None and not isinstance(built, Built):
            continue
        tasks = run(name, Path(sys.executable) if built is None else built.python)
        found[name] = {task: _summary(task, tasks[task], truth) for task in TASKS}
    return found


def _summary(task: str, line: Mapping[str, object], truth: Mapping[str, list[Any]]) -> dict[str, object]:
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
    heading = ["", "users over 30", "mean age", "median minutes", "21 groups", "what is left"]
    lines = [heading, ["---"] * len(heading)]
    lines += [[titles[name], *(_in_words(each[task]) for task in TASKS)] for name, each in results.items()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _in_words(found: Mapping[str, object]) -> str:
    if "cannot" in found:
        return "–"
    return f"{found['lines']} lines" + (f", off by {float(str(found['mean'])):.2g}" if "mean" in found else "")


if __name__ == "__main__":
    measured = compared()
    print(json.dumps(measured, indent=1) if "--json" in sys.argv else table(measured))
