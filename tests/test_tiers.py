"""The small run keeps something of every group."""

import re
from pathlib import Path

import pytest

from tests.conftest import BROWSER_JOURNEY, LONGEST, SPARK_SMOKE

TESTS = "\n".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.rglob("test_*.py"))


@pytest.mark.parametrize("name", sorted(SPARK_SMOKE | BROWSER_JOURNEY))
def test_what_the_small_run_keeps_is_there(name):
    assert re.search(rf"^def {name}\(", TESTS, re.MULTILINE)


def test_the_longest_files_are_there():
    tests = Path(__file__).parent
    assert [name for name in LONGEST if name != "spark" and not (tests.parent / name).exists()] == []


def test_tests_on_spark_are_told_by_their_names(request):
    """By which one worker gets them all."""
    nameless = [item for item in request.session.items if item.get_closest_marker("spark") and "spark" not in item.name]
    assert [item.nodeid for item in nameless if "spark" not in item.path.name] == []
