"""Conversion of public labels to rows for engines, and of engines' Arrow results to histograms and statistics."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from setwise.analytics.engines.aggregation import Aggregation, label_kind
from setwise.analytics.schema import Column, Schema
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.labels import Cell, Label, cell_of
from setwise.mechanisms.statistic_release import GroupTable
from setwise.mechanisms.weighted_rounds import GroupWeights

if TYPE_CHECKING:
    import pyarrow as pa


def domain_rows(aggregation: Aggregation, schema: Schema) -> tuple[list[Column], list[tuple[Cell, ...]]]:
    """Return (columns, rows): the columns by which rows are grouped, and the public labels as tuples of cells.

    A tuple has one cell per column. `rows` is empty if `aggregation` has no domain (list of public labels). `schema`
    has the table's columns. Labels with an integer beyond 64 bits are left out, because no row can have them.
    """
    columns = [group.labels(schema) for group in aggregation.groups]
    whole = [place for place, column in enumerate(columns) if label_kind(column) is int]
    rows = [tuple(cell_of(label, place) for place in range(len(columns))) for label in aggregation.domain or ()]
    # an integer column cannot hold other labels
    return columns, [row for row in rows if all(-(2**63) <= int(row[place]) < 2**63 for place in whole)]


def label_names(aggregation: Aggregation) -> list[str]:
    """Return the names g0, g1, ... of the label columns in a result of `aggregation`, one per group column.

    If all rows form one group, or all groups are added up (`Aggregation.pooled`), there is still g0, which holds the
    one label.
    """
    return [f"g{place}" for place in range(aggregation.label_width)]


def measure_names(aggregation: Aggregation) -> list[str]:
    """Return the names of the columns of numbers in a result of the SQL of `StatementBuilder.statistics`.

    They are cell, measure, users, and then s<i> and n<i> for each measure i of `aggregation` that is summed. A measure
    is an integer that each user adds to a group. A row with measure = -1 is about a whole group:

    - users is the number of its users.
    - s<i> is the sum of measure i over users.
    - n<i> is the number of users who add to that sum. If the measure limits a user's values (`Measure.rows`), it is the
      number of values.

    Any other row is a count for measure number `measure` (for most, how many users add the integer `cell`). The count
    is in the column users. Measures with `Measure.in_cells` have only such rows, and no columns s<i> and n<i>.
    """
    summed = [place for place, measure in enumerate(aggregation.measures) if not measure.in_cells]
    return ["cell", "measure", "users", *(f"{kind}{place}" for place in summed for kind in ("s", "n"))]


def arrow_table(columns: Mapping[str, Sequence[Cell]]) -> "pa.Table":
    """Return an Arrow table of `columns`, the cells that a database driver returned for each column, by column name."""
    import pyarrow as pa

    def array(cells: Sequence[Cell]) -> pa.Array:
        """Return the cells of one column as an Arrow array: of text if the first cell is text, otherwise of integers.

        The integers have 64 bits, and are unsigned if one is 2^63 or more.
        """
        if len(cells) > 0 and isinstance(cells[0], str):
            return pa.array(cells, pa.string())
        try:
            return pa.array(cells, pa.int64())
        except (OverflowError, pa.ArrowInvalid):  # unsigned labels beyond 2^63
            return pa.array(cells, pa.uint64())

    return pa.table({name: array(cells) for name, cells in columns.items()})


def arrow_labels(table: "pa.Table", aggregation: Aggregation) -> list[Label]:
    """Return the group label of each row of the Arrow table `table`, the result of a query of `aggregation`.

    A label is one value, or a tuple of values if `aggregation` has several group columns.
    """
    return _combine_labels([table.column(name).to_pylist() for name in label_names(aggregation)])


def _combine_labels(columns: Sequence[list[Cell]]) -> list[Label]:
    """Return one label per row: the row's cell in the only label column, or a tuple of cells for several `columns`."""
    return list(columns[0]) if len(columns) == 1 else list(zip(*columns, strict=True))


WEIGHT_COLUMNS = ("weight", "root", "share")
"""The names of the columns of numbers that `StatementBuilder.weights` returns."""


def arrow_group_weights(result: "pa.Table", aggregation: Aggregation) -> GroupWeights:
    """Return the exact weights of groups (sums over users), for one round of the private search for groups.

    The search (partition selection) adds noise to the weights. A user who counts in n groups adds the integer
    2^20/sqrt(n), rounded down, to the weight of each, so that all that one user adds has an l2 norm of at most 2^20.
    `result` is the Arrow result of the SQL statement that `StatementBuilder.weights` returned for `aggregation`.
    """
    weights, roots, shares = (result.column(name).to_numpy() for name in WEIGHT_COLUMNS)
    return GroupWeights(Histogram.of(arrow_labels(result, aggregation), weights), int(roots.sum()), int(shares.sum()))


