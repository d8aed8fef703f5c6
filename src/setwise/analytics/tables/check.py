"""`setwise check`: count the readable cells of a table, and guess with which options its files have to be read.

The counts are exact, without noise, so only the data holder, who owns the files, may see them. The format of a text
file is guessed from its rows. Queries never use these guesses: the data holder declares the format, so that no private
row can change how a file is read. `unread_cells.py` has the scan before a question is charged.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setwise.analytics.engines.csv_format import UTF_16, CsvFormat, codec_name
from setwise.analytics.engines.csv_reader import SEPARATORS
from setwise.analytics.engines.files import (
    CsvOptions,
    apply_description,
    check_format,
    files_of,
    magic_of,
    write_description,
)
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.schema import Kind
from setwise.analytics.tables.cell_doubts import (
    accounting_zero_sentence,
    far_number_sentences,
    holds_dates_as_numbers,
    offset_sentence,
    stored_time_sentence,
)
from setwise.analytics.tables.copies.clean_copies import (
    COPY,
    UNWRAPPED,
    in_turn,
    signs_note,
    with_divided_columns,
    with_doubled_quotes,
    with_mended_quotes,
    with_single_blanks,
    with_unwrapped_lines,
)
from setwise.analytics.tables.copies.line_copies import with_iso_times, with_named_cells
from setwise.analytics.tables.copies.mixed_dates import mixed_dates
from setwise.analytics.tables.look_alikes import look_alike_notes
from setwise.analytics.tables.lost_csv import lost_lines, second_table, total_notes, undecoded_cells
from setwise.analytics.tables.number_forms import NumberColumn, NumberForm, form_note, mixed_numbers_sentence
from setwise.analytics.tables.scan_notes import CopyCommand, ScanNote, command_line, copies_note
from setwise.analytics.tables.sniffing import sniff
from setwise.analytics.tables.stored_cells import stored_cell_notes
from setwise.analytics.tables.text_encodings import scan_encoding
from setwise.analytics.tables.text_order import are_compact_days
from setwise.analytics.tables.user_cells import shortened_numbers, shortened_users, user_notes
from setwise.analytics.tables.writing import (
    KIND_WORDS,
    Guess,
    commas_note,
    grammar_words,
    guess_grammar,
    may_be_thousands,
    thousands_note,
)
from setwise.errors import InvalidParameter, UnsuitableTable

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.cell_counts import TableCount
    from setwise.analytics.engines.duckdb.tables import DuckDBTable

NO_ROWS = "the table has no rows with a value"
"""The note on a table of which nothing can be counted."""
MOST_CHOICES = 4
"""The most commands that are proposed, if several columns have cells with two meanings each."""
_BLOCK = 2**22
"""Bytes that are read at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheck:
    """The result of checking a table: with which options its files are read, and how many of its cells can be read.

    - `source` is the path that was checked.
    - `csv` has the options that read the text. None for Parquet files and databases.
    - `counts` has the exact counts of rows and cells.
    - `lost_lines` is the number of lines of text that queries skip, because they belong to no well-formed record.
    - `types` has the kinds of those text columns, by name, that are to be read as numbers, dates or truth values.

    The other fields are doubts for the data holder to decide.

    - `other_dates` are date formats that read as many cells as the chosen format.
    - `thousands` are columns of numbers such as 1.234, whose point may be a decimal point or stand between thousands.
    - `commas` are columns of numbers such as 1,234, whose comma may be a decimal point or stand between thousands.
    - `doubtful` has, by text column, words that may mean an empty cell or be values, such as NA.
    - `remarks` are further sentences, such as about numbers with signs beside them, or a last line with a total.
    - `copies` are shell commands that write the readable copy of which the remarks speak: one, or one for each meaning
      of the cells.
    - `forms` has, by column, the form of numbers that queries cannot read, such as $5, or 5- for -5.
    """

    source: str
    csv: CsvOptions | None
    counts: "TableCount"
    lost_lines: int
    types: Mapping[str, Kind]
    other_dates: tuple[str, ...] = ()
    thousands: tuple[str, ...] = ()
    commas: tuple[str, ...] = ()
    doubtful: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    copies: tuple[CopyCommand, ...] = ()
    forms: Mapping[str, NumberForm] = field(default_factory=dict)

    def notes(self) -> list[str]:
        """Return sentences that warn the data holder of ambiguous dates, numbers and words, and of unreadable cells."""
        notes = [*self.remarks, *map(thousands_note, self.thousands), *map(commas_note, self.commas)]
        if self.other_dates and self.csv is not None:
            others = " or ".join(self.other_dates)
            notes.append(
                f"the dates can be read as {self.csv.date_format} and as {others}: the cells do not tell which, so "
                "look where the file comes from, and give the right one with --date-format"
            )
        if self.lost_lines <= 0 and not any(column.filled for column in self.counts.columns):
            notes.append(f"{NO_ROWS}, and the answer to a question would be noise alone")
        if self.lost_lines > 0 and self.counts.rows == 0:
            remedy = "write the copy, and ask it" if self.copies else "state other ones, or none to have them guessed"
            notes.append(f"these options read no line of the file: {remedy}")
        nulls = () if self.csv is None else self.csv.null
        for name, words in self.doubtful.items():
            for word in words:
                notes.append(
                    f"--null {word} also empties the cells {word!r} of {name!r}: leave it out if they are values there"
                    if word in nulls
                    else f"some cells of {name!r} are {word!r}: add --null {word} if they are empty"
                )
        for column in self.counts.columns:
            lost = column.filled - column.readable
            if lost and column.from_text:
                notes.append(
                    f"{lost:,} of {column.filled:,} cells of {column.name!r} are not {KIND_WORDS[column.kind]} and "
                    f"would be skipped; --type {column.name}=text reads them as text"
                )
        return notes

    @property
    def unchosen(self) -> tuple[str, ...]:
        """The columns for which the data holder must still say whether a point stands between thousands, as in 1.234.

        The result has the columns whose points may stand between thousands (`thousands`). A column for which the data
        holder has declared a type (`types`) is left out, because its type settles the question.
        """
        return tuple(name for name in self.thousands if name not in self.types)

    def readings(self) -> dict[str, tuple[CsvOptions, dict[str, Kind]]]:
        """Return the different ways in which the table can be read, so that the data holder can choose one.

        A key says when a way is right, such as "if dates are %d.%m.%Y". Its value is (csv, kinds): the CSV options that
        read the table in this way, and the kinds to declare for columns, by name. The result is empty if the cells
        leave no doubt about dates and numbers.
        """
        if self.csv is None:
            return {}
        if self.commas:
            return {
                "if 1,234 is one and a bit": (replace(self.csv, decimal=","), {}),
                "if it is 1234": (replace(self.csv, thousands=","), {}),
            }
        if self.unchosen:
            return {
                "if 1.234 is one and a bit": (self.csv, dict.fromkeys(self.unchosen, Kind.FLOAT)),
                "if it is 1234": (replace(self.csv, decimal=",", thousands="."), {}),
            }
        formats = [self.csv.date_format, *self.other_dates] if self.other_dates else []
        return {f"if dates are {each}": (replace(self.csv, date_format=each), {}) for each in formats}

    def options(self) -> list[str]:
        """Return the command-line arguments with which the checked table is read, such as ["--separator", ";"]."""
        return option_words(self.csv, self.types)

    def words(self) -> dict[str, Any]:
        """Return the keyword arguments with which `setwise.open`, or a catalog file, reads the checked table.

        Options that have their default value are left out.
        """
        words: dict[str, Any] = {}
        if self.csv is not None:
            usual = CsvOptions()
            for name in (
                *("format", "separator", "quote", "encoding", "skip_lines"),
                *("decimal", "thousands", "date_format", "null"),
            ):
                if getattr(self.csv, name) != getattr(usual, name):
                    words[name] = getattr(self.csv, name)
            if self.csv.columns is not None:
                words["columns"] = list(self.csv.columns)
            elif self.csv.header:
                words["header"] = True
        if self.types:
            words["types"] = {name: str(kind) for name, kind in self.types.items()}
        return words

    def save(self) -> Path:
        """Write a description file (column types and CSV options) beside the table's first file, and return its path.

        Raises: `InvalidParameter` if no line can be read with these options; if the table is in an object store; if the
        file cannot be written; or if the cells leave a doubt: which number of a date is the day, or whether a comma or
        point stands between thousands.
        """
        if self.lost_lines > 0 and self.counts.rows == 0:
            raise InvalidParameter(
                f"nothing was saved: with these options none of the {self.lost_lines:,} lines of {self.source} is a "
                f"record of {len(self.counts.columns)} cells, so that every question would be asked of no row; check "
                "the file without --columns and --separator to see how it is written"
            )
        unclear = [*map(commas_note, self.commas), *(thousands_note(name) for name in self.unchosen)]
        if unclear:
            raise InvalidParameter(f"nothing was saved: {'; '.join(unclear)}")
        if self.other_dates and self.csv is not None:
            choices = " or ".join(f"--date-format '{each}'" for each in (self.csv.date_format, *self.other_dates))
            raise InvalidParameter(
                f"the dates can be read in {1 + len(self.other_dates)} ways, and the cells do not tell which: save it "
                f"again with {choices}, as the source of the file writes them"
            )
        file = files_of(self.source.partition("::")[0])[0]
        if not isinstance(file, Path):
            raise InvalidParameter("nothing is written to an object store: give the options where the table is opened")
        return write_description(file, self.csv or CsvOptions(), self.types)

    def how(self) -> str:
        """Return a text that says how the checked table is written: encoding, number of rows, separator and header.

        For example "text in utf-8, 1,000 rows of 5 cells with commas between them, a header".
        """
        if self.csv is None:
            return f"{self.counts.rows:,} rows of {len(self.counts.columns)} columns with types of their own"
        separator = self.csv.format_of(self.csv.suffix_of(Path(self.source))).separator
        above = f", below {self.csv.skip_lines} other line(s)" if self.csv.skip_lines else ""
        header = "no header" if self.csv.columns is not None else "a header"
        quotes = {"'": " in single quotes", "none": ", in which quotes are text,"}.get(self.csv.quote, "")
        return (
            f"text in {self.csv.encoding}, {self.counts.rows:,} rows of {len(self.counts.columns)} cells{quotes} with "
            f"{SEPARATORS.get(separator, repr(separator))} between them, {header}{above}"
        )

    def to_dict(self) -> dict[str, object]:
        """Return the result of the check as the JSON object that the command prints with `--json`."""
        columns = [
            {
                "name": column.name,
                "kind": str(column.kind),
                "filled": column.filled,
                "unreadable": column.filled - column.readable,
            }
            for column in self.counts.columns
        ]
        return {
            "private": False,
            "how": self.how(),
            "rows": self.counts.rows,
            "users": self.counts.users,
            "lost_lines": self.lost_lines,
            "columns": columns,
            "notes": self.notes(),
            "options": self.options(),
            "copies": [{"meaning": copy.meaning, "command": copy.command} for copy in self.copies],
        }


