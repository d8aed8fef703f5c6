"""Updates that are killed release every period once, and none with two kinds of noise."""

import random
import time

import pyarrow.parquet as pq
import pytest
from tests.live.streams import START, day, events
from tests.live.updates import PER_PROCESS, start_update
from tests.sizes import FULL

from setwise.ledger.ledger import Ledger
from setwise.live.series import find_live, open_live
from setwise.live.states.base import join_batches
from setwise.live.states.connect import open_state

KILLS = 200 if FULL else 3
PATIENCE = 300.0
"""Seconds after which a process that has released nothing has failed."""

STATES = {"postgresql": 3, "clickhouse": 3, "spark": 2}
"""Kills in the quick mode by the database of the state: a process with Spark starts a machine of Java of its own."""

MODULES = (
    *("setwise.live.series", "setwise.live.states.duckdb", "setwise.analytics.engines.duckdb.opening"),
    *("psycopg", "pandas", "pyarrow.dataset"),
)
"""The modules that an update imports, which takes ten times as long as the update itself."""


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    return request.getfixturevalue("postgresql_server").schema()


def test_killed_updates_release_each_period_once_and_lose_none(store_url, tmp_path):
    kill_updates(store_url, str(tmp_path / "state.db"), tmp_path)


@pytest.mark.parametrize("backend", STATES)
def test_killed_updates_keep_their_noise_wherever_the_state_is(backend, request, tmp_path):
    match backend:
        case "postgresql":
            state = request.getfixturevalue("postgresql_server").schema()
        case "clickhouse":
            state = request.getfixturevalue("clickhouse_server").database()
        case _:
            request.getfixturevalue("spark_session")
            state = f"spark:{tmp_path / 'states'}"
    kills = STATES[backend] if not FULL else 200 if backend != "spark" else 10
    kill_updates(str(tmp_path / "ledger.db"), state, tmp_path, kills=kills)


def kill_updates(store_url, state, folder, *, kills=KILLS, modules=MODULES):
    """Kill updates of a series over and over; then finish the series, and check all of its releases.

    Every other process is killed as soon as the ledger has a release of it, which the ledger must show within a bounded
    time. The others are killed at a random moment of about as long a time. No process releases more than two periods,
    so that the periods suffice for all kills.
    """
    periods = kills * PER_PROCESS + 1
    choice = random.Random(7)
    rows = [(f"u{choice.randrange(200)}", choice.choice("xyz"), choice.randrange(periods)) for _ in range(4000)]
    table = folder / "events.parquet"
    pq.write_table(events(rows), table)
    with Ledger.open(store_url) as ledger:
        open_live(
            ledger, "reach", str(table), user="user", item="item", at="at", every="day", start=START, periods=periods,
            contributions=2, epsilon=5.0, delta=1e-6, domain=["x", "y", "z"], state=state, late_days=0,
        )  # fmt: skip
        seen = {}
        usual = 1.0
        waited = 0
        for kill in range(kills):
            process = start_update(store_url, state, len(seen), modules)
            began = time.monotonic()
            if kill % 2 == 0:
                while len(_released(ledger)) == len(seen):
                    assert process.is_alive(), "an update ended before it was killed"
                    assert time.monotonic() - began < PATIENCE, "a process released nothing"
                    time.sleep(0.05)
                usual = time.monotonic() - began
                waited += 1
            else:
                time.sleep(choice.random() * usual)
            assert process.is_alive(), "an update ended before it was killed"
            process.kill()
            process.join()
            process.close()
            now = _released(ledger)
            assert {part: now[part] for part in seen} == seen, "a release changed after it was made"
            seen = now
        assert len(seen) >= waited
        series = find_live(ledger, "reach")
        series.update(until=series.terms.calendar.end, today=series.terms.calendar.end, state=state)
        final = _released(ledger)
        assert list(final) == [day(place) for place in range(periods)]
        assert {part: final[part] for part in seen} == seen
        with open_state(state, "reach") as opened:
            history = join_batches(opened.batches())
        groups: dict[str, set[str]] = {}
        for user, item, _ in rows:
            groups.setdefault(user, set()).add(item)
        assert history.counts.sum() == sum(min(2, len(items)) for items in groups.values())
        assert not ledger.verify().faults
        assert ledger.account("live:reach").status().charges == 1


def _released(ledger):
    """Return the text that each period released, by the chain of the account: a period with two entries fails."""
    texts: dict[str, str] = {}
    for entry in ledger.history("live:reach"):
        if entry.contents.kind == "release":
            part = entry.contents.key.partition("\n")[2]
            assert part not in texts
            texts[part] = entry.contents.text
    return texts
