"""`setwise check`: what a file holds and how to read it, for its holder."""

from typing import TYPE_CHECKING, Annotated

import typer

from setwise.cli import options
from setwise.cli.ask import column_kinds, csv_words
from setwise.cli.output import print_json

if TYPE_CHECKING:
    from pathlib import Path

    from setwise.analytics.tables.check import TableCheck

NOT_PRIVATE = "Not private: exact figures about the rows, for the holder of the file alone."


def check(
    table: options.TableSource,
    user: Annotated[str | None, typer.Option(metavar="COL", help="Count the users in this column too.")] = None,
    types: options.ColumnTypes = None,
    separator: options.Separator = None,
    header: options.HasHeader = None,
    columns: options.ColumnNames = None,
    encoding: options.Encoding = "utf-8",
    skip_lines: options.SkipLines = 0,
    format: options.Format = None,  # noqa: A002 - the word of the option
    save: Annotated[
        bool, typer.Option("--save", help="Keep the options beside the file, in FILE.toml: questions then need none.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Say how a file is written, which cells cannot be read, and the options to use; for its holder: not private.

    Options that are given are kept; the others are guessed from the rows, as no question does.
    """
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.tables.check import check_table

    written = {
        "separator": separator,
        "header": header,
        "columns": columns,
        "encoding": encoding,
        "skip_lines": skip_lines,
        "format": format,
    }
    found = check_table(table, CsvOptions(**csv_words(written)), column_kinds(types or ()), user)
    kept = found.save() if save else None
    if as_json:
        print_json(found.to_dict())
    else:
        _show(found, kept)


def _show(check: "TableCheck", kept: "Path | None") -> None:
    from shlex import join

    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False)
    console.print(NOT_PRIVATE, style="yellow")
    console.print(f"{check.source}: {check.how()}")
    if check.lost_lines > 0:
        console.print(f"{check.lost_lines:,} line(s) are no record of {len(check.found.columns)} cells, and are lost")
    if check.found.users is not None:
        console.print(f"{check.found.users:,} users")
    table = Table(box=None, pad_edge=False)
    table.add_column("column", overflow="fold")
    table.add_column("kind")
    for heading in ("cells", "empty", "not of its kind"):
        table.add_column(heading, justify="right")
    for each in check.found.columns:
        counts = (each.filled, check.found.rows - each.filled, each.filled - each.readable)
        table.add_row(each.name, str(each.kind), *(f"{count:,}" for count in counts))
    console.print(table)
    words = join(check.options())
    if kept is None:
        console.print(f"options: {words or 'none are needed'}", soft_wrap=True)
    else:
        console.print(f"options: none are needed from now on, because {kept.name} beside the file has them")
