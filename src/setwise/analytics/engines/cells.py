"""Cells of text read as numbers, dates and the like: one grammar, in the SQL of DuckDB and of Spark.

Spaces, tabs and line ends around a cell are cut off. A cell outside the grammar of its kind is null.

integer    digits with an optional sign, and with an optional point and zeros: 7, +7, 007, 2.0, -0. ; 64 bits
float      a decimal number with an optional exponent: 1.5, .5, 5., 1e3; neither nan nor inf
boolean    true, t, yes, y, 1 and false, f, no, n, 0 in upper or lower case
date       2024-01-02, 2024/01/02 or 20240102, years 1 to 9999; a time of day or an offset after it is left out
timestamp  a date, then optionally T or a space and 10:30, 10:30:59 or 10:30:59.123456 (further digits are cut), then
           optionally Z, UTC or an offset such as +02:00, +0200 or +02: with one of these it is converted to UTC

Dates that begin with a day or a month are null: 01/02/2024 does not say which of them comes first. The holder of a
file may say otherwise with a `CellGrammar`: which character is the decimal point, which one stands between thousands,
in which order dates are written, and which words mean that a cell is empty.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import InvalidParameter, UnknownColumn, UnsuitableTable

CONVERTIBLE = (Kind.TEXT, Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP)
"""What a column of text can be read as."""

BLANKS = " \t\r\n"
_DAY = "([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}/[0-9]{2}/[0-9]{2}|[0-9]{8})"
_CLOCK = "([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?)?"
_OFFSET = "( ?(Z|UTC|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?))?"
ISO_MOMENT = _DAY + _CLOCK + _OFFSET
"""The pattern of a date or timestamp that begins with the year."""
DECIMALS = (".", ",")
"""Characters that may be the decimal point."""
THOUSANDS = ("", ",", ".", "'", "\u2019", "_", " ", "\u00a0", "\u202f")
"""Characters that may stand between thousands; the last two are spaces at which no line is broken."""
_DATE_PARTS = {
    "d": "[0-9]{1,2}",
    "m": "[0-9]{1,2}",
    "b": "[A-Za-z]{3}",
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
}
"""The patterns of the letters of a date format: day, month, month as Jan, year, the last two digits of a year."""
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellGrammar:
    """How the holder of a file says that numbers, dates and empty cells are written.

    `decimal` is the decimal point and `thousands` the character between groups of three digits, empty for none.
    `date_format` is the order of a date such as `%d.%m.%Y`, of the letters d, m (or b for Jan), Y (or y for two digits)
    after percent signs; a time of day may follow a date as it may follow 2024-01-02. `null` are words that stand for an
    empty cell, in any column of text.

    >>> CellGrammar(decimal=",", thousands=",")
    Traceback (most recent call last):
        ...
    setwise.errors.InvalidParameter: the decimal point and the character between thousands cannot both be ','
    """

    decimal: str = "."
    thousands: str = ""
    date_format: str | None = None
    null: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.decimal not in DECIMALS:
            raise InvalidParameter(f"the decimal point must be . or , and not {self.decimal!r}")
        if self.thousands not in THOUSANDS:
            shown = " ".join(THOUSANDS[1:6])
            raise InvalidParameter(
                f"what stands between thousands must be one of {shown} or a space, not {self.thousands!r}"
            )
        if self.decimal == self.thousands:
            raise InvalidParameter(
                f"the decimal point and the character between thousands cannot both be {self.decimal!r}"
            )
        if self.date_format is not None:
            letters = "".join(sorted(re.findall("%(.)", self.date_format))).replace("b", "m").replace("y", "Y")
            between = re.sub("%[dmbYy]", "", self.date_format)
            if "".join(sorted(letters)) != "Ydm" or not re.fullmatch("[-./ ,]*", between):
                raise InvalidParameter(
                    "a date format has %d, %m (or %b for Jan) and %Y (or %y for two digits) once each, with - . / , or "
                    f"spaces between them, as in %d.%m.%Y, not {self.date_format!r}"
                )
        if any(not word.strip() for word in self.null):
            raise InvalidParameter("a word for an empty cell cannot be empty: empty cells are null as they are")

    @property
    def integer(self) -> str:
        """The pattern of a whole number."""
        return f"[+-]?{self._digits}([{self.decimal}]0*)?"

    @property
    def float(self) -> str:
        """The pattern of a decimal number."""
        point = f"[{self.decimal}]"
        return f"[+-]?({self._digits}({point}[0-9]*)?|{point}[0-9]+)([eE][+-]?[0-9]+)?"

    @property
    def _digits(self) -> str:
        grouped = f"|[0-9]{{1,3}}([{self.thousands}][0-9]{{3}})+" if self.thousands else ""
        return f"([0-9]+{grouped})"


PLAIN_CELLS = CellGrammar()
"""Numbers with a point and no groups, dates that begin with the year, and no words for empty cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFunctions:
    """What the conversions need of an engine's SQL, as templates; the rest is the same in DuckDB and in Spark."""

    types: Mapping[Kind, tuple[str, ...]]
    """The types of the engine's dialect."""
    trimmed: str
    """A cell without the `BLANKS` around it."""
    matches: str
    """Whether a text as a whole matches a pattern, which is a literal."""
    literal: Callable[[str], str]
    """A text as a literal."""
    earlier: str
    """A timestamp a number of minutes before another."""

    def try_cast(self, text: str, kind: Kind) -> str:
        """Return the text as the engine's type of that kind, or null."""
        return f"TRY_CAST({text} AS {self.types[kind][0]})"


