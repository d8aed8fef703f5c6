"""The tables of docs/comparison.md, of the README and of benchmarks/README.md, from the results of a run."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from tasks import ACCOUNTING, ON_THE_FLY

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "docs" / "comparison.md", ROOT / "README.md", ROOT / "benchmarks" / "README.md")
_TABLE = re.compile(r"<!-- table: (?P<name>\w+) -->.*?<!-- end of table -->", re.DOTALL)
_ACCOUNTANTS = ("dp-accounting", "prv-accountant", "opendp", "autodp", "smartnoise-sql", "diffprivlib")
_PICKERS = ("dp-accounting", "prv-accountant", "opendp", "autodp")
"""The accountants that have a bound for picks, or for sampled batches."""

_SAMPLERS = ("opendp", "pipelinedp", "tumult", "diffprivlib")
_FILTERS = ("opendp", "tumult")
_ENGINES = ("opendp", "pipelinedp", "smartnoise-sql", "tumult")
_SHORT = ("dp-accounting", "autodp", "opendp", "pipelinedp", "smartnoise-sql", "tumult")
"""Those in the README: every peer that answers one of its tasks."""


def write(results: Mapping[str, Any], pages: Sequence[Path] = PAGES) -> None:
    """Put the tables of these results into the pages."""
    for path in pages:
        path.write_text(filled(path.read_text(encoding="utf-8"), results), encoding="utf-8")


def filled(page: str, results: Mapping[str, Any]) -> str:
    """Return the page with every table made anew."""
    tables = {
        "peers": _peers,
        "accuracy": _accuracy,
        "excess": _excess_range,
        "picks": _picks,
        "time": _time,
        "fly": _on_the_fly,
        "noise": _noise,
        "histogram": _histogram,
        "short": _short,
    }

    def written(match: re.Match[str]) -> str:
        return f"<!-- table: {match['name']} -->\n\n{tables[match['name']](results)}\n\n<!-- end of table -->"

    return _TABLE.sub(written, page)


def _peers(results: Mapping[str, Any]) -> str:
    rows = [
        [peer["title"], peer["version"], peer.get("not_installed", "installs")] for peer in results["peers"].values()
    ]
    return _rows(["peer", "version", "here"], rows)


def _accuracy(results: Mapping[str, Any]) -> str:
    rows = []
    for task in ACCOUNTING:
        exact = results["truth"].get(task.name)
        if exact is not None:
            cells = [_excess(found, exact) for found in _found(results, task.name, _ACCOUNTANTS)]
            rows.append([task.title, f"{Decimal(exact):.10f}", *cells])
    return _rows(["task", "truth", "Setwise", *_titles(results, _ACCOUNTANTS)], rows)


def _excess_range(results: Mapping[str, Any]) -> str:
    """Return a row for each accountant: how many of the tasks it can do, and its least and its largest excess."""
    tasks = [task.name for task in ACCOUNTING if task.name in results["truth"]]
    rows = []
    for place, title in enumerate(["Setwise", *_titles(results, _ACCOUNTANTS)]):
        found = {task: _found(results, task, _ACCOUNTANTS)[place] for task in tasks}
        values = {task: each["value"] for task, each in found.items() if each and "value" in each}
        ends = sorted(values, key=lambda task: Decimal(values[task]) - Decimal(results["truth"][task]))
        cells = [_excess(found[task], results["truth"][task]) for task in (ends[0], ends[-1])]
        rows.append([title, f"{len(values)} of {len(tasks)}", *cells])
    return _rows(["", "tasks", "least excess", "largest excess"], rows)


def _picks(results: Mapping[str, Any]) -> str:
    rows = []
    for task in ACCOUNTING:
        if task.name not in results["truth"]:
            rows.append([task.title, *(_promise(found) for found in _found(results, task.name, _PICKERS))])
    return _rows(["task", "Setwise", *_titles(results, _PICKERS)], rows)


def _time(results: Mapping[str, Any]) -> str:
    rows = []
    for task in ACCOUNTING:
        ours, *theirs = _found(results, task.name, _ACCOUNTANTS)
        if ours is not None and "processor" in ours:
            cells = [_ratio(found, "processor", ours) for found in theirs]
            rows.append([task.title, f"{1000 * ours['processor']:.2f} ms", *cells])
    return _rows(["task", "Setwise", *_titles(results, _ACCOUNTANTS)], rows)


def _on_the_fly(results: Mapping[str, Any]) -> str:
    rows = [[task.title, *(_taken(found) for found in _found(results, task.name, _FILTERS))] for task in ON_THE_FLY]
    return _rows(["questions", "Setwise", *_titles(results, _FILTERS)], rows)


def _taken(found: Mapping[str, Any] | None) -> str:
    return "–" if found is None or "value" not in found else f"{found['value']:,}"


def _noise(results: Mapping[str, Any]) -> str:
    rows = []
    for name, title in (("laplace-noise", "Laplace, scale 10"), ("gaussian-noise", "Gaussian, deviation 10")):
        ours, *theirs = _found(results, name, _SAMPLERS)
        assert ours is not None
        rows.append(
            [f"{title}: time", f"{1000 * ours['million']:.0f} ms", *(_ratio(each, "million", ours) for each in theirs)]
        )
        rows.append([f"{title}: fit", *(_fit(each) for each in (ours, *theirs))])
    return _rows(["a million draws", "Setwise", *_titles(results, _SAMPLERS)], rows)


def _histogram(results: Mapping[str, Any]) -> str:
    """Return a row for each setting of Setwise, and for each peer its best setting and, if it differs, its default."""
    ours = results["setwise"]["tasks"]["histogram"]
    rows = [_histogram_row("Setwise", found, ours) for found in _histograms(results["setwise"])]
    for name in _ENGINES:
        entry = results["peers"].get(name, {})
        best = best_histogram(entry)
        if best is None:
            rows.append([entry.get("title", name), "", _absent(None), "", ""])
            continue
        default = entry["tasks"]["histogram"]
        for found in [best] if best is default else [best, default]:
            rows.append(_histogram_row(entry["title"], found, ours))
    return _rows(["", "setting", "items released", "mean error, top 100", "processor"], rows)


def _histogram_row(title: str, found: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    processor = f"{found['processor']:.1f} s ({_ratio(found, 'processor', ours)})"
    in_java = title == "Tumult Analytics"
    numbers = [f"{found['items']}", f"{found['error']:.1f}", "in Java" if in_java else processor]
    return [title, found["setting"], *numbers]


def _histograms(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the histograms that were released, one for each setting, the default first."""
    tasks = entry.get("tasks", {})
    return [found for name, found in tasks.items() if name.split("-")[0] == "histogram" and "items" in found]


