"""Measures by which one user adds to several cells: units divided among cells, and distinct values that are kept."""

import math
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.measure import Measure
from setwise.analytics.query import EVERYTHING
from tests.analytics.engines.backends import Backend, DuckDBBackend

WEIGHT = 1000
CELLS = (
    Measure(column="real", weight=WEIGHT, origin=Fraction(-3), step=Fraction(1, 3), most=18, in_cells=True),
    Measure(column="whole", weight=WEIGHT, origin=Fraction(-5), most=10, in_cells=True),
)
DISTINCT = (
    Measure(column="word", distinct=2, in_cells=True),
    Measure(column="whole", distinct=3, in_cells=True),
    Measure(column="price", distinct=100, in_cells=True),
)
MEASURES = (Measure(most=2), CELLS[0], *DISTINCT, CELLS[1], CELLS[0])


def lines(users=60, seed=0):
    random = np.random.default_rng(seed)
    odd = [None, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.125, -0.0, 1 / 6]
    for user in range(users):
        for _ in range(int(random.integers(1, 12))):
            real = odd[int(random.integers(len(odd)))] if random.random() < 0.3 else float(random.normal(0, 3))
            whole = random.choice([None, -(2**63), 2**63 - 1, *range(-8, 8)])
            word = random.choice([None, "a", "A", "\u00e4", "", "b", "c", *map(str, range(20))])
            group = f"g{random.integers(0, 4)}" if random.random() > 0.1 else None
            price = int(random.integers(0, 9))
            yield user, group, None if whole is None else int(whole), real, word, price


def table(rows):
    kinds = {
        "who": pa.int64(),
        "group": pa.string(),
        "whole": pa.int64(),
        "real": pa.float64(),
        "word": pa.string(),
        "price": pa.int32(),
    }
    columns = zip(zip(*rows, strict=True), kinds.values(), strict=True)
    return pa.table([pa.array(cells, kind) for cells, kind in columns], list(kinds))


PLACES = {"whole": 2, "real": 3, "word": 4, "price": 5}


def units(measure, values):
    """The units that one user adds to each cell, by largest remainders; the lower cell first of equal ones."""
    there = [float(value) for value in values if value is not None and not math.isnan(value)]
    low, high = (float(measure.origin + end * measure.step) for end in (measure.least, measure.most))
    near = [min(max(value, low), high) for value in there]
    cells = Counter(math.floor((value - float(measure.origin)) / float(measure.step) + 0.5) for value in near)
    if not cells:
        return {}
    shares = {cell: divmod(WEIGHT * number, len(near)) for cell, number in cells.items()}
    more = WEIGHT - sum(base for base, _ in shares.values())
    first = sorted(shares, key=lambda cell: (-shares[cell][1], cell))[:more]
    return {cell: base + (cell in first) for cell, (base, _) in shares.items()}


def cells_of(found, place):
    return {
        (label, int(cell)): int(counts[cell])
        for label, counts in found.cells[place].items()
        for cell in np.flatnonzero(counts)
    }


def test_every_engine_divides_the_same_units_and_keeps_as_many_values(backend: Backend):
    rows = list(lines())
    with backend.engine(table(rows)) as engine:
        found = engine.statistics(Aggregation(user="who", item="group", measures=MEASURES))
    pairs = defaultdict(list)
    for line in rows:
        if line[1] is not None:
            pairs[line[0], line[1]].append(line)
    users = Counter(label for _, label in pairs)
    assert dict(zip(found.users.labels, found.users.counts.tolist(), strict=True)) == users
    for place, measure in enumerate(MEASURES):
        if measure.weight is not None:
            wanted = Counter()
            for (_, label), own in pairs.items():
                for cell, number in units(measure, [line[PLACES[measure.column]] for line in own]).items():
                    wanted[label, cell] += number
            assert cells_of(found, place) == {key: number for key, number in wanted.items() if number}, measure
        if measure.distinct == 100:
            values = defaultdict(set)
            for (_, label), own in pairs.items():
                values[label] |= {line[PLACES[measure.column]] for line in own}
            assert found.totals[place] == {label: len(kept) for label, kept in values.items()}
    assert found.totals[0] == {
        label: sum(min(len(own), 2) for (_, other), own in pairs.items() if other == label) for label in users
    }


