"""psql, psycopg, SQLAlchemy, pandas and JDBC ask a replica over PostgreSQL's protocol, unchanged."""

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import psycopg
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from setwise.service.settings import Settings
from tests.service.replica import QUICK, running
from tests.service.team import Team, gather, write_events

USERS_BY_COUNTRY = "SELECT country, COUNT(DISTINCT user_id) AS users FROM events GROUP BY country"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Team, int]]:
    """A team on a replica with the door open, and the door's port."""
    folder = tmp_path_factory.mktemp("door")
    write_events(folder / "events.parquet")
    port = free_port()
    settings = Settings(ledger=str(folder / "s.db"), data_dir=folder, postgres=f"127.0.0.1:{port}", **QUICK)
    with running(settings) as replica:
        team = gather(replica)
        body = {
            "name": "visits",
            "table": "events.parquet",
            "user": "user_id",
            "items": ["country"],
            "values": ["minutes"],
            "filters": ["country"],
            "contributions": 2,
        }
        assert team.steward.post("/datasets", json=body).status_code == 201
        account = {"kind": "filter", "name": "ada-visits", "analyst": "ada", "dataset": "visits", "delta": 1e-6}
        assert team.steward.post("/accounts", json=account | {"epsilon": 50.0}).status_code == 201
        yield team, port


def url(door: tuple[Team, int], account: str = "ada-visits", driver: str = "postgresql") -> str:
    team, port = door
    return f"{driver}://ada:{team.ada_token}@127.0.0.1:{port}/{account}"


def charges(team: Team, account: str = "ada-visits") -> int:
    return int(team.ada.get(f"/accounts/{account}").json()["charges"])


SQL = USERS_BY_COUNTRY.replace("events", "visits")


def test_the_same_statement_is_charged_once_and_replayed(door):
    team, _ = door
    before = charges(team)
    with psycopg.connect(url(door), autocommit=True) as connection:
        notices = []
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        first = connection.execute(SQL).fetchall()
        for _ in range(100):
            assert connection.execute(SQL).fetchall() == first
    assert charges(team) == before + 1
    assert sorted(country for country, _ in first) == ["NO", "SE"]
    assert all(isinstance(users, int) and 2000 < users < 3200 for _, users in first)
    assert any(notice.startswith("Whether or not one person") for notice in notices)
    assert any(notice.startswith("Budget: about epsilon") for notice in notices)
    with psycopg.connect(url(door)) as connection:
        assert (
            connection.execute(f"{SQL.replace('visits', chr(34) + 'public' + chr(34) + '.visits')}").fetchall() == first
        )
    assert charges(team) == before + 1


def test_settings_change_the_budget_the_key_and_the_columns(door):
    team, _ = door
    with psycopg.connect(url(door), autocommit=True) as connection:
        before = charges(team)
        connection.execute("SET setwise.epsilon = 0.5")
        connection.execute(SQL)
        connection.execute("SET setwise.key = 'another'")
        first = connection.execute(SQL).fetchall()
        assert connection.execute(SQL).fetchall() == first
        assert charges(team) == before + 2
        connection.execute("SET setwise.intervals = on")
        cursor = connection.execute(SQL)
        assert [column.name for column in cursor.description] == ["country", "users", "users_lower", "users_upper"]
        assert all(low <= users <= high for _, users, low, high in cursor.fetchall())
        assert connection.execute("SHOW setwise.epsilon").fetchone() == ("0.5",)
        with pytest.raises(psycopg.errors.UndefinedObject):
            connection.execute("SET setwise.epsilom = 1")


def test_parameters_and_binary_results(door):
    with psycopg.connect(url(door), autocommit=True) as connection:
        statement = "SELECT COUNT(DISTINCT user_id) AS users FROM visits WHERE country = %s"
        text = connection.execute(statement, ["NO"]).fetchone()
        with connection.cursor(binary=True) as cursor:
            assert cursor.execute(statement, ["NO"]).fetchone() == text
        hostile = connection.execute(statement, ["NO' OR country = 'SE"]).fetchone()
        assert hostile[0] < 200 < text[0], "a parameter stays a value, whatever it holds"


