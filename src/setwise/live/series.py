"""Open a live series, update it period by period, show it and close it.

A live series is a table of noisy user counts per group and period. The whole series is charged once, when it is opened.
An update counts the new users of every closed period. It stores the counts with their noise in the private state, which
the data holder keeps, and only then releases each period as one entry of the account's hash chain in the ledger.
An update that is stopped at any point and repeated releases the same numbers, because their noise is in the state.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from setwise.accounting.brackets import CertifiedBound
from setwise.accounting.guarantees import Gaussian
from setwise.accounting.notation import parse_use
from setwise.accounting.promises import USER
from setwise.analytics.bins import group_of
from setwise.analytics.engines.connect import location_of, open_engine, without_password
from setwise.analytics.schema import Schema
from setwise.analytics.tables.domain import fit_labels, read_domain
from setwise.analytics.units import check_payer_unit
from setwise.errors import (
    AccountExists,
    BadRequest,
    BudgetExhausted,
    InvalidParameter,
    NameTaken,
    UnknownName,
)
from setwise.ledger.account import Account, Receipt
from setwise.ledger.ledger import Ledger
from setwise.ledger.records import canonical, digest
from setwise.live.calendar import parse_date
from setwise.live.parquet_rows import recent_rows
from setwise.live.reading import (
    UserGroups,
    aggregation_of,
    first_day_read,
    open_table,
    public_cells,
    read_candidates,
    user_type_of,
)
from setwise.live.register import CLOSED, OPENED, Opening, is_recorded, openings_of
from setwise.live.release import Released, is_same_release, read_releases, release_texts
from setwise.live.states.base import LOST, History, SeriesState, StateUpdate, join_batches
from setwise.live.states.connect import default_state, is_file, open_state
from setwise.live.terms import SeriesTerms, Unit, plan_drawn, plan_within
from setwise.live.view import SeriesView, view_of
from setwise.mechanisms.planning.cost import certified_price
from setwise.mechanisms.randomness import Randomness, SystemRandomness
from setwise.mechanisms.running_totals import RunningTotals

if TYPE_CHECKING:
    from setwise.analytics.engines.base import Engine


class LiveSeries:
    """An opened live series: noisy counts of users that are released period by period under one charge.

    `ledger` stores the charge and the releases, `opening` is the record of the series in the ledger's audit log, and
    `closed` says whether the series has ended. `update` releases the periods that have ended, `view` shows them, and
    `close` ends the series.
    """

    def __init__(self, ledger: Ledger, opening: Opening, *, closed: bool = False) -> None:
        self._ledger = ledger
        self._opening = opening
        self._closed = closed
        self.terms = opening.terms
        self.totals = opening.totals

    def __repr__(self) -> str:
        return f"<setwise live series {self.terms.name!r}, {self.terms.periods} x {self.terms.every}>"

    @property
    def name(self) -> str:
        """The name of the live series (noisy user counts by period) in the ledger."""
        return self.terms.name

    @property
    def is_closed(self) -> bool:
        """Whether the series was closed, so that it releases nothing more."""
        return self._closed

    @property
    def opening(self) -> Opening:
        """The ledger's record of the series: its terms, the account that pays, and the address of its private state."""
        return self._opening

    def update(
        self,
        *,
        until: str | date | None = None,
        engine: str | None = None,
        source: object = None,
        reader: UserGroups | None = None,
        state: str | None = None,
        today: date | None = None,
        randomness: Randomness | None = None,
        before_release: Callable[[], None] = lambda: None,
    ) -> tuple[str, ...]:
        """Release every period that ended before `until` and was not released yet; return their first days.

        - `until` is the day before which a period must have ended; None means today (UTC). Later days are not read.
        - `engine` is the address of the table's server. It is needed if it has a password, because passwords are not
          recorded.
        - `source` is a table in memory, and `reader` an open table, to read instead of the series' table.
        - `state` is the new address of the private state (counted users and noise), if the state was moved.
        - `today` and `randomness` replace the clock and the source of noise, for tests.
        - `before_release` is called after data was read, for example to wait until a time that reveals nothing. If it
          raises, nothing is released now; the counts are kept, and the next update releases them.

        An update that is repeated changes nothing.

        Raises `InvalidParameter` if `until` is in the future, if the series is closed, or if its private state is lost,
        so that the series cannot continue.
        """
        now = datetime.now(UTC).date() if today is None else today
        end = now if until is None else parse_date(until, "until")
        if end > now:
            raise InvalidParameter(f"until {end} lies in the future: today is {now} (UTC), so that day has not ended")
        self._check_open()
        account, receipt = self._charge_once()
        released = self._texts(account, receipt)
        closed = self.terms.calendar.closed(end)
        if closed <= len(released):
            return ()
        with open_state(self._state_address(state, engine), self.name) as opened:
            history = self._history(opened, receipt, released)
            if history.periods < closed:
                if reader is not None:
                    history = self._count(opened, history, closed, reader, randomness)
                else:
                    with self._reader(engine, source, history.periods, closed) as table:
                        history = self._count(opened, history, closed, table, randomness)
        before_release()
        self._check_open()  # another process may have closed the series while this one counted
        dates = self._dates(closed)
        counted, public = _truncate(history, closed), self.terms.domain is not None
        texts = release_texts(self.totals, counted, dates, public, released)
        for part, text in zip(dates[len(released) :], texts, strict=True):
            if account.release(receipt, part=part, answer=text) != text:
                raise InvalidParameter(LOST.format(name=self.name))
        return tuple(dates[len(released) :])

    def released(self) -> Released:
        """Return the noisy values of every group and period that the series released so far, read from the ledger.

        A noisy value is a weighted sum of counts plus noise; `view` turns these values into estimated counts.
        """
        return read_releases(self._texts(*self._charge_once()))

    def view(
        self,
        *,
        window: int | None = None,
        items: Sequence[str | int] = (),
        top: int | None = None,
        on: str | None = None,
    ) -> SeriesView:
        """Return estimated counts with intervals, computed from the released numbers; no private data is read.

        - `window` asks for counts over that many periods instead of running totals.
        - `items` are the only groups to show; all if empty.
        - `top` is the number of largest groups to show.
        - `on` is a day (YYYY-MM-DD) of the period in which `top` ranks groups; None takes the last period.

        Raises `InvalidParameter` for `on` without `top`, and `UnknownName` if no released period has that day.
        """
        if on is not None and top is None:
            raise InvalidParameter("on names the period by which the top items are ranked: say how many, with top")
        if top is not None and (type(top) is not int or top < 1):
            raise InvalidParameter(f"top is a number of items, at least 1, not {top!r}")
        epsilon, delta = self.promise()
        view = view_of(
            self.terms, self.totals, self.released(), epsilon=epsilon, delta=delta, window=window, items=items
        )
        return view if top is None else view.largest(top, on)

    def close(self, *, by: str = "", engine: str | None = None, state: str | None = None) -> None:
        """End the series for good and delete its private state (counted users and noise); released numbers stay.

        - `by` is the name of the person who closes the series, for the audit log.
        - `engine` is the address of the server that has the state, if it needs a password.
        - `state` is the address of the state, if it was moved.

        If an earlier closing was stopped, closing again deletes the state.

        Raises `InvalidParameter` if the series was closed before and has no state any more, or if the state at that
        address belongs to another series.
        """
        _, receipt = self._charge_once()
        with open_state(self._state_address(state, engine), self.name) as opened:
            token = opened.token()
            is_own = token is not None and receipt.answer == _opening_answer(token)
            if self._refresh_closed() and not is_own:
                raise InvalidParameter(f"the series {self.name!r} was closed before")
            if token is not None and not is_own:
                raise InvalidParameter(
                    f"{without_password(self._state_address(state, engine))} is not the state of the series "
                    f"{self.name!r}: give the state that it was opened with"
                )
            if not self._closed:
                self._ledger.record(CLOSED, by=by, subject=self.name)
                self._closed = True
            if is_own:
                opened.destroy()

    def _refresh_closed(self) -> bool:
        """Return whether the series was closed, by this or another process, according to the ledger's audit log now."""
        entry = openings_of(self._ledger).get(self.name)
        self._closed = self._closed or (entry is not None and entry[1])
        return self._closed

    def _check_open(self) -> None:
        """Raise `InvalidParameter` if the series was closed, by this or another process."""
        if self._refresh_closed():
            raise InvalidParameter(f"the series {self.name!r} was closed and releases nothing more")

    def _charge_once(self) -> tuple[Account, Receipt]:
        """Return the account that pays for the series, and the receipt of the series' one charge.

        The charge has the series' idempotency key, so only the first call charges anything; later calls return its
        receipt.
        """
        # The charge is sent again at every call, under one idempotency key, so that only the first call charges
        # anything.
        account = self._ledger.account(self._opening.account)
        request = self.terms.request(self.totals)
        return account, account.charge(self.totals.uses(), key=self.terms.key, request=request)

    def promise(self) -> tuple[CertifiedBound, float]:
        """Return the promise that covers the series: certified bounds on its epsilon, and a delta.

        If the series has an account of its own, the promise is about the series alone. Otherwise the result is the
        promise of the account that pays, which covers all answers that this account pays for.
        """
        if self._opening.own_account:
            return certified_price(self.totals.uses(), self._opening.delta), self._opening.delta
        status = self._ledger.account(self._opening.account).status()
        return status.epsilon, status.delta

    def _dates(self, count: int) -> list[str]:
        """Return the first days of the first `count` periods, as YYYY-MM-DD."""
        return [day.isoformat() for day in self.terms.calendar.dates(count)]

    def _texts(self, account: Account, receipt: Receipt) -> list[str]:
        """Return the released JSON text of each period in order, up to the first period that was not released yet.

        The ledger stores the texts in `account`, as parts of the answer to the series' charge; `receipt` is the receipt
        of this charge.
        """
        texts = []
        for part in self._dates(self.terms.periods):
            text = account.released(receipt, part=part)
            if text is None:
                break
            texts.append(text)
        return texts

    def _state_address(self, state: str | None, engine: str | None) -> str:
        """Return the address of the series' private state (counted users and noise).

        This is `state`, an address that the caller gave. If `state` is None, it is the address that was recorded when
        the series was opened. Addresses are recorded without passwords. So if `engine`, the address of the caller's
        database, is the recorded address apart from its password, `engine` is returned, because it has the password.
        """
        if state is not None:
            return state
        recorded = self._opening.state
        return engine if engine is not None and without_password(engine) == recorded else recorded

    def _history(self, state: SeriesState, receipt: Receipt, released: Sequence[str]) -> History:
        """Return the counts and noise in the private `state`, after checking that the releases come from this state.

        `receipt` is the receipt of the series' charge, and `released` are the texts released so far. Raises
        `InvalidParameter` if the state is missing, if it belongs to another series, if it lacks a period that was
        released, or if the last release cannot be computed from it.
        """
        token = state.token()
        if token is None or receipt.answer != _opening_answer(token):
            raise InvalidParameter(LOST.format(name=self.name))
        history = join_batches(state.batches())
        if history.periods < len(released):
            raise InvalidParameter(LOST.format(name=self.name))
        if released and not self._is_source(history, released):
            raise InvalidParameter(LOST.format(name=self.name))
        return history

    def _is_source(self, history: History, released: Sequence[str]) -> bool:
        """Return whether the counts and noise in `history`, a private state, give the last of the `released` texts.

        The last text is computed again from `history` and compared. The result is False, for example, if an old copy of
        the state was restored. The caller then refuses to continue the series, because the old copy lacks the users who
        were counted since, and they would be counted twice.
        """
        dates, public = self._dates(len(released)), self.terms.domain is not None
        try:
            (text,) = release_texts(self.totals, _truncate(history, len(released)), dates, public, released[:-1])
        except KeyError:  # the ledger shows a group that this state has never counted
            return False
        return is_same_release(text, released[-1])

    def _count(
        self, state: SeriesState, history: History, until: int, reader: UserGroups, randomness: Randomness | None
    ) -> History:
        """Count the users of the periods that `history` lacks, up to number `until` - 1; return the extended history.

        A history has the exact counts and the noise of all periods so far. The new counts and fresh noise are stored in
        the private `state` and added to the result. `reader` reads the table. `randomness` is the source of noise; None
        takes the operating system's.
        """
        source = SystemRandomness() if randomness is None else randomness
        batch = state.count(
            read_candidates(self.terms, reader, history.periods, until),
            StateUpdate(
                contributions=self.totals.contributions,
                first=history.periods,
                until=until,
                before=history,
                draw=lambda count: self.totals.draw(count, source),
                public=() if self.terms.domain is None else public_cells(self.terms.domain),
            ),
        )
        before = [] if not history.periods else state.batches()[:-1]
        return join_batches([*before, batch])

    def _reader(self, engine: str | None, source: object, first: int, until: int) -> "Engine":
        """Return an engine on the table of the series, or on the table `source` if it is not None.

        `engine` is the address of the table's server with its password; None takes the recorded address. To save time,
        the engine may have only those rows that an update of the periods `first` to `until` - 1 needs.
        """
        terms = self.terms
        if source is not None:
            return open_table(source, terms.source, engine)
        table = open_table(terms.table, terms.source, engine)
        schema = table.describe()
        rows = recent_rows(terms, schema, first_day_read(terms, first), terms.calendar.begins(until))
        if rows is None:
            return table
        table.close()
        return open_engine(rows)


