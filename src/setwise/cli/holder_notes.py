"""Notes and advice for the owner of a file, on the command line: which cells are not read, and how to read the file.

The scan before a charge prints notes on standard error about lines and cells that a question cannot read. A question is
refused if at least half of the cells of one of its columns cannot be read. A refusal about a file ends with one command
that reads the file as it is written. The command has all options that the file needs at once: if each refusal named
only one option, the owner of a file that needs four options would have to ask five times.

The notes have exact numbers, and the options are guessed from the rows, as `setwise check` does: neither is
differentially private. They are only for the person who runs the command and can read the files anyway. They are never
part of an answer, and a question never uses the options unasked.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from shlex import join, quote, split
from typing import TYPE_CHECKING

from setwise.cli.refusals import command_words, with_near_column, without_other_files
from setwise.errors import InvalidFilter, InvalidParameter, SetwiseError, UnknownColumn, UnsuitableTable

if TYPE_CHECKING:
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.engines.joins import Join
    from setwise.analytics.schema import Kind
    from setwise.analytics.tables.check import TableCheck
    from setwise.analytics.tables.scan_notes import CopyCommand, NullSum, ScanNote, TableToScan

_QUESTION_OPTIONS = frozenset(
    {
        *(
            "--item",
            "--value",
            "--where",
            "--per-item",
            "--per-user",
            "--null-item",
            "--limit",
            "--table",
            "-k",
            "--at",
        ),
        *("--clip", "--low", "--high", "--bounds", "--step"),
    }
)
"""The options of questions, each with a value, that `setwise sql` does not have, or means otherwise (--table)."""

_FLAGS = frozenset({"--header", "--no-header"})
_VALUED = frozenset(
    {
        *("--type", "--separator", "--columns", "--encoding", "--skip-lines", "--format", "--quote"),
        *("--decimal", "--thousands", "--date-format", "--null"),
    }
)
"""The options, with a value, that say how a file is written."""
_ABOUT_FILES = (
    *(
        "types = {",
        "skip_lines = N",
        "--type",
        "setwise check",
        "--separator",
        "--skip-lines",
        "--date-format",
        "DATE_TRUNC",
    ),
    "the table has no column",
)
"""Words of refusals that the right reading of a file may settle."""


@contextmanager
def add_reading_advice(source: str, csv: "CsvOptions", types: "Mapping[str, Kind]", user: str) -> Iterator[None]:
    """Context manager that adds to an error of its `with` block a command by which the CSV file `source` is readable.

    `csv` and `types` are the options with which the file was read, and `user` is the user column. Nothing is added if
    the error is not about the file, or if `setwise check` would read the file with the same options.
    """
    try:
        yield
    except SeveralValues:
        raise
    except (UnsuitableTable, UnknownColumn, InvalidFilter, InvalidParameter) as refusal:
        if "means the table's own column" in str(refusal):
            raise  # no reading of the file changes what a name in GROUP BY means
        about_file = isinstance(refusal, UnsuitableTable | UnknownColumn)
        if not about_file and not any(word in str(refusal) for word in _ABOUT_FILES):
            raise
        notes = refusal.notes if isinstance(refusal, UnreadableCells) else ()
        if corrected := with_near_column(str(refusal), command_words.get(), source):
            raise type(refusal)(corrected) from None
        unreadable = re.match("(.+?) cannot be read as CSV: ", str(refusal))
        if unreadable and Path(unreadable[1]).resolve() != Path(source).resolve():  # a joined or public file
            saved = f"setwise check {quote(unreadable[1])} --save"
            raise type(refusal)(f"{refusal}; all that this file needs is kept beside it by: {saved}") from None
        advice = _advice(source, csv, types, user, notes, str(refusal))
        if not advice:
            raise
        message = str(refusal)
        commands = [command for note in notes for command in (note.copy_command, *(c.command for c in note.choices))]
        # a long command is read once
        message = _without_commands(message, [command for command in commands if command and command in advice])
        kind = UnsuitableTable if isinstance(refusal, UnreadableCells) else type(refusal)
        if re.search("--(columns|skip-lines|separator|header|format) ", advice):  # another header has other columns
            message = without_other_files(message)
        raise kind(f"{message}; {advice}") from None


def _without_commands(message: str, commands: Sequence[str]) -> str:
    """Return `message` without the shell `commands` that stand in it after a colon."""
    for command in commands:
        message = message.replace(f": {command}", "", 1)
    return message


class SeveralValues(InvalidParameter):
    """Error for a distinct count of several `columns` together, which only SQL can ask.

    The message ends with the `setwise sql` command to paste, or with only the SQL statement if `table`, the path of the
    table, is None.
    """

    def __init__(self, columns: Sequence[str], table: str | None) -> None:
        names = ", ".join(name if name.isidentifier() else f'"{name}"' for name in columns)
        found = ", and finds --per-user itself" if "--per-user" in _sql_options()[0] else ""
        command = _distinct_command(names, table)
        super().__init__(f"--value takes one column; SQL counts several together{found}: {command}")


def _distinct_command(names: str, table: str | None) -> str:
    """Return a phrase with a `setwise sql` command that counts the distinct combinations of several columns.

    `names` are the columns, as SQL text, and `table` is the path of the table. The command has the filter and the group
    of the command that was called, and those of its options that `setwise sql` has too. If `table` is None, or if the
    groups are periods of time or ranges of numbers, the phrase has only the SQL statement.
    """
    named, kept = _sql_options()
    item, where = named.get("--item", ""), f" WHERE {named['--where']}" if "--where" in named else ""
    is_binned = re.search(" (by|of) ", item) is not None
    group = item if item.isidentifier() else f'"{item}"'
    statement = f"SELECT COUNT(DISTINCT {names}) AS n FROM t{where}"  # noqa: S608 - shown, and not run
    if item and not is_binned:
        statement = f"SELECT {group}, COUNT(DISTINCT {names}) AS n FROM t{where} GROUP BY {group}"  # noqa: S608
    if table is None or is_binned or table not in kept or "--table" in named:
        return statement
    kept.remove(table)
    return f"ask again with: setwise {join(['sql', statement, '--table', f't={table}', *kept])}"


def _sql_options() -> tuple[dict[str, str], list[str]]:
    """Return (values, words) of the running command, from which a `setwise sql` command can be made that asks the same.

    - `values` maps options that `setwise sql` does not have, such as --where, to their values. The caller writes them
      into the SQL statement, for example as its WHERE.
    - `words` are all other words of the command line after the command's name. `setwise sql` takes them as they are,
      except the table. In them, --preview has become --explain, and --contributions auto is left out, because auto is
      the default.
    """
    named: dict[str, str] = {}
    words: list[str] = []
    remaining = iter(command_words.get()[1:])
    for word in remaining:
        option, equals, value = word.partition("=")
        if option in _QUESTION_OPTIONS:
            named[option] = value if equals else next(remaining, "")
        elif option == "--contributions":
            value = value if equals else next(remaining, "")
            words += [] if value == "auto" else [option, value]
        else:
            words.append("--explain" if word == "--preview" else word)
    return named, words


class UnreadableCells(UnsuitableTable):
    """Error for a question that is refused before its charge, because cells that it needs cannot be read.

    `notes` are sentences of the scan before the charge: which cells these are, and with which options they can be read.
    """

    def __init__(self, message: str, notes: "Sequence[ScanNote]" = ()) -> None:
        super().__init__(message)
        self.notes = tuple(notes)


def _advice(  # noqa: PLR0912 - one branch for each kind of refusal
    source: str, csv: "CsvOptions", types: "Mapping[str, Kind]", user: str, notes: "Sequence[ScanNote]", message: str
) -> str:
    """Return advice to add to a refusal: which options the CSV file `source` needs, and a command with these options.

    - `csv`, `types`: the options with which the file was read
    - `user`: the file's user column
    - `notes`: the notes of the scan (which counted unreadable cells) for which the question was refused
    - `message`: the text of the refusal

    Returns "" if no command is known that avoids the refusal.
    """
    from setwise.analytics.engines.files import files_of, magic_of
    from setwise.analytics.tables.check import check_table

    if "needs a column of dates or times, and " in message or " since 1970, which " in message:
        times = re.search(r"the numbers of '(.+)' may be \w+ since 1970, which (\w+)\(", message)
        function = times[2] if times is not None else "TO_TIMESTAMP"
        asking = _ask_for_times(source, user, function)
        return asking if asking or times is None else _read_times(times[1], function)
    commands = [note.copy_command for note in notes if note.copy_command]
    if "carriage returns alone" in message:
        suffix = Path(source).suffix
        commands.append(f"tr '\\r' '\\n' < {quote(source)} > {quote(source.removesuffix(suffix) + '.clean' + suffix)}")
    if "the table has no column" in message and (wrapped := _unwrapping(source, csv)):
        commands.append(wrapped)
    comparisons = dict(note.comparison for note in notes if note.comparison is not None)
    asked = _with_constants([_with_comparisons(word, comparisons) for word in command_words.get()], notes)
    asked = _with_rewritten(asked, notes)
    if notes and all(note.rewritten is not None for note in notes):  # the file itself is read well
        is_new = asked != command_words.get() and not any("\n" in word for word in asked)
        return f"or ask again with: setwise {join(asked)}" if is_new else ""
    # A command that would be refused for these notes again is never returned. A readable copy of the file, and a column
    # of words that is compared with one of them, are not refused again.
    if any(note.is_unsolved for note in notes) or (comparisons and tuple(asked) == command_words.get()):
        return _write_copy(notes)
    copied = next((note for note in notes if note.copies), None)
    choices = [copy for note in notes for copy in note.choices]
    if commands or choices:
        one = _ask_copy(source, commands[0], asked) if commands else _ask_one_of(source, choices, asked)
        return one if copied is None else _ask_copies(copied, asked)
    types = {name: kind for name, kind in types.items() if name not in comparisons}
    try:
        files = files_of(source)
        if not files or magic_of(files[0]) is not None:
            return ""
        check = check_table(source, csv, {}, None)
    except SetwiseError:  # the refusal itself says why the file cannot be read
        return ""
    readings = check.readings()
    if readings:
        return _choices(source, readings, types, user, notes)
    form = next((form for name, form in check.forms.items() if _sums(asked, name)), None)
    if form is not None:  # with options alone, the next refusal would be about these numbers
        commands = [copy.command for copy in form.copies]
        asking = _ask_one_of(source, form.copies, asked)
        return "; ".join(filter(None, [_without_commands(form.sentence, commands), asking]))
    words = _without_float_user(user, _needed_options(check, types))
    unguessed = _missing_options([option for note in notes for option in _pairs(note.options)], words)
    words += unguessed
    command = _with_options(asked, words)
    is_new = bool(comparisons) or not set(words) <= set(command_words.get())
    if not (words or comparisons) or user not in _column_names(check) or not is_new:
        return _name_columns(source, csv, user, check) if "has no column" in message else ""
    columns = [value.rpartition("=")[0] for option, value in _pairs(unguessed) if option == "--type"]
    if not words or not _column_names(check).issuperset(columns):  # a joined column is described beside its own file
        return f"or ask again with: setwise {join(command)}"
    saved = f"all that the file needs is kept beside it by: setwise check {quote(source)} --save"
    saved += f" {join(words)}" if unguessed else ""
    if any("\n" in word for word in command) or not command:
        return f"{saved}; or add these options: {join(words)}"
    return f"{saved}; or ask again with: setwise {join(command)}"


def _write_copy(notes: "Sequence[ScanNote]") -> str:
    """Return a phrase with the command of one of `notes` that writes a copy of which the question cannot be repeated.

    Such a copy has its numbers in another unit, so that the question has to be written for it. Returns "" if there is
    no such note.
    """
    command = next((note.copy_command for note in notes if note.is_unsolved and note.copy_command), "")
    if not command:
        return ""
    saved = f"{command} && setwise check {quote(split(command)[-1])} --save"
    return f"write the copy, and ask it with its unit in the question: {saved}"


def _name_columns(source: str, csv: "CsvOptions", user: str, check: "TableCheck") -> str:
    """Return a phrase with a command that names the columns of the file `source`, whose header `check` did not find.

    The command gives the name of the user column, `user`, to the first column. Returns "" if the file has a header, has
    a column of that name, or was read with names of its columns in `csv`.
    """
    if user in _column_names(check) or csv.columns is not None or check.csv is None or not check.csv.columns:
        return ""
    named = ",".join((user, *check.csv.columns[1:]))
    command = f"setwise check {join([source, '--no-header', '--columns', named, '--save'])}"
    return (
        f"the file seems to have no header, so name its {len(check.csv.columns)} columns in their order and ask again, "
        f"as in: {command}, if the first column tells users apart; what they hold is shown by: setwise check "
        f"{quote(source)}"
    )


def _sums(words: Sequence[str], name: str) -> bool:
    """Return whether the command-line `words` ask for a sum, mean or other aggregate of the numbers in column `name`.

    The option --value asks for one, and so does SQL such as SUM(name). If the numbers of such a column cannot be read,
    the caller advises to write a copy of the file with plain numbers.
    """
    column = rf'"?{re.escape(name)}(?!\w)'
    aggregate = re.compile(
        rf"\b(SUM|AVG|MEDIAN|VARIANCE|STDDEV|PERCENTILE_CONT|PRIVATE_M..)\s*\(\s*{column}", re.IGNORECASE
    )
    return ("--value", name) in pairwise(words) or any(aggregate.search(word) for word in words)


def _unwrapping(source: str, csv: "CsvOptions") -> str:
    """Return a shell command that writes a copy of the file `source` whose lines a CSV reader can divide into cells.

    The copy lacks the quotes around whole lines, or has one blank wherever several blanks divide cells. `csv` are the
    options with which the file was read. The result is "" if the file has neither, if `source` is several files, or if
    no command can copy the file.
    """
    from setwise.analytics.engines.files import files_of, magic_of
    from setwise.analytics.tables.clean_copies import with_single_blanks, with_unwrapped_lines

    try:
        files = files_of(source)
        if len(files) != 1 or magic_of(files[0]) is not None:
            return ""
        return with_unwrapped_lines(files[0], csv) or with_single_blanks(files[0], csv)
    except SetwiseError:  # the refusal itself says why the file cannot be read
        return ""


def _ask_one_of(source: str, copies: "Sequence[CopyCommand]", asked: Sequence[str]) -> str:
    """Return a phrase with one command for each of `copies` of the file `source`, which asks the question on the copy.

    `asked` are the words of the command line that asked the question. A copy that is right only in one case is
    proposed with that case. Returns "" if the question cannot be repeated on a copy.
    """
    phrases = []
    for copy in copies:
        asking = _ask_copy(source, copy.command, asked, copy.options)
        if not asking:
            return ""
        phrases.append(f"{copy.meaning}, {asking.removeprefix('or ')}" if copy.meaning else asking)
    return "; ".join(phrases)


def _ask_copy(source: str, copy_command: str, asked: Sequence[str], options: Sequence[str] = ()) -> str:
    """Return a phrase with a shell command that copies a file so that it is readable, and asks the question again.

    - `copy_command`: the part of the command that writes a readable copy of the file `source`; its last word is the
      path of the copy
    - `asked`: the words of the command line that asked the question. The question is asked again with the path of the
      copy in place of `source`
    - `options`: the words of options with which the copy has to be read

    Returns "" if no word names `source`, because the question then cannot be repeated on the copy.
    """
    copy = split(copy_command)[-1]
    words = _with_copy(asked, source, copy)
    if words == [*asked] or any("\n" in word for word in words):
        return ""
    check = join(["setwise", "check", copy, "--save", *options])
    return f"or ask the copy with: {copy_command} && {check} && setwise {join(_with_options(words, []))}"


def _ask_copies(note: "ScanNote", asked: Sequence[str]) -> str:
    """Return a phrase with the shell commands of `note`, which copy files, and the question on the copies.

    `asked` are the words of the command line that asked the question. Returns "" if they do not name all of the files.
    """
    words = [*asked]
    for source, copy in note.copies:
        before, words = words, _with_copy(words, source, copy)
        if words == before or any("\n" in word for word in words):
            return ""
    return f"or ask the copy with: {note.copy_command} && setwise {join(words)}"


def _with_copy(words: Sequence[str], source: str, copy: str) -> list[str]:
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


def _ask_for_times(source: str, user: str, function: str) -> str:
    """Return a phrase with a `setwise sql` command to run in place of a `setwise histogram` that was refused.

    A histogram by periods, as with --item 'at by week', is refused if the column holds numbers and no times. The SQL
    statement of the command turns the numbers into times since 1970 and asks for the same numbers per period, by
    default of users. The result is "" if the running command is no such histogram.

    - `source` is the table, and `user` its user column.
    - `function` is the SQL function that turns the numbers into times, such as TO_TIMESTAMP.
    """
    named, words = _sql_options()
    bins = re.fullmatch("(.+) by ([a-z]+)", named.get("--item", ""))
    if command_words.get()[:1] != ("histogram",) or source not in words or "--table" in named or bins is None:
        return ""
    words.remove(source)
    name, person = (text if text.isidentifier() else f'"{text}"' for text in (bins[1], user))
    number = f"COUNT(DISTINCT {person}) AS users"
    most = named.get("--per-item", "1")
    if "--value" in named:
        value = named["--value"] if named["--value"].isidentifier() else f'"{named["--value"]}"'
        number = f"SUM({value}, contribution_bounds_per_group => (0, {most})) AS n"
    elif most != "1":
        number = f"COUNT(*, contribution_bounds_per_group => (0, {most})) AS n"
    where = f"WHERE {named['--where']} " if "--where" in named else ""
    periods = f"DATE_TRUNC('{bins[2]}', {function}({name})) AS period, {number}"
    statement = f"SELECT {periods} FROM t {where}GROUP BY period ORDER BY period"  # noqa: S608 - shown, and not run
    command = join(["sql", statement, "--table", f"t={source}", *words])
    return f"if they are times since 1970 (in milliseconds: TIMESTAMP_MILLIS), ask again with: setwise {command}"


def _read_times(name: str, function: str) -> str:
    """Return a phrase with the command that ran, changed so that it reads numbers of the column `name` as times.

    `function` is the SQL function that turns the numbers into times. A statement calls it; a condition, which has no
    functions, compares the column with numbers. Returns "" if the command has no place to change.
    """
    from setwise.analytics.sql.time_units import UNIX_UNITS
    from setwise.analytics.tables.text_order import with_times_as_numbers, with_times_read

    asked = command_words.get()
    if asked[:1] == ("sql",):
        changed = [word if word == name else with_times_read(word, name, function) for word in asked]
    else:
        changed = [with_times_as_numbers(word, name, UNIX_UNITS[function]) for word in asked]
    if changed == [*asked] or any("\n" in word for word in changed):
        return ""
    return f"if they are times since 1970, ask again with: setwise {join(changed)}"


def _with_comparisons(word: str, comparisons: Mapping[str, str]) -> str:
    """Return the command-line word `word` with comparisons in place of columns that it uses as conditions.

    The word is a SQL statement or a filter. `comparisons` maps columns with words such as Ja and Nein, which are no
    truth values, to conditions in SQL. With {"member": "member = 'Ja'"}, COUNTIF(member) becomes
    COUNTIF(member = 'Ja').
    """
    for name, condition in comparisons.items():
        before = r"(COUNTIF\s*\(\s*|\bWHERE\s+|\bWHEN\s+|\bAND\s+|\bOR\s+|\bNOT\s+)"
        after = r"(?=\s*(?:,|\)|$|;|\b(?:THEN|AND|OR|GROUP|ORDER|HAVING|LIMIT)\b))"
        column = rf'(?:"{re.escape(name)}"|{re.escape(name)}(?!\w))'
        word = re.sub(before + column + after, rf"\g<1>{condition.replace(chr(92), chr(92) * 2)}", word, flags=re.I)
    return word


def _with_rewritten(words: Sequence[str], notes: "Sequence[ScanNote]") -> tuple[str, ...]:
    """Return the command-line `words` with the expressions that `notes` propose in place of those in the statement."""
    for written, instead in [note.rewritten for note in notes if note.rewritten is not None]:
        words = [word.replace(written, instead) for word in words]
    return tuple(words)


def _with_constants(
    words: Sequence[str], notes: "Sequence[ScanNote]", csv: "CsvOptions | None" = None
) -> tuple[str, ...]:
    """Return the command-line `words` with constants that fit the columns once these are read as numbers or dates.

    For example, at < '6/1/2024' becomes at < '2024-06-01' once the text column at is read as dates.

    - `notes` say which text columns the question compares by order, and as what they are to be read.
    - `csv` says how the constants are written. If it is None, they are written as the cells seem to be.
    """
    from setwise.analytics.tables.text_order import with_plain_constants

    for name, kind, grammar in [note.compared for note in notes if note.compared is not None]:
        written = grammar if csv is None else csv.cells
        words = [with_plain_constants(word, name, kind, written) for word in words]
    return tuple(words)


def _choices(
    source: str,
    readings: "Mapping[str, tuple[CsvOptions, Mapping[str, Kind]]]",
    types: "Mapping[str, Kind]",
    user: str,
    notes: "Sequence[ScanNote]",
) -> str:
    """Return a sentence with one command for each way in which the file `source` can be read; its owner has to choose.

    - `readings`: a dict from phrases that say when a way is right, such as "if dates are %d.%m.%Y", to the pair of CSV
      options and column types that reads the file in this way
    - `types`: the column types with which the file was read so far
    - `user`: the file's user column
    - `notes`: the notes for which the question was refused

    Returns "" if the running command cannot be repeated in one of these ways.
    """
    from setwise.analytics.tables.check import check_table

    commands = []
    for meaning, (csv, kinds) in readings.items():
        check = check_table(source, csv, kinds, None)
        asked = _with_constants(command_words.get(), notes, csv)
        command = _with_options(asked, _without_float_user(user, _needed_options(check, types)))
        if user not in _column_names(check) or not command or any("\n" in word for word in command):
            return ""
        commands.append(f"{meaning}, ask again with: setwise {join(command)}")
    return f"its cells can be read in {len(readings)} ways: {'; '.join(commands)}"


def _column_names(check: "TableCheck") -> set[str]:
    """Return the names of the columns of the table for which `setwise check` has the result `check`."""
    return {column.name for column in check.counts.columns}


def _needed_options(check: "TableCheck", types: "Mapping[str, Kind]") -> list[str]:
    """Return the command-line words of the options with which a question reads a file correctly.

    `check` is what `setwise check` found out about the file. `types` are the types with which it was read so far; they
    are used for columns to which the check gives no type.
    """
    words = check.options()
    for name, kind in types.items():
        if name in _column_names(check) and name not in check.types:
            words += ["--type", f"{name}={kind}"]
    return words


def _without_float_user(user: str, words: Sequence[str]) -> list[str]:
    """Return the command-line `words` without --type USER=float, where USER is the user column `user`.

    A question is refused if users are floating-point numbers, so that a command with this option would not help.
    """
    float_user = ("--type", f"{user}=float")
    places = {place for place, pair in enumerate(pairwise(words)) if pair == float_user}
    return [word for place, word in enumerate(words) if place not in places and place - 1 not in places]


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return the command-line `words` of options that have a value each, as pairs (option, value)."""
    return [*zip(words[::2], words[1::2], strict=True)]


