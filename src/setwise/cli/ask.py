"""Asking a table from the command line: open it, ask, show progress and the answer.

`setwise top-k`, `histogram` and the commands of statistics are made here from the words of each query; `setwise
sql` takes one SELECT, from the command line or a file.
"""

import _thread
import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import typer

from setwise.analytics.query import SHAPES, STATISTICS, Columns, Contributions, Domain, Number, Shares, parameters_of
from setwise.cli import options, output
from setwise.cli.options import Given
from setwise.errors import InvalidParameter, UnknownAccount
from setwise.mechanisms.labels import Cell

if TYPE_CHECKING:
    from setwise.analytics.answer import PrivateAnswer
    from setwise.analytics.budget import AskedBudget, BudgetWords
    from setwise.analytics.catalog import Catalog, CatalogTable
    from setwise.analytics.query import Query
    from setwise.analytics.schema import Kind
    from setwise.analytics.session import Session
    from setwise.analytics.sql.result import SqlAnswer
    from setwise.ledger.account import Account
    from setwise.ledger.status import AccountStatus

T = TypeVar("T")


def answer_question(kind: str, words: "dict[str, Any]", given: Given) -> None:
    """Ask one question of a table and show the answer, or with a preview what it would be."""
    from setwise.analytics.engines.connect import location_of
    from setwise.analytics.present.plot import check_picture
    from setwise.analytics.tables.domain import read_domain

    if given.plot is not None and not given.preview:
        check_picture(given.plot)
    given.check_payer()
    if words.get("domain") is not None:
        words["domain"] = read_domain(words["domain"], location_of(given.table, given.engine, given.table_name))
    query = SHAPES[kind](**words)
    with open_account(given) as account, open_session(given, account) as session:
        _warn_of_unread_cells(given, [given.table], f"{given.user} {' '.join(map(str, words.values()))}")
        if given.preview:
            _preview(session, query, session.budget(_spent(given)), given)
            return
        answer = interruptible(lambda: session.ask(query, session.budget(_spent(given)), key=given.key), session.cancel)
        status = None if account is None else account.status()
    if given.plot is not None:
        answer.plot(given.plot)
    _show(answer, status, given)


def sql(**given: Any) -> None:  # noqa: ANN401 - each of its own type, as declared
    """Ask in SQL: counts, sums, means and quantiles by columns, and SQL over the result; EXPLAIN is a free preview."""
    from setwise.analytics.askable import SqlWords
    from setwise.analytics.sql.parser import TableFacts, parse_sql

    text, explain = _text(given.pop("query")), given.pop("explain")
    tables = _named(given.pop("tables") or (), "--table", given["engine"])
    public = _named(given.pop("public") or (), "--public", given["engine"])
    words: SqlWords = {"contributions": given.pop("contributions"), "domain": given.pop("domain")}
    catalog, user = _cataloged(given.pop("catalog"), text, given.pop("user"))
    facts = TableFacts(public=(*public, *(() if catalog is None else catalog.public)))
    statement = parse_sql(text, user=user, contributions=words["contributions"], facts=facts)
    joins = [join for core in statement.cores for join in core.source.joins]
    private = {join.table: tables[join.table] for join in joins if join.table in tables}
    if catalog is not None and statement.table in catalog.tables and statement.table not in tables:
        source = statement.table
    else:
        source, catalog = _source(statement.table, tables, given["engine"]), None
    asked = Given(table=source, user=statement.user, preview=explain, **given)
    paid = statement.paid_by({"epsilon": asked.epsilon, "delta": asked.delta, "within": asked.within})
    replace(asked, epsilon=paid["epsilon"], delta=paid.get("delta"), within=paid["within"]).check_payer()
    beside: dict[str, Any] = {"public": public, "private": private, "catalog": catalog}
    with open_account(asked) as account, open_session(asked, account, **beside) as session:
        question = session.ask_sql(text, {**words, **_spent(asked)}, statement.table)
        entry = None if catalog is None else catalog.table(source)
        _warn_of_unread_cells(asked, [asked.table, *private.values()], f"{statement.user} {text}", entry)
        if asked.preview or question.statement.explain:
            plan = question.plan()
            output.show_preview(plan, question.shortage(plan), as_json=asked.as_json)
            return
        answer = interruptible(lambda: question.ask(asked.key), session.cancel)
        status = None if account is None else account.status()
    _show(answer, status, asked)


