"""What a PostgreSQL session keeps: settings over transactions, types of parameters, columns of prepared statements."""

import asyncio
import struct
import time
from typing import Any

import psycopg
import pytest

from setwise.service.postgres import messages
from setwise.service.postgres.replies import ReadSelect, Rejected
from setwise.service.postgres.session import PostgresSession
from setwise.service.postgres.statements import split_statements
from tests.service.team import Team
from tests.service.test_postgres_door import SQL, charges, describe, signed_in, until_ready, url


class NobodyAsks:
    """An asker that fails the test when a statement about settings is passed on."""

    async def read(self, sql: str) -> ReadSelect:
        raise AssertionError(f"read: {sql}")

    async def ask(self, sql: str, budget: object) -> Any:
        raise AssertionError(f"asked: {sql}")

    async def explain(self, sql: str, budget: object) -> Any:
        raise AssertionError(f"explained: {sql}")

    async def cancel(self) -> None: ...


def epsilon_after(text: str) -> str:
    """Run statements in a new session, and return the value of setwise.epsilon."""
    session = PostgresSession(asker=NobodyAsks())
    for statement in split_statements(text):
        asyncio.run(session.run(statement))
    return str(session.settings.get("setwise.epsilon"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("SET setwise.epsilon = 2", "2"),
        ("SET setwise.epsilon = 2; RESET setwise.epsilon", ""),
        ("BEGIN; SET setwise.epsilon = 2; COMMIT", "2"),
        ("BEGIN; SET setwise.epsilon = 2; ROLLBACK", ""),
        ("SET setwise.epsilon = 1; BEGIN; SET setwise.epsilon = 2; ABORT", "1"),
        ("BEGIN; SET LOCAL setwise.epsilon = 2", "2"),
        ("BEGIN; SET LOCAL setwise.epsilon = 2; COMMIT", ""),
        ("SET setwise.epsilon = 1; BEGIN; SET LOCAL setwise.epsilon = 2; END", "1"),
        ("BEGIN; SET LOCAL setwise.epsilon = 2; SET setwise.epsilon = 3", "3"),
        ("SET LOCAL setwise.epsilon = 2", ""),
        ("BEGIN; SET setwise.epsilon = 1; SAVEPOINT a; SET setwise.epsilon = 2; ROLLBACK TO SAVEPOINT a", "1"),
        ("BEGIN; SAVEPOINT a; SET LOCAL setwise.epsilon = 2; ROLLBACK TO a; COMMIT", ""),
        ("BEGIN; SAVEPOINT a; SAVEPOINT b; SET setwise.epsilon = 2; ROLLBACK TO b; ROLLBACK TO a; COMMIT", ""),
        ("BEGIN; SAVEPOINT a; SET setwise.epsilon = 2; RELEASE a; COMMIT", "2"),
        ("ROLLBACK TO SAVEPOINT a; SET setwise.epsilon = 2", "2"),
        ("SELECT set_config('setwise.epsilon', '2', false)", "2"),
        ("SELECT pg_catalog.set_config('SETWISE.epsilon', '2', 'f') AS x", "2"),
        ("BEGIN; SELECT set_config('setwise.epsilon', '2', true); COMMIT", ""),
        ("SELECT set_config('setwise.epsilon', '2', true)", ""),
        ("SET setwise.epsilon = 2; SELECT set_config('setwise.epsilon', NULL, false)", ""),
        ("SET setwise.epsilon = 2; DISCARD ALL", ""),
        ("SET setwise.epsilon = 1; BEGIN; SET LOCAL setwise.epsilon = DEFAULT", ""),
        ("SET setwise.epsilon = 1; BEGIN; SET LOCAL setwise.epsilon TO DEFAULT; COMMIT", "1"),
        ("SET setwise.epsilon = 1; BEGIN; SELECT set_config('setwise.epsilon', NULL, true)", ""),
        ("SET setwise.epsilon = 1; BEGIN; SELECT set_config('setwise.epsilon', NULL, true); COMMIT", "1"),
        ("BEGIN; SET LOCAL setwise.epsilon = 2; SET LOCAL setwise.epsilon = DEFAULT", ""),
        ("BEGIN; SET setwise.epsilon = 2; SET setwise.epsilon = DEFAULT; COMMIT", ""),
    ],
)
def test_transactions_keep_and_restore_settings(text: str, value: str):
    assert epsilon_after(text) == value


