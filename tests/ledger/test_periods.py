"""Calendar periods: a fresh budget in each, told apart by stored names, whatever clocks say."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.errors import BudgetExhausted, InvalidParameter
from setwise.ledger.terms import BudgetPeriod, parse_period
from tests.ledger.auditor import audit
from tests.ledger.examples import EXAMPLES
from tests.ledger.test_accounts import uses, written


def test_each_month_has_a_fresh_budget(ledger, clock, store_url):
    ledger.open_setwise("ada", ["pure:0.1x3"], delta=1e-6, period="month")
    account = ledger.account("ada")
    account.charge(uses("pure:0.1x3"), key="nov", request="q")
    with pytest.raises(BudgetExhausted, match="until month 2026-11 ends"):
        account.charge(uses("pure:0.1"), key="more", request="q")
    clock.move(days=16)
    status = account.status()
    assert status.period == "2026-12"
    assert written(status.left) == ["pure:0.1x3"]
    receipt = account.charge(uses("pure:0.1x2"), key="dec", request="q")
    assert receipt.period == "2026-12"
    assert written(account.status().left) == ["pure:0.1"]
    with pytest.raises(BudgetExhausted):
        account.charge(uses("pure:0.1x2"), key="more", request="q")
    assert set(audit(store_url)["ada"].drawn.items()) == {(("2026-11", "pure:0.1"), 3), (("2026-12", "pure:0.1"), 2)}


def test_filters_have_periods_too(ledger, clock, store_url):
    ledger.open_filter("bob", epsilon=1.0, delta=1e-6, period="day", rule="zcdp")
    account = ledger.account("bob")
    for day in range(3):
        (whole,) = account.status().left
        account.charge([whole], key=str(day), request="q")
        with pytest.raises(BudgetExhausted):
            account.charge(uses("gaussian:1000"), key="more", request="q")
        clock.move(days=1)
    audit(store_url)


def test_what_a_past_period_returns_stays_there(ledger, clock, store_url):
    ledger.open_setwise("ada", ["pure:0.1x3"], delta=1e-6, period="month")
    account = ledger.account("ada")
    old = account.charge(uses("pure:0.1x3"), key="nov", request="q")
    clock.move(days=16)
    account.charge(uses("pure:0.1x3"), key="dec", request="q")
    account.settle(old, answer="a", returned=uses("pure:0.1x3"))
    with pytest.raises(BudgetExhausted):
        account.charge(uses("pure:0.1"), key="more", request="q")
    assert audit(store_url)["ada"].drawn["2026-11", "pure:0.1"] == 0


def test_a_key_is_used_once_over_all_periods(ledger, clock):
    ledger.open_setwise("ada", ["pure:0.1x3"], delta=1e-6, period="month")
    account = ledger.account("ada")
    account.settle(account.charge(uses("pure:0.1"), key="k", request="q"), answer="a")
    clock.move(days=16)
    assert account.charge(uses("pure:0.1"), key="k", request="q").answer == "a"
    assert written(account.status().left) == ["pure:0.1x3"]


@pytest.mark.parametrize("ahead", [timedelta(seconds=11), timedelta(days=40), timedelta(days=4000)])
@pytest.mark.parametrize("period", [None, "month"])
def test_a_clock_that_ran_ahead_blocks_nobody(ledger, clock, store_url, ahead, period):
    ledger.open_setwise("ada", ["pure:0.1x3"], delta=1e-6, period=period)
    account = ledger.account("ada")
    clock.moment += ahead
    account.charge(uses("pure:0.1"), key="early", request="q")
    clock.moment -= ahead
    account.charge(uses("pure:0.1x2"), key="in time", request="q")
    assert account.status().period == ("" if period is None else "2026-11")
    assert len(audit(store_url)["ada"].charges) == 2
    assert not ledger.verify().faults


def test_no_period_is_drawn_twice_whatever_clocks_say(ledger, clock, store_url):
    """Each draw is charged to the period that its own clock names, so wrong clocks draw early or late, never more."""
    ledger.open_setwise("ada", ["pure:0.1x3"], delta=1e-6, period="month")
    account = ledger.account("ada")
    granted = Counter()
    for number, days in enumerate([0, 40, -40, 0, 40, 0, -40, 40, 80] * 3):
        clock.moment += timedelta(days=days)
        try:
            granted[account.charge(uses("pure:0.1"), key=str(number), request="q").period] += 1
        except BudgetExhausted:
            assert granted[f"{clock.moment:%Y-%m}"] == 3
        clock.moment -= timedelta(days=days)
    assert max(granted.values()) == 3
    assert len(granted) == 4
    audit(store_url)
    assert not ledger.verify().faults


def test_settling_never_waits_for_the_clock(ledger, clock):
    ledger.open_setwise("ada", ["pure:0.1x3"], delta=1e-6, period="month")
    account = ledger.account("ada")
    receipt = account.charge(uses("pure:0.1"), key="k", request="q")
    clock.move(days=-40)
    assert account.settle(receipt, answer="a", returned=uses("pure:0.1")) == "a"
    assert not ledger.verify().faults


@EXAMPLES
@given(
    st.sampled_from(BudgetPeriod),
    st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
    st.timedeltas(timedelta(0), timedelta(days=800)),
)
def test_names_of_periods_sort_as_time_does(period, moment, later):
    assert period.of(moment) <= period.of(moment + later)


@pytest.mark.parametrize(
    ("period", "names"),
    [
        ("day", ["2026-12-31", "2027-01-01", "2027-01-04"]),
        ("week", ["2026-W53", "2026-W53", "2027-W01"]),
        ("month", ["2026-12", "2027-01", "2027-01"]),
        ("quarter", ["2026-Q4", "2027-Q1", "2027-Q1"]),
        ("year", ["2026", "2027", "2027"]),
    ],
)
def test_periods_end_with_the_calendar(period, names):
    moments = [
        datetime(2026, 12, 31, 23, 59, tzinfo=UTC),
        datetime(2027, 1, 1, tzinfo=UTC),
        datetime(2027, 1, 4, tzinfo=UTC),
    ]
    assert [BudgetPeriod(period).of(moment) for moment in moments] == names


def test_unknown_periods_are_refused():
    with pytest.raises(InvalidParameter, match="fortnight"):
        parse_period("fortnight")


def test_a_clock_without_a_time_zone_is_refused(ledger, clock):
    ledger.open_setwise("ada", ["pure:0.1x3"], delta=1e-6)
    clock.moment = datetime(2026, 11, 15)
    with pytest.raises(InvalidParameter, match="time zone"):
        ledger.account("ada").charge(uses("pure:0.1"), key="k", request="q")
