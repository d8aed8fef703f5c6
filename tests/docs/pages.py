"""The pages of docs/ and the code blocks in them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))

_FENCE = re.compile(
    r"(?P<reason>^<!-- not run: [^\n]+ -->\n)?"
    r"^(?P<indent>[ ]*)```(?P<language>\S*)[^\n]*\n(?P<code>.*?)^(?P=indent)```\s*$",
    re.MULTILINE | re.DOTALL,
)
PRINTED = re.compile(r"^(?P<indent> *)print\((?P<what>.*)\)  # (?P<expected>.*)$", re.MULTILINE)
"""A print with a comment that promises what is printed."""

_FIRST = re.compile(r"^<!-- first:\n(?P<code>.*?)^-->$", re.MULTILINE | re.DOTALL)
_RUNS = ("python", "sh")
_SHOWS = ("json", "sql", "text", "")
_FORM_OF_A_COMMAND = re.compile(r"\[-|\.\.\.")
_LOOKS_LIKE_CODE = re.compile(r"^(?:\$ |pip install|setwise \w|import \w|from \w+ import|curl |docker )", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its code, and the reason why it is not run, if one is given."""

    language: str
    code: str
    reason: str | None

    @property
    def runs(self) -> bool:
        return self.language in _RUNS

    @property
    def fault(self) -> str | None:
        """What is wrong with the fence."""
        if self.runs:
            return None if self.reason is None else "a block that runs needs no reason not to"
        if self.language not in _SHOWS:
            return f"fence it as python or sh, which are run, or as text with a reason, not as {self.language!r}"
        code = _LOOKS_LIKE_CODE.search(self.code) and not _FORM_OF_A_COMMAND.search(self.code)
        if code and self.reason is None:
            return "this looks like code: fence it as python or sh, or put <!-- not run: reason --> above it"
        return None


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, before them what it says its readers have: a comment `<!-- first:` with Python in it."""
    text = page.read_text(encoding="utf-8")
    prepared = [Block("python", match["code"], None) for match in _FIRST.finditer(text)]
    return prepared + [
        Block(match["language"], match["code"], match["reason"] and match["reason"].strip())
        for match in _FENCE.finditer(text)
    ]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))
