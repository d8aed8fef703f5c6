"""Every engine adds up the same whole numbers: clipped, rounded, of nulls, of what is no number, of the largest."""

import math
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from setwise.analytics.bins import parse_group
from setwise.analytics.engines import bounding
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.duckdb.query import DuckDBEngineQuery
from setwise.analytics.engines.expressions import LARGEST_UNITS, UNITS
from setwise.analytics.engines.spark.dialect import SparkDialect
from setwise.analytics.measure import Measure
from setwise.analytics.schema import Column, Kind
from tests.analytics.engines.backends import Backend, DuckDBBackend
from tests.analytics.engines.truth import is_missing

MEASURES = (
    Measure(most=2),
    Measure(column="whole", least=-50, most=70),
    Measure(column="whole", step=Fraction(7), least=-9, most=9),
    Measure(column="real", step=Fraction(1, 4), least=-200, most=200),
    Measure(column="real", averaged=True, origin=Fraction(1, 2), step=Fraction(1, 10), least=-20, most=20),
    Measure(column="real", averaged=True, origin=Fraction(-3), step=Fraction(1, 3), most=18, in_cells=True),
    Measure(column="whole", averaged=True, origin=Fraction(-5), most=10, in_cells=True),
    Measure(column="price", step=Fraction(1, 2), least=-8, most=8),
    Measure(column="narrow", averaged=True, origin=Fraction(10**6), step=Fraction(1, 1000), least=-999, most=999),
    Measure(column="real", averaged=True, rows=2, origin=Fraction(1, 2), step=Fraction(1, 10), least=-20, most=20),
    Measure(column="whole", averaged=True, rows=3, origin=Fraction(1, 2), step=Fraction(1, 3), least=-50, most=50),
    Measure(
        column="real",
        averaged=True,
        rows=2,
        squared=True,
        origin=Fraction(1, 2),
        step=Fraction(1, 8),
        least=-80,
        most=80,
    ),
    Measure(
        column="whole", averaged=True, rows=1, squared=True, origin=Fraction(2), step=Fraction(1, 3), least=-9, most=9
    ),
    Measure(column="real", counted=True, most=3),
    Measure(column="group", counted=True, most=2),
)
PLACES = {"group": 1, "whole": 3, "real": 4, "price": 5, "narrow": 6}
KINDS = {
    "who": pa.int64(),
    "group": pa.string(),
    "plan": pa.int64(),
    "whole": pa.int64(),
    "real": pa.float64(),
    "price": pa.decimal128(20, 6),
    "narrow": pa.float32(),
}

BINNED = (parse_group("whole by 10"), "plan")


def rows(users=60, seed=0):
    """Rows of users with several groups, among them nothing, what is no number, halves, and the largest there are."""
    random = np.random.default_rng(seed)
    odd = [None, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.125, -0.125, 0.375, 0.05, 0.15, -0.0]
    for user in range(users):
        for _ in range(int(random.integers(1, 8))):
            whole = random.choice([None, -(2**63), 2**63 - 1, *range(-40, 40)])
            real = odd[int(random.integers(len(odd)))] if random.random() < 0.4 else float(random.normal(0, 3))
            group = f"g{random.integers(0, 5)}" if random.random() > 0.1 else None
            prices = [None, Decimal("99999999999999.999999"), Decimal("0.25"), Decimal("-0.25"), Decimal("1.75")]
            price = prices[int(random.integers(len(prices)))]
            narrow = None if random.random() < 0.1 else float(np.float32(10**6 + random.normal()))
            plan = int(random.integers(0, 3))
            yield user, group, plan, None if whole is None else int(whole), real, price, narrow


def table(lines):
    columns = zip(zip(*lines, strict=True), KINDS.values(), strict=True)
    return pa.table([pa.array(cells, kind) for cells, kind in columns], list(KINDS))


