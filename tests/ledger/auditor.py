"""An independent auditor: recomputes every account from its entries, with its own SQL, hashing and arithmetic.

It shares nothing with the ledger but the table layout, which is public, and the price list, which it writes down anew.
"""

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from tests.ledger.raw import raw_connection


@dataclass
class Audited:
    """What one account did, by its entries alone."""

    drawn: Counter = field(default_factory=Counter)  # (period, mech without count) -> count
    rho: Counter = field(default_factory=Counter)  # period -> exact rho charged
    failure: Counter = field(default_factory=Counter)
    answers: dict = field(default_factory=dict)  # key -> stored answer
    charges: dict = field(default_factory=dict)  # key -> charged uses
    slices: Counter = field(default_factory=Counter)  # line of the cap -> units taken and not given back


OPENED = "WHERE kind IN ('setwise', 'filter', 'cap')"


def audit(url):
    """Return what every account did; fail where the books do not agree with it."""
    with raw_connection(url) as run:
        openings = {row[0]: json.loads(row[1]) for row in run(f"SELECT holder, body FROM ledger_openings {OPENED}")}
        hashes = dict(run("SELECT holder, hash FROM ledger_openings"))
        heads = {row[0]: row[1:] for row in run("SELECT holder, entries, charges, head FROM ledger_accounts")}
        balances = {
            (holder, period, what): (total, spent)
            for holder, period, what, total, spent in run(
                "SELECT holder, period, what, total, spent FROM ledger_balances"
            )
        }
        entries = run(
            "SELECT holder, position, kind, key, period, at, uses, content, previous, hash, moves "
            "FROM ledger_entries ORDER BY holder, position"
        )
        moves = run("SELECT account, holder, what, amount FROM ledger_movements ORDER BY account, position, number")
        placed = run("SELECT account, position, holder, period, what, amount FROM ledger_movements ORDER BY number")
        seals = run("SELECT body FROM ledger_openings WHERE kind = 'seal'")
    sealed = json.loads(seals[0][0])["details"]["accounts"] if seals else {}
    moved = {}
    for account, position, *move in placed:
        moved.setdefault((account, position), []).append(move)
    books = {holder: Audited() for holder, terms in openings.items() if terms["kind"] != "cap"}
    chains = {holder: (0, hashes[holder]) for holder in books}
    for holder, position, kind, key, period, at, uses, text, previous, hashed, said in entries:
        count, head = chains[holder]
        assert (position, previous) == (count + 1, head), f"entry {position} of {holder} is out of line"
        record = {"account": openings[holder]["name"], "key": key, "kind": kind, "period": period}
        record |= {"moves": said} if position > sealed.get(openings[holder]["name"], [0])[0] else {}
        assert json.loads(said) == moved.get((holder, position), [])
        assert hashed == _link(head, position, at, {**record, "text": text, "uses": uses})
        chains[holder] = (position, hashed)
        _book(books[holder], kind, key, period, json.loads(uses), text)
    for holder, (count, head) in chains.items():
        assert heads[holder] == (count, len(books[holder].charges), head)
    _compare(openings, books, balances)
    _compare_slices(openings, books, balances, moves)
    return {openings[holder]["name"]: book for holder, book in books.items()}


def _link(previous, position, at, record):
    body = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    inner = hashlib.sha256(body.encode()).hexdigest()
    return hashlib.sha256(f"{previous}\n{position}\n{at}\n{inner}".encode()).hexdigest()


def _book(book, kind, key, period, uses, text):
    if kind == "release":
        assert not uses
        assert book.charges[key.partition("\n")[0]][0] == period
        return
    if kind == "slice":
        assert not uses
        book.slices.update(json.loads(text))
        return
    if kind == "charge":
        assert key not in book.charges, f"{key} was charged twice"
        book.charges[key] = (period, uses)
    else:
        assert key not in book.answers, f"{key} was answered twice"
        assert book.charges[key][0] == period
        book.answers[key] = text
    for use in uses:
        mech, count = counted(use)
        book.drawn[period, mech] += count if kind == "charge" else -count
        if kind == "charge":
            rho, failure = price(mech)
            book.rho[period] += count * rho
            book.failure[period] += count * failure