def _cataloged(path: str | None, text: str, user: str | None) -> "tuple[Catalog | None, str | None]":
    """Return the catalog, and the user column that it names for the table of a statement."""
    if path is None:
        return None, user
    from setwise.analytics.catalog import read_catalog
    from setwise.analytics.sql.syntax import table_names

    catalog = read_catalog(path)
    named = [catalog.tables[name].user for name in table_names(text) if name in catalog.tables]
    return catalog, named[0] if user is None and named else user


def _warn_of_unread_cells(
    given: Given, tables: Sequence[str], question: str, entry: "CatalogTable | None" = None
) -> None:
    """Print on standard error how many cells of the columns in a question will not be read, and what reads them.

    Whoever runs the command holds the file, and may be told. Nothing of it is in the answer. The options are about the
    first table; `entry` is what a catalog says of that table.
    """
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.tables.scan import unread_cells

    words = csv_words({name: getattr(given, name) for name in CSV_OPTIONS})
    types, engine = column_kinds(given.types or ()), given.engine
    if entry is not None:
        tables = [entry.source, *tables[1:]]
        words |= {name: value for name, value in entry.options.items() if name in CSV_OPTIONS}
        types, engine = {**entry.options.get("types", {}), **types}, entry.options.get("engine", engine)
    if not given.scan or engine != "duckdb":
        return
    if words["columns"] is not None:
        words["columns"] = tuple(words["columns"])
    for place, table in enumerate(tables):
        how = CsvOptions(**words) if place == 0 else CsvOptions()
        for sentence in unread_cells(table, given.table_name, how, types, question):
            print(f"note: {Path(table).name}: {sentence}", file=sys.stderr)


def _spent(given: Given) -> "BudgetWords":
    """Return the options that say what may be spent."""
    from setwise.analytics.budget import BudgetWords

    return {name: getattr(given, name) for name in BudgetWords.__annotations__}  # type: ignore[return-value]


def _preview(session: "Session", query: "Query", budget: "AskedBudget", given: Given) -> None:
    plan = session.preview(query, budget)
    output.show_preview(plan, session.shortage(query, budget, plan), session.warning(plan), as_json=given.as_json)


def _show(answer: "PrivateAnswer | SqlAnswer", status: "AccountStatus | None", given: Given) -> None:
    if given.as_json:
        print(answer.to_json())
    elif given.as_csv:
        print(answer.to_csv(), end="")
    else:
        output.show_answer(answer, status, details=given.details)


@contextmanager
def open_account(given: Given) -> "Iterator[Account | None]":
    """Open the ledger, and the account that pays; None without one."""
    if given.account is None:
        yield None
        return
    from setwise.ledger.ledger import Ledger

    url = options.ledger_url(given.ledger)
    if "://" not in url and not Path(url).exists():
        raise UnknownAccount(f"there is no ledger at {url!r}; open an account with setwise ledger open")
    with Ledger.open(url) as ledger:
        yield ledger.account(given.account)


@contextmanager
def open_session(given: Given, account: "Account | None", **beside: Any) -> "Iterator[Session]":  # noqa: ANN401
    """Open the table, and those that may be joined to it, with progress on a terminal."""
    from setwise.analytics.session import open as open_table

    opened: list[Session] = []

    @cache
    def total() -> int | None:
        return opened[0].rows()

    def rows_read(share: float) -> str:
        rows = total() if opened else None
        return "" if rows is None else f", about {int(share * rows):,} of {rows:,} rows"

    with (
        output.progress("reading", rows_read) as report,
        open_table(
            given.table,
            user=given.user,
            engine=given.engine,
            table=given.table_name,
            types=column_kinds(given.types or ()),
            unit=given.unit,
            **csv_words({name: getattr(given, name) for name in CSV_OPTIONS}),
            account=account,
            dataset=given.dataset,
            memory=given.memory,
            progress=report,
            **beside,
        ) as session,
    ):
        opened.append(session)
        yield session


