"""How the cells of a text file are written, guessed from a sample of them, for the holder of the file alone.

Nothing that answers questions uses this: there the holder says how cells are written, and no row decides.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from setwise.analytics.engines.cells import BLANKS, ISO_MOMENT, MONTHS, CellGrammar, date_pattern
from setwise.analytics.schema import Kind

ENOUGH = 0.9
"""The share of a column's cells that must be of a kind for the column to be taken for that kind."""
NULL_WORDS = ("NULL", "null", "N/A", "n/a", "#N/A", "NaN", "nan", "None", "none", "\\N", "NA", "-", "--", "?", ".")
"""Words that programs write for empty cells."""
CERTAIN_NULL_WORDS = frozenset({"NULL", "null", "N/A", "n/a", "#N/A", "NaN", "nan", "\\N"})
"""Words that mean an empty cell in a column of text too; NA may be Namibia."""
_NUMBERS = (
    (".", ""),
    (".", ","),
    (",", ""),
    (",", "."),
    (".", "'"),
    (".", "\u2019"),
    (".", " "),
    (",", " "),
    (",", "\u00a0"),
    (",", "\u202f"),
)
"""Decimal points and characters between thousands, the most usual first."""
_DATES = (
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d.%m.%y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%d %b %Y",
    "%b %d, %Y",
)

KIND_WORDS = {
    Kind.INTEGER: "whole numbers",
    Kind.FLOAT: "numbers",
    Kind.BOOLEAN: "truth values",
    Kind.DATE: "dates",
    Kind.TIMESTAMP: "dates and times",
}
"""What the cells of a column of a kind are, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """The grammar that reads the most cells, and other date formats that read as many."""

    grammar: CellGrammar
    other_dates: tuple[str, ...] = ()


def is_readable(cell: str, kind: Kind, grammar: CellGrammar) -> bool:
    """Return whether a cell is a number, date or timestamp in a grammar."""
    text = cell.strip(BLANKS)
    match kind:
        case Kind.INTEGER:
            return re.fullmatch(grammar.integer, text) is not None
        case Kind.FLOAT:
            return re.fullmatch(grammar.float, text) is not None
        case Kind.DATE | Kind.TIMESTAMP:
            return _is_moment(text, grammar.date_format)
        case _:
            return True


def _is_moment(text: str, date_format: str | None) -> bool:
    if date_format is not None:
        matched = re.fullmatch(f"{date_pattern(date_format)}(.*)", text)
        if matched is not None:
            text = _year_first(date_format, matched)
        elif date_format.startswith(("%Y", "%y")):
            return False
    if re.fullmatch(ISO_MOMENT, text) is None:
        return False
    digits = re.sub("[-/]", "", text[:10])
    try:
        date(int(digits[:4]), int(digits[4:6]), int(digits[6:8]))
    except ValueError:
        return False
    return True


def _year_first(date_format: str, matched: re.Match[str]) -> str:
    """Return a moment that begins as 2024-01-02, from one that matches a date format."""
    parts = dict(zip(re.findall("%(.)", date_format), matched.groups(), strict=False))
    year = parts.get("Y") or f"{'20' if parts['y'] < '69' else '19'}{parts['y']}"
    month = parts.get("m")
    if month is None:
        named = parts["b"].lower()
        month = str(MONTHS.index(named) + 1) if named in MONTHS else "00"
    return f"{year}-{month.zfill(2)}-{parts['d'].zfill(2)}{matched.groups()[-1]}"


def guess_grammar(columns: Mapping[str, Sequence[str]], given: CellGrammar) -> Guess:
    """Return the grammar that reads the most cells of a sample, keeping what the holder says in `given`.

    `columns` are cells of each column of text.
    """
    words = given.null or _null_words(columns)
    kept = {
        name: [cell for cell in cells if (text := cell.strip(BLANKS)) and text not in words]
        for name, cells in columns.items()
    }
    numbers = [(given.decimal, given.thousands)] if (given.decimal, given.thousands) != _NUMBERS[0] else _NUMBERS
    best = max(numbers, key=lambda each: _readable(kept, Kind.FLOAT, _with_numbers(given, *each)))
    grammar = replace(_with_numbers(given, *best), null=tuple(words))
    if given.date_format is not None:
        return Guess(grammar=grammar)
    scores = {each: _readable(kept, Kind.DATE, replace(grammar, date_format=each)) for each in (None, *_DATES)}
    highest = max(scores.values())
    alike = [each for each, score in scores.items() if score == highest and each is not None]
    if scores[None] == highest or not alike:
        return Guess(grammar=grammar)
    return Guess(grammar=replace(grammar, date_format=alike[0]), other_dates=tuple(alike[1:]))


def _with_numbers(grammar: CellGrammar, decimal: str, thousands: str) -> CellGrammar:
    return replace(grammar, decimal=decimal, thousands=thousands)


def _readable(columns: Mapping[str, Sequence[str]], kind: Kind, grammar: CellGrammar) -> int:
    """Return how many cells can be read as a kind, in the columns of which most can."""
    total = 0
    for cells in columns.values():
        readable = sum(is_readable(cell, kind, grammar) for cell in cells)
        total += readable if cells and readable >= ENOUGH * len(cells) else 0
    return total


def _null_words(columns: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the words for empty cells that stand among numbers or dates, or that can mean nothing else in text."""
    words: set[str] = set()
    in_text: set[str] = set()
    for cells in columns.values():
        texts = [cell.strip(BLANKS) for cell in cells]
        present = {text for text in texts if text in NULL_WORDS}
        others = [text for text in texts if text and text not in NULL_WORDS]
        grammars = [CellGrammar(decimal=decimal, thousands=thousands) for decimal, thousands in _NUMBERS]
        grammars += [CellGrammar(date_format=each) for each in _DATES]
        kinds = (Kind.FLOAT, Kind.DATE)
        typed = bool(others) and any(
            sum(is_readable(text, kind, grammar) for text in others) >= ENOUGH * len(others)
            for kind in kinds
            for grammar in (grammars if present else ())
        )
        if typed:
            words |= present
        else:
            in_text |= present
    return tuple(
        word
        for word in NULL_WORDS
        if word in (in_text & CERTAIN_NULL_WORDS) | (words - in_text) | (words & CERTAIN_NULL_WORDS)
    )


def grammar_words(grammar: CellGrammar) -> list[str]:
    """Return the options of the command line that say how cells are written."""
    words: list[str] = []
    if grammar.decimal != ".":
        words += ["--decimal", grammar.decimal]
    if grammar.thousands:
        words += ["--thousands", grammar.thousands]
    if grammar.date_format is not None:
        words += ["--date-format", grammar.date_format]
    for word in grammar.null:
        words += ["--null", word]
    return words