def _truncate(history: History, periods: int) -> History:
    """Return a copy of `history` (counts and noise) with only its first `periods` periods, but with all its groups.

    An earlier release can be computed again from such a copy, to check that it came from this history.
    """
    # Groups without users in these periods stay, because the noise of one update covers all its groups. A group is not
    # shown before its first user is counted.
    return replace(
        history,
        counts=history.counts[:, :periods],
        noise=history.noise[:, :periods],
        marks=history.marks[:periods],
    )


def _opening_answer(token: str) -> str:
    """Return the answer that the ledger stores for the series' charge: a digest of `token`, as JSON text.

    The token is a random text that identifies the private state (counted users and noise). The digest ties that state
    to the charge, so that no other state can continue the series.
    """
    return canonical({"state": digest(token)})


def open_live(
    ledger: Ledger,
    name: str,
    table: str,
    *,
    user: str,
    item: str,
    at: str,
    every: str,
    start: str | date,
    periods: int,
    contributions: int,
    epsilon: float | None = None,
    delta: float | None = None,
    account: str | None = None,
    counts: str | None = None,
    purpose: str = "totals",
    window: int | None = None,
    where: str | None = None,
    domain: object = None,
    unit: str = Unit.USER,
    late_days: int | None = None,
    dataset: str | None = None,
    state: str | None = None,
    by: str = "",
    source: Mapping[str, Any] | None = None,
    schema: Schema | None = None,
    preview: bool = False,
) -> LiveSeries:
    """Open a live series of noisy user counts, one per group and period, charge it for all its periods, and return it.

    The data:
    - `table` is read with the options `source` of `setwise.open`; `where` is a filter of its rows.
    - `user`, `item` and `at` are its columns of users, groups and times. `schema` has all its columns, if known.
    - `domain` lists the groups if they are public.
    - `dataset` is the name of the data in the ledger; None takes the name of the table.
    - `late_days` is how late rows may arrive, in days: an update reads again the rows from this many days before the
      first period that it releases.

    The counts:
    - There are `periods` periods, each a day, week or month as `every` says; the first begins on the day `start`.
    - `contributions` is the most groups in which a user counts.
    - `purpose` names the numbers with the smallest error: running "totals", single "periods", or "windows" of `window`
      periods.

    The privacy:
    - `unit` is the unit of privacy: "user", or "user,day" for each day of a user by itself.
    - `epsilon` and `delta` calibrate the noise. Without `account`, they are the budget of a new account ``live:NAME``.
    - `account` is an existing account that pays, and protects the same unit of privacy.
    - `counts`, instead of `epsilon`, is a Gaussian guarantee registered with `account`, such as "gaussian:20" (noise of
      20 times the sensitivity). `delta` is then the probability that the threshold for private groups shows a group
      with only one user; `account` must have registered a guarantee that pays for it, too.

    The rest:
    - `state` is the address of the private state (counted users and noise); None takes the default.
    - `by` is the person who opens the series.
    - With `preview`, nothing is charged or created: the result, which is not open, only shows its cost and its error.

    Opening a series again with equal arguments changes nothing.

    Ensures: every error in the request is raised before anything is charged.
    """
    options = dict(source or {})
    engine = str(options.get("engine", "duckdb"))
    source_options = {key: value for key, value in options.items() if value is not None}
    source_options["engine"] = without_password(engine)
    if schema is None:
        with open_table(table, options) as opened:
            schema = opened.describe()
    location = location_of(table, engine, options.get("table"))
    group = group_of(item, schema)
    public_groups = None if domain is None else fit_labels(read_domain(domain, location), [group.labels(schema)])  # type: ignore[arg-type]
    optional_terms: dict[str, Any] = {} if late_days is None else {"late_days": late_days}
    recorded = openings_of(ledger).get(name)
    if recorded is None or recorded[0].terms.user_type is not None:
        optional_terms["user_type"] = user_type_of(schema.column(user))
    terms = SeriesTerms(
        name=name, table=str(table), user=user, item=item, at=at, every=every, start=parse_date(start, "start"),
        periods=periods, contributions=contributions, purpose=purpose, window=window, where=where, domain=public_groups,
        unit=Unit.USER_DAY if unit == f"user,{at} by day" else unit, source=source_options, **optional_terms,
    )  # fmt: skip
    aggregation_of(terms, schema, 0, 1)  # raises an error for unsuitable columns before anything is charged
    known_as = location.name if dataset is None else dataset
    paying = None if account is None else _check_account(ledger, account, known_as)
    if paying is not None:
        check_payer_unit(paying.unit, USER if terms.unit == Unit.USER else f"user,{at} by day", schema)
    if paying is not None:
        totals = _plan_for_account(terms, paying, epsilon=epsilon, delta=delta, counts=counts)
    elif epsilon is None or delta is None or counts is not None:
        raise InvalidParameter("say what may be spent: give epsilon and delta, or an account")
    else:
        totals = plan_within(terms, epsilon=epsilon, delta=delta)
    opening = Opening(
        account=terms.key if paying is None else paying.name,
        own_account=paying is None,
        state=_absolute_address(without_password(state or default_state(name, engine))),
        delta=float(delta or 0.0) if paying is None else paying.terms.delta,
        sigma=totals.sigma,
        failure=totals.failure,
        terms=terms,
    )
    series = LiveSeries(ledger, opening)
    if preview:
        return series
    if is_recorded(ledger, opening):
        return series
    address = state or (engine if opening.state == without_password(engine) else opening.state)
    with open_state(address, name) as private:
        # The state is created before the charge, so that a state that cannot be used costs nothing.
        token, is_new = _create_state(private, digest(terms.request(totals)))
        try:
            payer = _own_account(ledger, opening, known_as) if paying is None else paying
            _, receipt = series._charge_once()
        except (BadRequest, BudgetExhausted):  # after a failure of the ledger the charge may exist, and needs the state
            if is_new:
                private.destroy()
            raise
        if payer.settle(receipt, answer=_opening_answer(token)) != _opening_answer(token):
            # An earlier opening was stopped after its settlement, and its state was lost since.
            if is_new:
                private.destroy()
            raise InvalidParameter(LOST.format(name=name))
    ledger.record(OPENED, by=by, subject=name, details=opening.to_dict())
    return series


