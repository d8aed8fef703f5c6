"""Parser of filters as people write them: tokens (regex), keywords, constants, and limits of length and depth.

The text is split into tokens, each with its position for messages. A constant is read as the kind of the column that it
is compared with. The parser has one method per rule of the grammar.
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
    Conjunction,
    Disjunction,
    Expression,
    Filter,
    Membership,
    Missing,
    Not,
    Operator,
    Pattern,
    Value,
)
from setwise.analytics.schema import Column, Kind, Schema, type_argument
from setwise.errors import InvalidFilter

LONGEST = 10_000
"""The most characters of a filter."""
LONGEST_PATTERN = 1_000
"""The most characters of a LIKE pattern: on matching rows a longer pattern overflows the stack of some engines."""

ALLOWED = (
    "a filter compares columns with constants by =, <>, <, <=, >, >=, IN, BETWEEN, LIKE or IS NULL, "
    "joined by AND, OR and NOT"
)
"""A sentence, for messages, that says what a filter may contain."""

KEYWORDS = frozenset({"and", "or", "not", "in", "between", "is", "null", "like", "true", "false"})
"""The words of the filter language, in lower case."""


class TokenKind(StrEnum):
    """The kinds of tokens in a filter's text; each value is the phrase for such a token in error messages."""

    WORD = "a keyword"
    NAME = "a column"
    TEXT = "text"
    NUMBER = "a number"
    SIGN = "a sign"
    END = "the end"


@dataclass(frozen=True, slots=True)
class FilterToken:
    """A token of a filter: its kind, its text and its position.

    `says` is the token's text without quotes, in lower case for keywords, and with <> for != and = for ==. `place` is
    the position of the token's first character in the filter, counted from 1.
    """

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


def tokens(text: str) -> list[FilterToken]:
    """Return the tokens of a filter's text; a token of the kind `END` follows the last one.

    Raises: `InvalidFilter` if the text is too long, has characters that no filter may have, or cannot be split into
    tokens. In the last case the message names the position of the first character that starts no token.
    """
    if len(text) > LONGEST:
        raise InvalidFilter(f"a filter must be at most {LONGEST} characters long, not {len(text)}")
    if "\0" in text or not _encodable(text):
        raise InvalidFilter("a filter must be plain text without null characters or lone surrogates")
    result: list[FilterToken] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            why = "the quote is not closed" if text[place] in "'\"" else ALLOWED
            raise InvalidFilter(f"the filter cannot be read from character {place + 1}, {text[place]!r}: {why}")
        if match.lastgroup != "space":
            result.append(_token(str(match.lastgroup), match.group(), place + 1))
        place = match.end()
    return [*result, FilterToken(TokenKind.END, "", len(text) + 1)]


def _token(group: str, matched_text: str, place: int) -> FilterToken:
    """Return the token for a piece of a filter that the regular expression of all tokens (`_TOKEN`) has matched.

    `group` is the name of the regular expression's group that matched, and tells the kind of the token. `matched_text`
    is the text that matched, and `place` its position in the filter, counted from 1.
    """
    match group:
        case "text":
            return FilterToken(TokenKind.TEXT, matched_text[1:-1].replace("''", "'"), place)
        case "quoted":
            return FilterToken(TokenKind.NAME, matched_text[1:-1].replace('""', '"'), place)
        case "number":
            return FilterToken(TokenKind.NUMBER, matched_text, place)
        case "sign":
            return FilterToken(TokenKind.SIGN, {"!=": "<>", "==": "="}.get(matched_text, matched_text), place)
        case _:
            if matched_text.lower() in KEYWORDS:
                return FilterToken(TokenKind.WORD, matched_text.lower(), place)
            return FilterToken(TokenKind.NAME, matched_text, place)


def _encodable(text: str) -> bool:
    """Return whether `text` can be sent to engines as UTF-8; a text with lone surrogates cannot."""
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
"""Integers from minus this number up to one below this number fit into 64 bits."""


