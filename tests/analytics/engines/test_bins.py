"""Bins of numbers and of time: the same labels on every engine, below zero, at the ends, and of what is in no bin."""

import math
from collections import Counter
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest

from setwise.analytics.bins import ConsecutiveTime, Group, RecurringTime, TimeUnit, Width, group_of, parse_group
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import InvalidParameter, UnsuitableTable
from tests.analytics.engines.backends import Backend
from tests.analytics.engines.reference import as_dict

WHOLE = [None, 0, 9, 10, -1, -10, -11, 2**53, 2**53 + 1, -(2**63), 2**63 - 1]
REAL = [None, math.nan, math.inf, -math.inf, 1e300, 5e-324, -5e-324, 0.29, 9.99, 10.0, -0.5, -10.0]
PRICE = [None, *(Decimal(text) for text in ("0.29", "0.30", "-0.01", "9.99", "99999.99"))]
DAYS = [
    None,
    *(date(*each) for each in ((1, 1, 1), (9999, 12, 31), (1969, 12, 31), (2024, 2, 29), (2026, 1, 1), (2027, 1, 3))),
]
CLOCKS = [None if day is None else datetime(day.year, day.month, day.day, 23, 59, 59, 999999) for day in DAYS]
OSLO = timezone(timedelta(hours=2))
INSTANTS = [None if clock is None else clock.replace(tzinfo=UTC) for clock in CLOCKS]
INSTANTS[-1] = datetime(2027, 1, 4, 0, 30, tzinfo=OSLO)  # still Sunday in UTC


def table() -> pa.Table:
    """Every value under a user of its own."""
    columns = {
        "whole": pa.array(WHOLE, pa.int64()),
        "real": pa.array(REAL, pa.float64()),
        "price": pa.array(PRICE, pa.decimal128(9, 2)),
        "day": pa.array(DAYS, pa.date32()),
        "clock": pa.array(CLOCKS, pa.timestamp("us")),
        "instant": pa.array(INSTANTS, pa.timestamp("us", tz="UTC")),
    }
    rows = max(map(len, columns.values()))
    padded = {name: pa.concat_arrays([each, pa.nulls(rows - len(each), each.type)]) for name, each in columns.items()}
    return pa.table({"u": list(range(rows)), **padded})


def number_bins(values, width):
    """The lower ends, by rational arithmetic on what the shortest decimals of floats say."""
    found = Counter()
    for value in values:
        if value is None or not math.isfinite(value) or abs(value) > 2**53 // (1 if width.denominator == 1 else 10):
            continue
        end = math.floor(Fraction(str(value)) / width + (0 if type(value) is int else Fraction(1, 10**9))) * width
        places = 1 if width == Fraction(1, 2) else 2
        found[int(end) if width.denominator == 1 else f"{float(end):.{places}f}"] += 1
    return found


def part(unit, moment):
    match unit:
        case TimeUnit.QUARTER:
            return (moment.month + 2) // 3
        case TimeUnit.WEEK:
            return moment.isocalendar().week
        case TimeUnit.WEEKDAY:
            return moment.isoweekday()
        case _:
            return getattr(moment, unit)


def period(unit, moment):
    day = date(moment.year, moment.month, moment.day)
    match unit:
        case TimeUnit.YEAR:
            return f"{day.year:04}"
        case TimeUnit.QUARTER:
            return f"{day.year:04}-Q{part(unit, day)}"
        case TimeUnit.MONTH:
            return f"{day.year:04}-{day.month:02}"
        case TimeUnit.WEEK:
            return str(day - timedelta(days=day.weekday()))
        case TimeUnit.DAY:
            return str(day)
        case TimeUnit.HOUR:
            return f"{day} {moment.hour:02}:00"


def wanted(text):
    group = parse_group(text)
    match group:
        case Group("whole" | "real" | "price" as name, Width(width)):
            return number_bins({"whole": WHOLE, "real": REAL, "price": PRICE}[name], width)
        case Group(name, ConsecutiveTime(unit) | RecurringTime(unit) as chosen):
            values = {"day": DAYS, "clock": CLOCKS, "instant": INSTANTS}[name]
            utc = [each.astimezone(UTC) if getattr(each, "tzinfo", None) else each for each in values if each]
            return Counter((period if isinstance(chosen, ConsecutiveTime) else part)(unit, each) for each in utc)


