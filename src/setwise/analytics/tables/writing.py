"""Guesses of how the cells of a text file are written: decimal points, thousands, dates, and words for empty cells.

The guesses are made from a sample of the file, for its data holder alone. Queries never use them: the data holder
declares the format, so that no private row can change how a file is read.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from shlex import join

from setwise.analytics.engines.typed_cells import (
    BLANKS,
    DAY_PARTS,
    ISO_MOMENT,
    MONTHS,
    SPACES,
    CellGrammar,
    date_pattern,
)
from setwise.analytics.schema import Kind
from setwise.analytics.tables.decimal_marks import has_two_marks, has_unclear_points

ENOUGH = 0.9
"""Share of a column's cells that must be readable as a kind for the column to be taken for that kind."""
_ERRORS = ("#DIV/0!", "#REF!", "#VALUE!", "#NAME?", "#NUM!", "#NULL!")
"""Words that spreadsheets write where a formula has failed."""
NULL_WORDS = (
    *("NULL", "null", "N/A", "n/a", "#N/A", *_ERRORS, "NaN", "nan", "None", "none", "\\N", "NA", "-", "--", "?", "."),
)
"""Words that programs write for empty cells."""
CERTAIN_NULL_WORDS = frozenset({"NULL", "null", "N/A", "n/a", "#N/A", *_ERRORS, "NaN", "nan", "\\N"})
"""Words that mean an empty cell even in a text column; NA is not among them, because it may be Namibia."""
DASHES = frozenset({"-", "--"})
"""Words that mean an empty cell in most text columns; a question notes them, and the data holder decides."""
DOUBTFUL_NULL_WORDS = ("NA", "None", "none", "-", "--")
"""Words that mean an empty cell or a value in a text column, so that the data holder must say which."""
NUMBERS = (
    (".", ""),
    (".", ","),
    (",", ""),
    (",", "."),
    (".", "'"),
    (".", "\u2019"),
    (".", " "),
    (",", " "),
)
"""Pairs of decimal point and thousands separator, the most usual first."""
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
    "%b %d %Y",
    "%d. %b %Y",
)
"""Date formats that are tried, in order of preference."""

