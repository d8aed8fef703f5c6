"""`setwise run`: ask the questions of a report file, which lists a table, a budget and questions."""

import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.accounting.promises import epsilon_at_delta, rounded_up
from setwise.cli.options import ledger_url
from setwise.cli.output import AsJson, print_json, print_table
from setwise.cli.preview import PREVIEW_TITLE
from setwise.errors import InvalidParameter, SetwiseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from setwise.analytics.engines.joins import Join
    from setwise.analytics.planning.joint_pricing import Priced
    from setwise.analytics.tables.scan_notes import NullSum
    from setwise.reports.outputs import Answered
    from setwise.reports.report import Report
    from setwise.reports.run import ReportRun


def run(
    report: Annotated[str, typer.Argument(metavar="REPORT.toml", help="The report: a table, a budget and questions.")],
    key: Annotated[
        str | None,
        typer.Option(help="The key of this run, such as a date: the same key again replays its answers for free."),
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(metavar="URL", help="The ledger: the report's, $SETWISE_LEDGER, or ./setwise.db.")
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Say what each question gets and how far off it may be; free.")
    ] = False,
    scan: Annotated[
        bool,
        typer.Option(
            "--scan/--no-scan",
            help="Count the cells of CSV files that the questions will not read, and say so on standard error.",
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Ask the questions of a report file under one budget, divided among them beforehand, and write the answers."""
    from setwise.reports.report import read_report
    from setwise.reports.run import preview_report, run_report

    read = read_report(report)
    if key is None and not preview:
        raise InvalidParameter("give --key, such as the date: a run that is tried again under it costs nothing more")
    if scan:
        _note_unread_cells(read, free=preview)
    if preview or key is None:
        _show_preview(read, preview_report(read), as_json=as_json)
        return
    ran = run_report(
        read, key=key, ledger=ledger_url(ledger or read.ledger), step=lambda step: print(step, file=sys.stderr)
    )
    _show(ran, as_json=as_json)


def _note_unread_cells(report: "Report", *, free: bool) -> None:
    """Print to standard error how many cells of the columns in `report` cannot be parsed, and which options help.

    `free` is True for a preview.

    Raises: `UnsuitableTable` unless `free`, if so much would be skipped or misread that the answers would be of no use:
    for example, if at most half of a column's cells can be read, or if no key of a join meets a row.
    """
    from setwise.analytics.catalog import read_catalog
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.sql.parser import TableFacts, parse_sql
    from setwise.analytics.sql.syntax import table_names
    from setwise.analytics.tables.scan_notes import TableToScan
    from setwise.cli.holder_notes import joined_tables, note_unread_cells
    from setwise.cli.options import CSV_OPTIONS

    options, source, joinable, private = dict(report.options), report.table, {}, {}
    if "catalog" in options:
        catalog = read_catalog(options["catalog"])
        entry = catalog.table(report.table)
        options, source = {**entry.options, **options}, entry.source
        private = catalog.private_beside(report.table)
        joinable = {**catalog.public, **private}
    if options.get("engine", "duckdb") != "duckdb":
        return
    private |= options.get("private", {})
    joinable |= {**options.get("public", {}), **private}
    words = {name: options[name] for name in CSV_OPTIONS if name in options}
    for name in {"columns", "null"} & set(words):
        words[name] = tuple(words[name])
    types = options.get("types", {})
    first = TableToScan(
        source=source,
        csv=CsvOptions(**words),
        types=types,
        table_name=options.get("table"),
        user=report.user,
        remedy=' (in a report such options are entries at its top, as in encoding = "cp1252")',
    )
    texts: list[str] = []
    joined: dict[str, str] = {}
    joins: list[Sequence[Join]] = []
    sums: list[NullSum] = []
    facts = TableFacts(public=tuple(joinable.keys() - private.keys()), private=tuple(private))
    for question in report.questions:
        if question.select is None:
            texts.append(" ".join(str(value) for name, value in question.query.to_dict().items() if name != "kind"))
            continue
        text = question.select.text
        texts.append(text)
        with suppress(SetwiseError):  # the run says what is wrong with the statement
            joined |= {name: joinable[name] for name in table_names(text) if name in joinable}
            statement = parse_sql(text, user=report.user, facts=facts)
            joins += [core.source.joins for core in statement.cores]
            sums += statement.null_sums
    tables = joined_tables(joined, types, dict.fromkeys(private, report.user))
    note_unread_cells(first, tables, *texts, free=free, joins=joins, null_sums=sums)


def _show_preview(report: "Report", priced: "Priced", *, as_json: bool) -> None:
    from setwise.reports.outputs import joint_promise

    if as_json:
        plans = zip(report.questions, priced.totals, priced.plans, strict=True)
        print_json(
            {
                "epsilon": {"lower": priced.promise.lower, "upper": priced.promise.upper},
                "delta": report.delta,
                "questions": {
                    question.name: {"total": total.to_dict(), **plan.to_dict()} for question, total, plan in plans
                },
            }
        )
        return
    rows = [
        ("promise", joint_promise(report, priced)),
        ("together", f"{epsilon_at_delta(priced.promise.upper, report.delta, 4)}, set-wise"),
    ]
    for question, total, plan in zip(report.questions, priced.totals, priced.plans, strict=True):
        budget = f"epsilon {rounded_up(float(total.epsilon), 3)}, delta {rounded_up(float(total.delta), 3)}"
        alone = f"{budget}, by itself {rounded_up(plan.epsilon.upper, 3)}"
        rows.append((question.name, f"{plan.accuracy.text}. {plan.mechanism}: {alone}"))
    print_table(PREVIEW_TITLE, rows)


def _show(ran: "ReportRun", *, as_json: bool) -> None:
    from setwise.reports.outputs import joint_promise, shown_destination

    if as_json:
        print_json(ran.to_dict())
        return
    for question in ran.report.questions:
        _print_answer(question.title or question.name, ran.answers[question.name], question.query.groups)
    rows = [
        ("promise", joint_promise(ran.report, ran.priced)),
        ("cost", f"{epsilon_at_delta(ran.priced.promise.upper, ran.report.delta, 4)} for all together{_stored(ran)}"),
    ]
    for question in ran.report.questions:
        pages = [place for place in (ran.report.html, ran.report.json) if place is not None]
        places = [*(shown_destination(place) for place in question.to), *pages]
        rows.append((question.name, _rows_in_words(ran.answers[question.name], places)))
    rows += [("page", ran.report.html)] if ran.report.html else []
    print_table(f"{ran.report.title}, {ran.key}", rows)


_MOST_ROWS = 10
"""The most rows of each answer that are printed; the files have all."""


def _print_answer(name: str, answer: "Answered", groups: "Sequence[str]") -> None:
    """Print the first rows of `answer` as a table under `name`; `groups` are the names of its group columns."""
    from rich.console import Console

    from setwise.analytics.answer import PrivateAnswer
    from setwise.cli.output import answer_table, sql_table

    console = Console()
    console.print(name, markup=False, highlight=False, style="bold")
    if isinstance(answer, PrivateAnswer):
        first = replace(answer, items=answer.items[:_MOST_ROWS], groups=answer.groups or tuple(groups))
        console.print(answer_table(first, console.width))
        explained = first.summary
    else:
        console.print(sql_table(answer, console.width, most=_MOST_ROWS))
        explained = answer.summary
    if len(answer) > _MOST_ROWS:
        left = len(answer) - _MOST_ROWS
        console.print(f"and {left:,} more: the same command with --json prints all, at no cost", highlight=False)
    console.print(f"{explained}\n", markup=False, highlight=False, style="dim")


def _stored(ran: "ReportRun") -> str:
    """Return a phrase that says how many answers of the report run `ran` were stored by an earlier run.

    The earlier run had the same key, so that these answers cost nothing now. Returns "" if there are none.
    """
    stored = len(ran.answers) - ran.charged
    if stored <= 0:
        return ""
    if ran.charged == 0:
        return (
            f", charged before: nothing was charged now, and the answers stored under the key {ran.key!r} are shown; "
            "a new key asks the table as it is now"
        )
    answers = "1 answer was" if stored == 1 else f"{stored} answers were"
    return f"; {answers} stored by an earlier run with this key, and cost nothing now"


def _rows_in_words(answer: "Answered", places: "Sequence[str]") -> str:
    """Return a sentence that says how many rows `answer` has, why there are no more, and where they were written.

    `places` are the names of the files, tables and pages that have the rows; empty if there are none.
    """
    from setwise.analytics.answer import PrivateAnswer

    private = answer if isinstance(answer, PrivateAnswer) else answer.answer
    rows = "1 row" if len(answer) == 1 else f"{len(answer):,} rows"
    ending = "" if private.complete else f" ({private.reason})"
    return f"{rows}{ending}, " + (f"written to {', '.join(places)}" if places else "printed above")