def option_words(csv: CsvOptions | None, types: Mapping[str, Kind]) -> list[str]:
    """Return the command-line arguments that declare the CSV options `csv` and the kinds `types` of columns, by name.

    Options that have their default value are left out, and so are all CSV options if `csv` is None.
    """
    words: list[str] = []
    if csv is not None:
        usual = CsvOptions()
        values = {field.name: getattr(csv, field.name) for field in fields(csv)}
        for name in ("format", "separator", "encoding", "skip_lines"):
            if values[name] != getattr(usual, name):
                words += [f"--{name.replace('_', '-')}", "tab" if values[name] == "\t" else str(values[name])]
        if csv.quote != usual.quote:
            words += ["--quote", "single" if csv.quote == "'" else csv.quote]
        if csv.columns is not None:
            words += ["--no-header", "--columns", ",".join(csv.columns)]
        elif csv.header:
            words.append("--header")
        words += grammar_words(csv.cells)
    for name, kind in types.items():
        words += ["--type", f"{name}={kind}"]
    return words


def check_table(source: str, csv: CsvOptions, types: Mapping[str, Kind], user: str | None) -> TableCheck:
    """Return the options with which a table is read, and counts of the cells that can be read, for its data holder.

    - `source` is a file, a glob, a directory or FILE::TABLE in a database. The format of several files is guessed from
      the first file.
    - `csv` has the options that the data holder states, and `types` the kinds of columns, by name. Stated options and
      kinds are kept, and so are those in a description file beside the table; only the others are guessed.
    - `user` is the user column, whose distinct values are counted, or None.

    Raises: `UnsuitableTable` if the source cannot be read, `UnknownColumn` if `user` is not a column.
    """
    from setwise.analytics.engines.duckdb.cell_counts import count_cells, text_samples
    from setwise.analytics.engines.duckdb.opening import untyped_table

    files = files_of(source.partition("::")[0])
    types, csv = apply_description(source, types, csv)
    options = None
    if files:  # an empty lake table has none
        check_format(files[0], csv)
        options = sniff(files[0], csv) if magic_of(files[0]) is None else None
        if options is not None and (sentence := _divided_otherwise(files[0], csv)):
            raise UnsuitableTable(sentence)
    guess = Guess(grammar=csv.cells)
    thousands: tuple[str, ...] = ()
    serial = thousands
    remarks: list[ScanNote] = []
    forms: dict[str, NumberForm] = {}
    if options is not None:
        table = untyped_table(source, None, options)
        samples = text_samples(table)
        guess = guess_grammar(samples, options.cells)
        separator = options.format_of(options.suffix_of(files[0])).separator
        thousands = tuple(name for name in samples if may_be_thousands(samples[name], separator, guess.grammar))
        cells = guess.grammar
        options = replace(
            options, decimal=cells.decimal, thousands=cells.thousands, date_format=cells.date_format, null=cells.null
        )
        days = dict.fromkeys((name for name in samples if name != user and are_compact_days(samples[name])), Kind.DATE)
        counts = count_cells(table, {**days, **types}, user, options.cells)
        options = _drop_unused(options, counts)
        kinds = {column.name: column.kind for column in counts.columns}
        users = user_notes(table, user, kinds, options, files, command_line, is_csv=True)
        if settled := _settled(users, options.null):
            options = replace(options, null=(*options.null, *settled))
            counts = count_cells(table, {**days, **types}, user, options.cells)
        serial = tuple(name for name, kind in kinds.items() if holds_dates_as_numbers(name, samples.get(name, ())))
        forms = _number_forms(samples, kinds, user, options, files)
        remarks = _remarks(table, samples, kinds, user, options, files, serial, forms, users)
        serial += tuple(name for name in samples if shortened_numbers(name, samples[name]))  # which get no type either
        if options.encoding != csv.encoding and codec_name(options.encoding) not in UTF_16:
            form = options.format_of(options.suffix_of(files[0]))
            remarks.append(ScanNote(f"the text is not UTF-8: {scan_encoding(files[0], form).choices()}"))
        remarks += undecoded_cells(source, None, options, files, [*samples])
    else:
        table = untyped_table(source, None, csv)
        counts = count_cells(table, types, user, csv.cells)
        notes = user_notes(table, user, types, csv, files, command_line, is_csv=False)
        remarks = [*stored_cell_notes(table, counts.columns), *notes]
    # Types that the data holder gave, or that a description beside the file states, are kept when it is written again.
    texts: dict[str, Kind] = {name: kind for name, kind in types.items() if kind is not Kind.TEXT}
    guessed = [column for column in counts.columns if column.from_text and column.kind is not Kind.TEXT]
    texts |= {column.name: column.kind for column in guessed if column.name not in (*thousands, *serial)}
    if user is not None and user not in types and texts.get(user) is Kind.FLOAT:
        del texts[user]  # a question is refused if users are floating-point numbers
    return TableCheck(
        source=source,
        csv=options,
        counts=counts,
        lost_lines=0 if options is None else _lost_lines(files, options, counts),
        types=texts,
        other_dates=guess.other_dates,
        thousands=thousands,
        commas=guess.commas,
        doubtful=guess.doubtful,
        remarks=tuple(dict.fromkeys(note.without_commands for note in remarks)),
        copies=joint_copies(remarks),
        forms=forms,
    )


