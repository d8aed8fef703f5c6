"""Commands that write a copy of a text file in which each line has the cells of one row, for forms that are no CSV."""

import re
from collections.abc import Sequence
from shlex import quote

from setwise.analytics.engines.csv_format import codec_name
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.tables.copies.clean_copies import can_be_copied, copy_of
from setwise.analytics.tables.sniffing import read_sample, split_rows
from setwise.analytics.tables.writing import ENOUGH

_FIRST_DIGITS = "[-+]?[0-9]{1,3}"
_LAST_DIGITS = "[0-9]{3}([.][0-9]+)?"
"""The regular expressions of the two parts of a number such as 1,234.50."""
_FEWEST_LINES = 2
"""The fewest lines of one form that show how a file is written."""
_MOST_SHOWN = 60
"""The most characters of a line that a sentence shows."""


def _python_copy(program: str, file: TableFile, csv: CsvOptions) -> str:
    """Return a shell command that writes a copy of `file` with the Python text `program`, which changes lines.

    The text may use the modules re and sys. It must not have double quotes, backslashes, or dollar signs before
    letters. `csv` says in which encoding the file is.
    """
    streams = (
        f"[f.reconfigure(encoding='{codec_name(csv.encoding)}',errors='surrogateescape',newline=chr(10)) "
        "for f in (sys.stdin,sys.stdout)]"
    )
    return f'python3 -c "import re,sys; {streams}; {program}" < {quote(str(file))} > {quote(copy_of(file))}'


def with_joined_thousands(file: TableFile, csv: CsvOptions, names: Sequence[str]) -> tuple[str, str]:
    """Return (column, command) for a file in which numbers such as 1,234.50 stand without quotes; ("", "") for others.

    Commas also stand between the cells, so that a line with such a number has a cell too many. The shell command writes
    a copy of `file` without the commas of such numbers. `csv` says how the file with the columns `names` is written.

    The lines of `names` cells must show that the column has numbers below 1000, and nine in ten of the lines with more
    cells must have such a number in this column, and in no other.
    """
    form = csv.format_of(csv.suffix_of(file))
    if form.separator != "," or csv.quote != '"' or not can_be_copied(file, csv.encoding):
        return "", ""
    lines = read_sample(file, form).splitlines()[csv.skip_lines + (csv.columns is None) :]
    rows, width = [row for row, _ in split_rows(lines, ",")], len(names)
    good, long = [row for row in rows if len(row) == width], [row for row in rows if len(row) > width]
    if len(long) < _FEWEST_LINES:
        return "", ""
    fitting = []
    for place in range(width):
        small = sum(re.fullmatch(f"{_FIRST_DIGITS}([.][0-9]+)?|", row[place]) is not None for row in good)
        thousands = sum(_is_divided(row[place : place + 1 + len(row) - width]) for row in long)
        if small >= ENOUGH * len(good) and thousands >= ENOUGH * len(long):
            fitting.append(place)
    if len(fitting) != 1:
        return "", ""
    place = fitting[0]
    program = (
        f"w={width}; i={place}; full=lambda r: r[:i]+[''.join(r[i:i+1+len(r)-w])]+r[i+1+len(r)-w:] if len(r)>w and "
        f"re.fullmatch('{_FIRST_DIGITS}(,[0-9]{{3}})*,{_LAST_DIGITS}',','.join(r[i:i+1+len(r)-w])) else r; "
        "[sys.stdout.write(l if chr(34) in l else ','.join(full(t.split(',')))+l[len(t):]) "
        "for l in sys.stdin for t in [l.rstrip(chr(13)+chr(10))]]"
    )
    return names[place], _python_copy(program, file, csv)


def _is_divided(parts: Sequence[str]) -> bool:
    """Return whether `parts` are those of one number such as 1,234.50, divided at its commas."""
    return bool(re.fullmatch(f"{_FIRST_DIGITS}(,[0-9]{{3}})*,{_LAST_DIGITS}", ",".join(parts)))


