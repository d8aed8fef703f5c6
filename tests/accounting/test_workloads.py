"""The workloads of the benchmark keep their widths."""

import importlib.util
import sys
from pathlib import Path

import pytest

from setwise.accounting.notation import as_uses
from tests.sizes import some

_PATH = Path(__file__).parents[2] / "benchmarks" / "workloads.py"
_SPEC = importlib.util.spec_from_file_location("workloads", _PATH)
workloads = importlib.util.module_from_spec(_SPEC)
sys.modules["workloads"] = workloads
_SPEC.loader.exec_module(workloads)


def test_there_are_some_thirty_and_their_names_differ():
    assert len({workload.name for workload in workloads.WORKLOADS}) == len(workloads.WORKLOADS) >= 30


@pytest.mark.parametrize("workload", some(workloads.WORKLOADS, 3), ids=lambda workload: workload.name)
def test_no_bracket_is_wider_than_one_percent_where_there_is_a_pair(workload):
    answer, _ = workloads.measured(workload)
    without_pair = any(use.guarantee.kind in ("zcdp", "cdp") for use in as_uses(workload.uses))
    assert answer.lower <= answer.upper
    assert answer.width <= (0.1 if without_pair else 0.01) * answer.upper
