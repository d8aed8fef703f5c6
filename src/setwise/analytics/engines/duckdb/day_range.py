"""Ranges of days, and a reader of Parquet files that skips row groups without a row in a range."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRange:
    """A range of days, from the day `first` to the day before `end`.

    It selects the rows of a table whose date or time, in the column `at`, is in the range.
    """

    at: str
    first: date
    end: date

    def excludes(self, least: object, greatest: object) -> bool:
        """Return whether no time from `least` to `greatest`, both included, is in this range of days.

        The caller can then skip a part of a file whose least and greatest times these are. A time without a zone is
        taken as UTC. The result is False if `least` or `greatest` is neither a date nor a time, so that nothing is
        skipped.
        """
        low, high = _in_utc(least), _in_utc(greatest)
        if low is None or high is None:
            return False
        return high < datetime.combine(self.first, time()) or low >= datetime.combine(self.end, time())

    def excludes_constant(self, constant: pa.Scalar | None) -> bool:
        """Return whether a file can be skipped because all its rows have the same time, which is not in this range.

        `constant` is that time. If it is None or null, the rows have no time and cannot be in the range, so the result
        is True.
        """
        value = None if constant is None else constant.as_py()
        return value is None or self.excludes(value, value)

    def rows_of(self, rows: pa.Table) -> pa.Table:
        """Return the rows of the table `rows` whose time is in this range of days; rows without a time are left out."""
        column = rows.column(self.at)
        zone = UTC if pa.types.is_timestamp(column.type) and column.type.tz else None
        is_date = pa.types.is_date(column.type)
        first, end = (
            pa.scalar(day if is_date else datetime.combine(day, time(), zone), column.type)
            for day in (self.first, self.end)
        )
        return rows.filter(pc.and_(pc.greater_equal(column, first), pc.less(column, end)))


def batches_in_range(
    opened: "pq.ParquetFile", names: Sequence[str], at: str, days: DayRange, rows: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (position, batch) for the columns `names` of the Parquet file `opened`; a batch has at most `rows` rows.

    `position` is the number of the batch's first row in the file, from 0. A row group (a part of the file) is skipped
    if the statistics of its column `at`, in the file's footer, show that it has no time in the range `days`.
    """
    start = 0
    for group in range(opened.metadata.num_row_groups):
        if _excluded_by_statistics(opened, group, at, days):
            start += opened.metadata.row_group(group).num_rows
            continue
        for batch in opened.iter_batches(rows, row_groups=[group], columns=list(names)):
            yield start, batch
            start += batch.num_rows


def _excluded_by_statistics(opened: "pq.ParquetFile", group: int, at: str, days: DayRange) -> bool:
    """Return whether a row group of the Parquet file `opened` has no time in the range `days`, as its statistics show.

    The caller then skips the row group (a part of the file), which is number `group` of the file. `at` is the column of
    times. The result is False if the file has no statistics of that column.
    """
    metadata = opened.metadata.row_group(group)
    columns = [metadata.column(place) for place in range(metadata.num_columns)]
    statistics = next((column.statistics for column in columns if column.path_in_schema == at), None)
    if statistics is None or not statistics.has_min_max:
        return False
    try:
        return days.excludes(statistics.min, statistics.max)
    except (ValueError, OverflowError):  # a time that Python cannot hold
        return False


def _in_utc(value: object) -> datetime | None:
    """Return a date or time as a UTC time without a zone; None if `value` is of another type."""
    match value:
        case datetime(tzinfo=None):
            return value
        case datetime():
            return value.astimezone(UTC).replace(tzinfo=None)
        case date():
            return datetime.combine(value, time())
        case _:
            return None