def _lost_lines(files: Sequence[TableFile], options: CsvOptions, counts: "TableCount") -> int:
    """Return the number of lines of the text `files` below their headers that belong to no row of the table.

    `options` say how the files are written, and `counts` has the number of rows, and of line feeds within cells.
    """
    form = options.format_of(options.suffix_of(files[0]))
    above = options.skip_lines + (options.columns is None)
    lines = sum(max(0, _lines(file, form) - above) for file in files)
    return lines - counts.rows - sum(column.line_feeds for column in counts.columns)


def _settled(users: Sequence[ScanNote], null: Sequence[str]) -> list[str]:
    """Return the words of the user column, such as Total, without which every question is refused.

    `users` are notes about the user column, and `null` are the words that mean an empty cell already. The options that
    the check prints then have --null for these words, so that its own options do not lead to a refusal.
    """
    pairs = [pair for note in users if note.mostly_unreadable for pair in zip(*[iter(note.options)] * 2, strict=False)]
    return [word for option, word in pairs if option == "--null" and word not in null]


def joint_copies(notes: Sequence[ScanNote]) -> tuple[CopyCommand, ...]:
    """Return the shell commands that write one copy of a file with the changes of all `notes`.

    There is one command, or one for each meaning of the cells. Commands of several files are left out.
    """
    commands = [note.copy_command for note in notes if note.copy_command and not note.copies]
    alternatives = [note.choices for note in notes if note.choices]
    copies = []
    for place, chosen in enumerate([*product(*alternatives)][:MOST_CHOICES]):
        every = [*commands, *(copy.command for copy in chosen)]
        if every:
            meaning = " and ".join(dict.fromkeys(copy.meaning for copy in chosen if copy.meaning))
            options = tuple(word for copy in chosen for word in copy.options)
            copies.append(CopyCommand(meaning=meaning, command=in_turn(every, place), options=options))
    return tuple(copies)