def best_histogram(entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the histogram with the most items among an entry's settings, or None if the entry has no histogram."""
    return max(_histograms(entry), key=lambda found: found["items"], default=None)


def _short(results: Mapping[str, Any]) -> str:
    tasks = (
        ("picks-and-counts", "value", "25 picks and 25 counts of 0.1, any order: epsilon at delta = 1e-6", ".3f"),
        ("picks-3000", "value", "3,000 picks of 0.15: epsilon at delta = 1e-9", ".2f"),
        ("histogram", "items", "a million rows at epsilon = 1: items found", "d"),
        ("histogram", "error", "mean error of the 100 largest counts", ".0f"),
    )
    rows = []
    for task, key, title, form in tasks:
        found = _best_histograms(results, _SHORT) if task == "histogram" else _found(results, task, _SHORT)
        rows.append([title, *(f"{each[key]:{form}}" if each and key in each else "–" for each in found)])
    return _rows(["", "Setwise", *_titles(results, _SHORT)], rows)


def _best_histograms(results: Mapping[str, Any], peers: Sequence[str]) -> list[Mapping[str, Any] | None]:
    ours = results["setwise"]["tasks"]["histogram"]  # as planned, whatever another setting would find
    return [ours, *(best_histogram(results["peers"].get(name, {})) for name in peers)]


def _found(results: Mapping[str, Any], task: str, peers: Sequence[str]) -> list[Mapping[str, Any] | None]:
    entries = [results["setwise"], *(results["peers"].get(name, {}) for name in peers)]
    return [entry.get("tasks", {}).get(task) for entry in entries]


def _titles(results: Mapping[str, Any], peers: Sequence[str]) -> list[str]:
    return [results["peers"].get(name, {}).get("title", name) for name in peers]


def _excess(found: Mapping[str, Any] | None, exact: str) -> str:
    if found is None or "value" not in found:
        return _absent(found)
    over = Decimal(found["value"]) - Decimal(exact)
    written = f"{over:+.1e}".replace("-", "−")  # a minus sign, where no line is broken
    return written if over >= 0 else f"**{written}**"


def _promise(found: Mapping[str, Any] | None) -> str:
    if found is None or "value" not in found:
        return _absent(found)
    return f"{found['value']:.4f}" + (f" (at least {found['lower']:.4f})" if "lower" in found else "")


def _ratio(found: Mapping[str, Any] | None, key: str, ours: Mapping[str, Any]) -> str:
    if found is None or key not in found or key not in ours:
        return _absent(found)
    ratio = found[key] / ours[key]
    return f"{ratio:.2g}" if ratio < 100 else f"{ratio:,.0f}"


def _fit(found: Mapping[str, Any] | None) -> str:
    return f"p = {found['goodness']:.2g} ({found['law']})" if found and "goodness" in found else _absent(found)


def _absent(found: Mapping[str, Any] | None) -> str:
    return "failed" if found and "failed" in found else "–"


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top, *below = [f"| {' | '.join(line)} |" for line in (head, *rows)]
    return "\n".join([top, "|" + "---|" * len(head), *below])
