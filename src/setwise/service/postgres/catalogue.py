"""The catalogue that tools read before they ask: tables, columns and types, in an in-memory DuckDB without a row.

BI tools and drivers send queries on `pg_catalog` and `information_schema`. They are answered from tables of the same
names that list the data set's schema and nothing else. The database holds no private data, opens no file and its
configuration is locked, so a catalogue query cannot reach a private table whatever it says.
"""

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import sqlglot
from sqlglot import exp

from setwise.errors import InvalidParameter
from setwise.service.postgres.values import (
    BOOL,
    DATE,
    FLOAT8,
    INT4,
    INT8,
    JSON,
    NAME,
    NUMERIC,
    OID,
    SIZES,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    Column,
    type_of_duckdb,
)

SERVER_VERSION = "15.0"
"""The version that tools are told: they choose their catalogue queries by it."""

_VERSION_TEXT = f"PostgreSQL {SERVER_VERSION} (Setwise)"

_PUBLIC_SCHEMA, _CATALOG_SCHEMA, _INFORMATION_SCHEMA = 2200, 11, 13000
_OWNER = 10
_FIRST_TABLE = 16384
"""Object identifiers of tables begin here, as in PostgreSQL."""

_TYPES: tuple[tuple[int, str, str], ...] = (
    (BOOL, "bool", "boolean"),
    (18, "char", '"char"'),
    (NAME, "name", "name"),
    (INT8, "int8", "bigint"),
    (21, "int2", "smallint"),
    (INT4, "int4", "integer"),
    (TEXT, "text", "text"),
    (OID, "oid", "oid"),
    (JSON, "json", "json"),
    (700, "float4", "real"),
    (FLOAT8, "float8", "double precision"),
    (VARCHAR, "varchar", "character varying"),
    (DATE, "date", "date"),
    (TIMESTAMP, "timestamp", "timestamp without time zone"),
    (TIMESTAMPTZ, "timestamptz", "timestamp with time zone"),
    (NUMERIC, "numeric", "numeric"),
    (1009, "_text", "text[]"),
)
"""Object identifier, short name and SQL name of the types that columns have."""

