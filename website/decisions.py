"""The list of decisions, from their first lines, grouped by what they are about."""

from pathlib import Path

GROUPS = {
    "000": "Composition and noise",
    "001": "Ledger",
    "002": "Engines",
    "003": "Questions",
    "004": "The paper",
    "005": "Documents and comparison",
    "006": "Service",
    "007": "Web pages",
}
"""The subject of the decisions whose numbers begin with these digits."""


def decision_list(folder: Path) -> str:
    """Return one section per group with one line per decision, in the order of their numbers."""
    found = sorted(folder.glob("[0-9]*.md"))
    return "\n\n".join(
        f"## {title}\n\n" + "\n".join(_line(path) for path in found if path.name.startswith(digits))
        for digits, title in GROUPS.items()
    )


def _line(path: Path) -> str:
    return f"- [{path.read_text(encoding='utf-8').splitlines()[0].removeprefix('# ')}]({path.name})"
