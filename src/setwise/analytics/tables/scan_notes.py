"""Input and output of the scan before a charge: tables to scan, and notes with the options that help.

The notes have exact counts without noise, so only the data holder, who owns the tables, may see them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from shlex import join
from typing import Any, TypeAlias

from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.schema import Kind

OptionWriter: TypeAlias = Callable[[Sequence[str]], str]
"""A function that writes options, given as words of the command line, as the reader of a note has to type them."""

command_line: OptionWriter = join
"""Write options for the command line, as in --null N/A --type amount=integer."""


def open_arguments(words: Sequence[str]) -> str:
    """Return command-line options as a call of `setwise.open` in Python; `words` are the words of the options.

    >>> open_arguments(["--thousands", ","])
    'setwise.open(..., thousands=",")'
    """
    return f"setwise.open(..., {keyword_arguments(words)})"


def keyword_arguments(words: Sequence[str]) -> str:
    """Return command-line options as keyword arguments of `setwise.open`; `words` are the words of the options.

    >>> keyword_arguments(["--null", "N/A", "--type", "amount=integer", "--skip-lines", "2"])
    'null=["N/A"], types={"amount": "integer"}, skip_lines=2'
    """
    arguments: dict[str, Any] = {}
    remaining = iter(words)
    for word in remaining:
        name = word.removeprefix("--").replace("-", "_")
        match name:
            case "no_header":  # `columns` says the same
                continue
            case "header":
                arguments[name] = True
            case "null":
                arguments.setdefault(name, []).append(next(remaining))
            case "type":
                column, _, kind = next(remaining).rpartition("=")
                arguments.setdefault("types", {})[column] = kind
            case "columns":
                arguments[name] = next(remaining).split(",")
            case "skip_lines":
                arguments[name] = int(next(remaining))
            case _:
                arguments[name] = next(remaining)
    values = {name: "True" if value is True else dumps(value, ensure_ascii=False) for name, value in arguments.items()}
    return ", ".join(f"{name}={value}" for name, value in values.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class TableToScan:
    """A table that a question reads: its `source`, the format of its CSV files, its column types and its user column.

    `source` is a path or a table in memory. `csv` says how CSV files are written, and `types` maps column names to
    kinds. `table_name` is the table's name if `source` is a database file, else None. `user` is the user column, and
    None for a public table. `write` writes the options that a note suggests, for the command line or for Python.
    `remedy` is a text that says where to write these options, or "" if that is clear.
    """

    source: Any
    csv: CsvOptions
    types: Mapping[str, Kind]
    table_name: str | None = None
    user: str | None = None
    write: OptionWriter = command_line
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class ScanNote:
    """A sentence (`text`) for the data holder about lines or cells of the table that a query skips or misreads.

    `mostly_unreadable` is True if no line of the file can be read, or if at least half of a column's cells are not read
    as they are meant. The query should then be refused, because its answer would be about other rows than it asks for.

    If options of the file cannot help, one of three fields says so. `comparison` is (column, condition) if the query
    takes a column of words for truth values and can ask for the condition instead. `copy_command` is a shell command
    that writes a readable copy of the file; its last word is the path of the copy. `is_unsolved` is True if no remedy
    is known.
    """

    text: str
    mostly_unreadable: bool = False
    comparison: tuple[str, str] | None = None
    copy_command: str = ""
    is_unsolved: bool = False