_EMPTY_TABLES = {
    "pg_attrdef": "oid BIGINT, adrelid BIGINT, adnum SMALLINT, adbin VARCHAR",
    "pg_description": "objoid BIGINT, classoid BIGINT, objsubid INTEGER, description VARCHAR",
    "pg_shdescription": "objoid BIGINT, classoid BIGINT, description VARCHAR",
    "pg_index": "indexrelid BIGINT, indrelid BIGINT, indnatts SMALLINT, indnkeyatts SMALLINT, indisunique BOOLEAN, "
    "indnullsnotdistinct BOOLEAN, indisprimary BOOLEAN, indisexclusion BOOLEAN, indimmediate BOOLEAN, "
    "indisclustered BOOLEAN, indisvalid BOOLEAN, indisready BOOLEAN, indislive BOOLEAN, indisreplident BOOLEAN, "
    "indkey SMALLINT[], indcollation BIGINT[], indclass BIGINT[], indoption SMALLINT[], indexprs VARCHAR, "
    "indpred VARCHAR",
    "pg_constraint": "oid BIGINT, conname VARCHAR, connamespace BIGINT, contype VARCHAR, condeferrable BOOLEAN, "
    "condeferred BOOLEAN, convalidated BOOLEAN, conrelid BIGINT, contypid BIGINT, conindid BIGINT, "
    "conparentid BIGINT, confrelid BIGINT, confupdtype VARCHAR, confdeltype VARCHAR, confmatchtype VARCHAR, "
    "conislocal BOOLEAN, coninhcount SMALLINT, connoinherit BOOLEAN, conkey SMALLINT[], confkey SMALLINT[], "
    "conbin VARCHAR, conexclop BIGINT[], confdelsetcols SMALLINT[]",
    "pg_proc": "oid BIGINT, proname VARCHAR, pronamespace BIGINT, proowner BIGINT, prolang BIGINT, prokind VARCHAR, "
    "proretset BOOLEAN, prorettype BIGINT, proargtypes BIGINT[], proargnames VARCHAR[], proargmodes VARCHAR[], "
    "proallargtypes BIGINT[], pronargs SMALLINT, prosrc VARCHAR, provolatile VARCHAR",
    "pg_enum": "oid BIGINT, enumtypid BIGINT, enumsortorder REAL, enumlabel VARCHAR",
    "pg_inherits": "inhrelid BIGINT, inhparent BIGINT, inhseqno INTEGER, inhdetachpending BOOLEAN",
    "pg_policy": "oid BIGINT, polname VARCHAR, polrelid BIGINT, polcmd VARCHAR, polpermissive BOOLEAN, "
    "polroles BIGINT[], polqual VARCHAR, polwithcheck VARCHAR",
    "pg_statistic_ext": "oid BIGINT, stxrelid BIGINT, stxname VARCHAR, stxnamespace BIGINT, stxkind VARCHAR[], "
    "stxkeys SMALLINT[], stxstattarget INTEGER",
    "pg_publication": "oid BIGINT, pubname VARCHAR, puballtables BOOLEAN",
    "pg_publication_rel": "oid BIGINT, prpubid BIGINT, prrelid BIGINT, prqual VARCHAR, prattrs SMALLINT[]",
    "pg_publication_namespace": "oid BIGINT, pnpubid BIGINT, pnnspid BIGINT",
    "pg_trigger": "oid BIGINT, tgrelid BIGINT, tgname VARCHAR, tgisinternal BOOLEAN, tgenabled VARCHAR, "
    "tgparentid BIGINT",
    "pg_rewrite": "oid BIGINT, rulename VARCHAR, ev_class BIGINT, ev_enabled VARCHAR, ev_type VARCHAR",
    "pg_collation": "oid BIGINT, collname VARCHAR, collnamespace BIGINT",
    "pg_range": "rngtypid BIGINT, rngsubtype BIGINT",
    "pg_extension": "oid BIGINT, extname VARCHAR, extnamespace BIGINT, extversion VARCHAR",
    "pg_sequence": "seqrelid BIGINT, seqtypid BIGINT, seqstart BIGINT, seqincrement BIGINT, seqmax BIGINT, "
    "seqmin BIGINT, seqcache BIGINT, seqcycle BOOLEAN",
    "pg_sequences": "schemaname VARCHAR, sequencename VARCHAR",
    "pg_foreign_table": "ftrelid BIGINT, ftserver BIGINT, ftoptions VARCHAR[]",
    "pg_foreign_server": "oid BIGINT, srvname VARCHAR",
    "pg_partitioned_table": "partrelid BIGINT, partstrat VARCHAR, partnatts SMALLINT",
    "pg_tablespace": "oid BIGINT, spcname VARCHAR, spcowner BIGINT",
    "pg_views": "schemaname VARCHAR, viewname VARCHAR, viewowner VARCHAR, definition VARCHAR",
    "pg_matviews": "schemaname VARCHAR, matviewname VARCHAR, matviewowner VARCHAR, definition VARCHAR",
    "pg_indexes": "schemaname VARCHAR, tablename VARCHAR, indexname VARCHAR, tablespace VARCHAR, indexdef VARCHAR",
    "pg_language": "oid BIGINT, lanname VARCHAR",
    "pg_depend": "classid BIGINT, objid BIGINT, objsubid INTEGER, refclassid BIGINT, refobjid BIGINT, "
    "refobjsubid INTEGER, deptype VARCHAR",
    "pg_operator": "oid BIGINT, oprname VARCHAR",
    "pg_opclass": "oid BIGINT, opcname VARCHAR, opcdefault BOOLEAN",
    "pg_aggregate": "aggfnoid BIGINT",
    "pg_stat_activity": "pid INTEGER, state VARCHAR, query VARCHAR",
    "pg_locks": "locktype VARCHAR",
    "pg_auth_members": "roleid BIGINT, member BIGINT, grantor BIGINT, admin_option BOOLEAN",
    "pg_event_trigger": "oid BIGINT, evtname VARCHAR",
    "pg_cast": "oid BIGINT, castsource BIGINT, casttarget BIGINT",
    "pg_default_acl": "oid BIGINT, defaclrole BIGINT",
}
"""Catalogue tables that are always empty here, with the columns that tools name."""

