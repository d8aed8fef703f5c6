"""The table of the mechanism tasks: a million rows of 50,000 users and 10,000 items, the same at every run.

Standard library only, so that every peer's interpreter can read it.
"""

import csv
import random
from collections import Counter
from pathlib import Path

ROWS = 1_000_000
USERS = 50_000
ITEMS = 10_000
EPSILON = 1.0
DELTA = 1e-6
CONTRIBUTIONS = 20
"""Items a user counts for; for each of them once."""

CSV = Path(__file__).parents[2] / ".peers" / "table.csv"


def write(path: Path = CSV) -> Path:
    """Write the table, unless it is there: items by Zipf's law, users at random with a few who write a lot."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        source = random.Random(20_210)
        names = [f"item{index:05d}" for index in range(ITEMS)]
        source.shuffle(names)  # a name says nothing about how frequent the item is
        items = source.choices(names, [(3 + index) ** -1.4 for index in range(ITEMS)], k=ROWS)
        users = source.choices(range(USERS), [(999 + index) ** -0.25 for index in range(USERS)], k=ROWS)
        partial = path.with_suffix(".partial")
        with partial.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["user_id", "item"])
            writer.writerows(zip(users, items, strict=True))
        partial.rename(path)
    return path


def rows(path: Path = CSV) -> list[tuple[int, str]]:
    """Return the rows."""
    with path.open(newline="") as stream:
        reader = csv.reader(stream)
        next(reader)
        return [(int(user), item) for user, item in reader]


def users_per_item(path: Path = CSV) -> Counter[str]:
    """Return the exact count: how many users have each item, with no bound on what a user contributes."""
    return Counter(item for _, item in set(rows(path)))


def score(released: dict[str, float], truth: Counter[str], head: int = 100) -> dict[str, float]:
    """Return how many items were released, and the mean absolute error over the `head` most frequent (absent: 0)."""
    most = truth.most_common(head)
    return {
        "items": len(released),
        "error": sum(abs(released.get(item, 0.0) - count) for item, count in most) / head,
        "head_found": sum(item in released for item, _ in most),
    }
