"""Setwise."""

import tempfile
from pathlib import Path

import people
from reporting import report

import setwise
from setwise.ledger.ledger import Ledger

TOTAL = {"epsilon": people.EPSILON, "delta": people.DELTA}


def opened():
    types = {"age": "integer", "minutes": "integer"}
    return setwise.open(people.CSV, user="user_id", types=types)


def count(session):
    return session.count(where="age >= 30", **TOTAL).value


def mean(session):
    return session.mean(value="age", low=0, high=100, **TOTAL).value


def median(session):
    return session.quantile(value="minutes", low=0, high=1440, **TOTAL).value


def quartiles(session):
    answer = session.quantile(value="minutes", low=0, high=1440, at=[0.25, 0.5, 0.75], **TOTAL)
    return [each.value for each in answer.items[0].estimates]


def histogram(session):
    answer = session.histogram(item="occupation", domain=people.OCCUPATIONS, contributions=1, **TOTAL)
    return {each.label: each.count for each in answer}


def left(session):
    del session
    with Ledger.open(str(Path(tempfile.mkdtemp()) / "budget.db")) as ledger:
        ledger.open_filter("ada", epsilon=people.EPSILON, delta=people.DELTA)
        with setwise.open(people.CSV, user="user_id", account=ledger.account("ada")) as asked:
            asked.count(epsilon=people.EPSILON / 2)
        return ledger.account("ada").status().share_left


if __name__ == "__main__":
    report(opened, [count, mean, median, quartiles, histogram, left], runs=50)
