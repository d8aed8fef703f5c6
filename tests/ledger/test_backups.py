"""Backups rehearsed: copies by the databases' own tools, and an export of many entries in linear time."""

import io
import sqlite3
import subprocess
import time
from contextlib import closing

import psycopg
import pytest
from benchmarks.ledger_filling import fill_sqlite

from setwise.ledger.ledger import Ledger
from tests import sizes
from tests.ledger.test_accounts import uses

COUNTS = sizes.RESTORED
KEY = b"kept outside the database"


def exported(folder, count):
    """Return the export of an account with many entries."""
    url = str(folder / f"{count}.db")
    with Ledger.open(url) as ledger:
        ledger.open_setwise("ada", [f"pure:0.1x{2 * count}"], delta=1e-6)
    fill_sqlite(url, "ada", count)
    stream = io.StringIO()
    with Ledger.open(url) as ledger:
        ledger.export(stream)
    return stream.getvalue()


def processor_time(server=None):
    """Return the processor seconds of this process and of a database server; other load does not change them much."""
    return time.process_time() + (server.processor_time() if server else 0.0)


def test_restoring_takes_linear_time(tmp_path, request):
    """Four times the entries take about four times the processor time, not sixteen."""
    texts = {count: exported(tmp_path, count) for count in COUNTS}
    for store in ("sqlite", "postgresql"):
        took = {}
        server = request.getfixturevalue("postgresql_server") if store == "postgresql" else None
        for count, text in texts.items():
            url = server.schema() if server else str(tmp_path / f"{count}-restored.db")
            with Ledger.open(url) as ledger:
                start = processor_time(server)
                assert ledger.restore(io.StringIO(text)) == count
                took[count] = processor_time(server) - start
                assert not ledger.verify().faults
        assert took[COUNTS[1]] < 2.5 * COUNTS[1] / COUNTS[0] * took[COUNTS[0]] + 1.0, store


def test_verifying_takes_no_longer_without_statistics(tmp_path, postgresql_server):
    """As after loading a dump: PostgreSQL then knows nothing of its tables when it plans a query."""
    with postgresql_server.database() as url:
        with Ledger.open(url) as ledger:
            ledger.restore(io.StringIO(exported(tmp_path, 4000)))
        known = min(verifying_took(url, postgresql_server) for _ in range(2))
        with psycopg.connect(url, autocommit=True) as superuser:
            superuser.execute("ALTER TABLE ledger_entries SET (autovacuum_enabled = off)")
            superuser.execute("DELETE FROM pg_statistic")
            superuser.execute("UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE relname LIKE 'ledger%'")
        unknown = min(verifying_took(url, postgresql_server) for _ in range(2))
        assert unknown < 2 * known + 0.5  # a join that compares all pairs of entries takes ten times as long


def verifying_took(url, server):
    with Ledger.open(url) as ledger:
        start = processor_time(server)
        assert not ledger.verify().faults
        return processor_time(server) - start


def test_a_copy_of_a_sqlite_ledger_in_use_is_whole(sqlite_ledger, tmp_path, clock):
    sqlite_ledger.open_setwise("ada", ["pure:0.1x9"], delta=1e-6)
    account = sqlite_ledger.account("ada")
    account.charge(uses("pure:0.1"), key="1", request="q")
    sqlite_ledger.sign(KEY)
    with closing(sqlite3.connect(tmp_path / "plain.db")) as source, closing(sqlite3.connect(tmp_path / "copy")) as copy:
        source.backup(copy)
    anchor = sqlite_ledger.verify().anchor
    with Ledger.open(str(tmp_path / "copy"), clock=clock) as ledger:
        assert not ledger.verify(since=anchor, key=KEY).faults
        ledger.account("ada").charge(uses("pure:0.1"), key="2", request="q")
    account.charge(uses("pure:0.1"), key="3", request="q")
    later = sqlite_ledger.verify().anchor
    with Ledger.inspect(str(tmp_path / "copy"), clock=clock) as ledger:
        assert ledger.verify(since=later).faults  # the copy is older than what was charged since


def test_a_dump_of_a_postgresql_ledger_is_whole(postgresql_server, clock):
    source = postgresql_server.schema()
    with Ledger.open(source, clock=clock) as ledger:
        ledger.open_setwise("ada", ["pure:0.1x9"], delta=1e-6)
        ledger.account("ada").charge(uses("pure:0.1"), key="1", request="q")
        anchor = ledger.verify().anchor
    where = ["-h", "127.0.0.1", "-p", str(postgresql_server.port), "-U", "postgres"]
    dump = run_program(postgresql_server, "pg_dump", *where, "-n", source.rpartition("%3D")[2], "postgres")
    run_program(postgresql_server, "createdb", *where, "recovered")
    run_program(postgresql_server, "psql", *where, "-q", "-v", "ON_ERROR_STOP=1", "-d", "recovered", text=dump)
    with Ledger.open(source.replace("/postgres?", "/recovered?"), clock=clock) as ledger:
        assert not ledger.verify(since=anchor).faults
        ledger.account("ada").charge(uses("pure:0.1"), key="2", request="q")
        assert not ledger.verify().faults


def run_program(server, name, *words, text=None):
    program = server._programs / name
    if not program.exists():
        pytest.skip(f"{name} is not installed")
    return subprocess.run([program, *words], input=text, capture_output=True, text=True, check=True).stdout
