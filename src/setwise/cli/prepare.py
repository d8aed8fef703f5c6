"""`setwise prepare`: bound contributions once, for many quick questions."""

from typing import Annotated

import typer

from setwise.cli import table_options as options


def prepare(
    table: options.TableSource,
    user: options.User,
    item: options.Item,
    out: Annotated[
        str, typer.Option(metavar="DEST", help="A directory for files; the name of a table for PostgreSQL and Spark.")
    ],
    value: options.Value = None,
    where: options.Where = None,
    null_item: options.NullItem = None,
    engine: options.EngineName = "duckdb",
    table_name: options.TableName = None,
    types: options.ColumnTypes = None,
    memory: options.Memory = None,
) -> None:
    """Rank every user's items once and store them, so that top-k and histogram on DEST run at the engine's own speed.

    DEST is as private as the table. It answers questions about the same user, item and value columns, with any
    --contributions and --per-item, and is refused once the table has changed.
    """
    from setwise.cli.question import Opening, interruptible, open_session

    opening = Opening(
        source=table,
        user=user,
        engine=engine,
        table=table_name,
        types=types or (),
        memory=memory,
        account=None,
        dataset=None,
        ledger=None,
    )
    with open_session(opening, None) as session:
        interruptible(
            lambda: session.prepare(out, item=item, value=value, where=where, null_item=null_item), session.cancel
        )
    print(f"prepared {out}; ask it like any table, with --user {user} --item {item}")
