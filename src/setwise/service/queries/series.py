"""Live series of the service: who may open, update, see and close a series, and which columns a series may use.

A live series is a set of noisy user counts that is charged once and released period by period.
"""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from setwise.accounting.promises import USER
from setwise.analytics.bins import group_of
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.schema import Schema
from setwise.errors import (
    EngineFailed,
    InvalidParameter,
    SetwiseError,
    TooManyRequests,
    UnknownAccount,
    UnknownName,
)
from setwise.ledger.ledger import Ledger
from setwise.live.series import LiveSeries, find_live, list_live, open_live
from setwise.live.states.connect import is_file
from setwise.live.terms import Unit
from setwise.live.view import SeriesView
from setwise.mechanisms.randomness import Randomness
from setwise.service.auth.people import Identity
from setwise.service.auth.permissions import Accounts
from setwise.service.problems import at_field
from setwise.service.queries.allowed_columns import column_not_allowed
from setwise.service.queries.engine_pool import Engines
from setwise.service.queries.runner import QueryTiming
from setwise.service.settings import EngineKind, Settings
from setwise.service.slots import FairSlots, Threads
from setwise.service.storage.datasets import Dataset, Datasets

if TYPE_CHECKING:
    import pyarrow as pa


_CANCELLED = "the update was cancelled; ask again to release the periods, at no charge"
_LEAVING = "the replica is shutting down; ask again"


def _overdue_message(seconds: float) -> str:
    """Return the error message for an update of a live series (user counts) that took more than `seconds` seconds."""
    return f"the update took longer than {seconds:g} s and was stopped; release fewer periods at once, with until"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningUpdate:
    """An update of a live series (noisy user counts, released period by period) that this process of the service runs.

    - `person`: who asked for the update
    - `until`: periods that ended before this day are released; None means today in UTC
    - `timing`: the update's engine slot (the right to read a table), its deadline, and the times at which its end may
      be seen: 1, 2, 4, ... times a fixed number of seconds after the request, which hides how long reading took
    - `task`: a future whose result is the first days of the periods that were released
    """

    person: str
    until: str | None
    timing: QueryTiming
    task: "asyncio.Future[tuple[str, ...]]"


