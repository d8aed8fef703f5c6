"""Runs a report: computes the cost of all its questions together, opens an account, asks, and writes the answers."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from setwise.accounting.notation import format_use
from setwise.analytics.askable import SqlWords
from setwise.analytics.budget import BudgetWords
from setwise.analytics.opening import open as open_table
from setwise.analytics.planning.joint_pricing import Priced, price
from setwise.analytics.session import Session
from setwise.errors import InvalidParameter, UnknownAccount
from setwise.ledger.account import Account
from setwise.ledger.ledger import Ledger
from setwise.live.series import find_live
from setwise.reports.outputs import (
    Answered,
    check_destination,
    joint_promise,
    report_page,
    write_answer,
    write_series,
    write_whole,
)
from setwise.reports.refusals import name_question
from setwise.reports.report import Report, ReportQuestion

Step = Callable[[str], None]
"""A function that is called with a description of each step before the step begins."""


@dataclass(frozen=True, slots=True)
class ReportRun:
    """The result of running a `report`: the cost of all its questions together, and the answers by question name.

    - `key`: the name of the run; running the report again under this name continues an interrupted run
    - `priced`: the plan of each question, and the certified cost of all of them together
    - `charged`: the number of questions that were charged now; the answers to the others were stored by earlier runs
      under the same key
    """

    report: Report
    key: str
    priced: Priced
    answers: dict[str, Answered]
    charged: int

    def to_dict(self) -> dict[str, Any]:
        """Return the run as a JSON object: the report's name, its privacy promise and the answers by question name."""
        return {
            "report": self.report.name,
            "title": self.report.title,
            "key": self.key,
            **self.priced.promise.to_dict(),
            "delta": self.report.delta,
            "unit": self.report.unit,
            "promise": joint_promise(self.report, self.priced),
            "answers": {name: answer.to_dict() for name, answer in self.answers.items()},
        }


def preview_report(report: Report) -> Priced:
    """Return what running `report` would cost: the certified cost of all questions together, and the plan of each.

    A plan has the expected error of an answer. Nothing is charged, and no row is read.

    Raises: the errors with which a run of the report would be refused before it asks a question, such as
    `InvalidParameter` for a destination to which no answer can be written.
    """
    _check_destinations(report)
    with _open_sessions(report) as question_sessions:
        return _price_questions(report, question_sessions)


def run_report(report: Report, *, key: str, ledger: str, step: Step = lambda _: None) -> ReportRun:
    """Ask all questions of a report, write their answers to files or databases, and return the result of the run.

    - `key`: the run is paid by an account that is called after the report and this key. Running the report again under
      the key costs nothing for questions that were answered
    - `ledger`: the address of the ledger
    - `step`: called with a description of each stage before the stage begins

    The account's (epsilon, delta) is certified for the mechanism uses of all questions, in any order.
    """
    _check_destinations(report)
    with _open_sessions(report) as question_sessions, Ledger.open(ledger) as opened:
        views = [
            find_live(opened, live.series).view(window=live.window, top=live.top, on=live.on) for live in report.live
        ]
        step("pricing the questions together")
        priced = _price_questions(report, question_sessions)
        account = _account(report, key, priced, opened)
        charges_before = account.status().charges
        answers: dict[str, Answered] = {}
        for number, ((session, question), total) in enumerate(
            zip(question_sessions, priced.totals, strict=True), start=1
        ):
            step(f"asking {question.name} ({number} of {len(question_sessions)})")
            with name_question(question.name):
                paid = session.paid_by(account, dataset=report.dataset)
                private_answer = paid.ask(question.query, total, key=question.name)
            sql_question = question.sql_question
            answer: Answered = (
                private_answer
                if sql_question is None
                else sql_question.statement.result(private_answer, sql_question.public)
            )
            answers[question.name] = answer
            for to in question.to:
                write_answer(answer, to, key)
        charged = account.status().charges - charges_before
        for view, output in zip(views, report.live, strict=True):
            for to in output.to:
                write_series(view, to)
    ran = ReportRun(report, key, priced, answers, charged)
    if report.json is not None:
        write_whole(Path(report.json), (json.dumps(ran.to_dict(), ensure_ascii=False, indent=1) + "\n").encode())
    if report.html is not None:
        write_whole(Path(report.html), report_page(report, key, priced, answers).encode())
    return ran


