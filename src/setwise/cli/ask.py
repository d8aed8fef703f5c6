"""Commands that ask a question about a table: they open the table, ask, show progress and print the answer.

`setwise top-k`, `setwise histogram` and the commands of single statistics (`setwise mean`, ...) are generated here from
the parameters of their queries. `setwise sql` takes one SELECT, from the command line or from a file.
"""

import _thread
import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import typer

from setwise.analytics.query import SHAPES, STATISTICS, Columns, Contributions, Domain, Number, Shares, parameters_of
from setwise.cli import options, output
from setwise.cli.account_output import account_advice, another_account
from setwise.cli.advice.option_names import with_option_names
from setwise.cli.holder_notes import SeveralValues, noted_domain
from setwise.cli.options import CSV_OPTIONS, CommonOptions, column_kinds, csv_words
from setwise.cli.preview import show_preview
from setwise.cli.refusals import no_user, refused_by_type, table_path, with_example_bounds
from setwise.errors import BudgetExhausted, InvalidParameter, UnknownAccount, UnsuitableTable
from setwise.mechanisms.labels import Cell

if TYPE_CHECKING:
    from datetime import datetime

    from setwise.analytics.answer import PrivateAnswer
    from setwise.analytics.budget import AskedBudget, BudgetWords
    from setwise.analytics.catalog import Catalog, CatalogTable
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.engines.joins import Join
    from setwise.analytics.planning.plan import Plan
    from setwise.analytics.query import Query
    from setwise.analytics.schema import Kind
    from setwise.analytics.session import Session
    from setwise.analytics.sql.result import SqlAnswer
    from setwise.analytics.tables.scan_notes import NullSum
    from setwise.ledger.account import Account
    from setwise.ledger.status import AccountStatus

T = TypeVar("T")


def answer_question(kind: str, words: "dict[str, Any]", common: CommonOptions) -> None:
    """Ask one question of a table and print the answer; with `--preview`, print only the plan, which charges nothing.

    `kind` is the kind of query ("count", "top-k", ...), `words` are its parameters by name, and `common` are the
    options that all questions share.
    """
    from setwise.analytics.engines.connect import location_of
    from setwise.analytics.present.plot import check_picture
    from setwise.analytics.present.text import question_in_words
    from setwise.analytics.tables.domain import read_domain

    if common.plot is not None and not common.preview:
        check_picture(common.plot)
    common.check_payer()
    if words.get("domain") is not None:
        words["domain"] = read_domain(
            noted_domain(words["domain"]), location_of(common.table, common.engine, common.table_name)
        )
    with open_account(common) as account, open_session(common, account) as opened:
        columns = words["value"].split(",") if kind == "distinct" else []
        if len(columns) > 1 and words["value"] not in opened.schema.names:
            raise SeveralValues([name.strip() for name in columns], common.table)
        stated = dict(words)
        words, spent = opened.with_defaults(kind, words, _budget_words(common))
        query, budget = SHAPES[kind](**words), opened.budget(spent)
        try:
            session = opened.for_question(query, budget)
            if common.within is not None:
                session.plan(query, budget)
        except InvalidParameter as error:
            if error.needs_bounds:
                raise with_example_bounds(error, opened, kind, stated, query, _budget_words(common)) from None
            raise
        _note_types(opened, session.types)
        _note_unread_cells(common, " ".join(map(str, words.values())), session.types)
        if common.preview:
            _preview(session, query, budget, common)
            return
        answer = interruptible(lambda: session.ask(query, budget, key=common.key), opened.cancel)
        status = None if account is None else account.status()
    if common.plot is not None:
        table = location_of(common.table, common.engine, common.table_name).name
        title = f"{question_in_words(query.to_dict(), session.unit)}, {table}"
        answer.plot(common.plot, title=title, groups=query.groups)
    _show(answer, status, common)


