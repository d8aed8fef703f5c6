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
from typing import TYPE_CHECKING, Any

from setwise.cli.advice.copy_advice import ask_copies, ask_copies_of_files, with_options
from setwise.cli.advice.running_command import command_words, sql_options
from setwise.cli.advice.time_advice import advise_times, ask_with_function
from setwise.cli.refusals import with_fitting_constant, with_near_column, without_other_files
from setwise.errors import InvalidFilter, InvalidParameter, SetwiseError, UnknownColumn, UnsuitableTable

if TYPE_CHECKING:
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.engines.joins import Join
    from setwise.analytics.schema import Kind
    from setwise.analytics.tables.check import TableCheck
    from setwise.analytics.tables.scan_notes import NullSum, ScanNote, TableToScan

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
        better = advise_times(source, csv, types, user, str(refusal))
        if better := better or with_fitting_constant(str(refusal), command_words.get()):
            raise type(refusal)(better) from None
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
        needed = refusal.needed_types
        advice = _advice(source, csv, types, user, notes, str(refusal), needed)
        if not advice:
            raise
        message = str(refusal)
        commands = [command for note in notes for command in note.commands]
        # a long command is read once
        is_copied = "the copy with: " in advice
        message = _without_commands(message, [each for each in commands if each and (is_copied or each in advice)])
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
        found = ", and finds --per-user itself" if "--per-user" in sql_options()[0] else ""
        command = _distinct_command(names, table)
        super().__init__(f"--value takes one column; SQL counts several together{found}: {command}")


def _distinct_command(names: str, table: str | None) -> str:
    """Return a phrase with a `setwise sql` command that counts the distinct combinations of several columns.

    `names` are the columns, as SQL text, and `table` is the path of the table. The command has the filter and the group
    of the command that was called, and those of its options that `setwise sql` has too. If `table` is None, or if the
    groups are periods of time or ranges of numbers, the phrase has only the SQL statement.
    """
    named, kept = sql_options()
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


class UnreadableCells(UnsuitableTable):
    """Error for a question that is refused before its charge, because cells that it needs cannot be read.

    `notes` are sentences of the scan before the charge: which cells these are, and with which options they can be read.
    """

    def __init__(self, message: str, notes: "Sequence[ScanNote]" = ()) -> None:
        super().__init__(message)
        self.notes = tuple(notes)


def _advice(
    source: str,
    csv: "CsvOptions",
    types: "Mapping[str, Kind]",
    user: str,
    notes: "Sequence[ScanNote]",
    message: str,
    needed: Mapping[str, str],
) -> str:
    """Return advice to add to a refusal: which options the file `source` needs, and a command with these options.

    - `csv`, `types`: the options with which the file was read
    - `user`: the file's user column
    - `notes`: the notes of the scan (which counted unreadable cells) for which the question was refused
    - `message`: the text of the refusal
    - `needed`: the types, by column, with which the question would not have been refused

    Returns "" if no command is known that avoids the refusal.
    """
    from setwise.analytics.engines.files import files_of, magic_of
    from setwise.analytics.tables.check import check_table
    from setwise.analytics.tables.scan_notes import ScanNote

    if (asking := ask_with_function(source, user, message)) is not None and (asking or not needed):
        return asking
    notes = [*notes, *(ScanNote("", copy_command=command) for command in _copy_commands(source, csv, message))]
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
    if any(note.copy_command or note.choices for note in notes):
        return ask_copies(source, csv, types, notes, asked) if copied is None else ask_copies_of_files(copied, asked)
    types = {name: kind for name, kind in types.items() if name not in comparisons}
    try:
        files = files_of(source.partition("::")[0])
        if not files or magic_of(files[0]) is not None:
            needed = {name: kind for name, kind in needed.items() if name not in (user, *types)}
            return _ask_with_types(csv, types, notes, asked, needed)
        check = check_table(source, csv, {}, None)
    except SetwiseError:  # the refusal itself says why the file cannot be read
        return ""
    readings = check.readings()
    if readings:
        return _choices(source, readings, types, user, notes)
    form = next((form for name, form in check.forms.items() if _sums(asked, name)), None)
    if form is not None:  # with options alone, the next refusal would be about these numbers
        commands = [copy.command for copy in form.copies]
        asking = ask_copies(source, csv, types, [*notes, ScanNote("", choices=form.copies)], asked)
        return "; ".join(filter(None, [_without_commands(form.sentence, commands), asking]))
    words = _without_float_user(user, _needed_options(check, types))
    unguessed = _missing_options([option for note in notes for option in _pairs(note.options)], words)
    words += unguessed
    command = with_options(asked, words)
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


