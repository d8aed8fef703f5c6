"""The small run keeps something of every group."""

import re
from pathlib import Path

import pytest

from tests.conftest import BROWSER_JOURNEY, SPARK_SMOKE

TESTS = "\n".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.rglob("test_*.py"))


@pytest.mark.parametrize("name", sorted(SPARK_SMOKE | BROWSER_JOURNEY))
def test_what_the_small_run_keeps_is_there(name):
    assert re.search(rf"^def {name}\(", TESTS, re.MULTILINE)


def test_every_group_is_described():
    """Unknown markers are refused by --strict-markers; here, that those there are say what they mean."""
    listed = re.search(
        r"^markers = \[(.*?)^\]", (Path(__file__).parents[1] / "pyproject.toml").read_text(), re.M | re.S
    )
    assert listed
    assert re.findall(r'"(\w+): ', listed[1]) == ["slow", "statistical", "spark", "browser", "docs"]
