"""`setwise top-k`: the highest items of a table."""

from typing import Annotated

import typer

from setwise.cli import options
from setwise.cli.compose import AsJson


def top_k(
    table: options.TableSource,
    user: options.User,
    item: options.Item,
    k: Annotated[int, typer.Option("-k", help="How many items.")],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    contributions: options.Contributions = None,
    per_item: options.PerItem = 1,
    value: options.Value = None,
    domain: options.DomainFile = None,
    counts: options.Counts = None,
    mechanism: options.Mechanism = None,
    where: options.Where = None,
    null_item: options.NullItem = None,
    limit: options.Limit = None,
    engine: options.EngineName = "duckdb",
    table_name: options.TableName = None,
    types: options.ColumnTypes = None,
    memory: options.Memory = None,
    account: options.AccountName = None,
    dataset: options.DatasetName = None,
    ledger: options.LedgerUrl = None,
    key: options.Key = None,
    discover: options.Discover = None,
    as_json: AsJson = False,
    as_csv: options.AsCsv = False,
    plot: options.Plot = None,
    preview: options.AsPreview = False,
) -> None:
    """Find the k items that the most users have, with noisy counts, above a noisy threshold if items are private."""
    from setwise.analytics.query import TopK
    from setwise.analytics.tables.domain import read_domain
    from setwise.analytics.tables.source import location_of
    from setwise.cli.run import Opening, Paying, Showing, answer_question

    query = TopK(
        item=item,
        k=k,
        contributions=contributions,
        per_item=per_item,
        value=value,
        domain=None if domain is None else read_domain(domain, location_of(table, engine, table_name)),
        where=where,
        null_item=null_item,
        limit=limit,
    )
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
        Paying(epsilon=epsilon, delta=delta, counts=counts, mechanism=mechanism, discover=discover, key=key),
        Showing(as_json=as_json, as_csv=as_csv, as_preview=preview, plot=plot),
        query,
    )


def histogram(
    table: options.TableSource,
    user: options.User,
    item: options.Item,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    contributions: options.Contributions = None,
    per_item: options.PerItem = 1,
    value: options.Value = None,
    domain: options.DomainFile = None,
    counts: options.Counts = None,
    mechanism: options.Mechanism = None,
    where: options.Where = None,
    null_item: options.NullItem = None,
    limit: options.Limit = None,
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
    """Count the users of every item; items that are private come out when enough users have them."""
    from setwise.analytics.query import HistogramQuery
    from setwise.analytics.tables.domain import read_domain
    from setwise.analytics.tables.source import location_of
    from setwise.cli.run import Opening, Paying, Showing, answer_question

    query = HistogramQuery(
        item=item,
        contributions=contributions,
        per_item=per_item,
        value=value,
        domain=None if domain is None else read_domain(domain, location_of(table, engine, table_name)),
        where=where,
        null_item=null_item,
        limit=limit,
    )
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
        query,
    )


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
    from setwise.cli.run import Opening, Paying, Showing, answer_question

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
    from setwise.cli.run import Opening, Paying, Showing, answer_question

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
