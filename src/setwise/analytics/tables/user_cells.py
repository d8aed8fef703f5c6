"""Notes for the data holder about rows without a user, and about texts in the user column that stand for no one person.

A row without a user is in no answer, and the data holder is told how many such rows there are. All rows whose user is
written N/A count as the rows of one person, so that the contribution bound drops most of them. A person who is written
in two ways is protected as two persons, which is less than an answer promises. If the table has such users, a question
is refused before its charge, until a corrected copy of the file or an option removes the cause.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.engines.typed_cells import DIVIDED_DIGITS
from setwise.analytics.schema import Kind
from setwise.analytics.tables.copies.binary_copies import (
    ONE_SPELLING,
    ONE_VISIBLE_SPELLING,
    with_changed_column,
    without_texts,
)
from setwise.analytics.tables.copies.clean_copies import with_changed_cells, without_repeated_headers
from setwise.analytics.tables.scan_notes import OptionWriter, ScanNote
from setwise.analytics.tables.writing import NULL_WORDS
from setwise.errors import UnknownColumn

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.tables import DuckDBTable


def _in_every_case(words: Sequence[str]) -> tuple[str, ...]:
    """Return `words`, each as it is written, in lower case, in upper case, and with capitals at the beginning."""
    return tuple(
        dict.fromkeys(
            each for word in words for each in (word, word.lower(), word.upper(), word.capitalize(), word.title())
        )
    )


USER_NULL_WORDS = _in_every_case(
    (*NULL_WORDS, "nil", "undefined", "unknown", "anonymous", "missing", "(null)", "<null>", "#NULL!")
)
"""Texts that programs write for a user who is not known, in the usual upper and lower case."""
_TOTALS = (
    *("total", "totals", "grand total", "total general", "total g\u00e9n\u00e9ral", "gran total", "total geral"),
    *("subtotal", "sub-total", "sub total", "sum", "summe", "gesamt", "gesamtsumme", "zwischensumme", "insgesamt"),
    *("totale", "totale generale", "totaal", "eindtotaal", "somme", "suma", "razem", "celkem", "summa", "totalt"),
    *("i alt", "yhteens\u00e4", "toplam", "genel toplam", "\u00f6sszesen", "\u0438\u0442\u043e\u0433\u043e"),
    *("\u0432\u0441\u0435\u0433\u043e", "\u0440\u0430\u0437\u043e\u043c", "\u03c3\u03cd\u03bd\u03bf\u03bb\u03bf"),
    *(
        "\u5408\u8ba1",
        "\u603b\u8ba1",
        "\u5408\u8a08",
        "\u7dcf\u8a08",
        "\u7e3d\u8a08",
        "\ud569\uacc4",
        "\u0627\u0644\u0645\u062c\u0645\u0648\u0639",
    ),
)
"""Words, in lower case, that programs and people write into a line with totals, in several languages."""
_TOTAL_WORDS = _in_every_case([f"{word}{mark}" for word in _TOTALS for mark in ("", ":")])
_SHARED_USERS = (
    *_in_every_case(
        ("guest", "visitor", "default", "system", "test", "dummy", "nobody", "public", "shared", "walk-in")
    ),
    *("0", "-1", "999", "9999", "99999", "999999", "-999", "00000000-0000-0000-0000-000000000000"),
)
"""Texts that programs write for people without an account, and that may be one person's name or number as well."""
_MANY_TIMES = 10
"""How many times as many rows as the median user has are too many for one person with such a name or number."""
_DIGITS_ALONE = f"(re.sub('[^0-9]','',m[0]).lstrip('0') if re.fullmatch('{DIVIDED_DIGITS}',m[0]) else m[0].lower())"
"""Python text for a user in lower case, or of digits without the signs between them and the zeros before them."""
_ONE_WAY = "[+]?0*([0-9]+)([.]0*)?|(?s:.+)"
"""The regular expression of a user; its first group is a whole number without the zeros around it."""
_MOST_WORDS = 5
"""The most texts that one note lists, so that the note stays readable."""


def is_total(cell: str) -> bool:
    """Return whether a cell is a word such as Total, which suggests that its line has the totals of the table."""
    return cell.strip(" :.*").casefold() in _TOTALS


