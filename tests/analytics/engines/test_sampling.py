"""Which items a user keeps is uniform: by item, by pair of items, from salt to salt, for text and for numbers.

Every test compares frequencies with what uniform sampling gives and fails by chance once in a billion runs.
"""

from collections import Counter
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

from setwise.analytics.engines.aggregation import Aggregation
from tests.analytics.engines.backends import Backend
from tests.sizes import SALTS

SIGNIFICANCE = 1e-9
USERS = 6000
ITEMS = 5
KEPT = 2

Labels = list[str] | list[int]
SHARED: dict[str, Labels] = {
    "numbers": list(range(ITEMS)),
    "text": [f"item {n}" for n in range(ITEMS)],
    "separators": ["|", "||", "a|", "|a", "a|a"],
}


def crossed(users: Labels, items: Labels) -> pa.Table:
    """Return a table in which every user has every item once."""
    return pa.table({"u": [user for user in users for _ in items], "i": [item for _ in users for item in items]})


def uniform_statistic(counts: list[int], users: int, kept: int) -> float:
    """Return the chi-square statistic, with one degree less than items, of how many users kept each item.

    Inclusions of one user are a sample without replacement: each has variance p(1-p), two have covariance
    -p(1-p)/(m-1), so on vectors that sum to nothing the covariance is p(1-p) m/(m-1) times the identity.
    """
    m = len(counts)
    p = kept / m
    return float(np.sum((np.array(counts) - users * p) ** 2) / (users * p * (1 - p) * m / (m - 1)))


@pytest.mark.parametrize("labels", SHARED)
@pytest.mark.parametrize("people", ["numbers", "text"])
def test_every_item_is_kept_equally_often(backend: Backend, labels: str, people: str):
    users: Labels = list(range(USERS)) if people == "numbers" else [f"user {n}" for n in range(USERS)]
    items = SHARED[labels]
    with backend.engine(crossed(users, items)) as engine:
        for kept in (1, KEPT):
            found = engine.histogram(Aggregation(user="u", item="i", contributions=kept))
            assert sorted(found.labels) == sorted(items)
            assert int(found.counts.sum()) == USERS * kept
            assert uniform_statistic(found.counts.tolist(), USERS, kept) < chi2.isf(SIGNIFICANCE, ITEMS - 1)


def subsets(found: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Return which of their own items each user kept, from labels such as `user 3|1`."""
    kept: dict[str, list[int]] = {}
    for label in found:
        user, _, item = label.rpartition("|")
        kept.setdefault(user, []).append(int(item))
    return {user: tuple(sorted(items)) for user, items in kept.items()}


def test_every_pair_of_items_is_kept_equally_often_and_anew_under_another_salt(backend: Backend):
    table = pa.table(
        {
            "u": [f"user {n}" for n in range(USERS) for _ in range(ITEMS)],
            "i": [f"user {n}|{m}" for n in range(USERS) for m in range(ITEMS)],
        }
    )
    aggregation = Aggregation(user="u", item="i", contributions=KEPT)
    with backend.engine(table) as engine:
        first, second = (subsets(tuple(map(str, engine.histogram(aggregation).labels))) for _ in range(2))
    assert len(first) == len(second) == USERS
    possible = list(combinations(range(ITEMS), KEPT))
    counts = Counter(first.values())
    expected = USERS / len(possible)
    assert sum((counts[pair] - expected) ** 2 for pair in possible) / expected < chi2.isf(
        SIGNIFICANCE, len(possible) - 1
    )
    # Independent from salt to salt: all combinations of a subset then and a subset now are equally likely.
    together = Counter((first[user], second[user]) for user in first)
    expected = USERS / len(possible) ** 2
    statistic = sum((together[a, b] - expected) ** 2 for a in possible for b in possible) / expected
    assert statistic < chi2.isf(SIGNIFICANCE, len(possible) ** 2 - 1)


def test_a_single_user_keeps_every_item_equally_often_over_many_salts(backend: Backend):
    rounds, items = (30 if backend.name == "spark" else SALTS), 12
    counts: Counter = Counter()
    with backend.engine(crossed([7], list(range(items)))) as engine:
        for _ in range(rounds):
            counts.update(engine.histogram(Aggregation(user="u", item="i", contributions=3)).labels)
    assert uniform_statistic([counts[item] for item in range(items)], rounds, 3) < chi2.isf(SIGNIFICANCE, items - 1)


def test_the_same_salt_keeps_the_same_items_and_another_does_not(backend: Backend):
    table = crossed(list(range(200)), [f"{n}" for n in range(9)])
    aggregation = Aggregation(user="u", item="i", contributions=2)
    found = []
    for salt in (5, 5, 6):
        with backend.engine(table, salts=lambda salt=salt: salt) as engine:
            histogram = engine.histogram(aggregation)
            found.append(dict(zip(histogram.labels, histogram.counts.tolist(), strict=True)))
    assert found[0] == found[1] != found[2]
