"""Work for processes of their own: they share nothing with the test but the store."""

import multiprocessing
import os
import random
import secrets
import signal
import time

from sqlalchemy import Engine, event

from setwise import parse_use
from setwise.errors import BudgetExhausted, SetwiseError
from setwise.ledger.ledger import Ledger

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["setwise.ledger.ledger", "sqlalchemy.dialects.postgresql.psycopg", "psycopg"])
"""Everything slow to import is there before a process is forked; Python 3.11 does not find the tests themselves."""

POINTS = ("before commit", "after charge", "after noise", "after the answer is stored", "before it is sent")


def race(url, number, runs, start, outcomes):
    """Try one charge per run, together with everyone else."""
    with Ledger.open(url) as ledger:
        for run in range(runs):
            start.wait()
            try:
                ledger.account(f"run {run}").charge([parse_use("pure:0.1")], key=f"process {number}", request="q")
            except BudgetExhausted:
                outcomes.put("refused")
            except SetwiseError as error:
                outcomes.put(repr(error))
            else:
                outcomes.put("granted")


def answer_question(account, key, draws, at_point=lambda point: None):
    """Answer one question as analytics does, with noise that differs from run to run."""
    receipt = account.charge([parse_use(f"pure:0.1x{draws}")], key=key, request=f"question {key}")
    if receipt.answer is not None:
        return receipt.answer
    at_point("after charge")
    noisy = f"{key}: {secrets.token_hex(8)}"
    at_point("after noise")
    stored = account.settle(receipt, answer=noisy, returned=[parse_use("pure:0.1")])
    at_point("after the answer is stored")
    at_point("before it is sent")
    return stored


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def answer_and_die(url, key, point):
    """Answer a question, and be killed at a point of it."""

    def at_point(reached):
        if reached == point:
            die()

    with Ledger.open(url) as ledger:
        account = ledger.account("ada")
        if point == "before commit":
            # SQLite commits by a statement of its own; PostgreSQL with the statement that charges.
            last = "COMMIT" if "://" not in url else "INSERT INTO ledger_entries"
            event.listen(Engine, "before_cursor_execute", lambda c, cu, sql, *rest: die() if last in sql else None)
        answer_question(account, key, 2, at_point)


def answer_until_killed(url, keys, seed, shown):
    """Answer questions in a random order for as long as one lives; write down each answer before the next question."""
    order = random.Random(seed)
    out = os.open(shown, os.O_WRONLY | os.O_APPEND)
    with Ledger.open(url) as ledger:
        account = ledger.account("ada")
        while True:
            key = f"k{order.randrange(keys)}"
            try:
                text = answer_question(account, key, 2)
            except BudgetExhausted:
                continue
            os.write(out, f"{text}\n".encode())


def charge_through_trouble(url, number, count, acknowledged):
    """Charge again and again, with a new attempt under the same key after every failure; tell how each went."""
    with Ledger.open(url) as ledger:
        account = ledger.account("ada")
        for place in range(count):
            key, sentences = f"{number}-{place}", set()
            while len(sentences) < 100:
                try:
                    account.charge([parse_use("pure:0.1")], key=key, request="q")
                except SetwiseError as error:
                    sentences.add((error.exit_code, str(error)))
                    time.sleep(0.02)
                else:
                    break
            acknowledged.put((key, sentences))


def charge_until_killed(url, names, seed):
    """Charge accounts under one cap in a random order, and give slices back now and then, for as long as one lives."""
    order = random.Random(seed)
    with Ledger.open(url) as ledger:
        accounts = [ledger.account(name) for name in names]
        for number in range(10**6):
            account = order.choice(accounts)
            try:
                account.charge([parse_use("gaussian:30")], key=f"{seed}-{number}", request="q")
                if order.random() < 0.2:
                    account.give_back()
            except BudgetExhausted:
                time.sleep(0.01)
