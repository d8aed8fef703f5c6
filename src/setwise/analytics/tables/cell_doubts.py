"""Sentences that warn the data holder of cells which can be read but may not mean what they seem to mean.

Examples are codes such as -999 among numbers, times with an offset from UTC, the numbers in which spreadsheets store
dates, and columns that write yes with several words.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.engines.typed_cells import BLANKS, CellGrammar
from setwise.analytics.schema import Kind
from setwise.analytics.tables.clean_copies import with_changed_cells
from setwise.analytics.tables.scan_notes import OptionWriter
from setwise.analytics.tables.writing import ENOUGH, NULL_WORDS, condition_of_words, yes_words

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.tables import DuckDBTable

_OFFSET = re.compile(r":[0-9]{2}([.][0-9]+)? ?([+-][0-9]{2}(:?[0-9]{2})?)")
"""The regular expression of the end of a time with an offset, which is its second group."""
_SERIAL_DAY = r"[2-7][0-9]{4}([.][0-9]+)?"
"""The regular expression of a day since 1899-12-30, from 1954 to 2119, with a time of day as a fraction."""
_SERIAL_WORDS = (
    "are days since 1899-12-30, as spreadsheets store dates (since 1904-01-01, and so 1,462 days later, in a workbook "
    "with dates from 1904)"
)
_CLOCK = r"[0-9]{1,4}:[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?"
"""The regular expression of a time of day, or of a duration, as h:mm or h:mm:ss."""
_TWELVE_HOURS = "(.*[^0-9])?(1[0-2]|0?[1-9]):([0-5][0-9](:[0-5][0-9])?)[ \u00a0\u202f]?([AaPp])[.]?[Mm][.]?"
"""The regular expression of a time with AM or PM, which a date may precede as the first group."""
_DATED_NAME = re.compile(
    "date|day|datum|fecha|jour|giorno|dia|tag|time|_at$|^at$|created|updated|born|birth", re.IGNORECASE
)
"""Parts of the names of columns that hold dates."""
_FROM_SERIAL_DAY = (
    "str(datetime.datetime(1899,12,30)+datetime.timedelta(seconds=round(86400*float(m[0])))).replace(' 00:00:00','')"
)
_FROM_TWELVE_HOURS = "(m[1] or '').replace(',','')+'%02d:'%(int(m[2])%12+12*(m[5] in 'Pp'))+m[3]"
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


def holds_serial_days(name: str, cells: Sequence[str]) -> bool:
    """Return whether the column `name` seems to hold dates as numbers of days since 1899-12-30.

    Spreadsheets store dates in this way, as numbers such as 45000. A price or a number of people can be 45000 too, so
    the column must also have a name that suggests dates, such as "created". `cells` are sampled cells of the column.
    """
    return _DATED_NAME.search(name) is not None and _match(cells, _SERIAL_DAY)


def stored_time_sentence(
    name: str, cells: Sequence[str], file: TableFile | None, csv: CsvOptions, names: Sequence[str], *, is_dated: bool
) -> tuple[str, str]:
    """Return (sentence, command) about cells with dates or times in forms that are not read; ("", "") if none.

    The forms are numbers of days, in which spreadsheets store dates; times with AM or PM; and times such as 1:30:00.
    The sentence tells the data holder that these cells are not read as dates or times, and what helps. What helps is a
    shell command that writes a copy of the file, with dates, with hours up to 23, or with numbers of seconds; the
    sentence ends with it. If no command can write the copy, the command is "", and the sentence ends with advice.

    - `name` is the column, and `cells` are sampled cells of the column.
    - `file` is the table's file, or None if the table has several files or none. `csv` says how the file is written,
      and `names` are its columns in order.
    - `is_dated` says that the column should hold dates, by its name or its declared kind. Only then are numbers of days
      taken for dates of a spreadsheet.
    """
    if is_dated and _match(cells, _SERIAL_DAY):
        held, wanted, changed = _SERIAL_WORDS, "dates", _FROM_SERIAL_DAY
        pattern, advice = _SERIAL_DAY, "format the column as yyyy-mm-dd in the spreadsheet, and save it again"
    elif _match(cells, _TWELVE_HOURS):
        held, wanted, changed = "have AM or PM, which is not read", "hours from 0 to 23", _FROM_TWELVE_HOURS
        pattern, advice = _TWELVE_HOURS, "write hours from 0 to 23 in the file"
    elif _match(cells, _CLOCK):
        held, wanted, changed = "are times of day or durations as h:mm:ss, which are not read", "seconds", _FROM_CLOCK
        pattern, advice = _CLOCK, "write seconds, or whole dates with times, in the file"
    else:
        return "", ""
    command = with_changed_cells(file, csv, names, name, pattern, changed) if file is not None else ""
    remedy = f"a copy with {wanted}: {command}" if command else advice
    return f"cells of {name!r} {held}: {remedy}", command


def _match(cells: Sequence[str], pattern: str) -> bool:
    """Return whether at least 90% of the filled cells in `cells` match `pattern`; False if no cell is filled.

    `pattern` is a regular expression of a whole cell. Words for an empty cell, such as NULL, count as not filled.
    """
    filled = [text for cell in cells if (text := cell.strip(BLANKS)) and text not in NULL_WORDS]
    return bool(filled) and sum(re.fullmatch(pattern, text) is not None for text in filled) >= ENOUGH * len(filled)


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
