"""The site on a telephone: no page is wider than its screen."""

from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from tests.web.chromium import ARGUMENTS, needed

_OVERHANG = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.slow
@pytest.mark.browser
def test_no_page_is_wider_than_a_telephone(site: Path):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=needed("chromium"), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 390, "height": 844})
        wide = []
        for path in sorted(site.rglob("*.html")):
            page.goto(f"file://{path}")
            if page.evaluate(_OVERHANG) > 0:
                wide.append(path.name)
        browser.close()
    assert wide == []
