"""Statements that BI tools and drivers send over PostgreSQL's protocol: their catalogue queries, cursors and charts.

Each catalogue statement uses the constructs of the statement that the tool sends, in its order; what it must find is
beside it.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from setwise.service.postgres.catalogue import Catalogue
from setwise.service.postgres.replies import ReadSelect, Rejected, Reply
from setwise.service.postgres.selects import read_select
from setwise.service.postgres.session import PostgresSession
from setwise.service.postgres.statements import split_statements
from setwise.service.postgres.values import INT8, TEXT, TIMESTAMP
from setwise.service.settings import Settings
from tests.service.replica import QUICK, free_port, running
from tests.service.team import Team, gather, made, write_events

COLUMNS = [("user_id", INT8), ("country", TEXT), ("minutes", INT8), ("at", TIMESTAMP)]
NAMES = [(name,) for name, _ in COLUMNS]

SEARCH_PATH = """quote_ident(table_schema) IN (
    SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
    FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
                         array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
         string_to_array(current_setting('search_path'), ',') s)"""

STATEMENTS: dict[str, list[tuple[str, list[tuple[Any, ...]] | None]]] = {
    "grafana": [
        (
            f"""SELECT CASE WHEN {SEARCH_PATH} THEN quote_ident(table_name)
                ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
            FROM information_schema.tables
            WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache')
            ORDER BY CASE WHEN {SEARCH_PATH} THEN 0 ELSE 1 END, 1""",
            [("visits",)],
        ),
        (
            f"""SELECT quote_ident(column_name) AS "column" FROM information_schema.columns WHERE
            CASE WHEN array_length(parse_ident('public.visits'), 1) = 2
            THEN quote_ident(table_schema) = (parse_ident('public.visits'))[1]
                AND quote_ident(table_name) = (parse_ident('public.visits'))[2]
            ELSE quote_ident(table_name) = 'public.visits' AND {SEARCH_PATH} END""",
            NAMES,
        ),
    ],
    "metabase": [
        ("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", None),
        ("SHOW TRANSACTION ISOLATION LEVEL", [("read committed",)]),
        (
            """WITH table_privileges AS (SELECT NULL AS role, t.schemaname AS schema, t.objectname AS table,
            pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.objectname, '"', '""') || '"', 'update')
                AS update,
            pg_catalog.has_table_privilege(current_user, t.objectname, 'delete') AS delete
            FROM (SELECT schemaname, tablename AS objectname FROM pg_catalog.pg_tables
                  UNION SELECT schemaname, viewname AS objectname FROM pg_catalog.pg_views
                  UNION SELECT schemaname, matviewname AS objectname FROM pg_catalog.pg_matviews) t
            WHERE t.schemaname !~ '^pg_' AND pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage'))
            SELECT t.schema, t.table FROM table_privileges t""",
            [("public", "visits")],
        ),
        (
            """SELECT "c"."column_name" AS "name", CASE WHEN "c"."udt_schema" IN ('public', 'pg_catalog')
                THEN FORMAT('%s', "c"."udt_name") ELSE FORMAT('"%s"."%s"', "c"."udt_schema", "c"."udt_name") END,
            "c"."ordinal_position" - 1 AS "database-position",
            COL_DESCRIPTION(CAST(CAST(FORMAT('%I.%I', CAST("c"."table_schema" AS TEXT), CAST("c"."table_name" AS TEXT))
                AS REGCLASS) AS OID), "c"."ordinal_position") AS "field-comment"
            FROM "information_schema"."columns" AS "c"
            WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND ("c"."table_schema" IN ('public'))
            ORDER BY 3""",
            [("user_id", "int8", 0, None), ("country", "text", 1, None), ("minutes", "int8", 2, None),
             ("at", "timestamp", 3, None)],
        ),
        (
            """SELECT trim(both '"' from pg_catalog.pg_get_indexdef(tmp.ci_oid, tmp.pos, false)) AS "field-name"
            FROM (SELECT (information_schema._pg_expandarray(i.indkey)).n AS pos, ci.oid AS ci_oid
                  FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid)) AS tmp""",
            [],
        ),
        ('SELECT TRUE AS "_" FROM "public"."visits" WHERE 1 <> 1 LIMIT 0', []),
        ('SELECT "public"."visits"."country" FROM "public"."visits" LIMIT 0', []),
    ],
    "odbc and tableau": [
        ("SET DateStyle = 'ISO';SET extra_float_digits = 2;show transaction_isolation", [("read committed",)]),
        (
            """select relname, nspname, relkind from pg_catalog.pg_class c, pg_catalog.pg_namespace n
            where relkind in ('r', 'v', 'm', 'f', 'p') and nspname not in ('pg_catalog', 'information_schema')
            and n.oid = relnamespace order by nspname, relname""",
            [("visits", "public", "r")],
        ),
        (
            """select a.attname from (((pg_catalog.pg_class c inner join pg_catalog.pg_namespace n
            on n.oid = c.relnamespace and c.relname = E'visits' and n.nspname = E'public')
            inner join pg_catalog.pg_attribute a on (not a.attisdropped) and a.attnum > 0 and a.attrelid = c.oid)
            inner join pg_catalog.pg_type t on t.oid = a.atttypid)
            left outer join pg_attrdef d on a.atthasdef and d.adrelid = a.attrelid and d.adnum = a.attnum
            order by n.nspname, c.relname, attnum""",
            NAMES,
        ),
        ('SELECT * FROM (SELECT 1 AS "COL") AS "SUBQUERY"', [(1,)]),
        ("SELECT CAST(current_setting('server_version_num') AS INTEGER)", [(150000,)]),
    ],
    "npgsql, Power BI and Excel": [
        (
            """SELECT count(*) > 0 FROM (SELECT typ.oid,
                CASE WHEN proc.proname = 'array_recv' THEN 'a' ELSE typ.typtype END AS typtype,
                CASE WHEN proc.proname = 'array_recv' THEN typ.typelem WHEN typ.typtype = 'r' THEN rngsubtype
                WHEN typ.typtype = 'm' THEN (SELECT rngtypid FROM pg_range WHERE rngmultitypid = typ.oid) END AS element
                FROM pg_type AS typ LEFT JOIN pg_proc AS proc ON proc.oid = typ.typreceive
                LEFT JOIN pg_range ON (pg_range.rngtypid = typ.oid)) AS t WHERE typtype = 'a' AND element = 25""",
            [(True,)],
        ),
        ("select character_set_name from INFORMATION_SCHEMA.character_sets", [("UTF8",)]),
        (
            "select TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE from INFORMATION_SCHEMA.tables where TABLE_SCHEMA not in "
            "('information_schema', 'pg_catalog') order by TABLE_SCHEMA, TABLE_NAME",
            [("public", "visits", "BASE TABLE")],
        ),
    ],
    "dbeaver, pgcli and pgadmin": [
        ("SELECT current_schema(),session_user", [("public", "ada")]),
        ("SELECT relname FROM pg_catalog.pg_class c WHERE c.relkind = ANY('{r,p,f}')", [("visits",)]),
        ("SELECT count(*) > 0 from pg_catalog.pg_get_keywords() where word <> ALL ('{a,abs}'::text[])", [(True,)]),
        (
            """SELECT CASE WHEN (SELECT count(extname) FROM pg_catalog.pg_extension WHERE extname='bdr') > 0 THEN 'pgd'
            WHEN (SELECT COUNT(*) FROM pg_replication_slots) > 0 THEN 'log' ELSE NULL END as type""",
            [(None,)],
        ),
        (
            "SELECT COALESCE(proallargtypes::regtype[], proargtypes::regtype[])::text[] FROM pg_catalog.pg_proc "
            "WHERE proname = 'none'",
            [],
        ),
        ("SELECT now() > '2020-01-01'", [(True,)]),
    ],
    "asyncpg": [
        ("SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL", None),
        (
            """WITH RECURSIVE tree(oid, name, element, depth) AS (
            SELECT t.oid, t.typname, t.typelem, 0 FROM pg_catalog.pg_type t WHERE t.oid = any('{1009}'::oid[])
            UNION ALL SELECT t.oid, t.typname, t.typelem, depth + 1 FROM pg_type t, tree WHERE t.oid = tree.element)
            SELECT DISTINCT name, element::regtype::text AS element_name FROM tree ORDER BY name""",
            [("_text", "text"), ("text", None)],
        ),
    ],
    "jdbc keywords and psql": [
        ("""select count(*) from pg_catalog.pg_get_keywords()
            where word <> ALL ('{abs,"null","a \\"quoted\\" word",select}'::text[])""", [(4,)]),
        ("select n from (select unnest('{1,2,NULL}'::int[]) as n) as numbers where n is not null", [(1,), (2,)]),
        ("select (select string_agg(x, ', ') from unnest(array['a', 'b']) as t(x))", [("a, b",)]),
        ("select lanname, d.description from pg_catalog.pg_language l left join pg_catalog.pg_description d "
         "on d.classoid = l.tableoid and d.objoid = l.oid", []),
    ],
    "datagrip and pgadmin": [
        ("select current_setting('server_version_num')::int/100 as version", [(1500,)]),
        ("select oid::regtype::text, typname from pg_type where typname in ('int8', 'text') order by 2",
         [("bigint", "int8"), ("text", "text")]),
        ("select format_type(atttypid, atttypmod), attname from pg_attribute where attname = 'at'",
         [("timestamp without time zone", "at")]),
        ("select oid::regclass::text from pg_class", [("visits",)]),
        ("select N.xmin as state_number, nspname from pg_catalog.pg_namespace N where nspname = 'public'",
         [(0, "public")]),
        ("select L.transactionid::varchar::bigint from pg_catalog.pg_locks L "
         "order by pg_catalog.age(L.transactionid) desc limit 1", []),
        ("select CASE WHEN usesuper THEN pg_is_wal_replay_paused() ELSE FALSE END from pg_catalog.pg_user",
         [(False,)]),
        ("""select rolname, 'pg_signal_backend' = ANY(ARRAY(WITH RECURSIVE cte AS (SELECT r.oid, r.rolname
            FROM pg_roles r WHERE r.oid = roles.oid UNION ALL SELECT m.roleid, g.rolname FROM cte JOIN pg_auth_members m
            ON m.member = cte.oid JOIN pg_roles g ON g.oid = m.roleid) SELECT rolname FROM cte))
            from pg_catalog.pg_roles as roles where rolname = current_user""", [("ada", False)]),
    ],
    "adbc, r and looker": [
        ("SELECT oid, typname FROM pg_catalog.pg_type WHERE (typreceive != 0 OR typsend != 0) AND typtype != 'r'",
         [(1009, "_text")]),
        ("SELECT substring(version() from 'PostgreSQL ([0-9]+)'), split_part(version(), ' ', 2)", [("15", "15.0")]),
        ("SELECT json_agg(attname ORDER BY attnum) IS NOT NULL FROM pg_attribute", [(True,)]),
        ("SELECT numeric_precision, domain_name FROM information_schema.columns WHERE column_name = 'minutes'",
         [(64, None)]),
        ("SELECT tablename, indexdef FROM pg_indexes", []),
        ("SELECT trigger_name FROM information_schema.triggers", []),
        ("SELECT attname, n_distinct FROM pg_stats WHERE tablename = 'visits'", []),
        ("SELECT relname, seq_scan FROM pg_stat_user_tables", []),
        ("SELECT evtname, evtevent FROM pg_event_trigger", []),
        ("SELECT extract(year from current_date) > 2000", [(True,)]),
    ],
    "poolers and old drivers": [
        ("BEGIN READ ONLY; SAVEPOINT a; ROLLBACK TO SAVEPOINT a; RELEASE SAVEPOINT a; COMMIT", None),
        ("DISCARD ALL", None),
        ("SET NAMES 'UTF8'; SET SCHEMA 'public'; SET CONSTRAINTS ALL IMMEDIATE; SET SESSION TIME ZONE LOCAL", None),
        ("SET datestyle TO ISO, MDY; SET statement_timeout TO DEFAULT; SET ROLE NONE", None),
        ("SHOW server_version_num", [("150000",)]),
        ("SHOW session authorization", [("",)]),
        ("SHOW extra_float_digits", [("1",)]),
        ("SELECT\tset_config('bytea_output', 'hex', false)", [("hex",)]),
        ("SELECT name FROM pg_settings WHERE name = 'lc_collate' AND vartype = 'string'", [("lc_collate",)]),
        ("SELECT nspname FROM pg_namespace ORDER BY 1 FETCH FIRST 1 ROWS ONLY", [("information_schema",)]),
    ],
}  # fmt: skip
"""For each tool, statements with the rows that they find; None where a statement has no rows."""


class Refusing:
    """An asker that fails the test when a catalogue statement is taken for a question."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def read(self, sql: str) -> ReadSelect:
        return read_select(self._catalogue, sql, "user_id")

    async def ask(self, sql: str, budget: object) -> Any:
        raise AssertionError(f"asked: {sql}")

    async def explain(self, sql: str, budget: object) -> Any:
        raise AssertionError(f"explained: {sql}")

    async def cancel(self) -> None: ...


