"""`setwise demo`: make synthetic tables, ask private questions about them, and show the cost of the answers."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.errors import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

    from setwise.analytics.session import Session

EVENTS = 2_000_000
USERS = 200_000
TITLES = 20_000
COUNTRIES = ("Brazil", "France", "Germany", "India", "Japan", "Kenya", "Mexico", "Norway", "Poland", "Spain")
_SEED = 20
_EPSILON, _DELTA = 0.5, 1e-7
_OVERALL_DELTA = 1e-6


def demo(
    keep: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Leave the made-up table behind in this Parquet file.")
    ] = None,
    movies: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Instead, leave made-up ratings of films behind in this folder, as raw as such files come.",
        ),
    ] = None,
) -> None:
    """Make a table of two million events, ask it three questions, and show the privacy cost of all three together."""
    if movies is not None:
        make_movies(movies)
        print(f"wrote ratings.dat, users.dat, movies.dat, u.data and points.tsv to {movies}")
        return
    import tempfile

    from rich.console import Console

    from setwise.analytics.opening import open as open_table
    from setwise.cli.output import answer_table

    console = Console(highlight=False)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = _place(keep) or Path(folder) / "events.parquet"
        console.print(
            f"[bold]Making {EVENTS:,} events[/bold] of up to {USERS:,} users and {TITLES:,} titles: some titles are "
            "very popular, some users very busy."
        )
        truth = make_events(path, _SEED)
        console.print(
            "Each question below may cost epsilon = "
            f"{_EPSILON:g} at delta = {_DELTA:g}, and protects whole users. The truth is shown beside the answers in "
            "magenta: that is possible only because this data is made up.\n"
        )
        with open_table(path, user="user_id", name="events", scan=False) as session:
            _ask_sql(console, "1. Users and minutes by country", _BY_COUNTRY, session, truth.countries)
            console.print("[bold]2. The ten titles that the most users watched[/bold]")
            answer = session.top_k(item="title", k=10, epsilon=_EPSILON, delta=_DELTA)
            console.print(answer_table(answer, console.width, truth.titles))
            console.print(
                "   Each user counts towards every title they watched, so nothing is left out and each interval holds "
                "the exact number with probability 95%. A histogram of titles bounds how many each user counts "
                "towards, and its answer says so.\n"
            )
            _ask_sql(console, "3. Minutes that one user watches in all", _PER_USER, session, {})
            _show_joint_cost(console, session)
    console.print(f"\n{time.monotonic() - started:.0f} seconds. The first question on a table of yours:", style="dim")
    console.print(
        f'setwise sql "{_BY_COUNTRY}" --table events=events.parquet --user user_id --epsilon 1', soft_wrap=True
    )


_BY_COUNTRY = (
    "SELECT country, COUNT(DISTINCT user_id) AS users, ROUND(AVG(minutes), 1) AS minutes FROM events "
    "GROUP BY country ORDER BY users DESC"
)
_PER_USER = (
    "SELECT ROUND(AVG(total)) AS minutes FROM (SELECT user_id, SUM(minutes) AS total FROM events GROUP BY user_id) t"
)


def _ask_sql(console: "Console", title: str, sql: str, session: "Session", truth: dict[object, int]) -> None:
    """Ask the SQL question `sql` of the demo's table, which `session` has open, and print the answer under `title`.

    The answer's rows are printed to `console`. `truth` maps group keys to exact numbers of users, which are printed
    beside the private ones; no exact numbers are printed if it is empty.
    """
    from setwise.cli.output import sql_table

    console.print(f"[bold]{title}[/bold]\n   {sql}", soft_wrap=True)
    result = session.sql(sql, epsilon=_EPSILON, delta=_DELTA)
    console.print(sql_table(result, console.width, truth))
    console.print(f"   {result.summary}\n" if result.answer.left_out else "")


def _place(keep: Path | None) -> Path | None:
    """Return the path at which the demo's table stays after the demo; None if the table is to be deleted.

    The path is `keep`, the value of an option. Raises: `InvalidParameter` if the file exists, does not end in .parquet,
    or its folder does not exist.
    """
    if keep is None:
        return None
    if keep.exists():
        raise InvalidParameter(f"{keep} exists already: name a new file")
    if keep.suffix != ".parquet" or not keep.parent.is_dir():
        raise InvalidParameter(f"{keep} must be a new file that ends in .parquet, in a folder that exists")
    return keep


def _show_joint_cost(console: "Console", session: "Session") -> None:
    from rich.table import Table

    from setwise.accounting.notation import shown_by
    from setwise.accounting.promises import rounded_up

    table = Table(title=f"All three answers together, at delta = {_OVERALL_DELTA:g}", title_justify="left")
    table.add_column("who chose the questions")
    table.add_column("epsilon", justify="right")
    table.add_column("how it is proven")
    for words, interaction in (
        ("this script, before any answer (any order)", "setwise"),
        ("someone who saw the answers so far", "adaptive"),
    ):
        bound = session.guarantee(_OVERALL_DELTA, interaction)
        table.add_row(words, rounded_up(bound.upper, 4), f"{bound.method}, {shown_by(bound.statement)}")
    console.print(table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Exact answers, which a private system never shows: numbers of users by title (`titles`) and by `countries`."""

    titles: dict[object, int]
    countries: dict[object, int]


