"""kill -9: at each step of an answer, and at random under load; nothing is charged twice and no answer changes."""

import random
import signal
import time

import psycopg
import pytest

from setwise import parse_use
from setwise.ledger.ledger import Ledger
from tests.ledger.auditor import audit
from tests.ledger.processes import CONTEXT, POINTS, answer_and_die, answer_question, answer_until_killed
from tests.sizes import KILLS

AT_ONCE = 4
KEYS = 150
REGISTERED = 120


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_step(store_url, point):
    with Ledger.open(store_url) as ledger:
        ledger.open_setwise("ada", ["pure:0.1x3"], delta=1e-6)
        process = CONTEXT.Process(daemon=True, target=answer_and_die, args=(store_url, "k", point))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        account = ledger.account("ada")
        charged = account.status().charges
        assert charged == (0 if point == "before commit" else 1)
        resumed = account.charge([parse_use("pure:0.1x2")], key="k", request="question k")
        stored = point in ("after the answer is stored", "before it is sent")
        assert (resumed.answer is not None) == stored
        answer = answer_question(account, "k", 2)
        assert answer == (resumed.answer or answer)
        assert answer_question(account, "k", 2) == answer
        assert not ledger.verify().faults
    book = audit(store_url)["ada"]
    assert (len(book.charges), book.answers) == (1, {"k": answer})
    assert book.drawn["", "pure:0.1"] == 1


def until(connection, condition):
    """Wait until some connection of the ledger is in a state."""
    query = f"SELECT 1 FROM pg_stat_activity WHERE application_name = 'setwise' AND {condition}"
    deadline = time.monotonic() + 60
    while not connection.execute(query).fetchall():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_killed_while_the_server_charges(postgresql_server):
    """The server may finish what a dead client asked for; whoever resumes is charged once all the same."""
    url = postgresql_server.schema()
    with Ledger.open(url) as ledger, psycopg.connect(url) as other, psycopg.connect(url, autocommit=True) as watch:
        ledger.open_setwise("ada", ["pure:0.1x3"], delta=1e-6)
        other.execute("SELECT 1 FROM ledger_accounts FOR UPDATE")
        process = CONTEXT.Process(daemon=True, target=answer_and_die, args=(url, "k", "never"))
        process.start()
        until(watch, "wait_event_type = 'Lock'")
        process.kill()
        process.join(60)
        other.rollback()
        account = ledger.account("ada")
        answer = answer_question(account, "k", 2)
        assert account.entries() == 2
        assert answer_question(account, "k", 2) == answer
        assert not ledger.verify().faults
    book = audit(url)["ada"]
    assert (len(book.charges), book.answers, book.drawn["", "pure:0.1"]) == (1, {"k": answer}, 1)


def wait_for_lines(path, count):
    """Wait until the file has `count` different lines, or as many as there can be, however slow the machine is."""
    deadline = time.monotonic() + 120
    while len(set(path.read_text().splitlines())) < min(count, REGISTERED // 2):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_random_kills_under_load(store_url, tmp_path):
    order = random.Random(7)
    shown = tmp_path / "shown"
    shown.touch()
    with Ledger.open(store_url) as ledger:
        ledger.open_setwise("ada", [f"pure:0.1x{REGISTERED}"], delta=1e-6)
        running = []
        for number in range(KILLS + AT_ONCE):
            process = CONTEXT.Process(
                daemon=True, target=answer_until_killed, args=(store_url, KEYS, number, str(shown))
            )
            process.start()
            running.append(process)
            if len(running) > AT_ONCE:
                wait_for_lines(shown, number - AT_ONCE + 1)
                time.sleep(order.uniform(0.0, 0.03))
                victim = running.pop(order.randrange(len(running)))
                assert victim.exitcode is None, "it stopped by itself"
                victim.kill()
                victim.join(60)
        for victim in running:
            victim.kill()
            victim.join(60)
        assert not ledger.verify().faults
        account = ledger.account("ada")
        assert account.status().charges > KEYS // 10
        book = audit(store_url)["ada"]
        for key in book.charges:
            answer_question(account, key, 2)
        replayed = {key: answer_question(account, key, 2) for key in book.charges}
        assert not ledger.verify().faults
    book = audit(store_url)["ada"]
    assert book.answers == replayed
    assert 0 < book.drawn["", "pure:0.1"] <= REGISTERED
    seen = set(shown.read_text().splitlines())
    assert len(seen) > KEYS // 10
    assert seen <= set(replayed.values())
