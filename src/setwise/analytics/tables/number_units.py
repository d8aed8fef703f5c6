"""How numbers with units beside them, such as 81.4k or 5 kg, are written in a column, and what turns them into numbers.

Numbers in thousands beside plain ones, and kilograms beside grams, must never become one column of numbers by taking
the units out. A scale such as k or Mio. is multiplied out exactly; other units are taken out only if they are all the
same, or if the data holder says what the numbers without a unit are in.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from setwise.analytics.engines.typed_cells import SPACES, CellGrammar
from setwise.analytics.schema import Kind
from setwise.analytics.tables.writing import NUMBERS, readable_cells, with_numbers

DIGITS = f"[0-9][0-9.,' {''.join(SPACES)}]*"
"""The regular expression of the digits of a number, with decimal points and thousands separators."""
_WORD = "[^-+0-9,'()#!?*<>=~^&|@_:;{}\\[\\]\\\\`]{0,14}"
"""A word beside a number. It has no character that a shell would run or change between double quotes.

Texts such as #DIV/0! and <5 are no numbers with units.
"""
_UNIT = re.compile(f"([(]?)([-+]?) ?({_WORD}?) ?([-+]?)({DIGITS}?) ?({_WORD}?)([)]?)")
"""The regular expression of a number with or without a unit: (, sign, unit before, sign, number, unit after, )."""
SIGNS = ("$", "\u20ac", "\u00a3", "\u00a5", "\u20b9", "%")
"""Signs that stand before or after numbers in reports."""
_CODES = (
    "EUR USD GBP CHF JPY CNY INR SEK NOK DKK PLN CZK HUF RON BGN TRY CAD AUD NZD BRL MXN ZAR kr kr. Kr z\u0142 K\u010d "
    "SGD HKD KRW TWD THB MYR IDR PHP VND PKR AED SAR ILS EGP NGN KES RUB UAH ISK ARS CLP COP PEN "
    "Ft lei R$ Rs Rs. US$ CA$ A$ Fr Fr. \u20bd \u20ba \u20aa \u20a9 \u20ab \u0e3f"
)
CURRENCIES = frozenset((*_CODES.split(), *SIGNS)) - {"%"}
"""Codes and signs of currencies that stand beside numbers."""
SCALES: Mapping[str, int] = {
    **dict.fromkeys(("k", "K", "tsd", "tsd.", "Tsd", "Tsd.", "TSD", "Tausend", "thousand"), 1_000),
    **dict.fromkeys(("lakh", "Lakh"), 100_000),
    **dict.fromkeys(("M", "MM", "mio", "mio.", "Mio", "Mio.", "MIO", "mn", "Mn", "mln", "Mln"), 1_000_000),
    **dict.fromkeys(("million", "Million", "millions", "Millionen"), 1_000_000),
    **dict.fromkeys(("crore", "Crore", "Cr", "Cr."), 10_000_000),
    **dict.fromkeys(("bn", "Bn", "BN", "mrd", "mrd.", "Mrd", "Mrd.", "billion", "Milliarden"), 1_000_000_000),
}
"""Words beside a number by which the number has to be multiplied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumbersWithUnits:
    """The sampled numbers of a column, and the units that stand beside them.

    - `numbers` are the digits of each cell, with its points and commas.
    - `units` are the different pairs (unit before the number, unit after it); "" stands for a missing one. Cells
      without any unit add no pair. A scale is no part of a pair.
    - `scales` are the scales that occur, such as "k".
    - `has_plain` says whether a number other than 0 stands without a unit and without a scale.
    """

    numbers: tuple[str, ...]
    units: tuple[tuple[str, str], ...]
    scales: tuple[str, ...]
    has_plain: bool

    @property
    def words(self) -> list[str]:
        """All units and scales that occur, each once, for a sentence."""
        return sorted({word for pair in self.units for word in pair if word} | {*self.scales})

    @property
    def is_money(self) -> bool:
        """Whether all units are currencies, whose numbers have two decimal places or none."""
        words = {word for pair in self.units for word in pair if word}
        return bool(words) and words <= CURRENCIES


def numbers_with_units(filled: Sequence[str]) -> NumbersWithUnits | None:
    """Return the numbers and units in the sampled cells `filled` of a column, none of them empty.

    The result is None if no cell has a unit beside a number, or if fewer than 90% of the cells are numbers without
    their units. Only a currency may stand before a number: the letter of K123 or u1 makes it an identifier.

    >>> numbers_with_units(["5 kg", "7"]).units
    (('', 'kg'),)
    """
    found = map(_UNIT.fullmatch, filled)
    matches = [
        match if match and (match[3] + match[6]).strip(". ") and _may_stand_before(match[3].strip()) else None
        for match in found
    ]
    parts = [_parts(match) for match in matches if match is not None]
    units = {(before, after) for before, _, after in parts} - {("", "")}
    scales = {scale for _, scale, _ in parts} - {""}
    numbers = [match[5] if match is not None else text for match, text in zip(matches, filled, strict=True)]
    if not (units or scales) or not are_numbers(numbers):
        return None
    plain = [text for match, text in zip(matches, filled, strict=True) if match is None and text.strip("0.,+-")]
    return NumbersWithUnits(
        numbers=tuple(numbers), units=tuple(sorted(units)), scales=tuple(sorted(scales)), has_plain=bool(plain)
    )


