"""Every mutant changes one place of the code as it is."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from accounting_mutants import MUTANTS as ACCOUNTING
from mechanism_mutants import MUTANTS as MECHANISMS

SOURCE = Path(__file__).parents[2] / "src" / "setwise"


@pytest.mark.parametrize("mutant", [*MECHANISMS, *ACCOUNTING], ids=lambda mutant: mutant.name)
def test_the_text_to_change_occurs_once(mutant):
    text = (SOURCE / mutant.room / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.before) == 1
    assert mutant.after != mutant.before
