"""Long tables that are built with the site from lists that tests check: claims, statements, promises, mutants."""

import csv
import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def claims_table(path: Path) -> str:
    """Return the claims of `claims.csv` as a Markdown table: the paper's value beside ours, and the verdict."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [
            f"| `{row['label']}` | {row['says']} | {float(row['paper']):.6g} | {float(row['ours']):.6g} "
            f"| {row['check']} | {row['verdict']} |"
            for row in csv.DictReader(lines)
        ]
    heading = "| label | what the paper says | paper | ours | check | verdict |\n|---|---|---|---|---|---|"
    return "\n".join([heading, *rows])


def statements_table(path: Path, part: str) -> str:
    """Return the rows of `statements.csv` whose column `of` is `part` as a Markdown table.

    `part` is "paper" for statements of the paper and "beyond" for results that go past it.
    """
    with path.open(encoding="utf-8", newline="") as lines:
        headings, *rows = csv.reader(lines)
    return _markdown_table(headings[1:], [row[1:] for row in rows if row[0] == part])


def sql_table(path: Path, outcome: str) -> str:
    """Return the statements of `sql-statements.csv` that are "answered" or "refused" as a Markdown table."""
    with path.open(encoding="utf-8", newline="") as lines:
        headings, *rows = csv.reader(lines)
    return _markdown_table(headings[1:], [[f"`{row[1]}`", row[2]] for row in rows if row[0] == outcome])


def promises_table(path: Path) -> str:
    """Return the promises in the file at `path`, each with the tests that hold it, as a Markdown table."""
    with path.open(encoding="utf-8", newline="") as lines:
        headings, *rows = csv.reader(lines)
    return _markdown_table(headings, rows)


def mutants_table(folder: Path) -> str:
    """Return every mutant of the lists in `folder` as a Markdown table: what is changed, where, and who must notice."""
    sys.path.insert(0, str(folder))
    try:
        lists = [_module(path) for path in sorted(folder.glob("*_mutants.py"))]
    finally:
        sys.path.remove(str(folder))
    rows = [
        f"| {mutant.name} | `{mutant.room}/{mutant.file}` | {', '.join(mutant.tests) or 'any of its room'} |"
        for module in lists
        for mutant in module.MUTANTS
    ]
    return "\n".join(["| what is broken | file | tests that must notice |", "|---|---|---|", *rows])


def _markdown_table(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _module(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module
