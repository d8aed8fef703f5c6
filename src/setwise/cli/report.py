"""`setwise run`: a report from a file."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.accounting.notation import rounded_up
from setwise.cli.options import ledger_url
from setwise.cli.output import AsJson, print_json, print_table
from setwise.errors import InvalidParameter

if TYPE_CHECKING:
    from setwise.analytics.pricing import Priced
    from setwise.reports.report import Report
    from setwise.reports.run import Ran


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
    as_json: AsJson = False,
) -> None:
    """Ask several questions under one budget, priced together before the first, and write the answers."""
    from setwise.reports.report import read_report
    from setwise.reports.run import preview_report, run_report

    read = read_report(report)
    if preview:
        _show_preview(read, preview_report(read), as_json=as_json)
        return
    if key is None:
        raise InvalidParameter("give --key, such as the date: a run that is tried again under it costs nothing more")
    ran = run_report(
        read, key=key, ledger=ledger_url(ledger or read.ledger), step=lambda what: print(what, file=sys.stderr)
    )
    _show(ran, as_json=as_json)


def _show_preview(report: "Report", priced: "Priced", *, as_json: bool) -> None:
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
    rows = [("together", f"epsilon {rounded_up(priced.promise.upper, 4)} at delta {report.delta:g}, set-wise")]
    for question, total, plan in zip(report.questions, priced.totals, priced.plans, strict=True):
        radius = plan.error.radius
        within = "" if radius is None else f"; counts within ±{radius:,}"
        budget = f"epsilon {float(total.epsilon):.3g}, delta {float(total.delta):.3g}"
        alone = f"{budget}, by itself {rounded_up(plan.epsilon.upper, 3)}"
        rows.append((question.name, f"{plan.mechanism}: {alone}{within}"))
    print_table("Preview: nothing was read or charged", rows)


def _show(ran: "Ran", *, as_json: bool) -> None:
    from setwise.reports.outputs import without_password

    if as_json:
        print_json(ran.to_dict())
        return
    rows = [
        ("promise", f"epsilon {rounded_up(ran.priced.promise.upper, 4)} at delta {ran.report.delta:g} for all together")
    ]
    places = {question.name: ", ".join(map(without_password, question.to)) or "-" for question in ran.report.questions}
    rows += [(name, f"{len(answer)} rows to {places[name]}") for name, answer in ran.answers.items()]
    rows += [("page", ran.report.html)] if ran.report.html else []
    print_table(f"{ran.report.title}, {ran.key}", rows)
