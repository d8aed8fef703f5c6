"""`setwise docs`: the documents that promises rest on, wherever Setwise is installed."""

from pathlib import Path
from typing import Annotated

import typer

from setwise.errors import UnknownName

_PACKAGE = Path(__file__).parents[1]
_PLACES = ((_PACKAGE / "documents",), (_PACKAGE.parents[1] / "docs", _PACKAGE.parents[1] / "docs" / "paper"))
"""The folders of the documents: in an installed package, and in a clone."""


def docs(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A document, such as optimal-composition.")
    ] = None,
) -> None:
    """Print a document, or the list of them: the theorems behind each promise, how tables are read, and more."""
    folders = next((places for places in _PLACES if places[0].is_dir()), ())
    found = {each.stem: each for folder in folders for kind in ("*.md", "*.bib") for each in sorted(folder.glob(kind))}
    if name is None:
        for stem, path in found.items():
            print(f"{stem:<36}{_title(path)}")
        return
    page = found.get(name.removeprefix("docs/").removesuffix(".md"))
    if page is None:
        raise UnknownName(f"there is no document {name!r}; there are {', '.join(found)}")
    print(page.read_text(encoding="utf-8"), end="")


def _title(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), "What is cited")