def run(session: PostgresSession, text: str) -> Reply:
    replies = [asyncio.run(session.run(statement)) for statement in split_statements(text)]
    return replies[-1]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue("ada-visits", "ada", {"visits": COLUMNS})


@pytest.fixture
def session(catalogue: Catalogue) -> PostgresSession:
    return PostgresSession(asker=Refusing(catalogue))


@pytest.mark.parametrize("tool", list(STATEMENTS))
def test_tools_find_the_tables_and_columns(session: PostgresSession, tool: str):
    for text, expected in STATEMENTS[tool]:
        reply = run(session, text)
        rows = None if reply.result is None else [tuple(row) for row in reply.result.rows]
        assert rows == expected, text


def test_cursors_go_forward_and_end(session: PostgresSession):
    run(session, "BEGIN")
    declared = 'DECLARE "SQL_CUR0x1" NO SCROLL CURSOR WITH HOLD FOR SELECT attname FROM pg_attribute ORDER BY attnum'
    assert run(session, declared).tag == "DECLARE CURSOR"
    described = asyncio.run(session.describe('FETCH 3 IN "SQL_CUR0x1"'))
    assert described.columns == run(session, 'FETCH 0 IN "SQL_CUR0x1"').result.columns
    assert run(session, 'FETCH 3 IN "SQL_CUR0x1"').result.rows == [("user_id",), ("country",), ("minutes",)]
    assert run(session, 'FETCH NEXT FROM "SQL_CUR0x1"').result.rows == [("at",)]
    assert run(session, 'FETCH FORWARD ALL FROM "SQL_CUR0x1"').result.rows == []
    assert run(session, 'CLOSE "SQL_CUR0x1"').tag == "CLOSE CURSOR"
    for text, code in (
        ('FETCH 1 IN "SQL_CUR0x1"', "34000"),
        ("CLOSE nothing", "34000"),
        ("DECLARE x CURSOR", "42601"),
        ("FETCH BACKWARD 1 FROM x", "0A000"),
    ):
        with pytest.raises(Rejected) as refused:
            run(session, text)
        assert refused.value.code == code
    for number in range(20):
        run(session, f"DECLARE c{number} CURSOR FOR SELECT 1")
    with pytest.raises(Rejected, match="at most 20 cursors"):
        run(session, "DECLARE more CURSOR FOR SELECT 1")
    run(session, "CLOSE ALL")
    assert not session.cursors


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Team, str]]:
    folder = tmp_path_factory.mktemp("tools")
    write_events(folder / "events.parquet")
    port = free_port()
    settings = Settings(ledger=str(folder / "s.db"), data_dir=folder, postgres=f"127.0.0.1:{port}", **QUICK)
    with running(settings) as replica:
        team = gather(replica)
        body = {"name": "visits", "table": "events.parquet", "user": "user_id", "items": ["country", "word"],
                "values": ["minutes"], "filters": ["country", "minutes"], "contributions": 2, "apart": "t"}  # fmt: skip
        made(team.steward.post("/datasets", json=body))
        account = {"kind": "filter", "name": "ada-visits", "analyst": "ada", "dataset": "visits", "delta": 1e-6}
        made(team.steward.post("/accounts", json=account | {"epsilon": 50.0}))
        yield team, f"postgresql://ada:{team.ada_token}@127.0.0.1:{port}/ada-visits"