def _check_destinations(report: Report) -> None:
    """Raise `InvalidParameter`, with the question's name, if an answer cannot be written to one of its destinations."""
    for question in report.questions:
        with name_question(question.name):
            for to in question.to:
                check_destination(to)


QuestionSessions: TypeAlias = list[tuple[Session, ReportQuestion]]
"""Each question with the session on the rows that it reads."""


@contextmanager
def _open_sessions(report: Report) -> Iterator[QuestionSessions]:
    with open_table(report.table, user=report.user, unit=report.unit, scan=False, **report.options) as session:
        yield [_parse_question(question, session, report) for question in report.questions]


def _parse_question(question: ReportQuestion, session: Session, report: Report) -> tuple[Session, ReportQuestion]:
    """Return (session, question): a session on the rows that `question` reads, and the question with its SQL parsed.

    `session` is open on the table of `report`. For a question in SQL, the returned session is on the rows that its
    joins and subqueries make. A question without SQL is returned unchanged. Its session is `session`, or for a CSV file
    a copy of `session` with the column types that the question needs, such as integer.

    Raises: `InvalidParameter`, with the question's name in the message, if the SQL has several SELECTs over private
    rows.
    """
    with name_question(question.name):
        return _read_question(question, session, report)


def _read_question(question: ReportQuestion, session: Session, report: Report) -> tuple[Session, ReportQuestion]:
    """Return (session, question): a session on the rows that `question` reads, and the question with its SQL parsed.

    The arguments and the result are those of `_parse_question`, which calls this function and adds the question's name
    to errors. Raises: `InvalidParameter` if the SQL has several SELECTs over private rows.
    """
    # A question needs a budget to be planned. It is not used, because the questions are priced together.
    budget: BudgetWords = {"epsilon": report.epsilon, "delta": report.delta}
    if question.select is None:
        return session.for_question(question.query, session.budget(budget)), question
    words: SqlWords = {**question.select.words, **budget}
    sql_question = session.ask_sql(question.select.text, words)
    if len(sql_question.sessions) != 1:
        raise InvalidParameter(f"{question.name!r} has several SELECTs over private rows: make each a question")
    (rows,) = sql_question.sessions
    assert isinstance(rows, Session), "a local session derives local sessions"
    return rows, replace(question, query=sql_question.statement.query, sql_question=sql_question)


def _price_questions(report: Report, question_sessions: QuestionSessions) -> Priced:
    questions = [question for _, question in question_sessions]
    schemas = [session.schema for session, _ in question_sessions]
    user = question_sessions[0][0].protected_column
    try:
        priced = price(questions, user=user, schemas=schemas, epsilon=report.epsilon, delta=report.delta)
        pairs = zip(questions, priced.plans, strict=True)
        return replace(
            priced, plans=tuple(plan.in_units(report.unit, question.query.columns) for question, plan in pairs)
        )
    except InvalidParameter:
        # One of the questions cannot be planned at any budget. Planning each alone finds the one to name.
        for question, schema in zip(questions, schemas, strict=True):
            with name_question(question.name):
                price([question], user=user, schemas=[schema], epsilon=report.epsilon, delta=report.delta)
        raise


def _account(report: Report, key: str, priced: Priced, ledger: Ledger) -> Account:
    """Return the account that pays for this run: the one that an earlier attempt opened, or a new one.

    The account is called NAME:KEY after the report's name and `key`, the name of the run. `priced` is the plan of all
    questions together, with the mechanism uses (runs of mechanisms) that the questions can spend at most. A new account
    is opened in `ledger` with these uses, and pays for nothing else.

    Raises: `InvalidParameter` if the earlier attempt under `key` opened its account with other uses or another dataset.
    """
    name, dataset = f"{report.name}:{key}", report.dataset or ""
    for known_as in report.known_as:
        ledger.check_pays(account=name, dataset=dataset, known_as=known_as)
    try:
        account = ledger.account(name)
    except UnknownAccount:
        ledger.open_setwise(name, priced.uses, delta=report.delta, dataset=dataset, unit=report.unit)
        return ledger.account(name)
    if (account.terms.uses, account.terms.dataset) != (priced.uses, dataset):
        registered = ", ".join(format_use(use) for use in account.terms.uses)
        raise InvalidParameter(
            f"the report is not the one that was run under the key {key!r}, which registered {registered}: "
            "give another key"
        )
    return account
