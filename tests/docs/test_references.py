"""Citations and labels in the source are all documented."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = sorted((ROOT / "docs").rglob("*.md"))

_KEY = re.compile(r"\b(?!DateTime64)(?:[A-Z][a-z]+){2,}\d{2}\b")
"""Author syllables and two digits of the year: DongDuRo19. DateTime64 is a type of ClickHouse."""

_LABEL = re.compile(r"\b(?!table:String)(?:thm|lem|eq|prop|defn|algo|table|fig):[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*")
_ENTRY = re.compile(r"^@\w+\{([^,\s]+),", re.MULTILINE)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def known_keys() -> list[str]:
    return _ENTRY.findall(text_of(ROOT / "docs" / "references.bib"))


def cited_on_theorem_lines() -> set[str]:
    lines = (line for path in SOURCES for line in text_of(path).splitlines() if "Theorem:" in line)
    return {key for line in lines for key in _KEY.findall(line)}


def test_the_patterns_find_something():
    assert {"BunSt16", "CanonneKaSt20", "DurfeeRo19"} <= cited_on_theorem_lines()
    assert _LABEL.findall("see lem:genbound, prop:sbr-ord.") == ["lem:genbound", "prop:sbr-ord"]


def test_no_key_is_defined_twice():
    keys = known_keys()
    assert len(keys) == len(set(keys))


def test_every_citation_on_a_theorem_line_is_in_the_bibliography():
    assert not cited_on_theorem_lines() - set(known_keys())


def test_every_citation_anywhere_is_in_the_bibliography():
    known = set(known_keys()) | {"XxHash64"}  # a function of Spark, which is written like a key
    assert not {path: unknown for path in SOURCES + PAGES if (unknown := set(_KEY.findall(text_of(path))) - known)}


def test_every_label_is_listed_among_the_statements():
    listed = set(_LABEL.findall(text_of(ROOT / "docs" / "paper" / "statements.csv")))
    assert not {path: unknown for path in SOURCES if (unknown := set(_LABEL.findall(text_of(path))) - listed)}