def _absolute_address(address: str) -> str:
    """Return the address of a private state (counted users and noise) with an absolute path instead of a relative one.

    An absolute path is valid in any working directory. An address that is not a file is returned unchanged.
    """
    from pathlib import Path

    return str(Path(address).absolute()) if is_file(address) else address


def _plan_for_account(
    terms: SeriesTerms, account: Account, *, epsilon: float | None, delta: float | None, counts: str | None
) -> RunningTotals:
    """Return the noise mechanism of a series with these `terms`, which the existing `account` is to pay for.

    The noise follows from `epsilon` or from `counts`, of which exactly one is given:

    - `epsilon`: the noise makes the whole series (`epsilon`, `delta`)-DP.
    - `counts` is one Gaussian guarantee as text, such as "gaussian:20", which the account pays as one use. `delta` is
      then only the probability that the threshold for private groups shows a group with only one user.

    Raises: `InvalidParameter` if neither or both are given.
    """
    if epsilon is not None:
        if counts is not None or delta is None:
            raise InvalidParameter("give epsilon and delta, or counts such as gaussian:20, not both")
        return plan_within(terms, epsilon=epsilon, delta=delta, pays=lambda uses: account.shortage(uses) is None)
    use = None if counts is None else parse_use(counts)
    if use is None or use.count != 1 or not isinstance(use.guarantee, Gaussian):
        raise InvalidParameter("say what the account pays: epsilon and delta, or counts as one gaussian:SIGMA")
    return plan_drawn(terms, sigma=use.guarantee.sigma, failure=delta if terms.domain is None else None)