def user_notes(
    table: "DuckDBTable",
    user: str | None,
    types: Mapping[str, Kind],
    csv: CsvOptions,
    files: Sequence[TableFile],
    write: OptionWriter,
    *,
    is_csv: bool,
) -> list[ScanNote]:
    """Return notes about rows of `table` that count for no user, or for a user who is not one real person.

    The notes are about rows without a user, texts such as N/A in the user column, users who are written in several
    ways, and lines that repeat the header.

    - `user` is the user column, or None for a public table. A public table only has notes about repeated headers.
    - `types` maps the names of text columns to the kinds of values that they are read as; others are read as text.
    - `csv` says how the table's `files` are written, and `write` turns the options that a note suggests into text.
    - `is_csv` says that the files are CSV files. Only lines of CSV files can repeat the header.
    """
    is_text = user is not None and types.get(user, Kind.TEXT) is Kind.TEXT
    notes = repeated_headers(table, user, csv, files, is_text=is_text) if is_csv else []
    if user is not None:
        notes += missing_users(table, user, csv, files, write, is_csv=is_csv, is_text=is_text)
    if user is not None and is_text:
        notes += several_spellings(table, user, csv, files, write)
        notes += country_codes(table, user, csv)
    return notes


def missing_users(
    table: "DuckDBTable",
    user: str,
    csv: CsvOptions,
    files: Sequence[TableFile],
    write: OptionWriter,
    *,
    is_csv: bool,
    is_text: bool = True,
) -> list[ScanNote]:
    """Return notes about the rows of `table` whose cell in the column `user` is null, empty or a text such as N/A.

    - `csv` lists the words for an empty cell, and says how the table's `files` are written.
    - `write` turns the options that a note suggests into text, as the reader has to type them.
    - `is_csv` says that the table is a CSV file, whose blank lines are not counted.
    - `is_text` says that users are read as text, so that a text such as N/A would count as a user. Otherwise, for
      example if users are numbers, N/A is read as null, and its rows are counted with those without a user.

    The list is empty if every row has a user, or there is no such column.
    """
    from setwise.analytics.engines.duckdb.cell_counts import column_names
    from setwise.analytics.engines.duckdb.user_counts import count_users, median_rows

    try:
        listed = (*USER_NULL_WORDS, *_TOTAL_WORDS, *_SHARED_USERS)
        counts = count_users(table, user, csv.cells, listed, is_csv=is_csv)
    except UnknownColumn:  # the query itself is refused for it, with the names of the columns that there are
        return []
    notes = []
    if counts.missing:
        lost = f"{counts.missing:,} of {counts.rows:,} rows have no {user!r} and are left out of every answer"
        notes.append(ScanNote(lost))
    # A number for nobody, such as -1, is a user even if users are read as numbers.
    shared = [text for text in counts.texts if text in _SHARED_USERS and (is_text or text.lstrip("-").isdecimal())]
    if shared:
        most = _MANY_TIMES * max(1, median_rows(table, user, csv.cells))
        shared = [text for text in shared if counts.texts[text] >= most]
    words = [text for text in counts.texts if text not in _SHARED_USERS and is_text] + shared
    words.sort(key=lambda text: -counts.texts[text])
    if words:
        # The option --null does not name the empty text, and would also empty the cells 0 of other columns.
        emptied = [text for text in words if not text or (text in shared and any(map(str.isdecimal, text)))]
        copy = ""
        all_words = [text for text in words if re.fullmatch(r"[\w .<>()/?#:-]*", text)]  # that a shell does not change
        if emptied and is_csv and len(files) == 1:
            pattern = "|".join(re.sub("[.()?]", r"[\g<0>]", text) for text in all_words)
            copy = with_changed_cells(files[0], csv, column_names(table), user, pattern, "''")
            emptied = all_words if copy else emptied
        if emptied and not is_csv:
            copy = with_changed_column(table, user, without_texts(all_words))
            emptied = all_words if copy else emptied
        notes.append(_shared_words_note(user, words, counts.texts, write, copy, emptied))
    return notes