class SeriesService:
    """Opens, updates, shows and closes live series (user counts that are released period by period).

    An analyst may use the series that their own accounts have paid for.

    - `ledger`: stores the charge of each series and its released counts
    - `datasets`, `accounts`, `engines`: the store of datasets, the check of accounts, and the pool of engines, which
      read tables
    - `slots`: the engine slots (rights to read a table) of this process, which queries use too
    - `settings`: have the limits on updates, and the folder for the private states of series (counted users and noise)
    - `randomness`: the source of noise
    """

    def __init__(
        self,
        ledger: Ledger,
        datasets: Datasets,
        accounts: Accounts,
        engines: Engines,
        slots: FairSlots,
        settings: Settings,
        randomness: Randomness,
    ) -> None:
        self._ledger = ledger
        self._datasets = datasets
        self._accounts = accounts
        self._engines = engines
        self._settings = settings
        self._randomness = randomness
        self._slots = slots
        self._pool = ThreadPoolExecutor(settings.waiting, thread_name_prefix="setwise-update")
        self._running: dict[str, RunningUpdate] = {}

    def open(self, identity: Identity, body: Mapping[str, Any]) -> LiveSeries:
        """Open the live series that the request `body` describes, charge its account once, and return the series.

        A live series is a set of noisy user counts, released period by period. `identity` is the person who asks.
        Raises `UnknownAccount`, `UnknownName`, `UnknownColumn`, `InvalidFilter` or `InvalidParameter` with the name of
        the field at fault, and `BudgetExhausted` if the account cannot pay.
        """
        words = dict(body)
        with at_field("account"):
            account = self._accounts.own(identity, words["account"])
        with at_field("dataset"):
            dataset = self._datasets.of_account(account.terms, words["dataset"])
        schema = self._engines.schema(dataset)
        _check_columns(words, dataset, schema)
        if words.get("contributions") is None:
            words["contributions"] = dataset.contributions
        with at_field("contributions"):
            most, bound = dataset.contributions, words["contributions"]
            if bound is None or (most is not None and bound > most):
                limit = "say how many items one user counts towards" if bound is None else f"at most {most} here"
                raise InvalidParameter(f"contributions must be a whole number, {limit}, not {bound}")
        if dataset.unit not in (USER, Unit.USER_DAY, f"user,{words['at']} by day"):
            with at_field("dataset"):
                raise InvalidParameter(
                    f"the dataset protects the unit {dataset.unit!r}, and a live series protects users or their days"
                )
        return open_live(
            self._ledger,
            table=dataset.table,
            user=dataset.user,
            unit=dataset.unit,
            schema=schema,
            state=self._state_address(dataset, words["name"]),
            source={"engine": str(dataset.engine)},
            by=identity.person.name,
            **words,
        )

    def visible(self, identity: Identity, name: str) -> LiveSeries:
        """Return the live series called `name`, if the person of `identity` may see it.

        A live series is a set of noisy user counts that is charged once and released period by period.

        Raises `UnknownName` if there is no such series, and with the same message if it is another person's.
        """
        try:
            series = find_live(self._ledger, name)
            self._accounts.visible(identity, series.opening.account)
        except (UnknownName, UnknownAccount):
            raise UnknownName(f"there is no series named {name!r} among yours") from None
        return series

    def all_visible(self, identity: Identity) -> list[LiveSeries]:
        """Return every live series (user counts) that the person of `identity` may see, in the order of opening."""
        mine = {status.terms.name for status in self._accounts.all_visible(identity)}
        return [series for series in list_live(self._ledger) if series.opening.account in mine]

    def dataset_of(self, series: LiveSeries) -> str:
        """Return the name of the dataset whose rows the live series `series` counts.

        A live series is a set of noisy user counts that is charged once and released period by period.
        """
        return self._ledger.account(series.opening.account).terms.dataset

    async def update(self, identity: Identity, name: str, until: str | None, threads: Threads) -> tuple[str, ...]:
        """Release the ended periods of the live series `name` that were not released before; return their first days.

        A live series is a set of noisy user counts.

        - `identity`: the person who asks for the update
        - `until`: the day before which a period has to end; None means today in UTC
        - `threads`: the threads in which the series is looked up in the database

        If an update with the same `until` is running, its result is awaited. Results and failures leave at a padded
        time (1, 2, 4, ... times a fixed number of seconds after the request), which hides how long reading the table
        took. Raises `TooManyRequests` if an update with another `until`, or too many updates, are running, and
        `EngineFailed` if the update was stopped.
        """
        series, dataset = await threads.run(self._find, identity, name)
        running = self._running.get(name)
        if running is None:
            running = self._start(identity.person.name, series, dataset, until)
        elif running.until != until:
            raise TooManyRequests("another update of this series is running; try again in 1 s")
        return await asyncio.shield(running.task)

    async def cancel_update(self, identity: Identity, name: str, threads: Threads) -> bool:
        """Stop the update of the live series `name` that this replica runs; return False if this replica runs none.

        A replica is one process of the service, and a live series is a set of noisy user counts that is released period
        by period. The next update releases the periods that the stopped one would have released. `threads` are the
        threads in which the series is looked up in the database. Raises `UnknownName` if the person of `identity` may
        not see the series.
        """
        await threads.run(self.visible, identity, name)
        running = self._running.get(name)
        if running is None:
            return False
        await threads.run(running.timing.stop, _CANCELLED)  # cancelling an engine may take a moment
        return True

    async def close_updates(self) -> None:
        """Stop every running update of a live series (noisy user counts), and wait until all updates have ended.

        Called when this process of the service shuts down.
        """
        running = list(self._running.values())
        for update in running:
            await asyncio.to_thread(update.timing.stop, _LEAVING)
        await asyncio.gather(*(update.task for update in running), return_exceptions=True)
        self._pool.shutdown(wait=True)

    def _find(self, identity: Identity, name: str) -> tuple[LiveSeries, Dataset]:
        """Return the live series called `name` and its dataset, if the person of `identity` may see the series.

        A live series is a set of noisy user counts that is charged once and released period by period.

        Raises `UnknownName` otherwise.
        """
        series = self.visible(identity, name)
        return series, self._datasets.get(self.dataset_of(series))

    def _start(self, person: str, series: LiveSeries, dataset: Dataset, until: str | None) -> RunningUpdate:
        """Start an update of the live `series` in a thread of its own, and return the running update.

        Rows of `dataset` are counted, and periods that ended before the day `until` are released; None means today in
        UTC. `person` asked for the update. Raises `TooManyRequests` if too many updates are running.
        """
        if len(self._running) >= self._settings.waiting:
            raise TooManyRequests("too many updates are waiting; try again in 1 s")
        if sum(update.person == person for update in self._running.values()) >= max(1, self._settings.waiting // 2):
            raise TooManyRequests("too many of your updates are waiting; try again in 1 s")
        seconds = self._settings.query_seconds
        timing = QueryTiming(self._slots.of(person), step=self._settings.answer_step, seconds=seconds)
        run = partial(copy_context().run, self._run, series, dataset, until, timing)
        task = asyncio.get_running_loop().run_in_executor(self._pool, run)
        running = self._running[series.name] = RunningUpdate(person=person, until=until, timing=timing, task=task)
        task.add_done_callback(partial(self._forget_ended, series.name))
        return running

    def _forget_ended(self, name: str, task: "asyncio.Future[tuple[str, ...]]") -> None:
        """Forget the running update of the live series (noisy user counts) `name`, whose `task` has ended.

        The exception of the task, if any, is retrieved too, because asyncio would otherwise log the exception if no
        request waits for the update.
        """
        del self._running[name]
        if not task.cancelled():
            task.exception()

    def _run(self, series: LiveSeries, dataset: Dataset, until: str | None, timing: QueryTiming) -> tuple[str, ...]:
        """Run an update of the live `series` (noisy user counts), and return the first days of the released periods.

        - `dataset`: the dataset whose rows are counted
        - `until`: periods that ended before this day are released; None means today in UTC
        - `timing`: the engine slot (the right to read a table), and the padded times at which the noisy counts are
          stored or a failure is raised. Padded times, 1, 2, 4, ... times a fixed number of seconds after the request,
          hide how long reading took
        """

        def wait_before_release() -> None:
            timing.wait_for_padded_time()
            timing.raise_if_cancelled()

        seconds = self._settings.query_seconds
        deadline = threading.Timer(seconds, timing.stop, [_overdue_message(seconds)])
        deadline.daemon = True
        try:
            timing.acquire_slot()
            deadline.start()
            return series.update(
                until=until,
                reader=LentTable(self._engines, dataset, timing),
                state=self._state_address(dataset, series.name, series.opening.state),
                today=datetime.now(UTC).date(),
                randomness=self._randomness,
                before_release=wait_before_release,
            )
        except SetwiseError as error:
            timing.wait_for_padded_time()
            raise EngineFailed(timing.stopped) if timing.stopped else error from None
        finally:
            deadline.cancel()
            timing.wait_for_padded_time()

    def view(
        self,
        identity: Identity,
        name: str,
        window: int | None = None,
        items: Sequence[str] = (),
        top: int | None = None,
        on: str | None = None,
    ) -> SeriesView:
        """Return the released noisy counts of the live series called `name`; no private row is read.

        A live series counts with noise, period by period, the users of each item (a group of rows, such as a page).

        - `window`: with 7, for example, each count is of the users who first appeared within the 7 periods up to its
          own; None means that each count is of all users since the series began
        - `items`: the items to return; empty means all
        - `top`: how many items to return, the largest in the period that begins on the day `on` (None: the last period)

        Raises `UnknownName` if the person of `identity` may not see the series.
        """
        return self.visible(identity, name).view(window=window, items=items, top=top, on=on)

    def close(self, identity: Identity, name: str) -> LiveSeries:
        """End the live series called `name` for good, delete its private state, and return the series.

        A live series is a set of noisy user counts. Its private state stores which users were counted, and the noise.
        Raises `UnknownName` if the person of `identity` may not see the series, and `TooManyRequests` while an update
        of the series is running.
        """
        series, dataset = self._find(identity, name)
        if name in self._running:
            raise TooManyRequests("an update of this series is running; cancel it, or try again in 1 s")
        series.close(by=identity.person.name, state=self._state_address(dataset, name, series.opening.state))
        return series

    def _state_address(self, dataset: Dataset, name: str, recorded: str = "") -> str:
        """Return the address of the private state of the live series `name` (noisy user counts).

        The private state stores which users were counted, and the noise.

        - The state is a file in the service's folder for live series if DuckDB reads the table of `dataset`, or if
          `recorded`, the address in the ledger, is a file. The folder is made if it does not exist.
        - Otherwise the state is in the database that has the table.

        `recorded` is "" for a new series. Raises `InvalidParameter` if the service has no folder for the file.
        """
        if dataset.engine is not EngineKind.DUCKDB and not (recorded and is_file(recorded)):
            return self._engines.address(dataset.engine)
        if self._settings.live_dir is None:
            raise InvalidParameter(
                "the service has no folder for the private state of series on this kind of table: start it with "
                "--live-dir"
            )
        self._settings.live_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(self._settings.live_dir / f"{name}.live.db")


class LentTable:
    """Reads the table of `dataset` for one update of a live series (user counts).

    Each read borrows an engine (a connection that reads a table) from the pool `engines`. `timing` has the update's
    engine slot (the right to read a table) and its cancellation; cancelling the update also stops the borrowed engine.
    """

    def __init__(self, engines: Engines, dataset: Dataset, timing: QueryTiming) -> None:
        self._engines = engines
        self._dataset = dataset
        self._timing = timing

    def describe(self) -> Schema:
        """Return the columns of the registered table and their kinds; no row is read."""
        return self._engines.schema(self._dataset)

    def user_groups(self, aggregation: Aggregation) -> "pa.Table":
        """Return an Arrow table with one row for each pair of a user and a group in which the user has a row.

        `aggregation` has the group columns and the filter. Column u is the user as text; columns g0, g1, ... are the
        labels of the group. Nothing is left out: a user may be in any number of groups.
        """
        with self._engines.borrow(self._dataset) as engine, self._timing.using(engine):
            return engine.user_groups(aggregation)


def _check_columns(words: Mapping[str, Any], dataset: Dataset, schema: Schema) -> None:
    """Raise `UnknownColumn` or `InvalidFilter` if a live series (user counts) uses a column that is not allowed.

    `words` are the parameters of the series. They name the column to group by (`item`), the column with the time of
    each row (`at`), and a filter (`where`). `dataset` lists the columns that its steward allows for each of these, and
    `schema` has all columns of its table.
    """
    grouped = group_of(words["item"], schema).column
    for name, column, listed in (("item", grouped, dataset.items), ("at", words["at"], dataset.filters)):
        with at_field(name):
            if column not in listed or column not in schema.names:
                raise column_not_allowed(name, column, listed)
    if words.get("where") is not None:
        with at_field("where"):
            parse_filter(words["where"], schema, dataset.filters)
