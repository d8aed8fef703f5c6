"""What the repository names exists, and nothing in it points at a machine or a registry."""

import ast
import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path
from pkgutil import resolve_name

ROOT = Path(__file__).parents[2]


def tracked() -> list[Path]:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in names]


def test_lock_and_constraint_files_have_no_addresses():
    assert "://" not in (ROOT / "constraints.txt").read_text()
    assert not [path for path in tracked() if path.suffix == ".lock" or path.name == "pylock.toml"]


def test_no_file_names_a_path_of_a_machine():
    pattern = re.compile(r"(?<![\w.~-])/(work|root|farm|home)/")
    found = [path for path in tracked() if path.suffix in {".py", ".md", ".toml", ".txt", ""} and path.is_file()]
    assert found
    assert not [path for path in found if pattern.search(path.read_text(errors="replace")) and path != Path(__file__)]


LARGE_FOLDERS = {"src/setwise/analytics/engines": 20}
"""Folders that have more modules than others may have, and the most modules that each may have."""


def _lines_of_code(path: Path) -> int:
    """Return the number of lines of a module that are no docstring: explaining a module may not make it too long."""
    text = path.read_text(encoding="utf-8")
    docstrings = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    return len(text.splitlines()) - sum(node.end_lineno - node.lineno + 1 for node in docstrings)


def test_modules_and_folders_stay_within_reach():
    """At most 540 lines of code a module (600 in tests) and 18 modules a folder: more is not found by its name."""
    python = [path for path in tracked() if path.suffix == ".py" and path.exists()]
    source = [path for path in python if path.is_relative_to(ROOT / "src")]
    lines = {path: _lines_of_code(path) for path in python}
    assert not {path: count for path, count in lines.items() if count > (540 if path in source else 600)}
    modules = Counter(str(path.parent.relative_to(ROOT)) for path in source if path.stem != "__init__")
    assert not {name: count for name, count in modules.items() if count > LARGE_FOLDERS.get(name, 18)}


def test_no_two_classes_share_a_name():
    """A reader who meets a class knows which one is meant without looking at the imports."""
    source = [path for path in tracked() if path.suffix == ".py" and path.is_relative_to(ROOT / "src")]
    classes = [
        (node.name, str(path.relative_to(ROOT)))
        for path in source
        if path.exists()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    count = Counter(name for name, _ in classes)
    assert not [(name, path) for name, path in classes if count[name] > 1]


def test_pages_and_changelog_stay_within_their_words():
    """Readers of pages that grow with every change stop reading them: whoever adds a sentence takes one out."""
    pages = [path for path in tracked() if path.suffix == ".md" and path.is_relative_to(ROOT / "docs")]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 55_000
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split()) <= 800


def named_files() -> list[tuple[str, str]]:
    """Return pairs of a page and a Python file it names; a folder may stand before the name, and a star in it."""
    pages = [path for path in tracked() if path.suffix == ".md"]
    return [
        (str(page.relative_to(ROOT)), name)
        for page in pages
        for name in re.findall(r"`([\w./*-]+\.py)`", page.read_text(encoding="utf-8"))
    ]


def test_every_file_that_a_page_names_exists():
    files, pairs = tracked(), named_files()
    assert len(pairs) > 100
    assert not [(page, name) for page, name in pairs if not any(path.match(name) for path in files)]


def placed_names() -> list[tuple[str, str]]:
    """Return the pairs (name, file) of the architecture page that are written as "`name` in `file.py`".

    Several names may stand before one file: "`a`, `b` and `c` in `file.py`".
    """
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(r"((?:`[\w.]+`(?:, | and )?)+) in `([\w./]+\.py)`", page)
    return [(name, file) for names, file in listed for name in re.findall(r"`([\w.]+)`", names)]


def defined_names(path: Path) -> set[str]:
    """Return the names that a module defines: functions, classes, methods (also as `Class.method`) and constants."""
    names = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for scope in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
        for node in scope.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
            for name in (getattr(target, "id", getattr(target, "name", None)) for target in targets):
                names |= {name, f"{getattr(scope, 'name', '')}.{name}"}
    return names


def test_every_name_that_the_architecture_page_places_in_a_file_is_defined_there():
    modules, pairs = [path for path in tracked() if path.suffix == ".py"], placed_names()
    assert len(pairs) > 40
    assert not [
        (name, file)
        for name, file in pairs
        if not any(name in defined_names(path) for path in modules if path.match(file))
    ]


def test_every_mutant_changes_one_place(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests" / "mutants")
    for module in ("mechanism_mutants", "series_mutants", "statistics_mutants", "accounting_mutants"):
        for mutant in resolve_name(f"{module}:MUTANTS"):
            text = (ROOT / "src" / "setwise" / mutant.room / mutant.file).read_text(encoding="utf-8")
            assert text.count(mutant.before) == 1, mutant.name


def imported_names() -> list[tuple[str, str]]:
    """Return pairs of a script outside the package and a name it imports from the package."""
    scripts = [path for path in tracked() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] != "src"]
    return [
        (str(script.relative_to(ROOT)), f"{node.module}.{alias.name}")
        for script in scripts
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "setwise"
        for alias in node.names
    ]


def test_every_name_that_a_script_imports_exists():
    """Scripts that no test runs (pictures, benchmarks) go stale unnoticed otherwise."""
    for script, name in imported_names():
        assert resolve_name(name) is not None, script


def test_everything_the_reference_shows_exists():
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    shown = [name for page in pages for name in re.findall(r"^::: (\S+)", page, re.MULTILINE)]
    assert shown
    for name in shown:
        assert resolve_name(name).__doc__, name


def test_every_document_that_a_promise_cites_is_installed_with_the_package():
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    places = shipped["force-include"]
    cited = {
        name for path in (ROOT / "src").rglob("*.py") for name in re.findall(r"docs/[a-z-]+\.md, ", path.read_text())
    }
    assert {name.removesuffix(", ") for name in cited} <= set(places)
    assert all(
        (ROOT / source).is_file() and target == f"setwise/documents/{Path(source).name}"
        for source, target in places.items()
    )