class CellCounts(Mapping[Label, NDArray[np.int64]]):
    """A mapping from a group's label to an array that says how many users of the group add each integer.

    The integers are those that a user can add by one measure (a number that each user adds to a group). Entry c of an
    array is the number of users who add the integer c + `Measure.least`. If users divide votes among integers
    (`Measure.weight`, for quantiles), the entry is the number of votes instead. An array is computed when its group is
    looked up, from these fields:

    - `groups` maps each label to the number of its group.
    - `places`, `cells` and `users` are arrays with one element for each row of the query's result that is about the
      measure: the number of the row's group, the entry (index c) of the group's array, and the count that stands there.
    - `length` is the length of an array.
    """

    def __init__(
        self,
        groups: Mapping[Label, int],
        places: NDArray[np.int64],
        cells: NDArray[np.int64],
        users: NDArray[np.int64],
        length: int,
    ) -> None:
        order = np.argsort(places.astype(np.min_scalar_type(len(groups))), kind="stable")  # narrow ones by radix
        self._ends = np.searchsorted(places[order], np.arange(len(groups) + 1))
        self._groups, self._cells, self._users, self._length = groups, cells[order], users[order], length

    def __getitem__(self, label: Label) -> NDArray[np.int64]:
        place = self._groups[label]
        lines = slice(self._ends[place], self._ends[place + 1])
        counts = np.zeros(self._length, dtype=np.int64)
        counts[self._cells[lines]] = self._users[lines]
        return counts

    def __iter__(self) -> Iterator[Label]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)


def arrow_group_table(table: "pa.Table", aggregation: Aggregation) -> GroupTable:
    """Return the number of users, the sums and the cell counts of every group, from the Arrow result `table`.

    A cell is an integer that a user can add to a group. Its count is the number of users who add the integer or, for
    quantiles, the number of votes that they give to it. `table` is the result of the SQL statement that
    `StatementBuilder.statistics` returned for `aggregation`.
    """
    # There are many rows but few distinct labels, so each label is converted to a Python object only once.
    encoded = [_encode_column(table.column(name)) for name in label_names(aggregation)]
    distinct, places = encoded[0]
    number = len(distinct)
    for values, codes in encoded[1:]:
        tuples, places = np.unique(places * len(values) + codes, return_inverse=True)
        number = len(tuples)
    line = np.empty(number, dtype=np.int64)
    line[places] = np.arange(len(places))  # one line of each group
    labels = _combine_labels([[values[code] for code in codes[line].tolist()] for values, codes in encoded])
    columns = {name: table.column(name).to_numpy() for name in measure_names(aggregation)}
    return _group_table({label: place for place, label in enumerate(labels)}, places, columns, aggregation)


def _encode_column(column: "pa.ChunkedArray") -> tuple[list[Cell], NDArray[np.int64]]:
    """Return (values, positions): the distinct cells of an Arrow column, and for each row the position of its cell."""
    encoded = column.dictionary_encode().unify_dictionaries()
    codes = [chunk.indices.to_numpy() for chunk in encoded.chunks]
    values = encoded.chunk(0).dictionary.to_pylist() if codes else []
    return values, np.concatenate([np.zeros(0, dtype=np.int64), *codes])


def _group_table(
    groups: Mapping[Label, int],
    places: NDArray[np.int64],
    columns: Mapping[str, NDArray[np.int64]],
    aggregation: Aggregation,
) -> GroupTable:
    """Return the number of users, the sums and the cell counts of every group.

    Cell counts say for each integer how many users add it to the group, or how many votes they give to it.
    - `groups` maps each label to the number of its group.
    - `places` has, for each row of a result of `StatementBuilder.statistics`, the number of its group.
    - `columns` has the result's columns of numbers, by name.
    - `aggregation` describes the query whose result this is.
    """
    labels = list(groups)
    of_groups = np.flatnonzero(columns["measure"] == -1)
    names = [labels[place] for place in places[of_groups].tolist()]
    totals: list[Mapping[Label, int]] = []
    numbers: list[Mapping[Label, int]] = []
    cells: list[Mapping[Label, NDArray[np.int64]]] = []
    for place, measure in enumerate(aggregation.measures):
        first = aggregation.measures.index(measure)
        if first < place:  # equal measures are computed once, for the first of them
            cells.append(cells[first])
        else:
            lines = np.flatnonzero(columns["measure"] == place)
            length = measure.most - measure.least + 1
            found_cells = columns["cell"][lines] - measure.least
            cells.append(CellCounts(groups, places[lines], found_cells, columns["users"][lines], length))
        if measure.distinct is not None and not measure.by_rank:
            counted = columns["measure"] == first
            values = columns["users"][counted].tolist()
            totals.append(dict(zip([labels[at] for at in places[counted].tolist()], values, strict=True)))
            numbers.append(totals[-1])
            continue
        for kind, values_by_group in (("s", totals), ("n", numbers)):
            values = [] if measure.in_cells else columns[f"{kind}{place}"][of_groups].tolist()
            values_by_group.append(dict(zip(names, values, strict=not measure.in_cells)))
    return GroupTable(Histogram.of(names, columns["users"][of_groups]), tuple(totals), tuple(numbers), tuple(cells))
