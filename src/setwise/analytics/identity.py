"""The identity of a request: the text that a ledger keeps with a charge to tell a retry from another question.

A key is bound to the text of its first request. A second request with an equal text gets the stored outcome, and one
with any other text is refused (`KeyConflict`). So two requests may have equal texts only if their answers have the same
meaning: the text states the query as it was parsed, the budget, and the tables that were read.
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
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.query import Query
from setwise.analytics.schema import Schema
from setwise.ledger.records import canonical, check_text

VERSION = 2
"""Raised when the text changes for a request that stays the same. Version 1 had no `version`, `tables` or `columns`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIdentity:
    """The tables of a request: the private one by its `name` and `user` column, and the `joins` to it.

    `sources` says for each table, by its name in the request, which data it reads: what `identify_source` returns, or
    the name that the caller gave the data. Only a digest of it is kept, because paths are not for everybody.
    """

    name: str
    user: str
    sources: Mapping[str, str] = field(default_factory=dict)
    joins: tuple[Join, ...] = ()
    derivation: str = ""
    """What SQL derives of the joined rows, as text: equal derivations have equal texts."""


def request_text(table: TableIdentity, query: Query, budget: Budget, schema: Schema) -> str:
    """Return the canonical text of a request; raise `InvalidParameter` if it holds text that UTF-8 cannot write.

    Of the `schema` of the tables, the text states the columns that the query reads with their kinds, so that adding a
    column to a table changes no request that does not read it.
    """
    words = query.to_dict()
    if isinstance(words.get("domain"), list):
        words["domain"] = _digest(words["domain"])
    spending = {name: value for name, value in budget.to_dict().items() if name != "kind"}
    read = [table.name, *(join.table for join in table.joins)]
    record = {
        "version": VERSION,
        "table": table.name,
        "user": table.user,
        "joins": [_join_record(join) for join in table.joins],
        "tables": _digest([[name, table.sources.get(name, "")] for name in read]),
        "columns": _columns_read(query, table.user, schema),
        "query": words,
        "spending": spending,
        **({"derivation": table.derivation} if table.derivation else {}),
    }
    return check_text(canonical(record), "a question")


def identify_source(source: Source, engine: str = "duckdb", table: str | None = None) -> str:
    """Return what a source resolves to, such that two spellings of the same file or server table are equal.

    Links and relative paths are followed; the password of an address is left out. Tables in memory have no identity of
    their own: the name that the caller gives them is all that tells them apart.

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


def _join_record(join: Join) -> dict[str, object]:
    keys = [{"column": key.column, "joined": key.joined, "earlier": key.earlier} for key in join.keys]
    return {"table": join.table, "keeps_all": join.keeps_all, "keys": keys}


def _digest(record: object) -> str:
    return sha256(check_text(canonical(record), "a question").encode()).hexdigest()


def _columns_read(query: Query, user: str, schema: Schema) -> list[tuple[str, str]]:
    """Return the name and kind of every column that a query reads, in the order of the names."""
    grouped = [group_of(text, schema).column for text in query.groups]
    filtered = () if query.where is None else parse_filter(query.where, schema).columns()
    names = {user, *grouped, *query.values, *(column.name for column in filtered)}
    return [(name, str(schema.column(name).kind)) for name in sorted(names)]
