"""The grammar by which text cells are read as numbers, dates or empty (`--null`), as SQL of DuckDB and of Spark.

Spaces, tabs and line ends around a cell are ignored. A cell that does not fit the grammar of its type is null.

integer    digits with an optional sign, and with an optional point and zeros: 7, +7, 007, 2.0, -0. ; 64 bits
float      a decimal number with an optional exponent: 1.5, .5, 5., 1e3; neither nan nor inf
boolean    true, t, yes, y, 1 and false, f, no, n, 0 in upper or lower case
date       2024-01-02, 2024-1-2, 2024/01/02 or 20240102, years 1 to 9999; a time of day or an offset after it is ignored
timestamp  a date, then optionally T or a space and 9:30, 09:30, 09:30:59 or 09:30:59.123456 (further digits are cut),
           then optionally Z, UTC or an offset such as +02:00, +0200 or +02, with which it is converted to UTC

Dates that begin with a day or a month are null, because 01/02/2024 does not say which of the two comes first. The data
holder can choose another grammar with a `CellGrammar`: the decimal point, the thousands separator, the order of dates,
and words that mean an empty cell.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import assert_never

from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import InvalidParameter, UnknownColumn, UnsuitableTable

CONVERTIBLE = (Kind.TEXT, Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP)
"""The kinds that a column of text can be read as."""

BLANKS = " \t\r\n"
_DAY = "([0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}|[0-9]{8})"
_CLOCK = "([ T]([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?)?"
_OFFSET = "( ?(Z|UTC|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?))?"
ISO_MOMENT = _DAY + _CLOCK + _OFFSET
"""The regular expression of a date or timestamp that begins with the year."""
DAY_PARTS = "([0-9]{4})[-/]?([0-9]{1,2})[-/]?([0-9]{1,2})"
"""The regular expression of the date in a text that matches `ISO_MOMENT`; its groups are year, month and day."""
DECIMALS = (".", ",")
"""The characters that can be the decimal point."""
SPACES = " \u00a0\u2009\u202f"
"""The spaces that stand between thousands: the usual one, the non-breaking one, and a thin one of each kind."""
DIVIDED_DIGITS = "[+(]{0,2}[0-9][0-9 ()./-]{5,}[0-9]"
"""The regular expression of users of digits with signs between them, such as 0170/1234567."""
THOUSANDS = ("", ",", ".", "'", "\u2019", "_", "space", " ", "\u00a0", "\u202f")
"""What can separate thousands; "" means none. "space" and the usual space stand for each of `SPACES`."""
_DATE_PARTS = {
    "d": "[0-9]{1,2}",
    "m": "[0-9]{1,2}",
    "b": "[A-Za-z]{3,9}",
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
}
"""The regular expression for each letter of a date format.

The letters are d (day), m (month), b (month as Jan or January), Y (year) and y (last two digits of the year).
"""
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
MONTHS = {name: f"{place:02}" for place, month in enumerate(_MONTHS, start=1) for name in (month[:3], month)}
"""The number of each month, as two digits, by its name in lower case and by the first three letters of the name."""
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellGrammar:
    """How numbers, dates and empty cells are written in a table's text columns, as the data holder declares it.

    - `decimal` is the decimal point.
    - `thousands` is the character between groups of three digits, "space" for any of `SPACES`, or "" for none.
    - `date_format` is the format of dates, such as `%d.%m.%Y`, made of %d, %m (or %b for Jan or January) and %Y (or %y
      for two digits). None means that dates begin with the year, as in 2024-01-02. A time of day may follow a date.
    - `null` are words that stand for an empty cell in any text column.

    Raises: `InvalidParameter` for bad values.

    >>> CellGrammar(decimal=",", thousands=",")
    Traceback (most recent call last):
        ...
    setwise.errors.InvalidParameter: the decimal point and the thousands separator cannot both be ',': add --decimal .
    """

    decimal: str = "."
    thousands: str = ""
    date_format: str | None = None
    null: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.decimal not in DECIMALS:
            raise InvalidParameter(f"the decimal point must be . or , and not {self.decimal!r}")
        if self.thousands not in THOUSANDS:
            separators = " ".join(THOUSANDS[1:7])
            raise InvalidParameter(f"what stands between thousands must be one of {separators}, not {self.thousands!r}")
        if self.decimal == self.thousands:
            raise InvalidParameter(
                f"the decimal point and the thousands separator cannot both be {self.decimal!r}: add --decimal "
                f"{',' if self.decimal == '.' else '.'}"
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
    def thousands_marks(self) -> str:
        """The characters that can each stand between groups of three digits; "" for none.

        If spaces are declared, these are all kinds of spaces (`SPACES`), because they look the same to a person.
        """
        return SPACES if self.thousands in ("space", " ") else self.thousands

    @property
    def integer(self) -> str:
        """The regular expression of a text cell that is an integer.

        A sign, this grammar's thousands separators, and zeros after its decimal point are allowed.
        """
        return f"[+-]?{self._digits}([{self.decimal}]0*)?"

    @property
    def float(self) -> str:
        """The regular expression of a text cell that is a number: 1.5, .5, 1e-5, with this grammar's decimal point."""
        point = f"[{self.decimal}]"
        return f"[+-]?({self._digits}({point}[0-9]*)?|{point}[0-9]+)([eE][+-]?[0-9]+)?"

    @property
    def _digits(self) -> str:
        """The regular expression of a number's digits before the decimal point, plain or with thousands separators."""
        # A group of thousands never begins with a zero: 0,234 is a decimal number, and not 234.
        marks = self.thousands_marks
        grouped = f"|[1-9][0-9]{{0,2}}([{marks}][0-9]{{3}})+" if marks else ""
        return f"([0-9]+{grouped})"


