"""Sentences for the data holder about numbers in forms that are not read, with a command that writes plain numbers.

The forms are a minus after the digits or of another character, ="5" as spreadsheets write texts, groups of two digits
as in India, and a unit or currency code such as kr beside the number.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.engines.typed_cells import BLANKS, CellGrammar
from setwise.analytics.schema import Kind
from setwise.analytics.tables.clean_copies import with_changed_cells
from setwise.analytics.tables.writing import NULL_WORDS, NUMBERS, is_readable, readable_cells, with_numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """A form in which numbers are written but not read, such as 5- for -5, and how to turn it into a plain number.

    - `held` describes the form in a sentence about the cells, such as "have the minus after the digits".
    - `pattern` is the regular expression that a whole cell in this form matches.
    - `group` is the number of the group (parentheses) of `pattern` that matches the digits; 0 is the whole cell.
    - `sign` is "-" if a minus has to be written before these digits, else "".
    - `value` is a Python expression for the plain number, used in a command that writes a copy of the file. In it, `m`
      is the match of the cell, as in "'-'+m[1]".
    """

    held: str
    pattern: str
    group: int
    sign: str
    value: str


_DIGITS = "[0-9][0-9.,' ]*"
_FORMS = (
    _Form(held="have the minus after the digits", pattern=f"({_DIGITS}?) ?-", group=1, sign="-", value="'-'+m[1]"),
    _Form(
        held="have a minus that is another character",
        pattern=f"[\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d] ?({_DIGITS})",
        group=1,
        sign="-",
        value="'-'+m[1]",
    ),
    _Form(held="are written as texts by a spreadsheet", pattern="=.([^=]*).", group=1, sign="", value="m[1]"),
    _Form(
        held="have commas between groups of two digits",
        pattern="[+-]?[0-9]{1,3}(,[0-9]{2,3})+([.][0-9]+)?",
        group=0,
        sign="",
        value="m[0].replace(',','')",
    ),
)
_WORD = "[^-+0-9,'()#!?*<>=~^&|@_:;{}\\[\\]\\\\]{0,12}"
_UNIT = f"({_WORD}?) ?([-+]?{_DIGITS}?) ?({_WORD})"
"""The regular expression of a number with or without a unit; its groups are a unit before, the number, a unit after.

