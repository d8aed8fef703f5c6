"""Notes for the data holder about rows that have no user, and about texts such as N/A that count as one user.

A row without a user is in no answer. All rows whose user is written N/A count as the rows of one person, so that the
contribution bound drops most of them.
"""

from typing import TYPE_CHECKING

from setwise.analytics.engines.typed_cells import CellGrammar
from setwise.analytics.tables.scan_notes import OptionWriter, ScanNote
from setwise.analytics.tables.writing import NULL_WORDS
from setwise.errors import UnknownColumn

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.tables import DuckDBTable

_BASE_WORDS = (*NULL_WORDS, "nil", "undefined", "unknown", "anonymous", "missing", "(null)", "<null>", "#NULL!")
USER_NULL_WORDS = tuple(
    dict.fromkeys(word for base in _BASE_WORDS for word in (base, base.lower(), base.upper(), base.capitalize()))
)
"""Texts that programs write for a user who is not known, in the usual upper and lower case."""
_MOST_WORDS = 5
"""The most texts that one note lists, so that the note stays readable."""


def missing_users(
    table: "DuckDBTable", user: str, grammar: CellGrammar, write: OptionWriter, *, is_csv: bool
) -> list[ScanNote]:
    """Return notes about the rows of `table` whose cell in the column `user` is null, empty or a text such as N/A.

    `grammar` lists the words for an empty cell. `is_csv` says that blank lines are not counted. `write` writes the
    options that a note suggests. The list is empty if every row has a user, or there is no such column.
    """
    from setwise.analytics.engines.duckdb.cell_counts import count_users

    try:
        counts = count_users(table, user, grammar, USER_NULL_WORDS, is_csv=is_csv)
    except UnknownColumn:  # the query itself is refused for it, with the names of the columns that there are
        return []
    notes = []
    if counts.missing:
        lost = f"{counts.missing:,} of {counts.rows:,} rows have no {user!r} and are left out of every answer"
        notes.append(ScanNote(lost))
    words = sorted(counts.texts, key=lambda text: -counts.texts[text])
    shown = words[:_MOST_WORDS]
    named = [word for word in shown if word]
    if shown:
        first, *others = [f"{counts.texts[word]:,} rows {word!r}" for word in shown]
        listed = ", ".join([first.replace(" rows ", " rows have ", 1), *others[:-1]])
        listed += f" and {others[-1]}" if others else ""
        each = "each of these texts" if others else "this text"
        options = write([part for word in named for part in ("--null", word)])
        remedies = [f"{options} leaves the rows out"] if named else []
        remedies += ["make such cells null in the table"] if "" in shown else []
        notes.append(ScanNote(f"{listed} as {user!r}, and {each} counts as one person: {'; '.join(remedies)}"))
    return notes


def several_spellings(table: "DuckDBTable", user: str, write: OptionWriter) -> list[ScanNote]:
    """Return a note if the text column `user` of `table` writes one number in several ways, as 7, 7.0 and 00007.

    Each way counts as a user of its own, so that the person is protected less than promised. `write` writes the option
    that the note suggests. The list is empty if every user is written in one way, or there is no such column.
    """
    from setwise.analytics.engines.duckdb.cell_counts import count_spellings

    try:
        users, first, second, all_numbers = count_spellings(table, user)
    except UnknownColumn:  # the query itself is refused for it, with the names of the columns that there are
        return []
    if not users:
        return []
    remedy = (
        f"{write(['--type', f'{user}=integer'])} reads them as one"
        if all_numbers
        else "write each user in one way in the file"
    )
    return [
        ScanNote(
            f"cells of {user!r} write {users:,} {'user' if users == 1 else 'users'} in several ways, such as {first!r} "
            f"and {second!r}, which count as two users, so that a person is protected less than promised: {remedy}"
        )
    ]