PLAIN_CELLS = CellGrammar()
"""The default grammar: decimal point, no thousands separators, dates that begin with the year, no words for null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFunctions:
    """The SQL templates of one engine (DuckDB or Spark) that convert text cells to numbers, dates and other types.

    Templates are for `str.format`; their arguments are SQL expressions.

    - `types` are the names of the engine's SQL types by kind.
    - `trimmed` is the template of a text without the blanks around it.
    - `matches` is the template of the condition that a whole text (first argument) matches a pattern (second).
    - `literal` is a function that returns a text as a quoted SQL literal.
    - `earlier` is the template of a timestamp (first argument) moved back by a number of minutes (second), by which a
      time with an offset such as +01:00 becomes UTC.
    """

    types: Mapping[Kind, tuple[str, ...]]
    trimmed: str
    matches: str
    literal: Callable[[str], str]
    earlier: str

    def try_cast(self, text: str, kind: Kind) -> str:
        """Return a SQL expression that casts the SQL `text` to the engine's type for `kind`; null if that fails."""
        return f"TRY_CAST({text} AS {self.types[kind][0]})"


def check_types(types: Mapping[str, Kind]) -> dict[str, Kind]:
    """Return a copy of `types`, a dict from column names to types, in which every type is a `Kind`.

    The types are those that columns of text are read as. A type may also be given as text, such as "date".
    Raises: `InvalidParameter` for a type that texts cannot be converted to.
    """
    for name, kind in types.items():
        if kind not in list(CONVERTIBLE):
            allowed = ", ".join(CONVERTIBLE)
            raise InvalidParameter(f"the type of column {name!r} must be one of {allowed}, not {kind!r}")
    return {name: Kind(kind) for name, kind in types.items()}


def converted_columns(types: Mapping[str, Kind], schema: Schema) -> tuple[Column, ...]:
    """Return the text columns that are to be read as another type, each as a `Column` of that type.

    Columns of integers of 128 bits are among them, of which the integers of 64 bits can be read.

    `types` maps columns to the types that the data holder declared. `schema` has the columns as they are stored.

    Raises: `UnknownColumn` for a column that the table lacks, `UnsuitableTable` for one that is stored neither as text
    nor in the declared type.
    """
    conversions = []
    for name, kind in types.items():
        if name not in schema.names:
            raise UnknownColumn(f"the table has no column {name!r}; it has {schema.listing()}")
        column = schema.column(name)
        is_convertible = column.kind is Kind.TEXT or (column.has_long_integers and kind is Kind.INTEGER)
        if is_convertible and kind is not Kind.TEXT:
            conversions.append(Column(name=name, kind=kind, from_text=True))
        elif column.kind is not kind:
            raise UnsuitableTable(f"column {name!r} holds {column.kind} values: only text can be read as {kind}")
    return tuple(conversions)