def sql(**arguments: Any) -> None:  # noqa: ANN401 - each of its own type, as declared
    """Ask one SQL SELECT: private counts, sums, means and quantiles, and SQL over them; EXPLAIN is a free preview."""
    from setwise.analytics.askable import SqlWords
    from setwise.analytics.present.plot import check_picture
    from setwise.analytics.present.text import question_in_words
    from setwise.analytics.sql.from_clause.names import matching_name
    from setwise.analytics.sql.parser import TableFacts, parse_sql

    text, explain = _read_query(arguments.pop("query")), arguments.pop("explain")
    tables = _parse_named_tables(arguments.pop("tables") or (), "--table", arguments["engine"])
    public = _parse_named_tables(arguments.pop("public") or (), "--public", arguments["engine"])
    words: SqlWords = {
        "contributions": arguments.pop("contributions"),
        "domain": noted_domain(arguments.pop("domain")),
    }
    catalog, user = _read_catalog(arguments.pop("catalog"), text, arguments.pop("user"))
    facts = TableFacts(public=(*public, *(() if catalog is None else catalog.public)), private=tuple(tables))
    if user is None and "privacy_unit_column" not in text.lower():
        is_paid = any(arguments[name] is not None for name in ("epsilon", "within", "account"))
        raise no_user(text, tables, arguments["engine"], is_paid=is_paid or "epsilon" in text.lower())
    try:
        statement = parse_sql(text, user=user, contributions=words["contributions"], facts=facts)
    except InvalidParameter as refused:
        raise refused_by_type(
            refused, text, user, facts, tables, arguments["engine"], _declared_csv(arguments)
        ) from None
    joins, sums = [core.source.joins for core in statement.cores], statement.null_sums
    named = [join.table for each in joins for join in each]
    private = {name: tables[name] for name in named if name in tables}
    sources = {**({} if catalog is None else catalog.public), **public, **private}
    joined = {name: sources[name] for name in named if name in sources}
    declared = None if catalog is None else matching_name(statement.table, catalog.tables)
    if declared is not None and statement.table not in tables:
        source = declared
    else:
        source, catalog = table_path(statement.table, tables, arguments["engine"]), None
    common = CommonOptions(table=source, user=statement.user, preview=explain, **arguments)
    if common.plot is not None and not common.preview:
        check_picture(common.plot)
    budget = statement.paid_by({"epsilon": common.epsilon, "delta": common.delta, "within": common.within})
    replace(common, epsilon=budget["epsilon"], delta=budget.get("delta"), within=budget["within"]).check_payer()
    other_tables: dict[str, Any] = {"public": public, "private": private, "catalog": catalog}
    with open_account(common) as account, open_session(common, account, **other_tables) as session:
        question = session.ask_sql(text, {**words, **_budget_words(common)}, statement.table)
        entry = None if catalog is None else catalog.table(source)
        _note_types(session, question.types)
        _note_unread_cells(
            common, text, question.types, joined, entry, dict.fromkeys(private, statement.user), joins, sums
        )
        if common.preview or question.statement.explain:
            plan = question.plan()
            queries = [core.query for core in question.statement.cores]
            _show_preview(session, plan, queries, question.shortage(plan), None, common)
            return
        answer = interruptible(lambda: question.ask(common.key), session.cancel)
        status = None if account is None else account.status()
    if common.plot is not None:
        asked = [question_in_words(core.query.to_dict(), session.unit) for core in question.statement.cores]
        answer.plot(common.plot, title=f"{'; '.join(dict.fromkeys(asked))}, {statement.table}")
    _show(answer, status, common)


def _read_catalog(path: str | None, text: str, user: str | None) -> "tuple[Catalog | None, str | None]":
    """Return the catalog at `path` (a file that lists tables) and the user column for the SQL statement `text`.

    The user column is `user` if that is not None. Otherwise it is the user column of the first table in the statement
    that is in the catalog, or None if no table of the statement is. Returns (None, `user`) if `path` is None.
    """
    if path is None:
        return None, user
    from setwise.analytics.catalog import read_catalog
    from setwise.analytics.sql.from_clause.names import matching_name
    from setwise.analytics.sql.syntax import table_names

    catalog = read_catalog(path)
    # A BI tool writes "public"."films", and an analyst Films, for the table that the catalog calls films.
    declared = [matching_name(name, catalog.tables) for name in table_names(text)]
    named = [catalog.tables[name].user for name in declared if name is not None]
    return catalog, named[0] if user is None and named else user


def _note_types(session: "Session", types: "Mapping[str, Kind]") -> None:
    """Print a note to standard error: as which types a question reads CSV columns, such as "n as integer".

    `types` maps the columns to the types that the question needs. `session` has the types that the user declared with
    --type; their columns are left out of the note, because the user knows them. Nothing is printed if no other column
    is in `types`.
    """
    read = [f"{name} as {kind}" for name, kind in types.items() if name not in session.types]
    if read:
        print(f"note: the question reads {', '.join(read)}; --type COL=KIND reads otherwise", file=sys.stderr)


