"""The comparison says what was measured, and what it is measured against is right."""

import importlib.util
import json
import sys
from decimal import Decimal

import mpmath
import pytest
from tests.docs.pages import DOCS, ROOT

from setwise import compose

PEERS = ROOT / "benchmarks" / "peers"
sys.path.insert(0, str(PEERS))

import environments  # noqa: E402
import goodness  # noqa: E402
import page  # noqa: E402
import truth  # noqa: E402
from run_setwise import on_the_fly  # noqa: E402
from tasks import ACCOUNTING, BUDGET, BUDGET_AS_RHO, ON_THE_FLY, Accounting, Uses  # noqa: E402

RESULTS = json.loads((PEERS / "results.json").read_text())
EVERYDAY = ROOT / "benchmarks" / "everyday"


def test_the_table_of_everyday_tasks_is_that_of_its_results():
    spec = importlib.util.spec_from_file_location("compare", EVERYDAY / "compare.py")
    compare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compare)
    results = json.loads((EVERYDAY / "results.json").read_text())
    page = (DOCS / "comparison.md").read_text()
    assert compare.table(results) in page
    assert compare.filled(page, results) == page
    assert set(results) == set(compare.COMPARED)
    results["setwise"]["count"]["mean"] = 17.0
    assert "±17" in compare.filled(page, results)
    results["opendp"]["mean"]["others"] = {"zCDP": 0.00123, "worse": 1.0}
    assert "; ±0.0012 (zCDP) |" in compare.filled(page, results)
    results["opendp"]["mean"]["others"] = {"worse": 1.0, "failed": None}
    assert "(worse)" not in compare.filled(page, results)
    assert compare.error("median", 66, {"age": [1], "minutes": [60, 66, 66, 70, 80]}) == 0
    assert compare.error("median", 75, {"age": [1], "minutes": [60, 66, 66, 70, 80]}) == 1.5


@pytest.mark.parametrize("path", page.PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_tables_are_those_of_the_results(path):
    text = path.read_text(encoding="utf-8")
    assert page.filled(text, RESULTS) == text
    changed = json.loads(json.dumps(RESULTS))
    changed["setwise"]["tasks"]["picks-3000"] |= {"value": 1.0, "processor": 17.0}
    assert page.filled(text, changed) != text


@pytest.mark.parametrize("name", page._ENGINES)
def test_a_peer_is_shown_at_its_best_setting_with_its_default_beside_it(name):
    entry = RESULTS["peers"][name]
    settings = {task: found for task, found in entry["tasks"].items() if task.split("-")[0] == "histogram"}
    assert len(settings) > 1
    best = max(settings.values(), key=lambda found: found["items"])
    lines = [line for line in page._histogram(RESULTS).splitlines() if f"| {entry['title']} |" in line]
    assert lines[0].split(" | ")[1:3] == [best["setting"], str(best["items"])]
    assert lines[-1].split(" | ")[1:3] == [settings["histogram"]["setting"], str(settings["histogram"]["items"])]
    column = page._SHORT.index(name) + 2
    (items,) = (line for line in page._short(RESULTS).splitlines() if "items found" in line)
    assert items.split(" | ")[column].rstrip(" |") == str(best["items"])


def test_a_better_setting_moves_into_the_tables():
    changed = json.loads(json.dumps(RESULTS))
    better = changed["peers"]["opendp"]["tasks"]["histogram"]
    better |= {"items": 987_654}
    assert page.best_histogram(changed["peers"]["opendp"]) is better
    assert "| 987654 |" in page._histogram(changed)
    assert "| 987654 |" in page._short(changed)
    assert page.best_histogram({}) is None
    assert "| OpenDP |  | – |" in page._histogram({**RESULTS, "peers": {"opendp": {"title": "OpenDP"}}})


@pytest.mark.parametrize("peer", environments.PEERS, ids=lambda peer: peer.name)
def test_every_peer_is_pinned_listed_and_run(peer):
    pins = peer.requirements.read_text()
    assert "://" not in pins
    assert all("==" in line for line in pins.splitlines())
    entry = RESULTS["peers"][peer.name]
    assert entry["version"] == peer.version
    assert entry.get("not_installed") or entry["tasks"]
    assert peer.title in (DOCS / "comparison.md").read_text()


@pytest.mark.parametrize(
    "task", [task for task in ACCOUNTING if task.name in RESULTS["truth"]], ids=lambda task: task.name
)
def test_the_truth_lies_in_our_bracket(task):
    answer = compose([uses.written for uses in task.uses]).epsilon(task.delta)
    exact = Decimal(RESULTS["truth"][task.name])
    assert Decimal(answer.lower) <= exact <= Decimal(answer.upper)


@pytest.mark.parametrize("name", ["pure-100", "gaussian-100", "approx-30"])
def test_the_truth_can_be_recomputed(name):
    (task,) = (task for task in ACCOUNTING if task.name == name)
    assert mpmath.nstr(truth.epsilon(task), truth.DIGITS) == RESULTS["truth"][name]


def test_the_integral_is_the_closed_form():
    gaussian = Uses(kind="gaussian", parameters=(2.0,), count=1)
    with mpmath.workdps(30):
        by_formula, by_integral = truth._gaussian((gaussian,)), truth._by_moments((gaussian,))
        for epsilon in (0.3, 1.0, 2.5):
            assert mpmath.almosteq(by_formula(mpmath.mpf(epsilon)), by_integral(mpmath.mpf(epsilon)), 1e-25)


def test_a_task_without_a_truth_has_none():
    picks = Uses(kind="bounded-range", parameters=(0.1,), count=3)
    assert truth.epsilon(Accounting(name="x", title="x", uses=(picks,), delta=1e-6)) is None


def test_goodness_of_fit_tells_laws_apart():
    import numpy as np

    source = np.random.default_rng(7)
    drawn = (source.geometric(1 - np.exp(-0.1), 50_000) - source.geometric(1 - np.exp(-0.1), 50_000)).tolist()
    assert goodness.p_value(drawn, "discrete-laplace") > 1e-4
    assert goodness.p_value(drawn, "discrete-gaussian") < 1e-9
    assert goodness.p_value([value + 1 for value in drawn], "discrete-laplace") < 1e-9


def test_a_peer_that_does_not_install_says_why():
    assert environments._failure([sys.executable, "-c", "import json"]) is None
    reason = environments._failure([sys.executable, "-c", "import nobody"])
    assert reason == "ModuleNotFoundError: No module named 'nobody'"


@pytest.mark.parametrize("task", ON_THE_FLY, ids=lambda task: task.name)
def test_what_a_budget_takes_on_the_fly_is_what_the_page_says(task):
    assert on_the_fly(task)["value"] == RESULTS["setwise"]["tasks"][task.name]["value"]


def test_the_budget_of_the_filters_is_the_same_promise():
    epsilon, delta = BUDGET
    assert compose(f"zcdp:{BUDGET_AS_RHO}").epsilon(delta).upper <= epsilon
    assert compose(f"zcdp:{1.0001 * BUDGET_AS_RHO}").epsilon(delta).upper > epsilon
