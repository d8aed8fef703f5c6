"""Corrects a misspelt column in a command, for the error that says which columns there are."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import pairwise
from shlex import join

_NO_COLUMN = re.compile(r"the table (?:'[^']*' )?has no column '([^']+)'; it has ((?:'[^']*'(?:, )?)+)")
"""The beginning of an error about an unknown column: the column, and the columns that there are."""
_OTHER_FILES = re.compile(
    r"; a column of another file (?:comes in by JOIN, with --table NAME=FILE or --public NAME=FILE for it"
    r"|is joined in setwise sql, with --table NAME=FILE for each)|; if these are no names, setwise check .*? read it"
)
"""Advice of an error about an unknown column that is left out if the error says more exactly what to do."""
_PATH_OPTIONS = frozenset({"--table", "--public", "--catalog", "--ledger", "--account", "--key", "--dataset", "--plot"})
"""Options whose values are no names of columns."""


def without_other_files(message: str) -> str:
    """Return the error `message` about an unknown column without its advice on columns of other files."""
    return _OTHER_FILES.sub("", message)


def with_near_column(message: str, words: Sequence[str], source: str) -> str:
    """Return the error `message` about an unknown column with what to paste if a column has nearly this name, else "".

    `words` are the words of the command line, and `source` is the table. A message with a corrected statement ends with
    this statement; any other ends with the command, in which the column has its name.
    """
    found = _NO_COLUMN.search(message)
    if found is None:
        return ""
    names = {name.lower(): name for name in re.findall("'([^']*)'", found[2])}
    near = get_close_matches(found[1].lower(), names, n=1, cutoff=0.75)
    if not near:
        return ""
    message = without_other_files(message)
    if "; write: " in message:
        return message
    column = re.compile(rf"(?<!\w){re.escape(found[1])}(?!\w)")
    command = [
        word if previous in _PATH_OPTIONS or word == source else column.sub(names[near[0]], word)
        for previous, word in pairwise(["", *words])
    ]
    if command == [*words] or any("\n" in word for word in command):
        return ""
    return f"{message}; ask again with: setwise {join(command)}"
