"""`setwise live`: series of user counts that are released period by period, such as daily, after a single charge."""

import inspect
import math
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from setwise.cli import options, output
from setwise.cli.account_output import account_advice, shut_out_names
from setwise.cli.ledger import DEFAULT_LEDGER, LedgerUrl, existing_ledger, open_ledger
from setwise.cli.options import CSV_OPTIONS, column_kinds, csv_words
from setwise.cli.output import AsJson
from setwise.errors import InvalidParameter

if TYPE_CHECKING:
    from setwise.live.series import LiveSeries
    from setwise.live.view import SeriesView

live_app = typer.Typer(
    help="Count users so far, and new ones, per item and day, week or month: one charge when opened, updates cost "
    "nothing more. Users active in each month are asked with setwise sql, by DATE_TRUNC('month', at).",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,  # the group above has it
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the series.")]
Engine = Annotated[
    str | None,
    typer.Option("--engine", help="The address of the table's server, needed again where it has a password."),
]
State = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Where the private state of the series is, if it was moved since the opening."),
]


def open_series(**arguments: Any) -> None:  # noqa: ANN401 - each of its own type, as declared
    """Open a series of user counts and charge it once for all of its periods; print how close its numbers will be."""
    from setwise.analytics.engines.connect import location_of
    from setwise.live.series import open_live

    as_json, preview = arguments.pop("as_json"), arguments.pop("preview")
    source: dict[str, Any] = csv_words({name: arguments.pop(name) for name in CSV_OPTIONS})
    types = {name: str(kind) for name, kind in column_kinds(arguments.pop("types") or ()).items()}
    source |= {
        "engine": arguments.pop("engine"),
        "table": arguments.pop("table_name"),
        "memory": arguments.pop("memory"),
    }
    source |= {"types": types or None}
    defaults = {"encoding": "utf-8", "skip_lines": 0, "quote": '"'}
    source = {name: value for name, value in source.items() if value is not None and value != defaults.get(name)}
    arguments["late_days"] = arguments.pop("late")
    address = arguments.pop("ledger")
    with open_ledger(options.ledger_url(address)) as ledger:
        dataset, named = "", ""
        if arguments["account"] is None:
            location = location_of(arguments["table"], source.get("engine") or "duckdb", source.get("table"))
            dataset = arguments["dataset"] or location.name
            named = shut_out_names(ledger, dataset)
        series = open_live(ledger, **arguments, source=source, preview=preview)
        if named:
            advice = account_advice(ledger, dataset, address or "", series.terms.unit)
            print(
                f"note: the series' own account is for {dataset}, and from its opening on only accounts for {dataset} "
                f"pay for other questions about {dataset}, no longer {named}; {advice}",
                file=sys.stderr,
            )
        _show_opening(series, as_json=as_json, preview=preview)


def _show_opening(series: "LiveSeries", *, as_json: bool, preview: bool) -> None:
    from setwise.accounting.notation import format_use
    from setwise.accounting.promises import promise_for_unit
    from setwise.live.view import accuracy_in_words
    from setwise.mechanisms.intervals import CONFIDENCE

    terms, totals = series.terms, series.totals
    epsilon, delta = series.promise()
    if as_json:
        shown = None if totals.failure is None else math.ceil(totals.thresholds()[-1])
        output.print_json(
            {
                "name": terms.name,
                "account": series.opening.account,
                "state": series.opening.state,
                "epsilon": {"lower": epsilon.lower, "upper": epsilon.upper},
                "delta": delta,
                "spent": [format_use(use) for use in totals.uses()],
                "within": math.ceil(totals.radii(CONFIDENCE)[-1]),
                "shown_from": shown,
                "matrix": str(terms.shape()),
                "opened": not preview,
            }
        )
        return
    every = f"{terms.periods} {terms.every}s from {terms.start} to {terms.calendar.end} (not included)"
    output.print_table(
        f"{'Preview of' if preview else 'Opened'} {terms.name}",
        [
            ("promise", promise_for_unit(terms.unit, epsilon.upper, delta)),
            ("periods", every),
            ("accuracy", accuracy_in_words(terms, totals)),
            ("matrix", f"{terms.shape()}, the least error for {terms.purpose}"),
            ("charged", "  ".join(format_use(use) for use in totals.uses()) + f" to {series.opening.account}"),
            ("state", f"{series.opening.state} (private: keep it, without it the series ends)"),
        ],
    )


@live_app.command()
def update(
    name: Name,
    until: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="Release the periods that ended before this day; today (UTC) if left out."),
    ] = None,
    engine: Engine = None,
    state: State = None,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """Release the counts of every period that has ended and is not released yet; safe to repeat."""
    from setwise.live.series import find_live

    with existing_ledger(ledger) as opened:
        released = find_live(opened, name).update(until=until, engine=engine, state=state)
    if as_json:
        output.print_json({"name": name, "released": list(released)})
    elif released:
        print(f"{name}: released {len(released)} period(s), {released[0]} to {released[-1]}; nothing was charged")
    else:
        print(f"{name}: nothing to release yet")