UNITS = [unit for unit in TimeUnit if unit is not TimeUnit.WEEKDAY]
BINS = [
    *(f"{name} by {width}" for name in ("whole", "real", "price") for width in (1, 10, 7)),
    *("whole by 0.5", "real by 0.01", "price by 0.05", "price by 0.25"),
    *(f"{name} by {unit}" for name in ("day", "clock", "instant") for unit in UNITS),
    *(f"{unit} of {name}" for name in ("day", "clock", "instant") for unit in TimeUnit),
]


@pytest.fixture(autouse=True)
def elsewhere(request):
    """Spark's session in another time zone, which bins must not notice."""
    if "spark" not in request.node.name:
        yield
        return
    settings = request.getfixturevalue("spark_session").conf
    before = settings.get("spark.sql.session.timeZone")
    settings.set("spark.sql.session.timeZone", "America/New_York")
    yield
    settings.set("spark.sql.session.timeZone", before)


def test_every_engine_has_the_same_bins(backend: Backend):
    few = ["whole by 7", "price by 0.05", "instant by week", "hour of instant", "weekday of clock", "day by quarter"]
    with backend.engine(table()) as engine:
        schema = engine.describe()
        for text in few if backend.name == "spark" else BINS:
            group = group_of(text, schema)
            if group.column == "day" and "hour" in text:
                with pytest.raises(UnsuitableTable, match="no hour"):
                    engine.check(Aggregation(user="u", item=group))
                continue
            found = engine.histogram(Aggregation(user="u", item=group))
            assert as_dict(found.labels, found.counts) == wanted(text), text


def test_bins_go_with_domains_missing_labels_and_other_columns(backend: Backend):
    with backend.engine(table()) as engine:
        age, month = parse_group("whole by 10"), parse_group("clock by month")
        rest = Aggregation(user="u", item=age, null_item=-1, domain=(0, -10, -1))
        found = engine.histogram(rest)
        assert as_dict(found.labels, found.counts) == {0: 2, -10: 2, -1: len(WHOLE) + 1 - 7 + 0}
        both = engine.histogram(Aggregation(user="u", item=(age, month), domain=((0, "0001-01"), (9, "2024-02"))))
        assert as_dict(both.labels, both.counts) == {(0, "0001-01"): 1}
        named = engine.histogram(Aggregation(user="u", item=(age, month), null_item=(-1, "none")))
        pairs = as_dict(named.labels, named.counts)
        for place, (group, missing) in enumerate(((age, -1), (month, "none"))):
            alone = engine.histogram(Aggregation(user="u", item=group, null_item=missing))
            of_pairs = Counter()  # every row has a user of its own
            for pair, count in pairs.items():
                of_pairs[pair[place]] += count
            assert of_pairs == as_dict(alone.labels, alone.counts)
            assert of_pairs[missing] > 0


def test_the_text_of_a_group_is_read_back():
    for group in (
        Group("age"),
        Group("month of at"),
        Group("stand by 10", Width(Fraction(1, 2))),
        Group('a "b" by day', RecurringTime(TimeUnit.WEEK)),
        Group("at", ConsecutiveTime(TimeUnit.HOUR)),
        Group("x by 10", RecurringTime(TimeUnit.WEEKDAY)),
    ):
        assert parse_group(str(group)) == group
    schema = Schema((Column(name="month of at", kind=Kind.TEXT),))
    assert group_of("month of at", schema) == Group("month of at")


@pytest.mark.parametrize("text", ["age by 0", "age by 1e3", "age by 0.0000000001", "age by weekday"])
def test_impossible_bins_are_refused_or_columns(text):
    if text == "age by 1e3":
        assert parse_group(text) == Group(text)
    else:
        with pytest.raises(InvalidParameter, match=r"width|weekday"):
            parse_group(text)
