"""Links between pages are right on a plain checkout too: the file is there, and so is the heading."""

import re
from pathlib import Path

import pytest
from tests.docs.pages import PAGES, ROOT, named

_LINK = re.compile(r"\[[^\]]*\]\((?P<target>(?!\w+:)[^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
_READ = [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md"))]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as sites that show Markdown make them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = [match["title"].replace("`", "") for match in _HEADING.finditer(text)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", _READ, ids=named)
def test_links_point_at_something(page):
    for match in _LINK.finditer(_CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = match["target"].partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), match["target"]
        assert ROOT in target.parents, match["target"]
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), match["target"]
