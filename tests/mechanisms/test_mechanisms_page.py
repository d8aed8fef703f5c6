"""The page on mechanisms cannot lie: its example runs, and it names every mechanism and every mutant."""

import re
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
    for mechanism in (*get_args(Mechanism), "OrderedLeastSquares", "Exponential", "PermuteAndFlip"):
        name = mechanism if isinstance(mechanism, str) else mechanism.__name__
        assert f"**{name}**" in PAGE
