"""psql, psycopg, SQLAlchemy, pandas and JDBC ask a replica over PostgreSQL's protocol, unchanged."""

import datetime
import os
import shutil
import socket
import struct
import subprocess
import threading
import time

import pandas as pd
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from setwise.service.postgres import messages
from setwise.service.settings import Settings
from tests.service.replica import QUICK, free_port, running
from tests.service.team import EVENTS, Registered, Team, gather, write_events

USERS_BY_COUNTRY = "SELECT country, COUNT(DISTINCT user_id) AS users FROM events GROUP BY country"


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


def test_public_tables_are_listed_and_joined(door):
    team, _ = door
    folder = team.replica.service.settings.data_dir
    (folder / "countries.csv").write_text("code,region\nNO,west\nSE,east\n")
    body = {"name": "located", "table": "events.parquet", "user": "user_id", "items": ["country"], "contributions": 2,
            "public": {"countries": "countries.csv"}, "apart": "the same events with regions"}  # fmt: skip
    assert team.steward.post("/datasets", json=body).status_code == 201
    account = {"kind": "filter", "name": "ada-located", "analyst": "ada", "dataset": "located", "delta": 1e-6}
    assert team.steward.post("/accounts", json=account | {"epsilon": 50.0}).status_code == 201
    with psycopg.connect(url(door, "ada-located"), autocommit=True) as connection:
        connection.execute("SET setwise.epsilon = 5")
        listed = "SELECT table_name, column_name FROM information_schema.columns ORDER BY table_name, ordinal_position"
        assert connection.execute(listed).fetchall() == [
            ("countries", "code"), ("countries", "region"), ("located", "user_id"), ("located", "country"),
        ]  # fmt: skip
        joined = "FROM located JOIN countries c ON located.country = c.code GROUP BY c.region"
        found = connection.execute(f"SELECT c.region, COUNT(DISTINCT user_id) AS users {joined}").fetchall()
        assert sorted(region for region, _ in found) == ["east", "west"]


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
        ask_for_tls = struct.pack("!II", 8, 80877103)
        begin = struct.pack("!I", 196608) + b"user\0mallory\0\0"
        with socket.create_connection(("127.0.0.1", port)) as injected:
            injected.sendall(ask_for_tls + struct.pack("!I", len(begin) + 4) + begin)
            reply = injected.recv(1000)
        assert reply[:1] == b"E", "bytes in clear text would count as sent inside TLS"
        assert b"in clear text after the request for TLS" in reply


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


def test_the_steward_sets_what_a_question_costs_and_when_it_is_new(door):
    team, _ = door
    address = "/accounts/ada-visits/question-budget"
    statement = "SELECT COUNT(DISTINCT user_id) AS users FROM visits WHERE country = 'NO'"
    body = {"epsilon": 0.25, "delta": 1e-9, "fresh_hours": 6.0}
    assert team.steward.put(address, json=body).status_code == 200
    try:
        with psycopg.connect(url(door), autocommit=True) as connection:
            plan = connection.execute(f"EXPLAIN {statement}").fetchall()
            assert plan[0][0].startswith("cost: epsilon 0.25 ")
            before = charges(team)
            first = connection.execute(statement).fetchall()
            assert connection.execute(statement).fetchall() == first
            assert charges(team) == before + 1
            team.replica.clock.ahead = 6.1 * 3600.0
            connection.execute(statement)
            connection.execute(statement)
            assert charges(team) == before + 2
            clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.125)"
            connection.execute(statement.replace("SELECT", clause))
            assert charges(team) == before + 3
    finally:
        team.replica.clock.ahead = 0.0
        assert team.steward.put(address, json={"epsilon": 0.1}).status_code == 200


