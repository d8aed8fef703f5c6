"""A series is charged once, counts every user once per group, and releases the same numbers whatever is repeated."""

import json
import math
import os
import shutil
import stat
import xml.etree.ElementTree
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.live.streams import START, TODAY, day, events

from setwise.accounting.notation import format_use
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import (
    BudgetExhausted,
    EngineFailed,
    InvalidParameter,
    KeyConflict,
    NameTaken,
    SetwiseError,
    UnknownName,
)
from setwise.ledger.ledger import Ledger
from setwise.live.release import Released
from setwise.live.series import find_live, list_live, open_live
from setwise.live.states.base import join_batches
from setwise.live.states.connect import open_state
from setwise.live.view import view_of


def stop(*_, **__):
    raise SetwiseError("stopped")


def counted(series):
    """The exact new users of each group and period, which only the state knows."""
    with open_state(series.opening.state, series.name) as state:
        history = join_batches(state.batches())
    return {label: history.counts[place].tolist() for place, label in enumerate(history.labels)}


def test_the_whole_series_is_charged_when_it_is_opened_and_nothing_after(opened, ledger):
    series = opened(domain=["x", "y"])
    status = ledger.account("live:reach").status()
    assert [format_use(use) for use in status.spent] == [format_use(use) for use in series.totals.uses()]
    assert status.epsilon.upper <= 20.0
    assert not status.left
    table = events([("a", "x", 0), ("b", "x", 1), ("b", "y", 2)])
    assert series.update(until=day(3), source=table, today=TODAY) == (day(0), day(1), day(2))
    after = ledger.account("live:reach").status()
    assert (after.spent, after.charges) == (status.spent, 1)
    assert not ledger.verify().faults


def test_a_private_series_also_pays_for_its_threshold(opened, ledger):
    series = opened()
    kinds = [format_use(use).partition(":")[0] for use in series.totals.uses()]
    assert kinds == ["gaussian", "approx"]
    epsilon, delta = series.promise()
    assert epsilon.upper <= 20.0
    assert delta == 1e-3


def test_each_user_counts_once_per_group_and_for_the_first_groups_in_order_of_time(opened):
    series = opened(domain=["x", "y", "z"], contributions=2)
    table = events([("a", "x", 0), ("a", "x", 1), ("a", "z", 3), ("a", "y", 2), ("b", "x", 1), ("b", "x", 1)])
    series.update(until=day(5), source=table, today=TODAY)
    assert counted(series) == {"x": [1, 1, 0, 0, 0], "y": [0, 0, 1, 0, 0], "z": [0, 0, 0, 0, 0]}


def test_late_deleted_and_returning_events_count_once_and_when_they_are_first_seen(opened):
    series = opened(domain=["x", "y"], late_days=7)
    series.update(until=day(1), source=events([("a", "x", 0)]), today=TODAY)
    series.update(until=day(2), source=events([("b", "x", 1)]), today=TODAY)  # a's event is deleted
    series.update(until=day(3), source=events([("a", "x", 2), ("c", "y", 0)]), today=TODAY)  # a returns, c is late
    assert counted(series) == {"x": [1, 1, 0], "y": [0, 0, 1]}


def test_events_older_than_the_days_that_are_read_again_are_not_counted(opened):
    series = opened(domain=["x"], late_days=1)
    series.update(until=day(4), source=events([]), today=TODAY)
    series.update(until=day(5), source=events([("a", "x", 2), ("b", "x", 3), ("c", "x", 4)]), today=TODAY)
    assert counted(series) == {"x": [0, 0, 0, 0, 2]}


def test_events_before_the_start_and_after_the_last_period_are_not_counted(opened):
    series = opened(domain=["x"], periods=2)
    table = events([("a", "x", -1), ("b", "x", 0), ("c", "x", 1), ("d", "x", 2)])
    assert series.update(source=table, today=TODAY) == (day(0), day(1))
    assert counted(series) == {"x": [1, 1]}
    assert series.update(source=table, today=TODAY) == ()


