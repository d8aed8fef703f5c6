"""Translation of sentences of the core, which name parameters, into the options of the command line.

The core writes parameters as Python, REST and reports have them: "epsilon = 2", "low and high", "state it as the
domain". The tables of this module are the only ones of what a command has instead.
"""

import json
import re
from shlex import quote

from setwise.analytics.result_texts import in_sql_words, without_sql_words

_VALUE = r"(?:[\w.:+-]*\w)"


def _as_option(match: re.Match[str]) -> str:
    return f"--{match[1].replace('_', '-')} {match[2]}"


def _as_name(match: re.Match[str]) -> str:
    return f"--{match[1].replace('_', '-')}"


def _as_types(match: re.Match[str]) -> str:
    """Return the options --type for a match of types as Python and JSON write them, as in types = {"n": "integer"}."""
    types = json.loads(match[1])
    return " ".join(f"--type {quote(f'{name}={kind}')}" for name, kind in types.items())


def _assignments(*names: str) -> re.Pattern[str]:
    """Return a pattern for parameters with values, such as "epsilon = 2", except in "at delta = 0.1" and in OPTIONS."""
    return re.compile(rf"(?<!at )(?<!keep )(?<!\()\b({'|'.join(names)}) = ({_VALUE})")


_TRANSLATIONS = (
    (re.compile(r"\btypes = (\{[^{}]*\})"), _as_types),
    (re.compile(r"\bprivate=\{NAME: FILE\}"), "--table NAME=FILE"),
    (re.compile(r"\bpublic=\{NAME: FILE\}"), "--public NAME=FILE"),
    (re.compile(r"\bdeclare user\b"), "add --user COL"),
    (re.compile(r"\bstate it as the domain\b"), "add --domain FILE (one on a line)"),
    (re.compile(r"\bwith domain\b"), "with --domain FILE"),
    (re.compile(r"\bgive another state\b"), "give another --state"),
    (re.compile(r"\badd counts='gaussian', delta=([\d.e-]+)$"), r"add --counts gaussian --delta \1"),
    (re.compile(r"\badd counts='gaussian'$"), "add --counts gaussian"),
    (_assignments("contributions", "epsilon", "delta", "within", "skip_lines", "state"), _as_option),
    (re.compile(r"(?<![\w-])(skip_lines|date_format)(?!\w)"), _as_name),
)
"""What stands in a sentence of the core, and what every command has instead."""

_TRANSLATIONS_WITHOUT_SQL = (
    (re.compile(r"\bauto for bounds\b"), "--bounds auto"),
    (re.compile(r"\bclip, or low and high\b"), "--clip, or --low and --high"),
    (re.compile(r"(?<!-)\blow and high\b(?=,? (?:or|as|are)\b|[:;,.]|$)"), "--low and --high"),
    (re.compile(r"\bbetween low and high\b"), "between --low and --high"),
    (re.compile(r"\b(low|high) is given without (low|high)\b"), r"--\1 is given without --\2"),
    (re.compile(r"\b0 \.\. clip, or to low \.\. high\b"), "0 .. --clip, or to --low .. --high"),
    (re.compile(r"\bunless at says\b"), "unless --at says"),
    (re.compile(r"\blow=([-\d.e+]+), high=([-\d.e+]+)"), r"--low \1 --high \2"),
    (re.compile(rf"\blow = ({_VALUE}) and high = ({_VALUE})"), r"--low \1 --high \2"),
    (_assignments("per_user", "per_item"), _as_option),
    (re.compile(r"(?<![\w-])(per_user|per_item|null_item)(?!\w)"), _as_name),
)
"""Further translations, for commands other than `setwise sql`, which has none of these options."""

_QUOTED = re.compile(r"((?<![\w=])'[^']*'(?!\w))")
"""A value in quotes, such as the name of a column, which stays as it is."""


def with_option_names(message: str, *, is_sql: bool = False) -> str:
    """Return a sentence of the core with command-line options, such as --per-user, in place of its parameters.

    `is_sql` is True for a question that was SQL: where the sentence names a parameter "or in SQL" a call, the call
    alone is returned, because `setwise sql` has no such option. Names in quotes stay, because they are values, such as
    names of columns. A statement to paste, after "; write: ", stays as well.

    >>> with_option_names("per_user must lie between 1 and 9, not 0; the table has no column 'per_user'")
    "--per-user must lie between 1 and 9, not 0; the table has no column 'per_user'"
    >>> with_option_names("give low and high, or auto for bounds")
    'give --low and --high, or --bounds auto'
    >>> with_option_names("as in low=0, high=9")
    'as in --low 0 --high 9'
    >>> with_option_names("it would fit with Gaussian noise: add counts='gaussian', delta=2e-8")
    'it would fit with Gaussian noise: add --counts gaussian --delta 2e-8'
    >>> with_option_names("as in per_user = 5, or in SQL COUNT(*, contribution_bounds_per_group => (0, 5))")
    'as in --per-user 5'
    >>> with_option_names('give its type, as in types = {"n": "integer"}')
    'give its type, as in --type n=integer'
    """
    sentence, write, statement = message.partition("; write: ")
    sentence = in_sql_words(sentence) if is_sql else without_sql_words(sentence)
    parts = _QUOTED.split(sentence)  # every second part is in quotes
    for pattern, options in (*_TRANSLATIONS, *(() if is_sql else _TRANSLATIONS_WITHOUT_SQL)):
        parts[::2] = [pattern.sub(options, part) for part in parts[::2]]
    return "".join(parts) + write + statement
