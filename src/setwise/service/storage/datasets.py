"""The store of registered datasets: which tables the service may answer questions about, and within which bounds."""

import json
import time
from dataclasses import asdict, dataclass, field

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from setwise.accounting.promises import USER, check_unit
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.units import unit_column
from setwise.errors import InvalidParameter, NameTaken, UnknownName
from setwise.ledger.terms import Terms
from setwise.mechanisms.labels import Label
from setwise.records import set_fields
from setwise.service.settings import EngineKind
from setwise.service.storage import schema
from setwise.service.storage.database import Database
from setwise.service.storage.schema import Clock, check_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A registered dataset: a `table`, its user column, and the columns that questions may use.

    - `name`: the name by which questions refer to the dataset
    - `engine`: the kind of system that reads the table, such as DuckDB
    - `user`: the column that identifies users
    - `items`, `values`, `filters`: the columns to group by, to aggregate and to filter by
    - `contributions`: the most groups in which one user counts, or None
    - `per_item`: the most that a user adds to one group: a number of rows for a count of rows, and an amount of the
      summed column for a sum; or None
    - `types`: the kinds of CSV columns that are not text, as (column, kind), where a kind is "integer", "date", ...
    - `public`: the tables without users, on the same engine, that SQL may join, as (name, path or table name)
    - `csv`: how CSV files are written
    - `bounds`: clipping bounds of columns, as (column, lower, upper), for SQL that states none
    - `rows_per_user`: the most rows of one user that count in a group, for aggregates over rows that state no such
      bound, or None
    - `domains`: public group keys of columns, as (column, keys), for SQL that states none; a statement with public
      groups needs no delta
    - `unit`: the unit of privacy that is protected: "user", or "user,day" for each day of a user by itself
    - `is_pinned`: whether `Engines.pin` has looked up the versions of the tables; not part of the definition

    A question that states no bounds gets `contributions` and `per_item`, and no question may state bounds above these
    two. In SQL over private groups, a part of epsilon may be spent on finding a bound below `contributions`. If
    `per_item` and `rows_per_user` are None, a count of rows in SQL spends a part of epsilon on finding the most rows of
    one user to count.

    Raises `InvalidParameter` for a wrong field.
    """

    name: str
    engine: EngineKind
    table: str
    user: str
    items: tuple[str, ...]
    values: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    contributions: int | None = None
    per_item: int | None = None
    types: tuple[tuple[str, str], ...] = ()
    public: tuple[tuple[str, str], ...] = ()
    csv: CsvOptions = field(default_factory=CsvOptions)
    bounds: tuple[tuple[str, float, float], ...] = ()
    rows_per_user: int | None = None
    domains: tuple[tuple[str, tuple[Label, ...]], ...] = ()
    unit: str = USER
    is_pinned: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_name(self.name, "the name of a dataset")
        set_fields(self, engine=EngineKind(self.engine))
        for name in ("items", "values", "filters"):
            columns = tuple(getattr(self, name))
            set_fields(self, **{name: columns})
            if self.user in columns:
                raise InvalidParameter(f"{name} must not hold the user column {self.user!r}: it says who is protected")
        set_fields(
            self,
            types=tuple((str(name), str(kind)) for name, kind in self.types),
            public=tuple((str(name), str(table)) for name, table in self.public),
        )
        check_unit(self.unit)
        for name in ("contributions", "per_item"):
            bound = getattr(self, name)
            if bound is not None and bound < 1:
                raise InvalidParameter(f"{name} must be a positive whole number, not {bound!r}")

    @property
    def protected(self) -> str:
        """The name of the column with the unit of privacy of each row: rows with the same value are protected together.

        If the unit of privacy is the user, this is the user column. Otherwise it is a column that is computed from the
        user column and others, for example a column with a different value for each day of each user.
        """
        return self.user if self.unit == USER else unit_column(self.user, self.unit)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all registered columns (user, items, values, filters), each once, the user column first."""
        return tuple(dict.fromkeys((self.user, *self.items, *self.values, *self.filters)))

    def text(self) -> str:
        """Return the dataset's definition as JSON text, which `Dataset.read` parses."""
        definition = asdict(self)
        del definition["is_pinned"]
        for name in ("bounds", "rows_per_user", "domains"):
            if not definition[name]:  # definitions that declare nothing keep the text that earlier versions wrote
                del definition[name]
        if self.unit == USER:
            del definition["unit"]
        if self.csv.quote == CsvOptions().quote:
            del definition["csv"]["quote"]
        return json.dumps(definition, sort_keys=True)

    @staticmethod
    def read(text: str) -> "Dataset":
        """Return the dataset whose definition is the JSON text that `Dataset.text` wrote."""
        record = json.loads(text)
        csv_options = record.pop("csv", {})  # definitions written by earlier versions have no CSV options
        if csv_options.get("columns") is not None:
            csv_options["columns"] = tuple(csv_options["columns"])
        record["bounds"] = tuple((column, low, high) for column, low, high in record.get("bounds", ()))
        record["domains"] = tuple((column, tuple(labels)) for column, labels in record.get("domains", ()))
        return Dataset(**record, csv=CsvOptions(**csv_options))


