"""The store of registered data sets."""

import json
import time
from dataclasses import asdict, dataclass, field

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from setwise.analytics.engines.files import CsvOptions
from setwise.errors import InvalidParameter, NameTaken, UnknownName
from setwise.service.settings import EngineKind
from setwise.service.storage import schema
from setwise.service.storage.database import Database
from setwise.service.storage.schema import Clock, check_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A table on an engine, its user column, and the columns that may be items, summed values or filters.

    `contributions` (Delta) and `per_item` (tau) bound what one user may add: a question that leaves them out gets
    these, and none may ask for more. `types` says which columns of a CSV file are not text, `csv` how it is written,
    and `public` are tables without users on the same engine that SQL may join, by name.
    """

    name: str
    engine: EngineKind
    table: str
    user: str
    items: tuple[str, ...]
    values: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    contributions: int | None = None
    per_item: int = 1
    types: tuple[tuple[str, str], ...] = ()
    public: tuple[tuple[str, str], ...] = ()
    csv: CsvOptions = field(default_factory=CsvOptions)

    def __post_init__(self) -> None:
        check_name(self.name, "the name of a data set")
        object.__setattr__(self, "engine", EngineKind(self.engine))
        for name in ("items", "values", "filters"):
            columns = tuple(getattr(self, name))
            object.__setattr__(self, name, columns)
            if self.user in columns:
                raise InvalidParameter(f"{name} must not hold the user column {self.user!r}: it says who is protected")
        object.__setattr__(self, "types", tuple((str(name), str(kind)) for name, kind in self.types))
        object.__setattr__(self, "public", tuple((str(name), str(table)) for name, table in self.public))
        for name in ("contributions", "per_item"):
            bound = getattr(self, name)
            if bound is not None and bound < 1:
                raise InvalidParameter(f"{name} must be a positive whole number, not {bound!r}")

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that the registration names, each once."""
        return tuple(dict.fromkeys((self.user, *self.items, *self.values, *self.filters)))

    def text(self) -> str:
        """Return the definition as JSON text."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def read(text: str) -> "Dataset":
        """Return the data set of a definition written by `text`."""
        given = json.loads(text)
        written = given.pop("csv", {})  # definitions from before there were options have none
        if written.get("columns") is not None:
            written["columns"] = tuple(written["columns"])
        return Dataset(**given, csv=CsvOptions(**written))


class Datasets:
    """The store of registered data sets. A registration is never changed, so a replica may remember it."""

    def __init__(self, database: Database, *, clock: Clock = time.time) -> None:
        self._database = database
        self._clock = clock
        self._remembered: dict[str, Dataset] = {}

    def add(self, dataset: Dataset, *, by: str) -> Dataset:
        """Register a data set, or raise `NameTaken`."""
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
            raise NameTaken(f"there is a data set named {dataset.name!r} already; choose another name") from None
        return dataset

    def check_free(self, name: str) -> None:
        """Raise `NameTaken` when there is a data set of that name."""
        try:
            self.get(name)
        except UnknownName:
            return
        raise NameTaken(f"there is a data set named {name!r} already; choose another name")

    def get(self, name: str) -> Dataset:
        """Return the data set of that name or raise `UnknownName`."""
        if name not in self._remembered:
            query = select(schema.datasets.c.definition).where(schema.datasets.c.name == name)
            with self._database.reading() as connection:
                definition = connection.scalar(query)
            if definition is None:
                raise UnknownName(f"there is no data set named {name!r}")
            self._remembered[name] = Dataset.read(definition)
        return self._remembered[name]

    def definitions(self) -> dict[str, str]:
        """Return the stored text of every definition, by name."""
        query = select(schema.datasets.c.name, schema.datasets.c.definition).order_by(schema.datasets.c.name)
        with self._database.reading() as connection:
            return {row.name: row.definition for row in connection.execute(query)}

    def all(self) -> list[Dataset]:
        """Return every data set, by name."""
        query = select(schema.datasets.c.definition).order_by(schema.datasets.c.name)
        with self._database.reading() as connection:
            return [Dataset.read(definition) for definition in connection.scalars(query)]