def _note_unread_cells(
    common: CommonOptions,
    question: str,
    types: "Mapping[str, Kind]",
    joined: Mapping[str, str] | None = None,
    entry: "CatalogTable | None" = None,
    users: Mapping[str, str] | None = None,
    joins: "Sequence[Sequence[Join]]" = (),
    null_sums: "Sequence[NullSum]" = (),
) -> None:
    """Print to standard error how many cells that the question needs cannot be parsed, and which options would help.

    - `common`: the options that all questions share; `common.table` is the first table of the question
    - `question`: the question's text; only the user column and columns whose names occur in the text are checked
    - `types`: the types that the question needs, by column name, such as integer; cells are counted by these types
    - `joined`: the paths of the tables that the question joins, by table name
    - `entry`: the catalog's entry for the first table, whose source and CSV options are then used in place of the
      options in `common`
    - `users`: the user columns of joined private tables, by table name
    - `joins`: the joins of each SELECT, whose keys are compared
    - `null_sums`: sums of columns that are null in rows where one of the columns is empty

    Nothing is printed with --no-scan, or if the engine is not DuckDB. Raises: `UnsuitableTable`, except for a preview,
    if so much would be skipped or misread that the answer would be of no use (see `note_unread_cells`).
    """
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.tables.scan_notes import TableToScan
    from setwise.cli.holder_notes import joined_tables, note_unread_cells

    words = csv_words({name: getattr(common, name) for name in CSV_OPTIONS})
    source, engine = common.table, common.engine
    if entry is not None:
        source = entry.source
        words |= {name: value for name, value in entry.options.items() if name in CSV_OPTIONS}
        engine = entry.options.get("engine", engine)
    if not common.scan or engine != "duckdb":
        return
    if words["columns"] is not None:
        words["columns"] = tuple(words["columns"])
    declared = {*column_kinds(common.types or ()), *(() if entry is None else entry.options.get("types", ()))}
    first = TableToScan(
        source=source,
        csv=CsvOptions(**words),
        types=types,
        inferred=types.keys() - declared,
        table_name=common.table_name,
        user=common.user,
    )
    tables = joined_tables(joined or {}, types, users or {})
    note_unread_cells(first, tables, question, free=common.preview, joins=joins, null_sums=null_sums)


def _budget_words(common: CommonOptions) -> "BudgetWords":
    """Return the options in `common` that state the budget (such as epsilon and delta), by name.

    The result is passed to `Session.budget` as keyword arguments.
    """
    from setwise.analytics.budget import BudgetWords

    return {name: getattr(common, name) for name in BudgetWords.__annotations__}  # type: ignore[return-value]


def _preview(session: "Session", query: "Query", budget: "AskedBudget", common: CommonOptions) -> None:
    plan = session.preview(query, budget)
    shortage, warning = session.shortage(query, budget, plan), session.warning(plan)
    _show_preview(session, plan, [query], shortage, warning, common)


def _show_preview(
    session: "Session",
    plan: "Plan",
    queries: "Sequence[Query]",
    shortage: str | None,
    warning: str | None,
    common: CommonOptions,
) -> None:
    show_preview(plan, queries, shortage, warning, unit=session.unit, as_json=common.as_json, details=common.details)


def _show(answer: "PrivateAnswer | SqlAnswer", status: "AccountStatus | None", common: CommonOptions) -> None:
    from setwise.analytics.answer import PrivateAnswer

    private = answer if isinstance(answer, PrivateAnswer) else answer.answer
    stored = _stored_at(common) if private.replayed else None
    if common.as_json:
        print(answer.to_json())
    elif common.as_csv:
        print(answer.to_csv(), end="")
    else:
        output.show_answer(answer, status, common.epsilon, stored, details=common.details)
        return
    if private.replayed:
        print(f"note: {output.stored_in_words(stored)}", file=sys.stderr)


def _stored_at(common: CommonOptions) -> "datetime | None":
    """Return the time (UTC) at which the account in --account stored the answer under --key; None if it has not.

    `common` has the command's options. None also if one of the two options is not given.
    """
    from setwise.ledger.ledger import Ledger

    if common.account is None or common.key is None:
        return None
    with Ledger.open(options.ledger_url(common.ledger)) as ledger:
        moments = [
            entry.moment
            for entry in ledger.history(common.account)
            if entry.contents.kind == "settle" and entry.contents.key == common.key
        ]
    return moments[0] if moments else None


