"""Constants of the imitated PostgreSQL catalogue (system tables) that are the same for every dataset.

They are types, settings, and functions written as DuckDB macros.
"""

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
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
)

SERVER_VERSION = "15.0"
"""The PostgreSQL version that clients are told; tools choose their catalogue queries by it."""

VERSION_TEXT = f"PostgreSQL {SERVER_VERSION} (Setwise)"

PUBLIC_SCHEMA, CATALOG_SCHEMA, INFORMATION_SCHEMA = 2200, 11, 13000
OWNER = 10
FIRST_TABLE = 16384
"""The object identifier of the first table; further tables count up from it, as in PostgreSQL."""

TYPES: tuple[tuple[int, str, str], ...] = (
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

ARRAY_RECEIVE = 2400
"""The object identifier of the function `array_recv`, by which drivers tell which types are arrays."""

CATEGORIES = {
    **dict.fromkeys((INT8, 21, INT4, OID, 700, FLOAT8, NUMERIC), "N"),
    **dict.fromkeys((DATE, TIMESTAMP, TIMESTAMPTZ), "D"),
    BOOL: "B",
    JSON: "U",
    1009: "A",
}
"""The category of types other than texts: numbers, dates and times, booleans, other types, arrays."""

SETTINGS = {
    "application_name": "",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "datestyle": "ISO, MDY",
    "default_table_access_method": "heap",
    "default_transaction_deferrable": "off",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
    "escape_string_warning": "on",
    "extra_float_digits": "1",
    "idle_in_transaction_session_timeout": "0",
    "in_hot_standby": "off",
    "integer_datetimes": "on",
    "intervalstyle": "postgres",
    "is_superuser": "off",
    "lc_collate": "C",
    "lc_ctype": "C",
    "lc_messages": "C",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "lock_timeout": "0",
    "max_connections": "100",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "row_security": "on",
    "search_path": '"$user", public',
    "server_encoding": "UTF8",
    "server_version": SERVER_VERSION,
    "server_version_num": "150000",
    "session_authorization": "",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "timezone": "UTC",
    "transaction_deferrable": "off",
    "transaction_isolation": "read committed",
    "transaction_read_only": "on",
}
"""Settings of PostgreSQL with their defaults, as SHOW, `current_setting` and `pg_settings` return them."""

MACROS = (
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
    "pg_is_wal_replay_paused() AS false",
    "pg_advisory_lock(a) AS NULL::VARCHAR, (a, b) AS NULL::VARCHAR",
    "pg_try_advisory_lock(a) AS true, (a, b) AS true",
    "pg_advisory_unlock(a) AS true, (a, b) AS true",
    "pg_advisory_unlock_all() AS NULL::VARCHAR",
    "pg_cancel_backend(a) AS false",
    "pg_terminate_backend(a) AS false, (a, b) AS false",
    "pg_sleep(a) AS NULL::VARCHAR",
    "pg_my_temp_schema() AS 0::BIGINT",
    "pg_is_other_temp_schema(a) AS false",
    "pg_client_encoding() AS 'UTF8'",
    "pg_char_to_encoding(a) AS 6",
    "pg_get_ruledef(a) AS NULL::VARCHAR, (a, b) AS NULL::VARCHAR",
    "pg_get_triggerdef(a) AS NULL::VARCHAR, (a, b) AS NULL::VARCHAR",
    "pg_get_functiondef(a) AS NULL::VARCHAR",
    "pg_get_statisticsobjdef(a) AS NULL::VARCHAR",
    "pg_get_partition_constraintdef(a) AS NULL::VARCHAR",
    "pg_relation_filenode(a) AS 0::BIGINT",
    "pg_relation_is_updatable(a, b) AS 0",
    "pg_column_is_updatable(a, b, c) AS false",
    "pg_table_size(a) AS 0::BIGINT",
    "pg_indexes_size(a) AS 0::BIGINT",
    "pg_database_size(a) AS 0::BIGINT",
    "pg_tablespace_location(a) AS ''",
    "pg_tablespace_size(a) AS 0::BIGINT",
    "pg_opclass_is_visible(a) AS true",
    "pg_operator_is_visible(a) AS true",
    "pg_statistics_obj_is_visible(a) AS true",
    "pg_stat_get_backend_pid(a) AS 1",
    "pg_stat_get_tuples_inserted(a) AS 0::BIGINT",
    "pg_blocking_pids(a) AS []::INTEGER[]",
    "inet_server_port() AS 5432",
    "inet_client_port() AS NULL::INTEGER",
    "row_security_active(a) AS false",
    "has_sequence_privilege(a, b) AS true, (a, b, c) AS true",
    "has_function_privilege(a, b) AS true, (a, b, c) AS true",
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
    "setting_of(a) AS (SELECT found_ FROM (SELECT name AS name_, setting AS found_ FROM pg.pg_settings) AS hidden_ "
    "WHERE name_ = lower(a))",
    "quote_ident(a) AS CASE WHEN regexp_full_match(a, '[a-z_][a-z0-9_$]*') THEN a "
    "ELSE '\"' || replace(a, '\"', '\"\"') || '\"' END",
    "parse_ident(a) AS string_split(replace(a, '\"', ''), '.')",
    "pg_partition_ancestors(a) AS try_cast(a AS BIGINT)",
    "pg_stat_get_numscans(a) AS 0::BIGINT",
    "_pg_expandarray(a) AS struct_pack(x := a[1], n := 1)",
    "generate_subscripts(a, b) AS unnest(range(1, len(a) + 1))",
    "inet_server_addr() AS NULL::VARCHAR",
    "inet_client_addr() AS NULL::VARCHAR",
    "pg_get_keywords() AS TABLE SELECT word, 'R' AS catcode, 'reserved' AS catdesc FROM "
    "(VALUES ('select'), ('from'), ('where'), ('group'), ('order')) AS keywords (word)",
    "txid_current() AS 1::BIGINT",
    "set_config(a, b, c) AS b",
    "regclass_name(a) AS coalesce((SELECT found_ FROM (SELECT oid AS oid_, relname AS found_ FROM pg.pg_class) "
    "AS hidden_ WHERE oid_ = try_cast(a AS BIGINT)), a::VARCHAR)",
    "regclass_oid(a) AS coalesce(try_cast(a AS BIGINT), (SELECT oid_ FROM (SELECT oid AS oid_, relname AS name_ FROM "
    "pg.pg_class) AS hidden_ WHERE name_ = regexp_extract(a::VARCHAR, '([^.\"]+)\"?$', 1)))",
    "regtype_oid(a) AS coalesce(try_cast(a AS BIGINT), (SELECT min(oid_) FROM (SELECT oid AS oid_, typname AS short_, "
    "sqlname AS long_ FROM pg.pg_type) AS hidden_ WHERE a::VARCHAR IN (short_, long_)))",
    "format_type(a, b) AS (SELECT found_ FROM (SELECT oid AS oid_, sqlname AS found_ FROM pg.pg_type) "
    "AS hidden_ WHERE oid_ = a)",
)
"""Functions of PostgreSQL's catalogue, as DuckDB macros over the tables above.

Functions about objects that do not exist here (indexes, constraints, views) return null. DuckDB inserts the argument of
a macro as text, so subqueries read tables under names that end with an underscore: with the tables' own names,
format_type(oid, NULL) in a query of pg_type would compare the column oid inside the macro with itself.
"""