_LOG_TIME = "(?<= ).([0-9]{2})/([A-Z][a-z]{2})/([0-9]{4}):([0-9:]{8}) ([+-][0-9]{2})([0-9]{2})[]]"
"""The regular expression of a time as web servers log it, such as [16/Aug/2024:21:52:25 +0000]."""
_PAIR = "([A-Za-z_][A-Za-z0-9_.-]*)=({quote}[^{quote}]*{quote}|[^ ]*)"
"""The regular expression of a pair such as user=u1 or msg="two words", with {quote} for a double quote."""
_MOST_NAMES = 100
"""The most different names of pairs that become columns."""


def with_iso_times(file: TableFile, csv: CsvOptions) -> str:
    """Return a shell command that writes a copy of `file` with times such as 2024-08-16T21:52:25+00:00; or "".

    It is for logs of web servers, which write the time as [16/Aug/2024:21:52:25 +0000], with a blank that divides it
    into two cells. `csv` says how the file is written.
    """
    if not can_be_copied(file, csv.encoding):
        return ""
    lines = [line for line in read_sample(file, csv.format_of(csv.suffix_of(file))).splitlines() if line.strip()]
    if sum(re.search(_LOG_TIME, line) is not None for line in lines) < ENOUGH * max(1, len(lines)):
        return ""
    month = "'JanFebMarAprMayJunJulAugSepOctNovDec'.find(m[2])//3+1"
    moment = f"'%s-%02d-%sT%s%s:%s'%(m[3],{month},m[1],m[4],m[5],m[6])"
    program = f"[sys.stdout.write(re.sub('{_LOG_TIME}',lambda m: {moment},l)) for l in sys.stdin]"
    return _python_copy(program, file, csv)


def with_named_cells(file: TableFile, csv: CsvOptions) -> str:
    """Return a shell command that writes a CSV copy of `file` with a column for each name of pairs; or "".

    It is for logs of which nine in ten lines have nothing but pairs such as user=u1 msg="two words", with blanks
    between them. `csv` says how the file is written.
    """
    form = csv.format_of(csv.suffix_of(file))
    if not can_be_copied(file, csv.encoding) or csv.separator is not None or csv.columns is not None:
        return ""
    pair = _PAIR.format(quote='"')
    lines = [line.strip() for line in read_sample(file, form).splitlines() if line.strip()]
    paired = [line for line in lines if re.fullmatch(f"{pair}( +{pair})+", line)]
    names = [*dict.fromkeys(name for line in paired for name, _ in re.findall(pair, line))]
    if len(paired) < max(_FEWEST_LINES, ENOUGH * len(lines)) or len(names) > _MOST_NAMES:
        return ""
    shell_pair = _PAIR.format(quote="'+q+'")
    program = (
        f"import csv; q=chr(34); k={names}; w=csv.writer(sys.stdout,lineterminator=chr(10)); w.writerow(k); "
        f"[w.writerow([d.get(c,'') for c in k]) for l in sys.stdin if l.strip() "
        f"for d in [{{a:b.strip(q) for a,b in re.findall('{shell_pair}',l.strip())}}]]"
    )
    return _python_copy(program, file, csv)


def first_lost_line(file: TableFile, csv: CsvOptions, width: int) -> str:
    """Return a phrase on the first line of `file` that is no record of `width` cells, and why; "" if none is found.

    Only the beginning of the file is looked at. `csv` says how the file is written.
    """
    form = csv.format_of(csv.suffix_of(file))
    above = csv.skip_lines + (csv.columns is None)
    lines = read_sample(file, form).splitlines(keepends=True)
    end = above
    for row, last in split_rows(lines[above:], form.mark, form.quote):
        first, end = end + 1, above + last
        text = "".join(lines[first - 1 : end]).strip()
        if not any(row):
            continue
        shown = repr(text.replace(form.mark, form.separator)[:_MOST_SHOWN])
        if len(row) != width:
            return f"the first is line {first:,}, which has {len(row):,} cells: {shown}"
        if form.quote == '"' and '"' in text and _has_stray_quote(text, form.mark):
            return f"the first is line {first:,}, in which a quote stands within a cell and is not doubled: {shown}"
    return ""


def _has_stray_quote(text: str, separator: str) -> bool:
    """Return whether a cell of the record `text` has a quote, but does not stand in quotes as a whole."""
    cell = f'(?:"(?:[^"]|"")*"|[^"{re.escape(separator)}]*)'
    return re.fullmatch(f"{cell}(?:{re.escape(separator)}{cell})*", text) is None
