"""Asking a table from the command line: open it, ask, show progress and the answer.

`setwise top-k`, `histogram`, `count`, `sum`, `mean` and `quantile` are made here from the words of each query.
"""

import inspect
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

from setwise.analytics.query import SHAPES, Columns, Contributions, Domain, Number, Shares, parameters_of
from setwise.cli import options
from setwise.cli.options import Given
from setwise.errors import InvalidParameter, UnknownAccount
from setwise.mechanisms.labels import Cell

if TYPE_CHECKING:
    from setwise.analytics.budget import AskedBudget
    from setwise.analytics.schema import Kind
    from setwise.analytics.session import Session
    from setwise.ledger.account import Account

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlTables:
    """What the names of tables in a SELECT stand for: the one after FROM, and those that are joined to it."""

    name: str
    public: Mapping[str, str]
    private: Mapping[str, str]


def answer_question(kind: str, words: "dict[str, Any]", given: Given) -> None:
    """Ask one question of a table and show the answer, or with a preview what it would be."""
    from setwise.analytics.engines.connect import location_of
    from setwise.analytics.present.plot import check_picture
    from setwise.analytics.tables.domain import read_domain
    from setwise.cli import answer_output

    if given.plot is not None and not given.preview:
        check_picture(given.plot)
    given.check_payer()
    if words.get("domain") is not None:
        words["domain"] = read_domain(words["domain"], location_of(given.table, given.engine, given.table_name))
    query = SHAPES[kind](**words)
    with open_account(given) as account, open_session(given, account) as session:
        budget = _budget(session, given)
        if given.preview:
            plan = session.preview(query, budget)
            answer_output.show_preview(plan, session.shortage(query, budget, plan), as_json=given.as_json)
            return
        answer = interruptible(lambda: session.ask(query, budget, key=given.key), session.cancel)
        status = None if account is None else account.status()
    if given.plot is not None:
        answer.plot(given.plot)
    if given.as_json:
        print(answer.to_json())
    elif given.as_csv:
        print(answer.to_csv(), end="")
    else:
        answer_output.show_answer(answer, status)


def answer_sql(text: str, words: "dict[str, Any]", given: Given, tables: SqlTables) -> None:
    """Ask what a SELECT asks and show its rows, or with a preview what they would cost.

    `words` are contributions and domain; `tables` says what the names in the SELECT stand for.
    """
    from setwise.analytics.budget import BudgetWords
    from setwise.analytics.sql.result import SqlAnswer
    from setwise.cli import answer_output

    beside = {"public": tables.public, "private": tables.private}
    with open_account(given) as account, open_session(given, account, **beside) as session:
        spent = {name: getattr(given, name) for name in BudgetWords.__annotations__}
        asked, statement, budget = session.read_sql(text, {**words, **spent}, tables.name)  # type: ignore[typeddict-item]
        if given.preview or statement.explain:
            plan = asked.preview(statement.query, budget)
            shortage = asked.shortage(statement.query, budget, plan)
            answer_output.show_preview(plan, shortage, as_json=given.as_json)
            return
        answer = interruptible(lambda: asked.ask(statement.query, budget, key=given.key), session.cancel)
        status = None if account is None else account.status()
    result = SqlAnswer(answer=answer, outputs=statement.outputs)
    if given.as_json:
        print(result.to_json())
    elif given.as_csv:
        print(result.to_csv(), end="")
    else:
        answer_output.show_rows(result, status)


def _budget(session: "Session", given: Given) -> "AskedBudget":
    from setwise.analytics.budget import BudgetWords

    return session.budget({name: getattr(given, name) for name in BudgetWords.__annotations__})  # type: ignore[arg-type]


@contextmanager
def open_account(given: Given) -> "Iterator[Account | None]":
    """Open the ledger, and the account that pays; None without one."""
    if given.account is None:
        yield None
        return
    from setwise.ledger.ledger import Ledger

    url = given.ledger or os.environ.get("SETWISE_LEDGER") or "setwise.db"
    if "://" not in url and not Path(url).exists():
        raise UnknownAccount(f"there is no ledger at {url!r}; open an account with setwise ledger open")
    with Ledger.open(url) as ledger:
        yield ledger.account(given.account)