def counted(use):
    """Return a written use without its count, and the count."""
    mech, count = re.fullmatch(r"([a-z-]+:[^x]+)(?:x(\d+))?", use).groups()
    return mech, int(count or 1)


def price(mech):
    """Return the zCDP rho and the failure probability of one use, without any rounding."""
    kind, _, written = mech.partition(":")
    values = [Fraction(float(value)) for value in written.split(",")]
    if kind == "pure":
        return values[0] ** 2 / 2, Fraction(0)
    if kind == "bounded-range":
        return values[0] ** 2 / 8, Fraction(0)
    if kind == "laplace":
        return 1 / (2 * values[0] ** 2), Fraction(0)
    if kind == "gaussian":
        return 1 / (2 * values[0] ** 2), Fraction(0)
    if kind == "zcdp":
        rho, xi, delta = [*values, Fraction(0), Fraction(0)][:3]
        return rho + max(xi, Fraction(0)), delta
    if kind == "approx":
        return values[0] ** 2 / 2, values[1]
    raise AssertionError(f"the auditor has no price for {mech}")


def _compare(openings, books, balances):
    """Every balance is what the entries say, and within its line."""
    shared = {holder: Audited() for holder, terms in openings.items() if terms["kind"] == "cap"}
    for holder, book in books.items():
        terms = openings[holder]
        periods = {period for period, _ in book.charges.values()}
        if terms["cap"] is not None:
            shared[terms["cap"]].rho[""] += sum(book.rho.values())
            shared[terms["cap"]].failure[""] += sum(book.failure.values())
        if terms["kind"] == "setwise":
            registered = Counter()
            for use in terms["uses"]:
                mech, count = counted(use)
                registered[mech] += count
            for period in periods:
                for mech, total in registered.items():
                    found = balances.get((holder, period, mech), (total, 0))
                    assert found == (total, book.drawn[period, mech])
                    assert 0 <= found[1] <= total
            assert not {mech for _, mech in book.drawn} - set(registered)
        else:
            _compare_filter(holder, terms, book, periods, len(book.charges), balances)
    for holder, book in shared.items():
        if "rho" not in openings[holder]["totals"]:
            continue  # held in slices
        charges = sum(len(books[other].charges) for other in books if openings[other]["cap"] == holder)
        _compare_filter(holder, openings[holder], book, {""}, charges, balances)


def _compare_slices(openings, books, balances, moves):
    """No account paid more than it held, nobody holds what the cap did not give, and draws cost at least 2 rho."""
    for cap, terms in openings.items():
        if terms["kind"] != "cap" or "rho" in terms["totals"]:
            continue
        under = [holder for holder in books if openings[holder]["cap"] == cap]
        taken = sum((books[holder].slices for holder in under), Counter())
        held, cost, exact = Counter(), Fraction(0), Fraction(0)
        for holder in under:
            own = Counter()
            for account, place, what, amount in moves:
                if account == holder and place == holder and what.startswith("slice:"):
                    own[what] += amount
                    assert own[what] >= 0, f"{holder} paid {what} that it did not hold"
            for what, units in own.items():
                assert balances[holder, "", what] == (2**60, units)
            held.update({what.removeprefix("slice:"): units for what, units in own.items()})
            exact += sum(books[holder].rho.values())
        for what, units in taken.items():
            total, spent = balances[cap, "", what]
            assert spent == units <= total
            assert held[what] <= units
        assert taken["rule"] in (0, 2, 3)
        if taken["rule"] != 3:
            cost = Fraction(taken["wallet"] - held["wallet"], 2**60) * Fraction(terms["totals"]["wallet"])
            assert cost >= 2 * exact * Fraction(9, 10)  # pure 1.0 is 0.46-zCDP, and rho here is epsilon^2/2


def _compare_filter(holder, terms, book, periods, charges, balances):
    """Parts are the exact sums rounded up, by at most a part and the conversions' own rounding per charge."""
    for period in periods:
        for what, exact in (("rho", book.rho[period]), ("failure", book.failure[period])):
            budget = Fraction(terms["totals"][what])
            total, spent = balances.get((holder, period, what), (2**60, 0))
            assert 0 <= spent <= total
            worth = Fraction(spent, 2**60) * budget
            assert exact <= worth <= budget
            assert worth <= exact * (1 + Fraction(1, 10**13)) + charges * budget / 2**60