def test_a_day_of_a_user_is_a_unit_by_itself_if_that_is_chosen(opened):
    series = opened(domain=["x", "y", "z"], unit="user,day", contributions=2)
    rows = [("a", "x", 0), ("a", "x", 1), ("a", "x", 1), ("a", "y", 2), ("a", "x", 2), ("a", "z", 2)]
    series.update(until=day(3), source=events(rows), today=TODAY)
    found = counted(series)
    assert found["x"][:2] == [1, 1]
    assert sum(counts[2] for counts in found.values()) == 2, "two groups of one day of a user"
    promise = series.view().promise()
    assert promise.startswith("Each single day of a user is protected, but not the user")
    assert "one day of a person" in promise


def test_an_account_that_protects_users_does_not_pay_for_days_of_users(opened, ledger):
    ledger.open_filter("bob", epsilon=2.0, delta=1e-6, dataset="events")
    with pytest.raises(InvalidParameter, match="promises about two units do not add up"):
        opened(unit="user,day", account="bob", epsilon=1.0, delta=1e-6, dataset="events")
    with pytest.raises(InvalidParameter, match="'events' protect the unit 'user', and 'user,day' is another"):
        opened(unit="user,day", dataset="events")
    assert opened(unit="user,day", dataset="days of events").opening.own_account
    assert ledger.account("bob").status().charges == 0


def test_an_account_that_protects_days_of_users_pays_for_them_and_not_for_users(opened, ledger):
    ledger.open_filter("days", epsilon=2.0, delta=1e-6, dataset="events", unit="user,day")
    words = {"account": "days", "epsilon": 1.0, "delta": 1e-7, "dataset": "events"}
    with pytest.raises(InvalidParameter, match="promises about two units do not add up"):
        opened(**words)
    series = opened(unit="user,day", **words)
    assert ledger.account("days").status().charges == 1
    assert series.view().promise().startswith("Each single day of a user is protected, but not the user")


@pytest.mark.parametrize("every", ["day", "week", "month"])
def test_a_backlog_counts_as_updates_in_time_would_have(opened, every):
    rows = [(f"u{place % 17}", "xyz"[place % 3], place % 50) for place in range(300)]
    words = {"domain": ["x", "y", "z"], "every": every, "periods": 6, "contributions": 3}
    at_once, in_time = opened("one", **words), opened("many", **words)
    calendar = at_once.terms.calendar
    at_once.update(until=calendar.end, source=events(rows), today=date(2027, 1, 1))
    for place in range(1, 7):
        until = calendar.begins(place)
        known = [row for row in rows if row[2] < (until - START).days]
        in_time.update(until=until, source=events(known), today=date(2027, 1, 1))
    assert counted(at_once) == counted(in_time)


def test_repeating_an_update_changes_nothing(opened, ledger):
    series = opened(domain=["x"])
    table = events([("a", "x", 0)])
    series.update(until=day(2), source=table, today=TODAY)
    entries = ledger.account("live:reach").entries()
    shown = series.view().to_dict()
    assert series.update(until=day(2), source=table, today=TODAY) == ()
    assert series.update(until=day(1), source=table, today=TODAY) == ()
    assert ledger.account("live:reach").entries() == entries
    assert find_live(ledger, "reach").view().to_dict() == shown


def test_opening_again_with_the_same_words_changes_nothing_and_with_others_is_refused(opened, ledger):
    opened(domain=["x"])
    entries = ledger.account("live:reach").entries()
    opened(domain=["x"])
    assert ledger.account("live:reach").entries() == entries
    with pytest.raises((NameTaken, KeyConflict)):
        opened(domain=["x"], contributions=3)
    assert [series.name for series in list_live(ledger)] == ["reach"]


