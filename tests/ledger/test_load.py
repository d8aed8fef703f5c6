"""Load: however many processes race for the last draws, no more are granted than are left."""

import signal
import threading
import time
from contextlib import contextmanager

import pytest

from setwise import parse_use
from setwise.errors import BudgetExhausted
from setwise.ledger.ledger import Ledger
from setwise.ledger.stores.sqlite import SqliteStore, write_lock
from tests.ledger.auditor import audit
from tests.ledger.processes import CONTEXT, race
from tests.ledger.test_accounts import uses
from tests.sizes import RACERS, RACES

LEFT = 10


def test_processes_race_for_the_last_ten_draws(store_url):
    with Ledger.open(store_url) as ledger:
        for run in range(RACES):
            ledger.open_setwise(f"run {run}", ["pure:0.1x15"], delta=1e-6)
            ledger.account(f"run {run}").charge(uses("pure:0.1x5"), key="before", request="q")
        start, outcomes = CONTEXT.Barrier(RACERS + 1), CONTEXT.SimpleQueue()
        racers = [
            CONTEXT.Process(daemon=True, target=race, args=(store_url, number, RACES, start, outcomes))
            for number in range(RACERS)
        ]
        for racer in racers:
            racer.start()
        for run in range(RACES):
            start.wait(120)
            found = [outcomes.get() for _ in racers]
            assert (found.count("granted"), found.count("refused")) == (LEFT, RACERS - LEFT), set(found)
            assert ledger.account(f"run {run}").status().left == ()
        for racer in racers:
            racer.join(60)
            assert racer.exitcode == 0
        assert all(len(book.charges) == LEFT + 1 for book in audit(store_url).values())
        assert not ledger.verify().faults


def test_one_key_from_many_threads_is_one_charge(ledger, store_url):
    ledger.open_setwise("ada", ["pure:0.1x50"], delta=1e-6)
    account, receipts, texts = ledger.account("ada"), [], []

    def ask(number):
        receipt = account.charge([parse_use("pure:0.1x2")], key="k", request="q")
        receipts.append(receipt.entry)
        texts.append(account.settle(receipt, answer=f"answer {number}", returned=[parse_use("pure:0.1")]))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(receipts) == {1}
    assert len(texts) == 16
    assert len(set(texts)) == 1
    assert audit(store_url)["ada"].answers == {"k": texts[0]}
    assert audit(store_url)["ada"].drawn["", "pure:0.1"] == 1


def test_accounts_under_one_cap_race_without_passing_it(ledger, store_url):
    ledger.set_cap("visits", epsilon=1.0, delta=1e-6, rule="zcdp")
    for number in range(6):
        ledger.open_setwise(f"account {number}", ["gaussian:20x100"], delta=1e-6, dataset="visits")
    granted = []

    def draw(number):
        account = ledger.account(f"account {number}")
        for place in range(8):
            try:
                account.charge([parse_use("gaussian:20")], key=str(place), request="q")
            except BudgetExhausted:
                continue
            granted.append(number)

    threads = [threading.Thread(target=draw, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 18  # 18 draws of 1/800 fit in a rho of 0.0229
    audit(store_url)
    assert not ledger.verify().faults


@contextmanager
def waiting_together(path, store, count):
    """Hold the write lock of a SQLite ledger until `count` threads wait to append entries to it."""
    with write_lock(path):
        yield
        deadline = time.monotonic() + 60
        while len(store._appends) < count and time.monotonic() < deadline:
            time.sleep(0.001)
        assert len(store._appends) == count


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """A ledger in a SQLite file, its path, its store, and a list that grows with each transaction."""
    began, transaction = [], SqliteStore._transaction

    def counting(self):
        began.append(self)
        return transaction(self)

    path = tmp_path / "ledger.db"
    with Ledger.open(str(path)) as ledger:
        ledger.open_setwise("ada", ["pure:0.1x3"], delta=1e-6)
        ledger.open_setwise("bob", ["pure:0.1x50"], delta=1e-6)
        monkeypatch.setattr(SqliteStore, "_transaction", counting)
        yield ledger, path, ledger.account("ada")._store, began


def charge_in_threads(ledger, account, count, outcomes):
    """Start threads that each charge the account once, and return them; `outcomes` gets what became of each."""

    def charge(number):
        try:
            ledger.account(account).charge([parse_use("pure:0.1")], key=f"{account}-{number}", request="q")
        except BudgetExhausted:
            outcomes.append("refused")
        else:
            outcomes.append("granted")

    threads = [threading.Thread(target=charge, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_entries_of_threads_that_wait_are_committed_together(counted):
    ledger, path, store, began = counted
    of_ada, of_bob = [], []
    with waiting_together(path, store, 16):
        threads = charge_in_threads(ledger, "ada", 8, of_ada) + charge_in_threads(ledger, "bob", 8, of_bob)
    for thread in threads:
        thread.join(60)
    assert began == [store]  # one commit, in which a refused charge leaves the others as they are
    assert (sorted(of_ada), of_bob) == (["granted"] * 3 + ["refused"] * 5, ["granted"] * 8)
    assert {name: len(book.charges) for name, book in audit(str(path)).items()} == {"ada": 3, "bob": 8}
    assert not ledger.verify().faults


def test_an_interrupted_thread_holds_up_no_other(counted):
    ledger, path, store, _ = counted
    outcomes, threads = [], []

    def interrupt(*_):
        threads.extend(charge_in_threads(ledger, "bob", 4, outcomes))
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with waiting_together(path, store, 4):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):  # the first in the queue
                ledger.account("ada").charge([parse_use("pure:0.1")], key="interrupted", request="q")
    finally:
        signal.signal(signal.SIGALRM, before)
    for thread in threads:
        thread.join(60)
    assert outcomes == ["granted"] * 4
    assert "interrupted" not in audit(str(path))["ada"].charges
    assert not ledger.verify().faults
