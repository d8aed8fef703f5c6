"""Labels and numbers on their way to an engine and back."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from setwise.analytics.engines.base import Aggregation, label_kind
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


def joined_labels(columns: Sequence[list[Cell]]) -> list[Label]:
    """Return one label for each line: the cell of the one column, or the cells of several."""
    return list(columns[0]) if len(columns) == 1 else list(zip(*columns, strict=True))


def arrow_labels(found: "pa.Table", aggregation: Aggregation) -> list[Label]:
    """Return the labels of the lines of an Arrow table."""
    places = range(aggregation.label_width)
    return joined_labels([found.column(f"g{place}").to_pylist() for place in places])


class CellCounts(Mapping[Label, NDArray[np.int64]]):
    """How many users add each number to each group: kept as the lines that were found, made whole where it is read."""

    def __init__(
        self, labels: Sequence[Label], cells: NDArray[np.int64], users: NDArray[np.int64], length: int
    ) -> None:
        groups: dict[Label, int] = {}
        places = np.fromiter((groups.setdefault(label, len(groups)) for label in labels), np.int64, len(labels))
        order = np.argsort(places, kind="stable")
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


def group_table(
    labels: Sequence[Label], columns: Mapping[str, NDArray[np.int64]], aggregation: Aggregation
) -> GroupTable:
    """Return what `StatementBuilder.statistics` found, line by line."""
    groups = np.flatnonzero(columns["measure"] == -1).tolist()
    names = [labels[place] for place in groups]
    totals: list[Mapping[Label, int]] = []
    numbers: list[Mapping[Label, int]] = []
    cells: list[Mapping[Label, NDArray[np.int64]]] = []
    for place, measure in enumerate(aggregation.measures):
        lines = np.flatnonzero(columns["measure"] == place).tolist()
        held = [labels[line] for line in lines]
        length = measure.most - measure.least + 1
        cells.append(CellCounts(held, columns["cell"][lines] - measure.least, columns["users"][lines], length))
        for kind, found in (("s", totals), ("n", numbers)):
            values = [] if measure.in_cells else columns[f"{kind}{place}"][groups].tolist()
            found.append(dict(zip(names, values, strict=not measure.in_cells)))
    return GroupTable(Histogram.of(names, columns["users"][groups]), tuple(totals), tuple(numbers), tuple(cells))


def arrow_group_table(found: "pa.Table", aggregation: Aggregation) -> GroupTable:
    """Return what `StatementBuilder.statistics` found in an Arrow table."""
    columns = {name: found.column(name).to_numpy() for name in found.column_names if not name.startswith("g")}
    return group_table(arrow_labels(found, aggregation), columns, aggregation)