def test_a_parameter_with_a_backslash_stays_a_value(door):
    """In questions a backslash escapes a quote; PostgreSQL's texts have no escapes."""
    statement = "SELECT COUNT(DISTINCT user_id) AS users FROM visits WHERE country = %s OR country = %s"
    with psycopg.connect(url(door), autocommit=True) as connection:
        for hostile in (["\\", " OR country = 'NO' -- "], ["\\' OR country = 'NO' -- ", "x"], ["a\\'b\\\\'", "\\\\"]):
            assert connection.execute(statement, hostile).fetchone()[0] < 200
        assert connection.execute(statement, ["NO", "\\"]).fetchone()[0] > 2000


def test_dates_times_booleans_and_numbers_in_both_forms(tmp_path):
    """Answers hold them as texts; a client gets them as values of the types that it was told, also in binary form."""
    rows = 3000
    moment = datetime.datetime(2026, 3, 1, 13, 30)
    table = {
        "user_id": list(range(rows)),
        "day": [moment.date()] * rows,
        "at": [moment] * rows,
        "paid": [True] * rows,
        "n": [7] * rows,
    }
    pq.write_table(pa.table(table), tmp_path / "sales.parquet")
    port = free_port()
    settings = Settings(ledger=str(tmp_path / "s.db"), data_dir=tmp_path, postgres=f"127.0.0.1:{port}", **QUICK)
    groups = {"day": moment.date(), "DATE_TRUNC('month', at)": datetime.datetime(2026, 3, 1), "paid": True, "n": 7}
    body = {"name": "sales", "table": "sales.parquet", "user": "user_id", "items": ["day", "at", "paid", "n"],
            "values": ["n"], "contributions": 1}  # fmt: skip
    with running(settings) as replica:
        team = gather(replica, Registered(body=body, uses=EVENTS.uses, total=80.0))
        address = f"postgresql://ada:{team.ada_token}@127.0.0.1:{port}/ada-total"
        with psycopg.connect(address, autocommit=True) as connection, connection.cursor(binary=True) as binary:
            connection.execute("SET setwise.epsilon = 5")
            connection.execute("SET setwise.delta = 1e-8")
            for group, value in groups.items():
                statement = (
                    f"SELECT {group} AS label, COUNT(DISTINCT user_id) AS users, AVG(n) AS mean FROM sales GROUP BY 1"
                )
                [(label, users, mean)] = connection.execute(statement).fetchall()
                assert label == value
                assert isinstance(label, type(value))
                assert abs(users - rows) < 100
                assert isinstance(mean, float)
                assert binary.execute(statement).fetchall() == [(label, users, mean)]


def test_statements_are_recognised_however_they_are_written(door):
    with psycopg.connect(url(door), autocommit=True) as connection:
        for text in ("SELECT\t1", "select(1)", "(SELECT 1)", "/* a */ -- b\nSELECT 1 ;", "VALUES(1)"):
            assert connection.execute(text).fetchone() == (1,), text
        assert connection.execute("SELECT current_date").fetchone()[0].year >= 2020


def test_prepared_statements_are_forgotten_when_the_driver_says_so(door):
    """A driver that prepares many statements one after another is never refused for keeping too many."""
    with psycopg.connect(url(door), autocommit=True) as connection:
        connection.prepare_threshold, connection.prepared_max = 0, 5
        for number in range(520):
            connection.execute(f"/* {number} */ SHOW setwise.epsilon")
        connection.execute("DISCARD ALL")
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            connection.execute("DEALLOCATE nothing")


def test_settings_are_told_as_postgresql_tells_them(door):
    with psycopg.connect(url(door), autocommit=True) as connection:
        connection.execute("SET application_name = 'a dashboard'")
        assert connection.info.parameter_status("application_name") == "a dashboard"
        connection.execute("SET NAMES 'UTF8'")
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="UTF8"):
            connection.execute("SET client_encoding = 'LATIN1'")
        assert connection.execute("SHOW server_version_num").fetchone() == ("150000",)
        assert ("timezone", "UTC", "") in connection.execute("SHOW ALL").fetchall()
        connection.execute("BEGIN")
        connection.execute("SAVEPOINT a")
        with pytest.raises(psycopg.errors.UndefinedObject):
            connection.execute("SHOW nothing")
        connection.execute("ROLLBACK TO SAVEPOINT a")
        assert connection.execute("SELECT 1").fetchone() == (1,)
        connection.execute("COMMIT")


