"""The identity of a request: the JSON text stored with a charge, to tell a retry from another question.

An idempotency key is bound to the text of its first request. A second request with an equal text gets the stored
outcome, and a request with any other text is refused (`KeyConflict`). So two requests may have equal texts only if
their answers have the same meaning: the text states the query as it was parsed, the budget, and the tables that are
read. The field `versions` has the versions of lake tables and of objects in an object store that are read. Only the
service fills it (`_pin` and `_versions` in service/queries/handler.py): a retry there reads the versions that its
charge recorded.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from setwise.analytics.bins import group_of
from setwise.analytics.budget import Budget
from setwise.analytics.engines.connect import Source, without_password
from setwise.analytics.engines.joins import Join
from setwise.analytics.filter.expression import Filter
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.query import Query
from setwise.analytics.schema import Schema
from setwise.ledger.records import canonical, check_text

VERSION = 2
"""The version of the text's format; raised when the text of an unchanged request changes. Version 1 had no `version`,
`tables` or `columns`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIdentity:
    """The tables that a request reads: the private table with its `name` and `user` column, and the `joins` to it.

    They become a part of the request's text, by which a retry is told from another question.

    - `sources` maps the name of each table to a text that identifies its data (see `identify_source`).
    - `versions` maps lake tables and stored objects to the versions that are read, so that a retry can read them again.
    - `derivation` is a text that identifies what SQL computes from the joined rows before they are aggregated, such as
      computed columns; "" if nothing.
    """

    name: str
    user: str
    sources: Mapping[str, str] = field(default_factory=dict)
    joins: tuple[Join, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    derivation: str = ""


def request_text(
    table: TableIdentity, query: Query, budget: Budget, schema: Schema, where: Filter | None = None
) -> str:
    """Return the canonical JSON text of a request for `query` on `table` within `budget`, which identifies the request.

    `schema` describes the table's columns; the text states the name and kind of each column that the query reads, and
    of no other column. `where` is the parsed filter of the query; None if it is to be parsed here.
    Raises: `InvalidParameter` if the request holds text that UTF-8 cannot encode.
    """
    words = _query_words(query)
    if isinstance(words.get("domain"), list):
        words["domain"] = _digest(words["domain"])
    spending = {name: value for name, value in budget.to_dict().items() if name != "kind"}
    read = [table.name, *(join.table for join in table.joins)]
    record = {
        "version": VERSION,
        "table": table.name,
        "user": table.user,
        "joins": [join.to_record() for join in table.joins],
        # A digest, because paths may be confidential.
        "tables": _digest([[name, table.sources.get(name, "")] for name in read]),
        # Columns that the query does not read may be added to the table without changing the text.
        "columns": _columns_read(query, table.user, schema, where),
        "query": words,
        "spending": spending,
        **({"versions": dict(table.versions)} if table.versions else {}),
        **({"derivation": table.derivation} if table.derivation else {}),
    }
    return check_text(canonical(record), "a question")


def identify_source(source: Source, engine: str = "duckdb", table: str | None = None) -> str:
    """Return a text that identifies the data that `source` refers to, so that two requests can be compared.

    `engine` is the name of an engine or the address of a server, and `table` the table inside a database file, or None.
    Two spellings of one file give equal texts; a password is left out. Every table in memory gives "memory".

    >>> identify_source("shop", "postgresql://ada:secret@host/sales")
    'postgresql://ada@host/sales shop'
    """
    if not isinstance(source, str | Path):
        return "memory"
    path, mark, named = str(source).partition("::")
    inside = named if mark else table or ""
    where = without_password(engine)
    if "://" in engine:
        return f"{where} {inside or path}"
    if engine != "duckdb" and not os.path.lexists(path) and "/" not in path:
        return f"{where} {path}"  # a table of Spark's catalogue
    resolved = path if "://" in path else os.path.realpath(path)
    return f"file {resolved}::{inside}" if inside else f"file {resolved}"


def _query_words(query: Query) -> dict[str, object]:
    """Return `query` as a dictionary for the text of its request, which a ledger stores to recognise a retry.

    The dictionary is that of `Query.to_dict` with two changes. Ledgers still hold texts that earlier versions of the
    program wrote; the changes decide which of them equal the text of this request, so that their answers are returned:

    - The lower bound of a sum is left out if it is 0, as in earlier versions. A retry of an old request is thus
      recognised.
    - If a private search is to find the limit on a user's rows, `per_user` is "auto". Earlier versions left it out and
      used a fixed limit, so their answers mean something else, and must not be returned for this request.
    """
    words = query.to_dict()
    statistics = words.get("statistics", [])
    assert isinstance(statistics, list)
    for statistic in (words, *statistics):
        if "sum" in (statistic.get("kind"), statistic.get("statistic")) and statistic.get("low") == 0:
            del statistic["low"]
    for statistic, asked in zip(statistics or [words], query.statistics, strict=False):
        if asked.finds_rows and asked.kind != "count":
            statistic["per_user"] = "auto"
    return words


def _digest(record: object) -> str:
    return sha256(check_text(canonical(record), "a question").encode()).hexdigest()


def _columns_read(query: Query, user: str, schema: Schema, where: Filter | None) -> list[tuple[str, str]]:
    """Return (name, kind) of every column that `query` reads, including the user column, sorted by name.

    The list becomes a part of the request's text. If a column changes its type, the text changes, and a retry under the
    old key is refused, because its answer would mean something else. `user` is the user column, and `schema` has the
    columns of the table. `where` is the query's filter, already parsed; if it is None, the filter is parsed here.
    """
    grouped = [group_of(text, schema).column for text in query.groups]
    if where is None and query.where is not None:
        where = parse_filter(query.where, schema)
    filtered = () if where is None else where.columns()
    names = {user, *grouped, *query.values, *(column.name for column in filtered)}
    return [(name, str(schema.column(name).kind)) for name in sorted(names)]