def _shared_words_note(
    user: str,
    words: Sequence[str],
    rows: Mapping[str, int],
    write: OptionWriter,
    copy: str,
    emptied: Sequence[str],
) -> ScanNote:
    """Return a note about texts of the user column, such as N/A, that stand for no single person.

    For most texts, the note suggests options that read them as empty cells. For the texts in `emptied`, it suggests a
    copy of the file instead, in which these cells of the user column are empty. Among them are the empty text, for
    which there is no option, and numbers such as 0, which an option would make empty in other columns, too. The query
    is refused only if one of the texts can be no user, such as N/A.

    - `user` is the user column.
    - `words` are the texts, the most frequent first.
    - `rows` has the number of rows with each.
    - `write` turns the options into text.
    - `copy` is the shell command that writes the copy. If it is "", the note asks the data holder to make the cells
      null in the table.
    - `emptied` are those of `words` for which the copy is needed.
    """
    shown, named = words[:_MOST_WORDS], [word for word in words if word not in emptied]
    first, *others = [f"{rows[word]:,} {'row' if rows[word] == 1 else 'rows'} {word!r}" for word in shown]
    first = first.replace(" row ", " row has ", 1).replace(" rows ", " rows have ", 1)
    listed = ", ".join([first, *others[:-1]])
    listed += f" and {others[-1]}" if others else ""
    more = len(words) - len(shown)
    listed += f" (and {more} more such texts)" if more else ""
    each = "each of these texts" if others else "this text"
    counts = f"{each} counts as one person"
    totals = [word for word in shown if is_total(word)]
    if totals:
        counts += f", though {' and '.join(map(repr, totals))} may be a line of totals"
    options = [part for word in named for part in ("--null", word)]
    remedies = [f"{write(options)} leaves the rows out, and empties such cells of other columns"] if named else []
    remedies += (
        [f"a copy with such cells empty: {copy}" if copy else "make such cells null in the table"] if emptied else []
    )
    is_refused = any(word and word not in _SHARED_USERS for word in words)
    return ScanNote(
        f"{listed} as {user!r}, and {counts}: {'; '.join(remedies)}",
        mostly_unreadable=is_refused,
        options=tuple(options),
        copy_command=copy if is_refused else "",
        is_unsolved=is_refused and bool(emptied) and not copy,
    )


def several_spellings(
    table: "DuckDBTable", user: str, csv: CsvOptions, files: Sequence[TableFile], write: OptionWriter
) -> list[ScanNote]:
    """Return a list with a note if the column `user` writes a user in several ways, as 7 and 007, or Ada and ada.

    Each way counts as a user of its own. A person who is written in two ways may thus add twice as much to an answer as
    one user may, and is protected less than promised. `user` is a text column of `table`, `csv` says how the table's
    `files` are written, and `write` turns the option that the note suggests into text. The list is empty if every user
    is written in one way, or there is no such column.
    """
    from setwise.analytics.engines.duckdb.cell_counts import column_names
    from setwise.analytics.engines.duckdb.user_counts import count_spellings

    try:
        spellings = count_spellings(table, user, csv.cells)
    except UnknownColumn:  # the query itself is refused for it, with the names of the columns that there are
        return []
    if spellings is None:
        return []
    copy = ""
    options = ["--type", f"{user}=integer"] if spellings.are_numbers else []
    if not options and len(files) == 1:
        copy = with_changed_cells(
            files[0],
            csv,
            column_names(table),
            user,
            _ONE_WAY,
            f"m[1] or {_DIGITS_ALONE}",
            is_visible=spellings.are_hidden,
        )
    if not options and not copy:
        change = ONE_VISIBLE_SPELLING if spellings.are_hidden else ONE_SPELLING
        copy = with_changed_column(table, user, change)
    are_divided = any(re.fullmatch(DIVIDED_DIGITS, text) for text in (spellings.first, spellings.second))
    remedy = f"{write(options)} reads them as one" if options else "write each user in one way in the file"
    if copy:
        remedy = f"a copy with all users in lower case and without blanks around them: {copy}"
    if copy and are_divided:
        remedy = f"a copy with users of digits without signs between them and zeros before them: {copy}"
    if copy and spellings.are_hidden:
        remedy = f"a copy with all users in lower case, without blanks or characters that are not seen: {copy}"
    show = ascii if spellings.are_hidden else repr
    number = f"{spellings.users:,} {'user' if spellings.users == 1 else 'users'}"
    text = (
        f"cells of {user!r} write {number} in several ways, such as {show(spellings.first)} and "
        f"{show(spellings.second)}, which count as two users, so that a person is protected less than promised: "
        f"{remedy}"
    )
    return [
        ScanNote(
            text,
            mostly_unreadable=True,
            options=tuple(options),
            copy_command=copy,
            is_unsolved=not options and not copy,
        )
    ]


