"""A table of 6,040 people, one row each: age as in a panel of film ratings, skewed minutes, 21 occupations.

Standard library only, so that every peer's interpreter can read it.
"""

import csv
import random
from pathlib import Path
from typing import Any

CSV = Path(__file__).parents[2] / ".peers" / "people.csv"
PEOPLE = 6_040
OCCUPATIONS = [f"job{number:02d}" for number in range(21)]
EPSILON, DELTA = 1.0, 1e-6
AGES = (0, 100)
MINUTES = (0, 1440)


def write(path: Path = CSV) -> Path:
    """Write the table, unless it is there; the same at every run."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        source = random.Random(1_991)
        with path.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["user_id", "age", "minutes", "occupation"])
            for user in range(PEOPLE):
                age = min(90, max(13, round(source.gauss(19, 4) if source.random() < 0.3 else source.gauss(36, 12))))
                minutes = min(1440, round(source.lognormvariate(4.2, 1.0)))
                (job,) = source.choices(OCCUPATIONS, [1 / (2 + place) for place in range(len(OCCUPATIONS))])
                writer.writerow([user, age, minutes, job])
    return path


def columns(path: Path = CSV) -> dict[str, list[Any]]:
    """Return the columns: whole numbers, and occupations."""
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {
        name: [row[name] if name == "occupation" else int(row[name]) for row in rows]
        for name in ("user_id", "age", "minutes", "occupation")
    }
