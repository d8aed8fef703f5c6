"""Rewrites hints for those who ask in SQL alone: parameters of Python become clauses and calls that SQL has."""

import re

_SETTINGS = re.compile(r"(?:epsilon|contributions) = \w[\w.]*\b(?:(?:, | and )(?:epsilon|contributions) = \w[\w.]*\b)*")
"""Parameters and their values in a hint, such as "epsilon = 1 and contributions = 3"."""

_SETTING = re.compile(r"(epsilon|contributions) = (\w[\w.]*\b)")

_PARAMETER_OR_SQL = re.compile(r"(?:\bper_item = \d+|(?:--|\b)low and (?:--)?high), (?:or )?in SQL ")
"""The part of a sentence that names a parameter of Python before it names the SQL that does the same."""

_DOMAIN = "state it as the domain"
"""How hints say that public groups may be listed beside a question. A SQL statement alone cannot list them."""


def with_calls(text: str, declaring: str) -> str:
    """Return `text` without bounds as parameters of Python where it names the SQL call for the same bounds, too.

    `declaring` says how the group keys of a column can be declared public, such as "a steward can declare it".

    >>> with_calls("at least 12 with per_item = 4, in SQL COUNT(*, contribution_bounds_per_group => (0, 4))", "")
    'at least 12 with COUNT(*, contribution_bounds_per_group => (0, 4))'
    """
    return _PARAMETER_OR_SQL.sub("", text).replace(_DOMAIN, declaring)


def with_options_clause(text: str, declaring: str) -> str:
    """Return `text` like `with_calls`, and with epsilon and contributions as an OPTIONS clause states them.

    >>> with_options_clause("groups are shown with epsilon = 2 and contributions = 1", "")
    'groups are shown with OPTIONS (epsilon = 2, max_groups_contributed = 1)'
    """
    return _SETTINGS.sub(_options_clause, with_calls(text, declaring))


def _options_clause(settings: re.Match[str]) -> str:
    options = {"epsilon": "epsilon", "contributions": "max_groups_contributed"}
    stated = [
        f"{options[name]} = {value.upper() if value == 'auto' else value}"
        for name, value in _SETTING.findall(settings[0])
    ]
    return f"OPTIONS ({', '.join(stated)})"
