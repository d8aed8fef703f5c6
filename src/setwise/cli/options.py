"""The options that every question about a table shares."""

from typing import Annotated

import typer

TableSource = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="A Parquet or CSV file, a glob or directory of them, FILE::TABLE in a DuckDB or SQLite database, or a "
        "table of the engine.",
    ),
]
User = Annotated[str, typer.Option(metavar="COL", help="The column that says whose row a row is: what is protected.")]
Item = Annotated[str, typer.Option(metavar="COL", help="The column whose values are counted.")]
Epsilon = Annotated[
    float | None, typer.Option(help="The total epsilon of this question, split between finding and counting.")
]
Delta = Annotated[
    float | None,
    typer.Option(
        help="The total delta of this question, 0 if left out; with --account, that of an unknown domain's threshold."
    ),
]
Contributions = Annotated[
    int | None, typer.Option(help="How many items one user counts towards (a random choice); any number if left out.")
]
PerItem = Annotated[int, typer.Option(help="How much one user may add to one item: rows, or units of --value.")]
Value = Annotated[str | None, typer.Option(metavar="COL", help="Add up this integer column instead of counting rows.")]
DomainFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="The items, if they are public: one per line, or FILE:COLUMN of a CSV or Parquet file. Without it the "
        "items themselves are private.",
    ),
]
Counts = Annotated[
    str | None,
    typer.Option(
        metavar="NOISE|MECH",
        help="none, laplace, gaussian or best (the default); with --account what each count draws, such as pure:0.1.",
    ),
]
Mechanism = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Force a mechanism: known_laplace, known_gaussian, known_gumbel, unknown_laplace, truncated_gaussian or "
        "unknown_gumbel.",
    ),
]
Where = Annotated[
    str | None, typer.Option(metavar="FILTER", help="Keep rows for which this holds, as in \"country = 'NO'\".")
]
NullItem = Annotated[
    str | None,
    typer.Option(metavar="LABEL", help="Count rows without an item under this label instead of dropping them."),
]
Limit = Annotated[
    int | None, typer.Option(help="Among how many of the highest items an unknown domain is searched (1000).")
]
EngineName = Annotated[str, typer.Option("--engine", help="duckdb, spark, a Spark master, or postgresql://... .")]
TableName = Annotated[str | None, typer.Option("--table", help="The table inside a database file.")]
ColumnTypes = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="COL=KIND",
        help="The kind of a CSV column that is not text, as in minutes=integer; may be repeated.",
    ),
]
Memory = Annotated[str | None, typer.Option(help="DuckDB's memory limit, as in 4GiB.")]
AccountName = Annotated[
    str | None, typer.Option("--account", metavar="NAME", help="Draw on this account instead of --epsilon and --delta.")
]
DatasetName = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="NAME",
        help="The dataset this table is, when --account was opened for one; the name of the file or table if left out.",
    ),
]
LedgerUrl = Annotated[
    str | None,
    typer.Option("--ledger", metavar="URL", help="The ledger of the account: $SETWISE_LEDGER, or ./setwise.db."),
]
Key = Annotated[
    str | None,
    typer.Option(help="The idempotency key: the same key and question again returns the same answer for free."),
]
Discover = Annotated[
    str | None, typer.Option(metavar="MECH", help="With --account, what each pick draws, such as bounded-range:0.1.")
]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print the items as CSV, to standard output: > FILE keeps them.")]
Plot = Annotated[str | None, typer.Option(metavar="FILE", help="Also draw the items into a .png or .svg file.")]
AsPreview = Annotated[
    bool, typer.Option("--preview", help="Say what would be run, what it costs and how far off it may be; free.")
]
