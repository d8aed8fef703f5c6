"""Cells of text read as numbers, dates and the like: one grammar, in the SQL of DuckDB and of Spark.

Spaces, tabs and line ends around a cell are cut off. A cell outside the grammar of its kind is null.

integer    digits with an optional sign, and with an optional point and zeros: 7, +7, 007, 2.0, -0. ; 64 bits
float      a decimal number with an optional exponent: 1.5, .5, 5., 1e3; neither nan nor inf
boolean    true, t, yes, y, 1 and false, f, no, n, 0 in upper or lower case
date       2024-01-02, 2024/01/02 or 20240102, years 1 to 9999; a time of day or an offset after it is left out
timestamp  a date, then optionally T or a space and 10:30, 10:30:59 or 10:30:59.123456 (further digits are cut), then
           optionally Z, UTC or an offset such as +02:00, +0200 or +02: with one of these it is converted to UTC

Dates that begin with a day or a month are null: 01/02/2024 does not say which of them comes first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import InvalidParameter, UnknownColumn, UnsuitableTable

CONVERTIBLE = (Kind.TEXT, Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP)
"""What a column of text can be read as."""

BLANKS = " \t\r\n"
_INTEGER = "[+-]?[0-9]+([.]0*)?"
_FLOAT = "[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?"
_DAY = "([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}/[0-9]{2}/[0-9]{2}|[0-9]{8})"
_CLOCK = "([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?)?"
_OFFSET = "( ?(Z|UTC|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?))?"
_MOMENT = _DAY + _CLOCK + _OFFSET
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFunctions:
    """What the conversions need of an engine's SQL, as templates; the rest is the same in DuckDB and in Spark."""

    types: Mapping[Kind, tuple[str, ...]]
    """The types of the engine's dialect."""
    trimmed: str
    """A cell without the `BLANKS` around it."""
    matches: str
    """Whether a text as a whole matches a pattern."""
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


def converted(cell: str, kind: Kind, functions: TextFunctions) -> str:
    """Return the SQL of a cell of text as a value of the kind, or null."""
    text = functions.trimmed.format(cell)
    match kind:
        case Kind.INTEGER:
            matches, value = _INTEGER, functions.try_cast(f"split_part({text}, '.', 1)", kind)
        case Kind.FLOAT:
            matches, value = _FLOAT, functions.try_cast(text, kind)
        case Kind.BOOLEAN:
            true, false = (", ".join(f"'{word}'" for word in words) for words in (_TRUE, _FALSE))
            return f"CASE WHEN lower({text}) IN ({true}) THEN true WHEN lower({text}) IN ({false}) THEN false END"
        case Kind.DATE:
            matches, value = _MOMENT, f"CASE WHEN {_has_year(text)} THEN {functions.try_cast(_day(text), kind)} END"
        case Kind.TIMESTAMP:
            matches, value = _MOMENT, _timestamp(text, functions)
        case Kind.TEXT | Kind.DECIMAL | Kind.INSTANT | Kind.IDENTIFIER | Kind.OTHER:
            raise AssertionError("text is not read as such a kind")
        case _:
            assert_never(kind)
    return f"CASE WHEN {functions.matches.format(text, matches)} THEN {value} END"


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