KIND_WORDS = {
    Kind.INTEGER: "whole numbers",
    Kind.FLOAT: "numbers",
    Kind.BOOLEAN: "truth values",
    Kind.DATE: "dates",
    Kind.TIMESTAMP: "dates and times",
}
"""What the cells of a column of each kind are called in messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """A guess, from sampled cells, of how cells are written.

    - `grammar` is the format that reads the most cells, of the formats that were tried.
    - `other_dates` are further date formats that read as many cells, so that the data holder must choose.
    - `commas` are columns of numbers such as 1,234, which can be 1.234 or 1234. If there are any, `grammar` reads such
      cells neither way, because the data holder must choose.
    - `doubtful` has, by text column, words that may mean an empty cell or be values, such as NA (also Namibia).
    """

    grammar: CellGrammar
    other_dates: tuple[str, ...] = ()
    commas: tuple[str, ...] = ()
    doubtful: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def is_readable(cell: str, kind: Kind, grammar: CellGrammar) -> bool:
    """Return whether the text `cell` can be read as `kind`, if numbers and dates are written as `grammar` says.

    True for kinds other than numbers and dates.
    """
    text = cell.strip(BLANKS)
    match kind:
        case Kind.INTEGER:
            return re.fullmatch(grammar.integer, text) is not None
        case Kind.FLOAT:
            return re.fullmatch(grammar.float, text) is not None
        case Kind.DATE | Kind.TIMESTAMP:
            return iso_moment(text, grammar.date_format) is not None
        case _:
            return True


def readable_cells(cells: Sequence[str], kind: Kind, grammar: CellGrammar) -> int:
    """Return how many `cells` can be read as `kind`, such as dates; 0 if fewer than 90% of them can.

    `grammar` says how numbers and dates are written. Reading stops as soon as more than 10% of the cells were
    unreadable, because a file of thousands of columns is compared with twenty grammars, and nearly all fail at the
    first cells of a column.
    """
    unreadable = 0
    for cell in cells:
        unreadable += not is_readable(cell, kind, grammar)
        if len(cells) - unreadable < ENOUGH * len(cells):
            return 0
    return len(cells) - unreadable


def iso_moment(text: str, date_format: str | None) -> str | None:
    """Return `text`, a date with or without a time, with the date as in 2024-01-02; None if it cannot be read.

    The date must be written in the format `date_format`, or as year, month and day, such as 2024-1-2. The second way is
    not accepted if `date_format` itself begins with the year. If `date_format` is None, only the second way is
    accepted.
    """
    if date_format is not None:
        matched = re.fullmatch(f"{date_pattern(date_format)}(.*)", text)
        if matched is not None:
            text = _year_first(date_format, matched)
        elif date_format.startswith(("%Y", "%y")):
            return None
    parts = re.match(DAY_PARTS, text)
    if parts is None or re.fullmatch(ISO_MOMENT, text) is None:
        return None
    try:
        return f"{date(*map(int, parts.groups()))}{text[parts.end() :]}"
    except ValueError:
        return None


def _year_first(date_format: str, matched: re.Match[str]) -> str:
    """Return a date, or a date and time, with the date at its beginning rewritten in ISO order, as 2024-01-02.

    One check of ISO dates then serves all formats. `date_format` is the format in which the date is written, such as
    %d.%m.%Y. `matched` is the match of the whole text with the format's regular expression: it has a group for each
    part of the date, and a last group with the text after the date.
    """
    parts = dict(zip(re.findall("%(.)", date_format), matched.groups(), strict=False))
    year = parts.get("Y") or f"{'20' if parts['y'] < '69' else '19'}{parts['y']}"
    month = parts.get("m")
    if month is None:
        month = MONTHS.get(parts["b"].lower(), "00")
    return f"{year}-{month.zfill(2)}-{parts['d'].zfill(2)}{matched.groups()[-1]}"


def guess_grammar(columns: Mapping[str, Sequence[str]], declared: CellGrammar) -> Guess:
    """Return a guess of how cells are written: of the formats tried, the one that reads the most of the sampled cells.

    `columns` has sampled cells of each text column, by name. Settings that the data holder has `declared` are kept, and
    only the others are guessed.
    """
    null_words, doubtful = _null_words(columns)
    words = declared.null or null_words
    filled = {
        name: [cell for cell in cells if (text := cell.strip(BLANKS)) and text not in words]
        for name, cells in columns.items()
    }
    numbers = (
        [(declared.decimal, declared.thousands)] if (declared.decimal, declared.thousands) != NUMBERS[0] else NUMBERS
    )
    # No option reads numbers with two decimal points, but a thousands separator would misread half of them.
    clear = {name: cells for name, cells in filled.items() if not has_two_marks([cell.strip(BLANKS) for cell in cells])}
    readable = {each: _readable(clear, Kind.FLOAT, with_numbers(declared, *each)) for each in numbers}
    best = max(numbers, key=lambda each: readable[each])
    commas: tuple[str, ...] = ()
    if best == (".", ",") and readable[best] == readable.get((",", "")):
        commas = _unclear_columns(clear)
        best = numbers[0] if commas else best
    grammar = replace(with_numbers(declared, *best), null=tuple(words))
    if declared.date_format is not None:
        return Guess(grammar=grammar, doubtful=doubtful, commas=commas)
    scores = {each: _readable(filled, Kind.DATE, replace(grammar, date_format=each)) for each in (None, *_DATES)}
    highest = max(scores.values())
    best_formats = [each for each, score in scores.items() if score == highest and each is not None]
    if scores[None] == highest or not best_formats:
        return Guess(grammar=grammar, doubtful=doubtful, commas=commas)
    dated = replace(grammar, date_format=best_formats[0])
    return Guess(grammar=dated, other_dates=tuple(best_formats[1:]), doubtful=doubtful, commas=commas)


def _unclear_columns(columns: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the columns of numbers such as 1,234, whose comma may be a decimal point or stand between thousands.

    `columns` has sampled cells that are not empty, by column name. The result is empty if a cell in one of these
    columns shows that the commas of the file stand between thousands. There are two sorts of such cells:
    - 1,234,567 has two commas, but a number has only one decimal point.
    - 12 has no comma. If 1,234 in the same column were a decimal number with three places, 12 would be written 12,000.
    """
    numbers = {name: [cell.strip(BLANKS).lstrip("+-") for cell in cells] for name, cells in columns.items()}
    with_commas = {
        name: cells for name, cells in numbers.items() if any(re.fullmatch("[0-9]+(,[0-9]+)+", cell) for cell in cells)
    }
    # A number from 1 to 999 without a comma shows it, too: as a decimal number with three places it would have a comma.
    decided = any(
        re.fullmatch("[1-9][0-9]{0,2}(,[0-9]{3}){2,}|[1-9][0-9]{0,2}", cell)
        for cells in with_commas.values()
        for cell in cells
    )
    return () if decided else tuple(with_commas)