def _divided_otherwise(file: TableFile, csv: CsvOptions) -> str:
    """Return a sentence with a command that copies `file`, if the copy can be divided into cells and the file cannot.

    Such a file has quotes around whole lines, or several blanks between cells. For other files the result is "". `csv`
    says how the file is written.
    """
    if copy := with_unwrapped_lines(file, csv):
        return f"{UNWRAPPED}{copy}"
    if copy := with_named_cells(file, csv):
        return f"its lines are pairs such as name=value, which are not read; a copy with a column for each name: {copy}"
    copy = with_single_blanks(file, csv)
    if copy:
        return f"several blanks divide its cells from each other; a copy with one: {copy}"
    copy = with_divided_columns(file, csv)
    return f"its columns have a fixed width, which is not read; a copy with tabs between them: {copy}" if copy else ""


def _number_forms(
    samples: Mapping[str, Sequence[str]],
    kinds: Mapping[str, Kind],
    user: str | None,
    options: CsvOptions,
    files: Sequence[TableFile],
) -> dict[str, NumberForm]:
    """Return the columns of text whose numbers are written in a form that is not read, each with this form, by name.

    Such a form is $5, or 5- for -5.

    - `samples` has sampled cells of each column, and `kinds` the kind of each column, by name.
    - `user` is the user column, which has no numbers, or None.
    - `options` say how the text `files` are written.

    A form has a sentence for the data holder, which ends with a command that writes a readable copy. All columns with
    signs such as $ beside numbers have one sentence together, because one command takes the signs out of all of them.
    """
    texts = [name for name in samples if kinds[name] is Kind.TEXT and name != user]
    file = files[0] if len(files) == 1 else None
    signs = signs_note(texts, samples, files[0], options)
    command = signs.partition(COPY)[2]
    signed = NumberForm(sentence=signs, copies=(CopyCommand(command=command),) if command else ())
    forms = dict.fromkeys(re.findall("numbers of '([^']*)' have", signs), signed)
    for name in texts:
        form = None
        if name not in forms:
            form = NumberColumn(name, samples[name], file, options, [*samples]).form(is_number=False)
        if form is not None:
            forms[name] = form
    return forms


