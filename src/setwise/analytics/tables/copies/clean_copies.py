"""Shell commands for the data holder that write a readable copy of a text file, for forms that no option reads.

There are commands that take out signs beside numbers such as $, that double the quotes which a backslash escapes, that
convert hours of the day such as 1:30 PM, and that drop repeated headers. The last word of a command is the path of the
copy, and commands of one file can be joined to one that mends all (`in_turn`). Commands of sed and awk work on bytes
that stand for ASCII, so only commands of Python change files in UTF-16, of which they write a copy in UTF-8. There is
none for objects of an object store, and only one for compressed files.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from io import BytesIO
from itertools import count, islice
from pathlib import Path
from shlex import join, quote, split

from setwise.analytics.engines.csv_format import COMPRESSIONS, INVISIBLE, UTF_16, CsvFormat, codec_name
from setwise.analytics.engines.csv_reader import SEPARATORS, CsvFile, UnreadableHeader, looks_like_row
from setwise.analytics.engines.files import CsvOptions, magic_of
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.engines.typed_cells import BLANKS, SPACES
from setwise.analytics.tables.decimal_marks import thousands_mark
from setwise.analytics.tables.number_units import SIGNS, are_numbers, numbers_with_units
from setwise.analytics.tables.sniffing import are_columns, read_sample, split_rows
from setwise.analytics.tables.writing import NULL_WORDS

COPY = "; a copy without them, in every column: "
"""What stands before the command that writes a copy of a file, in sentences about signs beside numbers."""
UNWRAPPED = "each whole line stands in quotes, so that it is one cell; a copy that is read: "
"""What stands before the command that writes a copy of a file whose lines stand in quotes as a whole."""
_NEGATIVE = r"\(([^()]*)\)"
"""A number in parentheses, as accountants write negative ones."""


def copy_of(file: TableFile, place: int = 0) -> str:
    """Return a path beside `file`, at which no file exists yet, for a corrected copy of `file`.

    The path for visits.csv is visits.clean.csv; if that file exists, visits.clean2.csv, and so on. For visits.clean.csv
    the path is visits.clean2.csv, and not visits.clean.clean.csv.

    If the data holder is offered several different copies of one file, each needs a path of its own: `place` is 0 for
    the first copy, 1 for the second, and so on.
    """
    packed = file.suffix if file.suffix.lower() in COMPRESSIONS else ""
    suffix = Path(str(file).removesuffix(packed)).suffix + packed
    base = re.sub(r"[.]clean[0-9]*$", "", str(file).removesuffix(suffix))
    names = (f"{base}.clean{number if number > 1 else ''}{suffix}" for number in count(1))
    free = (name for name in names if not Path(name).exists())
    return next(islice(free, place, None))


def can_be_copied(file: TableFile, encoding: str) -> bool:
    """Return whether commands such as sed and awk can write a changed copy of `file`, whose text has the `encoding`.

    These commands work if the file is on this machine, is not compressed, and is a text file that is not in UTF-16.
    They would destroy a binary file such as Parquet, of which `binary_copies.py` writes copies.
    """
    is_plain = isinstance(file, Path) and file.suffix.lower() not in COMPRESSIONS and codec_name(encoding) not in UTF_16
    return is_plain and magic_of(file) is None


def copied_file(command: str) -> str:
    """Return the path of the file of which the shell `command` of this module writes a copy; "" if it is unknown.

    >>> copied_file("tr a b < 'my x.csv' > y.csv"), copied_file("gzip -dc x.csv.gz | tr a b | gzip > y.csv.gz")
    ('my x.csv', 'x.csv.gz')
    """
    words = split(command)
    if words[:2] == ["gzip", "-dc"]:
        return words[2]
    return words[-3] if len(words) > 3 and words[-2] == ">" else ""


def in_turn(commands: Sequence[str], place: int = 0) -> str:
    """Return a shell command that writes one copy of a file with the changes of all `commands`, in their order.

    All `commands` are of this module, and copy the same file. `place` tells several copies of it apart (see `copy_of`).

    >>> in_turn(["tr a b < x.csv > x.clean.csv", "sed -e s/b/c/ x.csv > x.clean.csv"])
    'tr a b < x.csv | sed -e s/b/c/ > x.clean.csv'
    """
    distinct = [*dict.fromkeys(commands)]
    if len(distinct) == 1:
        return distinct[0]
    source = copied_file(distinct[0])
    filters = []
    plain = [re.sub(r"[(]sys.stdin,'utf-16[-a-z]*'[)]", "(sys.stdin,'utf-8')", command) for command in distinct[1:]]
    for command in [distinct[0], *plain]:  # the first command has written UTF-8
        program = command.rpartition(" > ")[0].removeprefix(f"gzip -dc {quote(source)} | ").removesuffix(" | gzip")
        filters.append(program.removesuffix(f" < {quote(source)}").removesuffix(f" {quote(source)}"))
    chain, copy = " | ".join(filters[1:]), quote(copy_of(Path(source), place))
    if distinct[0].startswith("gzip -dc "):
        return f"gzip -dc {quote(source)} | {filters[0]} | {chain} | gzip > {copy}"
    return f"{filters[0]} < {quote(source)} | {chain} > {copy}"


def signs_note(names: Sequence[str], samples: Mapping[str, Sequence[str]], file: TableFile, csv: CsvOptions) -> str:
    """Return a sentence if numbers of columns have signs beside them, as $5 or 5%, or parentheses; else "".

    The sentence tells the data holder that such numbers are not read. It ends in a shell command that writes a copy of
    `file` without the signs, which queries can read. If no command can do this, or if a column has several signs, it
    ends in advice. Two kinds of columns are left out, because a copy without signs would mix their numbers up: columns
    in which some numbers have a sign and others have none, and columns whose numbers have two meanings even without the
    sign, as €1.234 may be 1.234 or 1234.

    - `names` are the columns that the sentence is about.
    - `samples` has sampled cells of every column of text, by name. The command takes out the signs of every column in
      `samples`, and not only of those in `names`, so that one copy serves all questions.
    - `csv` says how the file is written. The command is one of Python if its encoding has other bytes for one of the
      signs than UTF-8.
    """
    encoding, separator = csv.encoding, csv.format_of(csv.suffix_of(file)).separator
    signs = {name: found for name, cells in samples.items() if (found := _signs_beside(cells, separator)) is not None}
    all_signs = [sign for sign in SIGNS if any(sign in beside for beside, _ in signs.values())]
    others = [cells for name, cells in samples.items() if name not in signs]
    if any(sign in all_signs for cells in others for sign in _signs_of_units(cells)):
        return ""  # the command would take the signs out of these columns, too
    sentences = []
    for name in names:
        if name not in signs:
            continue
        beside, has_parentheses = signs[name]
        words = [f"have {' and '.join(map(repr, beside))} beside them"] if beside else []
        words += ["have parentheses for a minus"] if has_parentheses else []
        sentences.append(f"numbers of {name!r} {' and '.join(words)}")
    if not sentences:
        return ""
    sentence = f"{', and '.join(sentences)}, which are not read"
    asked = [signs[name][0] for name in names if name in signs]
    if any(len(each) > 1 for each in asked):
        unit = "unit" if any("%" in each for each in asked) else "currency"
        return f"{sentence}: convert them to one {unit} in the file"
    if any(len(each) > 1 for each, _ in signs.values()):
        return ""
    units = sorted({sign for each in asked for sign in each})
    if units:
        sentence += f", and are in {' and '.join(map(repr, units))} then"
    edits = [f"s/[{sign}]//g" if sign.isascii() else f"s/{sign}//g" for sign in all_signs]
    if any(has_parentheses for _, has_parentheses in signs.values()):
        edits.append(r"s/(\([0-9][^()]*\))/-\1/g")
    if codec_name(encoding) != "utf-8" and not (can_be_copied(file, encoding) and all(map(str.isascii, all_signs))):
        program = f"re.sub('['+{'+'.join(f'chr({ord(sign)})' for sign in all_signs)}+']','',c)"
        program = f"re.sub('^ *[(]([0-9][^()]*)[)] *$',lambda m:'-'+m[1],{program})"
        above = csv.skip_lines + (csv.columns is None)
        command = _copied(file, csv, f"[{program} if n>={above} else c for c in r]", is_visible=False)
        return f"{sentence}{COPY}{command}" if command else f"{sentence}: take them out of the file"
    if not can_be_copied(file, encoding):
        return f"{sentence}: take them out of the file"
    command = join(["sed", *(word for edit in edits for word in ("-e", edit)), str(file)])
    return f"{sentence}{COPY}{command} > {quote(copy_of(file))}"


def _signs_beside(cells: Sequence[str], separator: str) -> tuple[list[str], bool] | None:
    """Return (signs, parentheses) if the sampled `cells` of a column are numbers with signs beside them; else None.

    `signs` lists the signs that occur, such as "$". `parentheses` is True if some cells are numbers in parentheses,
    which accountants write for negative numbers. The result is None, too, if some numbers have a sign and others none,
    or if they can be read in two ways, as 1.234 in a file with the `separator` ";" between cells.

    >>> _signs_beside(["$5", "$1,200", "($30)"], ",")
    (['$'], True)
    """
    filled = [text for cell in cells if (text := cell.strip(BLANKS)) and text not in NULL_WORDS]
    signs = [sign for sign in SIGNS if any(sign in text for text in filled)]
    plain = [re.sub(_NEGATIVE, r"-\1", text) for text in filled]
    for sign in signs:
        plain = [text.replace(sign, "").strip(BLANKS) for text in plain]
    if plain == filled or not are_numbers(plain):
        return None
    if signs:
        without = [text for text in filled if not any(sign in text for sign in signs)]
        numbers = [text.strip("+- ") for text in plain]
        if any(text.strip("0.,+-") for text in without) and len(signs) == 1:
            return None
        if thousands_mark(numbers, separator, is_money="%" not in signs):
            return None
    return signs, any(re.fullmatch(_NEGATIVE, text) for text in filled)


def _signs_of_units(cells: Sequence[str]) -> set[str]:
    """Return the signs, such as "%", that stand beside numbers in the sampled `cells` of a column."""
    if not any(sign in cell for cell in cells for sign in SIGNS):
        return set()
    found = numbers_with_units([text for cell in cells if (text := cell.strip(BLANKS)) and text not in NULL_WORDS])
    return set() if found is None else {*found.words} & {*SIGNS}


def without_repeated_headers(file: TableFile, csv: CsvOptions) -> str:
    """Return a shell command that writes a copy of `file` without the lines that repeat its header.

    Returns "" if the file has no header, or if no shell command can copy it (see `can_be_copied`). The copy of a file
    that gzip has compressed is compressed as well. `csv` says how the file is written.
    """
    is_packed = isinstance(file, Path) and file.suffix.lower() == ".gz" and codec_name(csv.encoding) not in UTF_16
    if csv.columns is not None or not (is_packed or can_be_copied(file, csv.encoding)):
        return ""
    line = csv.skip_lines + 1
    # The header of a file that was appended may have other capitals, and a byte order mark before it.
    program = (
        r'{text=tolower($0); gsub(/\357\273\277/,"",text); sub(/[ \t\r]+$/,"",text)} '
        f"NR=={line}{{header=text}} NR<={line} || text!=header"
    )
    if is_packed:
        return f"gzip -dc {quote(str(file))} | LC_ALL=C {join(['awk', program])} | gzip > {quote(copy_of(file))}"
    return f"LC_ALL=C {join(['awk', program, str(file)])} > {quote(copy_of(file))}"


def with_doubled_quotes(file: TableFile, csv: CsvOptions) -> str:
    r"""Return a shell command that writes a copy of `file` in which a quote within a cell is written "" instead of \".

    A CSV reader skips lines with \", because only "" is CSV for a quote within a quoted cell. The data holder can run
    the command, and then open the copy. `csv` says how the file is written.

    The result is "" if no shell command can copy the file (see `can_be_copied`), or if the copy would help little: at
    the beginning of the file, half or more of the skipped lines would be skipped in the copy, too.
    """
    form = csv.format_of(csv.suffix_of(file))
    if not can_be_copied(file, csv.encoding) or csv.quote != '"':
        return ""
    text = read_sample(file, form)
    if '\\"' not in text:
        return ""
    doubled = re.sub(r'(?<!\\)((?:\\\\)*)\\"', r'\1""', text)
    if 2 * _lost_lines(doubled, form) >= _lost_lines(text, form):
        return ""
    # An even number of backslashes before a quote are backslashes of the text. sed replaces one quote at a time.
    edits = (":again", r's/\([^\\]\(\\\\\)*\)\\"/\1""/', "t again")
    command = join(["sed", *(word for edit in edits for word in ("-e", edit)), str(file)])
    return f"{command} > {quote(copy_of(file))}"


def with_unwrapped_lines(file: TableFile, csv: CsvOptions) -> str:
    """Return a shell command that writes a copy of `file` without quotes around whole lines.

    A program that took each line of a CSV file for one cell has written "u1,""Oslo"",5" for u1,"Oslo",5. The command
    undoes this. `csv` says how the file is written. The result is "" if a line at the beginning of the file, other than
    the header, is not written in this way, or if no shell command can copy the file (see `can_be_copied`).
    """
    form = csv.format_of(csv.suffix_of(file))
    if not can_be_copied(file, csv.encoding) or csv.quote != '"':
        return ""
    lines = [line for line in read_sample(file, form).splitlines()[csv.skip_lines :] if line.strip()]
    rows = [row for row, _ in split_rows(lines, form.separator)]
    pairs = zip(rows, lines, strict=False)
    wrapped = [row for row, line in pairs if len(row) == 1 and re.fullmatch('".*"', line.strip())]
    widths = {len(cells) for row in wrapped for cells, _ in split_rows(row, form.separator)}
    unwrapped = [row for row in rows if row not in wrapped]
    # The header may stand without quotes. Texts with commas, in a file of one column, are no lines in quotes.
    is_header = not unwrapped or (unwrapped == rows[:1] and {len(rows[0])} == widths)
    if len(rows) != len(lines) or not wrapped or not is_header or len(widths) != 1 or widths == {1}:
        return ""
    edit = '/^".*"[[:space:]]*$/{s/^"//;s/"[[:space:]]*$//;s/""/"/g;}'
    return f"{join(['sed', '-e', edit, str(file)])} > {quote(copy_of(file))}"


def with_single_blanks(file: TableFile, csv: CsvOptions) -> str:
    """Return a shell command that writes a copy of `file` with one blank wherever several blanks divide cells.

    Several blanks are common in tables whose columns are aligned for readers. `csv` says how the file is written. The
    result is "" if the beginning of the file is no such table, if cells stand in quotes, or if no shell command can
    copy the file (see `can_be_copied`).
    """
    form = csv.format_of(csv.suffix_of(file))
    if not can_be_copied(file, csv.encoding) or csv.separator is not None or csv.columns is not None:
        return ""
    text = read_sample(file, form)
    lines = [line for line in text.splitlines()[csv.skip_lines :] if line.strip()]
    has_others = any(len(row) > 1 for mark in SEPARATORS for row, _ in split_rows(lines[:_HEADER_LINES], mark))
    if '"' in text or "  " not in text or has_others or not are_columns([line.split() for line in lines]):
        return ""
    edits = ("s/[[:blank:]][[:blank:]]*/ /g", "s/^ //", "s/ $//")
    return f"{join(['sed', *(word for edit in edits for word in ('-e', edit)), str(file)])} > {quote(copy_of(file))}"


def with_divided_columns(file: TableFile, csv: CsvOptions) -> str:
    """Return a shell command that writes a copy of `file` with tabs between cells, if columns have a fixed width.

    The columns are divided where all lines at the beginning of the file have blanks below each other. Each column must
    have a name in the first line, and one column must have numbers, dates or times alone. `csv` says how the file is
    written. The result is "" if the beginning of the file is no such table, if it has quotes, tabs or characters beyond
    ASCII, or if no shell command can copy the file (see `can_be_copied`).
    """
    form = csv.format_of(csv.suffix_of(file))
    if not can_be_copied(file, csv.encoding) or csv.separator is not None or csv.columns is not None or csv.skip_lines:
        return ""
    text = read_sample(file, form)
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    has_others = any(len(row) > 1 for mark in SEPARATORS for row, _ in split_rows(lines[:_HEADER_LINES], mark))
    if not text.isascii() or '"' in text or "\t" in text or "  " not in text or has_others:
        return ""
    filled = {place for line in lines for place, character in enumerate(line) if character != " "}
    starts = sorted(place for place in filled if place == 0 or place - 1 not in filled)
    # Texts of several words may have blanks below each other, too, but no name above the second word.
    named = [lines[0][start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
    starts = [start for start, name in zip(starts, named, strict=True) if name]
    ends = [*starts[1:], None]
    header, *body = [[line[start:end].strip() for start, end in zip(starts, ends, strict=True)] for line in lines]
    values = [all(looks_like_row([row[place]]) for row in body if row[place]) for place in range(len(header))]
    if len(body) < _FEWEST_ROWS or len(starts) < 2 or len({*header} - {""}) < len(starts) or looks_like_row(header):
        return ""
    if not any(values):
        return ""
    program = (
        f'BEGIN{{n=split("{" ".join(str(start + 1) for start in starts)}",s," ")}} '
        '{sub(/\\r$/,""); t=""; for(i=1;i<=n;i++){c=substr($0,s[i],i<n?s[i+1]-s[i]:length($0)); '
        'gsub(/^ +| +$/,"",c); t=t (i>1?"\\t":"") c} print t}'
    )
    return f"LC_ALL=C {join(['awk', program, str(file)])} > {quote(copy_of(file))}"


_FEWEST_ROWS = 10
"""The fewest rows in which blanks below each other show where columns of a fixed width end."""
_HEADER_LINES = 100
"""Lines at the beginning of a file in which a separator other than blanks is looked for."""


def with_line_feeds(file: TableFile, csv: CsvOptions) -> str:
    """Return a shell command that writes a copy of `file` in which every carriage return is a line feed.

    The command is for files in which lines end with a carriage return and no line feed, as old programs write them:
    the CSV reader does not take such a carriage return for the end of a line. `csv` says how the file is written.

    The result is "" if the beginning of the file has no such carriage return; if half or more of the lines that are
    skipped there would be skipped in the copy, too; or if no shell command can copy the file (see `can_be_copied`).
    """
    form = csv.format_of(csv.suffix_of(file))
    if not can_be_copied(file, csv.encoding):
        return ""
    text = read_sample(file, form)
    ended = text.replace("\r\n", "\n").replace("\r", "\n")
    if not re.search(r"\r(?!\n)", text) or 2 * _lost_lines(ended, form) >= _lost_lines(text, form):
        return ""
    return f"tr '\\r' '\\n' < {quote(str(file))} > {quote(copy_of(file))}"


def with_mended_quotes(file: TableFile, csv: CsvOptions) -> str:
    """Return a shell command that writes a copy of `file` in which quotes within cells are doubled.

    In CSV, the cell 12" pipe has to be written "12"" pipe". Lines with 12" pipe alone may be skipped. To mend a line,
    the command splits it at every separator. A line is left as it is if this gives another number of cells than the
    header has, because a separator may then be part of a cell. `csv` says how the file is written.

    The result is "" if, at the beginning of the file, half or more of the skipped lines would be skipped in the copy,
    too; if cells there have line breaks; or if no shell command can copy the file (see `can_be_copied`).
    """
    form = csv.format_of(csv.suffix_of(file))
    if not can_be_copied(file, csv.encoding) or csv.quote != '"' or len(form.separator) > 1:
        return ""
    text = read_sample(file, form)
    try:
        opened = CsvFile(lambda: BytesIO(text.encode("utf-8", "replace")), form)
    except UnreadableHeader:
        return ""
    lines, kept = opened.count_lines()
    rows = sum(batch.num_rows for batch in opened.batches(opened.names[:1]))
    mended = "".join(map(partial(_mend_line, separator=form.separator, width=len(opened.names)), text.splitlines(True)))
    if rows < kept or 2 * _lost_lines(mended, form) >= lines - kept:
        return ""
    delimiter = "chr(9)" if form.separator == "\t" else repr(form.separator)
    program = (
        "import csv,re,sys; "
        f"[f.reconfigure(encoding='{codec_name(csv.encoding)}',errors='surrogateescape',newline=chr(10)) "
        "for f in (sys.stdin,sys.stdout)]; q=chr(34); "
        "bad=lambda c: q in c and not re.fullmatch(q+'(?:[^'+q+']|'+q+q+')*'+q,c); "
        f"w=csv.writer(sys.stdout,delimiter={delimiter},lineterminator=chr(10)); "
        "[w.writerow([(c[1:-1] if c[0]==q else c).replace(q+q,q) if q in c else c for c in r]) "
        f"if len(r)=={len(opened.names)} and any(map(bad,r)) and all(c[:1]!=q or c[1:] and c[-1]==q for c in r) "
        f"else sys.stdout.write(l) for l in sys.stdin for r in [l.rstrip(chr(13)+chr(10)).split({delimiter})]]"
    )
    return f'python3 -c "{program}" < {quote(str(file))} > {quote(copy_of(file))}'


def with_full_lines(file: TableFile, csv: CsvOptions) -> str:
    """Return a shell command that writes a copy of `file` in which lines have as many cells as the header.

    A line with too few cells gets empty cells at its end. The surplus cells of a line are removed if they are all
    empty, and otherwise joined with the last cell, as one text that contains separators. A line with a quote is left as
    it is, and so are lines within a quoted cell. `csv` says how the file is written.

    The result is "" in three cases:
    - The beginning of the file does not show, by its numbers and dates, that the cells of such lines stand in the right
      columns.
    - Too many of its lines would be skipped in the copy as well: a tenth or more of all, or half or more of those that
      are skipped in the file.
    - No shell command can copy the file (see `can_be_copied`).
    """
    form = csv.format_of(csv.suffix_of(file))
    if not can_be_copied(file, csv.encoding) or csv.quote != '"' or len(form.separator) > 1:
        return ""
    text = read_sample(file, form)
    try:
        names = CsvFile(lambda: BytesIO(text.encode("utf-8", "replace")), form).names
    except UnreadableHeader:
        return ""
    above, width = csv.skip_lines + (csv.columns is None), len(names)
    lines = text.splitlines(keepends=True)
    mended = "".join([*lines[:above], *_full_lines(lines[above:], form.separator, width)])
    lost = _lost_lines(mended, form)
    if 2 * lost >= _lost_lines(text, form) or 10 * lost >= len(lines) or not _in_place(lines[above:], form, width):
        return ""
    delimiter = "chr(9)" if form.separator == "\t" else repr(form.separator)
    # `o` is 1 within a quoted cell that goes on over lines, and `n` is the number of a line.
    program = (
        "import sys; "
        f"[f.reconfigure(encoding='{codec_name(csv.encoding)}',errors='surrogateescape',newline=chr(10)) "
        f"for f in (sys.stdin,sys.stdout)]; q=chr(34); d={delimiter}; w={width}; o=0; "
        "full=lambda r: d.join(r[:w-1]+[q+d.join(r[w-1:])+q] if any(r[w:]) else (r+w*[''])[:w]); "
        f"[(sys.stdout.write(l if n<{above} or o or q in l or not l.strip() else full(t.split(d))+l[len(t):]),"
        "o:=(o+l.count(q))%2) for n,l in enumerate(sys.stdin) for t in [l.rstrip(chr(13)+chr(10))]]"
    )
    return f'python3 -c "{program}" < {quote(str(file))} > {quote(copy_of(file))}'


def _full_lines(lines: Sequence[str], separator: str, width: int) -> list[str]:
    """Return `lines` with `width` cells each, as the command of `with_full_lines` writes them.

    >>> _full_lines(["a,1", "b,2,x,y", "c,3,,"], ",", 3)
    ['a,1,', 'b,2,"x,y"', 'c,3,']
    """
    full, is_open = [], False
    for line in lines:
        if not (is_open or '"' in line or not line.strip()):
            text = line.rstrip("\r\n")
            cells = text.split(separator)
            if any(cells[width:]):
                cells = [*cells[: width - 1], f'"{separator.join(cells[width - 1 :])}"']
            else:
                cells = cells[:width] + [""] * (width - len(cells))
            full.append(separator.join(cells) + line[len(text) :])
            continue
        is_open ^= line.count('"') % 2 == 1
        full.append(line)
    return full


def _in_place(lines: Sequence[str], form: CsvFormat, width: int) -> bool:
    """Return whether the cells of `lines` with too few or too many cells seem to stand in the right columns.

    A column that has numbers or dates in the lines of `width` cells must have about the same share of them (within 10
    percentage points) in lines with too few cells, and in lines with too many. So must a column of texts, which has few
    or none. At least one column must have more than 90% numbers or dates, as there would be nothing to compare
    otherwise. The last column is not compared. `form` says how the lines are written.
    """
    rows = [row for row, _ in split_rows(lines, form.separator) if any(row)]
    good = [row for row in rows if len(row) == width]
    short, long = ([row for row in rows if len(row) < width], [row for row in rows if any(row[width:])])
    shares = [_share_of_values([row[place] for row in good]) for place in range(width - 1)]
    for bad in filter(None, (short, long)):
        present = [[row[place] for row in bad if place < len(row)] for place in range(width - 1)]
        both = [(share, _share_of_values(cells)) for share, cells in zip(shares, present, strict=True) if any(cells)]
        if not any(share is not None and share > 0.9 for share, _ in both):
            return False
        if any(share is None or other is None or abs(share - other) > 0.1 for share, other in both):
            return False
    return bool(good)


def _share_of_values(cells: Sequence[str]) -> float | None:
    """Return the share of numbers, dates and other values (no words) in the filled `cells`; None if all are empty."""
    filled = [cell for cell in cells if cell]
    return sum(looks_like_row([cell]) for cell in filled) / len(filled) if filled else None


def _mend_line(line: str, separator: str, width: int) -> str:
    r"""Return `line` of a CSV file, mended: each cell in quotes, and every quote within a cell doubled.

    The line is returned unchanged if all its quotes are right already; if splitting it at `separator` does not give
    `width` cells, as many as the header has; or if a cell begins with a quote and does not end with one.

    >>> _mend_line('u1,12" pipe', ",", 2)
    '"u1","12"" pipe"\n'
    """
    cells = line.rstrip("\r\n").split(separator)
    is_wrong = any('"' in cell and not re.fullmatch('"(?:[^"]|"")*"', cell) for cell in cells)
    is_open = any(cell.startswith('"') and not re.fullmatch('".*"', cell, re.DOTALL) for cell in cells)
    if len(cells) != width or not is_wrong or is_open:
        return line
    plain = [cell[1:-1] if cell.startswith('"') else cell for cell in cells]
    return separator.join('"' + cell.replace('""', '"').replace('"', '""') + '"' for cell in plain) + "\n"


def _lost_lines(text: str, form: CsvFormat) -> int:
    """Return how many lines of `text`, the beginning of a CSV file, belong to no well-formed record.

    A reader skips these lines. `form` is the format of the file.
    """
    try:
        lines, kept = CsvFile(lambda: BytesIO(text.encode("utf-8", "replace")), form).count_lines()
    except UnreadableHeader:
        return 0
    return lines - kept


def with_visible_cells(file: TableFile, csv: CsvOptions) -> str:
    """Return a shell command that writes a copy of `file` without invisible characters and blanks around cells.

    In the copy, every kind of space is an ordinary space, and a letter with an accent is one character. Two cells that
    look the same then are the same. `csv` says how the file is written. The result is "" if no shell command can copy
    the file (see `can_be_copied`), or if cells are separated by more than one character.
    """
    return _copied(file, csv, "[c.strip() for c in r]", is_visible=True)


def with_changed_cells(
    file: TableFile,
    csv: CsvOptions,
    names: Sequence[str],
    column: str,
    pattern: str,
    value: str,
    *,
    place: int = 0,
    is_visible: bool = False,
) -> str:
    """Return a shell command that writes a copy of `file` in which cells of one column are replaced.

    - `csv` says how the file is written, and `names` are its columns in order.
    - `column` is the column. A cell of it is replaced if the whole cell, without blanks around it, matches the regular
      expression `pattern`.
    - `value` is a Python expression that computes the new cell. In it, `m` is the match of the old cell.
    - `place` tells several copies of one file apart (see `copy_of`).
    - `is_visible` says that characters which are not seen are left out first, in every column.

    `pattern` and `value` must not have backslashes or double quotes, nor dollar signs before letters, because the
    shell would change them.
    The result is "" if no shell command can copy the file (see `can_be_copied`), if cells are separated by more than
    one character, or if `column` is not in `names`.
    """
    if column not in names:
        return ""
    above, number = csv.skip_lines + (csv.columns is None), [*names].index(column)
    # Quotes would end the pattern, or the command, and a space of another kind is lost where a message is printed.
    for character in ("'", '"', *SPACES.replace(" ", "")):
        pattern = pattern.replace(character, f"'+chr({ord(character)})+'")
    cells = f"[new(c,re.fullmatch('{pattern}',c.strip())) if n>={above} and i=={number} else c for i,c in enumerate(r)]"
    return _copied(
        file, csv, cells, before=f"new=lambda c,m: {value} if m else c; ", is_visible=is_visible, place=place
    )


def _copied(file: TableFile, csv: CsvOptions, cells: str, *, before: str = "", is_visible: bool, place: int = 0) -> str:
    """Return a shell command (a short Python program) that writes a copy of `file` with other cells, or "".

    The result is "" if no shell command can copy the file, or if its separator has more than one character.

    - `csv` says how the file is written.
    - `cells` is a Python expression for the new cells of a row. In it, `r` are the row's old cells and `n` is the row's
      number. For example, "[c.strip() for c in r]" takes blanks away.
    - `before` is Python text that stands before the loop over rows, such as a definition that `cells` needs.
    - `is_visible` says that the program first removes invisible characters (such as soft hyphens), writes every kind of
      space as an ordinary space, and normalizes Unicode (NFC).
    - `place` tells several copies of one file apart (see `copy_of`).

    The Python text must not have backslashes, double quotes or dollar signs, because the shell would change them.
    """
    separator, encoding = csv.format_of(csv.suffix_of(file)).separator, codec_name(csv.encoding)
    if not can_be_copied(file, "utf-8") or len(separator) > 1:
        return ""
    streams = (
        f"[f.reconfigure(encoding='{encoding}',errors='surrogateescape',newline='') for f in (sys.stdin,sys.stdout)]"
    )
    if encoding in UTF_16:  # the copy is in UTF-8, which all commands can change
        streams = f"[f.reconfigure(encoding=e,newline='') for f,e in ((sys.stdin,'{encoding}'),(sys.stdout,'utf-8'))]"
    delimiter = "chr(9)" if separator == "\t" else repr(separator)
    written = f"delimiter={delimiter}" + (",quotechar=chr(39)" if csv.quote == "'" else "")
    read, module = "sys.stdin", ""
    if is_visible:
        hidden, spaces = (",".join(str(ord(each)) for each in characters) for characters in (INVISIBLE, SPACES))
        before += f"seen={{**dict.fromkeys(({hidden})),**dict.fromkeys(({spaces}),32)}}; "
        read, module = "(unicodedata.normalize('NFC',line.translate(seen)) for line in sys.stdin)", ",unicodedata"
    # The program has no sign that a shell changes between double quotes, so that it can be read where it is shown.
    program = (
        f"import csv,re,sys,datetime,decimal{module}; "
        f"{streams}; "
        f"{before}csv.writer(sys.stdout,{written},lineterminator=chr(10)).writerows("
        f"{cells} for n,r in enumerate(csv.reader({read},{written})))"
    )
    return f'python3 -c "{program}" < {quote(str(file))} > {quote(copy_of(file, place))}'
