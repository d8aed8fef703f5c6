"""`setwise sql`: one SELECT, from the command line or a file."""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from setwise.cli import options
from setwise.errors import InvalidParameter

_GIVEN = (
    "epsilon", "delta", "within", "counts", "mechanism", "engine", "types", "memory", "account", "dataset", "ledger",
    "key", "discover", "as_json", "as_csv",
)  # fmt: skip
"""The options that questions in SQL share with the others."""


def sql(**given: Any) -> None:  # noqa: ANN401 - each of its own type, as declared
    """Ask in SQL: one SELECT of counts, sums, means and quantiles, by columns; EXPLAIN is a preview, and free."""
    from setwise.analytics.sql.parser import parse_sql
    from setwise.cli.ask import SqlTables, answer_sql

    text, explain = _text(given.pop("query")), given.pop("explain")
    tables = _named(given.pop("tables") or (), "--table", given["engine"])
    public = _named(given.pop("public") or (), "--public", given["engine"])
    user = given.pop("user")
    words = {name: given.pop(name) for name in ("contributions", "domain")}
    statement = parse_sql(text, user=user, contributions=words["contributions"])
    private = {join.table: tables[join.table] for join in statement.joins if join.table in tables}
    asked = options.Given(
        table=_source(statement.table, tables, given["engine"]), user=statement.user, preview=explain, **given
    )
    paid = statement.paid_by({"epsilon": asked.epsilon, "delta": asked.delta, "within": asked.within})
    replace(asked, epsilon=paid["epsilon"], delta=paid["delta"], within=paid["within"]).check_payer()
    answer_sql(text, words, asked, SqlTables(name=statement.table, public=public, private=private))


def _text(query: str) -> str:
    if not query.startswith("@"):
        return query
    try:
        return Path(query[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"the query cannot be read from {query[1:]!r}: {error}") from None


def _named(given: Sequence[str], option: str, engine: str) -> dict[str, str]:
    """Return paths by the names they are given; a public table without one goes by its own, or that of its file."""
    from setwise.analytics.engines.connect import location_of

    tables = {}
    for each in given:
        name, equals, path = each.partition("=")
        if option == "--public" and not (equals and name.isidentifier()):
            name, path = location_of(each, engine).name, each
        elif not (name and equals and path):
            raise InvalidParameter(f"{option} is written NAME=PATH, not {each!r}")
        if name in tables:
            raise InvalidParameter(f"{option} names {name!r} twice: give it once")
        tables[name] = path
    return tables


def _source(name: str, tables: dict[str, str], engine: str) -> str:
    """Return the path that a table stands for; without one it is a path itself, or a table of the engine."""
    if name in tables:
        return tables[name]
    if engine == "duckdb" and name.isidentifier() and not Path(name).exists():
        raise InvalidParameter(f"no table is called {name!r}: give --table {name}=PATH, or a `path` after FROM")
    return name


sql.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        options.option(
            "query",
            str,
            typer.Argument(metavar="QUERY|@FILE", help="A SELECT, or @ and the file it is in."),
            inspect.Parameter.empty,
        ),
        options.option(
            "tables",
            list[str] | None,
            typer.Option(
                "--table",
                metavar="NAME=PATH",
                help="What a name after FROM or JOIN stands for; FROM also takes a `path`.",
            ),
        ),
        options.option(
            "public",
            list[str] | None,
            typer.Option(
                "--public",
                metavar="[NAME=]PATH",
                help="A table without users that JOIN may name, read by the same engine; without NAME by the name of "
                "its file or its own.",
            ),
        ),
        options.option(
            "user",
            str | None,
            typer.Option(metavar="COL", help="The column that tells users apart, unless OPTIONS names it."),
        ),
        options.option("contributions", int | None, options.OPTIONS["contributions"]),
        options.option("domain", str | None, options.OPTIONS["domain"]),
        options.option(
            "explain", bool, typer.Option("--explain", help="Preview, as EXPLAIN before SELECT does; free."), False
        ),
        *(options.SHARED[name] for name in _GIVEN),
    ]
)
