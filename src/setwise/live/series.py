"""Open a series, update it period by period, show it and close it; what is charged, counted and stored, in order.

The whole series is charged once, when it is opened. An update counts the new users of every closed period, stores the
counts with their noise in the private state, and only then releases each period as one entry of the account's chain.
An update that is stopped at any point and repeated releases the same numbers, because their noise is in the state.
"""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from setwise.accounting.brackets import CertifiedBound
from setwise.accounting.guarantees import Gaussian
from setwise.accounting.notation import parse_use
from setwise.analytics.bins import Group, Period, TimeUnit, group_of
from setwise.analytics.engines.aggregation import Aggregation, check_suitable
from setwise.analytics.engines.connect import location_of, open_engine, without_password
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.filter.expression import Every, Filter
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.tables.domain import fitted, read_domain
from setwise.errors import AccountExists, InvalidParameter, NameTaken, UnknownName
from setwise.ledger.account import Account, Receipt
from setwise.ledger.ledger import Ledger
from setwise.ledger.records import canonical, digest
from setwise.live.calendar import parse_date
from setwise.live.parquet_rows import recent_rows
from setwise.live.release import Released, read_releases, release_texts
from setwise.live.states.base import LOST, History, SeriesState, joined
from setwise.live.states.connect import default_state, open_state
from setwise.live.terms import SeriesTerms, Unit, plan_drawn, plan_within
from setwise.live.view import SeriesView, view_of
from setwise.mechanisms.labels import Label
from setwise.mechanisms.planning.cost import certified_price
from setwise.mechanisms.randomness import Randomness, SystemRandomness
from setwise.mechanisms.running_totals import RunningTotals

if TYPE_CHECKING:
    import pyarrow as pa

    from setwise.analytics.engines.base import Engine

_OPENED = "live.opened"
_CLOSED = "live.closed"
"""The names under which the ledger's register says that a series was opened or closed."""


class UserGroups(Protocol):
    """What a series reads: an engine on its table, or what lends one."""

    def describe(self) -> Schema:
        """Return the columns and their kinds."""
        ...

    def user_groups(self, aggregation: Aggregation) -> "pa.Table":
        """Return one line for every user and group."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What the register of the ledger says about a series: who pays, where its state is, and its terms."""

    account: str
    own_account: bool
    state: str
    delta: float
    sigma: float
    failure: float | None
    terms: SeriesTerms

    def to_dict(self) -> dict[str, Any]:
        """Return the opening as plain values."""
        names = ("account", "own_account", "state", "delta", "sigma", "failure")
        return {**{name: getattr(self, name) for name in names}, "terms": self.terms.to_dict()}

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> "Opening":
        """Return the opening that `to_dict` wrote."""
        return cls(**{**written, "terms": SeriesTerms.from_dict(written["terms"])})

    @property
    def totals(self) -> RunningTotals:
        """The mechanism of the series."""
        return plan_drawn(self.terms, sigma=self.sigma, failure=self.failure)