def test_functions_read_and_set_the_settings_of_the_session():
    session = PostgresSession(asker=NobodyAsks())
    reply = asyncio.run(session.run("SELECT set_config('setwise.epsilon', '0.5', false) AS was"))
    assert reply.result is not None
    assert ([column.name for column in reply.result.columns], reply.result.rows) == (["was"], [("0.5",)])
    reply = asyncio.run(session.run("SELECT current_setting('setwise.epsilon', true)"))
    assert reply.result is not None
    assert reply.result.rows == [("0.5",)]
    for text, code in (
        ("SELECT set_config('setwise.epsilom', '1', false)", "42704"),
        ("SELECT 1, set_config('setwise.epsilon', '1', false)", "0A000"),
        ("SELECT set_config('setwise.' || 'epsilon', '1', false)", "0A000"),
        ("SELECT set_config(NULL, '1', false)", "22004"),
    ):
        with pytest.raises(Rejected) as refused:
            asyncio.run(session.run(text))
        assert refused.value.code == code


def test_a_failed_transaction_that_is_committed_restores_settings(door: tuple[Team, int]):
    with psycopg.connect(url(door), autocommit=True) as connection:
        run = connection.pgconn.exec_
        run(b"BEGIN; SET setwise.epsilon = 9")
        run(b"SELECT broken(")
        run(b"COMMIT")
        assert connection.execute("SHOW setwise.epsilon").fetchone() == ("",)
        run(b"SET setwise.epsilon = 9; SELECT broken(")
        assert connection.execute("SHOW setwise.epsilon").fetchone() == ("",), "one query is one transaction"
        shown = run(b"SET LOCAL setwise.epsilon = 9; SHOW setwise.epsilon")
        assert shown.get_value(0, 0) == b"9"
        assert connection.execute("SHOW setwise.epsilon").fetchone() == ("",)


def test_notices_are_not_sent_to_a_client_that_wants_none(door: tuple[Team, int]):
    with psycopg.connect(url(door), autocommit=True) as connection:
        notices: list[Any] = []
        connection.add_notice_handler(notices.append)
        connection.execute("SET client_min_messages = warning")
        connection.execute(SQL)
        assert notices == []
        connection.execute("RESET client_min_messages")
        connection.execute(SQL)
        assert notices


@pytest.mark.parametrize(
    ("where", "values"),
    [("minutes > $1", [b"30"]), ("minutes BETWEEN $1 AND $2 AND country = $3", [b"10", b"40", b"NO"])],
)
def test_parameters_without_a_type_have_that_of_their_column(door: tuple[Team, int], where: str, values: list[bytes]):
    """As drivers of JavaScript send them: as text, without Describe."""
    plain = where
    for number, value in enumerate(values, start=1):
        literal = value.decode() if value.isdigit() else f"'{value.decode()}'"
        plain = plain.replace(f"${number}", literal)
    with psycopg.connect(url(door), autocommit=True) as connection:
        sql = "SELECT COUNT(DISTINCT user_id) AS users FROM visits WHERE {}"
        untyped = connection.pgconn.exec_params(sql.format(where).encode(), values)
        assert untyped.error_message == b""
        before = charges(door[0])
        assert connection.execute(sql.format(plain)).fetchone() == (int(untyped.get_value(0, 0) or b"-1"),)
        assert charges(door[0]) == before, "both are the same statement"