def with_numbers(grammar: CellGrammar, decimal: str, thousands: str) -> CellGrammar:
    """Return `grammar`, which says how cells are written, with another decimal point and thousands separator.

    For example, `decimal` is "," and `thousands` is "." if 1.234,5 is a number.
    """
    return replace(grammar, decimal=decimal, thousands=thousands)


def _readable(columns: Mapping[str, Sequence[str]], kind: Kind, grammar: CellGrammar) -> int:
    """Return how many sampled cells can be read as `kind`, such as dates, if cells are written as `grammar` says.

    The number is the score by which a guessed `grammar` is compared with others. `columns` has sampled cells by column
    name. Only columns in which at least 90% of the cells can be read are counted, because a column of text may contain
    a few numbers or dates.
    """
    return sum(readable_cells(cells, kind, grammar) for cells in columns.values())


def _null_words(columns: Mapping[str, Sequence[str]]) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return (words, doubtful): words that mean an empty cell, such as NULL, and doubtful words by column, such as NA.

    `columns` has sampled cells by column name. In a column of numbers or dates, every word of `NULL_WORDS` means an
    empty cell. In a column of text, words such as NULL mean an empty cell (`CERTAIN_NULL_WORDS`), and words such as NA
    are doubtful (`DOUBTFUL_NULL_WORDS`), because they may be values.
    """
    words: set[str] = set()
    in_text: set[str] = set()
    doubtful: dict[str, tuple[str, ...]] = {}
    for name, cells in columns.items():
        texts = [cell.strip(BLANKS) for cell in cells]
        present = {text for text in texts if text in NULL_WORDS}
        others = [text for text in texts if text and text not in NULL_WORDS]
        grammars = [CellGrammar(decimal=decimal, thousands=thousands) for decimal, thousands in NUMBERS]
        grammars += [CellGrammar(date_format=each) for each in _DATES]
        kinds = (Kind.FLOAT, Kind.DATE)
        typed = bool(others) and any(
            readable_cells(others, kind, grammar) > 0 for kind in kinds for grammar in (grammars if present else ())
        )
        if typed:
            words |= present
        else:
            in_text |= present
            uncertain = tuple(word for word in DOUBTFUL_NULL_WORDS if word in present)
            doubtful |= {name: uncertain} if uncertain else {}
    return tuple(word for word in NULL_WORDS if word in (in_text & CERTAIN_NULL_WORDS) | words), doubtful


def may_be_thousands(cells: Sequence[str], separator: str, grammar: CellGrammar) -> bool:
    """Return whether the points in sampled `cells`, such as 1.234, may be thousands separators and not decimal points.

    `separator` is the text between the cells of a line, and `grammar` says how numbers are written. The result is True
    only if a cell has a point, if three digits follow every point, if cells are separated by semicolons (as in
    countries with a decimal comma) or tabs, and if the decimal point of `grammar` is no comma.

    >>> [may_be_thousands([cell], ";", CellGrammar()) for cell in ("1.234", "1.23")]
    [True, False]
    """
    filled = [text for cell in cells if (text := cell.strip(BLANKS)) and text not in grammar.null]
    # every cell is an integer or has three digits after each point, and none begins with a zero, as 0.234 does
    return (
        has_unclear_points(separator)
        and grammar.decimal == "."
        and any("." in text for text in filled)
        and all(re.fullmatch(r"-?([0-9]+|[1-9][0-9]{0,2}([.][0-9]{3})+)", text) for text in filled)
    )


def thousands_note(name: str, write: Callable[[Sequence[str]], str] = join) -> str:
    """Return a sentence which warns that points in the numbers of the column `name` may be thousands separators.

    If every number looks like 1.234, it may be 1234 or a little more than one. The sentence says with which options the
    column is read in either way. `write` turns the options into text, by default for the command line.
    """
    options, as_decimal = write(["--thousands", ".", "--decimal", ","]), write(["--type", f"{name}=float"])
    return (
        f"every number of {name!r} is plain digits or has three digits after each point, so 1.234 may be 1234: add "
        f"{options} if it is, or {as_decimal} if it is one and a bit"
    )


def commas_note(name: str, write: Callable[[Sequence[str]], str] = join) -> str:
    """Return a sentence which asks the data holder what the commas in the numbers of the column `name` mean.

    The sentence offers two options, one for each meaning, which `write` turns into text (default: of the command line).
    """
    decimal, thousands = write(["--decimal", ","]), write(["--thousands", ","])
    return (
        f"every number of {name!r} has three digits after the comma: add {decimal} if 1,234 is one and a bit, or "
        f"{thousands} if it is 1234"
    )


_YES = frozenset(
    (
        *("ja", "j", "oui", "o", "si", "s\u00ed", "s", "sim", "da", "tak", "wahr", "vrai", "vero", "verdadero"),
        *("on", "x", "\u2713", "\u2714", "active", "aktiv", "set", "yes", "true"),
    )
)
"""Words, in lower case, that people write for a condition that holds."""


def condition_of_words(name: str, cells: Sequence[str]) -> tuple[str, str]:
    """Return (words, condition), for a note on a text column that was taken for truth values.

    For a column `member` with the cells Ja and Nein, they are "Ja and Nein" and "member = 'Ja'".

    - The words are one of the column's words for yes, and one of its other words.
    - The condition is SQL that a query can use instead of the column. It is true for all of the column's words for yes,
      as in member IN ('Ja', 'yes'). If the column has no word for yes, it is true for the first word in alphabetical
      order.

    `name` is the column's name, and `cells` are sampled cells of the column.
    """
    texts = sorted({text for cell in cells if (text := cell.strip(BLANKS))})
    yes = yes_words(texts) or texts[:1]
    shown = [yes[0], *(text for text in texts if text not in yes)][:2]
    column = name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else f'"{name}"'
    words = [f"'{word}'" for word in (word.replace("'", "''") for word in yes)]
    return " and ".join(shown), f"{column} = {words[0]}" if len(words) == 1 else f"{column} IN ({', '.join(words)})"


def yes_words(texts: Sequence[str]) -> list[str]:
    """Return those of `texts`, the distinct texts of a column, that people write for yes.

    The texts 1, t and y are returned only if the column also has a text that certainly means yes, such as Ja or x,
    because without it they may mean anything.
    """
    certain = [text for text in texts if text.casefold() in _YES]
    return [text for text in texts if text in certain or (certain and text.casefold() in ("1", "t", "y"))]


def grammar_words(grammar: CellGrammar) -> list[str]:
    """Return the command-line arguments that declare how cells are written, such as ["--decimal", ","].

    Settings of `grammar` that have their default value are left out.
    """
    words: list[str] = []
    if grammar.decimal != ".":
        words += ["--decimal", grammar.decimal]
    if grammar.thousands:
        # A space of another kind cannot be told from the usual one where it is printed, nor be typed.
        words += ["--thousands", "space" if grammar.thousands in SPACES else grammar.thousands]
    if grammar.date_format is not None:
        words += ["--date-format", grammar.date_format]
    for word in grammar.null:
        words += ["--null", word]
    return words
