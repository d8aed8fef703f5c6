"""How large tests are: small by default, full with SETWISE_TESTS=all, which `make test-all` sets.

A small run touches the same code and the same laws with fewer repetitions. Statistical tests compute their limits from
the number of draws, so a smaller run is as sure of what it reports, and only sees coarser faults.
"""

import itertools
import os
from collections.abc import Sequence
from typing import Any

FULL = os.environ.get("SETWISE_TESTS") == "all"


def draws(full: int) -> int:
    """Return how many times to draw where the full run draws `full` times."""
    return full if FULL else full // 10


def examples(full: int, one_in: int = 4) -> int:
    """Return how many examples Hypothesis generates for a law where the full run generates `full`.

    `one_in` is larger for laws whose single examples take seconds.
    """
    return full if FULL else max(5, full // one_in)


def cases(full: int, one_in: int = 6) -> int:
    """Return how many seeded cases to try where the full run tries `full`."""
    return full if FULL else max(2, full // one_in)


def some(values: Sequence[Any], one_in: int) -> Sequence[Any]:
    """Return the values to try where the full run tries all of them."""
    return values if FULL else values[::one_in]


def crossed(*values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the combinations to try where the full run tries all of them.

    Of two sequences every value is tried, of three or more every value together with every value of another one: those
    combinations are kept whose places add up to a multiple of the length of the shortest sequence.
    """
    shortest = 1 if FULL else min(map(len, values))
    places = itertools.product(*(range(len(each)) for each in values))
    return [
        tuple(each[place] for each, place in zip(values, chosen, strict=True))
        for chosen in places
        if sum(chosen) % shortest == 0
    ]


HOSTILE_CASES = 120 if FULL else 8
"""Tables with rows of a hostile user, for each way a table can be stored; 8 find every defect that is put back."""

RELEASES = 5_000 if FULL else 1_000
"""Releases of a mechanism on each of two neighbours, from which a black-box test bounds its epsilon from below."""

KILLS = 200 if FULL else 20
"""Processes killed at random moments while they answer."""

ASKED = 60 if FULL else 24
"""Queries of one account while a replica is killed; it pays for two in three."""

RACES = 20 if FULL else 4
"""Accounts for whose last draws processes race."""

RACERS = 50 if FULL else 20
"""Processes that race for ten draws."""

SALTS = 600 if FULL else 100
"""Salts under which one user's items are sampled, on DuckDB and PostgreSQL."""

OTHER_ACCOUNTS = 1500 if FULL else 150
"""Accounts of other people on a ledger, beside those of the analyst who lists their own."""

GENERATED_REQUESTS = 6 if FULL else 1
"""Requests generated for each operation and phase, beside those that cover every boundary of the schema."""

TAMPERED = 1 if FULL else 9
"""Of the single-row changes of a ledger, one in so many is tried."""

RESTORED = (10_000, 100_000) if FULL else (1_000, 4_000)
"""Entries of the two ledgers whose restoring is timed."""

ATTEMPTS = 600 if FULL else 150
"""Attempts to get a second outcome under one key; 150 miss one that every tenth attempt gets once in 7 million runs."""

CALLS = 10_000 if FULL else 400
"""Calls of an agent that tries to overspend, and to learn from refusals."""

TAMPERED_PAIRS = 1 if FULL else 97
"""Of the pairs of changed or deleted entries and movements of a ledger, one in so many is tried."""