@pytest.mark.parametrize("stopped", ["charge", "create", "settle", "record"])
def test_an_opening_that_is_stopped_goes_on_when_it_is_repeated(opened, ledger, stopped, monkeypatch):
    from setwise.ledger.account import Account
    from setwise.live.states.duckdb import DuckDBState

    place, name = {
        "charge": (Account, "charge"),
        "create": (DuckDBState, "create"),
        "settle": (Account, "settle"),
        "record": (Ledger, "record"),
    }[stopped]

    with monkeypatch.context() as during:
        during.setattr(place, name, stop)
        with pytest.raises(SetwiseError, match="stopped"):
            opened(domain=["x"])
    series = opened(domain=["x"])
    assert series.update(until=day(1), source=events([("a", "x", 0)]), today=TODAY) == (day(0),)
    assert ledger.account("live:reach").status().charges == 1


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("none/such/folder/state.db", EngineFailed),
        ("events.db", InvalidParameter),
        ("other.db", NameTaken),
        ("postgresql://nobody@127.0.0.1:1/none", EngineFailed),
        ("mysql://host/shop", InvalidParameter),
    ],
)
def test_a_state_that_cannot_be_used_costs_nothing(opened, ledger, tmp_path, state, error):
    opened("first", domain=["x"], state=str(tmp_path / "other.db"))
    with duckdb.connect(str(tmp_path / "events.db")) as database:
        database.execute("CREATE TABLE events (n INTEGER)")
    (tmp_path / "events.db").chmod(0o640)
    ledger.open_filter("bob", epsilon=2.0, delta=1e-6, dataset="events")
    words = {"account": "bob", "epsilon": 1.0, "delta": 1e-6, "dataset": "events", "domain": ["x"]}
    with pytest.raises(error):
        opened(**words, state=state if "://" in state else str(tmp_path / state))
    assert ledger.account("bob").status().charges == 0
    assert stat.S_IMODE((tmp_path / "events.db").stat().st_mode) == 0o640, "other databases keep their permissions"
    assert [series.name for series in list_live(ledger)] == ["first"]
    assert opened(**words).update(until=day(1), source=events([]), today=TODAY) == (day(0),)


def test_an_opening_that_cannot_be_paid_leaves_no_state(opened, ledger, tmp_path):
    ledger.open_filter("bob", epsilon=0.5, delta=1e-6, dataset="events")
    with pytest.raises(BudgetExhausted):
        opened(account="bob", epsilon=1.0, delta=1e-6, dataset="events", domain=["x"])
    assert not (tmp_path / "reach.live.db").exists()


def test_a_state_that_is_lost_during_a_stopped_opening_is_not_replaced(opened, ledger, tmp_path, monkeypatch):
    """The charge was settled with the first state, and another one would count users again."""
    with monkeypatch.context() as during:
        during.setattr(Ledger, "record", stop)
        with pytest.raises(SetwiseError, match="stopped"):
            opened(domain=["x"])
    (tmp_path / "reach.live.db").unlink()
    with pytest.raises(InvalidParameter, match="lost or older"):
        opened(domain=["x"])
    assert list_live(ledger) == ()
    assert ledger.account("live:reach").status().charges == 1


def test_a_stopped_release_goes_on_with_the_same_noise(opened, ledger, monkeypatch):
    from setwise.ledger.account import Account

    series = opened(domain=["x", "y"])
    table = events([("a", "x", 0), ("b", "y", 1)])
    release, asked = Account.release, []

    def stop_at_the_second(self, receipt, *, part, answer):
        asked.append((part, answer))
        if len(asked) == 2:
            raise SetwiseError("stopped")
        return release(self, receipt, part=part, answer=answer)

    with monkeypatch.context() as during:
        during.setattr(Account, "release", stop_at_the_second)
        with pytest.raises(SetwiseError, match="stopped"):
            series.update(until=day(3), source=table, today=TODAY)
    # The table has changed meanwhile, but what was counted stays.
    assert series.update(until=day(3), source=events([]), today=TODAY) == (day(1), day(2))
    account, receipt = series._charge_once()
    assert account.released(receipt, part=day(1)) == asked[1][1]
    assert counted(series) == {"x": [1, 0, 0], "y": [0, 1, 0]}


