"""Sentences about a question that name a parameter and a SQL call, such as "per_user = 5, or in SQL COUNT(..)".

Where the question was SQL, only the call is shown, because SQL has no such parameter.
"""

import re

_VALUE = r"[\w.+-]*\w"
_PARAMETERS = (
    rf"(?P<parameters>low and high|low = {_VALUE} and high = {_VALUE}|(?:per_user|per_item|contributions) = {_VALUE})"
)
_ROUND = r"\((?:[^()]|\([^()]*\))*\)"
_CALL = rf"\w+{_ROUND}"
_CALLS = rf"(?P<calls>{_CALL}(?:, {_CALL})*|\w+ => (?:{_ROUND}|{_VALUE})|max_groups_contributed = {_VALUE})"
_BOTH = re.compile(rf"{_PARAMETERS}, or in SQL {_CALLS}")
"""Parameters, and what says the same in SQL: calls of functions, one argument of a call, or an option of OPTIONS."""


def in_sql_words(text: str) -> str:
    """Return `text` about a SQL question, with the SQL alone wherever it names a parameter "or in SQL" a call.

    >>> in_sql_words("State low and high, or in SQL contribution_bounds_per_row => (low, high).")
    'State contribution_bounds_per_row => (low, high).'
    """
    return _BOTH.sub(r"\g<calls>", text)


def without_sql_words(text: str) -> str:
    """Return `text` about a question that was not SQL, without the SQL that would say the same as its parameters.

    >>> without_sql_words("as in per_user = 5, or in SQL COUNT(*, contribution_bounds_per_group => (0, 5))")
    'as in per_user = 5'
    """
    return _BOTH.sub(r"\g<parameters>", text)