def _check_account(ledger: Ledger, account: str, dataset: str) -> Account:
    """Return the account of the `ledger` named `account`, after checking that it can pay for a series on `dataset`.

    Raises `InvalidParameter` if the account is for another dataset, or if its budget is renewed in every calendar
    period. A live series (noisy user counts over many periods) is charged once; its later numbers would be released in
    calendar periods whose budget does not count that charge.
    """
    payer = ledger.account(account)
    payer.check_dataset(dataset)
    if payer.terms.period is not None:
        raise InvalidParameter(
            f"the account {account!r} has a new budget every {payer.terms.period}, and a series outlasts that: take an "
            "account without a period"
        )
    return payer


def _own_account(ledger: Ledger, opening: Opening, dataset: str) -> Account:
    """Return the account that pays for one series alone; open it in the `ledger` if it does not exist yet.

    `opening` is the record of the series, and `dataset` the name of its data. Raises `InvalidParameter` if the other
    accounts on `dataset`, or their joint budget, protect another unit of privacy (a user, or a user's day) than the
    series.
    """
    ledger.check_pays(account=opening.account, dataset=dataset, known_as=dataset)
    with suppress(AccountExists):  # an earlier call that was stopped may have opened the account
        ledger.open_setwise(
            opening.account,
            opening.totals.uses(),
            delta=opening.delta,
            dataset=dataset,
            unit=opening.terms.unit,
        )
    return ledger.account(opening.account)