def test_a_lost_state_ends_the_series_with_a_clear_word(opened):
    series = opened(domain=["x"])
    series.update(until=day(2), source=events([("a", "x", 0)]), today=TODAY)
    shown = series.view().to_dict()
    os.unlink(series.opening.state)
    with pytest.raises(InvalidParameter, match=r"lost or older than its releases.*ends here"):
        series.update(until=day(3), source=events([("a", "x", 0)]), today=TODAY)
    assert series.view().to_dict() == shown


def test_a_state_from_a_backup_that_is_too_old_is_refused(opened, tmp_path):
    series = opened(domain=["x"])
    series.update(until=day(1), source=events([("a", "x", 0)]), today=TODAY)
    shutil.copy(series.opening.state, tmp_path / "old.db")
    series.update(until=day(2), source=events([("b", "x", 1)]), today=TODAY)
    with pytest.raises(InvalidParameter, match="lost or older"):
        series.update(until=day(3), source=events([("b", "x", 1)]), state=str(tmp_path / "old.db"), today=TODAY)


def test_of_two_copies_of_a_state_one_goes_on(opened, tmp_path):
    """Both would count the next period with noise of their own; the first release stays, and the other is refused."""
    series = opened(domain=["x"])
    series.update(until=day(1), source=events([("a", "x", 0)]), today=TODAY)
    copy = str(tmp_path / "copy.db")
    shutil.copy(series.opening.state, copy)
    table = events([("b", "x", 1)])
    series.update(until=day(2), source=table, today=TODAY)
    with pytest.raises(InvalidParameter, match="lost or older"):
        series.update(until=day(3), source=table, state=copy, today=TODAY)
    series.update(until=day(3), source=table, today=TODAY)


def test_the_state_of_another_series_is_refused(opened, tmp_path):
    opened("one", domain=["x"], state=str(tmp_path / "shared.db"))
    with pytest.raises(NameTaken, match="another series"):
        opened("two", domain=["x"], state=str(tmp_path / "shared.db"))


def test_the_file_of_a_state_is_for_its_owner_alone(opened, tmp_path):
    before = os.umask(0o000)
    try:
        series = opened(domain=["x"])
        series.update(until=day(1), source=events([("a", "x", 0)]), today=TODAY)
        files = [path for path in tmp_path.iterdir() if path.name.startswith("reach.live.db")]
    finally:
        os.umask(before)
    assert files
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in files)


def test_nothing_private_is_in_the_ledger_or_an_answer(opened, ledger):
    series = opened(contributions=2)
    table = events([(f"secret{number}", "x", 0) for number in range(500)] + [("secret1", "rare", 1)])
    series.update(until=day(3), source=table, today=TODAY)
    written = [entry.contents.text for entry in ledger.history("live:reach")] + [series.view().to_json()]
    assert not any("secret" in text or "rare" in text for text in written)
    assert [line.item for line in series.view().lines] == ["x"]