class LiveSeries:
    """A series that was opened: `update` releases closed periods, `view` shows them, `close` ends the series."""

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
        """The name it was opened under."""
        return self.terms.name

    @property
    def is_closed(self) -> bool:
        """Whether the series was closed and releases nothing more."""
        return self._closed

    @property
    def opening(self) -> Opening:
        """What the register of the ledger says about the series."""
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
    ) -> tuple[str, ...]:
        """Release every period that has ended before `until` and was not released; return their first days.

        `until` is the first day that is not read, by default today (UTC). Repeating an update changes nothing. `engine`
        is the address of the table's server, needed again where it has a password; `source` replaces the table, for
        tables in memory; `reader` replaces both. `state` is where the state has been moved to.

        Raises `InvalidParameter` when the series is closed, or when its state is lost: then it cannot go on.
        """
        now = datetime.now(UTC).date() if today is None else today
        end = now if until is None else parse_date(until, "until")
        if end > now:
            raise InvalidParameter(f"until {end} lies in the future: today is {now} (UTC), so that day has not ended")
        if self._closed:
            raise InvalidParameter(f"the series {self.name!r} was closed and releases nothing more")
        account, receipt = self._paid()
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
        dates = self._dates(closed)
        counted, public = _first(history, closed), self.terms.domain is not None
        texts = release_texts(self.totals, counted, dates, public, len(released))
        for part, text in zip(dates[len(released) :], texts, strict=True):
            if account.release(receipt, part=part, answer=text) != text:
                raise InvalidParameter(LOST.format(name=self.name))
        return tuple(dates[len(released) :])

    def released(self) -> Released:
        """Return the numbers that were released so far, as the ledger keeps them."""
        return read_releases(self._texts(*self._paid()))

    def view(self, *, window: int | None = None, items: Sequence[str | int] = ()) -> SeriesView:
        """Return the released numbers as totals, or as windows of so many periods; nothing private is read."""
        epsilon, delta = self.promise()
        return view_of(
            self.terms, self.totals, self.released(), epsilon=epsilon, delta=delta, window=window, items=items
        )

    def close(self, *, by: str = "", engine: str | None = None, state: str | None = None) -> None:
        """End the series for good and remove its state; what was released stays and can be shown."""
        if self._closed:
            raise InvalidParameter(f"the series {self.name!r} was closed before")
        self._ledger.record(_CLOSED, by=by, subject=self.name)
        self._closed = True
        with open_state(self._state_address(state, engine), self.name) as opened:
            opened.destroy()

    def _paid(self) -> tuple[Account, Receipt]:
        """Return the account and the receipt of the opening; the charge was made before, so that nothing is charged."""
        account = self._ledger.account(self._opening.account)
        request = self.terms.request(self.totals)
        return account, account.charge(self.totals.uses(), key=self.terms.key, request=request)

    def promise(self) -> tuple[CertifiedBound, float]:
        """Return the epsilon and delta that hold for the series: its own, or those of the account that paid."""
        if self._opening.own_account:
            return certified_price(self.totals.uses(), self._opening.delta), self._opening.delta
        status = self._ledger.account(self._opening.account).status()
        return status.epsilon, status.delta

    def _dates(self, count: int) -> list[str]:
        return [each.isoformat() for each in self.terms.calendar.dates(count)]

    def _texts(self, account: Account, receipt: Receipt) -> list[str]:
        """Return what was released, in the order of the periods."""
        texts = []
        for part in self._dates(self.terms.periods):
            text = account.released(receipt, part=part)
            if text is None:
                break
            texts.append(text)
        return texts

    def _state_address(self, state: str | None, engine: str | None) -> str:
        """Return where the state is; the address of a server with its password, where that was given again."""
        if state is not None:
            return state
        recorded = self._opening.state
        return engine if engine is not None and without_password(engine) == recorded else recorded

    def _history(self, state: SeriesState, receipt: Receipt, released: Sequence[str]) -> History:
        """Return what the state has counted, or raise unless it is the state that the releases were made from."""
        token = state.token()
        if token is None or receipt.answer != _opening_answer(token):
            raise InvalidParameter(LOST.format(name=self.name))
        history = joined(state.batches())
        if history.periods < len(released):
            raise InvalidParameter(LOST.format(name=self.name))
        counted = _first(history, len(released))
        if released:
            dates, public = self._dates(len(released)), self.terms.domain is not None
            if release_texts(self.totals, counted, dates, public, len(released) - 1) != released[-1:]:
                raise InvalidParameter(LOST.format(name=self.name))
        return history

    def _count(
        self, state: SeriesState, history: History, until: int, reader: UserGroups, randomness: Randomness | None
    ) -> History:
        """Count the periods that were not counted, store them with their noise, and return the longer history."""
        source = SystemRandomness() if randomness is None else randomness
        batch = state.count(
            read_candidates(self.terms, reader, history.periods, until),
            contributions=self.totals.contributions,
            first=history.periods,
            until=until,
            before=history,
            draw=lambda count: self.totals.draw(count, source),
            public=() if self.terms.domain is None else _cells(self.terms.domain),
        )
        before = [] if not history.periods else state.batches()[:-1]
        return joined([*before, batch])

    def _reader(self, engine: str | None, source: object, first: int, until: int) -> "Engine":
        """Return an engine on the table, or on the rows of the periods first to until - 1 where these can be taken."""
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


def _cells(labels: Sequence[Label]) -> tuple[str | int, ...]:
    return tuple(label for label in labels if not isinstance(label, tuple))


def _first(history: History, periods: int) -> History:
    """Return the first periods of a history, with the groups that somebody had by then, or that are public.

    Groups stand in the order of batches, and a group that is new in a batch may have its first user late in it, so that
    rows without users are kept: they are shown in no period before that one.
    """
    return replace(history, counts=history.counts[:, :periods], noise=history.noise[:, :periods])


def open_table(source: object, options: Mapping[str, Any], engine: str | None = None) -> "Engine":
    """Return an engine on the table of a series, opened with the options that its terms keep."""
    words = dict(options)
    address = engine or words.pop("engine", "duckdb")
    words.pop("engine", None)
    types = {name: Kind(kind) for name, kind in (words.pop("types", None) or {}).items()}
    table, memory = words.pop("table", None), words.pop("memory", None)
    columns = words.pop("columns", None)
    csv = CsvOptions(**words, columns=None if columns is None else tuple(columns))
    return open_engine(source, address, table=table, types=types, csv=csv, memory=memory)