def test_limits_and_thresholds_may_be_parameters(door: tuple[Team, int]):
    with psycopg.connect(url(door), autocommit=True) as connection:
        sql = b"SELECT country, COUNT(*) AS n FROM visits GROUP BY country HAVING COUNT(*) > $1 ORDER BY n LIMIT $2"
        found = connection.pgconn.exec_params(sql, [b"10", b"1"])
        assert (found.error_message, found.ntuples) == (b"", 1)


BIND_AND_EXECUTE = b"B" + struct.pack("!I", 12) + bytes(8) + b"E" + struct.pack("!I", 9) + bytes(5) + b"S\0\0\0\4"
"""The unnamed statement, without parameters, run without asking for its columns, as JDBC does after five executions."""


def test_a_prepared_statement_does_not_change_its_columns_unnoticed(door: tuple[Team, int]):
    """A driver that has described a statement reads later rows by the types that it was told then."""
    team, port = door
    with signed_in(team, port, "ada-visits") as raw:
        describe(raw, SQL)
        raw.sendall(BIND_AND_EXECUTE)
        assert b"SELECT 2" in until_ready(raw)
        before = charges(team)
        intervals = b"SET setwise.intervals = on\0"
        raw.sendall(b"Q" + struct.pack("!I", len(intervals) + 4) + intervals)
        until_ready(raw)
        raw.sendall(BIND_AND_EXECUTE)
        reply = until_ready(raw)
        assert b"C0A000\0Mcached plan must not change result type\0" in reply
        assert b"SELECT 2" not in reply
        describe(raw, SQL)
        raw.sendall(BIND_AND_EXECUTE)
        assert b"SELECT 2" in until_ready(raw)
    assert charges(team) == before


def test_a_column_without_a_name_is_called_as_in_postgresql(door: tuple[Team, int]):
    sql = "SELECT country, COUNT(DISTINCT user_id), AVG(minutes) FROM visits GROUP BY country"
    columns = [messages.Field("country", 25, -1), messages.Field("count", 20, 8), messages.Field("avg", 701, 8)]
    with signed_in(*door, "ada-visits") as raw:
        assert messages.row_description(columns) in describe(raw, sql)
    with psycopg.connect(url(door), autocommit=True) as connection:
        for statement in (sql, f"{sql} LIMIT 0"):
            told = connection.execute(statement).description or ()
            assert [column.name for column in told] == ["country", "count", "avg"]


def test_a_statement_stays_the_same_question_for_the_whole_time(door: tuple[Team, int]):
    """Also over the end of a period, by whose number the key is made."""
    team, _ = door
    budget = "/accounts/ada-visits/question-budget"
    assert team.steward.put(budget, json={"epsilon": 0.1, "delta": 1e-9, "fresh_hours": 6}).status_code == 200
    statement = "SELECT COUNT(DISTINCT user_id) AS lasting FROM visits"
    hours = 3600.0
    end_of_period = (time.time() // (6 * hours) + 1) * 6 * hours - time.time()
    with psycopg.connect(url(door), autocommit=True) as connection:
        before = charges(team)
        try:
            for after_the_end, paid in ((-0.1, 1), (0.1, 1), (5.8, 1), (6.0, 2), (11.8, 2), (12.1, 3)):
                team.replica.clock.ahead = end_of_period + after_the_end * hours
                connection.execute(statement)
                assert charges(team) == before + paid, after_the_end
        finally:
            team.replica.clock.ahead = 0.0
            assert team.steward.put(budget, json={"epsilon": 0.1}).status_code == 200


def test_arrays_of_the_catalogue_are_sent_in_both_forms(door: tuple[Team, int]):
    statement = "SELECT ARRAY['a', NULL, 'b,{}'], current_schemas(true), '{}'::text[]"
    with psycopg.connect(url(door), autocommit=True) as connection:
        expected = (["a", None, "b,{}"], ["pg_catalog", "public"], [])
        assert connection.execute(statement).fetchone() == expected
        assert connection.execute(statement, binary=True).fetchone() == expected
