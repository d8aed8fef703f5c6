"""Stores that fail: a full disk, a read-only file, a restarted server, a cut connection."""

import os
import resource
import shutil
import tempfile
import threading
import time
from pathlib import Path

import psycopg
import pytest

from setwise.errors import StoreFailed
from setwise.ledger.ledger import Ledger
from tests.ledger.auditor import audit
from tests.ledger.processes import CONTEXT, charge_through_trouble
from tests.ledger.test_accounts import uses

_NOBODY = 65534


def fill_up(path, limit, results):
    """Charge until files may not grow; then see that the failure is told, and that looking still works."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    granted, refused = [], None
    with Ledger.open(path) as ledger:
        account = ledger.account("ada")
        for number in range(10_000):
            try:
                account.charge(uses("pure:0.1"), key=f"k{number}", request="q" * 2000)
            except StoreFailed as error:
                refused = str(error)
                break
            granted.append(f"k{number}")
        charges = account.status().charges
    results.put((granted, refused, charges))


def filled_disk(tmp_path, fill, limit):
    """Run `fill` in a process on a new ledger until its files have `limit` bytes; return its path and what it saw."""
    path = str(tmp_path / "ledger.db")
    with Ledger.open(path) as ledger:
        ledger.open_setwise("ada", ["pure:0.1x20000"], delta=1e-6)
    results = CONTEXT.SimpleQueue()
    process = CONTEXT.Process(daemon=True, target=fill, args=(path, limit, results))
    process.start()
    granted, refused, charges = results.get()
    process.join(60)
    return path, granted, refused, charges


def test_a_full_disk_loses_nothing(tmp_path):
    path, granted, refused, charges = filled_disk(tmp_path, fill_up, 600_000)
    assert "failed: " in refused
    assert "\n" not in refused
    assert charges == len(granted) > 5
    with Ledger.open(path) as ledger:
        assert not ledger.verify().faults
        ledger.account("ada").charge(uses("pure:0.1"), key="after", request="q")
    assert set(audit(path)["ada"].charges) == {*granted, "after"}


def fill_up_together(path, limit, results):
    """Charge from eight threads until files may not grow; then see that each thread is told."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    granted, refused = [], []
    with Ledger.open(path) as ledger:

        def charge(number):
            account = ledger.account("ada")
            for turn in range(2_000):
                key = f"k{number}-{turn}"
                try:
                    account.charge(uses("pure:0.1"), key=key, request="q" * 2000)
                except StoreFailed as error:
                    refused.append(str(error))
                    return
                granted.append(key)

        threads = [threading.Thread(target=charge, args=(number,), daemon=True) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        charges = ledger.account("ada").status().charges
    results.put((granted, refused, charges))


def test_a_full_disk_is_told_to_every_thread_and_loses_nothing(tmp_path):
    path, granted, refused, charges = filled_disk(tmp_path, fill_up_together, 900_000)
    assert len(refused) == 8
    assert all("failed: " in sentence and "\n" not in sentence for sentence in refused)
    assert charges == len(granted) > 8
    with Ledger.open(path) as ledger:
        assert not ledger.verify().faults
        ledger.account("ada").charge(uses("pure:0.1"), key="after", request="q")
    assert set(audit(path)["ada"].charges) == {*granted, "after"}


def use_read_only(path, results):
    """Read and write as someone who may only read."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    try:
        with Ledger.open(path) as ledger:
            ledger.account("ada").charge(uses("pure:0.1"), key="k", request="q")
    except StoreFailed as error:
        results.put(str(error))
    else:
        results.put("it was charged")


def test_a_read_only_file_is_told_and_left_alone():
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "ledger.db"
        with Ledger.open(str(path)) as ledger:
            ledger.open_setwise("ada", ["pure:0.1x3"], delta=1e-6)
        path.chmod(0o444)
        folder.chmod(0o555)
        results = CONTEXT.SimpleQueue()
        process = CONTEXT.Process(daemon=True, target=use_read_only, args=(str(path), results))
        process.start()
        said = results.get()
        process.join(60)
        assert said.startswith(f"the ledger {path} failed: ")
        assert "readonly" in said or "unable to open" in said
        folder.chmod(0o755)
        path.chmod(0o644)
        with Ledger.open(str(path)) as ledger:
            assert not ledger.verify().faults
            assert ledger.account("ada").charge(uses("pure:0.1"), key="k", request="q").entry == 1
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


WORKERS = 3
CHARGES = 60
PATIENCE = 120
"""Seconds after which a worker that says nothing is taken to have died."""


def charge_while(url, trouble):
    """Charge from several processes while there is trouble; return what each charge met before it was acknowledged."""
    with Ledger.open(url) as ledger:
        ledger.open_setwise("ada", [f"pure:0.1x{WORKERS * CHARGES}"], delta=1e-6)
    acknowledged = CONTEXT.Queue()
    workers = [
        CONTEXT.Process(daemon=True, target=charge_through_trouble, args=(url, number, CHARGES, acknowledged))
        for number in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    met = []
    while len(met) < 20 or len({key.split("-")[0] for key, _ in met}) < WORKERS:  # until all of them are at work
        met.append(acknowledged.get(timeout=PATIENCE))
    trouble()
    met += [acknowledged.get(timeout=PATIENCE) for _ in range(WORKERS * CHARGES - len(met))]
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    with Ledger.open(url) as ledger:
        assert not ledger.verify().faults
        assert ledger.account("ada").status().left == ()
    assert set(audit(url)["ada"].charges) == {key for key, _ in met}
    return set().union(*(sentences for _, sentences in met))


@pytest.mark.parametrize("way", ["stop", "crash"])
def test_a_restarted_server_loses_nothing(postgresql_server, way):
    def restart():
        getattr(postgresql_server, way)()
        time.sleep(0.2)
        postgresql_server.start()

    met = charge_while(postgresql_server.schema(), restart)
    assert met
    assert {code for code, _ in met} == {4}
    for _, sentence in met:
        assert sentence.startswith("the ledger postgresql://postgres@127.0.0.1")
        assert "\n" not in sentence


def cut(server):
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'setwise'")


def test_cut_connections_under_load_lose_nothing(postgresql_server):
    def cut_often():
        for _ in range(5):
            cut(postgresql_server)
            time.sleep(0.03)

    met = charge_while(postgresql_server.schema(), cut_often)
    assert {code for code, _ in met} <= {4}


def test_a_connection_cut_while_idle_is_not_even_noticed(postgresql_server):
    with Ledger.open(postgresql_server.schema()) as ledger:
        ledger.open_setwise("ada", ["pure:0.1x9"], delta=1e-6)
        account = ledger.account("ada")
        for act in (
            lambda: account.charge(uses("pure:0.1"), key="k", request="q"),
            account.status,
            lambda: ledger.open_filter("bob", epsilon=1.0, delta=1e-6),
            lambda: ledger.account("bob").charge(uses("pure:0.1"), key="k", request="q"),
            ledger.verify,
        ):
            cut(postgresql_server)
            act()
        assert account.status().charges == 1


def test_a_server_that_is_gone_is_told_in_one_sentence(postgresql_server):
    with Ledger.open(postgresql_server.schema()) as ledger:
        ledger.open_setwise("ada", ["pure:0.1x9"], delta=1e-6)
        account = ledger.account("ada")
        postgresql_server.stop()
        try:
            for act in (
                lambda: account.charge(uses("pure:0.1"), key="k", request="q"),
                account.status,
                lambda: ledger.open_filter("bob", epsilon=1.0, delta=1e-6, rule="zcdp"),
            ):
                with pytest.raises(StoreFailed, match=r"^the ledger postgresql://[^\n]*failed: [^\n]*$"):
                    act()
        finally:
            postgresql_server.start()
        assert account.charge(uses("pure:0.1"), key="k", request="q").entry == 1
