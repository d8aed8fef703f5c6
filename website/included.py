"""A page of the repository's root, shown on the site."""

import re
from pathlib import Path


def included(source: Path) -> str:
    """Return the page without its title, with links as seen from docs/."""
    _, _, body = source.read_text(encoding="utf-8").partition("\n")
    return re.sub(r"\]\((?!\w+:|#)(?P<target>[^)]+)\)", lambda match: f"]({_from_docs(source, match['target'])})", body)


def _from_docs(source: Path, target: str) -> str:
    root = Path(__file__).parents[1]
    below = (source.parent / target.partition("#")[0]).resolve().relative_to(root)
    anchor = "#" + target.partition("#")[2] if "#" in target else ""
    outside = below.parts[0] != "docs"
    return (f"../{below}" if outside else str(Path(*below.parts[1:]))) + anchor
