"""Errors about a report's questions, reworded for its author.

A message names its question, and has entries of the report's TOML file in place of options of the command line.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from setwise.analytics.result_texts import without_sql_words
from setwise.errors import BadRequest

_ENTRIES = (
    *("contributions", "domain", "item", "value", "low", "high", "bounds", "clip", "at", "step", "k", "where"),
    *("per-user", "per-item", "null-item", "epsilon", "delta", "discover", "mechanism"),
)
"""Options of the command line that are entries of a report, with underscores in place of dashes."""

_TYPES = re.compile(r"--type \S+=\w+(?: --type \S+=\w+)*")
_TYPES_ARGUMENT = re.compile(r"\btypes = (\{[^{}]*\})")
_AUTO = re.compile(r" = auto\b")
_OPTION = re.compile(rf"(?<![\w-])--?({'|'.join(_ENTRIES)})(?![\w-])(?: (auto\b|\d[\w.-]*\d|\d))?")


@contextmanager
def name_question(name: str) -> Iterator[None]:
    """Context manager that rewrites errors of its `with` block for the author of a report.

    The new message has entries of the report's TOML file in place of options of the command line. It begins with the
    question's name, `name`, unless it has the name already.
    """
    try:
        yield
    except BadRequest as refusal:
        message = in_report_words(str(refusal))
        if repr(name) not in message:
            message = f"question {name!r}: {message}"
        raise type(refusal)(message).needing(refusal.needed_types) from None


def in_report_words(message: str) -> str:
    """Return an error message with entries of a report in place of options of the command line.

    Some messages end with "; write: " and a SQL statement that the author can paste. The statement stays as it is.

    >>> in_report_words("add contributions = auto, or in SQL max_groups_contributed = auto, or list the groups")
    'add contributions = "auto", or list the groups'
    >>> in_report_words("add --type n=integer --type at=date")
    'add types = {n = "integer", at = "date"} at the top of the report'
    """
    sentence, write, statement = message.partition("; write: ")
    sentence = without_sql_words(sentence).replace("auto for bounds", 'bounds = "auto"')
    sentence = _TYPES.sub(_write_types, _TYPES_ARGUMENT.sub(_rewrite_types, sentence))
    sentence = _AUTO.sub(' = "auto"', sentence)
    return _OPTION.sub(_write_entry, sentence) + write + statement


def _write_types(options: re.Match[str]) -> str:
    """Return the TOML entry `types` that declares the same types as a series of command-line options --type COL=KIND.

    `options` is the match of these options in an error message. The text also says where in the report the entry goes.
    """
    kinds = (word.rpartition("=") for word in options[0].split() if word != "--type")
    return _types_entry({name: kind for name, _, kind in kinds})


def _rewrite_types(argument: re.Match[str]) -> str:
    """Return the TOML entry `types` for types that a message writes as JSON, as in types = {"n": "integer"}."""
    return _types_entry(json.loads(argument[1]))


def _types_entry(types: Mapping[str, str]) -> str:
    kinds = ", ".join(f'{_key(name)} = "{kind}"' for name, kind in types.items())
    return f"types = {{{kinds}}} at the top of the report"


def _key(name: str) -> str:
    """Return the name of a column as a key of TOML: in quotes unless it has only letters, digits, _ and -."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _write_entry(option: re.Match[str]) -> str:
    """Return the TOML entry of a report that says the same as a command-line option in an error message.

    `option` is the match of the option: its name and, if it has one, its value. Without a value, the entry's name is
    returned.
    """
    entry, value = option[1].replace("-", "_"), option[2]
    if value is None:
        return entry
    return f'{entry} = "auto"' if value == "auto" else f"{entry} = {value}"
