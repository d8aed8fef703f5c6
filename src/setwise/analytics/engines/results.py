"""Labels and numbers on their way to an engine and back."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from setwise.analytics.engines.aggregation import Aggregation, label_kind
from setwise.analytics.schema import Column, Schema
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.labels import Cell, Label, cell_of
from setwise.mechanisms.statistics import GroupTable

if TYPE_CHECKING:
    import pyarrow as pa


def domain_rows(aggregation: Aggregation, schema: Schema) -> tuple[list[Column], list[tuple[Cell, ...]]]:
    """Return the columns of labels, and the labels of the domain that columns of 64-bit integers and text can hold."""
    columns = [group.labels(schema) for group in aggregation.groups]
    whole = [place for place, column in enumerate(columns) if label_kind(column) is int]
    rows = [tuple(cell_of(label, place) for place in range(len(columns))) for label in aggregation.domain or ()]
    return columns, [row for row in rows if all(-(2**63) <= int(row[place]) < 2**63 for place in whole)]


def label_names(aggregation: Aggregation) -> list[str]:
    """Return the names of the columns that hold the labels of what is returned."""
    return [f"g{place}" for place in range(aggregation.label_width)]


def measure_names(aggregation: Aggregation) -> list[str]:
    """Return the names of the columns of numbers that `StatementBuilder.statistics` finds."""
    added = [place for place, measure in enumerate(aggregation.measures) if not measure.in_cells]
    return ["cell", "measure", "users", *(f"{kind}{place}" for place in added for kind in ("s", "n"))]


def arrow_table(columns: Mapping[str, Sequence[Cell]]) -> "pa.Table":
    """Return what a driver found, by the names of columns, as an Arrow table."""
    import pyarrow as pa

    def array(cells: Sequence[Cell]) -> pa.Array:
        if len(cells) > 0 and isinstance(cells[0], str):
            return pa.array(cells, pa.string())
        try:
            return pa.array(cells, pa.int64())
        except (OverflowError, pa.ArrowInvalid):  # unsigned labels beyond 2^63
            return pa.array(cells, pa.uint64())

    return pa.table({name: array(cells) for name, cells in columns.items()})


def arrow_labels(found: "pa.Table", aggregation: Aggregation) -> list[Label]:
    """Return the labels of the lines of an Arrow table."""
    return _joined([found.column(name).to_pylist() for name in label_names(aggregation)])


def _joined(columns: Sequence[list[Cell]]) -> list[Label]:
    """Return one label for each line: the cell of the one column, or the cells of several."""
    return list(columns[0]) if len(columns) == 1 else list(zip(*columns, strict=True))


class CellCounts(Mapping[Label, NDArray[np.int64]]):
    """How many users add each number to each group: kept as the lines that were found, made whole where it is read.

    `groups` has the place of every label, and `places` that of each line.
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


def arrow_group_table(found: "pa.Table", aggregation: Aggregation) -> GroupTable:
    """Return what `StatementBuilder.statistics` found in an Arrow table.

    Cells are many and labels few: equal ones are found by Arrow, and made Python's once.
    """
    encoded = [_encoded(found.column(name)) for name in label_names(aggregation)]
    distinct, places = encoded[0]
    number = len(distinct)
    for values, codes in encoded[1:]:
        tuples, places = np.unique(places * len(values) + codes, return_inverse=True)
        number = len(tuples)
    line = np.empty(number, dtype=np.int64)
    line[places] = np.arange(len(places))  # one line of each group
    labels = _joined([[values[code] for code in codes[line].tolist()] for values, codes in encoded])
    columns = {name: found.column(name).to_numpy() for name in measure_names(aggregation)}
    return _table_of_lines({label: place for place, label in enumerate(labels)}, places, columns, aggregation)


def _encoded(column: "pa.ChunkedArray") -> tuple[list[Cell], NDArray[np.int64]]:
    """Return the distinct cells of a column, and for each cell its place among them."""
    encoded = column.dictionary_encode().unify_dictionaries()
    codes = [chunk.indices.to_numpy() for chunk in encoded.chunks]
    values = encoded.chunk(0).dictionary.to_pylist() if codes else []
    return values, np.concatenate([np.zeros(0, dtype=np.int64), *codes])


def _table_of_lines(
    groups: Mapping[Label, int],
    places: NDArray[np.int64],
    columns: Mapping[str, NDArray[np.int64]],
    aggregation: Aggregation,
) -> GroupTable:
    """Return what was found; `groups` has the place of every label, and `places` that of each line."""
    labels = list(groups)
    of_groups = np.flatnonzero(columns["measure"] == -1)
    names = [labels[place] for place in places[of_groups].tolist()]
    totals: list[Mapping[Label, int]] = []
    numbers: list[Mapping[Label, int]] = []
    cells: list[Mapping[Label, NDArray[np.int64]]] = []
    for place, measure in enumerate(aggregation.measures):
        first = aggregation.measures.index(measure)
        if first < place:  # of equal measures in cells, the first stands for all
            cells.append(cells[first])
        else:
            lines = np.flatnonzero(columns["measure"] == place)
            length = measure.most - measure.least + 1
            found_cells = columns["cell"][lines] - measure.least
            cells.append(CellCounts(groups, places[lines], found_cells, columns["users"][lines], length))
        if measure.distinct is not None:
            counted = columns["measure"] == first
            values = columns["users"][counted].tolist()
            totals.append(dict(zip([labels[at] for at in places[counted].tolist()], values, strict=True)))
            numbers.append(totals[-1])
            continue
        for kind, found in (("s", totals), ("n", numbers)):
            values = [] if measure.in_cells else columns[f"{kind}{place}"][of_groups].tolist()
            found.append(dict(zip(names, values, strict=not measure.in_cells)))
    return GroupTable(Histogram.of(names, columns["users"][of_groups]), tuple(totals), tuple(numbers), tuple(cells))
