"""Sentences that warn the data holder of cells that may not mean what they seem to mean, such as Unix times.

Examples are codes such as -999 among numbers, times with an offset from UTC, the numbers in which spreadsheets store
dates, and columns that write yes with several words.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.engines.row_sql import LARGEST_INTEGER
from setwise.analytics.engines.typed_cells import BLANKS, MONTHS, CellGrammar
from setwise.analytics.schema import Kind
from setwise.analytics.tables.copies.clean_copies import with_changed_cells
from setwise.analytics.tables.scan_notes import OptionWriter, ScanNote
from setwise.analytics.tables.writing import (
    ENOUGH,
    NULL_WORDS,
    condition_of_words,
    guess_grammar,
    readable_cells,
    yes_words,
)

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.tables import DuckDBTable

_OFFSET = re.compile(r":[0-9]{2}([.][0-9]+)? ?([+-][0-9]{2}(:?[0-9]{2})?)")
"""The regular expression of the end of a time with an offset, which is its second group."""
_SERIAL_DAY = r"[2-7][0-9]{4}([.][0-9]+)?"
"""The regular expression of a day since 1899-12-30, from 1954 to 2119, with a time of day as a fraction."""
_SERIAL_DAYS = range(32_874, 54_790)
"""The days since 1899-12-30 of the years 1990 to 2049, which most dates of tables are of."""
_SERIAL_WORDS = (
    "are days since 1899-12-30, as spreadsheets store dates (since 1904-01-01, and so 1,462 days later, in a workbook "
    "with dates from 1904)"
)
_SERIAL_ADVICE = "format the column as yyyy-mm-dd in the spreadsheet, and save it again"
_CLOCK = r"[0-9]{1,4}:[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?"
"""The regular expression of a time of day, or of a duration, as h:mm or h:mm:ss."""
_TWELVE_HOURS = (
    "(.*[^0-9])?(1[0-2]|0?[1-9]):([0-5][0-9](:[0-5][0-9])?)[ \u00a0\u202f]?([AaPp])[.]?[Mm][.]?( ?[A-Z]{3,5})?"
)
"""The regular expression of a time with AM or PM, which a date may precede as the first group.

A time zone may follow.
"""
_DURATION = (
    "(?:([0-9]+) ?(?:h|hr|hrs|hours?|std)[.,]? ?)?(?:([0-9]+) ?(?:m|min|mins|minutes?)[.,]? ?)?"
    "(?:([0-9]+) ?(?:s|sec|secs|seconds?|sek)[.]?)?"
)
"""The regular expression of a duration such as 1h 30m; its groups are hours, minutes and seconds."""
_BESIDE_DATES = (
    "^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*[.]?,? |(?<=[0-9])(st|nd|rd|th)(?= |,)| (of|de|del)(?= )"
    "|(,| at| um)(?= [0-9]{1,2}:[0-5][0-9])|(?<=[0-9]) ?(GMT|UTC)(?=[+-][0-9])"
    "|(?<=[0-9]) ?[([]?(?!AM|PM)(Uhr|[A-Z]{2,5}|[A-Z][A-Za-z]+(/[A-Za-z0-9_+-]+)+)[])]?(?!.)"
)
"""The regular expression of what stands beside a date or time and is not read.

