"""`setwise histogram`: a count for every item of a table."""

from setwise.cli import table_options as options
from setwise.cli.compose import AsJson


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
    from setwise.analytics.domain import read_domain
    from setwise.analytics.place import place_of
    from setwise.analytics.query import HistogramQuery
    from setwise.cli.question import Opening, Paying, Showing, answer_question

    query = HistogramQuery(
        item=item,
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
        Paying(epsilon=epsilon, delta=delta, counts=counts, mechanism=mechanism, discover=None, key=key),
        Showing(as_json=as_json, as_csv=as_csv, as_preview=preview, plot=plot),
        query,
    )
