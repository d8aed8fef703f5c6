"""Ratings made to resemble MovieLens (a million, 6,040 people, 18 genres): the first questions people ask, a line each.

python benchmarks/everyday/films.py [--json]       mean rating per genre, median age, two columns, each at epsilon 1
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import setwise
from setwise.analytics.answer import PrivateAnswer

PEOPLE, RATINGS, FILMS = 6_040, 1_000_000, 3_900
GENRES = [f"genre{number:02d}" for number in range(18)]
TOTAL: Any = {"epsilon": 1.0, "delta": 1e-6}


def ratings() -> pa.Table:
    """Return the ratings with genre, sex and age; the same at every run."""
    random = np.random.default_rng(1_000_209)
    activity = random.lognormal(0.0, 1.1, PEOPLE)
    who = random.choice(PEOPLE, RATINGS, p=activity / activity.sum())
    film = np.minimum(random.zipf(1.25, RATINGS) - 1, FILMS - 1)
    genre = random.integers(0, len(GENRES), FILMS)[film]
    liked = random.normal(0.0, 0.35, len(GENRES))[genre] + random.normal(0.0, 0.4, PEOPLE)[who]
    stars = np.clip(np.round(3.58 + liked + random.normal(0.0, 0.95, RATINGS)), 1, 5).astype(np.int64)
    age = np.clip(np.round(random.normal(31, 12, PEOPLE)), 13, 90).astype(np.int64)
    sex = np.array(["F", "M"])[(random.random(PEOPLE) < 0.717).astype(int)]
    return pa.table(
        {
            "who": who,
            "genre": np.array(GENRES)[genre],
            "stars": stars,
            "age": age[who],
            "sex": sex[who],
        }
    )


QUESTIONS: dict[str, Callable[[setwise.Session], PrivateAnswer]] = {
    "mean_per_genre": lambda s: s.mean(value="stars", low=1, high=5, item="genre", contributions=18, **TOTAL),
    "median_age": lambda s: s.quantile(value="age", low=0, high=100, **TOTAL),
    "two_columns": lambda s: s.histogram(item=["genre", "sex"], contributions=18, **TOTAL),
}


def errors(table: pa.Table, runs: int) -> dict[str, float]:
    """Return the largest error of each question over some runs, and the seconds of the first of them."""
    frame = table.to_pandas()
    own = frame.groupby(["who", "genre"])["stars"].mean().reset_index()
    means = own.groupby("genre")["stars"].mean().to_dict()
    ages = frame.groupby("who")["age"].first()
    users = frame.groupby(["genre", "sex"])["who"].nunique().to_dict()
    worst = dict.fromkeys(QUESTIONS, 0.0)
    seconds = {}
    with setwise.open(table, user="who") as session:
        for name, ask in QUESTIONS.items():
            for run in range(runs):
                began = time.perf_counter()
                answer = ask(session)
                if run == 0:
                    seconds[f"{name}_seconds"] = time.perf_counter() - began
                match name:
                    case "mean_per_genre":
                        off = [abs(each.estimates[0].value - means[each.label]) for each in answer]
                        assert len(off) == len(GENRES)
                    case "median_age":
                        off = [abs(answer.value - float(np.median(ages)))]
                    case _:
                        off = [abs((each.count or 0) - users[each.label]) for each in answer]
                        assert len(off) == len(users)
                worst[name] = max(worst[name], *off)
    return worst | seconds


if __name__ == "__main__":
    found = errors(ratings(), runs=10)
    if "--json" in sys.argv:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:28} {value:.4g}")
