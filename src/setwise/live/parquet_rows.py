"""The rows of Parquet files that an update needs: groups of rows that are too old by their statistics are not read.

Before its first question to a file the engine looks through whole columns of text, for bytes that are no characters. An
update of one day would read all days for that, so it takes the rows of its days first, as a table in memory.
"""

from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

from setwise.analytics.bins import group_of
from setwise.analytics.engines.connect import location_of
from setwise.analytics.engines.files import PARQUET_SUFFIXES
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.schema import Kind, Schema
from setwise.errors import UnsuitableTable
from setwise.live.terms import SeriesTerms

if TYPE_CHECKING:
    import pyarrow as pa

_OTHER_OPTIONS = ("types", "table", "columns", "separator", "format")
"""Options with which a file is not read as it is."""


def recent_rows(terms: SeriesTerms, schema: Schema, low: date, high: date) -> "pa.Table | None":
    """Return the rows of local Parquet files from the day `low` to the one before `high`; None for other tables.

    At least the rows of these days are returned, with the columns that the series reads.
    """
    files = location_of(terms.table).files if terms.source.get("engine", "duckdb") == "duckdb" else ()
    parquet = bool(files) and all(file.suffix.lower() in PARQUET_SUFFIXES for file in files)
    if not parquet or any(terms.source.get(option) for option in _OTHER_OPTIONS):
        return None
    import pyarrow as pa
    import pyarrow.dataset as ds

    wanted = {terms.user, group_of(terms.item, schema).column, terms.at}
    if terms.where is not None:
        wanted |= {column.name for column in parse_filter(terms.where, schema).columns()}
    failed = False
    try:
        found = ds.dataset([str(file) for file in files], format="parquet")
        if not wanted <= set(found.schema.names):  # columns that are parts of paths
            return None
        kind = found.schema.field(terms.at).type
        first, last = (pa.scalar(_moment(day, schema.column(terms.at).kind), kind) for day in (low, high))
        at = ds.field(terms.at)
        return found.to_table(columns=sorted(wanted), filter=(at >= first) & (at < last))
    except (pa.ArrowException, OSError):
        failed = True  # the message may quote a value
    assert failed
    raise UnsuitableTable("the source cannot be read as a table: it is damaged or of another format")


def _moment(day: date, kind: Kind) -> Any:  # noqa: ANN401 - a date or a time, as the column has it
    if kind is Kind.DATE:
        return day
    return datetime.combine(day, time(), UTC if kind is Kind.INSTANT else None)
