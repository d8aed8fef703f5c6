"""PostgreSQL's catalogue (system tables), from which tools learn tables, columns and types, in an in-memory DuckDB.

BI tools and drivers query `pg_catalog` and `information_schema`. They are answered from DuckDB tables of the same
names, which list the tables that the account may ask and nothing else. This database has no private data, can open no
file and its configuration is locked, so that no catalogue query can reach a private table. Worker processes hold it
(`selects.py`).
"""

import datetime
import re
from collections.abc import Mapping, Sequence
from functools import cached_property

import duckdb
import sqlglot
from sqlglot import exp

from setwise.analytics.engines.duckdb.instances import connect_isolated, lock
from setwise.errors import InvalidParameter
from setwise.service.postgres.catalogue_rows import create_tables, fill_catalogue
from setwise.service.postgres.catalogue_tables import SETTINGS, VERSION_TEXT
from setwise.service.postgres.replies import Result
from setwise.service.postgres.values import FLOAT8, NUMERIC, ResultColumn, type_of_duckdb

MOST_ROWS, MOST_CHARACTERS = 10_000, 4_000_000
"""The most rows of a catalogue query, and the most characters in all of its cells."""

_MEMORY = "256MB"

MOST_COLUMNS = 1664
"""The most columns of a catalogue query, which is PostgreSQL's own limit."""

_TABLE_FUNCTIONS = (exp.GenerateSeries, exp.ExplodingGenerateSeries, exp.Unnest, exp.Explode, exp.StringToArray)
"""The functions that may stand after FROM, beside those of PostgreSQL's catalogue, whose names begin with pg_.

Other table functions of DuckDB tell settings and paths of the server, or read files.
"""


