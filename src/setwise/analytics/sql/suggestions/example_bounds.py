"""Statements with example bounds in the calls whose bounds were to be found, for questions that ask for an accuracy."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from sqlglot import TokenType
from sqlglot.errors import SqlglotError

from setwise.analytics.sql.syntax import SqlDialect

_MOST_CALLS = 20
"""The most calls to which bounds are added, because the statement is read again for each way of writing them."""


_EXPLAIN = re.compile(r"^\s*EXPLAIN\b", re.IGNORECASE)
"""The word before a statement that the tokenizer would not divide into tokens."""


def with_example_bounds(text: str, open_bounds: Callable[[str], int | None]) -> str:
    """Return the SQL statement `text` with example bounds in its aggregate calls; "" if that cannot be written.

    For example, AVG(age) becomes AVG(age, contribution_bounds_per_group => (0, 100)). The bounds are guesses, which the
    analyst replaces by what is known of the column. Everything else in the text stays as it was written.

    `open_bounds` returns the number of statistics of a statement whose bounds are still to be found, or None if the
    statement is refused.
    """
    remaining = open_bounds(text)
    for call in _calls(_EXPLAIN.sub("", text)) if remaining else ():
        best = text
        for way in _ways(call):
            changed = text.replace(call, way)  # everywhere, because an equal call in HAVING is the same statistic
            number = open_bounds(changed)
            if number is not None and number < (remaining or 0):
                best, remaining = changed, number
        text = best
    return text if remaining == 0 else ""


def _ways(call: str) -> Iterator[str]:
    """Yield the ways in which bounds may be written into the text of an aggregate `call`, such as AVG(age)."""
    name, _, arguments = call.partition("(")
    if "=>" in arguments:
        return
    body = arguments[:-1].rstrip()
    if distinct := re.match(r"(?i)\s*DISTINCT\b\s*", body):
        yield f"APPROX_COUNT_DISTINCT({body[distinct.end() :]}, contribution_bounds_per_group => (0, 5))"
    high = 5 if name.strip().upper().startswith("COUNT") else 100
    yield f"{name}({body}, contribution_bounds_per_group => (0, {high}))"
    yield f"{name}({body}, contribution_bounds_per_row => (0, 100))"
    yield f"{name}({body}, contribution_bounds_per_row => (0, 100), max_rows_contributed => 5)"
    yield f"{name}({body}, max_rows_contributed => 5)"


def _calls(text: str) -> list[str]:
    """Return the different function calls in `text`, the longest first, as they are written there.

    Most of them may be no aggregates; the caller finds out by trying. Returns an empty list if the text cannot be
    divided into tokens.
    """
    try:
        tokens = SqlDialect().tokenize(text)
    except SqlglotError:
        return []
    begins = [
        name.start
        for name, token in pairwise(tokens)
        if token.token_type is TokenType.L_PAREN and name.text.isidentifier() and name.text.upper() not in _NO_CALLS
    ]
    calls = {text[begin : _end_of_call(text, begin)] for begin in begins}
    return sorted(calls, key=len, reverse=True)[:_MOST_CALLS]


_NO_CALLS = frozenset({"AS", "IN", "FROM", "JOIN", "AND", "OR", "NOT", "WHERE", "OVER", "FILTER", "OPTIONS", "EXISTS"})
"""Words before a parenthesis that are no names of functions."""


def _end_of_call(text: str, begin: int) -> int:
    """Return the place behind the closing parenthesis of the function call that begins at the place `begin`."""
    depth = 0
    for token in SqlDialect().tokenize(text[begin:]):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if token.token_type is TokenType.R_PAREN and depth == 0:
            return begin + token.end + 1
    return len(text)


_CLAUSE = re.compile(r"\bOPTIONS\s*\(([^()]*)\)", re.IGNORECASE)
"""An OPTIONS clause, and the options in it."""


def with_option(text: str, name: str, value: str) -> str:
    """Return the SQL statement `text` with the option `name` set to `value` in its OPTIONS clause.

    >>> with_option("SELECT COUNT(*) FROM t", "epsilon", "0.5")
    'SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) FROM t'
    >>> with_option("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM t", "epsilon", "0.5")
    'SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) FROM t'
    """
    clause = _CLAUSE.search(text)
    if clause is None:
        stated = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({name} = {value})"
        return re.sub(r"(?i)\bSELECT\b", lambda _: stated, text, count=1)
    if states_option(text, name):
        options = re.sub(rf"(?i)\b{name}\s*=\s*[^,\s]+", f"{name} = {value}", clause[1])
    else:
        options = f"{clause[1]}, {name} = {value}"
    return f"{text[: clause.start(1)]}{options}{text[clause.end(1) :]}"


def states_option(text: str, name: str) -> bool:
    """Return whether the OPTIONS clause of the SQL statement `text` sets the option `name`."""
    clause = _CLAUSE.search(text)
    return clause is not None and re.search(rf"(?i)\b{name}\s*=", clause[1]) is not None