def _missing_options(options: Sequence[tuple[str, str]], words: Sequence[str]) -> list[str]:
    """Return those of the pairs (option, value) in `options` that do not occur in `words`, as a flat list of words.

    `options` are suggested by notes about a file, and `words` are the options that `setwise check` found for it. The
    caller adds the result to `words`, so that each option occurs once.
    """
    present = {*pairwise(words)}
    return [word for option in options if option not in present for word in option]


def _with_options(command: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the words of `command` with `options` in place of the options by which it reads its file.

    The caller shows the result to the user of a `command` that was refused because its options did not fit the file.
    Both arguments are words of the command line. The result is empty if `command` is empty.
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
) -> "dict[str, TableToScan]":
    """Return the tables that a SELECT joins, by name, each with what is needed to count its unreadable cells.

    - `sources`: the paths of the joined tables, by table name
    - `types`: the kinds of columns, such as integer, by TABLE.COLUMN
    - `users`: the user columns of the joined tables that are private, by table name

    The CSV options of a table are taken from the description file beside it, which `setwise check --save` writes.
    """
    from setwise.analytics.engines.connect import types_of_joined
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.tables.scan_notes import TableToScan

    return {
        name: TableToScan(
            source=source,
            csv=CsvOptions(),
            types=types_of_joined(types, name),
            user=users.get(name),
            remedy=f" (for a joined table: setwise check {quote(source)} with these options and --save)",
        )
        for name, source in sources.items()
    }


