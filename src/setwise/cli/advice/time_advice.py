"""Commands that read numbers of a column as times, for the owner of a file whose question needs dates and times.

The numbers count seconds, milliseconds or microseconds since 1970, or days as spreadsheets count them.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from shlex import join
from typing import TYPE_CHECKING

from setwise.cli.advice.copy_advice import ask_copies
from setwise.cli.advice.running_command import command_words, sql_options
from setwise.errors import SetwiseError

if TYPE_CHECKING:
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.schema import Kind

_NUMBERS_AS_TIMES = re.compile(
    "needs a column of dates or times, and '[^']*' holds (integer|float) values|holds (integer|float) values, not dates"
    "|(integer|float) and (text|date|timestamp) values cannot be compared"
    "|holds (integer|float) values and must be compared with a"
)
"""The regular expression of errors about numbers that a question compares with dates, or reads as dates or times."""


def advise_times(source: str, csv: "CsvOptions", types: "Mapping[str, Kind]", user: str, message: str) -> str:
    """Return the error `message` with a command that reads numbers as times; "" if the numbers seem to be no times.

    - `source` is the table, `csv` and `types` are the options with which it was read, and `user` is the user column.
    - `message` is the text of an error about a column of numbers that the running command uses as times.
    """
    from setwise.analytics.engines.duckdb.cell_counts import column_names, text_samples, typical_numbers
    from setwise.analytics.engines.duckdb.opening import untyped_table
    from setwise.analytics.engines.files import apply_description, files_of, magic_of
    from setwise.analytics.tables.cell_doubts import (
        are_serial_days,
        serial_day_note,
        since_1970_sentence,
        unix_function,
    )

    if _NUMBERS_AS_TIMES.search(message) is None:
        return ""
    problem = message.partition("; ")[0].removesuffix(": convert one of them")
    with suppress(SetwiseError):  # the refusal itself says why the file cannot be read
        types, csv = apply_description(source, types, csv)
        table = untyped_table(source, None, csv)
        names = column_names(table)
        medians = typical_numbers(table, {name for name in names if _is_used_as_time(name)}, types, csv.cells)
        files = files_of(source)
        for name, number in medians.items():
            if function := unix_function(abs(number)):
                sentence = since_1970_sentence(name, [str(abs(number))])
                asking = ask_for_times(source, user, function) or read_times(name, function)
                return f"{problem}; {sentence}; {asking}" if asking else ""
            cells = text_samples(table, wanted=name.__eq__).get(name, ())
            if files and magic_of(files[0]) is None and are_serial_days(cells):
                note = serial_day_note(name, csv, files, names)
                text = note.text.replace(f": {note.copy_command}", "") if note.copy_command else note.text
                asking = ask_copies(source, csv, types, [note], command_words.get()) if note.copy_command else ""
                return f"{problem}; {text}; {asking}".removesuffix("; ")
    return ""


def _is_used_as_time(name: str) -> bool:
    """Return whether the running command compares the column `name` with a text, or reads it as dates or times."""
    from setwise.analytics.tables.text_order import with_times_read

    words = command_words.get()
    is_binned = any(re.fullmatch(f"{re.escape(name)} by [a-z]+", word) for word in words)
    return is_binned or any(word != name and with_times_read(word, name, "TIME") != word for word in words)


def ask_with_function(source: str, user: str, message: str) -> str | None:
    """Return a phrase with the running command, changed so that it reads numbers as the error `message` says.

    The result is None if the message is not about numbers that are times since 1970, and "" if no command is known.
    `source` is the table, and `user` its user column.
    """
    from setwise.analytics.tables.cell_doubts import with_unix_function

    if other := re.search(r": write (TO_TIMESTAMP|TIMESTAMP_MILLIS|TIMESTAMP_MICROS)\(([^()]+)\)", message):
        asked = [with_unix_function(word, other[2], other[1]) for word in command_words.get()]
        return f"ask again with: setwise {join(asked)}" if tuple(asked) != command_words.get() else ""
    if "needs a column of dates or times, and " not in message and " since 1970, which " not in message:
        return None
    times = re.search(r"the numbers of '(.+)' may be \w+ since 1970, which (\w+)\(", message)
    function = times[2] if times is not None else "TO_TIMESTAMP"
    asking = ask_for_times(source, user, function)
    return asking if asking or times is None else read_times(times[1], function)


def ask_for_times(source: str, user: str, function: str) -> str:
    """Return a phrase with a `setwise sql` command to run in place of a `setwise histogram` that was refused.

    A histogram by periods, as with --item 'at by week', is refused if the column holds numbers and no times. The SQL
    statement of the command turns the numbers into times since 1970 and asks for the same numbers per period, by
    default of users. The result is "" if the running command is no such histogram.

    - `source` is the table, and `user` its user column.
    - `function` is the SQL function that turns the numbers into times, such as TO_TIMESTAMP.
    """
    named, words = sql_options()
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
    return f"if they are times since 1970, ask again with: setwise {command}"


def read_times(name: str, function: str) -> str:
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