Texts such as #DIV/0! and <5 are no numbers with units.
"""
_CURRENCIES = frozenset(
    (
        *(
            "EUR",
            "USD",
            "GBP",
            "CHF",
            "JPY",
            "CNY",
            "INR",
            "SEK",
            "NOK",
            "DKK",
            "PLN",
            "CZK",
            "HUF",
            "RON",
            "BGN",
            "TRY",
        ),
        *(
            "CAD",
            "AUD",
            "NZD",
            "BRL",
            "MXN",
            "ZAR",
            "kr",
            "kr.",
            "Kr",
            "z\u0142",
            "K\u010d",
            "Ft",
            "lei",
            "R$",
            "Rs",
            "Rs.",
        ),
        *("US$", "CA$", "A$", "Fr", "Fr.", "\u20bd", "\u20ba", "\u20aa", "\u20a9", "\u20ab", "\u0e3f"),
    )
)
"""Codes and signs of currencies that stand beside numbers."""


def number_form_sentence(
    name: str,
    cells: Sequence[str],
    file: TableFile | None,
    csv: CsvOptions,
    names: Sequence[str],
    *,
    is_number: bool,
) -> tuple[str, str]:
    """Return (sentence, command) about a column whose numbers are in a form that is not read, such as 5- or kr 5.

    The sentence tells the data holder that the numbers are not read. The command is a shell command that writes a copy
    of the file with plain numbers, and the sentence ends with it. If no command can write the copy, or if the numbers
    have several units, the command is "", and the sentence ends with advice. The result is ("", "") if the column has
    no such numbers.

    - `name` is the column, and `cells` are sampled cells of the column.
    - `file` is the table's file, or None if the table has several files or none. `csv` says how the file is written,
      and `names` are its columns in order.
    - `is_number` says that the column is to be read as numbers. Otherwise a word beside a number is taken for a unit
      only if it is a currency, because texts such as item 5 are no numbers.
    """
    filled = [text for cell in cells if (text := cell.strip(BLANKS)) and text not in NULL_WORDS]
    for form in _FORMS:
        plain = [
            form.sign + match[form.group].replace(",", "" if form.group == 0 else ",") if match else text
            for text in filled
            for match in [re.fullmatch(form.pattern, text)]
        ]
        if plain != filled and _are_numbers(plain):
            return _sentence(name, form.held, form.pattern, form.value, file, csv, names)
    matches = [re.fullmatch(_UNIT, text) for text in filled]
    units = sorted({(match[1].strip(), match[3].strip()) for match in matches if match} - {("", "")})
    plain = [match[2] if match else text for match, text in zip(matches, filled, strict=True)]
    words = [unit for pair in units for unit in pair if unit]
    if not words or not (is_number or set(words) <= _CURRENCIES) or not _are_numbers(plain):
        return "", ""
    held = f"have {' or '.join(map(repr, words[:_MOST_WORDS]))} beside them"
    if len(units) > 1:
        return f"numbers of {name!r} {held}, which are not read: convert them to one unit in the file", ""
    before, after = (_literal(unit) for unit in units[0])
    value = f"({_DIGITS}?)".replace("'", "")
    return _sentence(name, held, f"{before} ?([-+]?){value} ?{after}", "m[1]+m[2]", file, csv, names)


_MOST_WORDS = 3
"""The most units that a sentence lists."""


def _sentence(
    name: str, held: str, pattern: str, value: str, file: TableFile | None, csv: CsvOptions, names: Sequence[str]
) -> tuple[str, str]:
    """Return (sentence, command): that numbers of the column `name` are not read, and what writes plain numbers.

    The command is a shell command that writes a copy of the file with plain numbers. The sentence ends with it. If
    there is no such command, the command is "", and the sentence ends with advice.

    - `held` describes the numbers in words, such as "have the minus after the digits".
    - `pattern` is a regular expression. The command replaces each cell of the column that matches it.
    - `value` is a Python expression for the new cell, in which `m` is the match of the old cell.
    - `file` is the table's file, or None if the table has several files or none. `csv` says how the file is written,
      and `names` are its columns in order.
    """
    pattern = pattern.replace("'", "")  # an apostrophe would end the pattern in the command
    command = with_changed_cells(file, csv, names, name, pattern, value) if file is not None else ""
    remedy = f"a copy with plain numbers: {command}" if command else "write plain numbers in the file"
    return f"numbers of {name!r} {held}, which are not read: {remedy}", command


def _are_numbers(texts: Sequence[str]) -> bool:
    """Return whether at least 90% of `texts` are numbers, all with the same decimal point and thousands separator."""
    grammars = [with_numbers(CellGrammar(), *numbers) for numbers in NUMBERS]
    return any(readable_cells(texts, Kind.FLOAT, grammar) for grammar in grammars)


def _literal(unit: str) -> str:
    r"""Return a regular expression that matches exactly the text `unit`, and that needs no backslash.

    A special character is put into brackets instead, as in kr[.] for "kr.". The expression stands between double
    quotes in a shell command, where the shell would change a backslash.
    """
    return "".join(character if character.isalnum() or character in " /" else f"[{character}]" for character in unit)


def mixed_numbers_sentence(name: str, cells: Sequence[str]) -> str:
    """Return a sentence if half or more of the sampled `cells` of a text column are numbers, but not all; else "".

    Such a column is read as text. The sentence states the option that reads the column `name` as numbers; a sum then
    skips the other cells, such as unknown. `cells` are different from each other.
    """
    filled = [text for cell in cells if (text := cell.strip(BLANKS)) and text not in NULL_WORDS]
    others = [text for text in filled if not is_readable(text, Kind.FLOAT, CellGrammar())]
    if not others or 2 * len(others) > len(filled):
        return ""
    return (
        f"most different cells of {name!r} are numbers, but others are not, such as {examples(others)}: "
        f"if they are amounts, --type {name}=float reads the numbers and skips the others"
    )


def examples(cells: Sequence[str]) -> str:
    """Return up to three different `cells`, as text in quotes, which show the data holder what cannot be read."""
    shown = sorted({cell.strip(BLANKS)[:40] for cell in cells})
    return " or ".join(map(repr, [shown[0], shown[len(shown) // 2], shown[-1]] if len(shown) > 3 else shown))