@contextmanager
def open_session(given: Given, account: "Account | None", **beside: Mapping[str, str]) -> "Iterator[Session]":
    """Open the table, and those that may be joined to it, with progress on a terminal."""
    from setwise.analytics.session import open as open_table
    from setwise.cli.output import progress

    opened: list[Session] = []

    @cache
    def total() -> int | None:
        return opened[0].rows()

    def rows_read(share: float) -> str:
        rows = total() if opened else None
        return "" if rows is None else f", about {int(share * rows):,} of {rows:,} rows"

    with (
        progress("reading", rows_read) as report,
        open_table(
            given.table,
            user=given.user,
            engine=given.engine,
            table=given.table_name,
            types=column_kinds(given.types or ()),
            **csv_words({name: getattr(given, name) for name in _CSV_WORDS}),
            account=account,
            dataset=given.dataset,
            memory=given.memory,
            progress=report,
            **beside,  # type: ignore[arg-type]
        ) as session,
    ):
        opened.append(session)
        yield session


_CSV_WORDS = ("separator", "header", "columns", "encoding", "skip_lines", "format")


def csv_words(given: dict[str, Any]) -> dict[str, Any]:
    """Return how a file is written, from the options of the command line to the words of Python."""
    if (given["header"] is False) != (given["columns"] is not None):
        raise InvalidParameter("--no-header and --columns A,B,... go together: a file without a header has no names")
    separator, columns = given["separator"], given["columns"]
    return given | {
        "separator": "\t" if separator in ("\\t", "tab") else separator,
        "columns": None if columns is None else tuple(columns.split(",")),
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


def interruptible(work: Callable[[], T], cancel: Callable[[], None]) -> T:
    """Return what `work` returns; on Ctrl-C cancel it, wait until it has stopped, and let the interrupt go on.

    A database driver does not see a signal while its query runs, so the work is done on a thread of its own.
    """
    done: list[T] = []
    failed: list[BaseException] = []
    # A bare lock: an interrupt may break the lock of an Event, and would take a thread that is joined for finished.
    running = threading.Lock()
    running.acquire()

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # raised again on the main thread
            failed.append(error)
        finally:
            running.release()

    thread = threading.Thread(target=run, name="setwise-question")
    thread.start()
    try:
        while not running.acquire(timeout=0.1):
            pass
    except KeyboardInterrupt:
        while not done and not failed:
            cancel()
            time.sleep(0.1)
        thread.join()
        raise
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def command(kind: str, summary: str) -> Callable[..., None]:
    """Return the command that asks for a shape of query: its options are the words of that shape."""
    words = parameters_of(SHAPES[kind])
    asked = [_parameter(word) for word in words.values()]
    shared = [
        parameter for name, parameter in options.SHARED.items() if name != "discover" or kind in ("top-k", "quantile")
    ]

    def ask(**given: Any) -> None:  # noqa: ANN401 - each of its own type, as declared
        answer_question(kind, {name: given.pop(name) for name in words}, options.Given(**given))

    ask.__name__, ask.__doc__ = kind, summary
    parameters = [options.SHARED["table"], options.SHARED["user"], *asked, *shared[2:]]
    required = [each for each in parameters if each.default is inspect.Parameter.empty]
    optional = [each for each in parameters if each.default is not inspect.Parameter.empty]
    ask.__signature__ = inspect.Signature([*required, *optional])  # type: ignore[attr-defined]
    return ask


_TAKEN = {Number: float, Shares: list[float], Columns: list[str], Domain: str, Cell: str, Contributions: str}
"""How the command line takes the words that Python takes in several forms."""


def _parameter(word: inspect.Parameter) -> inspect.Parameter:
    """Return a word of a query as an option of the command line."""
    needed = word.default is inspect.Parameter.empty
    kind = next((taken for given, taken in _TAKEN.items() if word.annotation in (given, given | None)), None)
    if kind is None:
        (kind,) = (each for each in get_args(word.annotation) or (word.annotation,) if each is not NoneType)
    return inspect.Parameter(
        word.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=[word.default] if kind == list[float] else word.default,
        annotation=Annotated[kind if needed else kind | None, options.OPTIONS[word.name]],
    )


top_k = command(
    "top-k",
    "Find the k items that the most users have, with noisy counts, above a noisy threshold if items are private.",
)
histogram = command(
    "histogram", "Count the users of every item; items that are private come out when enough users have them."
)
count = command("count", "Count users, or events with a cap on each user.")
sum_column = command("sum", "Add up a column, each user's own sum clipped to 0 .. --clip, or to --low .. --high.")
mean = command("mean", "Average a column over users, each user's own mean clipped to between --low and --high.")
quantile = command(
    "quantile", "Find the value that a share of users are below: the median, unless --at says otherwise."
)
