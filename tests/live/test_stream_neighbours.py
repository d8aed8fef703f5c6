"""Without one user, whatever happens to the table, the vector under the noise moves by no more than was paid for."""

import random
import secrets
from fractions import Fraction

import numpy as np
import pytest
from tests.live.streams import TODAY, day, events
from tests.sizes import cases

from setwise.ledger.ledger import Ledger
from setwise.live.release import read_releases
from setwise.live.states.base import join_batches
from setwise.live.states.connect import open_state
from setwise.mechanisms.running_totals import squared_sensitivity

PERIODS, ITEMS = 6, ["a", "b", "c", "d"]


def stream(seed):
    """Versions of a table, one for each period: events come, come late, are deleted and are inserted again."""
    choice = random.Random(seed)
    users = [f"u{number}" for number in range(6)]
    live: list[tuple[str, str, int]] = []
    versions = []
    for period in range(PERIODS):
        gone = [row for row in live if choice.random() < 0.3]
        live = [row for row in live if row not in gone]
        new = [(choice.choice(users), choice.choice(ITEMS), period) for _ in range(choice.randrange(8))]
        late = [(choice.choice(users), choice.choice(ITEMS), choice.randint(0, period)) for _ in range(3)]
        again = [row for row in gone if choice.random() < 0.3]
        live += new + late + again
        versions.append(list(live))
    return versions


@pytest.fixture
def twice(opened, tmp_path, monkeypatch):
    """Two series of one name and one secret order of groups, each with a ledger and a state of its own."""
    monkeypatch.setattr(secrets, "token_hex", lambda _: "the same")

    def make(**words):
        for place in ("with", "without"):
            folder = tmp_path / place
            folder.mkdir()
            ledger = Ledger.open(str(folder / "ledger.db"))
            ledgers.append(ledger)
            yield opened(ledger=ledger, state=str(folder / "state.db"), **words)

    ledgers: list[Ledger] = []
    yield make
    for ledger in ledgers:
        ledger.close()


def counts_of(series, versions, without=None):
    """The exact new users of every group and period, and so what is under the noise."""
    for period, rows in enumerate(versions):
        kept = [row for row in rows if row[0] != without]
        series.update(until=day(period + 1), source=events(kept), today=TODAY)
    with open_state(series.opening.state, series.name) as state:
        history = join_batches(state.batches())
    return {label: history.counts[place] for place, label in enumerate(history.labels)}


@pytest.mark.parametrize("seed", range(cases(24)))
def test_a_user_removed_from_all_versions_moves_the_releases_within_the_stated_norm(twice, seed):
    contributions = 1 + seed % 3
    words = {"periods": PERIODS, "contributions": contributions, "late_days": seed % 4}
    versions = stream(seed)
    whole, series = twice(**words)
    with_user = counts_of(whole, versions)
    without_user = counts_of(series, versions, without="u1")
    totals = series.totals
    none = np.zeros(PERIODS, dtype=np.int64)
    moved = np.array([with_user.get(item, none) - without_user.get(item, none) for item in ITEMS])
    assert moved.min() >= 0, "nobody else's groups change"
    assert moved.sum(axis=1).max(initial=0) <= 1, "one unit for each group"
    assert (moved.sum(axis=1) > 0).sum() <= contributions
    distance = totals.release(moved, np.zeros_like(moved)).astype(object)
    assert (distance**2).sum() <= contributions * squared_sensitivity(totals.coefficients)
    paid = contributions * squared_sensitivity(totals.coefficients) * Fraction(totals.sigma) ** 2
    assert paid <= totals.noise_scale**2


def test_the_first_user_of_an_item_does_not_decide_the_order_in_which_items_are_shown(twice):
    """The two series differ in one user, who had the item "zebra" a day before everybody else."""
    whole, series = twice(periods=PERIODS, epsilon=20.0)
    crowd = [(f"u{number}", item, 1) for number in range(2000) for item in ("apple", "zebra")]
    first = [("first", "zebra", 0), ("other", "middle", 0)]
    counts_of(whole, [first, first + crowd])
    counts_of(series, [first, first + crowd], without="first")
    orders = [read_releases(each._texts(*each._charge_once())).labels for each in (whole, series)]
    assert orders == [("apple", "zebra")] * 2


@pytest.mark.parametrize("seed", range(cases(12)))
def test_a_day_of_a_user_moves_the_releases_within_the_norm_where_days_are_protected(twice, seed):
    words = {"periods": PERIODS, "contributions": 2, "late_days": 6, "unit": "user,day"}
    versions = stream(seed)
    whole, series = twice(**words)
    with_day = counts_of(whole, versions)
    without_day = counts_of(series, [[row for row in rows if row[::2] != ("u1", 2)] for rows in versions])
    none = np.zeros(PERIODS, dtype=np.int64)
    moved = np.array([with_day.get(item, none) - without_day.get(item, none) for item in ITEMS])
    assert moved.min() >= 0
    assert moved.sum(axis=1).max(initial=0) <= 1
    assert moved.sum() <= 2


def test_the_streams_have_every_kind_of_change():
    """Otherwise the tests above would show little."""
    kinds = set()
    for seed in range(cases(24)):
        seen: set[tuple[str, str]] = set()
        before: set[tuple[str, str, int]] = set()
        for period, rows in enumerate(stream(seed)):
            now = set(rows)
            kinds |= {"deleted"} if before - now else set()
            kinds |= {"late"} if any(row[2] < period and row not in before for row in now) else set()
            kinds |= {"returned"} if any(row[:2] in seen and row not in before for row in now) else set()
            seen |= {row[:2] for row in now}
            before = now
    assert kinds == {"deleted", "late", "returned"}