_EMPTY_INFORMATION = {
    "views": "table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, view_definition VARCHAR",
    "key_column_usage": "constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name VARCHAR, "
    "table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, column_name VARCHAR, ordinal_position INTEGER",
    "table_constraints": "constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name VARCHAR, "
    "table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, constraint_type VARCHAR",
    "constraint_column_usage": "table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, column_name VARCHAR, "
    "constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name VARCHAR",
    "referential_constraints": "constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name VARCHAR, "
    "unique_constraint_schema VARCHAR, unique_constraint_name VARCHAR, update_rule VARCHAR, delete_rule VARCHAR",
    "routines": "routine_schema VARCHAR, routine_name VARCHAR, specific_name VARCHAR, routine_type VARCHAR",
    "sequences": "sequence_schema VARCHAR, sequence_name VARCHAR",
    "role_table_grants": "grantor VARCHAR, grantee VARCHAR, table_schema VARCHAR, table_name VARCHAR, "
    "privilege_type VARCHAR",
    "table_privileges": "grantor VARCHAR, grantee VARCHAR, table_schema VARCHAR, table_name VARCHAR, "
    "privilege_type VARCHAR",
}

_MACROS = (
    "pg_table_is_visible(o) AS true",
    "pg_type_is_visible(o) AS true",
    "pg_collation_is_visible(o) AS true",
    "array_upper(a, b) AS len(a)",
    "array_lower(a, b) AS 1",
    "pg_function_is_visible(o) AS true",
    "pg_get_userbyid(o) AS 'setwise'",
    "pg_get_expr(a, b) AS NULL::VARCHAR, (a, b, c) AS NULL::VARCHAR",
    "pg_get_constraintdef(a) AS NULL::VARCHAR, (a, b) AS NULL::VARCHAR",
    "pg_get_indexdef(a) AS NULL::VARCHAR, (a, b, c) AS NULL::VARCHAR",
    "pg_get_viewdef(a) AS NULL::VARCHAR, (a, b) AS NULL::VARCHAR",
    "pg_get_partkeydef(a) AS NULL::VARCHAR",
    "pg_get_serial_sequence(a, b) AS NULL::VARCHAR",
    "pg_get_statisticsobjdef_columns(a) AS NULL::VARCHAR",
    "pg_get_function_arguments(a) AS NULL::VARCHAR",
    "pg_get_function_result(a) AS NULL::VARCHAR",
    "pg_get_function_identity_arguments(a) AS NULL::VARCHAR",
    "pg_relation_is_publishable(a) AS false",
    "pg_encoding_to_char(a) AS 'UTF8'",
    "pg_is_in_recovery() AS false",
    "pg_backend_pid() AS 1",
    "pg_relation_size(a) AS 0::BIGINT",
    "pg_total_relation_size(a) AS 0::BIGINT",
    "pg_size_pretty(a) AS '0 bytes'",
    "obj_description(a) AS NULL::VARCHAR, (a, b) AS NULL::VARCHAR",
    "shobj_description(a, b) AS NULL::VARCHAR",
    "col_description(a, b) AS NULL::VARCHAR",
    "has_table_privilege(a, b) AS true, (a, b, c) AS true",
    "has_schema_privilege(a, b) AS true, (a, b, c) AS true",
    "has_database_privilege(a, b) AS true, (a, b, c) AS true",
    "has_column_privilege(a, b, c) AS true, (a, b, c, d) AS true",
    "has_any_column_privilege(a, b) AS true, (a, b, c) AS true",
    "pg_has_role(a, b) AS true, (a, b, c) AS true",
    "setting_of(a) AS (SELECT setting FROM pg.pg_settings WHERE name = lower(a))",
    "quote_ident(a) AS '\"' || a || '\"'",
    "txid_current() AS 1::BIGINT",
    "set_config(a, b, c) AS b",
    "regclass_name(a) AS coalesce((SELECT relname FROM pg.pg_class WHERE oid = try_cast(a AS BIGINT)), a::VARCHAR)",
    "regclass_oid(a) AS coalesce(try_cast(a AS BIGINT), (SELECT oid FROM pg.pg_class WHERE relname = "
    "regexp_extract(a::VARCHAR, '([^.\"]+)\"?$', 1)))",
    "regtype_oid(a) AS coalesce(try_cast(a AS BIGINT), (SELECT min(oid) FROM pg.pg_type WHERE a::VARCHAR IN "
    "(typname, sqlname)))",
    "format_type(a, b) AS (SELECT sqlname FROM pg.pg_type WHERE oid = a)",
)
"""Functions of PostgreSQL's catalogue, as macros over the tables above; those about objects that there are none of
return null."""


