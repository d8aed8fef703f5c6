"""Whatever happens to states, ledgers, clocks and tables, each period has one release and each user counts once."""

import json
import multiprocessing
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.live.streams import START, TODAY, day, events

from setwise.errors import EngineFailed, InvalidParameter, SetwiseError
from setwise.ledger.ledger import Ledger
from setwise.ledger.records import canonical
from setwise.live.series import find_live, open_live
from setwise.live.states.base import join_batches
from setwise.live.states.connect import open_state


def texts_of(series):
    return series._texts(*series._charge_once())


def stop():
    raise SetwiseError("stopped")


def counted(series):
    with open_state(series.opening.state, series.name) as state:
        history = join_batches(state.batches())
    return {label: history.counts[place].tolist() for place, label in enumerate(history.labels)}


def test_a_state_that_was_counted_apart_is_refused_even_if_nothing_is_shown(opened, tmp_path):
    """Two states of one series have different noise, although neither shows an item, so that their texts look alike."""
    series = opened(epsilon=0.1)
    table = events([("a", "x", 0), ("b", "y", 1)])
    series.update(until=day(1), source=table, today=TODAY)
    before, apart = tmp_path / "before.db", tmp_path / "apart.db"
    shutil.copy(series.opening.state, before)
    with pytest.raises(SetwiseError, match="stopped"):
        series.update(until=day(3), source=table, today=TODAY, before_release=stop)
    shutil.copy(series.opening.state, apart)
    shutil.copy(before, series.opening.state)
    series.update(until=day(2), source=table, today=TODAY)
    assert not series.view().lines
    with pytest.raises(InvalidParameter, match="lost or older"):
        series.update(until=day(3), source=table, state=str(apart), today=TODAY)
    assert series.update(until=day(3), source=table, today=TODAY) == (day(2),)


def test_of_two_states_that_release_at_once_the_second_stops(opened, tmp_path):
    """The second state was counted apart, and has checked the ledger before the first one released anything."""
    series = opened(epsilon=0.1)
    table = events([("a", "x", 0)])
    copy = str(tmp_path / "copy.db")
    shutil.copy(series.opening.state, copy)

    def first_goes_on():
        assert series.update(until=day(2), source=table, state=copy, today=TODAY) == (day(0), day(1))

    with pytest.raises(InvalidParameter, match="lost or older"):
        series.update(until=day(4), source=table, today=TODAY, before_release=first_goes_on)
    assert len(texts_of(series)) == 2
    assert series.update(until=day(3), source=table, state=copy, today=TODAY) == (day(2),)


def test_states_of_earlier_versions_go_on(opened):
    """Batches without a mark release texts without one."""
    from setwise.live.states.base import Batch

    series = opened(domain=["x"])
    to_text = Batch.to_text

    def without_mark(batch):
        text = to_text(batch)
        assert '"mark"' in text
        record = json.loads(text)
        del record["mark"]
        return json.dumps(record)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Batch, "to_text", without_mark)
        with pytest.raises(SetwiseError, match="stopped"):
            series.update(until=day(2), source=events([("a", "x", 0)]), today=TODAY, before_release=stop)
    assert series.update(until=day(2), source=events([]), today=TODAY) == (day(0), day(1))
    assert not any("mark" in text for text in texts_of(series))
    assert series.update(until=day(4), source=events([("b", "x", 2)]), today=TODAY) == (day(2), day(3))
    assert all("mark" in text for text in texts_of(series)[2:])


def test_series_whose_items_were_released_in_another_order_go_on(opened, monkeypatch):
    """Earlier versions listed new items in the order in which the data had them; the ledger keeps that order."""
    from setwise.ledger.account import Account

    series = opened(epsilon=20.0)
    rows = [(f"u{number}", item, 0) for number in range(500) for item in ("apple", "zebra")]
    release = Account.release

    def in_another_order(account, receipt, *, part, answer):
        body = json.loads(answer)
        assert [group["item"] for group in body["new"]] == ["apple", "zebra"]
        body["new"].reverse()
        release(account, receipt, part=part, answer=canonical(body))
        return answer

    with monkeypatch.context() as during:
        during.setattr(Account, "release", in_another_order)
        series.update(until=day(1), source=events(rows), today=TODAY)
    rows += [(f"v{number}", "apple", 1) for number in range(500)]
    assert series.update(until=day(3), source=events(rows), today=TODAY) == (day(1), day(2))
    assert series.update(until=day(4), source=events(rows), today=TODAY) == (day(3),)
    zebra, apple = series.view().lines
    assert (zebra.item, apple.item) == ("zebra", "apple")
    assert abs(zebra.values[-1] - 500) < 100
    assert abs(apple.values[-1] - 1000) < 100


