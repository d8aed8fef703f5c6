"""A filter's text as tokens, each with its place for messages."""

import re
from dataclasses import dataclass
from enum import StrEnum

from setwise.errors import InvalidFilter

LONGEST = 10_000

ALLOWED = (
    "a filter compares columns with constants by =, <>, <, <=, >, >=, IN, BETWEEN, LIKE or IS NULL, "
    "joined by AND, OR and NOT"
)
"""What a filter may say, for messages."""

KEYWORDS = frozenset({"and", "or", "not", "in", "between", "is", "null", "like", "true", "false"})


class TokenKind(StrEnum):
    """What a token is."""

    WORD = "a keyword"
    NAME = "a column"
    TEXT = "text"
    NUMBER = "a number"
    SIGN = "a sign"
    END = "the end"


@dataclass(frozen=True, slots=True)
class Token:
    """A token: what it is, what it says (unquoted; keywords in lower case), and where it starts, counted from 1."""

    kind: TokenKind
    says: str
    place: int


_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
  | (?P<text>'(?:[^']|'')*')
  | (?P<quoted>"(?:[^"]|"")+")
  | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![\w.])
  | (?P<name>[^\W\d]\w*)
  | (?P<sign><=|>=|<>|!=|==|[=<>(),])
    """,
    re.VERBOSE,
)


def tokens(text: str) -> list[Token]:
    """Return the tokens of a filter, with `END` last, or raise `InvalidFilter` saying where it goes wrong."""
    if len(text) > LONGEST:
        raise InvalidFilter(f"a filter must be at most {LONGEST} characters long, not {len(text)}")
    if "\0" in text or not _encodable(text):
        raise InvalidFilter("a filter must be plain text without null characters or lone surrogates")
    found: list[Token] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            why = "the quote is not closed" if text[place] in "'\"" else ALLOWED
            raise InvalidFilter(f"the filter cannot be read from character {place + 1}, {text[place]!r}: {why}")
        if match.lastgroup != "space":
            found.append(_token(str(match.lastgroup), match.group(), place + 1))
        place = match.end()
    return [*found, Token(TokenKind.END, "", len(text) + 1)]


def _token(group: str, written: str, place: int) -> Token:
    match group:
        case "text":
            return Token(TokenKind.TEXT, written[1:-1].replace("''", "'"), place)
        case "quoted":
            return Token(TokenKind.NAME, written[1:-1].replace('""', '"'), place)
        case "number":
            return Token(TokenKind.NUMBER, written, place)
        case "sign":
            return Token(TokenKind.SIGN, {"!=": "<>", "==": "="}.get(written, written), place)
        case _:
            if written.lower() in KEYWORDS:
                return Token(TokenKind.WORD, written.lower(), place)
            return Token(TokenKind.NAME, written, place)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
