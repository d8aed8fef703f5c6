"""`setwise prepare`: bound contributions once, for many quick questions."""

from pathlib import Path
from typing import Annotated

import typer

from setwise.cli import options
from setwise.errors import InvalidParameter, SetwiseError


def prepare(
    table: options.TableSource,
    user: options.User,
    item: options.Item,
    out: Annotated[
        str, typer.Option(metavar="DEST", help="A directory for files; the name of a table for other engines.")
    ],
    replace: Annotated[bool, typer.Option("--replace", help="Put it in the place of what is at DEST already.")] = False,
    value: options.Value = None,
    where: options.Where = None,
    null_item: options.NullItem = None,
    engine: options.EngineName = "duckdb",
    table_name: options.TableName = None,
    types: options.ColumnTypes = None,
    separator: options.Separator = None,
    header: options.HasHeader = None,
    columns: options.ColumnNames = None,
    encoding: options.Encoding = "utf-8",
    skip_lines: options.SkipLines = 0,
    format: options.Format = None,  # noqa: A002 - the word of the option
    memory: options.Memory = None,
) -> None:
    """Rank every user's items once and store them, so that top-k and histogram on DEST run at the engine's own speed.

    DEST is as private as the table. It answers questions about the same user, item and value columns, with any
    --contributions and --per-item, and is refused once the table has changed.
    """
    from shlex import join

    from setwise.analytics.engines.connect import without_password
    from setwise.cli.ask import interruptible, open_session

    if not replace:
        _check_free(out, engine)
    given = options.Given(
        table=table,
        user=user,
        engine=engine,
        table_name=table_name,
        types=types,
        separator=separator,
        header=header,
        columns=columns,
        encoding=encoding,
        skip_lines=skip_lines,
        format=format,
        memory=memory,
    )
    with open_session(given, None) as session:
        interruptible(
            lambda: session.prepare(out, item=item, value=value, where=where, null_item=null_item), session.cancel
        )
    asked = [
        "top-k",
        out,
        "--user",
        user,
        "--item",
        item,
        *(() if engine == "duckdb" else ("--engine", without_password(engine))),
    ]
    print(f"prepared {out}; ask it like any table: setwise {join(asked)} ...")


def _check_free(out: str, engine: str) -> None:
    """Raise unless nothing is at the destination yet."""
    from setwise.analytics.engines.connect import open_engine

    taken = Path(out).exists()
    if engine != "duckdb":
        try:
            with open_engine(out, engine) as found:
                found.describe()
                taken = True
        except SetwiseError:
            taken = False
    if taken:
        raise InvalidParameter(f"{out} exists already: name another destination, or give --replace")