def _remarks(
    table: "DuckDBTable",
    samples: Mapping[str, Sequence[str]],
    kinds: Mapping[str, Kind],
    user: str | None,
    options: CsvOptions,
    files: Sequence[TableFile],
    serial: Collection[str],
    forms: Mapping[str, NumberForm],
    users: Sequence[ScanNote],
) -> list[ScanNote]:
    """Return notes for the data holder about users, and about cells that cannot be read or may be misread.

    - `table` is the table in the text `files`, with its cells as they are written. `options` say how to read the files.
    - `samples` has sampled cells of each column, by name.
    - `kinds` has the kind of each column, by name: queries read its cells as values of this kind.
    - `user` is the user column, or None, and `users` are the notes about it.
    - `serial` are the columns that seem to hold dates as numbers, of days since 1899, as spreadsheets store them, or of
      seconds or milliseconds since 1970. The result has a sentence about each of these columns. For days, it ends with
      a shell command that writes a copy of the file with dates in place of the numbers, if a command can write it.
    """
    write, texts = command_line, [name for name in samples if kinds[name] is Kind.TEXT]
    noted = {word for note in users for word in note.options}
    notes = [*second_table(files, options), *users]
    notes += total_notes(table, samples, user, options, files[-1], noted)
    sentences = []
    if user is not None:
        sentences.append(shortened_users(user, samples.get(user, ())))
    sentences += [shortened_numbers(name, samples[name]) for name in samples if name != user]
    notes += map(ScanNote, sentences)
    notes += look_alike_notes(table, [name for name in texts if name != user], options, files)
    file = files[0] if len(files) == 1 else None
    for name in (*serial, *texts):
        is_dated = name in serial
        sentence, command = stored_time_sentence(name, samples[name], file, options, [*samples], is_dated=is_dated)
        notes.append(ScanNote(sentence, copy_command=command))
    for name in samples:
        is_date = kinds[name] in (Kind.TEXT, Kind.DATE, Kind.TIMESTAMP) and name != user
        if is_date and (mixed := mixed_dates(samples[name])) is not None:
            copies = mixed.copies(name, file, options, [*samples])
            notes.append(copies_note(mixed.sentence(name), copies, "write all dates in one way in the file"))
    notes += [form_note(form) for form in {form.sentence: form for form in forms.values()}.values()]
    sentences = [
        accounting_zero_sentence(name, samples[name], file, options, [*samples])
        for name in samples
        if kinds[name] in (Kind.INTEGER, Kind.FLOAT)
    ]
    sentences += [mixed_numbers_sentence(name, samples[name]) for name in texts if name not in {*forms, user}]
    sentences += [offset_sentence(name, samples[name], write) for name in samples if kinds[name] is Kind.TIMESTAMP]
    numbers = [name for name in kinds if name != user and name not in serial]
    sentences += far_number_sentences(table, numbers, kinds, options.cells, write, is_text=True)
    notes += map(ScanNote, sentences)
    if file is not None and (copy := with_iso_times(file, options)):
        text = "times such as [16/Aug/2024:21:52:25 +0000] are not read, and are divided into two cells"
        notes.append(ScanNote(f"{text}: a copy with times as 2024-08-16T21:52:25+00:00: {copy}", copy_command=copy))
    lost = lost_lines(files, options, write) if file is not None else []
    unquoted = [note for note in lost if "commas between thousands and no quotes" in note.text]
    if unquoted:
        notes += unquoted
    elif file is not None and (copy := with_doubled_quotes(file, options)):
        text = f"quotes within cells are escaped by a backslash; a copy that is read: {copy}"
        notes.append(ScanNote(text, copy_command=copy))
    elif file is not None and (copy := with_mended_quotes(file, options)):
        text = f"quotes within cells are not doubled; a copy that is read: {copy}"
        notes.append(ScanNote(text, copy_command=copy))
    return [note for note in notes if note.text]


def _drop_unused(options: CsvOptions, counts: "TableCount") -> CsvOptions:
    """Return the CSV `options` with unneeded ones reset to their defaults, so that the data holder declares fewer.

    The decimal point and the thousands separator are reset if no column holds numbers, and the date format is reset if
    no column holds dates or times. `counts` has the kinds of the columns.
    """
    kinds = {column.kind for column in counts.columns}
    if not kinds & {Kind.INTEGER, Kind.FLOAT}:
        options = replace(options, decimal=".", thousands="")
    return options if kinds & {Kind.DATE, Kind.TIMESTAMP} else replace(options, date_format=None)


def _lines(file: TableFile, form: CsvFormat) -> int:
    """Return the number of lines of `file`, including a last line without a line feed.

    `form` says how the file is compressed, so that the lines of its decompressed text are counted.
    """
    lines, last = 0, b""
    with form.open_converted(file.open("rb"), file.name) as opened:
        while block := opened.read(_BLOCK):
            lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last not in (b"", b"\n"))
