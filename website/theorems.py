"""The statements of the mathematical pages without their proofs: a short note to print, made from the pages."""

import re
from pathlib import Path

SOURCES = {
    "optimal-composition.md": "Composition",
    "mechanisms.md": "Mechanisms",
    "truncated-gaussian-on-the-lattice.md": "Truncated Gaussian noise on the integers",
    "running-totals.md": "Running totals",
    "intervals.md": "Intervals",
    "discovery.md": "Discovery in rounds",
    "statistics.md": "Quantiles",
}
"""The pages with numbered statements, and what the note calls them."""

_STATEMENT = re.compile(r"\*\*(?P<name>(?:Theorem|Lemma|Proposition|Corollary)[^*]*)\*\*")
_ENDS = ("*Proof", "*Proof.*", "**", "##", "Proof")
_LINK = re.compile(r"\]\((?!\w+:|#|\.\./)(?P<target>[^)\s]+)\)")


def theorems(docs: Path) -> str:
    """Return every statement under the title of its page, with a link to the page that proves it."""
    parts = []
    for name, title in SOURCES.items():
        page = (docs / name).read_text(encoding="utf-8")
        parts.append(f"## {title}\n\n[With proofs](../{name}).\n\n" + "\n\n".join(statements(page)))
    return "\n\n".join(parts)


def statements(page: str) -> list[str]:
    """Return the statements of a page: a paragraph that begins with its name, and the formulas that belong to it."""
    paragraphs = re.split(r"\n\s*\n", re.sub(r"^> ?", "", page, flags=re.MULTILINE))
    found: list[str] = []
    place = 0
    while place < len(paragraphs):
        text = paragraphs[place].strip()
        place += 1
        if not _STATEMENT.match(text):
            continue
        while place < len(paragraphs) and _goes_on(text, paragraphs[place].strip()):
            text += "\n\n" + paragraphs[place].strip()
            place += 1
        found.append(_LINK.sub(r"](../\g<target>)", re.split(r"\n\*Proof", text)[0]))
    return found


def _goes_on(text: str, following: str) -> bool:
    """Return whether a paragraph belongs to the statement before it: a formula, or what completes its sentence."""
    if following.startswith(_ENDS):
        return False
    return following.startswith("$$") or not re.search(r"[.∎](\*|\$\$|\)|\\quad.*)*$", text)