class Catalogue:
    """Answers queries of PostgreSQL's catalogue (system tables), from which tools learn an account's tables.

    The catalogue is a DuckDB database in memory. It lists the tables that the account may ask, and has no private data.
    """

    def __init__(self, database: str, user: str, tables: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        """Create PostgreSQL's catalogue (system tables) as the person `user` sees it in the database `database`.

        `tables` maps the names of the tables that the catalogue lists to their columns: pairs of a name and the
        identifier of a PostgreSQL type.
        """
        self._constants = {
            "current_database": database,
            "current_catalog": database,
            "current_user": user,
            "session_user": user,
            "user": user,
            "current_role": user,
            "version": VERSION_TEXT,
            "current_version": VERSION_TEXT,  # sqlglot's name for version()
            "current_schema": "public",
        }
        self._database, self._user = database, user
        self._tables = tables
        self._describing = connect_isolated(_MEMORY)
        create_tables(self._describing, tables)
        lock(self._describing)

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB database with PostgreSQL's catalogue, which is made and filled when it is first used."""
        connection = connect_isolated(_MEMORY)
        # Filling the catalogue takes ten times as long as making the empty tables that describe questions, so it waits
        # for the first catalogue query; many clients never send one.
        fill_catalogue(connection, self._database, self._user, self._tables)
        lock(connection)
        return connection

    def reads_catalogue(self, statement: exp.Expr) -> bool:
        """Return whether `statement` reads no tables, or only those of PostgreSQL's catalogue (pg_class and others)."""
        local = {cte.alias_or_name.lower() for cte in statement.find_all(exp.CTE)}
        return all(
            _is_catalogue(table) or table.name.lower() in local or isinstance(table.this, exp.Func)
            for table in statement.find_all(exp.Table)
        )

    def columns_of(self, table: str) -> Sequence[tuple[str, int]] | None:
        """Return (name, PostgreSQL type identifier) of each column of `table`; None if there is no table of this name.

        The table is the dataset or one of its public tables (those without users).
        """
        return self._tables.get(table)

    def describe(self, statement: exp.Expr) -> tuple[ResultColumn, ...] | None:
        """Return the result columns (names and types) of a SELECT over the dataset's tables, without running it.

        DuckDB describes the statement on empty copies of the tables. Returns None if DuckDB refuses the statement, for
        example because it names an unknown column, or states contribution bounds, whose syntax DuckDB does not know.
        """
        try:
            text = _without_schemas(statement).sql(dialect="duckdb")
            described = self._describing.execute(f"DESCRIBE {text}").fetchall()
        except (duckdb.Error, sqlglot.errors.SqlglotError):
            return None
        return tuple(ResultColumn(str(row[0]), _statistic_type(str(row[1]))) for row in described)

    def answer(self, statement: exp.Expr) -> Result:
        """Run a query of PostgreSQL's system tables, the syntax tree `statement`, and return its columns and rows.

        Raises `InvalidParameter` if the query would change something, needs something that the catalogue does not have,
        or has too large a result.
        """
        _check_allowed(statement)
        text = _with_row_limit(_rewrite(statement, self._constants)).sql(dialect="duckdb")
        try:
            cursor = self._connection.execute(text)
            described = cursor.description or []
            _check_columns(len(described))
            rows = cursor.fetchmany(MOST_ROWS + 1)
        except duckdb.Error as error:
            first = str(error).splitlines()[0]
            raise InvalidParameter(f"the catalogue cannot answer this query: {first}") from None
        characters = sum(len(cell) for row in rows for cell in row if isinstance(cell, str | list))
        if len(rows) > MOST_ROWS or characters > MOST_CHARACTERS:
            raise InvalidParameter(
                f"a catalogue query may return at most {MOST_ROWS:,} rows and {MOST_CHARACTERS:,} characters"
            )
        names = [str(entry[0]) for entry in described]
        types = [type_of_duckdb(str(entry[1])) for entry in described]
        return Result(tuple(map(ResultColumn, names, types)), rows)


def _statistic_type(duckdb_type: str) -> int:
    """Return the PostgreSQL type identifier for a result column whose type in DuckDB is `duckdb_type`.

    Sums have a decimal or a very large integer type in DuckDB, which becomes float here, because a noisy sum may have a
    fraction. Every other type becomes the PostgreSQL type of the same meaning.
    """
    type_ = type_of_duckdb(duckdb_type)
    return FLOAT8 if type_ == NUMERIC else type_


def _without_schemas(statement: exp.Expr) -> exp.Expr:
    """Return a copy of the syntax tree `statement` without database names and without the schema `public`.

    For example sales.public.visits becomes visits, because the in-memory DuckDB database knows the account's tables by
    their plain names. Other schemas are kept.
    """
    tree = statement.copy()
    for node in tree.find_all(exp.Table, exp.Column):
        node.set("catalog", None)
        if node.args.get("db") is not None and node.args["db"].name.lower() == "public":
            node.set("db", None)
    return tree


_KEYWORD_ALIAS = re.compile(
    r"\bAS\s+(SELECT|INSERT|UPDATE|DELETE|TABLE|SCHEMA|ROLE|DEFAULT|TYPE)\b(?=\s*(?:,|\)|$|FROM\b))", re.IGNORECASE
)
"""A keyword as the name of a column after AS, which PostgreSQL allows and the parser does not read."""


def parse_catalogue_query(text: str) -> exp.Expr:
    """Return the syntax tree of the PostgreSQL statement `text`, a query of PostgreSQL's system tables.

    Syntax that sqlglot cannot parse is rewritten first, for example `OPERATOR(pg_catalog.=)` to `=`. Raises
    `InvalidParameter` if the statement still cannot be parsed.
    """
    plain = re.sub(r"OPERATOR\s*\(\s*pg_catalog\.([^)\s]+)\s*\)", r"\1", text, flags=re.IGNORECASE)
    plain = re.sub(r"\s+COLLATE\s+(pg_catalog\.)?\"?default\"?", "", plain, flags=re.IGNORECASE)
    plain = re.sub(r"::\s*(?:pg_catalog\.)?(?:reg\w+|name)\[\]", "::text[]", plain, flags=re.IGNORECASE)
    plain = re.sub(r"::\s*(?:pg_catalog\.)?oid\[\]", "::bigint[]", plain, flags=re.IGNORECASE)
    plain = _KEYWORD_ALIAS.sub(r'AS "\1"', plain)
    try:
        parsed = sqlglot.parse_one(plain, read="postgres")
    except (sqlglot.ParseError, sqlglot.TokenError) as error:
        raise InvalidParameter(f"this statement cannot be read: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise InvalidParameter("this statement cannot be read: it is nested too deeply") from None
    return parsed


def _check_columns(count: int) -> None:
    """Raise `InvalidParameter` if `count` columns are too many for the result of a query of PostgreSQL's system tables.

    The limit is 1664 columns (`MOST_COLUMNS`), as in PostgreSQL.
    """
    if count > MOST_COLUMNS:
        raise InvalidParameter(f"a catalogue query may return at most {MOST_COLUMNS:,} columns, not {count:,}")


def _check_allowed(statement: exp.Expr) -> None:
    """Raise `InvalidParameter` if `statement`, a query of PostgreSQL's system tables, may not run.

    A query may run if all of the following hold:

    - it only reads
    - it has at most 1664 columns (`MOST_COLUMNS`), which are counted before time is spent on rewriting them
    - each function that it calls after FROM is one of PostgreSQL's catalogue, such as pg_get_keywords, or makes rows,
      such as generate_series, because other functions of DuckDB could read files of the server
    """
    if not isinstance(statement, exp.Query | exp.Values) or statement.find(exp.DML, exp.DDL, exp.Command, exp.Into):
        raise InvalidParameter("the catalogue cannot be changed: send a SELECT")
    for source in statement.find_all(exp.Table, exp.Lateral):
        call = source.this
        if isinstance(call, exp.Func | exp.Anonymous) and not isinstance(call, _TABLE_FUNCTIONS):
            name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
            if not name.lower().startswith(("pg_", "_pg_", "generate_subscripts")):
                raise InvalidParameter(f"the function {name.lower()} is not available after FROM")
    _check_columns(max((len(select.expressions) for select in statement.find_all(exp.Select)), default=0))


def _with_row_limit(statement: exp.Expr) -> exp.Expr:
    """Return `statement`, a query of PostgreSQL's system tables, with a LIMIT of at most 10,001 rows.

    A result may have 10,000 rows (`MOST_ROWS`); one more row shows that it is too large. A statement whose own LIMIT is
    not a whole number is returned unchanged.
    """
    limit = statement.args.get("limit")
    is_number = isinstance(limit, exp.Limit) and limit.expression.is_int
    if not isinstance(statement, exp.Query) or (limit is not None and not is_number):
        return statement
    most = MOST_ROWS + 1 if limit is None else min(MOST_ROWS + 1, int(limit.expression.this))
    return statement.limit(most)


_LOOKUPS = {"regclass": "regclass_oid", "regtype": "regtype_oid"}
_TEXT_TYPES = {"name", "char", "regproc", "regnamespace", "regrole", "int2vector", "oidvector", "anyarray"}


def _rewrite(statement: exp.Expr, constants: Mapping[str, str]) -> exp.Expr:
    """Return `statement`, a query of PostgreSQL's system tables, as a syntax tree that the in-memory DuckDB can run.

    Casts and functions that DuckDB lacks become calls of macros that imitate them, and result columns get the names
    that PostgreSQL would choose. `constants` are the values of functions such as current_database, by name.
    """
    tree = statement.copy()
    if isinstance(tree, exp.Select):
        tree.set("expressions", [name_as_postgresql_does(projection) for projection in tree.expressions])
    # Inner nodes are rewritten before outer ones, because a cast to oid may contain a cast to regclass.
    for node in reversed(list(tree.walk())):
        replacement = _rewrite_node(node, constants)
        if replacement is not node:
            if node is tree:
                tree = replacement
            else:
                node.replace(replacement)
    return tree


def _rewrite_node(node: exp.Expr, constants: Mapping[str, str]) -> exp.Expr:
    """Return the syntax node that replaces `node`, a part of a query of PostgreSQL's system tables, for DuckDB.

    The result is often `node` itself. `constants` are the values of functions such as current_database, by name.
    """
    match node:
        case exp.Table():
            return _locate_table(node)
        case exp.Dot() if node.this.name.lower() in ("pg_catalog", "information_schema"):
            inner: exp.Expr = node.expression.copy()
            return inner
        case exp.Any() | exp.All() if (array := _query_of_array(node.this) or _array_of(node.this)) is not None:
            node.set("this", array)
            return node
        case exp.Cast():
            return _rewrite_cast(node)
        case exp.Div() if _is_integer(node.this) and _is_integer(node.expression):
            return exp.IntDiv(this=node.this.copy(), expression=node.expression.copy())
        case exp.JSONArrayAgg():
            return exp.Anonymous(this="to_json", expressions=[exp.ArrayAgg(this=node.this.copy())])
        case exp.Substring() if isinstance(pattern := node.args.get("start"), exp.Literal) and pattern.is_string:
            return exp.Anonymous(
                this="regexp_extract", expressions=[node.this.copy(), pattern.copy(), _group_number(pattern)]
            )
        case exp.Func() | exp.Anonymous():
            return _rewrite_call(node, constants)
        case exp.Column() if node.name.lower() in _HIDDEN_COLUMNS:
            return exp.cast(exp.Literal.number(0), "BIGINT")
        case exp.Column() if node.args.get("db") is not None:
            return exp.column(node.this.copy(), table=node.args["table"].copy())
        case exp.Column() if not node.table and node.name.lower() in constants and not node.this.args.get("quoted"):
            return exp.Literal.string(constants[node.name.lower()])
        case _:
            return node


def name_as_postgresql_does(projection: exp.Expr) -> exp.Expr:
    """Return the expression `projection` of a SELECT with an alias: the column name that PostgreSQL would choose.

    PostgreSQL chooses the name of the function or column, and ?column? for any other expression. An alias that exists
    is kept.
    """
    if isinstance(projection, exp.Alias | exp.Star | exp.Column):
        if isinstance(projection, exp.Column) and not projection.find(exp.Star):
            return exp.alias_(projection, projection.name, quoted=True)
        return projection
    inner = projection
    while isinstance(inner, exp.Cast | exp.Paren | exp.Dot):
        inner = inner.expression if isinstance(inner, exp.Dot) else inner.this
    name = "?column?"
    if isinstance(inner, exp.CurrentTimestamp):
        name = "now"
    elif isinstance(inner, exp.Anonymous):
        name = inner.name.lower()
    elif isinstance(inner, exp.Column):
        name = inner.name
    elif isinstance(inner, exp.Func) and not isinstance(inner, exp.Case | exp.Binary):
        name = inner.sql_name().lower().replace("current_version", "version")
    return exp.alias_(projection, name, quoted=True)


def _locate_table(table: exp.Table) -> exp.Expr:
    """Return the table or function call that a SELECT reads FROM (the syntax node `table`), rewritten for DuckDB.

    In the in-memory DuckDB database, tables of pg_catalog are in the schema "pg", and tables of information_schema in
    "info"; the name gets this schema. Any other table stays as it is. A function call is rewritten by
    `_locate_function`.
    """
    name, schema = table.name.lower(), table.db.lower()
    if isinstance(table.this, exp.Func | exp.Anonymous):
        return _locate_function(table)
    if schema == "information_schema":
        table.set("db", exp.to_identifier("info"))
        table.set("catalog", None)
    elif name.startswith("pg_") or schema == "pg_catalog":
        table.set("db", exp.to_identifier("pg"))
        table.set("catalog", None)
    return table


def _locate_function(table: exp.Table) -> exp.Expr:
    """Return the function call `table` after FROM, rewritten for DuckDB.

    The schema before the function's name is removed. In PostgreSQL, an alias of the call is also the name of the column
    that it returns; in DuckDB it is not. So an alias of generate_series or unnest is given to the column too, and
    string_to_array with an alias becomes a subquery with one row, whose column has the alias. Nothing else changes.
    """
    table.set("db", None)
    alias = table.args.get("alias")
    if alias is None or alias.args.get("columns"):
        return table
    if isinstance(table.this, exp.GenerateSeries | exp.Unnest):
        alias.set("columns", [alias.this.copy()])
        return table
    if isinstance(table.this, exp.StringToArray):
        chosen = exp.select(exp.alias_(table.this.copy(), alias.name, quoted=True))
        return chosen.subquery(alias.name)
    return table


_HIDDEN_COLUMNS = frozenset({"xmin", "xmax", "cmin", "cmax", "tableoid"})
"""Hidden columns of every PostgreSQL table: the transactions that wrote a row, and its table. Here they are 0."""


def _is_integer(node: exp.Expr) -> bool:
    """Return whether `node` is an integer by its syntax: a literal, or a cast to an integer type.

    A division of two integers is rewritten for DuckDB, because PostgreSQL drops the fraction of the quotient and DuckDB
    keeps the fraction.
    """
    inner = node.this if isinstance(node, exp.Paren) else node
    if isinstance(inner, exp.Cast):
        return inner.to.is_type(*exp.DataType.INTEGER_TYPES)
    return isinstance(inner, exp.Literal) and inner.is_int


def _query_of_array(node: exp.Expr | None) -> exp.Expr | None:
    """Return the node (SELECT ...) if the syntax node `node` is ARRAY(SELECT ...), and None if it is anything else.

    `node` is the operand of ANY or ALL. PostgreSQL accepts ANY(ARRAY(SELECT ...)), and DuckDB only ANY(SELECT ...).
    """
    inner = node.this if isinstance(node, exp.Paren) else node
    if isinstance(inner, exp.Array) and len(inner.expressions) == 1 and isinstance(inner.expressions[0], exp.Query):
        return exp.Paren(this=inner.expressions[0].copy())
    return None


_ELEMENT = re.compile(r"""("(?:[^"\\]|\\.)*")|([^,"{}]+)""", re.DOTALL)
_ARRAY = re.compile(r"""\{(?:"(?:[^"\\]|\\.)*"|[^"{}])*\}""", re.DOTALL)
"""Patterns of PostgreSQL's text form of an array with one dimension, and of an element that is quoted or plain."""


def _array_of(node: exp.Expr | None) -> exp.Expr | None:
    """Return the SQL array for `node`, a PostgreSQL array written as a text such as '{r,p}'; None for any other `node`.

    DuckDB does not read that text form. The elements are numbers if the text is cast to an array of integers, and texts
    otherwise.
    """
    inner = node.this if isinstance(node, exp.Paren) else node
    of_numbers = isinstance(inner, exp.Cast) and "INT" in inner.to.sql().upper()
    while isinstance(inner, exp.Paren | exp.Cast):
        inner = inner.this
    if not isinstance(inner, exp.Literal) or not inner.is_string or not _ARRAY.fullmatch(inner.this):
        return None
    elements: list[exp.Expr] = []
    for quoted, plain in _ELEMENT.findall(inner.this[1:-1]):
        if plain.strip().upper() == "NULL":
            elements.append(exp.Null())
        elif plain.strip() and of_numbers:
            elements.append(exp.Literal.number(plain.strip()))
        elif quoted or plain.strip():
            word = re.sub(r"\\(.)", r"\1", quoted[1:-1]) if quoted else plain.strip()
            elements.append(exp.Literal.string(word))
    return exp.array(*elements)


def _rewrite_cast(node: exp.Cast) -> exp.Expr:
    """Return the cast `node` rewritten for DuckDB, which lacks PostgreSQL's own types.

    - a cast of a text to regclass or regtype becomes the lookup of an identifier by name
    - a cast of an identifier to regclass or regtype becomes the lookup of the name
    - a cast to oid becomes a cast to BIGINT, and a cast to a text type such as name a cast to VARCHAR
    - a cast of a text such as '{1,2}' to an array becomes that array
    - any other cast is returned unchanged
    """
    type_ = node.to.sql(dialect="postgres").strip('"').lower().removeprefix("pg_catalog.")
    if type_.endswith("[]") and (array := _array_of(node)) is not None:
        return array
    if type_ in _LOOKUPS:
        if not isinstance(node.this, exp.Literal):
            name = "regclass_name" if type_ == "regclass" else "format_type"
            arguments = [node.this.copy()] if type_ == "regclass" else [node.this.copy(), exp.Null()]
            return exp.Anonymous(this=name, expressions=arguments)
        return exp.Anonymous(this=_LOOKUPS[type_], expressions=[node.this.copy()])
    if type_ == "oid":
        return exp.cast(node.this.copy(), "BIGINT")
    if type_ in _TEXT_TYPES or type_.startswith("information_schema."):
        return exp.cast(node.this.copy(), "VARCHAR")
    return node


def _rewrite_call(node: exp.Expr, constants: Mapping[str, str]) -> exp.Expr:
    """Return the syntax node that replaces `node`, a PostgreSQL function call, for DuckDB.

    A function whose value is fixed becomes a constant; `constants` has the values of functions such as
    current_database, by name. A function that DuckDB lacks becomes a call of another function or of a macro. Any other
    call is unchanged.
    """
    name = (
        node.sql_name() if isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous) else node.name
    ).lower()
    if name in constants:
        return exp.Literal.string(constants[name])
    if name in (
        "json_build_object",
        "jsonb_build_object",
    ):  # tools use it to describe identity columns and collations, which do not exist here
        return exp.cast(exp.Null(), "VARCHAR")
    if name == "to_regclass":
        return exp.Anonymous(this="regclass_oid", expressions=node.expressions)
    if name == "to_regtype":
        return exp.Anonymous(this="regtype_oid", expressions=node.expressions)
    if name in _CLOCKS:
        moment = datetime.datetime.now(datetime.UTC).replace(tzinfo=None).isoformat(sep=" ")
        return exp.cast(exp.Literal.string(moment), "TIMESTAMP")
    if name == "current_date":
        return exp.cast(exp.Literal.string(datetime.datetime.now(datetime.UTC).date().isoformat()), "DATE")
    arguments = node.expressions or [node.this]
    if name == "age" and len(arguments) == 1:  # the age of a transaction; DuckDB's function takes times
        return exp.cast(exp.Literal.number(0), "BIGINT")
    if name in ("array_length", "array_size"):  # arrays have one dimension here
        first = node.this if isinstance(node.this, exp.Expr) else arguments[0]
        return exp.Anonymous(this="len", expressions=[first.copy()])
    if name == "current_setting" and isinstance(arguments[0], exp.Literal):
        value = SETTINGS.get(arguments[0].this.lower())
        return exp.cast(exp.Null(), "VARCHAR") if value is None else exp.Literal.string(value)
    if name == "current_setting":
        return exp.Anonymous(this="setting_of", expressions=node.expressions[:1] or [node.this.copy()])
    if name == "current_schemas":
        return exp.array(exp.Literal.string("pg_catalog"), exp.Literal.string("public"))
    return node


def _group_number(pattern: exp.Literal) -> exp.Expr:
    """Return the SQL literal 1 if the regular expression `pattern` has a group in parentheses, and 0 if it has none.

    For example: 'a(b)c' gives 1, and 'abc' gives 0. PostgreSQL's substring(text FROM pattern) returns the first group,
    or the whole match if there is no group. DuckDB's function gets the number of the group to return as an argument,
    and returns the whole match for the number 0.
    """
    return exp.Literal.number(1 if re.search(r"(?<!\\)\((?!\?)", pattern.this) else 0)


_CLOCKS = frozenset(
    {"now", "current_timestamp", "localtimestamp", "clock_timestamp", "statement_timestamp", "transaction_timestamp",
     "pg_postmaster_start_time", "pg_conf_load_time"}
)  # fmt: skip
"""Functions that return a time; the time of the statement stands for all of them."""


def _is_catalogue(table: exp.Table) -> bool:
    """Return whether the table node `table` of a syntax tree names a table of PostgreSQL's catalogue.

    That is so if its schema is pg_catalog or information_schema, or if its name begins with pg_.
    """
    return table.db.lower() in ("information_schema", "pg_catalog") or table.name.lower().startswith("pg_")
