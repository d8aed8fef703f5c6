"""Read from Parquet files and lake tables only the rows of the days that an update of a live series needs.

A live series is a set of noisy user counts that is released period by period. Before its first query on a file, the
engine (DuckDB) scans whole text columns for bytes that are not valid characters. For an update of one day that would
read the rows of all days. So the rows of the needed days are read first, into a table in memory. Row groups of Parquet
files that have only other days are skipped, because the statistics in the file show that. Files of lake tables (Delta,
Iceberg) are skipped by their partition.
"""

from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

from setwise.analytics.bins import group_of
from setwise.analytics.engines.connect import location_of
from setwise.analytics.engines.duckdb.day_range import DayRange
from setwise.analytics.engines.files import PARQUET_SUFFIXES, lake_folder
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.schema import Kind, Schema
from setwise.errors import UnsuitableTable
from setwise.live.terms import SeriesTerms

if TYPE_CHECKING:
    import pyarrow as pa

_OTHER_OPTIONS = ("types", "table", "columns", "separator", "format")
"""Reading options that change the rows or types of a file, so that it cannot be read directly as Parquet."""


def recent_rows(terms: SeriesTerms, schema: Schema, low: date, high: date) -> "pa.Table | None":
    """Return the rows of a live series' table from the day `low` to the day before `high`, or None.

    A live series is a set of noisy user counts that is released period by period, so an update needs only recent rows.
    Local Parquet files, Delta and Iceberg tables can be read in part, unless an option such as a separator or the kind
    of a column was given for reading them. For any other table the result is None, and the caller must read the whole
    table.

    The result has only the columns that the series uses, as its `terms` say; `schema` has the types of all columns.
    Raises `UnsuitableTable` if a file is damaged.
    """
    if terms.source.get("engine", "duckdb") != "duckdb" or any(terms.source.get(option) for option in _OTHER_OPTIONS):
        return None
    wanted = {terms.user, group_of(terms.item, schema).column, terms.at}
    if terms.where is not None:
        wanted |= {column.name for column in parse_filter(terms.where, schema).columns()}
    # The folder of a lake table also has files that the table has removed, so that its files are not read as Parquet.
    lake = lake_folder(terms.table)
    if lake is not None:
        from setwise.analytics.engines.duckdb.lake import recent_lake_rows

        return recent_lake_rows(lake, DayRange(at=terms.at, first=low, end=high), sorted(wanted))
    files = location_of(terms.table).files
    if not files or not all(file.suffix.lower() in PARQUET_SUFFIXES for file in files):
        return None
    import pyarrow as pa
    import pyarrow.dataset as ds

    failed = False
    try:
        files_as_table = ds.dataset([str(file) for file in files], format="parquet")
        if not wanted <= set(files_as_table.schema.names):  # the missing columns are parts of the files' paths
            return None
        kind = files_as_table.schema.field(terms.at).type
        first, last = (pa.scalar(_moment(day, schema.column(terms.at).kind), kind) for day in (low, high))
        at = ds.field(terms.at)
        return files_as_table.to_table(columns=sorted(wanted), filter=(at >= first) & (at < last))
    except (pa.ArrowException, OSError):
        failed = True  # raised below without its cause, because the driver's message may quote a private value
    assert failed
    raise UnsuitableTable("the source cannot be read as a table: it is damaged or of another format")


def _moment(day: date, kind: Kind) -> Any:  # noqa: ANN401 - a date or a time, as the column has it
    """Return midnight at the start of `day` as a value that can be compared with a time column of this `kind`.

    For a column of dates, the value is a date. For a column of instants (timestamps with a zone) it is a datetime in
    UTC, and for any other column a datetime without a zone.
    """
    if kind is Kind.DATE:
        return day
    return datetime.combine(day, time(), UTC if kind is Kind.INSTANT else None)
