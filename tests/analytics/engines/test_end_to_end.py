"""One user more or less, however busy: what reaches the mechanism moves in at most Delta items by at most tau."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from setwise.analytics.query import Query
from setwise.analytics.session import Session
from setwise.mechanisms.planning.request import MechanismName, Total
from setwise.mechanisms.planning.rounds import prefers_rounds
from setwise.mechanisms.randomness import SystemRandomness
from tests.analytics.recorded import RecordedEngine

TOTAL = Total(epsilon=1, delta=1e-6)
BUSY = 4000
"""Rows of the user who comes and goes; 700 different items, one of them a thousand times."""


def crowd():
    random = np.random.default_rng(5)
    who = random.integers(0, 300, 6000)
    return who.tolist(), [f"item {n}" for n in random.zipf(1.6, 6000) % 900], random.integers(-3, 60, 6000).tolist()


def tables():
    """A table, and the same with one busy user more."""
    who, item, amount = crowd()
    random = np.random.default_rng(6)
    more = ["item 1"] * 1000 + [f"item {n}" for n in random.integers(0, 700, BUSY - 1000)]
    without = pa.table({"who": who, "item": item, "amount": amount})
    added = pa.table({"who": [999] * BUSY, "item": more, "amount": random.integers(0, 900, BUSY).tolist()})
    return without, pa.concat_tables([without, added])


def read_by(query, table, backend):
    """What the engine hands to the mechanism in one pass; the others' sample is the same by the same salt.

    What it hands over in rounds of discovery is in test_group_weights.py.
    """
    engine = RecordedEngine(backend.engine(table, lambda: 12345))
    in_rounds = prefers_rounds(replace(query.bounds, weighable=query.item is not None), TOTAL, counts_users=True)
    total = replace(TOTAL, mechanism=MechanismName.TRUNCATED_GAUSSIAN if in_rounds else None)
    Session(engine, user="who", name="t", randomness=SystemRandomness()).ask(query, total)
    (seen,) = engine.read
    return dict(zip(seen.labels, seen.counts.tolist(), strict=True))


DOMAIN = tuple(f"item {n}" for n in range(50))


@pytest.mark.parametrize(
    ("query", "items", "amount"),
    [
        (Query.histogram(item="item", contributions=1), 1, 1),
        (Query.histogram(item="item", contributions=8, per_item=3), 8, 3),
        (Query.histogram(item="item", contributions=9, per_item=50, value="amount"), 9, 50),
        (Query.histogram(item="item", contributions=5, domain=DOMAIN), 5, 1),
        (Query.histogram(item="item", domain=DOMAIN, per_item=2), 50, 2),
        (Query.histogram(item="item", contributions=4, where="amount >= 10"), 4, 1),
        (Query.top_k(item="item", k=3, contributions=2, domain=DOMAIN), 2, 1),
        (Query.top_k(item="item", k=3, contributions=12, limit=10_000), 12, 1),
        (Query.top_k(item="item", k=3, per_item=4, limit=10_000), 700, 4),
        (Query.count(), 1, 1),
        (Query.count(per_user=25), 1, 25),
        (Query.sum(value="amount", clip=500), 1, 500),
    ],
)
def test_one_user_moves_what_is_paid_for_and_no_more(backend, query, items, amount):
    without, with_one = (read_by(query, table, backend) for table in tables())
    moved = {
        label: with_one.get(label, 0) - without.get(label, 0)
        for label in {*without, *with_one}
        if with_one.get(label, 0) != without.get(label, 0)
    }
    assert moved
    assert len(moved) <= items
    assert all(0 < change <= amount for change in moved.values())
    if items < 50:  # busy enough to use all that is allowed
        assert len(moved) == items