def note_unread_cells(
    first: "TableToScan",
    joinable: "Mapping[str, TableToScan]",
    *questions: str,
    free: bool,
    joins: "Sequence[Sequence[Join]]" = (),
    null_sums: "Sequence[NullSum]" = (),
) -> None:
    """Print to standard error how many lines and cells of tables questions cannot read, and which options help.

    - `first`: the first table of the questions
    - `joinable`: the tables that the questions join, by name
    - `questions`: the text of each question; only columns whose names occur in one are checked
    - `free`: True for a preview, which is never refused
    - `joins`: the joins of each SELECT, whose keys are compared
    - `null_sums`: sums of columns that are null in rows where one of the columns is empty

    Raises: `UnsuitableTable` unless `free`, if so much would be skipped or misread that the answer would be of no use:
    for example, if at most half of a column's cells can be read, if no key of a join meets a row, if milliseconds are
    read as seconds, or if dates that do not begin with the year are compared as text.
    """
    from setwise.analytics.tables.unmet_values import join_notes, null_sum_notes, text_notes
    from setwise.analytics.tables.unread_cells import unread_cells

    tables = [first, *joinable.values()]
    found = [(table, note) for table in tables for note in unread_cells(table, " ".join(questions))]
    if all(not note.mostly_unreadable for _, note in found):  # keys and texts of cells that cannot be read say nothing
        for each in dict.fromkeys(map(tuple, joins)):
            found += [(first, note) for note in join_notes(first, joinable, each)]
        texts = {note.text: (table, note) for question in questions for table, note in text_notes(tables, question)}
        found += texts.values()
        found += null_sum_notes(tables, null_sums)
    refusals, refused_notes = [], []
    for table, note in found:
        remedy = table.remedy if "--" in note.text else ""
        sentence = f"{Path(table.source).name}: {note.text}{remedy}"
        if note.mostly_unreadable and not free:
            refusals.append(sentence)
            refused_notes.append(note)
        else:
            print(f"note: {sentence}", file=sys.stderr)
    if refusals:
        message = f"{'; '.join(refusals)}; nothing was charged (--no-scan asks anyway)"
        raise UnreadableCells(message, refused_notes)