def _create_state(state: SeriesState, request: str) -> tuple[str, bool]:
    """Create the private `state` of a series, unless it exists; return (token of the state, whether it was created).

    The private state has the counted users and the noise. The token is a random text that identifies the state.
    `request` is a digest of the series' terms and noise. Raises `NameTaken` if the state belongs to another series.
    """
    # An earlier opening of the same request may have been interrupted after it created the state.
    existing = state.token()
    if existing is None:
        state.create(f"{request}:{secrets.token_hex(16)}")
    token = state.token()
    assert token is not None
    if not token.startswith(f"{request}:"):
        raise NameTaken("the state belongs to another series: give another state, or another name")
    return token, existing is None


def find_live(ledger: Ledger, name: str) -> LiveSeries:
    """Return the live series called `name`; raise `UnknownName` if the ledger has none.

    A live series is a set of noisy user counts that is released period by period.
    """
    entry = openings_of(ledger).get(name)
    if entry is None:
        raise UnknownName(f"no series is called {name!r} in this ledger; setwise live open opens one")
    return LiveSeries(ledger, entry[0], closed=entry[1])


def list_live(ledger: Ledger) -> tuple[LiveSeries, ...]:
    """Return every live series of the ledger, closed ones included, in the order in which they were opened.

    A live series is a set of noisy user counts that is released period by period.
    """
    return tuple(LiveSeries(ledger, opening, closed=closed) for opening, closed in openings_of(ledger).values())