CSV_OPTIONS = (
    *("separator", "header", "columns", "encoding", "skip_lines", "format"),
    *("decimal", "thousands", "date_format", "null"),
)


def csv_words(given: dict[str, Any]) -> dict[str, Any]:
    """Return how a file is written, from the options of the command line to the words of Python."""
    if (given["header"] is False) != (given["columns"] is not None):
        raise InvalidParameter("--no-header and --columns A,B,... go together: a file without a header has no names")
    separator, columns = given["separator"], given["columns"]
    return given | {
        "separator": "\t" if separator in ("\\t", "tab") else separator,
        "columns": None if columns is None else tuple(columns.split(",")),
        "thousands": " " if given["thousands"] == "space" else given["thousands"],
        "null": tuple(given["null"] or ()),
    }


def column_kinds(types: Sequence[str]) -> "dict[str, Kind]":
    """Return the kinds of columns that are written COL=KIND."""
    from setwise.analytics.schema import Kind

    kinds = {}
    for given in types:
        name, equals, kind = given.rpartition("=")
        if not equals or kind not in set(Kind):
            raise InvalidParameter(f"--type is written COL=KIND with a kind of {', '.join(Kind)}, not {given!r}")
        kinds[name] = Kind(kind)
    return kinds


_START_SECONDS = 5.0
"""How long a thread that was asked for may take to run, on a busy machine."""


def interruptible(work: Callable[[], T], cancel: Callable[[], None]) -> T:
    """Return what `work` returns; on Ctrl-C cancel it, wait until it has stopped, and let the interrupt go on.

    A database driver does not see a signal while its query runs, so the work is done on a thread of its own.
    """
    done: list[T] = []
    failed: list[BaseException] = []
    begun: list[bool] = []
    # A bare lock and a bare thread. An interrupt may break the lock of an Event, and would be lost in an error about
    # it. `Thread.start` and `Thread.join` wait for an Event, and on a busy machine they wait long enough to be hit.
    running = threading.Lock()
    running.acquire()

    def run() -> None:
        begun.append(True)
        try:
            done.append(work())
        except BaseException as error:  # raised again on the main thread
            failed.append(error)
        finally:
            running.release()

    try:
        _thread.start_new_thread(run, ())
        while not running.acquire(timeout=0.1):
            pass
    except KeyboardInterrupt:
        interrupted_at = time.monotonic()
        while not done and not failed:
            if not begun and time.monotonic() - interrupted_at > _START_SECONDS:
                raise  # the interrupt came before there was a thread
            cancel()
            time.sleep(0.1)
        raise
    if failed:
        raise failed[0]
    return done[0]


def command(kind: str, summary: str) -> Callable[..., None]:
    """Return the command that asks for a shape of query: its options are the words of that shape."""
    words = parameters_of(SHAPES[kind])
    asked = [_parameter(word) for word in words.values()]
    picks = kind == "top-k" or (kind in STATISTICS and STATISTICS[kind].by_picks)
    shared = [parameter for name, parameter in options.SHARED.items() if name != "discover" or picks]

    def ask(**given: Any) -> None:  # noqa: ANN401 - each of its own type, as declared
        answer_question(kind, {name: given.pop(name) for name in words}, options.Given(**given))

    ask.__name__, ask.__doc__ = kind, summary
    parameters = [options.SHARED["table"], options.SHARED["user"], *asked, *shared[2:]]
    required = [each for each in parameters if each.default is options.NEEDED]
    optional = [each for each in parameters if each.default is not options.NEEDED]
    ask.__signature__ = inspect.Signature([*required, *optional])  # type: ignore[attr-defined]
    return ask


_TAKEN = {Number: float, Shares: list[float], Columns: list[str], Domain: str, Cell: str, Contributions: str}
"""How the command line takes the words that Python takes in several forms."""


