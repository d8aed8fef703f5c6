"""The store of registered data sets."""

import time

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from setwise.errors import NameTaken, UnknownName
from setwise.service import tables
from setwise.service.database import Database
from setwise.service.dataset import Dataset
from setwise.service.people import Clock


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
                connection.execute(insert(tables.datasets).values(row))
        except IntegrityError:
            raise NameTaken(f"there is a data set named {dataset.name!r} already; choose another name") from None
        return dataset

    def get(self, name: str) -> Dataset:
        """Return the data set of that name or raise `UnknownName`."""
        if name not in self._remembered:
            query = select(tables.datasets.c.definition).where(tables.datasets.c.name == name)
            with self._database.reading() as connection:
                definition = connection.scalar(query)
            if definition is None:
                raise UnknownName(f"there is no data set named {name!r}")
            self._remembered[name] = Dataset.read(definition)
        return self._remembered[name]

    def all(self) -> list[Dataset]:
        """Return every data set, by name."""
        query = select(tables.datasets.c.definition).order_by(tables.datasets.c.name)
        with self._database.reading() as connection:
            return [Dataset.read(definition) for definition in connection.scalars(query)]
