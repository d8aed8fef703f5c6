"""A page read as assistive software reads it: labels, headings, landmarks, and what must not be in it."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

CONTROLS = {"input", "select", "textarea", "meter", "progress"}


@dataclass
class Outline(HTMLParser):
    """What was found; make one with `outline`."""

    headings: list[int] = field(default_factory=list)
    labelled: set[str] = field(default_factory=set)
    controls: list[tuple[str, dict[str, str | None], bool]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    elements: list[str] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    lang: str | None = None

    def __post_init__(self) -> None:
        super().__init__()
        self._inside_label = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.elements.append(tag)
        if tag == "html":
            self.lang = given.get("lang")
        if tag in {"h1", "h2", "h3", "h4", "h5", "h6"}:
            self.headings.append(int(tag[1]))
        if "id" in given:
            self.ids.append(given["id"] or "")
        if tag == "label":
            self._inside_label += 1
            self.labelled.add(given.get("for") or "")
        if tag in CONTROLS and given.get("type") != "hidden":
            self.controls.append((tag, given, self._inside_label > 0))
        for name in ("aria-labelledby", "aria-describedby", "for"):
            self.references += (given.get(name) or "").split()
        self._check(tag, given)

    def handle_endtag(self, tag: str) -> None:
        if tag == "label":
            self._inside_label -= 1

    def _check(self, tag: str, given: dict[str, str | None]) -> None:
        for name in given:
            if name.startswith("on") or name == "style":
                self.faults.append(f"<{tag}> has the inline attribute {name}")
        if tag == "script" and "src" not in given and given.get("type") != "application/json":
            self.faults.append("there is an inline script")
        if tag == "style":
            self.faults.append("there is an inline style")
        if tag == "img" and "alt" not in given:
            self.faults.append("there is a picture without a text")
        if "chart" in (given.get("class") or "").split():
            named = given.get("aria-label") or given.get("aria-labelledby")
            if given.get("role") != "img" or not named:
                self.faults.append("there is a chart without a text")
        for name in ("src", "href", "action"):
            if (given.get(name) or "/").split(":")[0] in {"http", "https", "javascript", "data"}:
                self.faults.append(f"<{tag}> leads elsewhere: {given[name]}")
        if tag == "th" and "scope" not in given:
            self.faults.append("there is a table heading without a scope")


def outline(html: str) -> Outline:
    """Read a page."""
    found = Outline()
    found.feed(html)
    found.close()
    return found


def check(html: str) -> Outline:
    """Read a whole page and check everything that must hold of every page."""
    page = outline(html)
    assert page.faults == []
    assert page.lang == "en"
    assert len(page.ids) == len(set(page.ids)), "an id is used twice"
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(page.headings, page.headings[1:], strict=False)), (
        page.headings
    )
    for tag, given, inside in page.controls:
        named = inside or given.get("aria-label") or given.get("aria-labelledby") or given.get("id") in page.labelled
        assert named, f"<{tag} {given}> has no label"
    missing = set(page.references) - set(page.ids)
    assert not missing, f"{missing} are referred to but not there"
    for landmark in ("header", "main", "footer"):
        assert page.elements.count(landmark) >= 1
    return page
