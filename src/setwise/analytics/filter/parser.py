"""Filters as people write them, read into an expression that was checked against the table.

The text becomes tokens, each with its place for messages; a constant is read as the kind of the column that it is
compared with; the grammar has one method a rule.
"""

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import assert_never

from setwise.analytics.filter.expression import (
    Comparison,
    Every,
    Expression,
    Filter,
    Membership,
    Missing,
    Not,
    Operator,
    Pattern,
    Some,
    Value,
)
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import InvalidFilter

LONGEST = 10_000
LONGEST_PATTERN = 1_000
"""Characters of a pattern: matching a longer one takes some engines more stack than they have, on rows that fit it."""

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


_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?))?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")
LARGEST = 2**63


def constant(column: Column, token: Token) -> Value:
    """Return the constant as a value of the column's kind, or raise `InvalidFilter`.

    Checking here means that no engine has to convert a value of the table, which could fail on some tables and not on
    others. Dates and times may be written as plain text too.
    """
    value = _read(column, token)
    if value is None:
        raise InvalidFilter(
            f"column {column.name!r} holds {column.kind} values and must be compared with {_wanted(column)}, "
            f"not with {token.says!r} at character {token.place}{_csv_hint(column, token)}"
        )
    return value


def _csv_hint(column: Column, token: Token) -> str:
    if column.kind is not Kind.TEXT or token.kind is not TokenKind.NUMBER:
        return ""
    return f"; if it is of a CSV file, give its type, as in --type {column.name}=integer"


def _read(column: Column, token: Token) -> Value | None:
    said = token.says
    match column.kind, token.kind:
        case Kind.TEXT, TokenKind.TEXT:
            return said
        case Kind.INTEGER, TokenKind.NUMBER:
            whole = int(said) if _WHOLE.fullmatch(said) else None
            return whole if whole is not None and -LARGEST <= whole < LARGEST else None
        case Kind.FLOAT, TokenKind.NUMBER:
            number = float(said)
            return number if math.isfinite(number) else None
        case Kind.DECIMAL, TokenKind.NUMBER:
            return _decimal(column, said)
        case Kind.BOOLEAN, TokenKind.WORD:
            return {"true": True, "false": False}.get(said)
        case Kind.DATE, TokenKind.TEXT:
            return _date(said)
        case (Kind.TIMESTAMP, TokenKind.TEXT) | (Kind.INSTANT, TokenKind.TEXT):
            return _moment(column.kind, said)
        case _:
            return None


def _decimal(column: Column, said: str) -> Decimal | None:
    """Return the decimal if the column's type can hold it, so that both sides compare as that type."""
    try:
        value = Decimal(said)
    except InvalidOperation:
        return None
    if not value.is_finite() or abs(value.adjusted()) > 100:
        return None
    fraction = -min(0, int(value.normalize().as_tuple().exponent))
    if column.scale is not None and fraction > column.scale:
        return None
    if column.precision is not None and value and value.adjusted() + 1 + (column.scale or 0) > column.precision:
        return None
    return value


def _date(said: str) -> date | None:
    try:
        return date.fromisoformat(said) if _DATE.fullmatch(said) else None
    except ValueError:
        return None


def _moment(kind: Kind, said: str) -> datetime | None:
    """Return the moment; without a time zone a point in time is taken as UTC."""
    match = _MOMENT.fullmatch(said)
    if match is None or (match[3] and kind is Kind.TIMESTAMP):
        return None
    try:
        moment = datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00'}{match[3] or ''}")
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC) if kind is Kind.INSTANT else moment
    except (ValueError, OverflowError):
        return None


def _wanted(column: Column) -> str:
    match column.kind:
        case Kind.TEXT:
            return "text such as 'a'"
        case Kind.INTEGER:
            return "a whole number of at most 64 bits"
        case Kind.FLOAT:
            return "a finite number"
        case Kind.DECIMAL:
            if column.precision is None:
                return "a number"
            return f"a number of at most {column.precision} digits with {column.scale} of them after the point"
        case Kind.BOOLEAN:
            return "true or false"
        case Kind.DATE:
            return "a date such as '2024-12-31'"
        case Kind.TIMESTAMP:
            return "a time such as '2024-12-31 23:59:59', of no time zone"
        case Kind.INSTANT:
            return "a time such as '2024-12-31 23:59:59+00:00'"
        case Kind.IDENTIFIER | Kind.OTHER:
            return "nothing but null"
        case _:
            assert_never(column.kind)


