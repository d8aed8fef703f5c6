"""How long every way to keep and bring back a ledger takes, on both stores.

    python benchmarks/backups.py [--entries 100000]     a table for people
    python benchmarks/backups.py --json                 one object of seconds, by step

Each copy is verified from its first entry to its last before its time counts. PostgreSQL is started here, on loopback,
with its default settings.
"""

import argparse
import io
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from setwise.ledger.ledger import Ledger

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.servers.postgresql import PostgresqlServer, running_server

from ledger_filling import fill_sqlite

ACCOUNT = "ada"


def rehearse(entries: int, folder: Path, server: PostgresqlServer) -> dict[str, float]:
    took: dict[str, float] = {}

    def timed(step: str, start: float) -> None:
        took[step] = time.perf_counter() - start
        print(f"{step:38}{took[step]:8.1f} s", file=sys.stderr)

    url = str(folder / "ledger.db")
    with Ledger.open(url) as ledger:
        ledger.open_setwise(ACCOUNT, [f"pure:0.1x{2 * entries}"], delta=1e-6)
    fill_sqlite(url, ACCOUNT, entries)

    start = time.perf_counter()
    check(url, entries)
    timed("sqlite_verify", start)

    start = time.perf_counter()
    with closing(sqlite3.connect(url)) as source, closing(sqlite3.connect(folder / "copy.db")) as copy:
        source.backup(copy)
    timed("sqlite_backup", start)
    check(str(folder / "copy.db"), entries)

    start = time.perf_counter()
    stream = io.StringIO()
    with Ledger.open(url) as ledger:
        ledger.export(stream)
    timed("export", start)
    text = stream.getvalue()

    for store, fresh in (("sqlite", str(folder / "restored.db")), ("postgresql", server.schema())):
        start = time.perf_counter()
        with Ledger.open(fresh) as ledger:
            ledger.restore(io.StringIO(text))
        timed(f"restore_into_{store}", start)
    start = time.perf_counter()
    check(fresh, entries)
    timed("postgresql_verify", start)

    where = ["-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres"]
    start = time.perf_counter()
    schema = fresh.rpartition("%3D")[2]
    dump = run(server, "pg_dump", *where, "-n", schema, "postgres")
    timed("postgresql_dump", start)
    start = time.perf_counter()
    run(server, "createdb", *where, "recovered")
    run(server, "psql", *where, "-q", "-v", "ON_ERROR_STOP=1", "-d", "recovered", text=dump)
    timed("postgresql_load", start)
    start = time.perf_counter()
    check(fresh.replace("/postgres?", "/recovered?"), entries)
    timed("postgresql_verify_after_load", start)
    took["export_megabytes"] = len(text.encode()) / 1e6
    took["dump_megabytes"] = len(dump.encode()) / 1e6
    took["sqlite_megabytes"] = Path(url).stat().st_size / 1e6
    return took


def check(url: str, entries: int) -> None:
    with Ledger.open(url) as ledger:
        found = ledger.verify()
    if found.faults or found.entries != entries:
        raise SystemExit(f"{found.entries} entries, faults: {found.faults[:3]}")


def run(server: PostgresqlServer, program: str, *words: str, text: str | None = None) -> str:
    command = [str(server._programs / program), *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_server() as server:
        took = rehearse(asked.entries, Path(folder), server)
    if asked.json:
        print(json.dumps({"entries": asked.entries} | {step: round(value, 2) for step, value in took.items()}))
    else:
        print(f"{asked.entries} entries")
        for step, value in took.items():
            print(f"{step:38}{value:10.1f}")


if __name__ == "__main__":
    main()
