"""The options of questions about a table, shared by commands: names, defaults, help texts, and the ledger's address."""

import inspect
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from setwise.cli.output import AsJson
from setwise.errors import InvalidParameter, MissingExtra

if TYPE_CHECKING:
    from setwise.analytics.schema import Kind


CSV_OPTIONS = (
    *("separator", "quote", "header", "columns", "encoding", "skip_lines", "format"),
    *("decimal", "thousands", "date_format", "null"),
)
"""The names of the options that say how a CSV file is written."""


def csv_words(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the command's CSV options in the form in which Python uses them, such as a tab character for "tab".

    The result has the keyword arguments of the class `CsvOptions`. `arguments` maps the same names (`CSV_OPTIONS`) to
    the values on the command line. --columns implies --no-header.
    Raises: `InvalidParameter` if --no-header is given without --columns, or --header with it.
    """
    if arguments["header"] is False and arguments["columns"] is None:
        raise InvalidParameter("--no-header needs --columns A,B,..., because a file without a header has no names")
    if arguments["columns"] is not None:
        if arguments["header"]:
            raise InvalidParameter("--columns names the columns of a file without a header: leave out --header")
        arguments = arguments | {"header": False}
    separator, columns = arguments["separator"], arguments["columns"]
    return arguments | {
        "separator": "\t" if separator in ("\\t", "tab") else separator,
        "columns": None if columns is None else tuple(columns.split(",")),
        "quote": {"double": '"', "single": "'"}.get(arguments["quote"], arguments["quote"]),
        "thousands": " " if arguments["thousands"] == "space" else arguments["thousands"],
        "null": tuple(arguments["null"] or ()),
    }


def column_kinds(types: Sequence[str]) -> "dict[str, Kind]":
    """Return the kind of each column, by column name, that the values of --type declare.

    `types` are these values, each of the form COL=KIND, such as "minutes=integer".
    Raises: `InvalidParameter` for a value that is not of this form.
    """
    from setwise.analytics.schema import Kind

    kinds = {}
    for declaration in types:
        name, equals, kind = declaration.rpartition("=")
        if not equals or kind not in set(Kind):
            raise InvalidParameter(f"--type is written COL=KIND with a kind of {', '.join(Kind)}, not {declaration!r}")
        kinds[name] = Kind(kind)
    return kinds


def _number_or_auto(text: str) -> int | str:
    """Return `text` as a whole number, or the word "auto" unchanged.

    Raises: `InvalidParameter` for any other text.
    """
    if text != "auto" and not text.removeprefix("-").isdecimal():
        raise InvalidParameter(f"--contributions must be a whole number or auto, not {text!r}")
    return text if text == "auto" else int(text)


OPTIONS: dict[str, Any] = {
    "item": typer.Option(
        metavar="COL",
        help="The column whose values are the items, or bins of one, as in 'age by 10', 'at by month' or 'hour of at'; "
        "given several times, items are of several columns.",
    ),
    "k": typer.Option("-k", help="How many items."),
    "contributions": typer.Option(
        metavar="N|auto",
        parser=_number_or_auto,
        help="How many items one user counts towards (a random choice). auto, the default for private items, finds it "
        "within a tenth of epsilon; a top k and public items take any number.",
    ),
    "per_item": typer.Option(help="How much one user may add to one item: rows, or units of --value; 1 if left out."),
    "per_user": typer.Option(
        help="Take rows, at most this many of one user. Without it, counts and means take users once; others find it."
    ),
    "value": typer.Option(metavar="COL", help="The column of numbers; items are ranked by integers only."),
    "clip": typer.Option(help="What one user may add at most; less than 0 counts as 0."),
    "low": typer.Option(help="The least that one user's own sum or mean counts as; it may be negative."),
    "high": typer.Option(help="The most that it counts as. Give both, or neither."),
    "bounds": typer.Option(metavar="auto", help="Find --low and --high within a tenth of epsilon; the default."),
    "step": typer.Option(help="What values are rounded to: 1 for sums of integers, else a thousandth of high - low."),
    "at": typer.Option(
        help="The share of users below the value to find, such as 0.9; several times for several values."
    ),
    "domain": typer.Option(
        metavar="FILE",
        help="The items, if they are public: one per line, or FILE:COLUMN of a CSV or Parquet file. Without it the "
        "items themselves are private.",
    ),
    "where": typer.Option(metavar="FILTER", help="Keep rows for which this holds, as in \"country = 'NO'\"."),
    "null_item": typer.Option(
        metavar="LABEL", help="Count rows without an item under this label instead of dropping them."
    ),
    "limit": typer.Option(help="Among how many of the highest items an unknown domain is searched (1000)."),
}
"""The command-line options for the parameters of queries; `setwise.analytics.query` says which query has which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOptions:
    """The options that all questions share: the table, the user column, the budget, and how the answer is shown.

    The help text of each field says what the option does.
    """

    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="A Parquet or CSV file, a glob or directory of them, FILE::TABLE in a DuckDB or SQLite database, or a "
            "table of the engine.",
        ),
    ]
    user: Annotated[str, typer.Option(metavar="COL", help="The column that tells users apart: each user is protected.")]
    unit: Annotated[
        str,
        typer.Option(
            metavar="user|user,day",
            help="What is protected: each user, or only each single day of a user ('user,at by day' names the column), "
            "which protects far less: somebody on n days has n times the epsilon.",
        ),
    ] = "user"
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="The total epsilon of this question: one person changes the chance of any answer by a factor of at "
            "most e^EPSILON. 0.1 protects strongly (1.1), 1 is usual (2.7), 5 is weak (148)."
        ),
    ] = None
    delta: Annotated[
        float | None,
        typer.Option(
            help="The total delta of this question, about the chance that the factor is exceeded; 0 if left out. "
            "With --account, that of an unknown domain's threshold."
        ),
    ] = None
    counts: Annotated[
        str | None,
        typer.Option(
            metavar="NOISE|MECH",
            help="none, laplace, gaussian or best (the default); with --account what each count draws, such as "
            "pure:0.1.",
        ),
    ] = None
    within: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="Spend the least epsilon whose planned 95% intervals are within ±N (means of 1,000 users; quantiles "
            "in users of rank), and never more than --epsilon, or 1 without one.",
        ),
    ] = None
    mechanism: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Force a mechanism: known_laplace, known_gaussian, known_gumbel, unknown_laplace, truncated_gaussian, "
            "unknown_gumbel or weighted_rounds.",
        ),
    ] = None
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            help="duckdb, spark, a Spark master, postgresql://..., clickhouse://... or chdb:///folder.",
            autocompletion=lambda: ["duckdb", "spark", "postgresql://", "clickhouse://", "chdb:///"],
        ),
    ] = "duckdb"
    table_name: Annotated[str | None, typer.Option("--table", help="The table inside a database file.")] = None
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="COL=KIND",
            help="The kind of a CSV column that is not text, as in minutes=integer; may be repeated.",
        ),
    ] = None
    separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What stands between the cells of a CSV file: ';', tab, '::'.")
    ] = None
    quote: Annotated[
        str,
        typer.Option(metavar="CHARACTER", help="What cells of a CSV file stand in: double or single quotes, or none."),
    ] = "double"
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the CSV file has a header, if it is not plain: --no-header needs --columns.",
        ),
    ] = None
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B,...", help="The columns of a CSV file without a header.")
    ] = None
    encoding: Annotated[
        str,
        typer.Option(help="The encoding of a CSV file: utf-8, utf-16, or one of a byte per character such as cp1252."),
    ] = "utf-8"
    skip_lines: Annotated[
        int, typer.Option(help="How many lines stand above the header of a CSV file, or its first row.")
    ] = 0
    format: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="ENDING", help="What the file is, if its name does not tell: csv, tsv, csv.gz, parquet."
        ),
    ] = None
    decimal: Annotated[
        str, typer.Option(metavar=".|,", help="The decimal point of numbers in a CSV file: . or , .")
    ] = "."
    thousands: Annotated[
        str, typer.Option(metavar="CHARACTER", help="What stands between thousands in a CSV file: , . ' or space.")
    ] = ""
    date_format: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="How dates are written in a CSV file, as in %d.%m.%Y or %m/%d/%Y."),
    ] = None
    null: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD", help="A word that stands for an empty cell in a CSV file, such as N/A; repeatable."
        ),
    ] = None
    scan: Annotated[
        bool,
        typer.Option(
            "--scan/--no-scan",
            help="Count the rows and cells of a file that the question will not read, and say so on standard error.",
        ),
    ] = True
    memory: Annotated[str | None, typer.Option(help="DuckDB's memory limit, as in 4GiB.")] = None
    account: Annotated[
        str | None,
        typer.Option("--account", metavar="NAME", help="Draw on this account instead of --epsilon and --delta."),
    ] = None
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset",
            metavar="NAME",
            help="The dataset this table is, when --account was opened for one; the name of the file or table if left "
            "out.",
        ),
    ] = None
    ledger: Annotated[
        str | None,
        typer.Option("--ledger", metavar="URL", help="The ledger of the account: $SETWISE_LEDGER, or ./setwise.db."),
    ] = None
    key: Annotated[
        str | None,
        typer.Option(help="The idempotency key: the same key and question again returns the same answer for free."),
    ] = None
    discover: Annotated[
        str | None,
        typer.Option(metavar="MECH", help="With --account, what each pick draws, such as bounded-range:0.1."),
    ] = None
    as_json: AsJson = False
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print the items as CSV, to standard output: > FILE keeps them.")
    ] = False
    details: Annotated[
        bool,
        typer.Option(
            "--details", help="Also print the formal promise, the mechanism and what was spent, to the last digit."
        ),
    ] = False
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Also draw the items into a .png or .svg file.")] = (
        None
    )
    preview: Annotated[
        bool, typer.Option("--preview", help="Say what would be run, what it costs and how far off it may be; free.")
    ] = False

    def __post_init__(self) -> None:
        if self.as_json and self.as_csv:
            raise InvalidParameter("give either --json or --csv, not both")

    def check_payer(self) -> None:
        """Raise `InvalidParameter` if the question has neither an account that pays nor a budget of its own.

        A budget is an epsilon or a wanted accuracy (--within). Without an account, also raises for options that only
        questions to an account have, such as --key.
        """
        if self.account is None:
            for name in ("discover", "key", "dataset"):
                if getattr(self, name) is not None:
                    raise InvalidParameter(f"--{name} is for questions that draw on an account: give --account too")
            if self.epsilon is None and self.within is None:
                raise InvalidParameter("say what may be spent: add --epsilon 1, or --account NAME of a ledger")


SHARED = {
    name: parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    for name, parameter in inspect.signature(CommonOptions).parameters.items()
}
"""The shared options by name, for the signatures of commands."""


NEEDED = inspect.Parameter.empty
"""The default of an option that must be given."""


@contextmanager
def needing(message: str) -> Iterator[None]:
    """Context manager that raises `MissingExtra` with this `message` if an import in its `with` block fails.

    An import error about a module of this package is not caught, because it is a defect.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is not None and missing.name.startswith("setwise"):
            raise
        raise MissingExtra(message) from None


def ledger_url(url: str | None) -> str:
    """Return the address of the ledger: `url`, or $SETWISE_LEDGER if it is None, or ./setwise.db if that is not set."""
    return url or os.environ.get("SETWISE_LEDGER") or "setwise.db"


def option(name: str, kind: Any, declared: Any, default: Any = None) -> inspect.Parameter:  # noqa: ANN401
    """Return a keyword parameter `name` for the signature of a command that is built at run time.

    - `kind` is the type of the option's value.
    - `declared` is the `typer.Option` that has the option's flags and help text.
    - `default` is its value if it is not given; `NEEDED` makes the option required.
    """
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, declared]
    )