def test_private_items_appear_when_enough_users_have_them_with_their_whole_history(opened):
    series = opened(epsilon=3.0, contributions=1)
    least = series.totals.thresholds()[-1]
    many = 2 * math.ceil(least)
    rows = [(f"u{number}", "large", number * 6 // many) for number in range(many)]
    rows += [(f"v{number}", "small", 0) for number in range(2)]
    series.update(until=day(6), source=events(rows), today=TODAY)
    (line,) = series.view().lines
    assert line.item == "large"
    assert line.shown_from > day(0), "not before about half of them have it"
    assert len(line.values) == 6
    assert series.view().top(3, day(0)) == ()
    assert [each.item for each in series.view().top(3)] == ["large"]


def test_values_are_whole_not_negative_and_inside_their_intervals(opened):
    series = opened(domain=["x", "y"], epsilon=0.5)
    series.update(until=day(8), source=events([("a", "x", 0)]), today=TODAY)
    for window in (None, 1, 3):
        for line in series.view(window=window).lines:
            for value, (low, high) in zip(line.values, line.intervals, strict=True):
                assert type(value) is type(low) is type(high) is int
                assert 0 <= low <= value <= high


def test_totals_and_windows_are_close_to_the_truth(opened):
    series = opened(domain=["x"], epsilon=50.0, delta=1e-2, contributions=1)
    rows = [(f"u{number}", "x", number % 8) for number in range(8000)]
    series.update(until=day(8), source=events(rows), today=TODAY)
    (totals,), (windows,) = series.view().lines, series.view(window=3).lines
    assert np.allclose(totals.values, np.arange(1, 9) * 1000, atol=10)
    assert np.allclose(windows.values, [1000, 2000] + [3000] * 6, atol=10)


def test_an_account_pays_by_registered_draws_or_from_a_wallet(opened, ledger):
    ledger.open_setwise("ada", ["gaussian:5.0", "approx:0.0,1e-07", "pure:0.1"], delta=1e-6)
    series = opened("drawn", account="ada", epsilon=None, counts="gaussian:5.0", delta=1e-7)
    assert [format_use(use) for use in ledger.account("ada").status().left] == ["pure:0.1"]
    assert series.promise()[0] == ledger.account("ada").status().epsilon
    ledger.open_filter("bob", epsilon=2.0, delta=1e-6)
    opened("bought", account="bob", epsilon=1.0, delta=1e-6)  # of which a wallet sets aside 2% for failures
    assert ledger.account("bob").status().charges == 1
    with pytest.raises(BudgetExhausted):
        opened("more", account="bob", epsilon=2.0, delta=1e-6)
    ledger.open_filter("eve", epsilon=2.0, delta=1e-6, period="month")
    with pytest.raises(InvalidParameter, match="outlasts"):
        opened("monthly", account="eve", epsilon=1.0, delta=1e-6)


def test_a_preview_charges_nothing(opened, ledger):
    series = opened(domain=["x"], preview=True)
    assert series.promise()[0].upper <= 20.0
    assert list_live(ledger) == ()
    assert ledger.accounts() == ()
    assert not Path(series.opening.state).exists()


def test_a_frozen_account_releases_nothing_more(opened, ledger):
    series = opened(domain=["x"])
    ledger.freeze("live:reach", by="eve", reason="looks odd")
    with pytest.raises(BudgetExhausted, match="frozen"):
        series.update(until=day(1), source=events([]), today=TODAY)
    ledger.thaw("live:reach")
    assert series.update(until=day(1), source=events([]), today=TODAY) == (day(0),)


def test_a_closed_series_shows_what_it_released_and_releases_nothing_more(opened, ledger):
    series = opened(domain=["x"])
    series.update(until=day(1), source=events([("a", "x", 0)]), today=TODAY)
    shown = series.view().to_dict()
    series.close(by="ada")
    assert not Path(series.opening.state).exists()
    again = find_live(ledger, "reach")
    assert again.view().to_dict() == shown
    for closed in (series, again):
        with pytest.raises(InvalidParameter, match="was closed"):
            closed.update(until=day(2), source=events([]), today=TODAY)
        with pytest.raises(InvalidParameter, match="was closed"):
            closed.close()
    with pytest.raises(NameTaken):
        opened(domain=["x"])


def test_the_future_is_not_released(opened):
    series = opened(domain=["x"])
    with pytest.raises(InvalidParameter, match="lies in the future"):
        series.update(until=day(3), source=events([]), today=START)
    assert series.update(source=events([]), today=START) == ()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"every": "year"}, "every"),
        ({"periods": 0}, "periods"),
        ({"start": "yesterday"}, "start is a date"),
        ({"start": "2026-01-31", "every": "month"}, "months begin"),
        ({"contributions": 0}, "contributions"),
        ({"unit": "week"}, "unit"),
        ({"late_days": -1}, "late_days"),
        ({"purpose": "windows"}, "window"),
        ({"window": 3}, "window"),
        ({"domain": []}, "domain"),
        ({"epsilon": None}, "epsilon and delta"),
        ({"delta": None}, "epsilon and delta"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"account": "nobody"}, "nobody"),
        ({"item": "nothing"}, "nothing"),
        ({"at": "item"}, "dates or times|holds text"),
        ({"where": "item ="}, "constant|filter"),
        ({"where": "item = 'x') OR (item = 'y'"}, "filter"),
        ({"name": ""}, "name"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_charged(opened, ledger, wrong, said):
    with pytest.raises(SetwiseError, match=said):
        opened(**{"domain": ["x"], **wrong})
    assert ledger.accounts() == ()
    assert list_live(ledger) == ()


def test_a_column_of_numbers_is_refused_by_what_times_need(opened, ledger):
    """The refusal was about a comparison that nobody had written, at a character of it."""
    kinds = {"user": Kind.TEXT, "item": Kind.TEXT, "at": Kind.INTEGER}
    schema = Schema(tuple(Column(name=name, kind=kind) for name, kind in kinds.items()))
    with pytest.raises(SetwiseError, match="'at by day' needs a column of dates or times, and 'at' holds integer"):
        opened(domain=["x"], schema=schema)
    assert ledger.accounts() == ()


def test_an_unknown_series_or_item_is_named(opened, ledger):
    with pytest.raises(UnknownName, match="'other'"):
        find_live(ledger, "other")
    series = opened(domain=["x"])
    with pytest.raises(UnknownName, match="'z'"):
        series.view(items=["z"])


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.timestamp("s")])
def test_times_of_every_kind_fall_on_their_days(opened, kind):
    from setwise.analytics.engines.connect import open_engine

    plain = events([("a", "x", 0), ("b", "x", 1), ("c", "x", 3)])
    table = plain.set_column(2, "at", plain.column("at").cast(pa.timestamp("s")).cast(kind))
    with open_engine(table) as engine:
        schema = engine.describe()
    series = opened(domain=["x"], schema=schema)
    series.update(until=day(4), source=table, today=TODAY)
    assert counted(series) == {"x": [1, 1, 0, 1]}


