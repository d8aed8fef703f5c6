"""`setwise count` and `setwise sum`: one number about a table."""

from typing import Annotated

import typer

from setwise.cli import table_options as options
from setwise.cli.compose import AsJson


def count(
    table: options.TableSource,
    user: options.User,
    per_user: Annotated[
        int, typer.Option(help="1 counts users; more counts events, at most this many of one user.")
    ] = 1,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    counts: options.Counts = None,
    mechanism: options.Mechanism = None,
    where: options.Where = None,
    engine: options.EngineName = "duckdb",
    table_name: options.TableName = None,
    types: options.ColumnTypes = None,
    memory: options.Memory = None,
    account: options.AccountName = None,
    dataset: options.DatasetName = None,
    ledger: options.LedgerUrl = None,
    key: options.Key = None,
    as_json: AsJson = False,
    as_csv: options.AsCsv = False,
    plot: options.Plot = None,
    preview: options.AsPreview = False,
) -> None:
    """Count users, or events with a cap on each user."""
    from setwise.analytics.query import Count
    from setwise.cli.question import Opening, Paying, Showing, answer_question

    answer_question(
        Opening(
            source=table,
            user=user,
            engine=engine,
            table=table_name,
            types=types or (),
            memory=memory,
            account=account,
            dataset=dataset,
            ledger=ledger,
        ),
        Paying(epsilon=epsilon, delta=delta, counts=counts, mechanism=mechanism, discover=None, key=key),
        Showing(as_json=as_json, as_csv=as_csv, as_preview=preview, plot=plot),
        Count(per_user=per_user, where=where),
    )


def sum_column(
    table: options.TableSource,
    user: options.User,
    value: Annotated[str, typer.Option(metavar="COL", help="The integer column to add up.")],
    clip: Annotated[int, typer.Option(help="What one user may add at most; less than 0 counts as 0.")],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    counts: options.Counts = None,
    mechanism: options.Mechanism = None,
    where: options.Where = None,
    engine: options.EngineName = "duckdb",
    table_name: options.TableName = None,
    types: options.ColumnTypes = None,
    memory: options.Memory = None,
    account: options.AccountName = None,
    dataset: options.DatasetName = None,
    ledger: options.LedgerUrl = None,
    key: options.Key = None,
    as_json: AsJson = False,
    as_csv: options.AsCsv = False,
    plot: options.Plot = None,
    preview: options.AsPreview = False,
) -> None:
    """Add up an integer column, each user's own sum clipped to between 0 and --clip."""
    from setwise.analytics.query import Sum
    from setwise.cli.question import Opening, Paying, Showing, answer_question

    answer_question(
        Opening(
            source=table,
            user=user,
            engine=engine,
            table=table_name,
            types=types or (),
            memory=memory,
            account=account,
            dataset=dataset,
            ledger=ledger,
        ),
        Paying(epsilon=epsilon, delta=delta, counts=counts, mechanism=mechanism, discover=None, key=key),
        Showing(as_json=as_json, as_csv=as_csv, as_preview=preview, plot=plot),
        Sum(value=value, clip=clip, where=where),
    )
