"""Filters as people write them, read into an expression that was checked against the table."""

from collections.abc import Callable, Collection

from setwise.analytics.filter.constant import constant
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
)
from setwise.analytics.filter.tokens import ALLOWED, Token, TokenKind, tokens
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import InvalidFilter

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
