"""Made-up ratings in the raw form in which MovieLens gives its own: no headers, odd separators, Latin-1."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

USERS, MOVIES, RATINGS = 6_040, 3_883, 300_000
GENRES = ("Drama", "Comedy", "Action", "Thriller", "Romance", "Horror", "Children's", "Documentary")
AGES = (1, 18, 25, 35, 45, 50, 56)
_SEED = 7
_FIRST, _LAST = 956_703_932, 1_046_454_590  # seconds since 1970: April 2000 to February 2003
_NAMES = ("Amélie", "Blue Door", "City Hall", "Día", "Echo", "Fjord", "Garçon", "Harbour", "Ice", "Jubilee")


def make_movies(folder: Path) -> None:
    """Write ratings.dat, users.dat, movies.dat (cells apart by ::), u.data and points.tsv (by tabs) into a folder."""
    import numpy as np

    rng = np.random.default_rng(_SEED)
    folder.mkdir(parents=True, exist_ok=True)
    users = 1 + np.minimum(rng.exponential(USERS / 4, RATINGS).astype(np.int64), USERS - 1)
    movies = 1 + np.minimum((MOVIES * rng.random(RATINGS) ** 3).astype(np.int64), MOVIES - 1)
    stars = np.clip(np.rint(rng.normal(3.6, 1.1, RATINGS) - 0.3 * (movies % len(GENRES) == 5)), 1, 5).astype(np.int64)
    times = rng.integers(_FIRST, _LAST, RATINGS)
    ratings = np.column_stack([users, movies, stars, times])
    _write(folder / "ratings.dat", "::", ratings)
    _write(folder / "u.data", "\t", ratings[: RATINGS // 3])
    _write(folder / "users.dat", "::", _people(rng))
    _write(folder / "movies.dat", "::", _titles())
    points = np.rint(rng.normal(2.0, 15.0, USERS)).astype(np.int64)
    _write(folder / "points.tsv", "\t", [("user", "points"), *zip(range(1, USERS + 1), points, strict=True)])


def _people(rng: "np.random.Generator") -> "Iterable[tuple[object, ...]]":
    for user in range(1, USERS + 1):
        age = AGES[int(rng.binomial(len(AGES) - 1, 0.4))]
        occupation = int(20 * rng.random() ** 2)
        yield user, "F" if rng.random() < 0.3 else "M", age, occupation, f"{rng.integers(100_000):05}"


def _titles() -> "Iterable[tuple[object, ...]]":
    for movie in range(1, MOVIES + 1):
        name = f"{_NAMES[movie % len(_NAMES)]} {movie:04} ({1950 + movie % 50})"
        yield movie, name, GENRES[movie % len(GENRES)]


def _write(path: Path, separator: str, rows: "Iterable[Iterable[object]]") -> None:
    path.write_text("".join(separator.join(map(str, row)) + "\n" for row in rows), encoding="latin-1", newline="")
