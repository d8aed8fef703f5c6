"""`setwise check` finds out how to read a file; `setwise prepare` stores a table so that questions are fast."""

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from setwise.analytics.schema import NUMBER_KINDS
from setwise.cli import options
from setwise.cli.advice.copy_advice import reading_options
from setwise.cli.advice.running_command import command_words
from setwise.cli.ask import interruptible, open_session
from setwise.cli.options import CSV_OPTIONS, column_kinds, csv_words
from setwise.cli.output import print_json
from setwise.errors import InvalidParameter, SetwiseError, UnknownColumn

if TYPE_CHECKING:
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.tables.check import TableCheck

NOT_PRIVATE = "Not private: exact figures about the rows, for the holder of the file alone."
"""The warning above the output of `setwise check`."""


def check(**arguments: Any) -> None:  # noqa: ANN401 - each of its own type, as declared
    """Check a file for its owner (the output is not private): its format, unreadable cells, and the options to use.

    Options that are given are kept, and the others are guessed from the rows. Questions do not guess: give them the
    options that this command prints, or keep the options beside the file with --save.
    """
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.tables.check import check_table

    options = CsvOptions(**csv_words({name: arguments[name] for name in CSV_OPTIONS}))
    types = column_kinds(arguments["types"] or ())
    try:
        table_check = check_table(arguments["table"], options, types, arguments["user"])
    except UnknownColumn as refusal:
        advice = _column_names_advice(arguments["table"], options, arguments["user"])
        if not advice:
            raise
        raise UnknownColumn(f"{refusal}; {advice}") from None
    description = table_check.save() if arguments["save"] else None
    if arguments["catalog"]:
        print(propose_entry(table_check, arguments["user"]))
    elif arguments["as_json"]:
        print_json(table_check.to_dict())
    else:
        _show(table_check, description)


def _column_names_advice(source: str, csv: "CsvOptions", user: str) -> str:
    """Return a phrase with a command that gives names to the columns of the file `source`; "" if it has a header.

    The phrase is for a file without a header, in which no column has the name `user` of the user column. The command
    gives this name to the first column and made-up names to the others, and the phrase says so, because the owner of
    the file must check whether the first column tells users apart. `csv` are the options with which the file was read.
    The result is "" also if `csv` names the columns.
    """
    from shlex import join, quote

    from setwise.analytics.tables.check import check_table

    check = check_table(source, csv, {}, None)
    if csv.columns is not None or check.csv is None or not check.csv.columns:
        return ""
    names = (user, *check.csv.columns[1:])
    command = join([*command_words.get(), "--columns", ",".join(names)])
    return (
        f"the file has no header, so name its {len(names)} columns in their order: setwise {command}, if the first "
        f"column tells users apart; to see what the columns hold: setwise check {quote(source)}"
    )


_FILE_ENDINGS = frozenset({".csv", ".tsv", ".txt", ".parquet", ".gz", ".zst", ".bz2", ".duckdb", ".db", ".sqlite"})
"""Endings that say how a file is written; any other ending is a part of the name of its table."""


def propose_entry(check: "TableCheck", user: str | None) -> str:
    """Return TOML text that declares a file as a table of a catalog; `check` is the result of checking the file.

    `user` is the file's user column; if it is None, the entry has a placeholder that the owner of the data replaces.
    The owner fills in the bounds too, because a bound that is read off the rows would reveal the value of one user.
    """
    from setwise.analytics.catalog import CatalogTable, table_toml
    from setwise.analytics.engines.connect import location_of

    words = check.words()
    entry = CatalogTable(source=check.source, user=user or "USER_COLUMN", options=words)
    path = Path(check.source)
    name = location_of(check.source).name
    if path.suffix and path.suffix.lower() not in _FILE_ENDINGS:  # u.user and u.data would both be the table u
        name = re.sub(r"\W", "_", path.name)
    lines = [line for line in table_toml(name, entry) if line]
    numbers = [each.name for each in check.counts.columns if each.kind in NUMBER_KINDS]
    measured = [name for name in numbers if name != user]
    if measured:
        pairs = ", ".join(f"{name} = [LOW, HIGH]" for name in measured)
        lines.append(f"# bounds = {{ {pairs} }}  # from what you know of the columns, not from the rows")
    lines += [
        "# rows_per_user = N  # how many rows of a user count at most",
        "# contributions = N  # how many groups a user counts towards at most",
    ]
    return "\n".join(lines)