def test_items_may_be_whole_numbers_and_bins(opened):
    from setwise.analytics.engines.connect import open_engine

    plain = events([("a", "x", 0), ("b", "x", 1), ("c", "x", 1)])
    table = plain.append_column("age", pa.array([31, 38, 44]))
    with open_engine(table) as engine:
        schema = engine.describe()
    series = opened(item="age by 10", domain=[30, 40], schema=schema)
    series.update(until=day(2), source=table, today=TODAY)
    assert counted(series) == {30: [1, 1], 40: [0, 1]}
    assert [line.item for line in series.view().lines] == [30, 40]


def test_a_filter_keeps_rows_of_the_period_for_which_it_holds(opened):
    series = opened(domain=["x", "y"], where="item = 'x' OR user = 'b'", late_days=0)
    series.update(until=day(1), source=events([("a", "x", 0), ("a", "y", 0), ("b", "y", 0)]), today=TODAY)
    series.update(until=day(2), source=events([("c", "x", 0), ("b", "x", 1), ("d", "y", 1)]), today=TODAY)
    assert counted(series) == {"x": [1, 1], "y": [1, 0]}


def test_the_view_is_json_and_csv(opened):
    series = opened(domain=["x", "y"])
    series.update(until=day(2), source=events([("a", "x", 0)]), today=TODAY)
    view = series.view()
    found = json.loads(view.to_json())
    assert {"name", "periods", "series", "epsilon", "delta", "spent"} <= set(found)
    assert found["periods"] == [day(0), day(1)]
    assert [set(line) for line in found["series"]] == [{"item", "values", "intervals"}] * 2
    lines = view.to_csv().splitlines()
    assert lines[0] == "period,item,value,low,high,measure"
    assert len(lines) == 5
    measure = "users from the first period up to each period. Each interval holds the exact number 95 times in 100. "
    assert all(line.endswith(f'{measure}Each user is protected, with all of their rows"') for line in lines[1:])


