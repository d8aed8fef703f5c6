"""Destinations of a report's answers: files (CSV, Parquet), replaced atomically, database tables, and one HTML page.

The HTML page is self-contained: it needs no script, no other file and no network.
"""

import base64
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setwise.accounting.promises import promise_for_unit, promised_pair
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.planning.joint_pricing import Priced
from setwise.analytics.present.html import MOST_ROWS, numbers_html
from setwise.analytics.present.plot import bars_of
from setwise.analytics.sql.result import SqlAnswer
from setwise.errors import EngineFailed, InvalidParameter, MissingExtra, StoreFailed
from setwise.reports.report import Report, ReportQuestion

if TYPE_CHECKING:
    import pyarrow as pa

    from setwise.live.view import SeriesView

Answered = PrivateAnswer | SqlAnswer
"""The answer to one question of a report: to a query, or to a SQL statement."""

_POSTGRESQL = ("postgresql://", "postgres://")


def check_destination(to: str) -> None:
    """Raise `InvalidParameter` unless answers can be written to the destination `to`.

    A destination is a .csv, .json or .parquet file, or a table in a database: FILE.duckdb::TABLE or
    postgresql://...::TABLE. Only the text is checked; nothing is opened.
    """
    path, table = _split_destination(to)
    if path.startswith(_POSTGRESQL) or path.endswith(".duckdb"):
        if not table:
            raise InvalidParameter(f"name the table to write into: {shown_destination(path)}::TABLE")
    elif table or Path(path).suffix not in _FILES:
        raise InvalidParameter(
            f"answers are written to {', '.join(_FILES)} files, FILE.duckdb::TABLE or postgresql://...::TABLE, "
            f"not {shown_destination(to)!r}"
        )


def write_answer(answer: Answered, to: str, run: str) -> None:
    """Write an answer to the destination `to`: a file, or a table in a DuckDB or PostgreSQL database.

    Examples of `to` are counts.csv, answers.duckdb::counts and postgresql://host/db::counts. `run` is the name under
    which the report is run. A file is replaced. In a database table, rows of an earlier attempt of the same run are
    replaced, and rows of other runs stay.
    """
    path, table = _split_destination(to)
    if path.startswith(_POSTGRESQL):
        _to_postgresql(path, table, run, rows_of(answer))
    elif path.endswith(".duckdb"):
        _to_duckdb(path, table, run, rows_of(answer))
    else:
        write_whole(Path(path), _FILES[Path(path).suffix](answer))


def rows_of(answer: Answered) -> "pa.Table":
    """Return the rows of an answer as an Arrow table, with a column `measure` that says what the numbers count.

    A row in a data warehouse is read without the answer that it came from, and needs this column to be understood.
    """
    import pyarrow as pa

    table = answer.to_arrow() if isinstance(answer, PrivateAnswer) else pa.table(answer.by_column())
    if "measure" in table.column_names:
        return table
    return table.append_column("measure", pa.array(answer.row_measures(), pa.string()))


def write_series(view: "SeriesView", to: str) -> None:
    """Write the released numbers of a live series, `view`, to the file `to`: .csv, .json, .svg or .png.

    A live series is a set of noisy user counts that is charged once and released period by period.
    """
    match Path(to).suffix.lower():
        case ".csv":
            write_whole(Path(to), view.to_csv().encode())
        case ".json":
            write_whole(Path(to), (view.to_json() + "\n").encode())
        case _:
            view.picture().save(to)


