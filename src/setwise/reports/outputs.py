"""Where answers go: files that appear whole or not at all, tables of a database, and one HTML page of a report.

The page needs nothing else: no script, no file, no network.
"""

import base64
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setwise.accounting.notation import rounded_up
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.present.html import answer_html
from setwise.analytics.pricing import Priced
from setwise.analytics.sql.result import SqlAnswer
from setwise.errors import EngineFailed, InvalidParameter, MissingExtra, StoreFailed
from setwise.reports.report import Report

if TYPE_CHECKING:
    import pyarrow as pa

    from setwise.live.view import SeriesView

Answered = PrivateAnswer | SqlAnswer

_POSTGRESQL = ("postgresql://", "postgres://")


def check_destination(to: str) -> None:
    """Raise `InvalidParameter` unless answers can be written there, by its name."""
    path, table = _parted(to)
    if path.startswith(_POSTGRESQL) or path.endswith(".duckdb"):
        if not table:
            raise InvalidParameter(f"name the table to write into: {without_password(path)}::TABLE")
    elif table or Path(path).suffix not in _FILES:
        raise InvalidParameter(
            f"answers are written to {', '.join(_FILES)} files, FILE.duckdb::TABLE or postgresql://...::TABLE, "
            f"not {without_password(to)!r}"
        )


def write_answer(answer: Answered, to: str, run: str) -> None:
    """Write an answer; in a table the rows of the same run are replaced, and those of others stay."""
    path, table = _parted(to)
    if path.startswith(_POSTGRESQL):
        _to_postgresql(path, table, run, rows_of(answer))
    elif path.endswith(".duckdb"):
        _to_duckdb(path, table, run, rows_of(answer))
    else:
        write_whole(Path(path), _FILES[Path(path).suffix](answer))


def rows_of(answer: Answered) -> "pa.Table":
    """Return the rows of an answer as an Arrow table; `measure` says in each what was counted and what was left out.

    A row in a warehouse is read without the answer it came from, so it must say what its number is.
    """
    import pyarrow as pa

    private = answer if isinstance(answer, PrivateAnswer) else answer.answer
    table = answer.to_arrow() if isinstance(answer, PrivateAnswer) else pa.table(answer.by_column())
    if "measure" in table.column_names:
        return table
    return table.append_column("measure", pa.array([private.measure] * table.num_rows, pa.string()))


def write_series(view: "SeriesView", to: str) -> None:
    """Write the released numbers of a live series to a .csv, .json, .svg or .png file, by its ending."""
    match Path(to).suffix.lower():
        case ".csv":
            write_whole(Path(to), view.to_csv().encode())
        case ".json":
            write_whole(Path(to), (view.to_json() + "\n").encode())
        case _:
            view.picture().save(to)


def write_whole(path: Path, contents: bytes) -> None:
    """Put a file in place at once: readers see the old contents or the new, and never a part."""
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


def _parted(to: str) -> tuple[str, str]:
    path, _, table = to.rpartition("::") if "::" in to else (to, "", "")
    return path, table


def without_password(to: str) -> str:
    """Return a destination without the password that it may hold."""
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
            if "measure" in rows.column_names:  # a table written before answers had this column gets it now
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
            if "measure" in rows.column_names:  # a table written before answers had this column gets it now
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
    "h1,h2{line-height:1.2}section{margin:2.5em 0;overflow-x:auto}img{max-width:100%;background:#fff}"
    "header p{max-width:45em}"
)


def report_page(report: Report, key: str, priced: Priced, answers: Mapping[str, Answered]) -> str:
    """Return the page: what is promised, then each answer as a picture and a table."""
    sections = "".join(_section(name, answer) for name, answer in answers.items())
    title = escape(report.title)
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{title}</title><style>{_STYLE}</style></head><body><header><h1>{title}</h1>"
        f"<p>{escape(_promise(report, priced))}</p><p>Run {escape(key)}.</p></header>{sections}</body></html>\n"
    )


def _promise(report: Report, priced: Priced) -> str:
    upper = priced.promise.upper
    return (
        "Every number here has noise added, so that the page reads almost the same whether or not any one person's "
        f"rows are in the table. Formally: all answers together are ({rounded_up(upper, 4)}, {report.delta:g})-"
        f"differentially private, in any order of the questions ({priced.promise.method}, "
        f"{priced.promise.statement})."
    )


def _section(name: str, answer: Answered) -> str:
    private = answer if isinstance(answer, PrivateAnswer) else answer.answer
    return f"<section><h2>{escape(name)}</h2>{_picture(name, private)}{answer_html(private)}</section>"


def _picture(name: str, answer: PrivateAnswer) -> str:
    """Return a picture of groups with intervals, where there is something to draw and something to draw it with."""
    if len(answer) < 2 or (not answer.statistics and all(each.count is None for each in answer.items)):
        return ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.svg"
        try:
            answer.plot(str(path))
        except MissingExtra:
            return ""
        drawn = base64.b64encode(path.read_bytes()).decode()
    return f"<img alt='{escape(name, quote=True)}: bars with intervals' src='data:image/svg+xml;base64,{drawn}'>"