@pytest.mark.parametrize("items", [2, 9])
def test_the_picture_has_lines_with_bands(opened, tmp_path, items):
    pytest.importorskip("matplotlib")
    series = opened(domain=[f"item{number}" for number in range(items)])
    series.update(until=day(5), source=events([("a", "item1", 0)]), today=TODAY)
    picture = series.view().picture()
    visible = [axes for axes in picture.figure.axes if axes.get_visible()]
    assert len(visible) == (1 if items == 2 else items)
    picture.figure.canvas.draw()
    for axes in visible:  # of 13 panels, 12 had no dates
        dates = [label for label in axes.get_xticklabels() if label.get_visible() and label.get_text()]
        assert dates
    assert sum(len(axes.lines) for axes in visible) == sum(len(axes.collections) for axes in visible) == items
    if items == 2:
        legend = visible[0].get_legend()
        assert [text.get_text() for text in legend.get_texts()] == [line.item for line in series.view().top(2)]
        colours = [handle.get_color() for handle in legend.get_lines()]
        assert colours == [line.get_color() for line in visible[0].lines]
    picture.save(tmp_path / "reach.svg")
    assert (tmp_path / "reach.svg").stat().st_size > 0
    with pytest.raises(InvalidParameter, match="shows nothing yet"):
        opened("empty", domain=["x"]).view().picture()


@pytest.mark.parametrize("more", [0, 4])
def test_pictures_show_every_label_and_can_be_read(opened, tmp_path, more):
    """Labels that look like formulas, are hidden from legends or hold control characters do not spoil a picture."""
    pytest.importorskip("matplotlib")
    labels = ["_hidden", "$_$", "a$b$c", "\x1b[31m\0red", "-->\n<script>", "x" * 50]
    series = opened(domain=labels + [f"item{number}" for number in range(more)])
    series.update(until=day(2), source=events([("a", "$_$", 0)]), today=TODAY)
    picture = series.view().picture()
    picture.save(tmp_path / "reach.svg")
    picture.save(tmp_path / "reach.png")
    assert not (tmp_path / "reach.svg").read_text("utf-8").count("<script")
    xml.etree.ElementTree.parse(tmp_path / "reach.svg")
    visible = [axes for axes in picture.figure.axes if axes.get_visible()]
    texts = [text.get_text() for text in visible[0].get_legend().get_texts()] if not more else []
    texts += [axes.get_title(loc="left") for axes in visible] if more else []
    expected = {"_hidden", r"\$_\$", r"a\$b\$c", "\ufffd[31m\ufffdred", "--> <script>", "x" * 31 + "…"}
    assert expected <= set(texts)


def test_a_series_reads_its_table_from_a_file(ledger, tmp_path):
    import pyarrow.csv

    pyarrow.csv.write_csv(events([("a", "x", 0), ("b", "x", 1)]), tmp_path / "events.csv")
    series = open_live(
        ledger, "reach", str(tmp_path / "events.csv"), user="user", item="item", at="at", every="day", start=START,
        periods=3, contributions=1, epsilon=1.0, delta=1e-6, domain=["x"], state=str(tmp_path / "state.db"),
        source={"types": {"at": "timestamp"}},
    )  # fmt: skip
    assert find_live(ledger, "reach").update(today=TODAY) == (day(0), day(1), day(2))
    assert counted(series) == {"x": [1, 1, 0]}


def test_no_interval_claims_that_nobody_was_counted():
    """A window of one period showed `0 [0, 0]` where 6 users were counted: noise below its radius had been cut at 0."""
    terms = SimpleNamespace(name="s", every="week", unit="user", periods=1, shape=str, is_bounded=lambda: False)
    released = Released(labels=("a", "b"), noisy=np.array([[-40], [12]]), periods=(day(0),), shown_from=(0, 0))
    totals = SimpleNamespace(
        failure=None,
        uses=tuple,
        estimates=lambda noisy, _: noisy.astype(float),
        intervals=lambda noisy, *_: (noisy - 30.0, noisy + 30.0),
    )
    view = view_of(terms, totals, released, epsilon=None, delta=0, window=1)
    assert [line.values for line in view.lines] == [(0,), (12,)]
    assert [line.intervals for line in view.lines] == [((0, 30),), ((0, 42),)]
