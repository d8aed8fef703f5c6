"""How the pages look in a real browser: dark and light, wide and narrow, for eyes and for screen readers."""

import pytest
from playwright.sync_api import Browser, Error, Page, expect

from tests.service.team import Team, asked
from tests.web.browsing import Browsing, browsing, window
from tests.web.outline import check
from tests.web.shop import top


@pytest.mark.parametrize(("scheme", "width"), [("dark", 1360), ("light", 390), ("dark", 390)])
def test_dark_and_light_wide_and_narrow(browser: Browser, shop: Team, scheme: str, width: int) -> None:
    for number, body in enumerate(
        [top(3), top(2, where="country = 'DK'"), top(5), top(3, domain=["tent", "gloves", "compass"])]
    ):
        asked(shop.ada, f"looks-{number}", body)  # free but the first time
    id_ = asked(shop.ada, "looks", top(8))["id"]
    context = window(browser, scheme=scheme, width=width)
    ada = browsing(context, shop.url, shop.signed_in("ada").cookies["setwise_session"])
    for name, address in (("explore", "/explore"), ("account", "/accounts/ada-shop"), ("answer", f"/answers/{id_}")):
        ada.go(address)
        ada.ready(name)
        assert ada.overhang() == 0, f"{name} is wider than the screen"
        assert _contrast(ada.page) >= 4.5
        ada.picture(f"{name}-{scheme}-{width}")
    for shown in ("td.number >> nth=0", ".answer-chart .xtitle"):  # of the answer, without scrolling
        box = ada.page.locator(shown).bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width, shown
    ada.check()
    context.close()


def test_the_theme_can_be_chosen_and_is_kept(ada: Browsing) -> None:
    page = ada.page
    ada.go("/accounts")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Dark").click()
    expect(page.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    dark = page.evaluate(ground)
    assert dark != light
    ada.go("/explore")
    ada.ready("explore")
    assert page.evaluate(ground) == dark
    ada.check()


def test_what_scripts_add_is_labelled_too(ada: Browsing, steward: Browsing) -> None:
    """The markup as it stands after the scripts ran: labels, headings, ids."""
    for who, address, what in ((ada, "/explore", "explore"), (ada, "/ask", "ask"), (steward, "/steward", "steward")):
        who.go(address)
        who.ready(what)
        html = who.page.evaluate("""() => {
            const copy = document.documentElement.cloneNode(true);
            for (const part of copy.querySelectorAll('.chart > *, #js-plotly-tester')) part.remove();
            for (const chart of copy.querySelectorAll('.chart')) chart.removeAttribute('style');
            return copy.outerHTML;
        }""")
        check(html)


def test_inline_scripts_do_not_run(ada: Browsing) -> None:
    """Should markup get through after all, the policy stops it."""
    ada.go("/accounts")
    with pytest.raises(Error):
        ada.page.add_script_tag(content="window.ran = true")
    assert ada.page.evaluate("() => window.ran === undefined")


def _contrast(page: Page) -> float:
    """Return the least contrast of the text colours that the pages use on the grounds that they use."""
    least = page.evaluate("""() => {
        const style = getComputedStyle(document.documentElement);
        const light = (name) => {
            const [r, g, b] = style.getPropertyValue(name).trim().match(/[0-9a-f]{2}/g).map((part) => {
                const value = parseInt(part, 16) / 255;
                return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const pairs = [['--text', '--ground'], ['--text', '--surface'], ['--dim', '--ground'], ['--dim', '--surface'],
            ['--dim', '--raised'], ['--accent', '--surface'], ['--accent', '--ground'], ['--on-accent', '--accent'],
            ['--accent-strong', '--accent-soft'], ['--alert', '--alert-soft'], ['--good', '--good-soft']];
        return Math.min(...pairs.map(([text, ground]) => {
            const [a, b] = [light(text), light(ground)];
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        }));
    }""")
    return float(least)