def added(measure, lines):
    """What one user's rows in a group add by a measure; None for nothing."""
    if measure.column is None:
        return min(len(lines), measure.most)
    values = [line[PLACES[measure.column]] for line in lines]
    if measure.counted:
        return min(sum(not is_missing(value) for value in values), measure.most)
    values = [value for value in values if value is not None and not math.isnan(value)]
    if not values:
        return None
    if measure.rows is not None:
        low, high = (float(measure.origin + end * measure.step) for end in (measure.least, measure.most))
        unit = float(measure.step / UNITS)
        near = [min(max(float(value), low), high) for value in values]
        units = [math.floor((value - float(measure.origin)) / unit + 0.5) for value in near]
        if measure.squared:
            most = float(measure.most * UNITS)
            units = [math.floor(2.0 * value * value / most - most + 0.5) for value in map(float, units)]
        total = sum(units)
        counted = min(len(values), measure.rows)
        return math.floor(Fraction(total, len(values) * UNITS) * counted + Fraction(1, 2))
    if measure.column == "whole":
        exact = Fraction(sum(values), len(values) if measure.averaged else 1)
        number = math.floor((exact - measure.origin) / measure.step + Fraction(1, 2))
    else:
        taken = [each for each in MEASURES if each.column == measure.column and not (each.rows or each.counted)]
        unit = min(each.step for each in taken) / UNITS
        origin = taken[0].origin if all(each.averaged for each in taken) else 0
        far = float(LARGEST_UNITS * unit)
        near = [min(max(float(value), float(origin) - far), float(origin) + far) for value in values]
        total = sum(math.floor((value - float(origin)) / float(unit) + 0.5) for value in near)
        exact = Fraction(total, len(values) if measure.averaged else 1) * unit + origin
        number = math.floor((exact - measure.origin) / measure.step + Fraction(1, 2))
    return int(min(max(number, measure.least), measure.most))


def expected(lines, groups):
    pairs = defaultdict(list)
    for line in lines:
        if None not in groups(line):
            label = groups(line)
            pairs[line[0], label if len(label) > 1 else label[0]].append(line)
    users = defaultdict(int)
    totals, numbers, cells = ([defaultdict(int) for _ in MEASURES] for _ in range(3))
    for (_, label), own in pairs.items():
        users[label] += 1
        for place, measure in enumerate(MEASURES):
            number = added(measure, own)
            if number is not None and measure.in_cells:
                cells[place][label, number] += 1
            elif number is not None:
                totals[place][label] += number
                values = [line[PLACES[measure.column]] for line in own] if measure.rows else []
                there = sum(value is not None and not math.isnan(value) for value in values)
                numbers[place][label] += min(there, measure.rows) if measure.rows else 1
    return users, totals, numbers, cells


def check(found, wanted):
    users, totals, numbers, cells = wanted
    assert dict(zip(found.users.labels, found.users.counts.tolist(), strict=True)) == users
    for place, measure in enumerate(MEASURES):
        got = {label: number for label, number in found.numbers[place].items() if number}
        assert got == numbers[place], measure
        assert {label: found.totals[place][label] for label in got} == totals[place], measure
        held = {
            (label, measure.least + int(cell)): int(counts[cell])
            for label, counts in found.cells[place].items()
            for cell in np.flatnonzero(counts)
        }
        assert held == cells[place], measure


GROUPS = [("group", lambda line: (line[1],)), (("group", "plan"), lambda line: (line[1], line[2]))]


def test_every_engine_adds_up_the_same_whole_numbers(backend: Backend):
    lines = list(rows())
    with backend.engine(table(lines)) as engine:
        for item, groups in GROUPS:
            check(engine.statistics(Aggregation(user="who", item=item, measures=MEASURES)), expected(lines, groups))


def test_equal_measures_in_cells_are_counted_once_and_read_alike(backend: Backend):
    """As those of several quantiles of a column are."""
    lines = list(rows())
    (celled,) = (each for each in MEASURES if each.in_cells and each.column == "whole")
    measures = (celled, MEASURES[0], celled, celled)
    with backend.engine(table(lines)) as engine:
        found = engine.statistics(Aggregation(user="who", item="group", contributions=2, measures=measures))
        assert [dict(each) for each in found.numbers[2:]] == [{}, {}]
        for label, counts in found.cells[0].items():
            assert counts.sum() > 0
            assert all((each[label] == counts).all() for each in found.cells[2:])
        assert len(found.cells[0]) == 5
        assert len(found.totals[1]) == 5


