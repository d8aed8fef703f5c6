"""Commands that write a readable copy of a file and ask the same question of the copy, for the owner of the file.

The copy is described beside itself by `setwise check --save`. This keeps the options with which the file was read, and
adds options that notes about the file have found, so that one command mends everything at once.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from shlex import join, split
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.schema import Kind
    from setwise.analytics.tables.scan_notes import ScanNote

_FLAGS = frozenset({"--header", "--no-header"})
_VALUED = frozenset(
    {
        *("--type", "--separator", "--columns", "--encoding", "--skip-lines", "--format", "--quote"),
        *("--decimal", "--thousands", "--date-format", "--null"),
    }
)
"""The options, with a value, that say how a file is written."""


def ask_copies(
    source: str, csv: "CsvOptions", types: "Mapping[str, Kind]", notes: "Sequence[ScanNote]", asked: Sequence[str]
) -> str:
    """Return a phrase with the command that mends all that `notes` say of the file `source`, and asks again.

    There is one command, or one for each meaning that the cells may have. Returns "" if the question cannot be asked of
    a copy, because no word names the file, or because the command would have a line break.

    - `csv` and `types` are the options with which the file was read.
    - `asked` are the words of the command line that asks again, with the path of the file.
    """
    from setwise.analytics.engines.files import files_of, magic_of
    from setwise.analytics.tables.check import joint_copies
    from setwise.analytics.tables.copies.clean_copies import copied_file

    files = files_of(source.partition("::")[0])
    if files and magic_of(files[0]) is not None:
        return _ask_binary_copies(source, notes, asked)
    every = [command for note in notes for command in note.commands]
    file = next((copied for command in every if (copied := copied_file(command))), source)
    kept: list[str] = []
    if Path(file).resolve() == Path(source).resolve():  # another file is joined, and has a description of its own
        file, kept = source, _kept_options(source, csv, types, notes)
    phrases = []
    for copy in joint_copies(notes):
        asking = _ask_copy(file, copy.command, asked, [*kept, *copy.options])
        if not asking:
            return ""
        phrases.append(f"{copy.meaning}, {asking.removeprefix('or ')}" if copy.meaning else asking)
    return "; ".join(phrases)


def _ask_binary_copies(source: str, notes: "Sequence[ScanNote]", asked: Sequence[str]) -> str:
    """Return a phrase with a command that copies a binary file, such as Parquet, and asks the question of the copy.

    There is one command, the first of `notes`, or one for each meaning that the cells may have. The copy has the types
    of the file, so no `setwise check` is needed. `source` is the path of the file, with ::TABLE for one in a database,
    and `asked` are the words of the command line that asks again. Returns "" if the question cannot be asked of a copy.
    """
    copies = [("", note.copy_command) for note in notes if note.copy_command][:1]
    copies = copies or [(copy.meaning, copy.command) for note in notes for copy in note.choices]
    _, separator, table = source.partition("::")
    phrases = []
    for meaning, command in copies:
        words = with_copy(asked, source, f"{split(command)[-1]}{separator}{table}")
        if words == [*asked] or any("\n" in word for word in words):
            return ""
        phrases.append(f"{f'{meaning}, ' if meaning else 'or '}ask the copy with: {command} && setwise {join(words)}")
    return "; ".join(phrases)


def _kept_options(
    source: str, csv: "CsvOptions", types: "Mapping[str, Kind]", notes: "Sequence[ScanNote]"
) -> list[str]:
    """Return the words of the options with which a copy of the file `source` has to be read.

    These are the options with which the file was read (`csv` and `types`, or the description beside the file), and the
    options of `notes` that `setwise check` cannot guess. A column whose cells are times in the copy loses its type.
    """
    from setwise.analytics.engines.csv_format import UTF_16, codec_name
    from setwise.analytics.engines.files import apply_description
    from setwise.analytics.schema import NUMBER_KINDS
    from setwise.analytics.tables.check import option_words
    from setwise.analytics.tables.scan_notes import TIME_KINDS

    types, csv = apply_description(source, types, csv)
    times = {note.compared[0] for note in notes if note.compared is not None and note.compared[1] in TIME_KINDS}
    types = {name: kind for name, kind in types.items() if name not in times or kind not in NUMBER_KINDS}
    words = option_words(csv, types)
    if codec_name(csv.encoding) in UTF_16:  # a copy is in UTF-8
        place = words.index("--encoding")
        words[place : place + 2] = []
    present = {*pairwise(words)}
    pairs = [pair for note in notes for pair in zip(note.options[::2], note.options[1::2], strict=True)]
    return words + [word for pair in dict.fromkeys(pairs) if pair not in present for word in pair]


def _ask_copy(source: str, copy_command: str, asked: Sequence[str], options: Sequence[str]) -> str:
    """Return a phrase with a shell command that copies a file so that it is readable, and asks the question again.

    - `copy_command`: the part of the command that writes a readable copy of the file `source`; its last word is the
      path of the copy
    - `asked`: the words of the command line that asked the question. The question is asked again with the path of the
      copy in place of `source`
    - `options`: the words of options with which the copy has to be read

    Returns "" if no word names `source`, because the question then cannot be repeated on the copy.
    """
    copy = split(copy_command)[-1]
    words = with_copy(asked, source, copy)
    if words == [*asked] or any("\n" in word for word in words):
        return ""
    check = join(["setwise", "check", copy, "--save", *options])
    return f"or ask the copy with: {copy_command} && {check} && setwise {join(with_options(words, []))}"


def ask_copies_of_files(note: "ScanNote", asked: Sequence[str]) -> str:
    """Return a phrase with the shell commands of `note`, which copy several files, and the question on the copies.

    `asked` are the words of the command line that asked the question. Returns "" if they do not name all of the files.
    """
    words = [*asked]
    for source, copy in note.copies:
        before, words = words, with_copy(words, source, copy)
        if words == before or any("\n" in word for word in words):
            return ""
    return f"or ask the copy with: {note.copy_command} && setwise {join(words)}"


def with_copy(words: Sequence[str], source: str, copy: str) -> list[str]:
    """Return the command-line `words` with the path `copy` in place of the path `source`.

    A path after --public, without NAME=, gives the table the name of the file. So that the question still finds the
    table, the old name is added: --public cities.csv becomes --public cities=cities.clean.csv.
    """
    from setwise.analytics.engines.connect import location_of

    quoted = re.compile(f"'{re.escape(source)}'|(?<==){re.escape(source)}$")  # in FROM 'FILE', or NAME=FILE
    copied = []
    for previous, word in pairwise(["", *words]):
        named = f"{location_of(source, 'duckdb').name}={copy}" if previous == "--public" else copy
        copied.append(named if word == source else quoted.sub(lambda found: found[0].replace(source, copy), word))
    return copied


def with_options(command: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the words of `command` with `options` in place of the options by which it reads its file.

    The caller shows the result to the user of a `command` that was refused because its options did not fit the file.
    Both arguments are words of the command line. The result is empty if `command` is empty.
    """
    kept, _ = _parted(command)
    return [*kept, *options] if kept else []


def reading_options(command: Sequence[str]) -> list[str]:
    """Return those words of `command`, the words of a command line, that say how its file is read."""
    return _parted(command)[1]


def _parted(command: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return (others, options): the words of `command` without and with those that say how its file is read."""
    others: list[str] = []
    options: list[str] = []
    remaining = iter(command)
    for word in remaining:
        if word in _FLAGS or ("=" in word and word.partition("=")[0] in _VALUED):
            options.append(word)
        elif word in _VALUED:
            options += [word, next(remaining, "")]
        else:
            others.append(word)
    return others, options