@contextmanager
def open_account(common: CommonOptions) -> "Iterator[Account | None]":
    """Context manager that opens the ledger and yields the account that pays, or None if --account is not given.

    The options `common` name the ledger and the account.
    Raises: `UnknownAccount` if the ledger does not exist, or has no account of that name. If the account may not pay
    for the table, but an account of the table's dataset may, the error of the `with` block also says what to paste.
    An error because the account is nearly empty says how to open another one.
    """
    if common.account is None:
        yield None
        return
    from setwise.ledger.ledger import Ledger, opening_command

    url = options.ledger_url(common.ledger)
    if "://" not in url and not Path(url).exists():
        command = opening_command(common.account, url)
        raise UnknownAccount(f"there is no ledger at {url!r}; this opens one, with the account: {command}")
    with Ledger.open(url) as ledger:
        account = ledger.account(common.account)
        try:
            yield account
        except BudgetExhausted as error:
            another = another_account(ledger, account.status(), common.ledger or "")
            if another is None:
                raise
            name, command = another
            message = f"{error}; answers stored under their keys stay free, and this opens another account: {command}"
            raise BudgetExhausted(message).proposing({"account": name}) from None
        except InvalidParameter as error:
            if not error.needed_dataset:
                raise
            advice = account_advice(ledger, error.needed_dataset, common.ledger or "")
            raise InvalidParameter(f"{error}; {advice}") from None


@contextmanager
def open_session(common: CommonOptions, account: "Account | None", **other_tables: Any) -> "Iterator[Session]":  # noqa: ANN401
    """Context manager that opens the command's table and yields a `Session`, through which questions are asked.

    - `common`: the options that all questions share, such as where the table is
    - `account`: what questions are charged to; with None, each question states its own budget
    - `other_tables`: further keyword arguments of `setwise.open`, such as the tables that may be joined

    If an error in the `with` block is about how the table's file is read, its message also gets a complete command that
    reads the file correctly, if one is known.
    """
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.opening import open as open_table
    from setwise.cli.holder_notes import add_reading_advice

    opened: list[Session] = []

    @cache
    def total() -> int | None:
        return opened[0].rows()

    def rows_read(share: float) -> str:
        rows = total() if opened else None
        return "" if rows is None else f", about {int(share * rows):,} of {rows:,} rows"

    csv = CsvOptions(**csv_words({name: getattr(common, name) for name in CSV_OPTIONS}))
    types = column_kinds(common.types or ())
    with (
        add_reading_advice(common.table, csv, types, common.user),
        output.progress("reading", rows_read) as report,
        open_table(
            common.table,
            user=common.user,
            engine=common.engine,
            table=common.table_name,
            types=types,
            unit=common.unit,
            csv=csv,
            account=account,
            dataset=common.dataset,
            memory=common.memory,
            progress=report,
            scan=False,
            **other_tables,
        ) as session,
    ):
        opened.append(session)
        _check_user_column(session, common)
        yield session


def _check_user_column(session: "Session", common: CommonOptions) -> None:
    """Raise `UnsuitableTable` if the table of `session` is a Parquet file whose user column holds floats.

    Floats cannot tell users apart reliably. The message contains a command that writes a copy of the file with whole
    numbers in that column. `common` has the path of the file and the name of the user column.
    """
    from setwise.analytics.schema import Kind

    if not common.table.endswith(".parquet") or common.user not in session.schema.names:
        return
    if session.schema.column(common.user).kind is Kind.FLOAT:
        name, new = common.user, f"{common.table.removesuffix('.parquet')}-converted.parquet"
        raise UnsuitableTable(
            f"column {name!r} cannot tell users apart, because it holds floating-point numbers: convert it, as in "
            f"python -c \"import duckdb; duckdb.read_parquet('{common.table}')"
            f".project('* REPLACE (CAST({name} AS BIGINT) AS {name})').write_parquet('{new}')\""
        )


_START_SECONDS = 5.0
"""How many seconds a new thread may take to start running on a busy machine."""


def interruptible(work: Callable[[], T], cancel: Callable[[], None]) -> T:
    """Run `work` and return its result; on Ctrl-C call `cancel`, wait until the work has stopped, and re-raise.

    A database driver does not see a signal while its query runs, so the work runs on a thread of its own.
    """
    done: list[T] = []
    failed: list[BaseException] = []
    begun: list[bool] = []
    # A plain lock and a plain thread, because an interrupt inside `threading.Event` can corrupt the lock of the Event,
    # and the interrupt would be lost in an error about that lock. `Thread.start` and `Thread.join` wait for an Event
    # too, and on a busy machine they wait long enough for this to happen.
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
                raise  # the interrupt arrived before the thread was started
            cancel()
            time.sleep(0.1)
        raise
    if failed:
        raise failed[0]
    return done[0]