@pytest.mark.parametrize(("contributions", "pooled"), [(1, True), (3, False)])
def test_rows_that_are_numbered_add_up_to_the_same_as_rows_that_are_grouped(
    tmp_path, monkeypatch: pytest.MonkeyPatch, contributions: int, pooled: bool
):
    lines = list(rows(seed=2)) * 3
    with DuckDBBackend(tmp_path).engine(table(lines), lambda: 7) as engine:
        for item in ("group", ("group", "plan"), BINNED):
            asked = Aggregation(user="who", item=item, contributions=contributions, measures=MEASURES, pooled=pooled)
            found = []
            for threshold in (0.0, 1e9):
                monkeypatch.setattr(bounding, "MOST_ADDED_ROWS_PER_PAIR", threshold)
                found.append(engine.statistics(asked))
            grouped, numbered = found
            users = dict(zip(grouped.users.labels, grouped.users.counts.tolist(), strict=True))
            assert users == dict(zip(numbered.users.labels, numbered.users.counts.tolist(), strict=True))
            assert (grouped.totals, grouped.numbers) == (numbered.totals, numbered.numbers)
            for one, other in zip(grouped.cells, numbered.cells, strict=True):
                assert all((one[label] == other[label]).all() for label in users)


@pytest.mark.parametrize(("item", "groups"), GROUPS)
def test_parts_of_the_users_add_up_to_the_same(tmp_path, item, groups):
    lines = list(rows())
    aggregation = Aggregation(user="who", item=item, measures=MEASURES)
    with DuckDBBackend(tmp_path).engine(table(lines), lambda: 7) as engine, engine._running_on(0) as cursor:
        words = {"salt": 7, "hashes": engine._hashes, "rows": len(lines), "parts": 3}
        found = DuckDBEngineQuery(aggregation, engine._table, engine.describe(), cursor, **words).statistics()
    check(found, expected(lines, groups))


def test_what_a_user_adds_does_not_depend_on_the_order_of_rows(backend: Backend):
    """In floating point 0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1, and the sum would round either way."""
    values = [1e15, 0.3, -1e15, 0.2, 1e-3, 0.1] * 50
    measure = Measure(column="real", step=Fraction(1), least=-(2**40), most=2**40)
    aggregation = Aggregation(user="who", measures=(measure,))
    found = set()
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(values))
        shuffled = pa.table({"who": [1] * len(values), "real": np.array(values)[order]})
        with backend.engine(shuffled) as engine:
            found.add(engine.statistics(aggregation).totals[0]["all"])
    assert found == {30}


def test_sums_of_integers_are_exact_whatever_their_bounds(backend: Backend):
    """Floating point holds 2^53 and 2^53 + 2, but not what is between them."""
    rows = pa.table({"who": [1, 1, 2], "whole": [2**53, 1, 2**53 - 1]})
    bounds = [(0, 2**60), (0, 2**53), (-(2**53), 2**53 - 1), (0, 2**53 + 1)]
    measures = tuple(Measure(column="whole", least=least, most=most) for least, most in bounds)
    with backend.engine(rows) as engine:
        for measure in measures:  # each by itself: measures of a column share what its rows add up
            found = engine.statistics(Aggregation(user="who", measures=(measure,))).totals[0]["all"]
            assert found == sum(min(own, measure.most) for own in (2**53 + 1, 2**53 - 1))
        together = engine.statistics(Aggregation(user="who", measures=measures)).totals
    assert [each["all"] for each in together] == [2**54, 2**54 - 1, 2**54 - 2, 2**54]


