"""What the holder of a file is told on the command line: notes of the scan before a charge, and how to read the file.

The scan prints notes on standard error about lines and cells that a question cannot read. A question is refused if at
least half of the cells of one of its columns cannot be read. A refusal about a file ends with one command that reads
the file as it is written. The command has all options that the file needs, because a refusal that named one option at a
time would cost the holder as many attempts.

The notes have exact numbers, and the options are guessed from the rows, as `setwise check` does: neither is
differentially private. They are only for the person who runs the command and can read the files anyway. They are never
part of an answer, and a question never uses the options unasked.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING

from setwise.errors import InvalidFilter, InvalidParameter, SetwiseError, UnknownColumn, UnsuitableTable

if TYPE_CHECKING:
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.schema import Kind
    from setwise.analytics.tables.check import TableCheck
    from setwise.analytics.tables.scan_notes import TableToScan

command_words: ContextVar[tuple[str, ...]] = ContextVar("command_words", default=())
"""The words of the command that runs, from the name of the command on."""

_FLAGS = frozenset({"--header", "--no-header"})
_VALUED = frozenset(
    {
        *("--type", "--separator", "--columns", "--encoding", "--skip-lines", "--format"),
        *("--decimal", "--thousands", "--date-format", "--null"),
    }
)
"""The options, with a value, that say how a file is written."""
_ABOUT_FILES = ("--type", "setwise check", "--separator", "--skip-lines", "--date-format", "DATE_TRUNC")
"""Words of refusals that the right reading of a file may settle."""


@contextmanager
def add_reading_advice(source: str, csv: "CsvOptions", types: "Mapping[str, Kind]", user: str) -> Iterator[None]:
    """Context manager that adds to an error about the CSV file `source` the command that reads the file correctly.

    `csv` and `types` are the options with which the file was read, and `user` is the user column. Nothing is added if
    the error is not about the file, or if `setwise check` would read the file with the same options.
    """
    try:
        yield
    except (UnsuitableTable, UnknownColumn, InvalidFilter, InvalidParameter) as refusal:
        about_file = isinstance(refusal, UnsuitableTable | UnknownColumn)
        if not about_file and not any(word in str(refusal) for word in _ABOUT_FILES):
            raise
        advice = _advice(source, csv, types, user)
        if not advice:
            raise
        raise type(refusal)(f"{refusal}; {advice}") from None


def _advice(source: str, csv: "CsvOptions", types: "Mapping[str, Kind]", user: str) -> str:
    """Return a sentence with the options that the CSV file `source` needs, and the command with these options.

    Returns "" if the options in use are the right ones, or if none can be found. `csv` and `types` are the options with
    which the file was read, and `user` is its user column.
    """
    from setwise.analytics.engines.files import files_of, magic_of
    from setwise.analytics.tables.check import check_table

    try:
        files = files_of(source)
        if not files or magic_of(files[0]) is not None:
            return ""
        check = check_table(source, csv, {}, None)
    except SetwiseError:  # the refusal itself says why the file cannot be read
        return ""
    readings = check.readings()
    if readings:
        return _choices(source, readings, types, user)
    words = _needed_options(check, types)
    command = _with_options(command_words.get(), words)
    if not words or user not in _column_names(check) or set(words) <= set(command_words.get()):
        return ""
    saved = f"all that the file needs is kept beside it by: setwise check {quote(source)} --save"
    if any("\n" in word for word in command) or not command:
        return f"{saved}; or add these options: {join(words)}"
    return f"{saved}; or ask again with: setwise {join(command)}"


def _choices(
    source: str,
    readings: "Mapping[str, tuple[CsvOptions, Mapping[str, Kind]]]",
    types: "Mapping[str, Kind]",
    user: str,
) -> str:
    """Return the command for each of the `readings` of the file `source`, of which its holder has to choose one.

    `types` are the column types with which the file was read, and `user` is its user column. Returns "" if a command
    cannot be repeated.
    """
    from setwise.analytics.tables.check import check_table

    commands = []
    for meaning, (csv, kinds) in readings.items():
        check = check_table(source, csv, kinds, None)
        command = _with_options(command_words.get(), _needed_options(check, types))
        if user not in _column_names(check) or not command or any("\n" in word for word in command):
            return ""
        commands.append(f"{meaning}, ask again with: setwise {join(command)}")
    return f"its cells can be read in {len(readings)} ways: {'; '.join(commands)}"


def _column_names(check: "TableCheck") -> set[str]:
    """Return the names of the columns of a table that was checked."""
    return {column.name for column in check.counts.columns}


def _needed_options(check: "TableCheck", types: "Mapping[str, Kind]") -> list[str]:
    """Return the words of the options that read a file as its `check` found it, and other columns as `types` say."""
    words = check.options()
    for name, kind in types.items():
        if name in _column_names(check) and name not in check.types:
            words += ["--type", f"{name}={kind}"]
    return words


def _with_options(command: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the words of `command`, with `options` at the end in place of those that say how to read a file.

    Returns an empty list if `command` is empty.
    """
    kept: list[str] = []
    remaining = iter(command)
    for word in remaining:
        if word in _FLAGS or ("=" in word and word.partition("=")[0] in _VALUED):
            continue
        if word in _VALUED:
            next(remaining, None)
            continue
        kept.append(word)
    return [*kept, *options] if kept else []


def joined_tables(
    sources: Mapping[str, str], types: "Mapping[str, Kind]", users: Mapping[str, str]
) -> "list[TableToScan]":
    """Return the tables that a SELECT joins, so that they can be scanned for cells that cannot be read.

    `sources` maps the names of these tables to paths, and `users` maps the names of the private ones to their user
    columns. A key TABLE.COLUMN of `types` gives the kind of a column, such as integer. The command's CSV options
    describe only the first table, so a joined table is read as its description file says, which is written by `setwise
    check --save`.
    """
    from setwise.analytics.engines.connect import types_of_joined
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.tables.scan_notes import TableToScan

    return [
        TableToScan(
            source=source,
            csv=CsvOptions(),
            types=types_of_joined(types, name),
            user=users.get(name),
            remedy=f" (for a joined table: setwise check {quote(source)} with these options and --save)",
        )
        for name, source in sources.items()
    ]


def note_unread_cells(tables: "Sequence[TableToScan]", question: str, *, free: bool) -> None:
    """Print to standard error how many lines and cells of `tables` a question cannot read, and which options help.

    `question` is the text of the question; only columns whose names occur in it are checked. `free` is True for a
    preview, which charges nothing.

    Raises: `UnsuitableTable` unless `free`, if a table has no readable line, at most half of a column's cells can be
    read, or dates that do not begin with the year are compared as text. The message has the notes on these tables.
    """
    from setwise.analytics.tables.unread_cells import unread_cells

    refusals = []
    for table in tables:
        for note in unread_cells(table, question):
            remedy = table.remedy if "--" in note.text else ""
            sentence = f"{Path(table.source).name}: {note.text}{remedy}"
            if note.mostly_unreadable and not free:
                refusals.append(sentence)
            else:
                print(f"note: {sentence}", file=sys.stderr)
    if refusals:
        raise UnsuitableTable(f"{'; '.join(refusals)}; nothing was charged (--no-scan asks anyway)")