CHARTS = {
    "metabase": '-- Metabase:: userID: 1 queryHash: 1f\nSELECT "public"."visits"."country" AS "country", '
    'COUNT(DISTINCT "public"."visits"."user_id") AS "count" FROM "public"."visits" '
    'GROUP BY "public"."visits"."country" ORDER BY "public"."visits"."country" ASC',
    "superset": "SELECT country AS country, COUNT(DISTINCT user_id) AS users FROM public.visits GROUP BY country "
    "ORDER BY users DESC LIMIT 1000",
    "tableau": 'SELECT "visits"."country" AS "country", COUNT(DISTINCT "visits"."user_id") AS "ctd:user_id:ok" '
    'FROM "public"."visits" "visits" GROUP BY 1',
    "grafana": "SELECT country AS metric, COUNT(DISTINCT user_id) AS value FROM visits "
    "WHERE minutes BETWEEN 0 AND 60 GROUP BY country ORDER BY 1 LIMIT 50",
    "power bi": 'select "rows"."country" as "country", count(distinct("rows"."user_id")) as "a0" '
    'from "public"."visits" "rows" group by "rows"."country" limit 1000001',
}


@pytest.mark.parametrize("tool", list(CHARTS))
def test_charts_of_tools_are_answered(door: tuple[Team, str], tool: str):
    team, address = door
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET setwise.epsilon = 2")
        found = connection.execute(CHARTS[tool]).fetchall()
        assert sorted(row[0] for row in found) == ["NO", "SE"]
        before = team.ada.get("/accounts/ada-visits").json()["charges"]
        assert connection.execute(CHARTS[tool]).fetchall() == found
        assert team.ada.get("/accounts/ada-visits").json()["charges"] == before


def test_a_cursor_of_a_driver_is_one_charge(door: tuple[Team, str]):
    team, address = door
    before = int(team.ada.get("/accounts/ada-visits").json()["charges"])
    sql = "SELECT word, COUNT(DISTINCT user_id) AS users FROM visits GROUP BY word"
    with psycopg.connect(address) as connection:
        connection.execute("SET setwise.epsilon = 2")
        with connection.cursor("wide") as cursor:
            cursor.itersize = 2
            cursor.execute(sql)
            first = cursor.fetchmany(2)
            rest = cursor.fetchall()
        assert first + rest == connection.execute(sql).fetchall()
    assert int(team.ada.get("/accounts/ada-visits").json()["charges"]) == before + 1