Examples are the name of a weekday, the end of 1st, "of" before a month, a comma before a time, and a time zone. A date
and time is read without them.
"""
_WORD = "[^-0-9 .,:/]+"
"""The regular expression of a word in a date, in any language."""
_ENGLISH_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FOREIGN_MONTHS = {
    month: english
    for months in (
        "januar februar m\u00e4rz april mai juni juli august september oktober november dezember",
        "janvier f\u00e9vrier mars avril mai juin juillet ao\u00fbt septembre octobre novembre d\u00e9cembre",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "janeiro fevereiro mar\u00e7o abril maio junho julho agosto setembro outubro novembro dezembro",
        "januari februari maart april mei juni juli augustus september oktober november december",
        "januari februari mars april maj juni juli augusti september oktober november december",
        "januar februar marts april maj juni juli august september oktober november december",
    )
    for month, english in zip(months.split(), _ENGLISH_MONTHS, strict=True)
}
"""The English abbreviation of each month, by its name in other European languages."""
_DATED_NAME = re.compile(
    "date|day|datum|fecha|jour|giorno|dia|tag|time|stamp|epoch|when|_at$|^at$|^d$|^dt$|^ts$|_ts$|_dt$|created|updated"
    "|born|birth|^ts_|_(ns|us|ms)$|nano|micros|millis|(?-i:[a-z]At$)",
    re.IGNORECASE,
)
"""Parts of the names of columns that hold dates."""
_EVENT_NAME = re.compile(
    "(?:^|_)(start|end|begin|since|until|due|joined|hired|expir(es|y)|arriv(al|ed)|depart(ure|ed)|paid|ordered|shipped)"
    "(?:$|_)",
    re.IGNORECASE,
)
"""Words in the names of columns that may hold dates, or numbers such as a mileage."""
_NANOSECONDS = "([0-9]{9,10})[0-9]{9}"
"""The regular expression of nanoseconds since 1970, of the years 1973 to 2262; its group has the seconds."""
_UNITS = {1: "seconds", 1_000: "milliseconds", 1_000_000: "microseconds"}
"""The names of units of time, by the number of units in a second."""
_UNIX_UNITS = {
    **dict.fromkeys(("TO_TIMESTAMP", "FROM_UNIXTIME", "TIMESTAMP_SECONDS", "TO_TIMESTAMP_NTZ"), 1),
    **dict.fromkeys(("TIMESTAMP_MILLIS", "EPOCH_MS"), 1_000),
    "TIMESTAMP_MICROS": 1_000_000,
}
"""The SQL functions that read numbers since 1970 as times, each with the number of units in a second."""
_LAST_SECOND = 253_402_300_799
"""The last second of the year 9999, counted from 1970; larger numbers are no seconds of a time that can be read."""
_YEAR = 366 * 86_400
"""The seconds of a year. Times since 1970 below this number are of 1970."""
_FROM_SERIAL_DAY = (
    "str(datetime.datetime(1899,12,30)+datetime.timedelta(seconds=round(86400*float(m[0])))).replace(' 00:00:00','')"
)
_FROM_TWELVE_HOURS = "(m[1] or '').replace(',','')+'%02d:'%(int(m[2])%12+12*(m[5] in 'Pp'))+m[3]"
_FROM_DURATION = "str(3600*int(m[1] or 0)+60*int(m[2] or 0)+int(m[3] or 0))"
_FROM_CLOCK = "'%.12g'%sum(float(x)*60**(2-i) for i,x in enumerate(m[0].split(':')))"


def offset_sentence(name: str, cells: Sequence[str], write: OptionWriter) -> str:
    """Return a sentence if times of the column `name` have an offset from UTC other than zero; else "".

    - `cells` are sampled cells of the column, which is read as timestamps.
    - `write` turns an option into text, as the data holder has to type it.

    The sentence warns that times with an offset are converted to UTC, so that a time may move to another day. The
    sentence also states the option that reads the column as dates, so that each cell keeps the day that is written in
    it.
    """
    matches = [match for cell in cells if (match := _OFFSET.search(cell.strip(BLANKS)))]
    offset = next((match[2] for match in matches if match[2].strip("+-0:")), None)
    if offset is None:
        return ""
    return (
        f"times of {name!r} have an offset such as {offset} and are converted to UTC, so that days, weeks and months "
        f"begin at midnight in UTC: {write(['--type', f'{name}=date'])} takes the day as it is written"
    )


def accounting_zero_sentence(
    name: str, cells: Sequence[str], file: TableFile | None, csv: CsvOptions, names: Sequence[str]
) -> str:
    """Return a sentence if `cells` of the column of numbers `name` are a dash between blanks, as " -   "; else "".

    Spreadsheets write zero so in an accounting format, but --null - reads such cells as empty, which changes means. The
    sentence ends with a command that writes a copy of `file` with zeros, if one can. `csv` says how the file with the
    columns `names` is written.
    """
    if "-" not in csv.null or not any(cell != "-" and cell.strip(BLANKS) == "-" for cell in cells):
        return ""
    command = with_changed_cells(file, csv, names, name, "-", "'0'") if file is not None else ""
    remedy = f"a copy with zeros: {command}" if command else "write 0 in the file"
    return (
        f"--null - reads cells of {name!r} with a dash between blanks as empty, but spreadsheets write zero so in an "
        f"accounting format: if it is zero there, {remedy}"
    )


def far_number_sentences(
    table: "DuckDBTable",
    names: Collection[str],
    kinds: Mapping[str, Kind],
    grammar: CellGrammar,
    write: OptionWriter,
    *,
    is_text: bool,
) -> list[str]:
    """Return a sentence for each number of a column that repeats often and lies far from all others, such as -999.

    A number such as -999 may mean that the value is not known. The sentence tells the data holder what to do then.

    - `names` are the columns of `table`. A column of text is read as the kind that `kinds` has for its name.
    - `grammar` says how numbers and empty cells are written.
    - `is_text` is True if the table is a CSV file. The sentence then states an option that reads the number as an empty
      cell. For other tables it states a SQL condition that leaves out the rows with the number.
    - `write` turns the option into text, as the data holder has to type it.
    """
    from setwise.analytics.engines.duckdb.number_counts import far_numbers

    sentences = []
    for far in far_numbers(table, names, kinds, grammar):
        word = far.words[0]
        remedy = f"WHERE {far.name} <> {word} leaves such rows out"
        if is_text:
            options = write([part for each in far.words for part in ("--null", each)])
            remedy = f"{options} reads it as empty, in every column"
        sentences.append(
            f"{far.cells:,} of the first {far.filled:,} cells of {far.name!r} are {word}, and all others lie between "
            f"{far.low:,g} and {far.high:,g}: if {word} means that the value is not known, {remedy}"
        )
    return sentences


def computed_uses(names: Iterable[str], question: str) -> list[tuple[str, str]]:
    """Return pairs (column, function) for those of the column `names` with which the query `question` computes.

    The function is one that reads numbers since 1970, such as TO_TIMESTAMP; or "" for arithmetic and bins, as in
    at / 60 and 'at by 60'.

    >>> computed_uses(["at", "id"], "SELECT FLOOR(t.at / 60), COUNT(*) FROM 'x/id.csv' WHERE to_timestamp(id) > '1'")
    [('at', ''), ('id', 'TO_TIMESTAMP')]
    """
    text = re.sub("'(?![^']* by [0-9])[^']*'", "''", question)  # bins of a histogram stand in quotes
    uses = []
    for name in names:
        # a lookbehind, so that the end of another name is not taken for the column
        column = rf'(?:\w+\.)?"?(?<!\w){re.escape(name)}(?!\w)"?'
        times = re.findall(rf"\b({'|'.join(_UNIX_UNITS)})\s*\(\s*{column}", text, re.IGNORECASE)
        uses += [(name, function) for function in dict.fromkeys(time.upper() for time in times)]
        computed = rf"{column}\s*[-+*/%]|[-+*/%]\s*\(?\s*{column}|{column}\s+by\s+[0-9]|\b{_MATHS}\s*\(\s*{column}"
        without_times = re.sub(rf"\b({'|'.join(_UNIX_UNITS)})\s*\([^()]*\)", "", text, flags=re.IGNORECASE)
        uses += [(name, "")] if re.search(computed, without_times, re.IGNORECASE) else []
    return uses


_MATHS = "(?:ABS|MOD|SIGN|SQRT|LN|LOG|LOG10|LOG2|EXP|POW|POWER)"
"""Pattern of functions of numbers that are computed with 64-bit floats."""


def large_number_notes(
    table: "DuckDBTable", question: str, kinds: Mapping[str, Kind], csv: CsvOptions, files: Sequence[TableFile]
) -> list[ScanNote]:
    """Return a note for each integer column most of whose numbers are too large for what `question` computes of them.

    A time after the year 9999, and in arithmetic and bins a whole number from 2^53 on, becomes null, so that the answer
    is about no row. The query is to be refused. A note says which function reads the numbers as times, or has a command
    that writes a copy with seconds in place of nanoseconds.

    - `table` is the table with its cells as they are written, and `kinds` has the kinds as which columns are read.
    - `csv` says how the CSV `files` of the table are written. Without files, the table is of another kind.
    """
    from setwise.analytics.engines.duckdb.cell_counts import column_names, typical_numbers

    names = column_names(table)
    if not (uses := computed_uses(names, question)):
        return []
    medians = typical_numbers(table, {name for name, _ in uses}, kinds, csv.cells)
    notes: list[ScanNote] = []
    of_1970 = [pair for pair in uses if pair[1] and 0 < medians.get(pair[0], 0) < _YEAR * _UNIX_UNITS[pair[1]]]
    for name, function in of_1970:
        notes.append(_note_of_1970(name, function, table, csv, files, names))
    for name, function in uses:
        number, per_second = abs(medians.get(name, 0)), _UNIX_UNITS.get(function, 1)
        if number <= _LAST_SECOND * per_second if function else number < LARGEST_INTEGER:
            continue
        fitting = [unit for unit in (1_000, 1_000_000) if per_second < unit and number <= _LAST_SECOND * unit]
        if function and fitting:
            text = f"the numbers of {name!r} are {_UNITS[fitting[0]]} since 1970, as {_UNITS[per_second]} they are"
            write = "TIMESTAMP_MILLIS" if fitting[0] == 1_000 else "TIMESTAMP_MICROS"
            text = f"{text} beyond the year 9999: write {write}({name})"
            notes.append(ScanNote(text, mostly_unreadable=True, is_unsolved=True))
            continue
        is_nano = re.fullmatch(_NANOSECONDS, str(number)) is not None
        cut = 9 - (len(str(per_second)) - 1 if function else 0)
        pattern = f"([0-9]+)[0-9]{{{cut}}}"
        file = files[0] if len(files) == 1 and is_nano else None
        command = "" if file is None else with_changed_cells(file, csv, names, name, pattern, "m[1]")
        unit = _UNITS[per_second]
        text = f"most numbers of {name!r} are from 2^53 (9,007,199,254,740,992) on, and such numbers become null in "
        text += "arithmetic, bins and comparisons of columns"
        if function:
            text = f"most numbers of {name!r} are times beyond the year 9999 if they are {unit} since 1970"
        text += f"; they may be nanoseconds: a copy with {unit}" if is_nano else ": write smaller numbers in the file"
        text += f": {command}" if command else ""
        notes.append(
            ScanNote(text, mostly_unreadable=True, copy_command=command, is_unsolved=not (command and function))
        )
    return notes


def _note_of_1970(
    name: str, function: str, table: "DuckDBTable", csv: CsvOptions, files: Sequence[TableFile], names: Sequence[str]
) -> ScanNote:
    """Return a note that `function` reads most numbers of the integer column `name` as times of 1970.

    If the cells are days as spreadsheets count them, the query is to be refused, and the note has a command that writes
    a copy with dates. `table`, with the columns `names`, is of the CSV `files`, which `csv` describes; without files it
    is of another kind.
    """
    from setwise.analytics.engines.duckdb.cell_counts import text_samples, typical_numbers

    text = f"{function}({name}) reads most numbers of {name!r} as times of 1970"
    number = typical_numbers(table, {name}, {name: Kind.INTEGER}, csv.cells).get(name, 0)
    if (write := unix_function(number)) and write != function:
        text += f", but they may be {_UNITS[_UNIX_UNITS[write]]} since 1970: write {write}({name})"
        return ScanNote(text, mostly_unreadable=True, is_unsolved=True)
    cells = text_samples(table, wanted=name.__eq__).get(name, ()) if files else ()
    if not are_serial_days(cells):
        return ScanNote(f"{text}: are they {_UNITS[_UNIX_UNITS[function]]} since 1970?")
    note = serial_day_note(name, csv, files, names)
    return replace(note, text=f"{text}, but {note.text}")


def serial_day_note(name: str, csv: CsvOptions, files: Sequence[TableFile], names: Sequence[str]) -> ScanNote:
    """Return a note, which refuses a query, on the column `name` of days as spreadsheets count them.

    The note has a command that writes a copy with dates. `csv` says how the `files` with the columns `names` are
    written.
    """
    command = ""
    if len(files) == 1:
        command = with_changed_cells(files[0], csv, names, name, _SERIAL_DAY, _FROM_SERIAL_DAY)
    remedy = f"a copy with dates: {command}" if command else _SERIAL_ADVICE
    return ScanNote(
        f"cells of {name!r} {_SERIAL_WORDS}: {remedy}",
        mostly_unreadable=True,
        copy_command=command,
        is_unsolved=not command,
        compared=(name, Kind.TIMESTAMP, CellGrammar()),
    )


def with_unix_function(statement: str, name: str, function: str) -> str:
    """Return the SQL `statement` with `function` in place of functions that read the column `name` as times since 1970.

    If `function` is "", such a function is left out.

    >>> with_unix_function("SELECT DATE_TRUNC('day', TO_TIMESTAMP(t.at))", "at", "")
    "SELECT DATE_TRUNC('day', t.at)"
    """
    column = rf'((?:\w+\.)?"?(?<!\w){re.escape(name)}(?!\w)"?)'
    new = rf"{function}(\1)" if function else r"\1"
    return re.sub(rf"\b(?:{'|'.join(_UNIX_UNITS)})\s*\(\s*{column}\s*\)", new, statement, flags=re.IGNORECASE)


def holds_dates_as_numbers(name: str, cells: Sequence[str]) -> bool:
    """Return whether the column `name` seems to hold dates that are written as numbers.

    Spreadsheets store a date as the number of days since 1899-12-30, such as 45000, and programs as seconds or
    milliseconds since 1970. A price or a number of people can be 45000 too, so the column must also have a name that
    suggests dates, such as "created". `cells` are sampled cells of the column.
    """
    is_number = are_serial_days(cells) or _match(cells, _NANOSECONDS) or since_1970(cells) != ""
    if _DATED_NAME.search(name) is None:
        return _EVENT_NAME.search(name) is not None and is_number
    return is_number or _match(cells, _SERIAL_DAY)


def are_serial_days(cells: Sequence[str]) -> bool:
    """Return whether 90% of the sampled `cells` are days of the years 1990 to 2049, counted from 1899-12-30."""
    days = [text for text in _filled(cells) if re.fullmatch(_SERIAL_DAY, text)]
    return sum(int(float(day)) in _SERIAL_DAYS for day in days) >= ENOUGH * max(1, len(_filled(cells)))


def unix_function(number: int) -> str:
    """Return the SQL function that reads `number`, the median of a column, as a time since 1970; "" if none does.

    Times are of the years 1973 to 2286, as their numbers of digits tell apart seconds, milliseconds and microseconds.

    >>> unix_function(1704093200000), unix_function(45292)
    ('TIMESTAMP_MILLIS', '')
    """
    return since_1970([str(number)])


def since_1970(cells: Sequence[str]) -> str:
    """Return the SQL function that reads at least 90% of the sampled `cells` as times since 1970; "" if there is none.

    TO_TIMESTAMP is returned if these cells are numbers with as many digits as seconds since 1970 have, TIMESTAMP_MILLIS
    if they have as many digits as milliseconds, and TIMESTAMP_MICROS if they have as many as microseconds.
    """
    lengths = [len(cell.strip()) for cell in cells if cell.strip().isdecimal()]
    for function, digits in (("TO_TIMESTAMP", (9, 10)), ("TIMESTAMP_MILLIS", (12, 13)), ("TIMESTAMP_MICROS", (15, 16))):
        if cells and sum(length in digits for length in lengths) >= ENOUGH * len(cells):
            return function
    return ""


def since_1970_sentence(name: str, cells: Sequence[str]) -> str:
    """Return a sentence if the numbers of the column `name` may be seconds, or parts of them, since 1970; else "".

    `cells` are sampled cells of the column.
    """
    function = since_1970(cells)
    if not function:
        return ""
    unit = _UNITS[_UNIX_UNITS[function]]
    return f"the numbers of {name!r} may be {unit} since 1970, which {function}({name}) reads in SQL"


def stored_time_sentence(
    name: str, cells: Sequence[str], file: TableFile | None, csv: CsvOptions, names: Sequence[str], *, is_dated: bool
) -> tuple[str, str]:
    """Return (sentence, command) about cells with dates or times in forms that are not read; ("", "") if none.

    The forms are:
    - numbers of days, in which spreadsheets store dates, and numbers of seconds or milliseconds since 1970;
    - times with AM or PM, times such as 1:30:00, and durations such as 1h 30m;
    - dates with words beside them, such as a time zone, or with names of months in another language;
    - dates of which some have the day first and others the month.

    The sentence tells the data holder that these cells are not read as dates or times, and what helps. What helps is a
    shell command that writes a copy of the file with dates, with hours up to 23, or with numbers of seconds; the
    sentence ends with it. If no command can write the copy, the command is "", and the sentence ends with advice.

    - `name` is the column, and `cells` are sampled cells of the column.
    - `file` is the table's file, or None if the table has several files or none. `csv` says how the file is written,
      and `names` are its columns in order.
    - `is_dated` says that the column should hold dates, by its name or its declared kind. Only then are numbers of days
      taken for dates of a spreadsheet.
    """
    if orders := orders_sentence(name, cells):
        return orders, ""
    if is_dated and (times := since_1970_sentence(name, cells)):
        return times, ""
    months = _foreign_months(cells)
    if is_dated and _match(cells, _SERIAL_DAY):
        held, wanted, changed = _SERIAL_WORDS, "dates", _FROM_SERIAL_DAY
        pattern, advice = _SERIAL_DAY, _SERIAL_ADVICE
    elif is_dated and _match(cells, _NANOSECONDS):
        held, wanted, changed = "may be nanoseconds since 1970, which are not read", "seconds", "m[1]"
        pattern, advice = _NANOSECONDS, "write seconds in the file"
    elif _match(cells, _TWELVE_HOURS):
        held, wanted, changed = "have AM or PM, which is not read", "hours from 0 to 23", _FROM_TWELVE_HOURS
        pattern, advice = _TWELVE_HOURS, "write hours from 0 to 23 in the file"
    elif _match(cells, _CLOCK):
        held, wanted, changed = "are times of day or durations as h:mm:ss, which are not read", "seconds", _FROM_CLOCK
        pattern, advice = _CLOCK, "write seconds, or whole dates with times, in the file"
    elif _match(cells, _DURATION) and _match(cells, ".*[0-9] ?[a-zA-Z]+[. ]*[0-9].*", share=0.1):
        held, wanted, changed = "are durations as 1h 30m, which are not read", "seconds", _FROM_DURATION
        pattern, advice = _DURATION, "write seconds in the file"
    elif _reads_more(cells, lambda text: re.sub(_BESIDE_DATES, "", _in_english(text, months))):
        shown = min(cell.strip(BLANKS) for cell in cells if cell.strip(BLANKS))
        held = f"have words or signs beside the date that are not read, as in {shown!r}"
        held = f"have names of months that are not read, as in {shown!r}" if months else held
        wanted, changed = "dates that are read, and times as they are written", f"re.sub('{_BESIDE_DATES}','',m[0])"
        if months:
            changed = f"re.sub('{_BESIDE_DATES}','',re.sub('{_WORD}',lambda w:{months!r}.get(w[0].lower(),w[0]),m[0]))"
        pattern, advice = ".+", "write dates as 2024-01-31 in the file"
    else:
        return "", ""
    command = with_changed_cells(file, csv, names, name, pattern, changed) if file is not None else ""
    remedy = f"a copy with {wanted}: {command}" if command else advice
    return f"cells of {name!r} {held}: {remedy}", command


def _match(cells: Sequence[str], pattern: str, share: float = ENOUGH) -> bool:
    """Return whether at least the fraction `share` of the filled `cells` matches `pattern`; False if none is filled.

    `pattern` is a regular expression of a whole cell. Words for an empty cell, such as NULL, count as not filled.
    """
    filled = _filled(cells)
    return bool(filled) and sum(re.fullmatch(pattern, text) is not None for text in filled) >= share * len(filled)


def _filled(cells: Sequence[str]) -> list[str]:
    """Return the texts of `cells`, without blanks around them, that are neither empty nor words such as NULL."""
    return [text for cell in cells if (text := cell.strip(BLANKS)) and text not in NULL_WORDS]


def orders_sentence(name: str, cells: Sequence[str]) -> str:
    """Return a sentence if some dates in the sampled `cells` have the day first and others the month; else "".

    In such a column, 02/05/2024 may be a day in May or in February. No option and no command can tell, so the sentence
    asks the data holder to write all dates in the same order. At least 5% of the cells must show each order, as
    31/05/2024 shows that the day is first. `name` is the column.
    """
    parts = {text: re.match("([0-9]{1,2})[-/.]([0-9]{1,2})[-/.][0-9]{4}", text) for text in _filled(cells)}
    firsts = [text for text, match in parts.items() if match and 12 < int(match[1]) <= 31 and int(match[2]) <= 12]
    seconds = [text for text, match in parts.items() if match and 12 < int(match[2]) <= 31 and int(match[1]) <= 12]
    if min(len(firsts), len(seconds)) < max(2, 0.05 * len(parts)):
        return ""
    return (
        f"some dates of {name!r} have the day first, such as {firsts[0]}, and others the month, such as {seconds[0]}, "
        "so that 02/05/2024 does not tell which day it is: write all dates in the same order in the file"
    )


def _foreign_months(cells: Sequence[str]) -> dict[str, str]:
    """Return the English abbreviations of months in the sampled `cells`, by their names in other languages.

    All names of the languages that occur are in the result, because a name that is not sampled may occur in the file.
    The result is empty if most cells have no year and no name of a month in another language.
    """
    words = {word.lower() for cell in cells for word in re.findall(_WORD, cell)}
    found = {word for word in words if word in _FOREIGN_MONTHS}
    if not found - {name.lower() for name in MONTHS} or not _match(cells, ".*[0-9]{4}.*"):
        return {}
    return {month: english for month, english in _FOREIGN_MONTHS.items() if month.isalpha() and month not in MONTHS}


def _in_english(text: str, months: Mapping[str, str]) -> str:
    """Return the date `text` with English abbreviations in place of names of months in other languages.

    `months` maps these names, in lower case, to the abbreviations.
    """
    return re.sub(_WORD, lambda word: months.get(word[0].lower(), word[0]), text)


def _reads_more(cells: Sequence[str], changed: Callable[[str], str]) -> bool:
    """Return whether at least 90% of the filled `cells` can be read as dates once `changed` was applied to them.

    False if this many can be read without the change, too, so that it is not needed.
    """
    filled = _filled(cells)
    plain = [changed(text) for text in filled]
    if plain == filled or not _match(cells, ".*[0-9].*"):
        return False
    grammar = guess_grammar({"": plain}, CellGrammar()).grammar
    return readable_cells(plain, Kind.DATE, grammar) > 0 and readable_cells(filled, Kind.DATE, grammar) == 0


def other_words_of_yes(name: str, cells: Sequence[str], question: str) -> str:
    """Return a sentence if `question` compares the text column `name` with only one of its words for yes; else "".

    In a column with yes, Ja and TRUE, for example, the condition name = 'yes' leaves out the rows with Ja and TRUE,
    which the analyst may not want. `cells` are sampled cells of the column, and `question` is the text of the query.
    """
    compared = re.search(rf"(?<!\w)\"?{re.escape(name)}\"?\s*=\s*'([^']*)'", question, re.IGNORECASE)
    texts = sorted({text for cell in cells if (text := cell.strip(BLANKS))})
    words = yes_words(texts)
    if compared is None or compared[1] not in words or len(words) < 2:
        return ""
    others = ", ".join(repr(word) for word in words if word != compared[1])
    _, condition = condition_of_words(name, cells)
    return f"{name} = {compared[1]!r} counts {others} as not {compared[1]}: {condition} counts them as well"