def noted_domain(source: Any) -> Any:  # noqa: ANN401 - None, or the text of an option
    """Return `source`, the option with a list of public groups, after a note if its first line is no group.

    The first line of a CSV file of one column is the name of the column. In a list without a header it would be a
    group, which the answer would then lack without a word.
    """
    from setwise.analytics.tables.domain import header_of_domain

    if source is not None and (header := header_of_domain(source)):
        note = f"note: the first line of {source}, {header!r}, names its column and is no group"
        print(f"{note}; in a file that does not end in .csv or .tsv, every line is a group", file=sys.stderr)
    return source


def _copy_commands(source: str, csv: "CsvOptions", message: str) -> list[str]:
    """Return shell commands that write a readable copy of the file `source`, if the refusal `message` is about lines.

    Its lines may end in carriage returns alone, or stand in quotes as a whole, so that the table has one column. `csv`
    are the options with which the file was read.
    """
    commands = []
    if "carriage returns alone" in message:
        suffix = Path(source).suffix
        commands.append(f"tr '\\r' '\\n' < {quote(source)} > {quote(source.removesuffix(suffix) + '.clean' + suffix)}")
    if "the table has no column" in message and (wrapped := _unwrapping(source, csv)):
        commands.append(wrapped)
    return commands


def _ask_with_types(
    csv: "CsvOptions",
    types: "Mapping[str, Kind]",
    notes: "Sequence[ScanNote]",
    asked: Sequence[str],
    needed: Mapping[str, str],
) -> str:
    """Return a phrase with a command that reads columns of text of a Parquet file or a database as other types.

    - `csv` and `types` are the options and types with which the table was read.
    - `notes` name options that are missing, and `needed` has types that are missing, by column.
    - `asked` are the words of the command line that asked the question, in which a column of words may be compared with
      one of them already. Returns "" if nothing changes.
    """
    from setwise.analytics.tables.writing import grammar_words

    present = [("--type", f"{name}={kind}") for name, kind in types.items()] + _pairs(grammar_words(csv.cells))
    missing = [("--type", f"{name}={kind}") for name, kind in needed.items()]
    missing += [option for note in notes for option in _pairs(note.options) if option not in present]
    declared = {value.rpartition("=")[0] for option, value in missing if option == "--type"}
    kept = [pair for pair in present if pair[0] != "--type" or pair[1].rpartition("=")[0] not in declared]
    words = [word for pair in dict.fromkeys([*kept, *missing]) for word in pair]
    command = with_options(asked, words)
    is_new = bool(missing) or tuple(asked) != command_words.get()
    if not is_new or not command or any("\n" in word for word in command):
        return ""
    return f"or ask again with: setwise {join(command)}"


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
    from setwise.analytics.tables.copies.clean_copies import with_single_blanks, with_unwrapped_lines

    try:
        files = files_of(source)
        if len(files) != 1 or magic_of(files[0]) is not None:
            return ""
        return with_unwrapped_lines(files[0], csv) or with_single_blanks(files[0], csv)
    except SetwiseError:  # the refusal itself says why the file cannot be read
        return ""


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
    from setwise.analytics.tables.cell_doubts import with_unix_function
    from setwise.analytics.tables.scan_notes import TIME_KINDS
    from setwise.analytics.tables.text_order import with_plain_constants

    for name, kind, grammar in [note.compared for note in notes if note.compared is not None]:
        written = grammar if csv is None else csv.cells
        words = [with_plain_constants(word, name, kind, written) for word in words]
        if kind in TIME_KINDS:  # the copy has times in place of numbers
            words = [with_unix_function(word, name, "") for word in words]
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
        command = with_options(asked, _without_float_user(user, _needed_options(check, types)))
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
            print(f"note: {_without_commands(sentence, note.commands)}", file=sys.stderr)
            for command in note.commands:
                print(f"  {command}", file=sys.stderr)
    if refusals:
        message = f"{'; '.join(refusals)}; nothing was charged (--no-scan asks anyway)"
        raise UnreadableCells(message, refused_notes)
