"""Input and output of the scan that warns the data holder, before a charge, of cells that a question will not read.

The input is a table to scan. The output are notes, with exact counts of such cells and with the options that help. The
counts have no noise, so only the data holder, who owns the tables, may see them.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from shlex import join, split
from typing import Any, TypeAlias

from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.typed_cells import CellGrammar
from setwise.analytics.schema import Kind
from setwise.errors import BadRequest

OptionWriter: TypeAlias = Callable[[Sequence[str]], str]
"""A function that writes options, given as words of the command line, as the reader of a note has to type them."""

command_line: OptionWriter = join
"""Write options for the command line, as in --null N/A --type amount=integer."""


TIME_KINDS = (Kind.DATE, Kind.TIMESTAMP)
"""The kinds of columns of dates and times."""


def open_arguments(words: Sequence[str]) -> str:
    """Return a call of `setwise.open` as text, with the arguments that do the same as the command-line options `words`.

    `words` has the options as they stand on the command line, one word each.

    >>> open_arguments(["--thousands", ","])
    'setwise.open(..., thousands=",")'
    """
    return f"setwise.open(..., {keyword_arguments(words)})"


def keyword_arguments(words: Sequence[str]) -> str:
    """Return keyword arguments of `setwise.open` as text, which do the same as the command-line options `words`.

    `words` has the options as they stand on the command line, one word each.

    >>> keyword_arguments(["--null", "N/A", "--type", "amount=integer", "--skip-lines", "2"])
    'null=["N/A"], types={"amount": "integer"}, skip_lines=2'
    """
    arguments = _arguments(words)
    return ", ".join(f"{name}={_python_literal(value)}" for name, value in arguments.items())


def _arguments(words: Sequence[str]) -> dict[str, Any]:
    """Return the keyword arguments of `setwise.open` that do the same as the command-line options `words`.

    `words` are the options as they stand on the command line, one word each. The result maps names to values.

    >>> _arguments(["--null", "N/A", "--type", "amount=integer"])
    {'null': ['N/A'], 'types': {'amount': 'integer'}}
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
            case "quote":
                arguments[name] = {"double": '"', "single": "'"}.get(quote := next(remaining), quote)
            case "skip_lines":
                arguments[name] = int(next(remaining))
            case _:
                arguments[name] = next(remaining)
    return arguments


_VALUED = "separator|quote|skip-lines|columns|encoding|format|type|decimal|thousands|date-format|null"
_OPTION = rf"--(?:no-header|header|(?:{_VALUED}) (?:'[^']*'|[^\s,;:)]+(?:,[^\s,;:)]+)*))(?![\w-])"
_OPTIONS = re.compile(rf"{_OPTION}(?: {_OPTION})*")
"""Options for reading a file, as a message names them for the command line, with a blank between two of them."""


def with_python_arguments(message: str) -> str:
    r"""Return the error `message`, which names command-line options, with advice for callers in Python added.

    The advice has the arguments of `setwise.open` that do the same as the options. A message that names no option is
    returned as it is.

    >>> with_python_arguments("one name with semicolons: give --separator ';'")
    'one name with semicolons: give --separator \';\' (in Python: csv={"separator": ";"})'
    """
    written: list[str] = []
    for options in _OPTIONS.findall(message):
        words = ["\t" if word == "tab" else word for word in split(options)]
        if words[-1] not in ("FILE", "N") and not any("..." in word or word == "COL=KIND" for word in words):
            arguments = _arguments(words)
            types = arguments.pop("types", None)
            parts = [f"csv={_python_text(arguments)}"] if arguments else []
            parts += [f"types={_python_text(types)}"] if types else []
            written += [", ".join(parts)] if parts and ", ".join(parts) not in written else []
    return f"{message} (in Python: {' or '.join(written)})" if written else message


def in_python(error: BadRequest) -> BadRequest:
    """Return an error like `error` whose message also tells callers in Python what to do.

    For each command-line option that the message of `error` names, the new message names the argument of `setwise.open`
    that does the same. If the message names no such option, `error` itself is returned.
    """
    message = with_python_arguments(str(error))
    return error if message == str(error) else type(error)(message).needing(error.needed_types)


def _python_text(values: Mapping[str, Any]) -> str:
    """Return the options in `values`, by name, as the text of a Python dictionary, such as {"separator": ";"}."""
    items = (f"{_python_literal(name)}: {_python_literal(value)}" for name, value in values.items())
    return f"{{{', '.join(items)}}}"


