"""Asking a table from the command line: open it, ask, show progress and the answer."""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from setwise.errors import InvalidParameter, UnknownAccount

if TYPE_CHECKING:
    from setwise.analytics.query import Query
    from setwise.analytics.schema import Kind
    from setwise.analytics.session import Session
    from setwise.ledger.account import Account

T = TypeVar("T")

_PATIENCE = 2.0
"""Seconds before progress is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Which table, whose rows, and who pays: the options all questions share."""

    source: str
    user: str
    engine: str
    table: str | None
    types: Sequence[str]
    memory: str | None
    account: str | None
    dataset: str | None
    ledger: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """How the answer is to be shown."""

    as_json: bool
    as_csv: bool
    as_preview: bool
    plot: str | None

    def __post_init__(self) -> None:
        if self.as_json and self.as_csv:
            raise InvalidParameter("give either --json or --csv, not both")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paying:
    """What may be spent, as it was written."""

    epsilon: float | None
    delta: float | None
    counts: str | None
    mechanism: str | None
    discover: str | None
    key: str | None


def answer_question(opening: Opening, paying: Paying, showing: Showing, query: "Query") -> None:
    """Ask one question of a table and show the answer, or with a preview what it would be."""
    from setwise.analytics.present.plot import check_picture
    from setwise.cli import answer_output

    if showing.plot is not None and not showing.as_preview:
        check_picture(showing.plot)
    _check_paying(opening, paying)
    with _account(opening) as account, open_session(opening, account) as session:
        spending = session.spending(paying.epsilon, paying.delta, paying.counts, paying.mechanism, paying.discover)
        if showing.as_preview:
            planned = session.preview(query, spending)
            answer_output.show_preview(planned, session.shortage(query, spending), as_json=showing.as_json)
            return
        answer = interruptible(lambda: session.ask(query, spending, key=paying.key), session.cancel)
        standing = None if account is None else account.status()
    if showing.plot is not None:
        answer.plot(showing.plot)
    if showing.as_json:
        print(answer.to_json())
    elif showing.as_csv:
        print(answer.to_csv(), end="")
    else:
        answer_output.show_answer(answer, standing)


def _check_paying(opening: Opening, paying: Paying) -> None:
    if opening.account is None:
        for name, value in (("discover", paying.discover), ("key", paying.key), ("dataset", opening.dataset)):
            if value is not None:
                raise InvalidParameter(f"--{name} is for questions that draw on an account: give --account too")
        if paying.epsilon is None:
            raise InvalidParameter("say what may be spent: give --epsilon and --delta, or --account")


@contextmanager
def _account(opening: Opening) -> "Iterator[Account | None]":
    if opening.account is None:
        yield None
        return
    from setwise.ledger.ledger import Ledger

    url = opening.ledger or os.environ.get("SETWISE_LEDGER") or "setwise.db"
    if "://" not in url and not Path(url).exists():
        raise UnknownAccount(f"there is no ledger at {url!r}; open an account with setwise ledger open")
    with Ledger.open(url) as ledger:
        yield ledger.account(opening.account)


@contextmanager
def open_session(opening: Opening, account: "Account | None") -> "Iterator[Session]":
    """Open the table, with progress on a terminal."""
    from setwise.analytics.session import open as open_table

    with (
        _rows_read() as (report, tell_rows),
        open_table(
            opening.source,
            user=opening.user,
            engine=opening.engine,
            table=opening.table,
            types=_kinds(opening.types),
            account=account,
            dataset=opening.dataset,
            memory=opening.memory,
            progress=report,
        ) as session,
    ):
        tell_rows(session.rows)
        yield session


def _kinds(types: Sequence[str]) -> "dict[str, Kind]":
    from setwise.analytics.schema import Kind

    kinds = {}
    for given in types:
        name, equals, kind = given.rpartition("=")
        if not equals or kind not in set(Kind):
            raise InvalidParameter(f"--type is written COL=KIND with a kind of {', '.join(Kind)}, not {given!r}")
        kinds[name] = Kind(kind)
    return kinds


@contextmanager
def _rows_read() -> Iterator[tuple[Callable[[float], None], Callable[[Callable[[], int | None]], None]]]:
    """Yield a function that shows progress on a terminal, and one that tells it how to find the number of rows."""
    import time

    started = time.monotonic()
    width = 0
    rows: list[int | None] = []
    source: list[Callable[[], int | None]] = []

    def report(share: float) -> None:
        nonlocal width
        if not sys.stderr.isatty() or time.monotonic() - started < _PATIENCE or not source:
            return
        if not rows:
            rows.append(source[0]())
        total = rows[0]
        read = "" if total is None else f", about {int(share * total):,} of {total:,} rows"
        line = f"reading: {share:4.0%}{read}"
        width = max(width, len(line))
        print(f"\r{line:<{width}}", end="", file=sys.stderr, flush=True)

    try:
        yield report, source.append
    finally:
        if width:
            print("\r" + " " * width + "\r", end="", file=sys.stderr, flush=True)


def interruptible(work: Callable[[], T], cancel: Callable[[], None]) -> T:
    """Return what `work` returns; on Ctrl-C cancel it, wait until it has stopped, and let the interrupt go on.

    A database driver does not see a signal while its query runs, so the work is done on a thread of its own.
    """
    done: list[T] = []
    failed: list[BaseException] = []
    finished = threading.Event()  # an interrupted join would take the thread for finished

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # raised again on the main thread
            failed.append(error)
        finally:
            finished.set()

    thread = threading.Thread(target=run, name="setwise-question")
    thread.start()
    try:
        while not finished.wait(0.1):
            pass
    except KeyboardInterrupt:
        while not finished.is_set():
            cancel()
            finished.wait(0.1)
        thread.join()
        raise
    thread.join()
    if failed:
        raise failed[0]
    return done[0]