def make_events(path: Path, seed: int, events: int = EVENTS) -> Truth:
    """Write a Parquet file with the columns user_id, title, country and minutes, and return its exact answers.

    The file at `path` has `events` rows. The popularity of titles follows Zipf's law. The number of events per user is
    log-normal, so that some users have hundreds of events. `seed` makes the file reproducible.
    """
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    random = np.random.default_rng(seed)
    users = _sample_places(random, random.lognormal(0.0, 1.2, USERS), events)
    titles = _sample_places(random, 1.0 / np.arange(1, TITLES + 1) ** 1.05, events)
    homes = _sample_places(random, 1.0 / np.arange(1, len(COUNTRIES) + 1), USERS)
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


def _sample_places(random: "np.random.Generator", weights: "NDArray[np.floating]", count: int) -> "NDArray[np.int64]":
    """Return `count` indices of `weights`, drawn by `random` with replacement, in proportion to the weights."""
    import numpy as np

    ends = np.cumsum(weights)
    places: NDArray[np.int64] = np.searchsorted(ends, random.random(count) * ends[-1], side="right").astype(np.int64)
    return places


RATERS, MOVIES, RATINGS = 6_040, 3_883, 300_000
GENRES = ("Drama", "Comedy", "Action", "Thriller", "Romance", "Horror", "Children's", "Documentary")
AGES = (1, 18, 25, 35, 45, 50, 56)
_MOVIE_SEED = 7
_FIRST_RATING, _LAST_RATING = 956_703_932, 1_046_454_590  # seconds since 1970: April 2000 to February 2003
_MOVIE_NAMES = ("Amélie", "Blue Door", "City Hall", "Día", "Echo", "Fjord", "Garçon", "Harbour", "Ice", "Jubilee")


def make_movies(folder: Path) -> None:
    """Write five synthetic MovieLens-like files into `folder`, to practise reading raw files.

    ratings.dat, users.dat and movies.dat have `::` between cells, u.data and points.tsv have tabs. Like the files of
    MovieLens they have no headers (except points.tsv) and are encoded in Latin-1.
    """
    import numpy as np

    rng = np.random.default_rng(_MOVIE_SEED)
    folder.mkdir(parents=True, exist_ok=True)
    users = 1 + np.minimum(rng.exponential(RATERS / 4, RATINGS).astype(np.int64), RATERS - 1)
    movies = 1 + np.minimum((MOVIES * rng.random(RATINGS) ** 3).astype(np.int64), MOVIES - 1)
    stars = np.clip(np.rint(rng.normal(3.6, 1.1, RATINGS) - 0.3 * (movies % len(GENRES) == 5)), 1, 5).astype(np.int64)
    times = rng.integers(_FIRST_RATING, _LAST_RATING, RATINGS)
    ratings = np.column_stack([users, movies, stars, times])
    _write_rows(folder / "ratings.dat", "::", ratings)
    _write_rows(folder / "u.data", "\t", ratings[: RATINGS // 3])
    _write_rows(folder / "users.dat", "::", _raters(rng))
    _write_rows(folder / "movies.dat", "::", _movies())
    points = np.rint(rng.normal(2.0, 15.0, RATERS)).astype(np.int64)
    _write_rows(folder / "points.tsv", "\t", [("user", "points"), *zip(range(1, RATERS + 1), points, strict=True)])


def _raters(rng: "np.random.Generator") -> "Iterable[tuple[object, ...]]":
    for user in range(1, RATERS + 1):
        age = AGES[int(rng.binomial(len(AGES) - 1, 0.4))]
        occupation = int(20 * rng.random() ** 2)
        yield user, "F" if rng.random() < 0.3 else "M", age, occupation, f"{rng.integers(100_000):05}"


def _movies() -> "Iterable[tuple[object, ...]]":
    for movie in range(1, MOVIES + 1):
        name = f"{_MOVIE_NAMES[movie % len(_MOVIE_NAMES)]} {movie:04} ({1950 + movie % 50})"
        yield movie, name, GENRES[movie % len(GENRES)]


def _write_rows(path: Path, separator: str, rows: "Iterable[Iterable[object]]") -> None:
    path.write_text("".join(separator.join(map(str, row)) + "\n" for row in rows), encoding="latin-1", newline="")