def test_closing_does_not_delete_the_state_of_another_series(opened):
    one, two = opened("one", domain=["x"]), opened("two", domain=["x"])
    with pytest.raises(InvalidParameter, match="not the state of the series 'one'"):
        one.close(state=two.opening.state)
    assert not one.is_closed
    two.update(until=day(1), source=events([("a", "x", 0)]), today=TODAY)
    one.close()
    assert Path(two.opening.state).exists()


def test_a_closing_that_was_stopped_deletes_the_state_when_it_is_repeated(opened, ledger, monkeypatch):
    from setwise.live.states.duckdb import DuckDBState

    series = opened(domain=["x"])
    with monkeypatch.context() as during:
        during.setattr(DuckDBState, "destroy", lambda _: stop())
        with pytest.raises(SetwiseError, match="stopped"):
            series.close()
    assert Path(series.opening.state).exists()
    find_live(ledger, "reach").close()
    assert not Path(series.opening.state).exists()
    with pytest.raises(InvalidParameter, match="was closed before"):
        find_live(ledger, "reach").close()


def test_a_series_that_another_process_closes_releases_nothing_more(opened, ledger):
    series = opened(domain=["x"])
    table = events([("a", "x", 0)])
    series.update(until=day(1), source=table, today=TODAY)
    with pytest.raises(InvalidParameter, match="was closed"):
        series.update(
            until=day(3), source=table, today=TODAY, before_release=lambda: find_live(ledger, "reach").close()
        )
    assert len(texts_of(series)) == 1
    stale = opened("other", domain=["x"])
    find_live(ledger, "other").close()
    with pytest.raises(InvalidParameter, match="was closed"):
        stale.update(until=day(1), source=table, today=TODAY)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (pa.int64(), pa.string()),
        (pa.int64(), pa.decimal128(10, 2)),
        (pa.decimal128(10, 0), pa.decimal128(10, 2)),
        (pa.timestamp("us"), pa.timestamp("ns")),
    ],
)
def test_a_user_column_of_another_type_does_not_count_users_twice(ledger, tmp_path, first, then):
    """The state knows users by their text, and another type may write the same user in another way."""

    def write(kind):
        users = {pa.int64(): [1, 2], pa.string(): ["1", "2"]}.get(kind)
        if users is None:
            users = [datetime(2026, 1, 1), datetime(2026, 1, 2)] if pa.types.is_timestamp(kind) else [Decimal(1), 2]
        table = events([("", "x", 0), ("", "x", 1)])
        pq.write_table(table.set_column(0, "user", pa.array(users, kind)), tmp_path / "events.parquet")

    write(first)
    series = open_live(
        ledger, "reach", str(tmp_path / "events.parquet"), user="user", item="item", at="at", every="day", start=START,
        periods=8, contributions=2, epsilon=20.0, delta=1e-3, domain=["x"], state=str(tmp_path / "state.db"),
    )  # fmt: skip
    series.update(until=day(2), today=TODAY)
    write(then)
    with pytest.raises(InvalidParameter, match=r"'user' .* when the series was opened"):
        series.update(until=day(3), today=TODAY)
    write(first)
    series.update(until=day(3), today=TODAY)
    assert counted(series) == {"x": [1, 1, 0]}