DEEPEST = 40
MOST_CONSTANTS = 1000

_MIRRORED = {
    Operator.EQUAL: Operator.EQUAL,
    Operator.UNEQUAL: Operator.UNEQUAL,
    Operator.LESS: Operator.GREATER,
    Operator.AT_MOST: Operator.AT_LEAST,
    Operator.GREATER: Operator.LESS,
    Operator.AT_LEAST: Operator.AT_MOST,
}


def parse_filter(text: str, schema: Schema, allowed: Collection[str] | None = None) -> Filter:
    """Return the filter that the text states about a table, or raise `InvalidFilter` or `UnknownColumn`.

    The text is made of comparisons `column = constant` (also <>, !=, <, <=, >, >=), `column IN (..)`,
    `column BETWEEN a AND b`, `column LIKE 'pattern'`, `column IS NULL`, their negations, AND, OR, NOT and parentheses.
    Only columns of the schema, and of the `allowed` ones when given, may be named.

    >>> schema = Schema((Column(name="country", kind=Kind.TEXT), Column(name="age", kind=Kind.INTEGER)))
    >>> parse_filter("country = 'NO' AND age >= 18", schema).columns() == schema.columns
    True
    >>> parse_filter("country = 'NO' OR 1 = 1", schema)
    Traceback (most recent call last):
        ...
    setwise.errors.InvalidFilter: a comparison needs a column and a constant, but two constants stand at character 19
    """
    if not isinstance(text, str):
        raise InvalidFilter(f"a filter must be text, not {type(text).__name__}")
    return Filter(text, _Parser(tokens(text), schema, allowed).whole())


