"""How one query of the service pays for and reads its table: `TimedAccount` charges it, `TableReader` reads the rows.

A query is charged first and then waits for an engine slot (the right to read a table), so that nothing private is read
before the charge is on disk. Its answer is stored only at a padded time (1, 2, 4, ... times a fixed number of
seconds after the request), which hides how long reading the private rows took.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from setwise.accounting.guarantees import Use
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.base import Engine, WeightReader
from setwise.analytics.engines.joins import Join
from setwise.analytics.rows.derivation import NOT_DERIVED, Derivation
from setwise.ledger.account import Account, Receipt
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.statistic_release import GroupTable
from setwise.service.queries.engine_pool import Engines
from setwise.service.queries.exact_results import Exact, ExactResults, most_numbers
from setwise.service.queries.runner import QueryTiming
from setwise.service.storage.datasets import Dataset

_LARGEST_DOMAIN = 10_000
"""The most public labels of a query whose result is cached: comparing longer lists takes as long as a small table."""


class TimedAccount:
    """An account that charges a query before it waits for an engine slot, and stores its answer at a padded time.

    An engine slot is the right to read a table. Padded times are 1, 2, 4, ... times a fixed number of seconds after the
    request. `timing` acquires the query's slot and waits for its padded times. The function `record_charge` is called
    as soon as the charge is on disk, so that the caller can store the query's row, which others may poll.
    """

    def __init__(self, account: Account, timing: QueryTiming, record_charge: Callable[[], None]) -> None:
        self._account = account
        self._timing = timing
        self._record_charge = record_charge

    def charge(self, uses: Sequence[Use], *, key: str, request: str) -> Receipt:
        """Charge `uses` (guarantees with counts) to the account, then wait for an engine slot; return the receipt.

        An engine slot is the right of one query to read a table. `key` is the idempotency key, and `request` the text
        of the request. If the receipt already has a stored answer, the call does not wait for a slot, because no row is
        read.
        """
        receipt = self._account.charge(uses, key=key, request=request)
        self._record_charge()
        if receipt.answer is None:
            self._timing.acquire_slot()
        return receipt

    def settle(self, receipt: Receipt, *, answer: str, returned: Sequence[Use] = ()) -> str:
        """Wait for the next padded time, then store `answer`, and return the stored JSON text.

        Padded times (1, 2, 4, ... times a fixed number of seconds after the request) hide how long reading took.
        `receipt` is the receipt of the charge. `returned` are charged guarantees, with counts, that were not needed and
        are refunded to the account. Raises `EngineFailed` if the query was cancelled before the padded time.
        """
        self._timing.wait_for_padded_time()
        self._timing.raise_if_cancelled()
        return self._account.settle(receipt, answer=answer, returned=returned)


class TableReader:
    """Reads the table of `dataset` for one query, with an engine that is borrowed for each call.

    - `engines`: the pool of engines
    - `timing`: the query's engine slot (the right to read a table) and its cancellation
    - `joins`: the public tables (tables without users) that SQL joins to the dataset
    - `derivation`: the steps by which SQL computes each user's rows
    - `account`: the account that pays for the query
    - `results`: a cache of exact results (before noise), from which a query takes only results of its own account; if
      it is None, every call reads the table

    The query borrows no engine while it waits for its engine slot, so that waiting queries hold no connections.
    """

    def __init__(
        self,
        engines: Engines,
        dataset: Dataset,
        timing: QueryTiming,
        joins: tuple[Join, ...],
        derivation: Derivation = NOT_DERIVED,
        *,
        account: str = "",
        results: ExactResults | None = None,
    ) -> None:
        self._engines = engines
        self._dataset = dataset
        self._timing = timing
        self._joins = joins
        self._derivation = derivation
        self._account = account
        self._results = results

    def check(self, aggregation: Aggregation) -> None:
        """Raise `UnknownColumn` or `UnsuitableTable` if the table's columns cannot answer `aggregation`.

        `aggregation` describes counts or sums per group, before noise. No row is read.
        """
        with self._engines.borrow_to_check(self._dataset, self._joins, self._derivation) as engine:
            engine.check(aggregation)

    def histogram(self, aggregation: Aggregation) -> Histogram:
        """Return the exact count of each group of `aggregation` that has a contribution; the caller adds noise.

        Contributions are what users add to counts. Those above the bounds of `aggregation`, such as the most groups in
        which one user counts, are left out first.
        """

        def read() -> Histogram:
            with self._reading() as engine:
                return engine.histogram(aggregation)

        return self._read_once("histogram", aggregation, None, read)

    def top(self, aggregation: Aggregation, most: int) -> Histogram:
        """Return the `most` groups of `aggregation` with the highest exact counts, highest first.

        The caller adds noise. Contributions are what users add to counts. Those above the bounds of `aggregation`, such
        as the most groups in which one user counts, are left out first.
        """

        def read() -> Histogram:
            with self._reading() as engine:
                return engine.top(aggregation, most)

        return self._read_once("top", aggregation, most, read)

    def statistics(self, aggregation: Aggregation) -> GroupTable:
        """Return for every group the exact value of each measure in `aggregation`; the caller adds noise.

        A measure adds up one number per user in each group, such as the user's number of rows or the sum of a column.
        Contributions of a user above the bounds of `aggregation`, such as the most groups in which the user counts, are
        left out first.
        """

        def read() -> GroupTable:
            with self._reading() as engine:
                return engine.statistics(aggregation)

        return self._read_once("statistics", aggregation, None, read)

    @contextmanager
    def group_weights(self, aggregation: Aggregation) -> Iterator[WeightReader]:
        """Context manager that yields a reader of exact group weights, by which a mechanism chooses private groups.

        The weight of a group is a sum over users: the more groups a user has, the less weight the user adds to each of
        them. `aggregation` names the columns of user and group, and the filter. The mechanism adds noise to the weights
        and shows the groups whose noisy weight is large. It works in several rounds and reads the weights in each of
        them, so one engine (connection) is borrowed for all rounds.
        """
        with self._reading() as engine, engine.group_weights(aggregation) as weights:
            yield weights

    def _read_once(self, kind: str, aggregation: Aggregation, most: int | None, read: Callable[[], Exact]) -> Exact:
        """Return the exact result (before noise) of `aggregation`, from the cache or else from the tables.

        `read` is called to read the tables. Its result is cached with the version of the tables, and is used again as
        long as this version is unchanged. Nothing is cached if the version is unknown, if the aggregation lists very
        many public groups, or if the result could have too many numbers. For private groups without a `most`, there is
        no limit on the numbers, so that nothing is cached either.

        - `kind` is the name of the method that reads, such as "histogram", as a part of the cache's key.
        - `most` is the most groups that this method returns, or None if it returns all groups.
        """
        results = self._results
        if results is None or len(aggregation.domain or ()) > _LARGEST_DOMAIN:
            return read()
        version = self._engines.content_version(self._dataset)
        if version is None:
            return read()
        place = (self._account, self._dataset, self._joins, self._derivation, version, kind, aggregation, most)
        self._timing.raise_if_cancelled()
        return results.read(place, most_numbers(aggregation, most), read)

    @contextmanager
    def _reading(self) -> Iterator[Engine]:
        """Context manager that yields a borrowed engine (a connection) on the table that this object reads.

        If the query is cancelled during the `with` block, the engine is stopped too.
        """
        borrowed = self._engines.borrow(self._dataset, self._joins, self._derivation)
        with borrowed as engine, self._timing.using(engine):
            yield engine