def test_rows_are_refused_with_a_hint_and_cost_nothing(door):
    team, _ = door
    before = charges(team)
    with psycopg.connect(url(door), autocommit=True) as connection:
        for scan in (
            "SELECT * FROM visits LIMIT 1000",
            "SELECT DISTINCT country FROM visits",
            "SELECT user_id FROM visits",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege) as refused:
                connection.execute(scan)
            assert "COUNT(DISTINCT user_id)" in refused.value.diag.message_hint
        empty = connection.execute("SELECT * FROM visits LIMIT 0")
        assert [column.name for column in empty.description] == ["user_id", "country", "minutes"]
        assert empty.fetchall() == []
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute("DROP TABLE visits")
        plan = connection.execute(f"EXPLAIN {SQL}").fetchall()
        assert "epsilon" in plan[0][0]
    assert charges(team) == before


def test_only_the_person_with_the_token_and_the_account_gets_in(door):
    team, port = door
    good = {"host": "127.0.0.1", "port": port, "user": "ada", "password": team.ada_token, "dbname": "ada-visits"}
    for change, code in (
        ({"password": "wrong"}, "28P01"),
        ({"user": "bob"}, "28P01"),
        ({"password": team.tokens["bob"]}, "28P01"),
        ({"dbname": "bob-events"}, "3D000"),
        ({"dbname": "absent"}, "3D000"),
    ):
        with pytest.raises(psycopg.OperationalError) as refused:
            psycopg.connect(**(good | change))
        assert ("password authentication failed" in str(refused.value)) == (code == "28P01")
        assert team.ada_token not in str(refused.value)


def test_sqlalchemy_reflects_and_pandas_reads(door):
    engine = sa.create_engine(url(door, driver="postgresql+psycopg"))
    inspector = sa.inspect(engine)
    assert inspector.get_table_names() == ["visits"]
    assert inspector.get_schema_names() == ["information_schema", "public"]
    columns = {column["name"]: str(column["type"]) for column in inspector.get_columns("visits")}
    assert columns == {"user_id": "BIGINT", "country": "TEXT", "minutes": "BIGINT"}
    metadata = sa.MetaData()
    metadata.reflect(engine)
    visits = metadata.tables["visits"]
    statement = sa.select(visits.c.country, sa.func.count(sa.distinct(visits.c.user_id)).label("users")).group_by(
        visits.c.country
    )
    with engine.connect() as connection:
        found = connection.execute(statement).all()
    assert sorted(row.country for row in found) == ["NO", "SE"]
    frame = pd.read_sql(SQL, engine)
    assert list(frame.columns) == ["country", "users"]
    assert frame["users"].dtype.kind == "i"
    engine.dispose()