def command(kind: str, summary: str) -> Callable[..., None]:
    """Return the function of the command-line command that asks queries of the kind `kind`, such as "top-k".

    Its options are the parameters of that kind of query and the options that all questions share. `summary` becomes the
    help text of the command.
    """
    words = parameters_of(SHAPES[kind])
    query_options = [_parameter(word) for word in words.values()]
    picks = kind == "top-k" or (kind in STATISTICS and STATISTICS[kind].by_picks)
    shared = [parameter for name, parameter in options.SHARED.items() if name != "discover" or picks]

    def ask(**arguments: Any) -> None:  # noqa: ANN401 - each of its own type, as declared
        answer_question(kind, {name: arguments.pop(name) for name in words}, options.CommonOptions(**arguments))

    ask.__name__, ask.__doc__ = kind, summary
    parameters = [options.SHARED["table"], options.SHARED["user"], *query_options, *shared[2:]]
    required = [each for each in parameters if each.default is options.NEEDED]
    optional = [each for each in parameters if each.default is not options.NEEDED]
    ask.__signature__ = inspect.Signature([*required, *optional])  # type: ignore[attr-defined]
    return ask


_TAKEN = {Number: float, Shares: list[float], Columns: list[str], Domain: str, Cell: str, Contributions: str}
"""The command-line types of parameters that accept several types in Python."""


def _parameter(word: inspect.Parameter) -> inspect.Parameter:
    """Return the command-line option for `word`, one parameter of a kind of query, such as `k` of a top k.

    The option has the parameter's default and type. A type that the command line does not have, such as "integer or
    fraction", is replaced by a similar one.
    """
    needed = word.default is options.NEEDED
    kind = next((taken for python, taken in _TAKEN.items() if word.annotation in (python, python | None)), None)
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
STATISTIC_COMMANDS = {
    kind: command(kind, with_option_names(statistic.summary)) for kind, statistic in STATISTICS.items()
}
"""The commands that ask for one statistic, by the kind of the statistic."""


def __getattr__(name: str) -> Callable[..., None]:
    """Return the command function of a statistic, so that `ask.mean` and others need no definition of their own.

    Raises: `AttributeError` if `name` is not the kind of a statistic.
    """
    if name not in STATISTIC_COMMANDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return STATISTIC_COMMANDS[name]


_GIVEN = (
    "unit", "epsilon", "delta", "within", "counts", "mechanism", "engine", "types", "memory", "account", "dataset",
    "ledger", "key", "discover", "as_json", "as_csv", "plot", "details", *CSV_OPTIONS, "scan",
)  # fmt: skip
"""The options that `setwise sql` shares with the other questions."""


def _declared_csv(arguments: Mapping[str, Any]) -> "CsvOptions":
    """Return the CSV options that the `arguments` of a command declare."""
    from setwise.analytics.engines.files import CsvOptions

    return CsvOptions(**csv_words({name: arguments[name] for name in CSV_OPTIONS}))


def _read_query(query: str) -> str:
    if not query.startswith("@"):
        return query
    try:
        return Path(query[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"the query cannot be read from {query[1:]!r}: {error}") from None


def _parse_named_tables(values: Sequence[str], option: str, engine: str) -> dict[str, str]:
    """Return a dict from table names to paths, read from `values`: the values of an option that may be repeated.

    `option` is "--table" or "--public", and a value has the form NAME=PATH. With --public, NAME= may be left out: a
    table in the database of `engine` then keeps the name that it has there, and a table in a file is called by the
    file's name without the ending. Raises: `InvalidParameter` if a value is not of this form or a name is given twice.
    """
    from setwise.analytics.engines.connect import location_of

    tables = {}
    for value in values:
        name, equals, path = value.partition("=")
        if option == "--public" and not (equals and name.isidentifier()):
            name, path = location_of(value, engine).name, value
        elif not (name and equals and path):
            raise InvalidParameter(f"{option} is written NAME=PATH, not {value!r}")
        if name in tables:
            raise InvalidParameter(f"{option} names {name!r} twice: give it once")
        tables[name] = path
    return tables


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