def check_types(types: Mapping[str, Kind]) -> dict[str, Kind]:
    """Return the kinds that columns are to be read as, or raise unless text can be read so."""
    for name, kind in types.items():
        if kind not in list(CONVERTIBLE):
            allowed = ", ".join(CONVERTIBLE)
            raise InvalidParameter(f"the type of column {name!r} must be one of {allowed}, not {kind!r}")
    return {name: Kind(kind) for name, kind in types.items()}


def converted_columns(types: Mapping[str, Kind], schema: Schema) -> tuple[Column, ...]:
    """Return the columns of text that are to be read as another kind, or raise unless the types fit the table."""
    found = []
    for name, kind in types.items():
        if name not in schema.names:
            raise UnknownColumn(f"the table has no column {name!r}; it has {schema.listing()}")
        column = schema.column(name)
        if column.kind is Kind.TEXT and kind is not Kind.TEXT:
            found.append(Column(name=name, kind=kind, from_text=True))
        elif column.kind is not kind:
            raise UnsuitableTable(f"column {name!r} holds {column.kind} values: only text can be read as {kind}")
    return tuple(found)


def converted(cell: str, kind: Kind, functions: TextFunctions, grammar: CellGrammar = PLAIN_CELLS) -> str:
    """Return SQL for a cell of text as a value of the kind, or null if the cell is outside the grammar.

    `cell` is SQL for the text.
    """
    text = functions.trimmed.format(cell)
    match kind:
        case Kind.INTEGER:
            number = _plain_number(text, functions, grammar)
            matches, value = grammar.integer, functions.try_cast(f"split_part({number}, '.', 1)", kind)
        case Kind.FLOAT:
            matches, value = grammar.float, functions.try_cast(_plain_number(text, functions, grammar), kind)
        case Kind.BOOLEAN:
            true, false = (", ".join(f"'{word}'" for word in words) for words in (_TRUE, _FALSE))
            return f"CASE WHEN lower({text}) IN ({true}) THEN true WHEN lower({text}) IN ({false}) THEN false END"
        case Kind.DATE:
            text = _year_first(text, functions, grammar)
            matches, value = ISO_MOMENT, f"CASE WHEN {_has_year(text)} THEN {functions.try_cast(_day(text), kind)} END"
        case Kind.TIMESTAMP:
            text = _year_first(text, functions, grammar)
            matches, value = ISO_MOMENT, _timestamp(text, functions)
        case Kind.TEXT | Kind.DECIMAL | Kind.INSTANT | Kind.IDENTIFIER | Kind.OTHER:
            raise AssertionError("text is not read as such a kind")
        case _:
            assert_never(kind)
    return f"CASE WHEN {functions.matches.format(text, functions.literal(matches))} THEN {value} END"


