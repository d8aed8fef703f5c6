"""The front door: a table, opened for private questions."""

from collections.abc import Mapping
from pathlib import Path

from setwise.analytics.budget import DatasetBudget
from setwise.analytics.engine import Progress, silent
from setwise.analytics.place import place_of
from setwise.analytics.schema import Kind
from setwise.analytics.session import Session
from setwise.analytics.source import Source, open_engine
from setwise.errors import InvalidParameter
from setwise.mechanisms.randomness import Randomness, SystemRandomness


def open(  # noqa: A001 - it is called as setwise.open
    source: Source,
    *,
    user: str,
    engine: str = "duckdb",
    table: str | None = None,
    types: Mapping[str, Kind] | None = None,
    account: DatasetBudget | None = None,
    memory: str | None = None,
    dataset: str | None = None,
    name: str | None = None,
    progress: Progress = silent,
    randomness: Randomness | None = None,
) -> Session:
    """Return a session on a table whose column `user` says whose row each row is.

    `source` is a file (Parquet, CSV, a DuckDB or SQLite database), a glob or directory of files, an Arrow table, a
    pandas or Polars frame, or, with another `engine` ("spark", "postgresql://..."), a table it knows. `types` says
    which columns of a CSV file are not text. With an `account` of a ledger, questions draw on that account. An
    account that was opened for a dataset pays only for that one: `dataset` says that the table is it, and without it
    the name of the file or table must say so. `name` is how the table is called in requests that a ledger keeps; by
    default what was given as source. `randomness` is the operating system's unless a test brings its own.

    >>> import pyarrow as pa
    >>> visits = pa.table({"who": [n // 2 for n in range(2000)], "page": ["home", "help"] * 1000})
    >>> with open(visits, user="who") as session:
    ...     answer = session.top_k(item="page", k=1, epsilon=1.0, delta=1e-6, contributions=2)
    >>> len(answer), answer.complete, answer.epsilon.upper <= 1.0
    (1, True, True)
    """
    place = place_of(source, engine, table)
    if account is not None:
        account.check_dataset(place.name if dataset is None else dataset)
    elif dataset is not None:
        raise InvalidParameter("a dataset is named to say that an account may pay for it: give an account too")
    opened = open_engine(source, engine, table=table, types=types, memory=memory, progress=progress)
    called = (
        (f"{source}::{table}" if table else str(source)) if isinstance(source, str | Path) else type(source).__name__
    )
    return Session(
        opened,
        user=user,
        name=(f"{called}::{table}" if table else called) if name is None else name,
        randomness=SystemRandomness() if randomness is None else randomness,
        account=account,
        place=place,
    )