def constant(column: Column, token: FilterToken) -> Value:
    """Return the constant in `token` as a value of the column's kind.

    A date or time may be written as plain text, without the word DATE or TIMESTAMP before it.
    Raises: `InvalidFilter` if the constant is not of the column's kind.
    """
    # The constant is converted, so that no engine has to convert cells, which could fail depending on the rows.
    value = _convert(column, token)
    if value is None:
        hint = _csv_hint(column, token)
        raise InvalidFilter(
            f"column {column.name!r} holds {column.kind} values and must be compared with {_comparable_with(column)}, "
            f"not with {token.says!r} at character {token.place}{hint}"
        ).needing({column.name: Kind.FLOAT} if hint else {})
    return value


def _csv_hint(column: Column, token: FilterToken) -> str:
    """Return a hint for an error message: how to declare the type of a CSV column.

    The result is "" unless `column` is text and `token`, with which it is compared, is a number.
    """
    if column.kind is not Kind.TEXT or token.kind is not TokenKind.NUMBER:
        return ""
    return f"; if it is of a file, give its type, as in {type_argument({column.name: 'integer'})}"


def _convert(column: Column, token: FilterToken) -> Value | None:
    """Return the constant in `token` as a value of the kind of `column`; None if it is no constant of that kind."""
    text = token.says
    match column.kind, token.kind:
        case Kind.TEXT, TokenKind.TEXT:
            return text
        case Kind.INTEGER, TokenKind.NUMBER:
            whole = int(text) if _WHOLE.fullmatch(text) else None
            return whole if whole is not None and -LARGEST <= whole < LARGEST else None
        case Kind.FLOAT, TokenKind.NUMBER:
            number = float(text)
            return number if math.isfinite(number) else None
        case Kind.DECIMAL, TokenKind.NUMBER:
            return _decimal(column, text)
        case Kind.BOOLEAN, TokenKind.WORD:
            return {"true": True, "false": False}.get(text)
        case Kind.DATE, TokenKind.TEXT:
            return _date(text)
        case (Kind.TIMESTAMP, TokenKind.TEXT) | (Kind.INSTANT, TokenKind.TEXT):
            return _moment(column.kind, text)
        case _:
            return None


def _decimal(column: Column, text: str) -> Decimal | None:
    """Return the decimal number in `text`; None if it is no number, or has more digits than `column` allows.

    Engines convert the number to the decimal type of the column, which would round a number with more digits.
    """
    try:
        value = Decimal(text)
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


def _date(text: str) -> date | None:
    """Return the date in `text`, such as 2024-12-31; None if the text is not a date in this form."""
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def _moment(kind: Kind, text: str) -> datetime | None:
    """Return the date and time in `text`, such as 2024-12-31 12:00; None if it is not of this form.

    `kind` is the kind of the column to compare with. If the column holds instants (times with a time zone), the result
    is in UTC, and a `text` without an offset is taken to be in UTC. For times without a time zone, the offset may only
    be 0 or missing.
    """
    match = _MOMENT.fullmatch(text)
    if match is None or (kind is Kind.TIMESTAMP and match[3] not in (None, "Z", "+00:00")):
        return None
    try:
        moment = datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00'}{match[3] or ''}")
        if kind is Kind.TIMESTAMP:
            return moment.replace(tzinfo=None)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _comparable_with(column: Column) -> str:
    """Return a phrase, for error messages, that says with which constants `column` can be compared."""
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
"""The most levels of nested NOT and parentheses in a filter."""
MOST_CONSTANTS = 1000
"""The most constants of a filter."""

_MIRRORED = {
    Operator.EQUAL: Operator.EQUAL,
    Operator.UNEQUAL: Operator.UNEQUAL,
    Operator.LESS: Operator.GREATER,
    Operator.AT_MOST: Operator.AT_LEAST,
    Operator.GREATER: Operator.LESS,
    Operator.AT_LEAST: Operator.AT_MOST,
}
"""The operator that holds when the two sides of a comparison are swapped."""


