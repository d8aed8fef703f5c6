"""Running a report: price it, register it with a ledger, ask, and write the answers."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from setwise.accounting.notation import format_use
from setwise.analytics.askable import SqlWords
from setwise.analytics.pricing import Priced, price
from setwise.analytics.session import Session
from setwise.analytics.session import open as open_table
from setwise.errors import InvalidParameter, UnknownAccount
from setwise.ledger.account import Account
from setwise.ledger.ledger import Ledger
from setwise.live.series import find_live
from setwise.reports.outputs import Answered, check_destination, report_page, write_answer, write_series, write_whole
from setwise.reports.report import Question, Report

Step = Callable[[str], None]
"""Told what is done next."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A report that was run: what it was promised to cost, and its answers by name."""

    report: Report
    key: str
    priced: Priced
    answers: dict[str, Answered]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the report."""
        return {
            "report": self.report.name,
            "title": self.report.title,
            "key": self.key,
            **self.priced.promise.to_dict(),
            "delta": self.report.delta,
            "answers": {name: answer.to_dict() for name, answer in self.answers.items()},
        }


def preview_report(report: Report) -> Priced:
    """Return what the report would cost and how far off its answers may be; free, and no row is read."""
    with _opened(report) as asked:
        return _priced(report, asked)


def run_report(report: Report, *, key: str, ledger: str, step: Step = lambda _: None) -> Ran:
    """Ask all questions of a report, and write their answers.

    The report's uses are registered first, in an account of its own named `NAME:KEY`, whose promise is certified
    set-wise. A run that was interrupted goes on under the same key: what was answered is replayed and costs nothing.
    """
    for question in report.questions:
        for to in question.to:
            check_destination(to)
    with _opened(report) as asked, Ledger.open(ledger) as opened:
        views = [find_live(opened, each.series).view(window=each.window) for each in report.live]
        step("pricing the questions together")
        priced = _priced(report, asked)
        account = _account(report, key, priced, opened)
        answers: dict[str, Answered] = {}
        for number, ((session, question), total) in enumerate(zip(asked, priced.totals, strict=True), start=1):
            step(f"asking {question.name} ({number} of {len(asked)})")
            found = session.paid_by(account).ask(question.query, total, key=question.name)
            asked_sql = question.asked
            answer: Answered = found if asked_sql is None else asked_sql.statement.result(found, asked_sql.public)
            answers[question.name] = answer
            for to in question.to:
                write_answer(answer, to, key)
        for view, output in zip(views, report.live, strict=True):
            for to in output.to:
                write_series(view, to)
    ran = Ran(report, key, priced, answers)
    if report.json is not None:
        write_whole(Path(report.json), (json.dumps(ran.to_dict(), ensure_ascii=False, indent=1) + "\n").encode())
    if report.html is not None:
        write_whole(Path(report.html), report_page(report, key, priced, answers).encode())
    return ran


Asked: TypeAlias = list[tuple[Session, Question]]
"""Each question with the session on its tables."""


@contextmanager
def _opened(report: Report) -> Iterator[Asked]:
    with open_table(report.table, user=report.user, **report.options) as session:
        yield [_read(question, session, report) for question in report.questions]


def _read(question: Question, session: Session, report: Report) -> tuple[Session, Question]:
    """Return a question with the session on the rows that it reads, whose columns are known now."""
    if question.select is None:
        return session, question
    # The budget is not looked at: questions are priced together.
    words: SqlWords = {**question.select.words, "epsilon": report.epsilon, "delta": report.delta}
    asked = session.ask_sql(question.select.text, words)
    if len(asked.sessions) != 1:
        raise InvalidParameter(f"{question.name!r} has several SELECTs over private rows: make each a question")
    rows = session.derived_session(asked.statement.cores[0].source)
    return rows, replace(question, query=asked.statement.query, asked=asked)


def _priced(report: Report, asked: Asked) -> Priced:
    questions = [question for _, question in asked]
    schemas = [session.schema for session, _ in asked]
    return price(questions, user=report.user, schemas=schemas, epsilon=report.epsilon, delta=report.delta)


def _account(report: Report, key: str, priced: Priced, ledger: Ledger) -> Account:
    """Return the account of this run: the one it had before, or a new one."""
    name, dataset = f"{report.name}:{key}", report.dataset or ""
    for known_as in report.known_as:
        ledger.check_pays(account=name, dataset=dataset, known_as=known_as)
    try:
        account = ledger.account(name)
    except UnknownAccount:
        ledger.open_setwise(name, priced.uses, delta=report.delta, dataset=dataset)
        return ledger.account(name)
    if (account.terms.uses, account.terms.dataset) != (priced.uses, dataset):
        registered = ", ".join(format_use(use) for use in account.terms.uses)
        raise InvalidParameter(
            f"the report is not the one that was run under the key {key!r}, which registered {registered}: "
            "give another key"
        )
    return account