def test_later_versions_of_the_protocol_are_told_that_this_is_3_0(door):
    _, port = door
    body = struct.pack("!i", 196610) + b"user\0ada\0database\0ada-visits\0_pq_.new\0on\0\0"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
        raw.sendall(struct.pack("!I", len(body) + 4) + body)
        expected = b"v" + struct.pack("!Iii", 21, 196608, 1) + b"_pq_.new\0R"
        told = b""
        while len(told) < len(expected):
            told += raw.recv(1000)
    assert told.startswith(expected)


def test_columns_and_parameters_are_described_before_a_statement_runs(door):
    """Drivers that prepare every statement, such as asyncpg, Npgsql and pgx, ask for both and charge nothing by it."""
    team, port = door
    before = charges(team)
    columns = [messages.Field("country", 25, -1), messages.Field("users", 20, 8), messages.Field("mean", 701, 8)]
    described = messages.parameter_description([25, 20]) + messages.row_description(columns)
    with signed_in(team, port, "ada-visits") as raw:
        for clause in ("", "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) "):
            statement = f"SELECT {clause}country, COUNT(DISTINCT user_id) AS users, AVG(minutes) AS mean FROM visits"
            told = describe(raw, f"{statement} WHERE country <> $1 AND minutes < $2 GROUP BY country")
            assert described in told, told
        assert b"not known before it runs" in describe(raw, "SELECT COUNT(*) AS `rows` FROM visits")
    assert charges(team) == before


def signed_in(team: Team, port: int, account: str = "ada-total") -> socket.socket:
    """Return a raw connection after its sign-in."""
    raw = socket.create_connection(("127.0.0.1", port), timeout=30)
    body = bytes.fromhex("00030000") + f"user\0ada\0database\0{account}\0\0".encode()
    raw.sendall(struct.pack("!I", len(body) + 4) + body)
    password = team.ada_token.encode() + b"\0"
    raw.sendall(b"p" + struct.pack("!I", len(password) + 4) + password)
    until_ready(raw)
    return raw


def until_ready(raw: socket.socket) -> bytes:
    """Return the bytes that arrive until the server is ready for the next query."""
    received = b""
    while not received.endswith(b"Z\0\0\0\5I"):
        taken = raw.recv(65536)
        assert taken, received
        received += taken
    return received


def describe(raw: socket.socket, statement: str) -> bytes:
    """Prepare a statement, ask for its parameters and columns, and return what the server says."""
    body = b"\0" + statement.encode() + b"\0\0\0"
    raw.sendall(b"P" + struct.pack("!I", len(body) + 4) + body + b"D\0\0\0\6S\0" + b"S\0\0\0\4")
    return until_ready(raw)


def test_an_account_on_no_data_set_is_refused_in_a_clear_sentence(door):
    team, _ = door
    team.replica.service.ledger.open_filter("ada-unbound", epsilon=1.0, delta=1e-6, analyst="ada")
    with pytest.raises(psycopg.OperationalError, match="the account 'ada-unbound' is not on a dataset"):
        psycopg.connect(url(door, "ada-unbound"))


def test_a_defect_is_logged_by_its_kind_and_place_alone(door, monkeypatch, caplog):
    team, _ = door
    monkeypatch.setattr(
        team.replica.service.engines, "schema", lambda _: (_ for _ in ()).throw(RuntimeError("count of Ada: 4711"))
    )
    with pytest.raises(psycopg.OperationalError, match="the service failed"):
        psycopg.connect(url(door))
    lines = [record for record in caplog.records if record.name.startswith("setwise")]
    assert any("unexpected RuntimeError in" in record.getMessage() for record in lines)
    assert "4711" not in caplog.text