def parse_filter(text: str, schema: Schema, allowed: Collection[str] | None = None) -> Filter:
    """Return the filter that `text` states about a table with the columns of `schema`.

    `text` has comparisons of columns with constants, joined by AND, OR and NOT. Only the columns in `allowed` may be
    named; None allows all.
    Raises: `InvalidFilter` for text that is not a filter, `UnknownColumn` for a column that is not in `schema`.

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
    return Filter(text, _Parser(tokens(text), schema, allowed).parse_all())


class _Parser:
    """Parser of a filter: reads `filter_tokens` from left to right, with one method per rule of the grammar.

    `schema` are the columns of the table. Only the columns in `allowed` may be named; None allows all.
    """

    def __init__(self, filter_tokens: list[FilterToken], schema: Schema, allowed: Collection[str] | None) -> None:
        self._tokens = filter_tokens
        self._next = 0
        self._depth = 0
        self._constants = 0
        self._schema = schema
        self._allowed = allowed

    def parse_all(self) -> Expression:
        """Return the expression of the whole filter; raise `InvalidFilter` if tokens remain after it."""
        expression = self._disjunction()
        self._expect(TokenKind.END, "", "the end, AND or OR")
        return expression

    def _disjunction(self) -> Expression:
        """Read conditions that are joined by OR, and return them as one expression."""
        parts = self._separated_parts("or", self._conjunction)
        return parts[0] if len(parts) == 1 else Disjunction(parts)

    def _conjunction(self) -> Expression:
        """Read conditions that are joined by AND, and return them as one expression."""
        parts = self._separated_parts("and", self._negation)
        return parts[0] if len(parts) == 1 else Conjunction(parts)

    def _separated_parts(self, word: str, part: Callable[[], Expression]) -> tuple[Expression, ...]:
        """Return the expressions in a list such as `a AND b AND c`, whose separator is the keyword `word`.

        Each call of the method `part` reads one of the expressions.
        """
        parts = [part()]
        while self._take(TokenKind.WORD, word):
            parts.append(part())
        return tuple(parts)

    def _negation(self) -> Expression:
        """Read and return a condition: NOT with a condition, an expression in parentheses, or a condition on a column.

        Raises: `InvalidFilter` if the filter nests more than `DEEPEST` levels deep.
        """
        self._depth += 1
        if self._depth > DEEPEST:
            raise InvalidFilter(f"the filter nests more than {DEEPEST} levels deep at character {self._peek().place}")
        try:
            if self._take(TokenKind.WORD, "not"):
                return Not(self._negation())
            if self._take(TokenKind.SIGN, "("):
                expression = self._disjunction()
                self._expect(TokenKind.SIGN, ")", "a closing parenthesis")
                return expression
            return self._predicate()
        finally:
            self._depth -= 1

    def _predicate(self) -> Expression:
        """Read one condition on a column, such as `age >= 18` or `18 <= age`, and return it."""
        start = self._peek()
        self._check_no_call()
        if start.kind is not TokenKind.NAME or self._at_typed_text():
            constant_token = self._constant()
            operator = self._operator()
            if self._peek().kind is not TokenKind.NAME or self._at_typed_text():
                raise InvalidFilter(
                    f"a comparison needs a column and a constant, but two constants stand at character {start.place}"
                )
            column = self._column()
            return self._comparison(column, _MIRRORED[operator], constant_token)
        column = self._column()
        if self._take(TokenKind.WORD, "is"):
            negated = self._take(TokenKind.WORD, "not")
            self._expect(TokenKind.WORD, "null", "NULL")
            return Not(Missing(column)) if negated else Missing(column)
        if self._take(TokenKind.WORD, "not"):
            return Not(self._range_condition(column, "IN, BETWEEN or LIKE"))
        if self._peek().kind is TokenKind.WORD:
            return self._range_condition(column, "a comparison")
        operator = self._operator()
        return self._comparison(column, operator, self._constant())

    def _range_condition(self, column: Column, wanted: str) -> Expression:
        """Read IN, BETWEEN or LIKE and its constants, which follow the name of `column`, and return the condition.

        `wanted` is a phrase such as "IN, BETWEEN or LIKE". Raises: `InvalidFilter`, which says that `wanted` was
        expected, if another token follows the column's name.
        """
        if self._take(TokenKind.WORD, "in"):
            return self._membership(column)
        if self._take(TokenKind.WORD, "between"):
            low = self._constant()
            self._expect(TokenKind.WORD, "and", "AND")
            bounds = ((Operator.AT_LEAST, low), (Operator.AT_MOST, self._constant()))
            return Conjunction(tuple(self._comparison(column, operator, bound) for operator, bound in bounds))
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
        raise self._unexpected_token(wanted)

    def _membership(self, column: Column) -> Expression:
        """Read the list of constants in parentheses after IN; return the condition that `column` equals one of them."""
        self._expect(TokenKind.SIGN, "(", "an opening parenthesis")
        values = [constant(column, self._constant())]
        while self._take(TokenKind.SIGN, ","):
            values.append(constant(column, self._constant()))
        self._expect(TokenKind.SIGN, ")", "a comma or a closing parenthesis")
        return Membership(column, tuple(values))

    def _comparison(self, column: Column, operator: Operator, constant_token: FilterToken) -> Expression:
        """Return the comparison by `operator` of `column` with the constant in the token `constant_token`.

        Raises: `InvalidFilter` if the constant is not of the column's kind, or if a boolean column is compared by
        order.
        """
        if column.kind is Kind.BOOLEAN and operator not in (Operator.EQUAL, Operator.UNEQUAL):
            raise InvalidFilter(f"column {column.name!r} is true or false and can be compared with = or <> only")
        return Comparison(column, operator, constant(column, constant_token))

    def _column(self) -> Column:
        """Read a column name and return its column.

        Raises: `InvalidFilter` if the column may not be used in this filter, `UnknownColumn` if the table does not have
        it.
        """
        token = self._peek()
        self._next += 1
        if self._allowed is not None and token.says not in self._allowed:
            names = ", ".join(repr(name) for name in sorted(self._allowed)) or "none"
            raise InvalidFilter(f"column {token.says!r} may not be used in a filter here; allowed: {names}")
        return self._schema.column(token.says)

    def _operator(self) -> Operator:
        """Read a comparison operator, such as <=, from the filter's tokens and return it."""
        token = self._peek()
        if token.kind is not TokenKind.SIGN or token.says in "(),":
            raise self._unexpected_token("a comparison")
        self._next += 1
        return Operator(token.says)

    def _constant(self) -> FilterToken:
        """Read a constant of the filter and return its token; the word DATE or TIMESTAMP before a text is skipped."""
        self._next += self._at_typed_text()
        self._check_no_call()
        token = self._peek()
        truth = token.kind is TokenKind.WORD and token.says in ("true", "false")
        if token.kind not in (TokenKind.TEXT, TokenKind.NUMBER) and not truth:
            raise self._unexpected_token("a constant")
        self._constants += 1
        if self._constants > MOST_CONSTANTS:
            raise InvalidFilter(f"the filter has more than {MOST_CONSTANTS} constants: give a domain instead")
        self._next += 1
        return token

    def _at_typed_text(self) -> bool:
        """Return whether the next token is the word DATE or TIMESTAMP before a text, as in DATE '2024-12-31'.

        Elsewhere these words are column names.
        """
        token = self._peek()
        named = token.kind is TokenKind.NAME and token.says.lower() in ("date", "timestamp")
        return named and self._tokens[self._next + 1].kind is TokenKind.TEXT

    def _check_no_call(self) -> None:
        """Raise `InvalidFilter` if the next tokens are a name and an opening parenthesis, as in a function call.

        The message says that a filter cannot call functions.
        """
        token = self._peek()
        if token.kind is TokenKind.NAME and self._tokens[self._next + 1].says == "(":
            raise InvalidFilter(
                f"the filter calls {token.says!r} at character {token.place}, and functions are not allowed: {ALLOWED}"
            )

    def _peek(self) -> FilterToken:
        """Return the next token of the filter without moving past it."""
        return self._tokens[self._next]

    def _take(self, kind: TokenKind, says: str) -> bool:
        """Move past the next token if its kind is `kind` and its text is `says`; return whether this is so."""
        token = self._peek()
        taken = token.kind is kind and token.says == says
        self._next += taken
        return taken

    def _expect(self, kind: TokenKind, says: str, wanted: str) -> None:
        """Read the next token, whose kind must be `kind` and whose text must be `says`.

        Raises: `InvalidFilter` for another token; its message says that `wanted`, a phrase, was expected.
        """
        if not self._take(kind, says):
            raise self._unexpected_token(wanted)

    def _unexpected_token(self, wanted: str) -> InvalidFilter:
        """Return the `InvalidFilter` error that says what the next token is, and that `wanted` was expected there."""
        token = self._peek()
        actual = "its end" if token.kind is TokenKind.END else f"{token.says!r} at character {token.place}"
        return InvalidFilter(f"the filter has {actual} where {wanted} was expected")