@pytest.mark.parametrize(
    ("item", "contributions"), [(("group", "plan"), 1), (("group", "plan"), None), (BINNED, 2), (BINNED, None)]
)
def test_one_user_changes_few_groups_and_each_by_little(backend: Backend, item, contributions):
    lines = list(rows(seed=1))
    aggregation = Aggregation(user="who", item=item, contributions=contributions, measures=MEASURES)
    for gone in (3,) if backend.name == "spark" else range(0, 60, 20):
        found = []
        for left in (lines, [line for line in lines if line[0] != gone]):
            with backend.engine(table(left), salts=lambda: 7) as engine:
                found.append(engine.statistics(aggregation))
        one, other = found
        labels = set(one.users.labels) | set(other.users.labels)
        changed = set()
        for place, measure in enumerate(MEASURES):
            reach = max(abs(measure.least), abs(measure.most)) * (measure.rows or 1)
            none = np.zeros(measure.most - measure.least + 1)
            for label in labels:
                moved = one.totals[place].get(label, 0) - other.totals[place].get(label, 0)
                more = one.numbers[place].get(label, 0) - other.numbers[place].get(label, 0)
                cells = one.cells[place].get(label, none) - other.cells[place].get(label, none)
                assert abs(moved) <= reach
                assert 0 <= more <= (measure.rows or 1)
                assert (cells >= 0).all()
                assert cells.sum() <= 1
                if moved or more or cells.any():
                    changed.add(label)
        assert contributions is None or len(changed) <= contributions


def test_one_user_changes_one_count_of_what_finds_bounds(backend: Backend):
    lines = list(rows(seed=1))
    kinds = {"averaged": True, "doubling": True, "in_cells": True}
    looked_for = [Measure(column=name, step=Fraction(1, 4), least=-85, most=85, **kinds) for name in ("real", "whole")]
    looked_for += [replace(each, averaged=False, extreme=end) for each in looked_for for end in (-1, 1)]
    measures = (*looked_for, Measure(groups=True, least=1, most=8, in_cells=True))
    aggregation = Aggregation(user="who", item=("group", "plan"), contributions=1, measures=measures, pooled=True)
    found = []
    for left in (lines, [line for line in lines if line[0] != 3]):
        with backend.engine(table(left), salts=lambda: 7) as engine:
            found.append(engine.statistics(aggregation))
    for place in range(len(measures)):
        moved = found[0].cells[place]["all"] - found[1].cells[place]["all"]
        assert (moved >= 0).all()
        assert moved.sum() <= 1


def test_means_over_rows_are_those_of_all_choices_of_rows(backend: Backend):
    """A user adds what their rows would add in the mean over all choices of so many of them, rounded once."""
    owned = {1: [0, 10], 2: [1, 1, 7], 3: [-4, 99, 3, 3, 3], 4: [2], 5: [10, 0, 0, 0, 1, 5]}
    lines = pa.table(
        {"u": [user for user, own in owned.items() for _ in own], "x": [each for own in owned.values() for each in own]}
    )
    for per_user in (1, 2, 4):
        measure = Measure(
            column="x", averaged=True, rows=per_user, origin=Fraction(5), step=Fraction(1, 2**7), least=-640, most=640
        )
        with backend.engine(lines) as engine:
            found = engine.statistics(Aggregation(user="u", measures=(measure,)))
        chosen, number = Fraction(0), 0
        for own in owned.values():
            clipped = [min(max(each, 0), 10) - 5 for each in own]
            choices = list(combinations(clipped, min(len(own), per_user)))
            chosen += Fraction(sum(map(sum, choices)), len(choices))
            number += min(len(own), per_user)
        assert found.numbers[0]["all"] == number
        assert abs(found.totals[0]["all"] * measure.step - chosen) <= len(owned) * measure.step / 2


def doubled(number):
    if abs(number) <= 2**-20:
        return 0
    return int(math.copysign(min(max(math.ceil(math.log2(abs(number)) - 1e-9), -19), 65) + 20, number))