class _Parser:
    """Reads tokens from left to right, one method per rule of the grammar."""

    def __init__(self, found: list[Token], schema: Schema, allowed: Collection[str] | None) -> None:
        self._tokens = found
        self._next = 0
        self._depth = 0
        self._constants = 0
        self._schema = schema
        self._allowed = allowed

    def whole(self) -> Expression:
        expression = self._some()
        self._expect(TokenKind.END, "", "the end, AND or OR")
        return expression

    def _some(self) -> Expression:
        parts = self._separated("or", self._every)
        return parts[0] if len(parts) == 1 else Some(parts)

    def _every(self) -> Expression:
        parts = self._separated("and", self._negated)
        return parts[0] if len(parts) == 1 else Every(parts)

    def _separated(self, word: str, part: Callable[[], Expression]) -> tuple[Expression, ...]:
        parts = [part()]
        while self._take(TokenKind.WORD, word):
            parts.append(part())
        return tuple(parts)

    def _negated(self) -> Expression:
        self._depth += 1
        if self._depth > DEEPEST:
            raise InvalidFilter(f"the filter nests more than {DEEPEST} levels deep at character {self._peek().place}")
        try:
            if self._take(TokenKind.WORD, "not"):
                return Not(self._negated())
            if self._take(TokenKind.SIGN, "("):
                expression = self._some()
                self._expect(TokenKind.SIGN, ")", "a closing parenthesis")
                return expression
            return self._predicate()
        finally:
            self._depth -= 1

    def _predicate(self) -> Expression:
        start = self._peek()
        self._check_no_call()
        if start.kind is not TokenKind.NAME or self._labelled():
            written = self._constant()
            operator = self._operator()
            if self._peek().kind is not TokenKind.NAME or self._labelled():
                raise InvalidFilter(
                    f"a comparison needs a column and a constant, but two constants stand at character {start.place}"
                )
            column = self._column()
            return self._comparison(column, _MIRRORED[operator], written)
        column = self._column()
        if self._take(TokenKind.WORD, "is"):
            negated = self._take(TokenKind.WORD, "not")
            self._expect(TokenKind.WORD, "null", "NULL")
            return Not(Missing(column)) if negated else Missing(column)
        if self._take(TokenKind.WORD, "not"):
            return Not(self._ranged(column, "IN, BETWEEN or LIKE"))
        if self._peek().kind is TokenKind.WORD:
            return self._ranged(column, "a comparison")
        operator = self._operator()
        return self._comparison(column, operator, self._constant())

    def _ranged(self, column: Column, wanted: str) -> Expression:
        if self._take(TokenKind.WORD, "in"):
            return self._membership(column)
        if self._take(TokenKind.WORD, "between"):
            low = self._constant()
            self._expect(TokenKind.WORD, "and", "AND")
            bounds = ((Operator.AT_LEAST, low), (Operator.AT_MOST, self._constant()))
            return Every(tuple(self._comparison(column, operator, bound) for operator, bound in bounds))
        if self._take(TokenKind.WORD, "like"):
            pattern = self._peek()
            if column.kind is not Kind.TEXT or pattern.kind is not TokenKind.TEXT:
                raise InvalidFilter(
                    f"LIKE compares a column of text with text, but column {column.name!r} holds {column.kind} values "
                    f"or no text stands at character {pattern.place}"
                )
            if len(pattern.says) > LONGEST_PATTERN:
                raise InvalidFilter(
                    f"a pattern must be at most {LONGEST_PATTERN} characters long, not {len(pattern.says)}, "
                    f"at character {pattern.place}"
                )
            self._next += 1
            return Pattern(column, pattern.says)
        raise self._unexpected(wanted)

    def _membership(self, column: Column) -> Expression:
        self._expect(TokenKind.SIGN, "(", "an opening parenthesis")
        values = [constant(column, self._constant())]
        while self._take(TokenKind.SIGN, ","):
            values.append(constant(column, self._constant()))
        self._expect(TokenKind.SIGN, ")", "a comma or a closing parenthesis")
        return Membership(column, tuple(values))

    def _comparison(self, column: Column, operator: Operator, written: Token) -> Expression:
        if column.kind is Kind.BOOLEAN and operator not in (Operator.EQUAL, Operator.UNEQUAL):
            raise InvalidFilter(f"column {column.name!r} is true or false and can be compared with = or <> only")
        return Comparison(column, operator, constant(column, written))

    def _column(self) -> Column:
        token = self._peek()
        self._next += 1
        if self._allowed is not None and token.says not in self._allowed:
            names = ", ".join(repr(name) for name in sorted(self._allowed)) or "none"
            raise InvalidFilter(f"column {token.says!r} may not be used in a filter here; allowed: {names}")
        return self._schema.column(token.says)

    def _operator(self) -> Operator:
        token = self._peek()
        if token.kind is not TokenKind.SIGN or token.says in "(),":
            raise self._unexpected("a comparison")
        self._next += 1
        return Operator(token.says)

    def _constant(self) -> Token:
        self._next += self._labelled()
        self._check_no_call()
        token = self._peek()
        truth = token.kind is TokenKind.WORD and token.says in ("true", "false")
        if token.kind not in (TokenKind.TEXT, TokenKind.NUMBER) and not truth:
            raise self._unexpected("a constant")
        self._constants += 1
        if self._constants > MOST_CONSTANTS:
            raise InvalidFilter(f"the filter has more than {MOST_CONSTANTS} constants: give a domain instead")
        self._next += 1
        return token

    def _labelled(self) -> bool:
        """Whether DATE or TIMESTAMP stands before text; elsewhere they are names like any other."""
        token = self._peek()
        named = token.kind is TokenKind.NAME and token.says.lower() in ("date", "timestamp")
        return named and self._tokens[self._next + 1].kind is TokenKind.TEXT

    def _check_no_call(self) -> None:
        """Raise when a name stands before a parenthesis, as in a call."""
        token = self._peek()
        if token.kind is TokenKind.NAME and self._tokens[self._next + 1].says == "(":
            raise InvalidFilter(
                f"the filter calls {token.says!r} at character {token.place}, and functions are not allowed: {ALLOWED}"
            )

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self, kind: TokenKind, says: str) -> bool:
        token = self._peek()
        taken = token.kind is kind and token.says == says
        self._next += taken
        return taken

    def _expect(self, kind: TokenKind, says: str, wanted: str) -> None:
        if not self._take(kind, says):
            raise self._unexpected(wanted)

    def _unexpected(self, wanted: str) -> InvalidFilter:
        token = self._peek()
        found = "its end" if token.kind is TokenKind.END else f"{token.says!r} at character {token.place}"
        return InvalidFilter(f"the filter has {found} where {wanted} was expected")
