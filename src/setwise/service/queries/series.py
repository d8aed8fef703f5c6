"""Live series of a service: opened on a data set and an account, updated and shown; who may do which."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from setwise.analytics.bins import group_of
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.execute import padded
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.schema import Schema
from setwise.errors import InvalidParameter, UnknownAccount, UnknownColumn, UnknownName
from setwise.ledger.ledger import Ledger
from setwise.live.series import LiveSeries, find_live, list_live, open_live
from setwise.live.view import SeriesView
from setwise.mechanisms.randomness import Randomness
from setwise.service.auth.people import Identity
from setwise.service.auth.permissions import Accounts
from setwise.service.problems import at_field
from setwise.service.queries.engine_pool import Engines
from setwise.service.settings import EngineKind, Settings
from setwise.service.storage.datasets import Dataset, Datasets

if TYPE_CHECKING:
    import pyarrow as pa


class SeriesService:
    """Opens, updates, shows and closes live series; analysts see those that their own accounts have paid for."""

    def __init__(
        self,
        ledger: Ledger,
        datasets: Datasets,
        accounts: Accounts,
        engines: Engines,
        settings: Settings,
        randomness: Randomness,
    ) -> None:
        self._ledger = ledger
        self._datasets = datasets
        self._accounts = accounts
        self._engines = engines
        self._settings = settings
        self._randomness = randomness
        self._slots = threading.Semaphore(settings.workers)
        self._updating: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def open(self, identity: Identity, body: Mapping[str, Any]) -> LiveSeries:
        """Open a series that an account of this person pays for, or raise what is wrong with it, naming the field."""
        words = dict(body)
        with at_field("account"):
            account = self._accounts.own(identity, words["account"])
        with at_field("dataset"):
            if words["dataset"] != account.terms.dataset:
                raise UnknownName(f"the account {account.name!r} is not on a data set named {words['dataset']!r}")
            dataset = self._datasets.get(words["dataset"])
        schema = self._engines.schema(dataset)
        _check_columns(words, dataset, schema)
        if words.get("contributions") is None:
            words["contributions"] = dataset.contributions
        with at_field("contributions"):
            most, asked = dataset.contributions, words["contributions"]
            if asked is None or (most is not None and asked > most):
                limit = "say how many items one user counts towards" if asked is None else f"at most {most} here"
                raise InvalidParameter(f"contributions must be a whole number, {limit}, not {asked}")
        return open_live(
            self._ledger,
            table=dataset.table,
            user=dataset.user,
            schema=schema,
            state=self._state_address(dataset, words["name"]),
            source={"engine": str(dataset.engine)},
            by=identity.person.name,
            **words,
        )

    def visible(self, identity: Identity, name: str) -> LiveSeries:
        """Return a series that this person may see; one of somebody else and a missing one look the same."""
        try:
            series = find_live(self._ledger, name)
            self._accounts.visible(identity, series.opening.account)
        except (UnknownName, UnknownAccount):
            raise UnknownName(f"there is no series named {name!r} among yours") from None
        return series

    def all_visible(self, identity: Identity) -> list[LiveSeries]:
        """Return every series that this person may see, in the order of their opening."""
        mine = {status.terms.name for status in self._accounts.all_visible(identity)}
        return [series for series in list_live(self._ledger) if series.opening.account in mine]

    def dataset_of(self, series: LiveSeries) -> str:
        """Return the name of the data set that a series counts."""
        return self._ledger.account(series.opening.account).terms.dataset

    def update(self, identity: Identity, name: str, until: str | None) -> tuple[str, ...]:
        """Release the periods that have ended; one update of a series at a time.

        The response leaves at a padded time after data was read, as answers of questions do.
        """
        series = self.visible(identity, name)
        dataset = self._datasets.get(self.dataset_of(series))
        with self._updating[name], self._slots, self._padded():
            return series.update(
                until=until,
                reader=LentTable(self._engines, dataset),
                state=self._state_address(dataset, name),
                today=datetime.now(UTC).date(),
                randomness=self._randomness,
            )

    def view(self, identity: Identity, name: str, window: int | None, items: list[str]) -> SeriesView:
        """Return the released numbers; nothing private is read."""
        return self.visible(identity, name).view(window=window, items=items)

    def close(self, identity: Identity, name: str) -> LiveSeries:
        """End a series for good and remove its state."""
        series = self.visible(identity, name)
        dataset = self._datasets.get(self.dataset_of(series))
        with self._updating[name]:
            series.close(by=identity.person.name, state=self._state_address(dataset, name))
        return series

    def _state_address(self, dataset: Dataset, name: str) -> str:
        """Return where the private state of a series is: beside the data on a server, else in the folder for states."""
        if dataset.engine is EngineKind.POSTGRESQL:
            return self._engines.address(dataset.engine)
        if self._settings.live_dir is None:
            raise InvalidParameter(
                "the service has no folder for the private state of series on this kind of table: start it with "
                "--live-dir"
            )
        self._settings.live_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(self._settings.live_dir / f"{name}.live.db")

    @contextmanager
    def _padded(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            elapsed = time.monotonic() - began
            time.sleep(max(0.0, padded(elapsed, self._settings.answer_step) - elapsed))


class LentTable:
    """Reads a registered table for one update, with an engine that is borrowed for each call."""

    def __init__(self, engines: Engines, dataset: Dataset) -> None:
        self._engines = engines
        self._dataset = dataset

    def describe(self) -> Schema:
        """Return the columns and their kinds."""
        return self._engines.schema(self._dataset)

    def user_groups(self, aggregation: Aggregation) -> "pa.Table":
        """Return one line for every user and group."""
        with self._engines.borrow(self._dataset) as engine:
            return engine.user_groups(aggregation)


def _check_columns(words: Mapping[str, Any], dataset: Dataset, schema: Schema) -> None:
    """Raise `UnknownColumn` or `InvalidFilter` for columns that the steward has not allowed."""
    grouped = group_of(words["item"], schema).column
    for name, column, listed in (("item", grouped, dataset.items), ("at", words["at"], dataset.filters)):
        with at_field(name):
            if column not in listed or column not in schema.names:
                names = ", ".join(map(repr, listed)) or "none"
                raise UnknownColumn(f"{name} must be one of the columns allowed here ({names}), not {column!r}")
    if words.get("where") is not None:
        with at_field("where"):
            parse_filter(words["where"], schema, dataset.filters)
