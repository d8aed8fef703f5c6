"""How accounts and entries are shown: JSON for programs, tables with bars for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from setwise.accounting.guarantees import Use, ZeroConcentratedDP
from setwise.accounting.notation import format_use, promise_in_words, rounded_down, rounded_up, shown_by
from setwise.cli.output import print_table

if TYPE_CHECKING:
    from setwise.ledger.joint import Joint
    from setwise.ledger.records import Entry
    from setwise.ledger.register import Record
    from setwise.ledger.status import AccountStatus

_BAR = 24


def _written(uses: Sequence[Use]) -> list[str]:
    return [format_use(use) for use in uses]


def left_in_words(status: "AccountStatus") -> str:
    """Return what is left: registered uses, or the largest single use of a filter with a few digits, rounded down."""
    written = []
    for use in status.left:
        match use.guarantee:
            case ZeroConcentratedDP(rho=rho, delta=delta) if status.kind != "setwise":
                written.append(f"zcdp:{rounded_down(rho, 4)},0,{rounded_down(delta, 4)}")
            case _:
                written.append(format_use(use))
    return "  ".join(written) or "nothing"


def _so_far(status: "AccountStatus") -> str:
    if not status.spent:
        return "nothing was drawn"
    odometer = status.odometer
    if odometer.upper > status.epsilon.upper:
        return f"epsilon {rounded_up(status.epsilon.upper)}, by the promise"
    return f"epsilon {rounded_up(odometer.upper)} ({odometer.method})"


def print_status(status: "AccountStatus") -> None:
    """Print how one account stands."""
    every = f" per {status.every}, now {status.period}" if status.every else ""
    rows = [
        ("account", f"{status.name} ({status.kind}{'' if status.state == 'open' else f', {status.state}'})"),
        ("analyst", status.analyst or "-"),
        ("dataset", status.dataset or "-"),
        ("promise", f"epsilon {rounded_up(status.epsilon.upper)} at delta {status.delta:g}{every}"),
        ("in words", promise_in_words(status.epsilon.upper, status.delta)),
        ("statement", shown_by(status.epsilon.statement)),
        *_left_rows(status),
        ("so far", _so_far(status)),
        ("charges", f"{status.charges:,}"),
    ]
    print_table("Account", rows)


def _left_rows(status: "AccountStatus") -> list[tuple[str, str]]:
    if status.kind != "setwise":
        return [("left", f"{_bar(status.share_left)} {status.share_left:.1%}, at most {left_in_words(status)}")]
    left = {use.guarantee: use.count for use in status.left}
    spent = {use.guarantee: use.count for use in status.spent}
    rows = []
    for guarantee in {**left, **spent}:
        rest, total = left.get(guarantee, 0), left.get(guarantee, 0) + spent.get(guarantee, 0)
        rows.append(("left", f"{_bar(rest / total)} {rest:,} of {total:,}  {format_use(Use(guarantee))}"))
    return rows


def _bar(share: float, width: int = _BAR) -> str:
    """Draw a share; a bar is empty only when nothing is left, and full only when all is."""
    import sys

    filled = min(max(round(share * width), 1 if share > 0 else 0), width if share >= 1 else width - 1)
    full, empty = ("█", "░") if (sys.stdout.encoding or "").lower().startswith("utf") else ("#", "-")
    return full * filled + empty * (width - filled)


def print_statuses(statuses: Sequence["AccountStatus"]) -> None:
    """Print how all accounts stand, a line each."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Accounts", title_justify="left", title_style="bold")
    for name in ("account", "dataset", "promise", "left"):
        table.add_column(name, overflow="fold")
    for name in ("so far", "charges"):
        table.add_column(name, justify="right")
    for status in statuses:
        every = f" per {status.every}" if status.every else ""
        table.add_row(
            f"{status.name} ({status.kind})",
            status.dataset,
            f"{rounded_up(status.epsilon.upper)} at {status.delta:g}{every}",
            f"{_bar(status.share_left, 10)} {status.share_left:.0%}",
            rounded_up(status.loss_so_far),
            f"{status.charges:,}",
        )
    Console(markup=False).print(table)


def print_entries(name: str, entries: Sequence["Entry"]) -> None:
    """Print entries, a line each: when, what was asked, what it drew or gave back."""
    from rich.console import Console
    from rich.table import Table

    from setwise.analytics.present.text import charge_in_words

    table = Table(title=f"History of {name}", title_justify="left", title_style="bold")
    table.add_column("entry", justify="right")
    for column in ("at (UTC)", "what", "key", "uses", "hash"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        contents = entry.contents
        uses = ", ".join(_written(entry.uses))
        shown = f"returned {uses}" if contents.kind == "settle" and uses else uses
        at = f"{entry.moment:%Y-%m-%d %H:%M:%S}"
        what = f"charge: {charge_in_words(contents.text)}" if contents.kind == "charge" else contents.kind
        if contents.kind == "slice":
            what = "slice of the cap"
        table.add_row(str(entry.position), at, what, contents.key, shown, entry.hash[:12])
    Console(markup=False).print(table)


def print_acts(records: Sequence["Record"]) -> None:
    """Print acts, a line each: when, what, by whom, to whom."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Acts", title_justify="left", title_style="bold")
    table.add_column("number", justify="right")
    for column in ("at (UTC)", "action", "by", "subject", "details"):
        table.add_column(column, overflow="fold")
    for record in records:
        act = record.act
        details = "" if act.kind == "head" else ", ".join(f"{name}: {value}" for name, value in act.details.items())
        at = f"{record.moment:%Y-%m-%d %H:%M:%S}"
        table.add_row(str(record.holder), at, act.action, act.by, act.subject, details)
    Console(markup=False).print(table)


def print_joint(joint: "Joint") -> None:
    """Print the joint promise of the accounts on a dataset."""
    promise = f"epsilon {rounded_up(joint.epsilon.upper)} at delta {joint.delta:g}"
    rows = [
        ("dataset", joint.dataset),
        ("accounts", ", ".join(joint.accounts)),
        ("together", f"{promise}, over {joint.periods} period(s) of each"),
        ("method", joint.epsilon.method),
        ("in words", promise_in_words(joint.epsilon.upper, joint.delta)),
        ("statement", shown_by(joint.epsilon.statement)),
    ]
    if joint.cap is not None:
        cap = joint.cap
        limit = f"epsilon {rounded_up(cap.epsilon.upper)} at delta {cap.delta:g}, for good"
        rows.append(("cap", f"{limit}; {_bar(cap.share_left)} {cap.share_left:.1%} left"))
    print_table("Joint promise", rows)
