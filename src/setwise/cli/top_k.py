"""`setwise top-k`: the highest items of a table."""

from typing import Annotated

import typer

from setwise.cli import table_options as options
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
    from setwise.analytics.domain import read_domain
    from setwise.analytics.place import place_of
    from setwise.analytics.query import TopK
    from setwise.cli.question import Opening, Paying, Showing, answer_question

    query = TopK(
        item=item,
        k=k,
        contributions=contributions,
        per_item=per_item,
        value=value,
        domain=None if domain is None else read_domain(domain, place_of(table, engine, table_name)),
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