@dataclass(frozen=True, slots=True)
class Result:
    """The columns and rows that a statement gives, and the tag with which PostgreSQL ends it."""

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[object]]
    tag: str = ""


class Catalogue:
    """Answers queries about the catalogue of one database: the tables that one account may ask about."""

    def __init__(self, database: str, user: str, tables: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        """Make the catalogue; `tables` maps names to columns, each a name and the object identifier of its type."""
        self._constants = {
            "current_database": database,
            "current_catalog": database,
            "current_user": user,
            "session_user": user,
            "user": user,
            "current_role": user,
            "version": _VERSION_TEXT,
            "current_version": _VERSION_TEXT,  # the parser's own name for version()
            "current_schema": "public",
        }
        self._tables = tables
        self._lock = threading.Lock()
        self._connection = duckdb.connect(
            ":memory:", config={"threads": 1, "memory_limit": "256MB", "autoinstall_known_extensions": "false"}
        )
        self._fill(database, user)
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            self._connection.close()

    def cancel(self) -> None:
        """Stop what runs, from any thread."""
        self._connection.interrupt()

    def reads_catalogue(self, statement: exp.Expr) -> bool:
        """Whether a statement reads no table of the data set: only the catalogue, or no table at all."""
        local = {cte.alias_or_name.lower() for cte in statement.find_all(exp.CTE)}
        return all(
            _is_catalogue(table) or table.name.lower() in local or isinstance(table.this, exp.Func)
            for table in statement.find_all(exp.Table)
        )

    def columns_of(self, table: str) -> Sequence[tuple[str, int]] | None:
        """Return the columns of a table of the data set, or None if there is no such table."""
        return self._tables.get(table)

    def describe(self, statement: exp.Expr) -> tuple[Column, ...] | None:
        """Return the columns that a SELECT over the data set's tables gives, from their empty copies here.

        None if DuckDB cannot read the statement, for example because it names bounds of contributions.
        """
        with self._lock:
            try:
                described = self._connection.execute(f"DESCRIBE {statement.sql(dialect='duckdb')}").fetchall()
            except (duckdb.Error, sqlglot.errors.SqlglotError):
                return None
        return tuple(Column(str(row[0]), _statistic_type(str(row[1]))) for row in described)

    def answer(self, statement: exp.Expr) -> Result:
        """Return what a catalogue query gives.

        Raises: `InvalidParameter` if the query needs something that the catalogue does not have.
        """
        text = _rewritten(statement, self._constants).sql(dialect="duckdb")
        with self._lock:
            try:
                cursor = self._connection.execute(text)
                described = cursor.description or []
                rows = cursor.fetchall()
            except duckdb.Error as error:
                first = str(error).splitlines()[0]
                raise InvalidParameter(f"the catalogue cannot answer this query: {first}") from None
        names = [str(entry[0]) for entry in described]
        types = [type_of_duckdb(str(entry[1])) for entry in described]
        return Result(tuple(map(Column, names, types)), rows, f"SELECT {len(rows)}")

    def _fill(self, database: str, user: str) -> None:
        run = self._connection.execute
        run("CREATE SCHEMA pg")
        run("CREATE SCHEMA info")
        for name, columns in _EMPTY_TABLES.items():
            run(f"CREATE TABLE pg.{name} ({columns})")
        for name, columns in _EMPTY_INFORMATION.items():
            run(f"CREATE TABLE info.{name} ({columns})")
        self._fill_schemas_and_types(database, user)
        self._fill_tables(database)
        for macro in _MACROS:
            run(f"CREATE MACRO {macro}")
        for table, fields in self._tables.items():
            declared = ", ".join(f"{_quoted(name)} {_DUCKDB_TYPE.get(type_, 'VARCHAR')}" for name, type_ in fields)
            run(f"CREATE TABLE {_quoted(table)} ({declared})")

    def _fill_schemas_and_types(self, database: str, user: str) -> None:
        run, many = self._connection.execute, self._connection.executemany
        run("CREATE TABLE pg.pg_namespace (oid BIGINT, nspname VARCHAR, nspowner BIGINT, nspacl VARCHAR[])")
        schemas = (
            (_CATALOG_SCHEMA, "pg_catalog"),
            (_PUBLIC_SCHEMA, "public"),
            (_INFORMATION_SCHEMA, "information_schema"),
        )
        many("INSERT INTO pg.pg_namespace VALUES (?, ?, ?, NULL)", [[oid, name, _OWNER] for oid, name in schemas])
        run("CREATE TABLE info.schemata (catalog_name VARCHAR, schema_name VARCHAR, schema_owner VARCHAR)")
        many("INSERT INTO info.schemata VALUES (?, ?, 'setwise')", [[database, name] for _, name in schemas])
        run(
            "CREATE TABLE pg.pg_type (oid BIGINT, typname VARCHAR, typnamespace BIGINT, typowner BIGINT, "
            "typlen SMALLINT, "
            "typtype VARCHAR, typcategory VARCHAR, typrelid BIGINT, typelem BIGINT, typarray BIGINT, "
            "typbasetype BIGINT, "
            "typtypmod INTEGER, typnotnull BOOLEAN, typdelim VARCHAR, typcollation BIGINT, typdefault VARCHAR, "
            "typinput VARCHAR, typndims INTEGER, typisdefined BOOLEAN, typbyval BOOLEAN, sqlname VARCHAR)"
        )
        many(
            "INSERT INTO pg.pg_type VALUES (?, ?, ?, ?, ?, 'b', 'X', 0, ?, 0, 0, -1, false, ',', 0, NULL, ?, 0, true, "
            "false, ?)",
            [
                [
                    oid,
                    name,
                    _CATALOG_SCHEMA,
                    _OWNER,
                    SIZES.get(oid, -1),
                    TEXT if name == "_text" else 0,
                    "array_in" if name == "_text" else f"{name}in",
                    sql_name,
                ]
                for oid, name, sql_name in _TYPES
            ],
        )
        run("CREATE TABLE pg.pg_am AS SELECT 2::BIGINT AS oid, 'heap' AS amname, 't' AS amtype")
        run(
            "CREATE TABLE pg.pg_database AS SELECT 1::BIGINT AS oid, ?::VARCHAR AS datname, 10::BIGINT AS datdba, "
            "6 AS encoding, 'C' AS datcollate, 'C' AS datctype, false AS datistemplate, true AS datallowconn, "
            "-1 AS datconnlimit, 1663::BIGINT AS dattablespace, NULL::VARCHAR[] AS datacl, 'c' AS datlocprovider, "
            "NULL::VARCHAR AS daticulocale, NULL::VARCHAR AS daticurules, NULL::VARCHAR AS datlocale, "
            "NULL::VARCHAR AS datcollversion",
            [database],
        )
        for name in ("pg_roles", "pg_user", "pg_authid"):
            run(
                f"CREATE TABLE pg.{name} AS SELECT 10::BIGINT AS oid, ?::VARCHAR AS rolname, ?::VARCHAR AS usename, "
                "10::BIGINT AS usesysid, false AS rolsuper, false AS usesuper, true AS rolinherit, "
                "false AS rolcreaterole, false AS rolcreatedb, true AS rolcanlogin, false AS rolreplication, "
                "-1 AS rolconnlimit, NULL::TIMESTAMP AS rolvaliduntil, false AS rolbypassrls",
                [user, user],
            )
        run(
            "CREATE TABLE pg.pg_settings (name VARCHAR, setting VARCHAR, unit VARCHAR, category VARCHAR, "
            "source VARCHAR)"
        )
        many(
            "INSERT INTO pg.pg_settings VALUES (?, ?, NULL, 'Setwise', 'default')",
            [
                ["server_version", SERVER_VERSION],
                ["server_version_num", "150000"],
                ["max_index_keys", "32"],
                ["standard_conforming_strings", "on"],
                ["default_table_access_method", "heap"],
                ["search_path", "public"],
                ["timezone", "UTC"],
            ],
        )

    def _fill_tables(self, database: str) -> None:
        run, many = self._connection.execute, self._connection.executemany
        run(
            "CREATE TABLE pg.pg_class (oid BIGINT, relname VARCHAR, relnamespace BIGINT, reltype BIGINT, "
            "reloftype BIGINT, "
            "relowner BIGINT, relam BIGINT, relfilenode BIGINT, reltablespace BIGINT, relpages INTEGER, "
            "reltuples REAL, "
            "reltoastrelid BIGINT, relhasindex BOOLEAN, relisshared BOOLEAN, relpersistence VARCHAR, relkind VARCHAR, "
            "relnatts SMALLINT, relchecks SMALLINT, relhasrules BOOLEAN, relhastriggers BOOLEAN, "
            "relhassubclass BOOLEAN, "
            "relrowsecurity BOOLEAN, relforcerowsecurity BOOLEAN, relispopulated BOOLEAN, relreplident VARCHAR, "
            "relispartition BOOLEAN, relhasoids BOOLEAN, relacl VARCHAR[], reloptions VARCHAR[], relpartbound VARCHAR)"
        )
        run(
            "CREATE TABLE pg.pg_attribute (attrelid BIGINT, attname VARCHAR, atttypid BIGINT, attstattarget INTEGER, "
            "attlen SMALLINT, attnum SMALLINT, attndims INTEGER, atttypmod INTEGER, attnotnull BOOLEAN, "
            "atthasdef BOOLEAN, atthasmissing BOOLEAN, attidentity VARCHAR, attgenerated VARCHAR, "
            "attisdropped BOOLEAN, "
            "attislocal BOOLEAN, attcollation BIGINT, attacl VARCHAR[], attoptions VARCHAR[], attstorage VARCHAR, "
            "attcompression VARCHAR, attfdwoptions VARCHAR[])"
        )
        run(
            "CREATE TABLE info.tables (table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, "
            "table_type VARCHAR, is_insertable_into VARCHAR)"
        )
        run(
            "CREATE TABLE info.columns (table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, "
            "column_name VARCHAR, ordinal_position INTEGER, column_default VARCHAR, is_nullable VARCHAR, "
            "data_type VARCHAR, character_maximum_length INTEGER, numeric_precision INTEGER, numeric_scale INTEGER, "
            "datetime_precision INTEGER, udt_schema VARCHAR, udt_name VARCHAR, is_identity VARCHAR, "
            "is_generated VARCHAR, is_updatable VARCHAR)"
        )
        run("CREATE TABLE pg.pg_tables (schemaname VARCHAR, tablename VARCHAR, tableowner VARCHAR, tablespace VARCHAR, "
            "hasindexes BOOLEAN, hasrules BOOLEAN, hastriggers BOOLEAN, rowsecurity BOOLEAN)")  # fmt: skip
        for name in ("pg_stat_user_tables", "pg_stat_all_tables"):
            run(f"CREATE TABLE pg.{name} (relid BIGINT, schemaname VARCHAR, relname VARCHAR, n_live_tup BIGINT)")
        names = {oid: (short, long) for oid, short, long in _TYPES}
        for place, (table, columns) in enumerate(self._tables.items()):
            oid = _FIRST_TABLE + place
            many(
                "INSERT INTO pg.pg_class VALUES (?, ?, ?, 0, 0, ?, 2, 0, 0, 0, -1, 0, false, false, 'p', 'r', ?, 0, "
                "false, "
                "false, false, false, false, true, 'd', false, false, NULL, NULL, NULL)",
                [[oid, table, _PUBLIC_SCHEMA, _OWNER, len(columns)]],
            )
            many("INSERT INTO info.tables VALUES (?, 'public', ?, 'BASE TABLE', 'NO')", [[database, table]])
            many(
                "INSERT INTO pg.pg_tables VALUES ('public', ?, 'setwise', NULL, false, false, false, false)", [[table]]
            )
            for number, (column, type_) in enumerate(columns, start=1):
                short, long = names.get(type_, ("text", "text"))
                many(
                    "INSERT INTO pg.pg_attribute VALUES (?, ?, ?, -1, ?, ?, 0, -1, false, false, false, '', '', false, "
                    "true, 0, NULL, NULL, 'p', '', NULL)",
                    [[oid, column, type_, SIZES.get(type_, -1), number]],
                )
                many(
                    "INSERT INTO info.columns VALUES (?, 'public', ?, ?, ?, NULL, 'YES', ?, NULL, NULL, NULL, NULL, "
                    "'pg_catalog', ?, 'NO', 'NEVER', 'NO')",
                    [[database, table, column, number, long, short]],
                )


_DUCKDB_TYPE = {
    BOOL: "BOOLEAN",
    INT8: "BIGINT",
    FLOAT8: "DOUBLE",
    NUMERIC: "DECIMAL(38, 9)",
    DATE: "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMPTZ: "TIMESTAMP WITH TIME ZONE",
}


def _statistic_type(duckdb_type: str) -> int:
    """Return the type under which a column of an answer is sent.

    Counts are whole numbers. Every other number may carry noise with a fraction, so it is a float even where DuckDB
    would compute a whole number or a decimal.
    """
    type_ = type_of_duckdb(duckdb_type)
    return FLOAT8 if type_ == NUMERIC else type_


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def parse_catalogue_query(text: str) -> exp.Expr:
    """Return a statement as a syntax tree, after rewriting what the parser does not read.

    Raises: `InvalidParameter`.
    """
    plain = re.sub(r"OPERATOR\s*\(\s*pg_catalog\.([^)\s]+)\s*\)", r"\1", text, flags=re.IGNORECASE)
    plain = re.sub(r"\s+COLLATE\s+(pg_catalog\.)?\"?default\"?", "", plain, flags=re.IGNORECASE)
    try:
        parsed = sqlglot.parse_one(plain, read="postgres")
    except (sqlglot.ParseError, sqlglot.TokenError) as error:
        raise InvalidParameter(f"this statement cannot be read: {str(error).splitlines()[0]}") from None
    return parsed


_LOOKUPS = {"regclass": "regclass_oid", "regtype": "regtype_oid"}
_TEXT_TYPES = {"name", "char", "regproc", "regnamespace", "regrole", "int2vector", "oidvector", "anyarray"}


def _rewritten(statement: exp.Expr, constants: Mapping[str, str]) -> exp.Expr:
    """Return the statement for DuckDB: catalogue tables under their schemas here, casts and functions as macros.

    Inner nodes are rewritten before outer ones, because a cast to oid may hold a cast to regclass.
    """
    tree = statement.copy()
    if isinstance(tree, exp.Select):
        for projection in list(tree.expressions):
            _name_as_postgresql_does(projection)
    for node in reversed(list(tree.walk())):
        rewritten = _rewritten_node(node, constants)
        if rewritten is not node:
            if node is tree:
                tree = rewritten
            else:
                node.replace(rewritten)
    return tree


def _rewritten_node(node: exp.Expr, constants: Mapping[str, str]) -> exp.Expr:
    match node:
        case exp.Table():
            return _located(node)
        case exp.Dot() if node.this.name.lower() == "pg_catalog":
            inner: exp.Expr = node.expression.copy()
            return inner
        case exp.Cast():
            return _cast(node)
        case exp.Func() | exp.Anonymous():
            return _called(node, constants)
        case exp.Column() if node.args.get("db") is not None:
            return exp.column(node.this.copy(), table=node.args["table"].copy())
        case exp.Column() if not node.table and node.name.lower() in constants and not node.this.args.get("quoted"):
            return exp.Literal.string(constants[node.name.lower()])
        case _:
            return node


def _name_as_postgresql_does(projection: exp.Expr) -> None:
    """Give a column of a result the name that PostgreSQL gives it: of the function or column, else ?column?."""
    if isinstance(projection, exp.Alias | exp.Star | exp.Column):
        if isinstance(projection, exp.Column) and not projection.find(exp.Star):
            projection.replace(exp.alias_(projection.copy(), projection.name, quoted=True))
        return
    inner = projection
    while isinstance(inner, exp.Cast | exp.Paren | exp.Dot):
        inner = inner.expression if isinstance(inner, exp.Dot) else inner.this
    name = "?column?"
    if isinstance(inner, exp.Anonymous):
        name = inner.name.lower()
    elif isinstance(inner, exp.Column):
        name = inner.name
    elif isinstance(inner, exp.Func) and not isinstance(inner, exp.Case | exp.Binary):
        name = inner.sql_name().lower().replace("current_version", "version")
    projection.replace(exp.alias_(projection.copy(), name, quoted=True))


def _located(table: exp.Table) -> exp.Expr:
    name, schema = table.name.lower(), table.db.lower()
    if isinstance(table.this, exp.Func | exp.Anonymous):  # generate_series and the like
        table.set("db", None)
        return table
    if schema == "information_schema":
        table.set("db", exp.to_identifier("info"))
        table.set("catalog", None)
    elif name.startswith("pg_") or schema == "pg_catalog":
        table.set("db", exp.to_identifier("pg"))
        table.set("catalog", None)
    return table


def _cast(node: exp.Cast) -> exp.Expr:
    """Return a cast to one of PostgreSQL's own types as a lookup, as text or as a number; other casts as they are."""
    type_ = node.to.sql(dialect="postgres").strip('"').lower().removeprefix("pg_catalog.")
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


def _called(node: exp.Expr, constants: Mapping[str, str]) -> exp.Expr:
    name = (
        node.sql_name() if isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous) else node.name
    ).lower()
    if name in constants:
        return exp.Literal.string(constants[name])
    if name in (
        "json_build_object",
        "jsonb_build_object",
    ):  # describes identities and collations, which there are none of
        return exp.cast(exp.Null(), "VARCHAR")
    if name == "to_regclass":
        return exp.Anonymous(this="regclass_oid", expressions=node.expressions)
    if name == "to_regtype":
        return exp.Anonymous(this="regtype_oid", expressions=node.expressions)
    if name == "current_setting":
        return exp.Anonymous(this="setting_of", expressions=node.expressions[:1] or [node.this.copy()])
    if name == "current_schemas":
        return exp.array(exp.Literal.string("pg_catalog"), exp.Literal.string("public"))
    return node


def _is_catalogue(table: exp.Table) -> bool:
    return table.db.lower() in ("information_schema", "pg_catalog") or table.name.lower().startswith("pg_")


def read_statements(text: str) -> list[str]:
    """Return the statements of a simple query, split at semicolons outside quotes and comments; blank ones left out."""
    tokens = sqlglot.tokenize(text, read="postgres")
    found: list[str] = []
    begin = 0
    for token in tokens:
        if token.token_type is sqlglot.TokenType.SEMICOLON:
            found.append(text[begin : token.start])
            begin = token.end + 1
    found.append(text[begin:])
    return [statement.strip() for statement in found if _is_statement(statement)]


def _is_statement(text: str) -> bool:
    try:
        return bool(sqlglot.tokenize(text, read="postgres"))
    except sqlglot.TokenError:
        return True
