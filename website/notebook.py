"""Notebooks from pages: text becomes Markdown cells, blocks that run become code cells. No outputs are kept.

python website/notebook.py
"""

import json
import re
from pathlib import Path
from posixpath import join, normpath
from typing import Any

ROOT = Path(__file__).parents[1]
NOTEBOOKS = {"tutorial.ipynb": "tutorial.md", "paper.ipynb": "paper/tour.md"}
"""The notebooks and the pages they are made from."""

_BLOCK = re.compile(r"^```(?P<language>python|sh)\n(?P<code>.*?)^```\n?", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!\w+:|#)(?P<target>[^)\s]+)\)")
_REASON = re.compile(r"^<!-- not run: .* -->\n", re.MULTILINE)


def from_page(name: str) -> str:
    """Return the notebook of that name, made from its page."""
    page = ROOT / "docs" / NOTEBOOKS[name]
    return notebook(page.read_text(encoding="utf-8"), f"../docs/{Path(NOTEBOOKS[name]).parent}")


def notebook(page: str, folder: str) -> str:
    """Return the page as a notebook; `folder` is where the page lies, so that its links lead there."""
    cells: list[dict[str, Any]] = []
    position = 0
    for match in _BLOCK.finditer(page):
        _add_text(cells, page[position : match.start()], folder)
        shell = "%%bash\n" if match["language"] == "sh" else ""
        cells.append(
            _cell(len(cells), "code", shell + match["code"].strip()) | {"execution_count": None, "outputs": []}
        )
        position = match.end()
    _add_text(cells, page[position:], folder)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _add_text(cells: list[dict[str, Any]], text: str, folder: str) -> None:
    text = _LINK.sub(lambda link: f"]({normpath(join(folder, link['target']))})", _REASON.sub("", text)).strip()
    if text:
        cells.append(_cell(len(cells), "markdown", text))


def _cell(number: int, kind: str, source: str) -> dict[str, Any]:
    return {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source.splitlines(keepends=True)}


def main() -> None:
    """Write every notebook."""
    for name in NOTEBOOKS:
        (ROOT / "notebooks" / name).write_text(from_page(name), encoding="utf-8")


if __name__ == "__main__":
    main()
