"""Updates that are killed at random moments release every period once, and none with two kinds of noise."""

import os
import random
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest
from tests.live.streams import START, day, events
from tests.sizes import FULL

from setwise.ledger.ledger import Ledger
from setwise.live.series import find_live, open_live
from setwise.live.states.base import joined
from setwise.live.states.connect import open_state

UPDATE = """
import sys
from datetime import date
from setwise.ledger.ledger import Ledger
from setwise.live.series import find_live
url, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
from datetime import timedelta
with Ledger.open(url) as ledger:
    print("ready", flush=True)
    for place in range(first, last):
        series = find_live(ledger, "reach")
        series.update(until=date(2026, 1, 1) + timedelta(days=place + 1), today=date(2030, 1, 1))
        print(place, flush=True)
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    return request.getfixturevalue("postgresql_server").schema()


def test_killed_updates_release_each_period_once_and_lose_none(store_url, tmp_path):
    kills, at_once = 200 if FULL else 8, 10  # each process is killed within a few periods
    periods = kills * 2
    choice = random.Random(7)
    rows = [(f"u{choice.randrange(200)}", choice.choice("xyz"), choice.randrange(periods)) for _ in range(4000)]
    table = tmp_path / "events.parquet"
    pq.write_table(events(rows), table)
    with Ledger.open(store_url) as ledger:
        open_live(
            ledger, "reach", str(table), user="user", item="item", at="at", every="day", start=START, periods=periods,
            contributions=2, epsilon=5.0, delta=1e-6, domain=["x", "y", "z"], state=str(tmp_path / "state.db"),
            late_days=0,
        )  # fmt: skip
        took = _seconds_of_two_updates(store_url)
        seen = _released(ledger)
        assert len(seen) == 2
        killed = 0
        while killed < kills:
            done = len(_released(ledger))
            last = min(done + at_once, periods)
            if done == periods:
                break
            process = subprocess.Popen(
                [sys.executable, "-c", UPDATE, store_url, str(done), str(last)], stdout=subprocess.PIPE, text=True
            )
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(choice.random() * took)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                killed += 1
            process.wait()
            process.stdout.close()
            now = _released(ledger)
            assert {part: now[part] for part in seen} == seen, "what was released stays as it was"
            seen = now
        series = find_live(ledger, "reach")
        series.update(until=series.terms.calendar.end, today=series.terms.calendar.end)
        final = _released(ledger)
        assert list(final) == [day(place) for place in range(periods)]
        assert {part: final[part] for part in seen} == seen
        with open_state(series.opening.state, "reach") as state:
            history = joined(state.batches())
        first = {}
        for user, item, place in sorted(rows, key=lambda row: row[2]):
            first.setdefault((user, item), place)
        assert history.counts.sum() == sum(
            min(2, len({item for other, item in first if other == user})) for user in {user for user, _ in first}
        )
        assert not ledger.verify().faults
        assert ledger.account("live:reach").status().charges == 1
        assert killed == kills or len(seen) == periods
        assert len(seen) > 2, "some kills came after a release"


def _seconds_of_two_updates(url):
    """How long the first two updates of a process take, so that kills fall before, in and after updates."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", UPDATE, url, "0", "2"], check=True, capture_output=True)
    whole = time.monotonic() - began
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", UPDATE, url, "0", "0"], check=True, capture_output=True)
    return max(0.1, whole - (time.monotonic() - began))


def _released(ledger):
    """What each period released, by the chain itself: a period with two entries would show."""
    found: dict[str, str] = {}
    for entry in ledger.history("live:reach"):
        if entry.contents.kind == "release":
            part = entry.contents.key.partition("\n")[2]
            assert part not in found
            found[part] = entry.contents.text
    return found
