"""The page on mechanisms cannot lie: its example runs, and it names every mechanism and every mutant."""

import re
import sys
from pathlib import Path
from typing import get_args

from setwise.mechanisms.planning.planner import Mechanism

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "mechanisms.md").read_text(encoding="utf-8")


def test_the_example_runs():
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {}
    exec(example, names)  # the page is ours
    assert set(names["release"].labels) <= {"tea", "coffee", "mate"}
    assert "mate" not in names["release"].labels
    assert names["found"].epsilon <= 1


def test_every_mechanism_is_described():
    for mechanism in (*get_args(Mechanism), "OrderedLeastSquares", "Exponential"):
        name = mechanism if isinstance(mechanism, str) else mechanism.__name__
        assert f"**{name}**" in PAGE


def test_every_mutant_still_changes_the_code_at_one_place():
    """A mutant whose text is gone would be skipped, and what it guards would be untested without anybody noticing."""
    root = Path(__file__).parents[2]
    sys.path.insert(0, str(root / "tests" / "mutants"))
    from run import MUTANTS

    assert len(MUTANTS) > 150
    places = {
        mutant.name: (root / "src" / "setwise" / mutant.room / mutant.file).read_text("utf-8").count(mutant.before)
        for mutant in MUTANTS
    }
    assert not {name: count for name, count in places.items() if count != 1}
    assert len(places) == len(MUTANTS), "two mutants have the same name"