@pytest.mark.skipif(shutil.which("psql") is None and not os.environ.get("CI"), reason="psql is not installed")
def test_psql_lists_describes_and_asks(door):
    team, port = door
    command = ["psql", "-h", "127.0.0.1", "-p", str(port), "-U", "ada", "ada-visits", "-At"]
    command += ["-c", "\\dt", "-c", "\\d visits", "-c", "\\l", "-c", "\\dn", "-c", SQL]
    done = subprocess.run(
        command,
        env={**os.environ, "PGPASSWORD": team.ada_token},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "public|visits|table|setwise" in lines
    assert "minutes|bigint|||" in lines
    assert any(line.startswith("NO|") for line in lines)
    assert "ERROR" not in done.stderr


def test_a_revoked_token_asks_no_further_question(door):
    team, port = door
    secret = team.steward.post("/people/ada/tokens", json={"label": "short"}).json()
    address = f"postgresql://ada:{secret['secret']}@127.0.0.1:{port}/ada-visits"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(SQL)
        assert team.steward.delete(f"/people/ada/tokens/{secret['id']}").status_code in (200, 204)
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE country = 'XX'")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(address)


def test_a_changed_table_is_a_new_question(door):
    team, _ = door
    folder = team.replica.service.settings.data_dir
    with psycopg.connect(url(door), autocommit=True) as connection:
        connection.execute(SQL)
        before = charges(team)
        table = pq.read_table(folder / "events.parquet")
        time.sleep(0.01)
        pq.write_table(table, folder / "events.parquet")
        connection.execute(SQL)
        connection.execute(SQL)
    assert charges(team) == before + 1


def test_a_transaction_that_failed_says_so(door):
    with psycopg.connect(url(door)) as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM visits")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_tls_is_spoken_where_a_certificate_is_given(tmp_path):
    write_events(tmp_path / "events.parquet", rows=2000)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    port = free_port()
    settings = Settings(
        ledger=str(tmp_path / "s.db"),
        data_dir=tmp_path,
        postgres=f"127.0.0.1:{port}",
        postgres_certificate=tmp_path / "cert.pem",
        postgres_key=tmp_path / "key.pem",
        **QUICK,
    )
    with running(settings) as replica:
        team = gather(replica)
        with psycopg.connect(
            f"postgresql://ada:{team.ada_token}@127.0.0.1:{port}/ada-total?sslmode=verify-ca",
            sslrootcert=str(tmp_path / "cert.pem"),
        ) as connection:
            assert connection.pgconn.ssl_in_use
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_cancelling_stops_a_question(door, monkeypatch):
    team, _ = door
    runner = team.replica.service.runner
    held, entered = threading.Event(), threading.Event()
    answer = runner._answer

    def slowly(running):
        entered.set()
        while not held.is_set():
            running.timing.raise_if_cancelled()
            time.sleep(0.02)
        return answer(running)

    monkeypatch.setattr(runner, "_answer", slowly)
    with psycopg.connect(url(door), autocommit=True) as connection:
        threading.Thread(target=lambda: entered.wait(30) and connection.cancel_safe()).start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE country = 'cancelled'")
        held.set()


def test_passwords_are_refused_without_tls_from_elsewhere(monkeypatch, door):
    from setwise.service.postgres import server

    monkeypatch.setattr(server, "_address", lambda writer: "192.0.2.7")
    with pytest.raises(psycopg.OperationalError, match="TLS"):
        psycopg.connect(url(door))


JDBC_JAR = Path("/usr/share/java/postgresql.jar")


@pytest.mark.skipif(
    not JDBC_JAR.exists() and not os.environ.get("CI"), reason="Debian's libpostgresql-jdbc-java is missing"
)
def test_jdbc_asks_and_reads_the_catalogue(door):
    import py4j
    import pyspark
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    team, port = door
    jars = [str(JDBC_JAR), *map(str, Path(pyspark.__file__).parent.glob("jars/py4j-*.jar"))]
    assert py4j
    java_port = launch_gateway(classpath=":".join(jars), die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=java_port))
    try:
        gateway.jvm.java.lang.Class.forName("org.postgresql.Driver")
        connection = gateway.jvm.java.sql.DriverManager.getConnection(
            f"jdbc:postgresql://127.0.0.1:{port}/ada-visits", "ada", team.ada_token
        )
        tables = connection.getMetaData().getTables(None, "public", "%", None)
        names = []
        while tables.next():
            names.append(tables.getString("TABLE_NAME"))
        assert names == ["visits"]
        columns = connection.getMetaData().getColumns(None, "public", "visits", "%")
        found = []
        while columns.next():
            found.append((columns.getString("COLUMN_NAME"), columns.getString("TYPE_NAME")))
        assert found == [("user_id", "int8"), ("country", "text"), ("minutes", "int8")]
        prepared = connection.prepareStatement("SELECT COUNT(DISTINCT user_id) AS users FROM visits WHERE country = ?")
        prepared.setString(1, "NO")
        values = set()
        for _ in range(8):  # the driver turns to a named statement and binary results after five
            result = prepared.executeQuery()
            assert result.next()
            values.add(result.getLong("users"))
        assert len(values) == 1
        connection.close()
    finally:
        gateway.shutdown()
