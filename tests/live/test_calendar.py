"""Periods of days, weeks and months follow each other without gaps, and every day belongs to one of them."""

from datetime import date, timedelta

import pytest

from setwise.errors import InvalidParameter
from setwise.live.calendar import Calendar, PeriodLength

STARTS = [date(2026, 1, 1), date(2024, 2, 28), date(2023, 12, 15), date(2025, 3, 28)]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("every", PeriodLength)
def test_every_day_belongs_to_the_period_that_has_begun_last(every, start):
    calendar = Calendar(every=every, start=start, periods=30)
    begins = [calendar.begins(place) for place in range(31)]
    assert (begins[0], begins[-1]) == (start, calendar.end)
    day, place = start, 0
    while day < calendar.end:
        place += day == begins[place + 1]
        assert calendar.place_of(day) == place
        assert calendar.closed(day) == place, "a day that has only begun closes no period"
        day += timedelta(days=1)
    assert place == 29
    assert calendar.closed(calendar.end) == 30
    assert calendar.closed(calendar.end + timedelta(days=400)) == 30
    assert calendar.closed(start - timedelta(days=1)) == 0
    assert calendar.place_of(start - timedelta(days=1)) == -1


def test_weeks_begin_on_the_weekday_of_the_first_day_and_months_on_its_number():
    weeks = Calendar(every=PeriodLength.WEEK, start=date(2026, 1, 1), periods=60)
    assert {day.weekday() for day in weeks.dates(60)} == {date(2026, 1, 1).weekday()}
    months = Calendar(every=PeriodLength.MONTH, start=date(2024, 1, 28), periods=14)
    assert [day.isoformat() for day in months.dates(3)] == ["2024-01-28", "2024-02-28", "2024-03-28"]
    assert months.end == date(2025, 3, 28)


@pytest.mark.parametrize(
    ("every", "start", "periods"),
    [("month", date(2026, 1, 29), 2), ("day", date(9999, 12, 1), 40), ("week", date(2026, 1, 1), 0)],
)
def test_periods_that_do_not_exist_are_refused(every, start, periods):
    with pytest.raises(InvalidParameter):
        Calendar(every=every, start=start, periods=periods)