def _may_stand_before(word: str) -> bool:
    """Return whether `word` may stand before a number: the sign or code of a currency in any case, or no word."""
    return not word or word in CURRENCIES or word.upper() in CURRENCIES or word == "%"


def _parts(match: re.Match[str]) -> tuple[str, str, str]:
    """Return (unit before, scale, unit after) of a match of `_UNIT`; a part that is missing is "".

    A scale stands directly after the number. Behind it follows a blank or a currency: "k" in "km" is no scale.
    """
    before, after = match[3].strip(), match[6].strip()
    for scale in sorted(SCALES, key=len, reverse=True):
        rest = after.removeprefix(scale)
        if after == scale or (after.startswith(scale) and (rest.startswith(" ") or rest in CURRENCIES)):
            return before, scale, rest.strip()
    return before, "", after


def are_numbers(texts: Sequence[str]) -> bool:
    """Return whether at least 90% of `texts` are numbers, all with the same decimal point and thousands separator."""
    return decimal_point(texts) is not None


def decimal_point(texts: Sequence[str]) -> str | None:
    """Return the decimal point with which most of `texts` are numbers; None if under 90% are numbers with either."""
    counts = {pair: readable_cells(texts, Kind.FLOAT, with_numbers(CellGrammar(), *pair)) for pair in NUMBERS}
    best = max(NUMBERS, key=lambda pair: counts[pair])
    return best[0] if counts[best] else None


def plain_pattern(units: Sequence[tuple[str, str]], scales: Sequence[str], *, may_lack: bool) -> str:
    """Return a regular expression that matches a whole cell: a number with one of `units`, and with or without a scale.

    The five groups of the expression match, in this order:
    - an opening parenthesis, which means a negative number;
    - a sign before the unit;
    - a sign after the unit;
    - the number;
    - one of `scales`.

    Each group but that of the number may match "". `may_lack` says that the unit may be missing, too. The expression
    has no backslash, because it stands between double quotes in a shell command, where a shell would change one.
    """
    befores, afters = ({pair[place] for pair in units} for place in (0, 1))
    before, after = (_one_of(words, may_lack=may_lack) for words in (befores, afters))
    scale = f"({'|'.join(map(_literal, sorted(scales, key=len, reverse=True)))})?" if scales else "()"
    return f"([(]?)([-+]?) ?{before} ?([-+]?)({DIGITS}?) ?{scale} ?{after} ?[)]?"


def _one_of(words: set[str], *, may_lack: bool) -> str:
    """Return a regular expression of one of `words`, or also of no word if `may_lack` is True or "" is among them."""
    filled = sorted(words - {""}, key=len, reverse=True)
    if not filled:
        return ""
    return f"(?:{'|'.join(map(_literal, filled))}){'?' if may_lack or '' in words else ''}"


def _literal(unit: str) -> str:
    r"""Return a regular expression that matches exactly the text `unit`, and that needs no backslash.

    A special character is put into brackets instead, as in kr[.] for "kr.". The expression stands between double
    quotes in a shell command, where the shell would change a backslash.
    """
    return "".join(character if character.isalnum() or character in " /" else f"[{character}]" for character in unit)


MINUS = "'-'*bool(re.search('[(-]',m[1]+m[2]+m[3]))"
"""A Python expression of the sign of a match of `plain_pattern`: "-" for -5 and for (5), else ""."""


def scaled_value(point: str, scales: Mapping[str, int], otherwise: int = 1) -> str:
    """Return a Python expression that computes the exact number of a cell, multiplied by its scale, as text.

    A command that copies a file uses it to write 81.4k as 81400. In it, `m` is the match of the cell with
    `plain_pattern`.

    - `point` is the decimal point of the cells, and of the new cells too.
    - `scales` has the factor of each scale, and `otherwise` is the factor of a number without one.
    """
    factors = ",".join(f"'{scale}':{factor}" for scale, factor in scales.items())
    number = f"decimal.Decimal(re.sub('[^0-9{point}]','',m[4]).replace('{point}','.'))"
    written = f"'{{:f}}'.format(({number}*{{{factors}}}.get(m[5],{otherwise})).normalize())"
    return f"{MINUS}+{written}" + (".replace('.',',')" if point == "," else "")
