"""The names of command-line options in messages that name parameters of Python."""

import re

_PARAMETER = re.compile(r"(?<![\w'\"])(per_user|per_item|null_item|skip_lines|date_format)(?![\w'\"])")
"""Parameters whose names differ from those of their options, where they are not quoted as a value."""


_GAUSSIAN = re.compile(r"add counts='gaussian'(?:, delta=([\d.e-]+))?$")
"""The end of a refusal that says how to ask for Gaussian noise."""


def with_option_names(message: str) -> str:
    """Return an error message with command-line options, such as --per-user, in place of Python parameters.

    Names in quotes stay, because they are values, such as names of columns.

    >>> with_option_names("per_user must lie between 1 and 9, not 0; the table has no column 'per_user'")
    "--per-user must lie between 1 and 9, not 0; the table has no column 'per_user'"
    >>> with_option_names("give low and high, or auto for bounds")
    'give --low and --high, or --bounds auto'
    >>> with_option_names("it would fit with Gaussian noise: add counts='gaussian', delta=2e-8")
    'it would fit with Gaussian noise: add --counts gaussian --delta 2e-8'
    """
    sentence, write, statement = message.partition("; write: ")  # a statement to paste stays as it is
    sentence = sentence.replace("auto for bounds", "--bounds auto").replace(
        "give low and high", "give --low and --high"
    )
    sentence = _GAUSSIAN.sub(
        lambda match: "add --counts gaussian" + (f" --delta {match[1]}" if match[1] else ""), sentence
    )
    return _PARAMETER.sub(lambda match: f"--{match[1].replace('_', '-')}", sentence) + write + statement