@pytest.mark.parametrize("contributions", [1, 2, None])
def test_one_user_adds_one_weight_and_keeps_few_values(backend: Backend, contributions):
    rows = list(lines(seed=1))
    aggregation = Aggregation(user="who", item="group", contributions=contributions, measures=MEASURES)
    for gone in (3,) if backend.name == "spark" else (3, 20):
        found = []
        for left in (rows, [line for line in rows if line[0] != gone]):
            with backend.engine(table(left), salts=lambda: 7) as engine:
                found.append(engine.statistics(aggregation))
        one, other = found
        changed = set()
        for place, measure in enumerate(MEASURES):
            if measure.weight is not None:
                before, after = Counter(cells_of(one, place)), Counter(cells_of(other, place))
                assert all(before[key] >= after[key] for key in before | after)
                for label in {label for label, _ in before}:
                    moved = sum(before[key] - after[key] for key in before if key[0] == label)
                    assert moved in (0, WEIGHT)
                    changed |= {label} if moved else set()
            elif measure.distinct is not None:
                for label in one.totals[place]:
                    moved = one.totals[place][label] - other.totals[place].get(label, 0)
                    assert 0 <= moved <= measure.distinct
                    changed |= {label} if moved else set()
        assert contributions is None or len(changed) <= contributions


def test_values_are_kept_at_random_and_other_users_do_not_matter(tmp_path):
    """A user keeps the same values whoever else is there; which ones depends on the salt."""
    rows = [(1, "g", None, None, f"w{number}", number) for number in range(20)]
    others = [(2, "g", None, None, f"w{number}", number) for number in range(10, 30)]
    counted = Counter()
    for salt in range(40):
        found = []
        for left in (rows, rows + others):
            with DuckDBBackend(tmp_path).engine(table(left), lambda salt=salt: salt) as engine:
                asked = Aggregation(user="who", item="group", measures=(replace(DISTINCT[0], distinct=3),))
                found.append(engine.statistics(asked).totals[0]["g"])
        alone, both = found
        assert alone == 3
        assert 3 <= both <= 6
        counted[both] += 1
    assert len(counted) > 1


def test_without_groups_and_without_anything_else(backend: Backend):
    rows = [(1, "g", None, 1.0, "x", 1), (1, "g", None, 2.0, "y", 1), (2, "h", None, None, None, 2)]
    for measure in (*CELLS[:1], *DISTINCT[:1]):
        with backend.engine(table(rows)) as engine:
            found = engine.statistics(Aggregation(user="who", measures=(measure,)))
        assert found.users.counts.tolist() == [2]
        if measure.weight is not None:
            assert cells_of(found, 0) == {("all", 12): 500, ("all", 15): 500}
        else:
            assert found.totals[0] == {"all": 2}


def test_parts_of_the_users_add_up_to_the_same_units(tmp_path):
    from setwise.analytics.engines.duckdb.query import DuckDBEngineQuery

    rows = list(lines(seed=3))
    aggregation = Aggregation(user="who", item="group", contributions=2, measures=(Measure(most=2), *CELLS))
    with DuckDBBackend(tmp_path).engine(table(rows), lambda: 7) as engine, engine._running_on(0) as cursor:
        words = {"salt": 7, "hashes": engine._hashes, "rows": len(rows), "parts": 3}
        found = DuckDBEngineQuery(aggregation, engine._table, engine.describe(), cursor, **words).statistics()
    with DuckDBBackend(tmp_path).engine(table(rows), lambda: 7) as engine:
        whole = engine.statistics(aggregation)
    assert [cells_of(found, place) for place in (1, 2)] == [cells_of(whole, place) for place in (1, 2)]


@pytest.mark.parametrize("contributions", [None, 1])
def test_every_engine_counts_values_by_their_smallest_rank(backend: Backend, contributions):
    """With one salt, the values of the first bins are those that are kept if every user keeps 1, 2, 4 or 8."""
    numbers = (1, 2, 4, 8)
    ranked = tuple(Measure(column=name, distinct=8, by_rank=True, most=3, in_cells=True) for name in ("word", "whole"))
    kept = tuple(Measure(column=measure.column, distinct=most, in_cells=True) for measure in ranked for most in numbers)
    rows = list(lines(users=20, seed=2))
    for item in ("group", None):
        asked = Aggregation(user="who", item=item, contributions=contributions, measures=(*ranked, CELLS[1], *kept))
        pooled = replace(asked, measures=(Measure(most=2), *ranked), pooled=True)
        with backend.engine(table(rows), salts=lambda: 7) as engine:
            found, added_up = engine.statistics(asked), engine.statistics(pooled)
        for place in range(len(ranked)):
            whole = np.zeros(4, dtype=np.int64)
            for label in found.users.labels:
                bins = found.cells_of(place, label, 4)
                ways = range(3 + 4 * place, 7 + 4 * place)
                assert bins.cumsum().tolist() == [found.totals[way].get(label, 0) for way in ways]
                whole += bins
            assert added_up.cells_of(place + 1, EVERYTHING, 4).tolist() == whole.tolist()
            assert whole.sum() > 0
