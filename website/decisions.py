"""The list of decisions, from their first lines."""

from pathlib import Path


def decision_list(folder: Path) -> str:
    """Return one line per decision, in the order of their numbers."""
    return "\n".join(f"- [{_title(path)}]({path.name})" for path in sorted(folder.glob("[0-9]*.md")))


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