def _show(check: "TableCheck", description: Path | None) -> None:
    from shlex import join, split

    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False)
    console.print(NOT_PRIVATE, style="yellow")
    console.print(f"{check.source}: {check.how()}")
    if check.lost_lines > 0:
        console.print(f"{check.lost_lines:,} line(s) are no record of {len(check.counts.columns)} cells, and are lost")
    if check.counts.users is not None:
        console.print(f"{check.counts.users:,} users")
    table = Table(box=None, pad_edge=False)
    table.add_column("column", overflow="fold")
    table.add_column("kind")
    for heading in ("cells", "empty", "not of its kind"):
        table.add_column(heading, justify="right")
    for column in check.counts.columns:
        counts = (column.filled, check.counts.rows - column.filled, column.filled - column.readable)
        table.add_row(column.name, str(column.kind), *(f"{count:,}" for count in counts))
    console.print(table)
    for note in check.notes():
        console.print(f"note: {note}", soft_wrap=True)
    words = join(check.options())
    if description is None:
        console.print(f"options: {words or 'none are needed'}", soft_wrap=True)
    else:
        console.print(f"options: none are needed from now on, because {description.name} beside the file has them")
    for copy in check.copies:
        given = reading_options(command_words.get())
        saved = join(["setwise", "check", split(copy.command)[-1], "--save", *given, *copy.options])
        console.print(f"{copy.meaning or 'a copy without what these notes speak of'}:", soft_wrap=True)
        print(f"  {copy.command} && {saved}")


def prepare(**arguments: Any) -> None:  # noqa: ANN401 - each of its own type, as declared
    """Store every user's items in a random order, so that top-k and histogram run faster on DEST than on the table.

    DEST is as private as the table. It answers questions about the same user, item and value columns, with any
    --contributions and --per-item, and is refused once the table has changed.
    """
    from shlex import join

    from setwise.analytics.engines.connect import without_password

    out, engine = arguments.pop("out"), arguments["engine"]
    if not arguments.pop("replace"):
        _check_free(out, engine)
    words = {name: arguments.pop(name) for name in ("item", "value", "where", "null_item")}
    with open_session(options.CommonOptions(**arguments), None) as session:
        interruptible(lambda: session.prepare(out, **words), session.cancel)
    command_words = ["top-k", out, "--user", arguments["user"], "--item", words["item"]]
    if engine != "duckdb":
        command_words += ["--engine", without_password(engine)]
    print(f"prepared {out}; ask it like any table: setwise {join(command_words)} ...")


def _check_free(out: str, engine: str) -> None:
    """Raise `InvalidParameter` if there is already a file, folder or table at `out`, where a table is to be stored.

    `out` is a path or, if `engine` is not DuckDB, the name of a table on that engine.
    """
    from setwise.analytics.engines.connect import open_engine

    exists = Path(out).exists()
    if engine != "duckdb":
        try:
            with open_engine(out, engine) as existing:
                existing.describe()
                exists = True
        except SetwiseError:
            exists = False
    if exists:
        raise InvalidParameter(f"{out} exists already: name another destination, or give --replace")


_FILE = ("types", *CSV_OPTIONS)
"""The options of questions that say how a file is written."""

check.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        options.SHARED["table"],
        options.option("user", str | None, typer.Option(metavar="COL", help="Count the users in this column too.")),
        *(options.SHARED[name] for name in _FILE),
        options.option(
            "save",
            bool,
            typer.Option("--save", help="Keep the options beside the file, in FILE.toml: questions then need none."),
            False,
        ),
        options.option(
            "catalog",
            bool,
            typer.Option("--catalog", help="Print a catalog entry for the file instead; fill in its bounds."),
            False,
        ),
        options.SHARED["as_json"],
    ]
)
prepare.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        options.SHARED["table"],
        options.SHARED["user"],
        options.option(
            "item", str, typer.Option(metavar="COL", help="The column whose values are counted."), options.NEEDED
        ),
        options.option(
            "out",
            str,
            typer.Option(metavar="DEST", help="A directory for files; the name of a table for other engines."),
            options.NEEDED,
        ),
        options.option(
            "replace", bool, typer.Option("--replace", help="Put it in the place of what is at DEST already."), False
        ),
        *(options.option(name, str | None, options.OPTIONS[name]) for name in ("value", "where", "null_item")),
        *(options.SHARED[name] for name in ("engine", "table_name", *_FILE, "memory")),
    ]
)