def first_day_read(terms: SeriesTerms, first: int) -> date:
    """Return the first day whose rows an update from the period `first` on reads: late events included."""
    return max(terms.start, terms.calendar.begins(first) - timedelta(days=terms.late_days))


def aggregation_of(terms: SeriesTerms, schema: Schema, first: int, until: int) -> Aggregation:
    """Return what an update asks of the engine: the days and groups of every user in the periods first to until - 1.

    Rows of the last `late_days` days before are read again, for events that arrived late, and no others, so that an
    engine which can skip rows by their time reads no more of the table.
    """
    calendar = terms.calendar
    low = first_day_read(terms, first)
    at = '"' + terms.at.replace('"', '""') + '"'
    kept = parse_filter(f"{at} >= '{low.isoformat()}' AND {at} < '{calendar.begins(until).isoformat()}'", schema)
    if terms.where is not None:
        # Parsed by itself: joined as text, a parenthesis too many would set it outside the time.
        own = parse_filter(terms.where, schema)
        kept = Filter(f"{kept.text} AND ({own.text})", Every((kept.expression, own.expression)))
    aggregation = Aggregation(
        user=terms.user,
        item=(group_of(terms.item, schema), Group(terms.at, Period(TimeUnit.DAY))),
        where=kept,
    )
    check_suitable(aggregation, schema)
    return aggregation