def _parameter(word: inspect.Parameter) -> inspect.Parameter:
    """Return a word of a query as an option of the command line."""
    needed = word.default is options.NEEDED
    kind = next((taken for given, taken in _TAKEN.items() if word.annotation in (given, given | None)), None)
    if kind is None:
        (kind,) = (each for each in get_args(word.annotation) or (word.annotation,) if each is not NoneType)
    default = [word.default] if kind == list[float] else word.default
    return options.option(word.name, kind if needed else kind | None, options.OPTIONS[word.name], default)


top_k = command(
    "top-k",
    "Find the k items that the most users have, with noisy counts, above a noisy threshold if items are private.",
)
histogram = command(
    "histogram", "Count the users of every item; items that are private come out when enough users have them."
)
STATISTIC_COMMANDS = {kind: command(kind, statistic.summary) for kind, statistic in STATISTICS.items()}
"""The commands that ask for one statistic, from the table of statistics."""


def __getattr__(name: str) -> Callable[..., None]:
    """Return the command of a statistic by its kind."""
    if name not in STATISTIC_COMMANDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return STATISTIC_COMMANDS[name]


_GIVEN = (
    "unit", "epsilon", "delta", "within", "counts", "mechanism", "engine", "types", "memory", "account", "dataset",
    "ledger", "key", "discover", "as_json", "as_csv", "details", *CSV_OPTIONS, "scan",
)  # fmt: skip
"""The options that questions in SQL share with the others."""


def _text(query: str) -> str:
    if not query.startswith("@"):
        return query
    try:
        return Path(query[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"the query cannot be read from {query[1:]!r}: {error}") from None


def _named(given: Sequence[str], option: str, engine: str) -> dict[str, str]:
    """Return paths by the names they are given; a public table without one goes by its own, or that of its file."""
    from setwise.analytics.engines.connect import location_of

    tables = {}
    for each in given:
        name, equals, path = each.partition("=")
        if option == "--public" and not (equals and name.isidentifier()):
            name, path = location_of(each, engine).name, each
        elif not (name and equals and path):
            raise InvalidParameter(f"{option} is written NAME=PATH, not {each!r}")
        if name in tables:
            raise InvalidParameter(f"{option} names {name!r} twice: give it once")
        tables[name] = path
    return tables


def _source(name: str, tables: dict[str, str], engine: str) -> str:
    """Return the path that a table stands for; without one it is a path itself, or a table of the engine."""
    if name in tables:
        return tables[name]
    if engine == "duckdb" and name.isidentifier() and not Path(name).exists():
        raise InvalidParameter(f"no table is called {name!r}: give --table {name}=PATH, or a `path` after FROM")
    return name


sql.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        options.option(
            "query",
            str,
            typer.Argument(metavar="QUERY|@FILE", help="A SELECT, or @ and the file it is in."),
            options.NEEDED,
        ),
        options.option(
            "tables",
            list[str] | None,
            typer.Option(
                "--table",
                metavar="NAME=PATH",
                help="What a name after FROM or JOIN stands for; FROM also takes a `path`.",
            ),
        ),
        options.option(
            "public",
            list[str] | None,
            typer.Option(
                "--public",
                metavar="[NAME=]PATH",
                help="A table without users that JOIN may name, read by the same engine; without NAME by the name of "
                "its file or its own.",
            ),
        ),
        options.option(
            "catalog",
            str | None,
            typer.Option(
                metavar="FILE",
                help="A TOML file that declares tables: where they are, their user columns, bounds and public groups.",
            ),
        ),
        options.option(
            "user",
            str | None,
            typer.Option(metavar="COL", help="The column that tells users apart, unless OPTIONS or a catalog does."),
        ),
        options.option("contributions", int | None, options.OPTIONS["contributions"]),
        options.option("domain", str | None, options.OPTIONS["domain"]),
        options.option(
            "explain", bool, typer.Option("--explain", help="Preview, as EXPLAIN before SELECT does; free."), False
        ),
        *(options.SHARED[name] for name in _GIVEN),
    ]
)