def test_every_engine_finds_the_same_doubling_bins(backend: Backend):
    values = [None, math.nan, 0.0, 1e-9, -1e-9, 2**-20, 1.0, 2.0, 2.0001, -8.0, -7.9, 1e30, -math.inf, 2.0**39]
    values += [2.0**40, 2.0**40 + 300, 3e12, -1.7e18, 2.0**64, 2.0**64 * 1.001, 1e200]
    numbers = pa.table({"u": range(len(values)), "x": pa.array(values, pa.float64()), "g": [1] * len(values)})
    looked_for = Measure(
        column="x", averaged=True, doubling=True, step=Fraction(1, 4), least=-85, most=85, in_cells=True
    )
    groups = Measure(groups=True, least=1, most=3, in_cells=True)
    pooled = Aggregation(user="u", item="g", contributions=1, measures=(looked_for, groups), pooled=True)
    with backend.engine(numbers) as engine:
        found = engine.statistics(pooled)
    wanted = np.zeros(171, np.int64)
    for value in values:
        if value is not None and not math.isnan(value):
            wanted[85 + doubled(min(max(value, -(2.0**65)), 2.0**65))] += 1
    assert found.cells[0]["all"].tolist() == wanted.tolist()
    assert found.cells[1]["all"].tolist() == [len(values), 0, 0]
    several = pa.table({"u": [1, 1, 1, 2, 2, 3] + [4] * 9, "x": [1.0] * 15, "g": [1, 2, 2, 1, 2, 5, *range(9)]})
    with backend.engine(several) as engine:
        assert engine.statistics(pooled).cells[1]["all"].tolist() == [1, 2, 1]


NARROW = (
    (Measure(column="x", averaged=True, origin=Fraction(10**6), step=Fraction("1e-9"), least=-999, most=999),),
    (Measure(column="x", averaged=True, origin=Fraction("100.000000000000006"), step=Fraction("5e-28"), most=99),),
    (
        Measure(column="x", averaged=True, origin=Fraction("100.000000000000005"), step=Fraction("1e-17"), most=99),
        Measure(column="x", averaged=True, step=Fraction("9.7e-28"), most=99, in_cells=True),
    ),
    (
        Measure(
            column="x",
            averaged=True,
            rows=2,
            origin=Fraction("100.000000000000007"),
            step=Fraction("1e-27"),
            most=2**38,
        ),
    ),
)
"""Bounds so near to each other that 64 bits do not hold how many units most numbers are away from them."""


@pytest.mark.parametrize("measures", NARROW)
def test_bounds_that_are_close_to_each_other_fail_on_no_row(backend: Backend, measures: tuple[Measure, ...]):
    def found(values):
        lines = pa.table({"u": list(range(len(values))), "x": pa.array(values, pa.float64())})
        with backend.engine(lines) as engine:
            return engine.statistics(Aggregation(user="u", measures=measures))

    assert found([50.0, 99.0]).users.counts.tolist() == [2]
    assert found([50.0, 99.0, 0.0, 5e-324, 150.0, -math.inf, math.inf]).users.counts.tolist() == [7]


@pytest.mark.parametrize("kind", [Kind.FLOAT, Kind.DECIMAL, Kind.INTEGER])
def test_null_is_no_number_where_bounds_pass_it_over(kind):
    """Spark's rule for null without a JVM: DuckDB runs Spark's expression, given Spark's isnan.

    In both, GREATEST and LEAST pass null over, so that a null would count as a bound unless it is left out first. But
    isnan of null is false in Spark, and null in DuckDB.
    """
    expression = SparkDialect().number(Column(name="x", kind=kind), "-5", "7").replace("`", '"')
    with duckdb.connect() as connection:
        connection.execute("CREATE MACRO spark_isnan(number) AS COALESCE(isnan(number), FALSE)")
        rows = connection.execute(
            f"SELECT {expression.replace('isnan', 'spark_isnan')} FROM (VALUES (NULL), (3), (9), (-9), (7)) AS t(x)"
        ).fetchall()
        assert [value for (value,) in rows] == [None, 3, 7, -5, 7]
        if kind is Kind.FLOAT:
            ((value,),) = connection.execute(
                f"SELECT {expression.replace('isnan', 'spark_isnan')} FROM (VALUES ('nan'::DOUBLE)) AS t(x)"
            ).fetchall()
            assert value is None
