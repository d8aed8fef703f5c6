"""The table of statements is complete, and every code and test it names exists."""

import ast
import csv
import re
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
with (ROOT / "docs" / "paper" / "statements.csv").open(encoding="utf-8", newline="") as lines:
    ROWS = [row[1:] for row in csv.reader(lines)][1:]
LABELS = list(csv.DictReader((Path(__file__).parent / "data" / "labels.csv").read_text().splitlines()))
"""The labels of the paper: first those a system that implements it must have, then all other statements."""


def in_ticks(cell):
    return re.findall(r"`([^`]+)`", cell)


def labels_of(row):
    return {row[2]} if row[2].startswith("no label") else set(in_ticks(row[2]))


def names(column):
    return sorted({name for row in ROWS for name in in_ticks(row[column])})


def test_rows_have_five_cells_none_of_them_empty():
    assert len(ROWS) > 50
    assert not [row for row in ROWS if len(row) != 5 or not all(row)]
    assert not [row for row in ROWS if not in_ticks(row[3]) or not in_ticks(row[4])]


def test_every_statement_of_the_paper_is_there_with_its_kind():
    for wanted in LABELS:
        assert {row[0] for row in ROWS if wanted["label"] in labels_of(row)} == {wanted["kind"]}, wanted


def test_no_label_is_made_up():
    known = {row["label"] for row in LABELS}
    used = {label for row in ROWS for label in labels_of(row)}
    assert {label for label in used if not label.startswith(("no label", "new:"))} <= known


@pytest.mark.parametrize("name", names(3))
def test_every_function_exists(name):
    assert not isinstance(resolve_name(f"setwise.{name}"), ModuleType)


@pytest.mark.parametrize("name", names(4))
def test_every_test_exists(name):
    file, _, function = name.partition("::")
    path = ROOT / file
    assert path.is_file()
    if function:
        found = {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
        assert function in found
