"""Load: however many processes race for the last draws, no more are granted than are left."""

import threading

from setwise import parse_use
from setwise.errors import BudgetExhausted
from setwise.ledger.ledger import Ledger
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