@live_app.command()
def show(
    name: Name,
    item: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="Show this item only; may be repeated.")
    ] = None,
    window: Annotated[
        int | None, typer.Option(metavar="N", help="Show the new users of the last N periods, instead of totals.")
    ] = None,
    top: Annotated[
        int | None, typer.Option("--top", metavar="K", help="Show the K largest items of the last period, or of --on.")
    ] = None,
    on: Annotated[str | None, typer.Option(metavar="DATE", help="A day of the period by which --top ranks.")] = None,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a line for each item and period as CSV.")] = False,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw lines with bands into a .png or .svg file.")
    ] = None,
) -> None:
    """Show the released counts of a series and their intervals, as running totals or windows; reads nothing private."""
    from setwise.live.series import find_live

    if as_json and as_csv:
        raise InvalidParameter("give either --json or --csv, not both")
    if plot is not None:
        from setwise.analytics.present.plot import check_picture

        check_picture(plot)
    with existing_ledger(ledger) as opened:
        view = find_live(opened, name).view(window=window, items=item or ())
    if top is not None or on is not None:
        view = view.largest(10 if top is None else top, on)
    if plot is not None:
        view.picture().save(plot)
    if as_json:
        print(view.to_json())
    elif as_csv:
        print(view.to_csv(), end="")
    else:
        _print_view(view, on)


_SHOWN_ITEMS = 30
"""The most items that are printed as a table."""


def _print_view(view: "SeriesView", on: str | None) -> None:
    """Print the counts and intervals of the 30 largest items in one period, and the series' privacy guarantee.

    `view` has the released numbers of a live series, which counts users period by period. The period is the one that
    has the day `on`, or the last released period if `on` is None.
    """
    if not view.periods:
        print(
            f"{view.name}: no period was released yet; setwise live update {view.name} releases those that have ended"
        )
        return
    place = view.place_of(on)
    period = view.periods[place]
    rows = [
        (str(line.item), f"{line.values[place]:,} ({line.intervals[place][0]:,} to {line.intervals[place][1]:,})")
        for line in view.top(_SHOWN_ITEMS, period)
    ]
    output.print_table(f"{view.name}: {view.measure}; {view.every} of {period}", rows)
    hidden = len(view.lines) - len(rows)
    if hidden:
        print(f"{hidden} more item(s): --csv or --json has all")
    print(" ".join(filter(None, (view.left_out, view.confidence_note()))))
    print(f"{len(view.periods)} period(s) were released, {view.remaining} remain. {view.promise()}")


@live_app.command()
def close(
    name: Name,
    engine: Engine = None,
    state: State = None,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """End a series of counts for good and delete its private state; the released counts stay."""
    from setwise.live.series import find_live

    with existing_ledger(ledger) as opened:
        find_live(opened, name).close(engine=engine, state=state)
    if as_json:
        output.print_json({"name": name, "closed": True})
    else:
        print(f"{name}: closed; its state was removed, and setwise live show {name} still shows what was released")


_READING = ("engine", "table_name", "types", *CSV_OPTIONS, "memory", "dataset", "ledger", "as_json", "preview")
"""The options of questions that `live open` takes as well."""


def _required_option(name: str, metavar: str, text: str, kind: type = str) -> inspect.Parameter:
    return options.option(name, kind, typer.Option(metavar=metavar, help=text), options.NEEDED)


def _optional(name: str, metavar: str, text: str, kind: Any = str, default: Any = None) -> inspect.Parameter:  # noqa: ANN401
    return options.option(name, kind | None, typer.Option(metavar=metavar, help=text), default)


open_series.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        options.option("name", str, typer.Argument(metavar="NAME", help="The name of the series."), options.NEEDED),
        options.SHARED["table"],
        options.SHARED["user"],
        _required_option("item", "COL", "The column whose values are the items, or bins of one."),
        _required_option(
            "at", "COL", "The column of the time of an event: a date or a timestamp; instants count in UTC."
        ),
        _required_option("every", "day|week|month", "How long a period is."),
        _required_option("start", "DATE", "The first day of the first period; earlier rows do not count."),
        _required_option("periods", "N", "How many periods the series has.", int),
        _required_option(
            "contributions", "N", "How many items one user counts towards: the first in order of time.", int
        ),
        _optional("epsilon", "EPSILON", "The epsilon of the whole series, from its first to its last period.", float),
        _optional("delta", "DELTA", "Its delta; with --counts, that of the threshold of private items.", float),
        _optional("account", "NAME", "The account that pays, instead of one that is opened for the series."),
        _optional("counts", "MECH", "With --account, what the series draws, such as gaussian:20."),
        _optional(
            "purpose",
            "totals|periods|windows",
            "What the numbers are wanted for: the noise is shaped for the least error of that.",
            default="totals",
        ),
        _optional("window", "N", "With --purpose windows, how many periods a window spans.", int),
        _optional("where", "FILTER", "Count rows for which this holds, as in \"country = 'NO'\"."),
        _optional("domain", "FILE", "The items, if they are public; without it an item is shown when enough have it."),
        _optional(
            "unit",
            "user|user,day",
            "What is protected: each user, or only each single day of a user, which protects far less.",
            default="user",
        ),
        _optional("late", "DAYS", "How many days back an update looks for late events; 7 if left out.", int),
        _optional("state", "FILE", "Where the private state is: ./NAME.live.db, or beside the data in a database."),
        *(options.SHARED[name] for name in _READING),
    ]
)
live_app.command(name="open")(open_series)