def country_codes(table: "DuckDBTable", user: str, csv: CsvOptions) -> list[ScanNote]:
    """Return a list with a note if the column `user` has telephones with and without a country code; else [].

    Only the data holder knows the country of those without one, so the note has no command. `csv` lists the words for
    an empty cell of the `table`.
    """
    from setwise.analytics.engines.duckdb.user_counts import count_country_codes

    try:
        found = count_country_codes(table, user, csv.cells)
    except UnknownColumn:  # the query itself is refused for it, with the names of the columns that there are
        return []
    if found is None:
        return []
    users, first, second = found
    return [
        ScanNote(
            f"{users:,} {'user' if users == 1 else 'users'} of {user!r} with a country code, such as {first!r}, "
            f"{'ends' if users == 1 else 'end'} in the same digits as users without one, such as {second!r}: if they "
            "are one person, write the country code into the file everywhere, as each counts as a user"
        )
    ]


def shortened_users(user: str, cells: Sequence[str]) -> str:
    """Return a sentence if users are numbers that a spreadsheet has shortened, as 4.9E+12; else "" (see `_shortened`).

    Several long numbers become the same text in this form, so that their rows count as those of one user. The sentence
    asks the data holder to write the file again, because the digits are lost. `cells` are sampled cells of the column
    `user`.
    """
    shortened = _shortened(cells)
    if not shortened:
        return ""
    return (
        f"users such as {shortened[0].strip()} were shortened by a spreadsheet, so that several count as one, and "
        f"their digits cannot be restored: write the file again from its source, with {user!r} as text"
    )


def shortened_numbers(name: str, cells: Sequence[str]) -> str:
    """Return a sentence if sampled `cells` of the column `name` are shortened numbers; else "" (see `_shortened`).

    A spreadsheet shortens numbers of twelve and more digits, as 4.9E+12. Such long numbers are mostly numbers of
    people or things, of which several become the same, so that the column must not be read as numbers.
    """
    shortened = [cell for cell in _shortened(cells) if int(cell.rpartition("+")[2]) >= _SHORTENED_FROM]
    if not shortened:
        return ""
    return (
        f"cells of {name!r} such as {shortened[0].strip()} were shortened by a spreadsheet, and their digits cannot be "
        f"restored: if they tell people or things apart, write the file again from its source, with {name!r} as text"
    )


_SHORTENED_FROM = 11
"""The least exponent of ten of whole numbers that spreadsheets shorten: they show up to eleven digits."""


def _shortened(cells: Sequence[str]) -> list[str]:
    """Return those `cells` that are numbers as 4.9E+12, as spreadsheets shorten them; none if they may be exact.

    They are shortened if they are half or more of the cells, or if other cells are whole numbers with all their digits,
    as 4900000000017 has. Many numbers become the same shortened one, so few different cells may be most of a column.
    """
    shortened = [match for cell in cells if (match := re.fullmatch(r"\s*[0-9]([.,][0-9]+)?E[+]([0-9]+)\s*", cell))]
    lengths = {int(match[2]) + 1 for match in shortened if int(match[2]) >= _SHORTENED_FROM}
    are_written_out = any(cell.strip().isdecimal() and len(cell.strip()) in lengths for cell in cells)
    return [match[0] for match in shortened] if 2 * len(shortened) >= len(cells) or are_written_out else []


def repeated_headers(
    table: "DuckDBTable", user: str | None, csv: CsvOptions, files: Sequence[TableFile], *, is_text: bool
) -> list[ScanNote]:
    """Return a list with a note if rows of a CSV `table` are its header again, as in files joined by cat; else [].

    - `user` is the user column, or None for a public table.
    - `csv` says how the table's `files` are written.
    - `is_text` says that users are read as text. A repeated header then counts as a row of a user whose name is the
      name of the column. Otherwise, for example if users are numbers, queries skip a repeated header, because the name
      of the column is no number.
    """
    from setwise.analytics.engines.duckdb.cell_counts import count_repeated_headers

    lines = count_repeated_headers(table)
    if not lines:
        return []
    text = f"{lines:,} {'line repeats' if lines == 1 else 'lines repeat'} the header, as after cat of several files"
    if user is not None and not is_text:
        return [ScanNote(f"{text}, and will be left out, because {user!r} is no user there")]
    if user is not None and user in csv.null:
        return [ScanNote(f"{text}, and will be left out, because {user!r} means an empty cell")]
    if user is not None:
        text += f", and {'counts as a row' if lines == 1 else 'count as rows'} of a user called {user!r}"
    copy = without_repeated_headers(files[0], csv) if len(files) == 1 else ""
    remedy = f"a copy without them: {copy}" if copy else "take them out of the file"
    return [ScanNote(f"{text}: {remedy}", mostly_unreadable=user is not None, copy_command=copy, is_unsolved=not copy)]
