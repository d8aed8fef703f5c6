"""A made-up table of events, for the demonstration: many users with few events, few with many, and popular titles."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

EVENTS = 2_000_000
USERS = 200_000
TITLES = 20_000
COUNTRIES = ("Brazil", "France", "Germany", "India", "Japan", "Kenya", "Mexico", "Norway", "Poland", "Spain")


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What no private system would show: the exact number of users of each title and country."""

    titles: dict[object, int]
    countries: dict[object, int]


def make_events(path: Path, seed: int, events: int = EVENTS) -> Truth:
    """Write a Parquet file with the columns user_id, title, country and minutes; return the exact answers.

    Titles follow Zipf's law, and the activity of users a log-normal one: some have hundreds of events.
    """
    import pyarrow as pa
    from pyarrow import parquet

    random = np.random.default_rng(seed)
    users = _drawn(random, random.lognormal(0.0, 1.2, USERS), events)
    titles = _drawn(random, 1.0 / np.arange(1, TITLES + 1) ** 1.05, events)
    homes = _drawn(random, 1.0 / np.arange(1, len(COUNTRIES) + 1), USERS)
    names = pa.array([f"title {number:05d}" for number in range(1, TITLES + 1)])
    table = pa.table(
        {
            "user_id": users,
            "title": pa.DictionaryArray.from_arrays(pa.array(titles.astype(np.int32)), names).dictionary_decode(),
            "country": pa.DictionaryArray.from_arrays(
                pa.array(homes[users].astype(np.int32)), pa.array(COUNTRIES)
            ).dictionary_decode(),
            "minutes": 1 + random.geometric(1 / 40, events),
        }
    )
    parquet.write_table(table, path)
    pairs = np.unique(users * TITLES + titles) % TITLES
    seen = np.unique(users)
    return Truth(
        titles={str(names[place]): int(count) for place, count in enumerate(np.bincount(pairs, minlength=TITLES))},
        countries={COUNTRIES[place]: int(count) for place, count in enumerate(np.bincount(homes[seen]))},
    )


def _drawn(random: np.random.Generator, weights: NDArray[np.floating], count: int) -> NDArray[np.int64]:
    """Return `count` places drawn in proportion to their weights."""
    ends = np.cumsum(weights)
    places: NDArray[np.int64] = np.searchsorted(ends, random.random(count) * ends[-1], side="right").astype(np.int64)
    return places
