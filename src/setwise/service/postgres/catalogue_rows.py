"""Fills the in-memory DuckDB that imitates PostgreSQL's catalogue (its system tables) for one account.

It gets the catalogue's tables and their rows, and empty copies of the tables that the account may ask.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files

import duckdb

from setwise.service.postgres.catalogue_tables import (
    ARRAY_RECEIVE,
    CATALOG_SCHEMA,
    CATEGORIES,
    FIRST_TABLE,
    INFORMATION_SCHEMA,
    MACROS,
    OWNER,
    PUBLIC_SCHEMA,
    SETTINGS,
    TYPES,
)
from setwise.service.postgres.values import (
    BOOL,
    DATE,
    FLOAT8,
    INT8,
    NUMERIC,
    SIZES,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
)

_SCHEMAS = {"pg_catalog": CATALOG_SCHEMA, "public": PUBLIC_SCHEMA, "information_schema": INFORMATION_SCHEMA}

_DUCKDB_TYPE = {
    BOOL: "BOOLEAN",
    INT8: "BIGINT",
    FLOAT8: "DOUBLE",
    NUMERIC: "DECIMAL(38, 9)",
    DATE: "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMPTZ: "TIMESTAMP WITH TIME ZONE",
}

_PRECISIONS = {
    INT8: {"numeric_precision": 64, "numeric_precision_radix": 2, "numeric_scale": 0},
    FLOAT8: {"numeric_precision": 53, "numeric_precision_radix": 2},
    DATE: {"datetime_precision": 0},
    TIMESTAMP: {"datetime_precision": 6},
    TIMESTAMPTZ: {"datetime_precision": 6},
}
"""Per type, the cells of `information_schema.columns` about its precision."""

Columns = Sequence[tuple[str, int]]
"""The columns of a table: the name of each, and the identifier of its PostgreSQL type."""


def fill_catalogue(
    connection: duckdb.DuckDBPyConnection, database: str, user: str, tables: Mapping[str, Columns]
) -> None:
    """Create PostgreSQL's catalogue in the empty DuckDB database of `connection`, and empty copies of `tables`.

    The catalogue lists one database called `database`, one role called `user`, and `tables` with their columns;
    catalogue tables of other objects, such as indexes, are empty. Tables of pg_catalog are in the DuckDB schema "pg",
    and those of information_schema in "info".
    """
    connection.execute("CREATE SCHEMA pg; CREATE SCHEMA info")
    connection.execute((files("setwise.service.postgres") / "catalogue.sql").read_text("utf-8"))
    connection.execute("ALTER TABLE pg.pg_type ADD COLUMN sqlname VARCHAR")  # for format_type and casts to regtype
    for table, rows in _server_rows(database, user).items():
        _insert(connection, table, rows)
    for place, (name, columns) in enumerate(tables.items()):
        for table, rows in _table_rows(database, name, columns, FIRST_TABLE + place).items():
            _insert(connection, table, rows)
    create_tables(connection, tables)
    for macro in MACROS:
        connection.execute(f"CREATE MACRO {macro}")


def create_tables(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, Columns]) -> None:
    """Create an empty table for each entry of `tables` in the in-memory DuckDB database of `connection`.

    `tables` maps names of tables to their columns: pairs of a name and the identifier of a PostgreSQL type. The columns
    of a client's SELECT are looked up by running the SELECT on these empty tables.
    """
    for name, columns in tables.items():
        declared = ", ".join(f"{_quote_name(column)} {_DUCKDB_TYPE.get(type_, 'VARCHAR')}" for column, type_ in columns)
        connection.execute(f"CREATE TABLE {_quote_name(name)} ({declared})")


Row = dict[str, object]


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Row]) -> None:
    """Insert `rows` into the table `table` of the imitated PostgreSQL catalogue (system tables).

    `connection` is a connection to the DuckDB database that has the catalogue. Each row maps column names to values.
    All rows have the same columns; the table's other columns become null.
    """
    if not rows:
        return
    names = ", ".join(rows[0])
    places = ", ".join(["(" + ", ".join("?" * len(rows[0])) + ")"] * len(rows))
    cells = [cell for row in rows for cell in row.values()]
    connection.execute(f"INSERT INTO {table} ({names}) VALUES {places}", cells)  # noqa: S608 - our own names


def _server_rows(database: str, user: str) -> dict[str, list[Row]]:
    """Return the rows of PostgreSQL's catalogue (system tables) that do not depend on the tables of an account.

    The result is a dict from names of catalogue tables to their rows, which are about schemas, types, settings, the one
    database called `database` and the one role called `user`.
    """
    role: Row = {"oid": OWNER, "rolname": user, "rolsuper": False, "rolinherit": True, "rolcreaterole": False,
                 "rolcreatedb": False, "rolcanlogin": True, "rolreplication": False, "rolconnlimit": -1,
                 "rolbypassrls": False}  # fmt: skip
    person: Row = {"usename": user, "usesysid": OWNER, "usecreatedb": False, "usesuper": False, "userepl": False,
                   "usebypassrls": False}  # fmt: skip
    return {
        "pg.pg_namespace": [{"oid": oid, "nspname": name, "nspowner": OWNER} for name, oid in _SCHEMAS.items()],
        "info.schemata": [
            {"catalog_name": database, "schema_name": name, "schema_owner": "setwise"} for name in _SCHEMAS
        ],
        "pg.pg_proc": [{"oid": ARRAY_RECEIVE, "proname": "array_recv", "pronamespace": CATALOG_SCHEMA,
                        "proowner": OWNER, "prokind": "f", "proretset": False, "prorettype": 0}],
        "pg.pg_type": [_type_row(oid, name, sql_name) for oid, name, sql_name in TYPES],
        "pg.pg_am": [{"oid": 2, "amname": "heap", "amtype": "t"}],
        "pg.pg_database": [{"oid": 1, "datname": database, "datdba": OWNER, "encoding": 6, "datlocprovider": "c",
                            "datistemplate": False, "datallowconn": True, "datconnlimit": -1, "dattablespace": 1663,
                            "datcollate": "C", "datctype": "C"}],
        "pg.pg_tablespace": [{"oid": 1663, "spcname": "pg_default", "spcowner": OWNER}],
        "pg.pg_roles": [role],
        "pg.pg_authid": [role],
        "pg.pg_user": [person],
        "pg.pg_shadow": [person],
        "info.enabled_roles": [{"role_name": user}],
        "info.information_schema_catalog_name": [{"catalog_name": database}],
        "info.character_sets": [{"character_set_name": "UTF8", "form_of_use": "UTF8"}],
        "pg.pg_settings": [
            {"name": name, "setting": value, "category": "Setwise", "context": "user", "vartype": "string",
             "source": "default", "boot_val": value, "reset_val": value, "pending_restart": False}
            for name, value in SETTINGS.items()
        ],
        "pg.pg_timezone_names": [{"name": "UTC", "abbrev": "UTC", "utc_offset": "00:00:00", "is_dst": False}],
    }  # fmt: skip


def _type_row(oid: int, name: str, sql_name: str) -> Row:
    """Return the row that describes one type in `pg_type`, a table of PostgreSQL's catalogue (system tables).

    `oid` is the type's object identifier, `name` its short name, such as int8, and `sql_name` its name in SQL, such as
    bigint.
    """
    is_array = name.startswith("_")
    return {
        "oid": oid, "typname": name, "typnamespace": CATALOG_SCHEMA, "typowner": OWNER, "typlen": SIZES.get(oid, -1),
        "typbyval": False, "typtype": "b", "typcategory": CATEGORIES.get(oid, "S"), "typispreferred": False,
        "typisdefined": True, "typdelim": ",", "typrelid": 0, "typelem": TEXT if is_array else 0, "typarray": 0,
        "typinput": "array_in" if is_array else f"{name}in", "typoutput": "textout",
        "typreceive": ARRAY_RECEIVE if is_array else 0, "typsend": 0, "typalign": "i", "typstorage": "p",
        "typnotnull": False, "typbasetype": 0, "typtypmod": -1, "typndims": 0, "typcollation": 0, "sqlname": sql_name,
    }  # fmt: skip


def _table_rows(database: str, table: str, columns: Columns, oid: int) -> dict[str, list[Row]]:
    """Return the rows of PostgreSQL's catalogue (system tables) that describe one table that an account may ask.

    The result is a dict from names of catalogue tables to their rows. `table` and `columns` are the name and the
    columns of the described table, `oid` is its object identifier, and `database` the name of its database.
    """
    names = {type_: (short, long) for type_, short, long in TYPES}
    attributes: list[Row] = []
    listed: list[Row] = []
    for number, (column, type_) in enumerate(columns, start=1):
        short, long = names.get(type_, ("text", "text"))
        attributes.append(
            {"attrelid": oid, "attname": column, "atttypid": type_, "attstattarget": -1, "attlen": SIZES.get(type_, -1),
             "attnum": number, "attndims": 0, "attcacheoff": -1, "atttypmod": -1, "attbyval": False, "attalign": "i",
             "attstorage": "p", "attcompression": "", "attnotnull": False, "atthasdef": False, "atthasmissing": False,
             "attidentity": "", "attgenerated": "", "attisdropped": False, "attislocal": True, "attinhcount": 0,
             "attcollation": 0}
        )  # fmt: skip
        cells: Row = {"numeric_precision": None, "numeric_precision_radix": None, "numeric_scale": None,
                      "datetime_precision": None}  # fmt: skip
        listed.append(
            {"table_catalog": database, "table_schema": "public", "table_name": table, "column_name": column,
             "ordinal_position": number, "is_nullable": "YES", "data_type": long, "udt_catalog": database,
             "udt_schema": "pg_catalog", "udt_name": short, "dtd_identifier": str(number), "is_self_referencing": "NO",
             "is_identity": "NO", "is_generated": "NEVER", "is_updatable": "NO", **cells, **_PRECISIONS.get(type_, {})}
        )  # fmt: skip
    shown: Row = {"oid": oid, "relname": table, "relnamespace": PUBLIC_SCHEMA, "reltype": 0, "reloftype": 0,
                  "relowner": OWNER, "relam": 2, "relfilenode": 0, "reltablespace": 0, "relpages": 0, "reltuples": -1,
                  "relallvisible": 0, "reltoastrelid": 0, "relhasindex": False, "relisshared": False,
                  "relpersistence": "p", "relkind": "r", "relnatts": len(columns), "relchecks": 0,
                  "relhasrules": False, "relhastriggers": False, "relhassubclass": False, "relrowsecurity": False,
                  "relforcerowsecurity": False, "relispopulated": True, "relreplident": "d", "relispartition": False,
                  "relrewrite": 0, "relfrozenxid": 0, "relminmxid": 0, "relhasoids": False}  # fmt: skip
    return {
        "pg.pg_class": [shown],
        "info.tables": [{"table_catalog": database, "table_schema": "public", "table_name": table,
                         "table_type": "BASE TABLE", "is_insertable_into": "NO", "is_typed": "NO"}],
        "pg.pg_tables": [{"schemaname": "public", "tablename": table, "tableowner": "setwise", "hasindexes": False,
                          "hasrules": False, "hastriggers": False, "rowsecurity": False}],
        "pg.pg_attribute": attributes,
        "info.columns": listed,
    }  # fmt: skip


def _quote_name(name: str) -> str:
    """Return a name in double quotes, as SQL writes identifiers."""
    return '"' + name.replace('"', '""') + '"'
