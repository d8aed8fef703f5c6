"""The page on the pages says what is there."""

import re
from pathlib import Path

from setwise.service.auth.permissions import PAGES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "pages.md").read_text()
_PARTS = {"/", "/logout", "/explore/curve", "/steward/verify", "/steward/tables", "/steward/columns"}
"""What pages are made of, and no pages of their own."""


def test_every_page_is_on_it_and_no_other() -> None:
    whole = {path for _, path in PAGES if path not in _PARTS and not path.startswith(("/static", "/charts"))}
    parts = ("/panel", "/answer.csv", "/answer.json", "/series.csv", "/series.svg")
    pages = {path for path in whole if not path.endswith(parts)}
    assert set(re.findall(r"`(/[a-z]+[^`]*)`", PAGE)) == pages


def test_its_pictures_are_there_and_small() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\((pictures/[a-z]+\.png)\)", PAGE)
    assert len(pictures) == 4
    for picture in pictures:
        assert 10_000 < (DOCS / picture).stat().st_size < 200_000, picture


def test_what_it_links_to_is_there() -> None:
    for link in re.findall(r"\]\(((?!pictures/)[^)#]+)\)", PAGE):
        assert (DOCS / link).exists(), link