def convert_cell(cell: str, kind: Kind, functions: TextFunctions, grammar: CellGrammar = PLAIN_CELLS) -> str:
    """Return a SQL expression that converts a text cell to `kind`; null if the cell is not written as `grammar` says.

    `cell` is the SQL expression of the cell, and `functions` has the SQL by which the engine trims, matches and casts
    texts.
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


def null_if_word(cell: str, functions: TextFunctions, words: Sequence[str]) -> str:
    """Return a SQL expression for a text cell that is null if the cell, without blanks around it, is one of `words`.

    `cell` is the SQL expression of the cell, `functions` are the engine's SQL templates, and `words` are the words that
    stand for an empty cell, such as NA.
    """
    if not words:
        return cell
    listed = ", ".join(functions.literal(word) for word in words)
    return f"CASE WHEN {functions.trimmed.format(cell)} NOT IN ({listed}) THEN {cell} END"


@cache
def date_pattern(date_format: str) -> str:
    """Return the regular expression of a date written in `date_format`, such as %d.%m.%Y.

    Its three groups capture day, month and year, in the order in which the format has them.
    """
    pieces = re.split("%(.)", date_format)
    between, letters = pieces[0::2], pieces[1::2]
    parts = [f"({_DATE_PARTS[letter]})" for letter in letters]
    return "".join(f"{re.escape(before)}{part}" for before, part in zip(between, [*parts, ""], strict=True))


def _plain_number(text: str, functions: TextFunctions, grammar: CellGrammar) -> str:
    """Return a SQL expression that rewrites the text of a number to a plain decimal, as 1.234,5 to 1234.5.

    `text` is the SQL expression of the text, and `grammar` says which decimal point and thousands separators the text
    uses. `functions` writes SQL constants as the engine does.
    """
    for mark in grammar.thousands_marks:
        text = f"replace({text}, {functions.literal(mark)}, '')"
    return text if grammar.decimal == "." else f"replace({text}, '{grammar.decimal}', '.')"


def _year_first(text: str, functions: TextFunctions, grammar: CellGrammar) -> str:
    """Return a SQL expression that rewrites a date, or date and time, so that it begins with the date as 2024-01-02.

    `text` is the SQL expression of a text cell, and `functions` are the engine's SQL templates. The date format is
    `grammar.date_format`; without one, `text` is returned as it is. A cell that is in the format is rewritten: for
    %d.%m.%Y, 2.1.2024 10:30 -> 2024-01-02 10:30. For any other cell there are two cases:

    - If the format begins with the day or the month, the cell stays unchanged, because a date such as 2024-01-02 is
      then read as well.
    - If the format begins with the year, the cell becomes null.
    """
    if grammar.date_format is None:
        return text
    day = date_pattern(grammar.date_format)
    letters = re.findall("%(.)", grammar.date_format)
    pattern = f"^{day}(.*)$"
    places = {letter: place for place, letter in enumerate(letters, start=1)}

    def part(letter: str) -> str:
        """Return a SQL expression for one part (day, month or year) of the date that the text cell states.

        `letter` is d for the day, m or b for the month, Y or y for the year, as in the date format. The part is a text
        of digits, or the name of a month.
        """
        return f"regexp_extract({text}, {functions.literal(pattern)}, {places[letter]})"

    year = part("Y") if "Y" in places else f"concat(CASE WHEN {part('y')} < '69' THEN '20' ELSE '19' END, {part('y')})"
    month = f"lpad({part('m')}, 2, '0')" if "m" in places else ""
    if not month:
        named = " ".join(f"WHEN '{name}' THEN '{number}'" for name, number in MONTHS.items())
        month = f"CASE lower({part('b')}) {named} ELSE '00' END"
    remainder = f"regexp_extract({text}, {functions.literal(pattern)}, 4)"
    rewritten = f"concat({year}, '-', {month}, '-', lpad({part('d')}, 2, '0'), {remainder})"
    matched = functions.matches.format(text, functions.literal(f"{day}.*"))
    # A cell in another format may be a date that begins with the year, which is also read.
    other = "NULL" if letters[0] in "Yy" else text
    return f"(CASE WHEN {matched} THEN {rewritten} ELSE {other} END)"


def _has_year(text: str) -> str:
    """Return a SQL condition that a date does not have the year 0000; `text` is the SQL of a date as 2024-01-02."""
    return f"substr({text}, 1, 4) <> '0000'"


def _day(text: str) -> str:
    """Return a SQL expression that rewrites a date such as 2024/1/2 or 20240102 with dashes, as 2024-1-2 or 2024-01-02.

    `text` is the SQL expression of the date. A time of day that follows the date is dropped.
    """
    separated = f"replace(regexp_extract({text}, '^{_DAY}', 1), '/', '-')"
    compact = f"concat(substr({text}, 1, 4), '-', substr({text}, 5, 2), '-', substr({text}, 7, 2))"
    return f"CASE WHEN substr({text}, 5, 1) IN ('-', '/') THEN {separated} ELSE {compact} END"


def _timestamp(text: str, functions: TextFunctions) -> str:
    """Return a SQL expression that converts a text such as 2024-01-02T03:04:05+01:00 to a timestamp without time zone.

    `text` is the SQL expression of the text, and `functions` are the engine's SQL templates. A time with an offset is
    converted to UTC. Null if the conversion fails or the year is not in 1 to 9999.
    """
    # Digits after the sixth of a second are cut.
    clock = f"regexp_extract({text}, '^[-/0-9]+[ T]([0-9:]+([.][0-9]{{1,6}})?)', 1)"
    offset = f"regexp_extract({text}, '^{_DAY}[^-+]*([-+][0-9:]+)$', 2)"
    local = functions.try_cast(f"concat({_day(text)}, ' ', coalesce(nullif({clock}, ''), '00:00'))", Kind.TIMESTAMP)
    hours = functions.try_cast(f"substr({offset}, 1, 3)", Kind.INTEGER)
    minutes = functions.try_cast(f"concat(substr({offset}, 1, 1), right({offset}, 2))", Kind.INTEGER)
    shift = f"60 * {hours} + CASE WHEN length({offset}) > 3 THEN {minutes} ELSE 0 END"
    moment = f"CASE WHEN {offset} = '' THEN {local} ELSE {functions.earlier.format(local, shift)} END"
    return f"CASE WHEN {_has_year(text)} AND EXTRACT(YEAR FROM {moment}) BETWEEN 1 AND 9999 THEN {moment} END"