def filled(cell: str, functions: TextFunctions, words: Sequence[str]) -> str:
    """Return SQL for a cell of text, null where the cell is one of the words for an empty cell."""
    if not words:
        return cell
    listed = ", ".join(functions.literal(word) for word in words)
    return f"CASE WHEN {functions.trimmed.format(cell)} NOT IN ({listed}) THEN {cell} END"


def date_pattern(date_format: str) -> str:
    """Return the pattern of a date that is written in a format, with its three parts as groups."""
    pieces = re.split("%(.)", date_format)
    between, letters = pieces[0::2], pieces[1::2]
    parts = [f"({_DATE_PARTS[letter]})" for letter in letters]
    return "".join(f"{re.escape(before)}{part}" for before, part in zip(between, [*parts, ""], strict=True))


def _plain_number(text: str, functions: TextFunctions, grammar: CellGrammar) -> str:
    """Return SQL for a number with a decimal point and without anything between thousands."""
    if grammar.thousands:
        text = f"replace({text}, {functions.literal(grammar.thousands)}, '')"
    return text if grammar.decimal == "." else f"replace({text}, '{grammar.decimal}', '.')"


def _year_first(text: str, functions: TextFunctions, grammar: CellGrammar) -> str:
    """Return SQL for a moment that begins as 2024-01-02, from one whose date is written as the holder says.

    A moment that begins with four digits of a year is left as it is, unless the holder's format begins so itself.
    """
    if grammar.date_format is None:
        return text
    day = date_pattern(grammar.date_format)
    letters = re.findall("%(.)", grammar.date_format)
    pattern = f"^{day}(.*)$"
    places = {letter: place for place, letter in enumerate(letters, start=1)}

    def part(letter: str) -> str:
        return f"regexp_extract({text}, {functions.literal(pattern)}, {places[letter]})"

    year = part("Y") if "Y" in places else f"concat(CASE WHEN {part('y')} < '69' THEN '20' ELSE '19' END, {part('y')})"
    month = f"lpad({part('m')}, 2, '0')" if "m" in places else ""
    if not month:
        named = " ".join(f"WHEN '{name}' THEN '{number:02}'" for number, name in enumerate(MONTHS, start=1))
        month = f"CASE lower({part('b')}) {named} ELSE '00' END"
    rest = f"regexp_extract({text}, {functions.literal(pattern)}, 4)"
    written = f"concat({year}, '-', {month}, '-', lpad({part('d')}, 2, '0'), {rest})"
    matched = functions.matches.format(text, functions.literal(f"{day}.*"))
    other = "NULL" if letters[0] in "Yy" else text
    return f"(CASE WHEN {matched} THEN {written} ELSE {other} END)"


def _has_year(text: str) -> str:
    return f"substr({text}, 1, 4) <> '0000'"


def _day(text: str) -> str:
    """Return the day of a moment, as 2024-01-02."""
    digits = f"replace(replace(substr({text}, 1, 10), '-', ''), '/', '')"
    return f"concat(substr({digits}, 1, 4), '-', substr({digits}, 5, 2), '-', substr({digits}, 7, 2))"


def _timestamp(text: str, functions: TextFunctions) -> str:
    after = f"substr({text}, CASE WHEN substr({text}, 5, 1) IN ('-', '/') THEN 11 ELSE 9 END)"
    clock = f"substr(regexp_extract({after}, '^[ T]([0-9:.]+)', 1), 1, 15)"
    offset = f"regexp_extract({after}, '([+-][0-9:]+)$', 1)"
    local = functions.try_cast(f"concat({_day(text)}, ' ', coalesce(nullif({clock}, ''), '00:00'))", Kind.TIMESTAMP)
    hours = functions.try_cast(f"substr({offset}, 1, 3)", Kind.INTEGER)
    minutes = functions.try_cast(f"concat(substr({offset}, 1, 1), right({offset}, 2))", Kind.INTEGER)
    shift = f"60 * {hours} + CASE WHEN length({offset}) > 3 THEN {minutes} ELSE 0 END"
    moment = f"CASE WHEN {offset} = '' THEN {local} ELSE {functions.earlier.format(local, shift)} END"
    return f"CASE WHEN {_has_year(text)} AND EXTRACT(YEAR FROM {moment}) BETWEEN 1 AND 9999 THEN {moment} END"
