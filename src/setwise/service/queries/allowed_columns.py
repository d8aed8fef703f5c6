"""The columns that a steward allows questions to use, and the check of a query against them."""

from collections.abc import Sequence
from functools import partial
from json import dumps

from setwise.analytics.bins import group_of
from setwise.analytics.engines.joins import Key
from setwise.analytics.filter.expression import Filter
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.query import Query
from setwise.analytics.rows.derivation import Derivation, columns_computed_with
from setwise.analytics.schema import Schema
from setwise.errors import UnknownColumn
from setwise.service.problems import at_field, each_of
from setwise.service.storage.datasets import Dataset


def column_not_allowed(word: str, name: str, listed: Sequence[str], user: str = "") -> UnknownColumn:
    """Return the error for a request that names the column `name` in a place where the steward does not allow it.

    The message says which place that is (`word`, such as "item") and which columns are allowed there (`listed`). A
    column that does not exist gets the same message, so that nobody can find out which other columns the table has. If
    `name` is the user column `user`, which no steward can allow, the message says how users are counted.
    """
    refused = f"{word} must be one of the columns allowed here ({_names(listed)}), not {name!r}"
    if name == user:
        return UnknownColumn(f"{refused}, {_counted_only(user)}")
    return UnknownColumn(f"{refused}; {_how_allowed(_field(word), name)}")


def _names(listed: Sequence[str]) -> str:
    """Return the names of columns in quotes, each once; "none" for no columns."""
    return ", ".join(map(repr, dict.fromkeys(listed))) or "none"


def _how_allowed(field: str, name: str) -> str:
    """Return a phrase that says how a steward allows the column `name`: in `field` of a dataset's registration."""
    return f"a steward allows columns where a dataset is registered, as in {field}: {dumps([name])}"


def _counted_only(user: str) -> str:
    """Return a phrase that says what questions may do with the user column `user`."""
    return f"which tells users apart: questions may only count users, in SQL by COUNT(DISTINCT {user})"


def _field(word: str) -> str:
    """Return the field of a dataset's registration, in quotes, that lists columns for the place called `word`."""
    return {"item": '"items"', "value": '"values"', "at": '"filters"'}.get(word, '"items" or "filters"')


class AllowedColumns:
    """The columns that a question to `dataset` may use.

    These are the columns that the steward (who manages datasets) lists for it, and all columns of public tables (tables
    without users). `schema` has all columns of the dataset's own table.
    """

    def __init__(self, dataset: Dataset, schema: Schema) -> None:
        self._dataset = dataset
        self._names = schema.names

    def dataset_column(self, name: str) -> str | None:
        """Return which column of the dataset's own table is meant by `name`; None if the dataset has no such column.

        `name` may have the dataset's name before it, as in `events.word`; the result is then `word`. A column of a
        public table (a table without users) gives None.
        """
        plain = name.removeprefix(f"{self._dataset.name}.")
        return next((column for column in (name, plain) if column in self._names), None)

    def check(self, word: str, name: str, listed: tuple[str, ...], *, exists: bool) -> None:
        """Raise `UnknownColumn` if a question may not use the column `name` in one place, such as a request field.

        - `word`: how the error message names that place, such as "item", "value" or "a column to join on"
        - `listed`: the columns of the dataset that the steward allows there
        - `exists`: whether the table that the question reads has a column `name`. If not, the error is the same as for
          a column that is not allowed, so that nobody can find out which other columns the table has

        Columns of public tables (tables without users) are always allowed.
        """
        column = self.dataset_column(name)
        if not exists or (column is not None and column not in listed):
            raise column_not_allowed(word, column or name, listed, self._dataset.user)

    def check_derivation(self, derivation: Derivation) -> None:
        """Raise `UnknownColumn` unless the steward allows every column with which `derivation` computes.

        A derivation has the steps by which SQL computes each user's rows. A column that is allowed only as a value may
        occur in arithmetic, but not in a condition or a group key. Nothing may be computed with the column that
        identifies users; the steps only use it to keep the rows of each user apart from those of others.
        """
        dataset = self._dataset
        for name, is_number in columns_computed_with(derivation):
            protected = name.removeprefix(f"{dataset.name}.") == dataset.protected
            column = dataset.protected if protected else self.dataset_column(name)
            listed = (*dataset.items, *dataset.filters, *(dataset.values if is_number else ()))
            if column is not None and column not in listed:
                refused = f"SQL may compute with the columns allowed here ({_names(listed)}), not with {name!r}"
                if column in (dataset.user, dataset.protected):
                    raise UnknownColumn(f"{refused}, {_counted_only(dataset.user)}")
                field = '"values"' if is_number else '"items" or "filters"'
                raise UnknownColumn(f"{refused}; {_how_allowed(field, name)}")

    def check_key(self, key: Key) -> None:
        """Raise `UnknownColumn` unless SQL may join a table on the condition `key`.

        A join adds one table to the tables before it. The condition says that a column of an earlier table equals a
        column of the added table.

        - If the earlier table is the dataset's own, the steward must allow its column for groups or filters, because a
          join can do the work of both. It drops rows without a match, as a filter does. It also adds columns that
          follow from the joined column, such as the country of a city, and SQL may group by them.
        - If the earlier table is another joined table, its column is always allowed, because only public tables (tables
          without users) are joined.
        """
        if key.earlier in (None, self._dataset.name) and key.column in self._names:
            listed = (*self._dataset.items, *self._dataset.filters)
            self.check("a column to join on", key.column, listed, exists=True)

    def filter_columns(self, schema: Schema) -> list[str]:
        """Return the names of the columns in `schema` by which a question may filter.

        `schema` has the columns of the table that the question reads: the dataset's own columns, of which the steward
        lists some as filters, and columns of public tables (tables without users), which are always allowed.
        """
        columns = [(name, self.dataset_column(name)) for name in schema.names]
        return [name for name, column in columns if column is None or column in self._dataset.filters]

    def check_grouped(self, query: Query, schema: Schema) -> None:
        """Raise `UnknownColumn` if `query` groups by, or aggregates, a column that the steward does not allow for that.

        `schema` has the columns of the table that the query reads.
        """
        grouped = [group_of(text, schema).column for text in query.groups]
        roles = (("item", grouped, self._dataset.items), ("value", query.values, self._dataset.values))

        def check(word: str, column: str, listed: tuple[str, ...]) -> None:
            with at_field(f"query.{word}"):
                self.check(word, column, listed, exists=column in schema.names)

        each_of(*(partial(check, word, column, listed) for word, columns, listed in roles for column in columns))


def check_columns(query: Query, schema: Schema, allowed: AllowedColumns) -> Filter | None:
    """Check that `query` uses only columns that the steward allows; return the parsed filter of the query, or None.

    The filter is parsed for `schema`, the columns of the table that the query reads; it is None if the query has no
    filter. `allowed` has the columns that the steward allows. Raises `UnknownColumn` or `InvalidFilter` for a column
    that is not allowed.
    """

    def where() -> Filter | None:
        if query.where is None:
            return None
        with at_field("query.where"):
            return parse_filter(query.where, schema, allowed.filter_columns(schema))

    parsed: Filter | None
    _, parsed = each_of(partial(allowed.check_grouped, query, schema), where)
    return parsed