def write_whole(path: Path, contents: bytes) -> None:
    """Replace the contents of the file `path` by `contents` atomically: readers see all old or all new contents.

    Raises: `StoreFailed` if the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(contents)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreFailed(f"{str(path)!r} could not be written: {error.strerror or error}") from None


def _parquet(answer: Answered) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(rows_of(answer), sink)
    return bytes(sink.getvalue())


_FILES: dict[str, Callable[[Answered], bytes]] = {
    ".csv": lambda answer: answer.to_csv().encode(),
    ".json": lambda answer: (json.dumps(answer.to_dict(), ensure_ascii=False, indent=1) + "\n").encode(),
    ".parquet": _parquet,
}


def _split_destination(to: str) -> tuple[str, str]:
    path, _, table = to.rpartition("::") if "::" in to else (to, "", "")
    return path, table


def shown_destination(to: str) -> str:
    """Return the destination `to` as text that may be shown.

    The address of a PostgreSQL server is replaced by dots, because it may contain a password.
    """
    return f"postgresql://...{to[to.rfind('::') :] if '::' in to else ''}" if to.startswith(_POSTGRESQL) else to


def _to_duckdb(path: str, table: str, run: str, rows: "pa.Table") -> None:
    import duckdb

    from setwise.analytics.engines.duckdb.dialect import quoted

    name = ".".join(quoted(part) for part in table.split("."))
    try:
        with duckdb.connect(path) as connection:
            connection.register("answered", rows)
            columns = ", ".join(quoted(column) for column in rows.column_names)
            connection.begin()
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {name} AS "
                f"SELECT CAST('' AS VARCHAR) AS run, {columns} FROM answered LIMIT 0"
            )
            if "measure" in rows.column_names:  # tables that earlier versions wrote lack this column
                connection.execute(f"ALTER TABLE {name} ADD COLUMN IF NOT EXISTS measure VARCHAR")
            connection.execute(f"DELETE FROM {name} WHERE run = ?", [run])
            connection.execute(
                f"INSERT INTO {name} (run, {columns}) SELECT CAST(? AS VARCHAR), {columns} FROM answered", [run]
            )
            connection.commit()
    except duckdb.Error as error:
        raise EngineFailed(f"the table {table!r} in {path!r} could not be written: {_first_line(error)}") from None


def _to_postgresql(url: str, table: str, run: str, rows: "pa.Table") -> None:
    try:
        import psycopg
        from psycopg import sql
    except ImportError:
        raise MissingExtra("psycopg is not installed: pip install 'setwise[postgres]'") from None
    name = sql.Identifier(*table.split("."))
    columns = [sql.Identifier(column) for column in rows.column_names]
    kinds = [sql.SQL(_postgresql_kind(kind)) for kind in rows.schema.types]
    declared = sql.SQL(", ").join(sql.SQL("{} {}").format(*pair) for pair in zip(columns, kinds, strict=True))
    listed = sql.SQL(", ").join([sql.Identifier("run"), *columns])
    try:
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute(
                sql.SQL("CREATE TABLE IF NOT EXISTS {} ({} text NOT NULL, {})").format(
                    name, sql.Identifier("run"), declared
                )
            )
            if "measure" in rows.column_names:  # tables that earlier versions wrote lack this column
                cursor.execute(sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS measure text").format(name))
            cursor.execute(sql.SQL("DELETE FROM {} WHERE run = %s").format(name), [run])
            lines: list[dict[str, Any]] = rows.to_pylist()
            cursor.executemany(
                sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                    name, listed, sql.SQL(", ").join([sql.Placeholder()] * (1 + len(columns)))
                ),
                [[run, *line.values()] for line in lines],
            )
    except psycopg.Error as error:
        raise EngineFailed(f"the table {table!r} could not be written: {_first_line(error)}") from None


def _postgresql_kind(kind: "pa.DataType") -> str:
    import pyarrow.types as pt

    if pt.is_boolean(kind):
        return "boolean"
    if pt.is_integer(kind):
        return "numeric" if str(kind) == "uint64" else "bigint"
    if pt.is_floating(kind):
        return "double precision"
    if pt.is_date(kind):
        return "date"
    if pt.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    return "numeric" if pt.is_decimal(kind) else "text"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:62em;margin:2em auto;padding:0 1em}"
    "h1,h2{line-height:1.2}section{margin:2.5em 0;overflow-x:auto}"
    "img{max-width:100%;background:#fff;border-radius:6px}header p,section p{max-width:45em}"
    "table.numbers{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:1em 0}"
    ".numbers th,.numbers td{padding:.35em .9em;text-align:left;border-bottom:1px solid rgba(128,128,128,.35)}"
    ".numbers thead th{border-bottom-width:2px}.numbers .number{text-align:right}.note{font-size:.9em;opacity:.8}"
)


def report_page(report: Report, key: str, priced: Priced, answers: Mapping[str, Answered]) -> str:
    """Return the HTML page of a run of `report`: the privacy promise, then each answer as a picture and a table.

    `key` is the name of the run, `priced` has the certified cost of all questions together, and `answers` has the
    answers by question name.
    """
    questions = {question.name: question for question in report.questions}
    sections = "".join(_section(questions[name], answer) for name, answer in answers.items())
    title = escape(report.title)
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{title}</title><style>{_STYLE}</style></head><body><header><h1>{title}</h1>"
        f"<p>Every number here has noise added. {escape(joint_promise(report, priced))} "
        f"{escape(_formal_promise(report, priced))}</p><p>Run {escape(key)}.</p></header>{sections}</body></html>\n"
    )


def joint_promise(report: Report, priced: Priced) -> str:
    """Return the privacy promise of `report` in words: the (epsilon, delta) that holds for all its answers together.

    The words first say which unit of privacy is protected, such as a user. `priced` has the certified cost of all
    questions together.
    """
    return promise_for_unit(report.unit, priced.promise.upper, report.delta)


def _formal_promise(report: Report, priced: Priced) -> str:
    """Return a sentence with the epsilon and delta of all answers of `report` together, and the theorem they rest on.

    `priced` has the certified cost of all questions together.
    """
    return (
        f"Formally: all answers together are {promised_pair(priced.promise.upper, report.delta)}-differentially "
        f"private, in any order of the questions ({priced.promise.method}, {priced.promise.statement})."
    )


def _section(question: ReportQuestion, answer: Answered) -> str:
    """Return the HTML of one `question` and its `answer`: a heading, a picture, a table, and notes about the numbers.

    Columns have the names that the report's author wrote: names in the SELECT, or the name of the group column.
    """
    private = answer if isinstance(answer, PrivateAnswer) else answer.answer
    heading = question.title or question.name
    columns, statistics = _columns(question, answer)
    more = len(answer) - MOST_ROWS
    counted = f"{private.heading[:1].upper()}{private.heading[1:]}. {private.left_out} {private.interval_note}"
    notes = [
        f"and {more:,} more" if more > 0 else "",
        counted if len(answer) else answer.summary,
        "" if isinstance(answer, PrivateAnswer) or not len(answer) else " ".join(answer.notes),
        private.promise,
    ]
    words = "".join(f"<p class='note'>{escape(note)}</p>" for note in notes if note)
    table = numbers_html(columns, statistics, private.confidence, answer.unreliable_columns())
    picture = _picture(heading, answer, question.query.groups)
    return f"<section><h2>{escape(heading)}</h2>{picture}{table}{words}</section>"


def _columns(question: ReportQuestion, answer: Answered) -> tuple[dict[str, list[Any]], list[str]]:
    """Return (columns, statistics) for the table of the answer to `question`.

    - columns: the values of each column, by the name of the column
    - statistics: the names of the columns with statistics; the other columns have group labels

    If the answer does not know the name of its label column, that name is taken from `question`.
    """
    if isinstance(answer, SqlAnswer):
        named = [output.name for output in answer.outputs if output.statistic is not None or output.interval]
        return answer.by_column(), named
    columns = answer.columns()
    if "item" in columns:  # an answer with one group column does not know its name; the question does
        labels = columns.pop("item")
        columns = {**({question.query.groups[0]: labels} if question.query.groups else {}), **columns}
    return columns, list(answer.statistics or ("count",))


def _has_numbers(answer: Answered) -> bool:
    """Return whether at least one bar of the answer's first chart has a value, so that a picture shows something."""
    bars = bars_of(answer) if isinstance(answer, PrivateAnswer) else answer.charts()[0].bars
    return any(bar.value is not None for bar in bars)


def _picture(name: str, answer: Answered, groups: Sequence[str]) -> str:
    """Return an HTML image element with a chart of the answer's groups and their intervals.

    `name` is its title and its alternative text, and `groups` are the names of the group columns. Returns "" if there
    is no number to draw, or if matplotlib is not installed.
    """
    if not _has_numbers(answer):
        return ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.svg"
        try:
            answer.plot(str(path), title=name, groups=() if isinstance(answer, SqlAnswer) else groups)
        except MissingExtra:
            return ""
        png = base64.b64encode(path.read_bytes()).decode()
    return f"<img alt='{escape(name, quote=True)}: bars with intervals' src='data:image/svg+xml;base64,{png}'>"