def test_a_ledger_from_a_backup_releases_the_same_numbers_again(tmp_path):
    """Readers have seen the later releases already: their noise is in the state, which is newer than the ledger."""
    url, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    pq.write_table(events([(f"u{place}", "xy"[place % 2], place % 4) for place in range(40)]), tmp_path / "t.parquet")
    with Ledger.open(str(url)) as ledger:
        series = open_live(
            ledger, "reach", str(tmp_path / "t.parquet"), user="user", item="item", at="at", every="day", start=START,
            periods=8, contributions=2, epsilon=5.0, delta=1e-3, domain=["x", "y"], state=str(tmp_path / "state.db"),
        )  # fmt: skip
        series.update(until=day(1), today=TODAY)
    shutil.copy(url, copy)
    with Ledger.open(str(url)) as ledger:
        find_live(ledger, "reach").update(until=day(4), today=TODAY)
        seen = texts_of(find_live(ledger, "reach"))
    pq.write_table(events([(f"other{place}", "x", place % 4) for place in range(40)]), tmp_path / "t.parquet")
    with Ledger.open(str(copy)) as ledger:
        series = find_live(ledger, "reach")
        series.update(until=day(4), today=TODAY)
        assert texts_of(series) == seen
        assert not ledger.verify().faults
        assert ledger.account("live:reach").status().charges == 1


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = datetime(2026, 3, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time


def test_a_clock_that_is_moved_releases_nothing_twice(tmp_path, opened):
    clock = Clock()
    with Ledger.open(str(tmp_path / "clock.db"), clock=clock) as ledger:
        series = opened(ledger=ledger, domain=["x"])
        table = events([("a", "x", 0)])
        assert series.update(source=table, today=START + timedelta(days=3)) == (day(0), day(1), day(2))
        clock.time -= timedelta(days=365)
        assert series.update(source=table, today=START + timedelta(days=1)) == ()
        assert series.update(source=table, today=START - timedelta(days=400)) == ()
        with pytest.raises(InvalidParameter, match="lies in the future"):
            series.update(until=day(4), source=table, today=START)
        clock.time += timedelta(days=3650)
        assert len(series.update(source=table, today=START + timedelta(days=3650))) == 5
        assert series.update(source=table, today=START + timedelta(days=3650)) == ()
        assert not ledger.verify().faults
        assert counted(series) == {"x": [1, 0, 0, 0, 0, 0, 0, 0]}


def test_a_time_of_day_means_its_day(opened):
    series = opened(domain=["x"])
    until = datetime(2026, 1, 3, 15, 30)
    assert series.update(until=until, source=events([]), today=TODAY) == (day(0), day(1))
    assert opened("other", domain=["x"], start=datetime(2026, 1, 1, 9)).terms.start == START


def update_once(url, state, until, results):
    with Ledger.open(url) as ledger:
        try:
            results.put(find_live(ledger, "reach").update(until=until, today=TODAY, state=state))
        except EngineFailed as error:
            results.put(str(error))


@pytest.mark.parametrize("backend", ["duckdb", "postgresql"])
def test_processes_that_update_at_once_release_each_period_once(backend, request, tmp_path):
    state = str(tmp_path / "state.db")
    if backend == "postgresql":
        state = request.getfixturevalue("postgresql_server").schema()
    url, rows = str(tmp_path / "ledger.db"), [(f"u{place % 50}", "xyz"[place % 3], place % 8) for place in range(400)]
    pq.write_table(events(rows), tmp_path / "t.parquet")
    processes = multiprocessing.get_context("spawn")
    with Ledger.open(url) as ledger:
        series = open_live(
            ledger, "reach", str(tmp_path / "t.parquet"), user="user", item="item", at="at", every="day", start=START,
            periods=8, contributions=2, epsilon=5.0, delta=1e-3, domain=["x", "y", "z"], state=state,
        )  # fmt: skip
        results = processes.Queue()
        started = [
            processes.Process(target=update_once, args=(url, state, START + timedelta(days=5 + place), results))
            for place in range(4)
        ]
        for process in started:
            process.start()
        outcomes = [results.get(timeout=300) for _ in started]
        for process in started:
            process.join(timeout=300)
            assert process.exitcode == 0
        assert all(isinstance(outcome, tuple) or "is running; try again" in outcome for outcome in outcomes)
        series.update(until=day(8), today=TODAY, state=state)
        parts = Counter(
            entry.contents.key for entry in ledger.history("live:reach") if entry.contents.kind == "release"
        )
        assert len(parts) == 8
        assert set(parts.values()) == {1}
        with open_state(state, "reach") as opened_state:
            history = join_batches(opened_state.batches())
        kept = {}
        for user, item, _ in rows:
            kept.setdefault(user, set()).add(item)
        assert history.counts.sum() == sum(min(2, len(items)) for items in kept.values())
        assert not ledger.verify().faults
