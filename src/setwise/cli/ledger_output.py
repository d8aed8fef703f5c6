"""How accounts and entries are shown: JSON for programs, tables with bars for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from setwise.accounting.guarantees import Use, ZeroConcentratedDP
from setwise.accounting.notation import format_use, rounded_down, rounded_up
from setwise.cli.output import print_table

if TYPE_CHECKING:
    from setwise.accounting.answer import Answer
    from setwise.ledger.joint import Joint
    from setwise.ledger.records import Entry
    from setwise.ledger.status import Standing

_BAR = 24


def _ends(answer: "Answer") -> dict[str, float]:
    return {"lower": answer.lower, "upper": answer.upper}


def _written(uses: Sequence[Use]) -> list[str]:
    return [format_use(use) for use in uses]


def left_in_words(standing: "Standing") -> str:
    """Return what is left: registered uses, or the largest single use of a filter with a few digits, rounded down."""
    written = []
    for use in standing.left:
        match use.guarantee:
            case ZeroConcentratedDP(rho=rho, delta=delta) if standing.kind != "setwise":
                written.append(f"zcdp:{rounded_down(rho, 4)},0,{rounded_down(delta, 4)}")
            case _:
                written.append(format_use(use))
    return "  ".join(written) or "nothing"


def standing_json(standing: "Standing") -> dict[str, object]:
    """Return the object that `ledger show --json` prints: a contract."""
    return {
        "account": standing.name,
        "kind": standing.kind,
        "analyst": standing.analyst,
        "dataset": standing.dataset,
        "epsilon": _ends(standing.epsilon),
        "delta": standing.delta,
        "method": standing.epsilon.method,
        "statement": standing.epsilon.statement,
        "left": _written(standing.left),
        "spent": _written(standing.spent),
        "odometer": _ends(standing.odometer),
        "charges": standing.charges,
        "every": standing.every,
        "period": standing.period or None,
    }


def print_standing(standing: "Standing") -> None:
    """Print how one account stands."""
    every = f" per {standing.every}, now {standing.period}" if standing.every else ""
    odometer = standing.odometer
    worth = f"{rounded_up(odometer.upper)} ({odometer.method})" if standing.spent else "nothing was drawn"
    rows = [
        ("account", f"{standing.name} ({standing.kind})"),
        ("analyst", standing.analyst or "-"),
        ("dataset", standing.dataset or "-"),
        ("promise", f"epsilon {rounded_up(standing.epsilon.upper)} at delta {standing.delta:g}{every}"),
        ("statement", standing.epsilon.statement),
        *_left_rows(standing),
        ("so far", f"epsilon {worth}" if standing.spent else worth),
        ("charges", f"{standing.charges:,}"),
    ]
    print_table("Account", rows)


def _left_rows(standing: "Standing") -> list[tuple[str, str]]:
    if standing.kind != "setwise":
        return [("left", f"{_bar(standing.share_left)} {standing.share_left:.1%}, at most {left_in_words(standing)}")]
    left = {use.guarantee: use.count for use in standing.left}
    spent = {use.guarantee: use.count for use in standing.spent}
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


def print_standings(standings: Sequence["Standing"]) -> None:
    """Print how all accounts stand, a line each."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Accounts", title_justify="left", title_style="bold")
    for name in ("account", "dataset", "promise", "left"):
        table.add_column(name, overflow="fold")
    for name in ("so far", "charges"):
        table.add_column(name, justify="right")
    for standing in standings:
        every = f" per {standing.every}" if standing.every else ""
        table.add_row(
            f"{standing.name} ({standing.kind})",
            standing.dataset,
            f"{rounded_up(standing.epsilon.upper)} at {standing.delta:g}{every}",
            f"{_bar(standing.share_left, 10)} {standing.share_left:.0%}",
            rounded_up(standing.odometer.upper),
            f"{standing.charges:,}",
        )
    Console(markup=False).print(table)


def entry_json(entry: "Entry") -> dict[str, object]:
    """Return an entry as `ledger history --json` prints it; `text` is the request of a charge, or the answer."""
    contents = entry.contents
    return {
        "entry": entry.position,
        "at": entry.moment.isoformat(),
        "kind": contents.kind,
        "key": contents.key,
        "period": contents.period or None,
        "uses": _written(entry.uses),
        "text": contents.text,
        "hash": entry.hash,
    }


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
        table.add_row(str(entry.position), at, what, contents.key, shown, entry.hash[:12])
    Console(markup=False).print(table)


def joint_json(joint: "Joint") -> dict[str, object]:
    """Return the joint promise as `ledger joint --json` prints it."""
    return {
        "dataset": joint.dataset,
        "accounts": list(joint.accounts),
        "periods": joint.periods,
        "epsilon": _ends(joint.epsilon),
        "delta": joint.delta,
        "method": joint.epsilon.method,
        "statement": joint.epsilon.statement,
        "cap": None if joint.cap is None else standing_json(joint.cap),
    }


def print_joint(joint: "Joint") -> None:
    """Print the joint promise of the accounts on a dataset."""
    promise = f"epsilon {rounded_up(joint.epsilon.upper)} at delta {joint.delta:g}"
    rows = [
        ("dataset", joint.dataset),
        ("accounts", ", ".join(joint.accounts)),
        ("together", f"{promise}, over {joint.periods} period(s) of each"),
        ("method", joint.epsilon.method),
        ("statement", joint.epsilon.statement),
    ]
    if joint.cap is not None:
        cap = joint.cap
        limit = f"epsilon {rounded_up(cap.epsilon.upper)} at delta {cap.delta:g}, for good"
        rows.append(("cap", f"{limit}; {_bar(cap.share_left)} {cap.share_left:.1%} left"))
    print_table("Joint promise", rows)
