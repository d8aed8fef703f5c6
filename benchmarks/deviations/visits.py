"""Two tables for standard deviations and distinct counts: people with one row each, and visits with several.

Standard library only, so that every peer's interpreter can read them. Both are the same at every run.
"""

import random

EPSILON, DELTA = 1.0, 1e-6
AGES = (0, 100)
MINUTES = (0, 120)
ROWS_PER_USER = 10
"""The most rows, or distinct pages, of a user that count."""

TEAMS = [f"team{number:02d}" for number in range(20)]


def people() -> list[tuple[int, int, str]]:
    """Return 6,000 people as (user, age, team); teams are public and have 71 to 1,711 people."""
    source = random.Random(7)
    rows = []
    for user in range(6_000):
        age = min(90, max(13, round(source.gauss(19, 4) if source.random() < 0.3 else source.gauss(40, 12))))
        rows.append((user, age, source.choices(TEAMS, [1 / (1 + place) for place in range(20)])[0]))
    return rows


def visits() -> list[tuple[int, int, str]]:
    """Return about 42,000 visits of 5,000 users as (user, minutes, page); 4,000 pages by a Zipf law."""
    source = random.Random(8)
    weights = [1 / (3 + place) for place in range(4_000)]
    rows = []
    for user in range(5_000):
        for page in source.choices(range(4_000), weights, k=min(60, 1 + round(source.expovariate(1 / 7.5)))):
            rows.append((user, min(120, round(source.lognormvariate(2.8, 0.9))), f"page{page:04d}"))
    return rows