def read_candidates(terms: SeriesTerms, reader: UserGroups, first: int, until: int) -> "pa.Table":
    """Return the units and groups seen since the last update: u, g, day and the period in which they count.

    An event of an earlier period that is seen only now counts in the first period that is not released.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found = reader.user_groups(aggregation_of(terms, reader.describe(), first, until))
    days = found.column("g1").cast(pa.string())
    calendar = terms.calendar
    distinct = pc.unique(days).to_pylist()
    places = {day: max(first, calendar.place_of(date.fromisoformat(day))) for day in distinct}
    at = pc.index_in(days, pa.array(list(places), pa.string()))
    periods = pa.array(list(places.values()), pa.int32()).take(pa.chunked_array(at).combine_chunks())
    users = found.column("u").cast(pa.string())
    if terms.unit == Unit.USER_DAY:
        users = pc.binary_join_element_wise(users, days, "\n")
    table = pa.table({"u": users, "g": found.column("g0"), "day": days, "period": periods})
    if terms.domain is not None:
        table = table.filter(pc.is_in(table.column("g"), pa.array(_cells(terms.domain), table.column("g").type)))
    return table


def _opening_answer(token: str) -> str:
    """Return what the ledger stores as the answer of the charge: a digest that ties the state to the charge."""
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
    """Open a series and charge it, once and for all of its periods; return it.

    The budget is `epsilon` and `delta`, for which the series gets an account of its own called ``live:NAME``, or an
    `account`: it pays for epsilon and delta as a wallet does, or draws the registered `counts` ("gaussian:20") and, for
    private groups, one approx:0,`delta`. `source` has the options of `setwise.open` that say how the table is read.
    Opening a series again with the same words changes nothing. With `preview` nothing is charged or made: the series
    that is returned says what it would cost and how close its numbers would be.

    Ensures: whatever is wrong with the request is raised before anything is charged.
    """
    options = dict(source or {})
    engine = str(options.get("engine", "duckdb"))
    kept = {key: value for key, value in options.items() if value is not None}
    kept["engine"] = without_password(engine)
    if schema is None:
        with open_table(table, options) as opened:
            schema = opened.describe()
    location = location_of(table, engine, options.get("table"))
    group = group_of(item, schema)
    listed = None if domain is None else fitted(read_domain(domain, location), [group.labels(schema)])  # type: ignore[arg-type]
    more = {} if late_days is None else {"late_days": late_days}
    terms = SeriesTerms(
        name=name, table=str(table), user=user, item=item, at=at, every=every, start=parse_date(start, "start"),
        periods=periods, contributions=contributions, purpose=purpose, window=window, where=where, domain=listed,
        unit=unit, source=kept, **more,
    )  # fmt: skip
    aggregation_of(terms, schema, 0, 1)  # raises what is wrong with the columns
    if unit != Unit.USER and account is not None:
        raise InvalidParameter(
            f"the account {account!r} promises to protect users, and the unit {unit!r} protects less: leave the "
            "account out, so that the series gets one of its own"
        )
    known_as = location.name if dataset is None else dataset
    paying = None if account is None else _checked_account(ledger, account, known_as)
    if paying is not None:
        totals = _paid_by_account(terms, paying, epsilon=epsilon, delta=delta, counts=counts)
    elif epsilon is None or delta is None or counts is not None:
        raise InvalidParameter("say what may be spent: give epsilon and delta, or an account")
    else:
        totals = plan_within(terms, epsilon=epsilon, delta=delta)
    opening = Opening(
        account=terms.key if paying is None else paying.name,
        own_account=paying is None,
        state=_absolute(without_password(state or default_state(name, engine))),
        delta=float(delta or 0.0) if paying is None else paying.terms.delta,
        sigma=totals.sigma,
        failure=totals.failure,
        terms=terms,
    )
    series = LiveSeries(ledger, opening)
    if preview:
        return series
    _check_free(ledger, opening)
    payer = _own_account(ledger, opening, known_as) if paying is None else paying
    _, receipt = series._paid()
    if receipt.answer is None:
        address = state or (engine if opening.state == without_password(engine) else opening.state)
        with open_state(address, name) as private:
            payer.settle(receipt, answer=_opening_answer(_created(private, digest(terms.request(totals)))))
    if _openings(ledger).get(name) is None:
        ledger.record(_OPENED, by=by, subject=name, details=opening.to_dict())
    return series


def _absolute(address: str) -> str:
    """Return the address of a state such that it is found again from another working directory."""
    from pathlib import Path

    return address if "://" in address or address.startswith("spark") else str(Path(address).absolute())


def _paid_by_account(
    terms: SeriesTerms, account: Account, *, epsilon: float | None, delta: float | None, counts: str | None
) -> RunningTotals:
    """Return the mechanism that an account pays for: of a total, or of a registered Gaussian use."""
    if epsilon is not None:
        if counts is not None or delta is None:
            raise InvalidParameter("give epsilon and delta, or counts such as gaussian:20, not both")
        return plan_within(terms, epsilon=epsilon, delta=delta, pays=lambda uses: account.shortage(uses) is None)
    use = None if counts is None else parse_use(counts)
    if use is None or use.count != 1 or not isinstance(use.guarantee, Gaussian):
        raise InvalidParameter("say what the account pays: epsilon and delta, or counts as one gaussian:SIGMA")
    return plan_drawn(terms, sigma=use.guarantee.sigma, failure=delta if terms.domain is None else None)


def _checked_account(ledger: Ledger, account: str, dataset: str) -> Account:
    """Return the account that is to pay, or raise `InvalidParameter` unless it can pay for a series on this dataset."""
    payer = ledger.account(account)
    payer.check_dataset(dataset)
    if payer.terms.period is not None:
        raise InvalidParameter(
            f"the account {account!r} has a new budget every {payer.terms.period}, and a series outlasts that: take an "
            "account without a period"
        )
    return payer


def _own_account(ledger: Ledger, opening: Opening, dataset: str) -> Account:
    """Return the account of a series that brings its own budget: just the uses of the series are registered in it."""
    # What accounts on a dataset promise together is about users; an account of another unit must not be among them.
    own = dataset if opening.terms.unit == Unit.USER else ""
    ledger.check_pays(account=opening.account, dataset=own, known_as=dataset)
    with suppress(AccountExists):  # an opening that was stopped has opened it
        ledger.open_setwise(opening.account, opening.totals.uses(), delta=opening.delta, dataset=own)
    return ledger.account(opening.account)


def _created(state: SeriesState, request: str) -> str:
    """Return the token of the state, which is made unless an opening of the same request that was stopped made it."""
    token = state.token()
    if token is None:
        state.create(f"{request}:{secrets.token_hex(16)}")
        token = state.token()
    assert token is not None
    if not token.startswith(f"{request}:"):
        raise NameTaken("the state belongs to another series: give another --state, or another name")
    return token


def _openings(ledger: Ledger) -> dict[str, tuple[Opening, bool]]:
    """Return every series of the ledger by name, with whether it was closed; the first opening of a name counts."""
    found: dict[str, tuple[Opening, bool]] = {}
    for record in ledger.acts():
        event = record.event
        if event.action == _OPENED and event.subject not in found:
            found[event.subject] = (Opening.from_dict(event.details), False)
        elif event.action == _CLOSED and event.subject in found:
            found[event.subject] = (found[event.subject][0], True)
    return found


def _check_free(ledger: Ledger, opening: Opening) -> None:
    there = _openings(ledger).get(opening.terms.name)
    if there is not None and there != (opening, False):
        raise NameTaken(f"a series is called {opening.terms.name!r} already: take another name")


def find_live(ledger: Ledger, name: str) -> LiveSeries:
    """Return the series of that name, or raise `UnknownName`."""
    found = _openings(ledger).get(name)
    if found is None:
        raise UnknownName(f"no series is called {name!r} in this ledger; setwise live open opens one")
    return LiveSeries(ledger, found[0], closed=found[1])


def list_live(ledger: Ledger) -> tuple[LiveSeries, ...]:
    """Return every series of the ledger, in the order of their opening."""
    return tuple(LiveSeries(ledger, opening, closed=closed) for opening, closed in _openings(ledger).values())
