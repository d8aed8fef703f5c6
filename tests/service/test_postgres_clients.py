"""psql, SQLAlchemy, pandas and JDBC cancel questions and connect again; JDBC reads the catalogue."""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg
import pytest
import sqlalchemy as sa

from setwise.service.settings import Settings
from tests.service.replica import QUICK, free_port, running
from tests.service.team import Team, gather, write_events
from tests.service.test_postgres_door import url


def test_a_connection_that_was_lost_is_made_anew(tmp_path):
    """The replica is stopped and started again on the same ports; clients notice and connect again."""
    write_events(tmp_path / "events.parquet", rows=2000)
    port = free_port()
    settings = Settings(ledger=str(tmp_path / "s.db"), data_dir=tmp_path, postgres=f"127.0.0.1:{port}", **QUICK)
    statement = "SELECT COUNT(DISTINCT user_id) AS users FROM events"
    with running(settings) as replica:
        team = gather(replica)
        address = f"postgresql://ada:{team.ada_token}@127.0.0.1:{port}/ada-total"
        engine = sa.create_engine(address.replace("postgresql:", "postgresql+psycopg:"), pool_pre_ping=True)
        kept = psycopg.connect(address, autocommit=True)
        first = kept.execute(statement).fetchall()
        assert pd.read_sql(statement, engine).iloc[0, 0] == first[0][0]
    with pytest.raises(psycopg.OperationalError):
        kept.execute(statement)
    with running(settings):
        assert pd.read_sql(statement, engine).iloc[0, 0] == first[0][0], "it finds the answer"
        with engine.connect() as connection:
            assert connection.execute(sa.text(statement)).all() == first
        with psycopg.connect(address) as again:
            assert again.execute(statement).fetchall() == first
        engine.dispose()


@pytest.fixture
def held(door, monkeypatch) -> Iterator[threading.Event]:
    """Questions wait until they are cancelled; the event says that one has begun."""
    team, _ = door
    runner = team.replica.service.runner
    entered, ended = threading.Event(), threading.Event()
    answer = runner._answer

    def slowly(running):
        entered.set()
        while not ended.wait(0.02):
            running.timing.raise_if_cancelled()
        return answer(running)

    monkeypatch.setattr(runner, "_answer", slowly)
    yield entered
    ended.set()


@pytest.mark.skipif(shutil.which("psql") is None and not os.environ.get("CI"), reason="psql is not installed")
def test_psql_cancels_a_question_and_connects_again(door, held):
    team, port = door
    command = ["psql", "-h", "127.0.0.1", "-p", str(port), "-U", "ada", "ada-visits", "-At"]
    with subprocess.Popen(
        command,
        env={**os.environ, "PGPASSWORD": team.ada_token},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as psql:
        assert psql.stdin is not None
        psql.stdin.write("SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE country = 'psql';\n")
        psql.stdin.flush()
        assert held.wait(30)
        psql.send_signal(signal.SIGINT)
        _, error = psql.communicate(timeout=60)
    assert "canceling statement due to user request" in error
    again = subprocess.run(
        [*command, "-c", "SELECT 'again'", "-c", "\\c ada-visits", "-c", "SELECT 'and again'"],
        env={**os.environ, "PGPASSWORD": team.ada_token}, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert [again.stdout.splitlines()[place] for place in (0, -1)] == ["again", "and again"]


def test_sqlalchemy_cancels_a_question(door, held):
    engine = sa.create_engine(url(door, driver="postgresql+psycopg"))
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        threading.Thread(target=lambda: held.wait(30) and driver.cancel_safe()).start()
        with pytest.raises(sa.exc.OperationalError, match="canceling statement"):
            connection.execute(sa.text("SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE country = 'sqlalchemy'"))
        connection.rollback()
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
    engine.dispose()


JDBC_JAR = Path("/usr/share/java/postgresql.jar")


needs_jdbc = pytest.mark.skipif(
    not JDBC_JAR.exists() and not os.environ.get("CI"), reason="Debian's libpostgresql-jdbc-java is missing"
)


@contextlib.contextmanager
def java(door: tuple[Team, int]) -> Iterator[Callable[[], Any]]:
    """Start a Java machine with the JDBC driver, and yield a function that connects as Ada."""
    import pyspark
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    team, port = door
    jars = [str(JDBC_JAR), *map(str, Path(pyspark.__file__).parent.glob("jars/py4j-*.jar"))]
    java_port = launch_gateway(classpath=":".join(jars), die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=java_port))
    address = f"jdbc:postgresql://127.0.0.1:{port}/ada-visits"
    try:
        gateway.jvm.java.lang.Class.forName("org.postgresql.Driver")
        yield lambda: gateway.jvm.java.sql.DriverManager.getConnection(address, "ada", team.ada_token)
    finally:
        gateway.shutdown()


@needs_jdbc
def test_jdbc_asks_and_reads_the_catalogue(door):
    with java(door) as connect:
        connection = connect()
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
        metadata = connection.getMetaData()
        for listed in (
            metadata.getPrimaryKeys(None, "public", "visits"),
            metadata.getImportedKeys(None, "public", "visits"),
            metadata.getIndexInfo(None, "public", "visits", False, True),
            metadata.getFunctions(None, "public", "%"),
        ):
            assert not listed.next()
        assert metadata.getSchemas().next()
        assert metadata.getTypeInfo().next()
        prepared = connection.prepareStatement("SELECT COUNT(DISTINCT user_id) AS users FROM visits WHERE country = ?")
        prepared.setString(1, "NO")
        values = set()
        for _ in range(8):  # the driver turns to a named statement and binary results after five
            result = prepared.executeQuery()
            assert result.next()
            values.add(result.getLong("users"))
        assert len(values) == 1
        connection.close()


@needs_jdbc
def test_jdbc_cancels_and_connects_again(door, held):
    with java(door) as connect:
        connection = connect()
        statement = connection.createStatement()
        threading.Thread(target=lambda: held.wait(30) and statement.cancel()).start()
        with pytest.raises(Exception, match="canceling statement due to user request"):
            statement.executeQuery("SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE country = 'jdbc'")
        assert connection.isValid(10)
        connection.close()
        again = connect()
        answered = again.createStatement().executeQuery("SELECT 'again'")
        assert answered.next()
        assert answered.getString(1) == "again"
        again.close()
