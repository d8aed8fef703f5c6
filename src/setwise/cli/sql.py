"""`setwise sql`: one SELECT, from the command line or a file."""

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from setwise.cli import options
from setwise.errors import InvalidParameter

_GIVEN = (
    "epsilon", "delta", "counts", "mechanism", "engine", "types", "memory", "account", "dataset", "ledger", "key",
    "discover", "as_json", "as_csv",
)  # fmt: skip
"""The options that questions in SQL share with the others."""


def sql(**given: Any) -> None:  # noqa: ANN401 - each of its own type, as declared
    """Ask in SQL: one SELECT of counts, sums, means and quantiles, by columns; EXPLAIN is a preview, and free."""
    from setwise.analytics.sql.parser import parse_sql
    from setwise.analytics.tables.domain import read_domain
    from setwise.analytics.tables.source import location_of
    from setwise.cli.run import answer_sql

    text, domain = _text(given.pop("query")), given.pop("domain")
    tables = _tables(given.pop("tables") or ())
    words = {name: given.pop(name) for name in ("user", "contributions")}
    statement = parse_sql(text, **words)
    table = _source(statement.table, tables, given["engine"])
    if domain is not None:
        statement = parse_sql(text, **words, domain=read_domain(domain, location_of(table, given["engine"])))
    explain = given.pop("explain") or statement.explain
    given |= statement.paid_by({"epsilon": given["epsilon"], "delta": given["delta"]})
    answer_sql(statement, options.Given(table=table, user=statement.user, preview=explain, **given))


def _text(query: str) -> str:
    if not query.startswith("@"):
        return query
    try:
        return Path(query[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"the query cannot be read from {query[1:]!r}: {error}") from None


def _tables(given: list[str] | tuple[()]) -> dict[str, str]:
    tables = {}
    for each in given:
        name, equals, path = each.partition("=")
        if not (name and equals and path):
            raise InvalidParameter(f"--table is written NAME=PATH, not {each!r}")
        if name in tables:
            raise InvalidParameter(f"--table names {name!r} twice: give it once")
        tables[name] = path
    return tables


def _source(name: str, tables: dict[str, str], engine: str) -> str:
    """Return the path that a table stands for; without one it is a path itself, or a table of the engine."""
    if name in tables:
        return tables[name]
    if engine == "duckdb" and name.isidentifier() and not Path(name).exists():
        raise InvalidParameter(f"no table is called {name!r}: give --table {name}=PATH, or a `path` after FROM")
    return name


def _option(name: str, kind: Any, option: Any, default: Any = None) -> inspect.Parameter:  # noqa: ANN401
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


sql.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        _option(
            "query",
            str,
            typer.Argument(metavar="QUERY|@FILE", help="A SELECT, or @ and the file it is in."),
            inspect.Parameter.empty,
        ),
        _option(
            "tables",
            list[str] | None,
            typer.Option(
                "--table", metavar="NAME=PATH", help="What a name after FROM stands for; FROM also takes a `path`."
            ),
        ),
        _option(
            "user",
            str | None,
            typer.Option(metavar="COL", help="The column that tells users apart, unless OPTIONS names it."),
        ),
        _option("contributions", int | None, options.OPTIONS["contributions"]),
        _option("domain", str | None, options.OPTIONS["domain"]),
        _option(
            "explain", bool, typer.Option("--explain", help="Preview, as EXPLAIN before SELECT does; free."), False
        ),
        *(options.SHARED[name] for name in _GIVEN),
    ]
)