def _python_literal(value: str | int | list[str] | bool) -> str:
    """Return the `value` of an option as Python text, with texts in double quotes."""
    return "True" if value is True else dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableToScan:
    """A table that a question reads, and what is needed to scan its cells.

    - `source` is a path or a table in memory.
    - `csv` says how CSV files are written.
    - `types` maps column names to kinds, and `inferred` are those columns whose kind the question needs, and the data
      holder has not declared.
    - `table_name` is the table's name if `source` is a database file, else None.
    - `user` is the user column, or None for a public table.
    - `write` turns the options that a note suggests into text: options of the command line, or arguments of Python.
    - `remedy` is added to a note that suggests options. The text says where the data holder has to write these options,
      for example in a description file beside the table; "" if they are given where the question is asked.
    """

    source: Any
    csv: CsvOptions
    types: Mapping[str, Kind]
    inferred: Collection[str] = ()
    table_name: str | None = None
    user: str | None = None
    write: OptionWriter = command_line
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyCommand:
    """A shell command that writes a readable copy of a file; its last word is the path of the copy.

    - `meaning` says in which case the copy is right, such as "if 1.234 is 1234", or is "" if it always is.
    - `options` are the words of command-line options with which the copy has to be read.
    """

    meaning: str = ""
    command: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScanNote:
    """A sentence (`text`) for the data holder about lines or cells of the table that a query skips or misreads.

    - `mostly_unreadable` says that the query should be refused, because so much is skipped or misread, or because a
      text in the user column (such as N/A, or one of two spellings) does not stand for exactly one person.
    - `comparison` is (column, condition) if the query uses a text column as truth values, for example a column with the
      words Ja and Nein. The condition is SQL, such as column = 'Ja', that the query can use instead of the column.
      Otherwise `comparison` is None.
    - `copy_command` is a shell command that writes a readable copy of the file, or "". Its last word is the path of the
      copy.
    - `copies` has (file, path of its copy) for each file that `copy_command` copies, if the copies are read with the
      options of their files.
    - `is_unsolved` is True if neither an option nor a command is known that makes the cells readable.
    - `options` are the words of command-line options that remove the cause of the note. Options are given only if
      `setwise check` could not guess them from the cells (for example, words for a missing user).
    - `choices` are several commands in place of `copy_command`, one for each meaning that the cells may have.
    - `compared` is (column, kind, grammar) if the query compares a text column by order whose cells are numbers or
      dates. The column is to be read as the kind, and its constants are written as the grammar says.
    - `rewritten` is (expression, other expression) if the query should have the other expression in its place, as
      COALESCE(debit, 0) - COALESCE(credit, 0) for debit - credit.
    """

    text: str
    mostly_unreadable: bool = False
    comparison: tuple[str, str] | None = None
    copy_command: str = ""
    copies: tuple[tuple[str, str], ...] = ()
    is_unsolved: bool = False
    options: tuple[str, ...] = ()
    choices: tuple[CopyCommand, ...] = ()
    compared: tuple[str, Kind, CellGrammar] | None = None
    rewritten: tuple[str, str] | None = None

    @property
    def commands(self) -> tuple[str, ...]:
        """The shell commands that the text has: `copy_command` and those of `choices`."""
        return tuple(filter(None, (self.copy_command, *(copy.command for copy in self.choices))))

    @property
    def without_commands(self) -> str:
        """The text without its shell commands, which are printed below it."""
        text = self.text
        for command in self.commands:
            text = text.replace(f": {command}", "", 1)
        return text


ADDED_KINDS = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, Kind.TEXT})
"""Kinds of columns that may be added up; a column of text is one of a CSV file whose type is not declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NullSum:
    """A sum or difference of several columns in a SQL statement, which is null where one of the columns is null.

    - `columns` are the names of the columns, and `written` is the expression as the statement has it.
    - `coalesced` is the expression that counts a null as 0, such as COALESCE(debit, 0) - COALESCE(credit, 0).
    """

    columns: tuple[str, ...]
    written: str
    coalesced: str

    @property
    def names(self) -> str:
        """The names of the columns in words, such as "debit and credit"."""
        return " and ".join(self.columns)

    def answer_note(self) -> str:
        """Return the sentence below an answer that says which rows the expression leaves out; it reads no row."""
        return (
            f"Rows in which one of {self.names} is null are left out of {self.written}; {self.coalesced} counts a null "
            "as 0."
        )


def copies_note(text: str, copies: Sequence[CopyCommand], advice: str) -> ScanNote:
    """Return a note that begins with `text`, and ends with the commands of `copies`, or with `advice` if there is none.

    If there are several commands, each is right for another meaning of the cells.
    """
    is_sure = len(copies) == 1 and not copies[0].meaning
    parts = [f"{copy.meaning}{', ' if copy.meaning else ''}a copy with one: {copy.command}" for copy in copies]
    return ScanNote(
        f"{text}: {'; '.join(parts or [advice])}",
        copy_command=copies[0].command if is_sure else "",
        is_unsolved=not copies,
        choices=() if is_sure else tuple(copies),
    )