class Datasets:
    """The store of registered datasets, in the service's `database`.

    A registration never changes, so a replica (process of the service) may cache it for good. `clock` returns the time
    in seconds since 1970.
    """

    def __init__(self, database: Database, *, clock: Clock = time.time) -> None:
        self._database = database
        self._clock = clock
        self._remembered: dict[str, Dataset] = {}

    def add(self, dataset: Dataset, *, by: str) -> Dataset:
        """Store a new dataset, registered by the person `by`, and return it; raise `NameTaken` if its name exists."""
        row = {
            "name": dataset.name,
            "definition": dataset.text(),
            "created_at": self._clock(),
            "created_by": by,
        }
        try:
            with self._database.writing() as connection:
                connection.execute(insert(schema.datasets).values(row))
        except IntegrityError:
            raise NameTaken(f"there is a dataset named {dataset.name!r} already; choose another name") from None
        return dataset

    def check_free(self, name: str) -> None:
        """Raise `NameTaken` if the name `name` is not free for a new dataset."""
        try:
            self.get(name)
        except UnknownName:
            return
        raise NameTaken(f"there is a dataset named {name!r} already; choose another name")

    def get(self, name: str) -> Dataset:
        """Return the registered dataset called `name`; raise `UnknownName` if there is none."""
        if name not in self._remembered:
            query = select(schema.datasets.c.definition).where(schema.datasets.c.name == name)
            with self._database.reading() as connection:
                definition = connection.scalar(query)
            if definition is None:
                raise UnknownName(f"there is no dataset named {name!r}")
            self._remembered[name] = Dataset.read(definition)
        return self._remembered[name]

    def of_account(self, terms: Terms, name: str) -> Dataset:
        """Return the dataset called `name` if the account with these `terms` was opened for it.

        Raises `UnknownName` if the account is for another dataset, or if there is no dataset of that name.
        """
        if name != terms.dataset:
            raise UnknownName(f"the account {terms.name!r} is not on a dataset named {name!r}")
        return self.get(name)

    def definitions(self) -> dict[str, str]:
        """Return a dict from the name of every dataset to the JSON text of its definition, as it is stored."""
        query = select(schema.datasets.c.name, schema.datasets.c.definition).order_by(schema.datasets.c.name)
        with self._database.reading() as connection:
            return {row.name: row.definition for row in connection.execute(query)}

    def all(self) -> list[Dataset]:
        """Return every registered dataset, in the order of names."""
        query = select(schema.datasets.c.definition).order_by(schema.datasets.c.name)
        with self._database.reading() as connection:
            return [Dataset.read(definition) for definition in connection.scalars(query)]
