"""Opening a table: `setwise.open` returns a session, an object with which an analyst asks questions about the table.

The table is a source (such as a file, a folder, a data frame or the URL of a database) or is named in a catalog, the
data holder's file of declared tables.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, TypedDict, TypeVar, Unpack

from setwise.accounting.brackets import Progress, quiet
from setwise.accounting.promises import USER, check_unit
from setwise.analytics.catalog import NOTHING_DECLARED, Catalog, read_catalog
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import (
    JoinableTables,
    Joined,
    Location,
    Source,
    location_of,
    open_engine,
    pin_version,
    types_of_joined,
)
from setwise.analytics.engines.files import CsvOptions, apply_description
from setwise.analytics.engines.joins import Join
from setwise.analytics.engines.object_store import is_stored
from setwise.analytics.file_session import FileSession
from setwise.analytics.payer import AccountPayer
from setwise.analytics.request_identity import TableIdentity, identify_source
from setwise.analytics.rows.derivation import NOT_DERIVED, Derivation
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.session import Session
from setwise.analytics.session_state import SessionState
from setwise.analytics.tables.holder_scan import HolderScan
from setwise.analytics.tables.scan_notes import TableToScan, in_python, open_arguments
from setwise.analytics.units import check_payer_unit, unit_column, unit_derivation
from setwise.errors import BadRequest, InvalidParameter, UnsuitableTable
from setwise.mechanisms.randomness import Randomness, SystemRandomness

IN_MEMORY_NAME = "source"
"""The name of a table in memory that was opened without a name and without a dataset."""


class CsvKeywords(TypedDict, total=False):
    """How CSV files are written, as keyword arguments of `setwise.open`; one that is left out has its default value.

    - `separator` is the text between cells, `quote` the character around cells with separators in them, and `encoding`
      the encoding of the file.
    - `columns` are the names of the columns, if the file has no header that names them.
    - `skip_lines` is the number of lines before the header, and `header` says whether there is a header.
    - `format` is the file format, if the file's name does not show it.
    - `decimal` is the decimal point, and `thousands` the text between thousands.
    - `date_format` is the format of dates.
    - `null` lists the words that mean an empty cell.
    """

    separator: str | None
    quote: str
    columns: Sequence[str] | None
    encoding: str
    skip_lines: int
    header: bool | None
    format: str | None
    decimal: str
    thousands: str
    date_format: str | None
    null: Sequence[str]


T = TypeVar("T")
_CSV_DEFAULTS = {option.name: option.default for option in fields(CsvOptions)}


def open(  # noqa: A001 - it is called as setwise.open
    source: Source,
    *,
    user: str | None = None,
    engine: str = "duckdb",
    table: str | None = None,
    types: Mapping[str, Kind] | None = None,
    csv: CsvKeywords | CsvOptions | None = None,
    unit: str = USER,
    public: Mapping[str, Source] | None = None,
    private: Mapping[str, Source] | None = None,
    account: AccountPayer | None = None,
    memory: str | None = None,
    dataset: str | None = None,
    name: str | None = None,
    progress: Progress = quiet,
    randomness: Randomness | None = None,
    catalog: str | Path | Catalog | None = None,
    scan: bool = True,
    **csv_options: Unpack[CsvKeywords],
) -> Session:
    """Return a session on a table whose column `user` tells users apart.

    What is read:

    - `source` is a file (Parquet, CSV, a DuckDB or SQLite database), a glob or directory of files, an Arrow table, a
      pandas or Polars frame, a Polars LazyFrame or DuckDB relation (computed once, now), or a table of another
      `engine`. With a `catalog`, it is the name of one of its tables.
    - `engine` is "duckdb", "spark" or the address of a server.
    - `table` is the table inside a database file.
    - `types` maps text columns to the types to read them as: ``{"age": "integer"}``. CSV files have only text columns.
    - `csv` says how CSV files are written: ``{"separator": ";", "decimal": ","}`` (see `CsvOptions`). `csv_options` are
      the same options as keyword arguments of their own.
    - `public` and `private` are other tables, by name, on the same engine, which SQL and `Session.join` may join to
      this one. Public tables say nothing about users, and private tables have the same user column.
    - `memory` is DuckDB's memory limit, as in "4GiB".
    - `catalog` is a file that says where tables are, their user columns, how they are read, and the bounds on values
      and rows that a question takes if it states none. Other arguments override it.

    What is protected and who pays:

    - `unit` is the unit of privacy: "user" (everything that one user has), or a part of a user such as "user,day" or
      "user,at by week". It then protects each day or week of a user by itself, and promises far less.
    - `account` is the account of a ledger that pays for questions; it must protect the same unit. None: each question
      brings its own budget.
    - `dataset` says that this table is the dataset for which the account was opened. If it is left out, the file or
      table must have the name of the dataset.
    - `name` is the table's name after FROM, and in the requests that a ledger stores. Sessions with the same name
      replay each other's answers under the same key of an account. If it is left out, a file or table is identified by
      its path, and a table in memory by its `dataset`, or else "source".

    How it runs:

    - `progress` is called with the share of the work that is done.
    - `randomness` is the source of noise; None is the operating system's, and only tests give another.
    - `scan` warns, before the charge, of rows without a user and of cells that a question will not read
      (`UnreadCellsWarning`). Only DuckDB's tables in memory or in local files are scanned. No answer depends on the
      scan.

    Raises: `InvalidParameter` if arguments are missing or contradict each other; `UnsuitableTable` if the source cannot
    be read as a table.

    >>> import pyarrow as pa
    >>> visits = pa.table({"who": [n // 2 for n in range(2000)], "page": ["home", "help"] * 1000})
    >>> with open(visits, user="who") as session:
    ...     answer = session.top_k(item="page", k=1, epsilon=1.0, delta=1e-6, contributions=2)
    >>> len(answer), answer.complete, answer.epsilon.upper <= 1.0
    (1, True, True)
    """
    csv_words = _csv_words(csv, csv_options)
    declared = NOTHING_DECLARED
    if catalog is not None:
        tables, called = catalog if isinstance(catalog, Catalog) else read_catalog(catalog), _name_in_catalog(source)
        entry = tables.table(called)
        source, declared = entry.source, entry.declared
        user = entry.user if user is None else user
        unit = entry.unit if unit == USER else unit
        engine = entry.options.get("engine", engine) if engine == "duckdb" else engine
        table = table or entry.options.get("table")
        types = types or entry.options.get("types")
        memory = memory or entry.options.get("memory")
        csv_words = {word: value for word, value in entry.options.items() if word in _CSV_DEFAULTS} | csv_words
        public = {**tables.public, **(public or {})}
        private = {**tables.private_beside(called), **(private or {})}
        name = called if name is None else name
    if user is None:
        raise InvalidParameter("name the column that tells users apart: give user, or a catalog that names it")
    form = _csv_options(csv_words)
    location = location_of(source, engine, table)
    table_name = str(source) if isinstance(source, str | Path) else dataset or IN_MEMORY_NAME
    source = pin_version(source, engine)
    joinable = JoinableTables(
        public={other: pin_version(at, engine) for other, at in (public or {}).items()},
        private={other: pin_version(at, engine) for other, at in (private or {}).items()},
    )
    known_as = (
        location.name if dataset is None else dataset,
        *(location_of(at, engine).name or other for other, at in joinable.private.items()),
    )
    if account is not None:
        for known in known_as:
            account.check_dataset(known)
    elif dataset is not None:
        raise InvalidParameter("a dataset is named to say that an account may pay for it: give an account too")
    composite = check_unit(unit) != USER
    if composite and joinable.private:
        raise InvalidParameter(f"private tables are joined by users, which the unit {unit!r} does not protect")
    unit_steps = NOT_DERIVED
    declared_types, described = apply_description(source, types or {}, form)

    def open_joined(
        called: str = "",
        joins: Sequence[Join] = (),
        derivation: Derivation = NOT_DERIVED,
        *,
        types: Mapping[str, Kind] = declared_types,
    ) -> Engine:
        steps = derivation.after(unit_steps)
        joined = Joined(joins=joins, name=called, user=user, joinable=joinable, derivation=steps)
        return open_engine(
            source, engine, table=table, types=types, csv=form, memory=memory, progress=progress, joined=joined
        )

    if composite or (account is not None and account.unit != USER):
        if location.prepared:
            raise UnsuitableTable("what was prepared is bounded by users: open its source for another unit")
        with open_joined() as whole:
            unit_steps = _unit_steps(user, unit, account, whole.describe())
    protected = unit_column(user, unit) if composite else user
    is_csv = bool(location.files) and described.is_csv(described.suffix_of(location.files[0]))
    if table and "::" not in table_name:
        table_name = f"{table_name}::{table}"
    table_name = table_name if name is None else name
    table_source = identify_source(source, engine, table) if name is None else "named"
    words: dict[str, Any] = {
        "user": protected,
        "unit": unit,
        "person": user if composite else None,
        "name": table_name,
        "identity": TableIdentity(
            name=table_name,
            user=protected,
            sources={table_name: table_source, **{n: identify_source(at, engine) for n, at in joinable.all.items()}},
        ),
        "randomness": SystemRandomness() if randomness is None else randomness,
        "account": account,
        "known_as": known_as,
        "declared": declared,
        "location": location.with_files(location_of(at, engine) for at in joinable.private.values()),
        "beside": joinable,
        "state": SessionState(
            scan=_holder_scan(
                TableToScan(
                    source=source, csv=form, types=types or {}, table_name=table, user=user, write=open_arguments
                ),
                joinable,
            )
            if scan and engine == "duckdb"
            else None
        ),
        "advice": _header_advice(location) if is_csv and described.columns is None else "",
    }
    if not is_csv or location.prepared:
        return _with_python_words(lambda: _session_with(declared_types, open_joined, words), scan=scan)
    return FileSession(
        _with_python_words(open_joined, scan=scan),
        open_with=lambda types: _session_with({**declared_types, **types}, open_joined, words),
        declared_types=declared_types,
        open_joined=open_joined,
        **words,
    )


def _with_python_words(open_table: Callable[[], T], *, scan: bool) -> T:
    """Call `open_table` and return its result; an error also gets advice about the arguments of `setwise.open`.

    The advice is added because messages about tables name command-line options. No advice is added if `scan` is False,
    as for the command line and the service, whose callers do not call `setwise.open`.
    """
    try:
        return open_table()
    except BadRequest as error:
        if not scan:
            raise
        raise in_python(error) from None


def _name_in_catalog(source: Source) -> str:
    """Return `source` as the name of a table in a catalog; raise `InvalidParameter` if it is a table in memory.

    A catalog is the data holder's file of declared tables.
    """
    if not isinstance(source, str | Path):
        raise InvalidParameter("with a catalog, give the name of one of its tables instead of a table in memory")
    return str(source)


def _header_advice(location: Location) -> str:
    """Return text to append to the error message about an unknown column of the CSV file at `location`.

    The column may be unknown because the file is read with a wrong separator, which gives wrong column names. So the
    text names the command `setwise check`, which finds out how the file is written. The column may also be in another
    file, so the text says how to join that file.
    """
    return (
        f"; if these are no names, setwise check {quote(str(location.files[0]))} says how to read it; a column of "
        "another file is joined in SQL, with private={NAME: FILE} for each"
    )


def _session_with(types: Mapping[str, Kind], open_joined: Callable[..., Engine], words: Mapping[str, Any]) -> Session:
    """Return a session on a file whose text columns are read as `types`, a mapping from columns to kinds.

    - `open_joined` is a function that opens an engine. With `types` alone the engine reads the file's table. If a
      question joins tables, the session passes three more arguments, and the engine reads the joined rows: the table's
      name after FROM, the tables to join, and the steps of SQL that compute columns or filter rows.
    - `words` are the other keyword arguments of `Session`.
    """
    return Session(open_joined(types=types), types=types, open_joined=partial(open_joined, types=types), **words)


def _holder_scan(main: TableToScan, joinable: JoinableTables) -> HolderScan | None:
    """Return the scan that warns the data holder, before each charge, of cells that a question will not read.

    The scan covers the session's table `main` and the tables in `joinable`, but no table in an object store. The result
    is None if `main` is in an object store.
    """
    tables = {
        name: TableToScan(
            source=source,
            csv=CsvOptions(),
            # `main.types` has the kinds of a joined table's columns under TABLE.COLUMN.
            types=types_of_joined(main.types, name),
            user=main.user if name in joinable.private else None,
            write=main.write,
            remedy=" (for a joined table, keep these options beside its file: setwise check FILE --save)",
        )
        for name, source in joinable.all.items()
        if not is_stored(source)
    }
    return None if is_stored(main.source) else HolderScan(main, tables)


def _unit_steps(user: str, unit: str, account: AccountPayer | None, schema: Schema) -> Derivation:
    """Return the operations that add a key column to a table, so that parts of users can be protected like users.

    - `user` is the user column.
    - `unit` is the unit of privacy. For "user,day", two rows have the same key exactly if they belong to the same user
      and the same day. If the unit is the whole user, there are no operations, because the user column is the key.
    - `account` is the account that pays, or None.
    - `schema` has the columns of the table.

    Raises: `InvalidParameter` if the `account` protects another unit than `unit`, or if `unit` cannot be computed from
    the columns (see `unit_derivation`).
    """
    if account is not None:
        check_payer_unit(account.unit, unit, schema)
    return NOT_DERIVED if unit == USER else unit_derivation(user, unit, schema)


def _csv_words(csv: CsvKeywords | CsvOptions | None, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the CSV options that differ from their defaults, by name.

    `csv` is the argument of that name of `setwise.open`, and `keywords` are the CSV options that the caller passed as
    keyword arguments of their own; only one of the two may be used.
    Raises: `InvalidParameter` for an unknown option, or if options are given in both ways.
    """
    if isinstance(csv, CsvOptions):
        words = {word: getattr(csv, word) for word in _CSV_DEFAULTS}
    elif csv is None or isinstance(csv, Mapping):
        words = dict(csv or {})
    else:
        raise InvalidParameter(f"csv must be a mapping of options, not a {type(csv).__name__}")
    for place, options in (("csv", words), ("setwise.open", keywords)):
        for word in options:
            if word not in _CSV_DEFAULTS:
                known = ", ".join(_CSV_DEFAULTS)
                raise InvalidParameter(f"{place} takes no {word!r}; options for CSV files are {known}")
    if csv is not None and keywords:
        raise InvalidParameter(f"csv and {', '.join(keywords)} both say how files are written: put all of it into csv")
    chosen = {**words, **keywords}
    return {word: value for word, value in chosen.items() if value is not None and value != _CSV_DEFAULTS[word]}


def _csv_options(words: Mapping[str, Any]) -> CsvOptions:
    """Return CSV options as a record; `words` has the options by name, from keyword arguments or a catalog file."""
    columns = words.get("columns")
    return CsvOptions(**{**words, "columns": None if columns is None else tuple(columns)})
