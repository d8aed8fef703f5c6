"""Output of `setwise ledger`: the balances of accounts, their entries, audit events, and joint promises.

A joint promise is the (epsilon, delta) of all accounts on a dataset together. Everything is printed as a table for
people, and a single balance also as JSON.
"""

import sys
from collections.abc import Sequence
from itertools import chain, count
from shlex import join, quote
from typing import TYPE_CHECKING

from setwise.accounting.guarantees import Use
from setwise.accounting.notation import format_use, shown_by
from setwise.accounting.promises import USER, epsilon_at_delta, rounded_down, rounded_up
from setwise.cli.output import budget_left_in_words, epsilon_left_in_words, print_json, print_lines, print_table

if TYPE_CHECKING:
    from setwise.ledger.ledger import Ledger
    from setwise.ledger.records import Entry
    from setwise.ledger.register import Record
    from setwise.ledger.status import AccountStatus, Joint

_BAR = 24
"""The width of the bar of an account's balance, in characters."""


def _more_in_words(count: int) -> str:
    """Return a phrase that says that the remaining budget pays for `count` more questions like the last one asked."""
    if not count:
        return "no other question like the last one fits"
    return f"{count:,} more question{'' if count == 1 else 's'} like the last one fit{'s' if count == 1 else ''}"


def _loss_so_far(status: "AccountStatus") -> str:
    """Return in words how much all answers so far reveal, for the account with this `status`.

    The text states bounds on the epsilon spent so far, which the account computes from its charges:
    - a bound that holds if no further question is asked;
    - a bound that holds at all times, also if the answers so far decide which question is asked next. This bound is
      left out if it is above the epsilon that the account promises.

    If even the first bound is above the promised epsilon, the text states the promised epsilon alone. It then says that
    this epsilon includes what is left, because otherwise nothing would seem to be left.
    """
    if not status.spent:
        return "nothing was drawn"
    odometer = status.odometer
    if odometer.upper > status.epsilon.upper:
        return f"at most epsilon {rounded_up(status.epsilon.upper)}, the promise, which includes what is left"
    stopped = f"epsilon {rounded_up(odometer.upper, 4)} if the questions stop here"
    path = status.path_odometer.upper
    if path > status.epsilon.upper:  # then it says less than the promise does
        return stopped
    return f"{stopped}; the privacy loss is at most {rounded_up(path, 4)}, except with a chance of delta"


def print_status(status: "AccountStatus", *, as_json: bool) -> None:
    """Print what the account with this `status` promises, has spent and has left, as a table or as JSON (`as_json`)."""
    if as_json:
        print_json(status.to_dict())
        return
    every = f" per {status.every}, now {status.period}" if status.every else ""
    rows = [
        ("account", f"{status.name} ({status.kind}{'' if status.state == 'open' else f', {status.state}'})"),
        *_left_rows(status),
        ("so far", _loss_so_far(status)),
        ("analyst", status.analyst or "-"),
        ("dataset", status.dataset or "-"),
        ("promise", f"{epsilon_at_delta(status.epsilon.upper, status.delta)}{every}"),
        ("in words", status.promise),
        ("statement", shown_by(status.epsilon.statement)),
        ("charges", f"{status.charges:,}"),
    ]
    print_table("Account", rows)


def account_advice(ledger: "Ledger", dataset: str, address: str = "", unit: str = USER) -> str:
    """Return what to paste so that an account of `dataset` pays: its option, or the command that opens one.

    If the dataset has open accounts with an (epsilon, delta) budget, this is --account with the names of some. Accounts
    of registered mechanisms, such as that of a live series, are left out, because they refuse a question that states an
    epsilon. If no account is left, it is a `setwise ledger open` command, with a name that no account has.

    - `address` is that of the ledger, if it is not the default. A password in it is left out of the command.
    - `unit` is the unit of privacy of the new account. If it is "user", but the cap (joint budget) or accounts of the
      dataset protect another unit, it is that unit.
    """
    names = sorted(ledger.names_of_data(dataset))
    statuses = [status for name in names for status in ledger.accounts(dataset=name)]
    usable = [status.name for status in statuses if status.state == "open" and status.kind == "filter"]
    if usable:
        return f"write: {' or '.join(f'--account {quote(name)}' for name in usable[:_SHOWN])}"
    cap = ledger.cap(dataset)
    units = {unit, *(status.unit for status in statuses), USER if cap is None else cap.unit} - {USER}
    account = _free_name(ledger, f"{dataset}-account", f"{dataset}-account")
    command = _opening_command(account, "1", "1e-6", dataset, min(units) if units else USER, address)
    return f"ask with --account {quote(account)} after you open it; write: {command}"


def _free_name(ledger: "Ledger", name: str, stem: str) -> str:
    """Return `name` if no account of the ledger has it, otherwise the first free name of `stem` and a number from 2."""
    taken = {status.name for status in ledger.accounts()}
    return next(free for free in chain([name], (f"{stem}{number}" for number in count(2))) if free not in taken)


def _opening_command(account: str, epsilon: str, delta: str, dataset: str, unit: str, address: str) -> str:
    """Return the `setwise ledger open` command that opens `account` with the budget (`epsilon`, `delta`).

    `dataset` is "" for an account on any data, `unit` is the unit of privacy, and `address` that of the ledger, or "".
    """
    from setwise.cli.refusals import without_passwords

    words = ["setwise", "ledger", "open", account, "--filter", "--epsilon", epsilon, "--delta", delta]
    words += ["--dataset", dataset] if dataset else []
    words += ["--unit", unit] if unit != USER else []
    words += ["--ledger", *without_passwords([address])] if address else []
    return join(words)


_NEARLY_EMPTY = 0.05
"""The share of an account's epsilon below which a refusal also says how to open another account."""


def another_account(ledger: "Ledger", status: "AccountStatus", address: str = "") -> tuple[str, str] | None:
    """Return (name, command) of a further account like the one with this `status`, if that is nearly empty; or None.

    The command opens an account with the same promise, period, dataset and unit of privacy. The result is None if the
    account has more than a twentieth of its epsilon left, is not open, or pays with registered uses, or if its dataset
    has a cap, which a further account would share. `address` is that of the ledger, if it is not the default.
    """
    left, promised = status.epsilon_left, status.epsilon.upper
    if left is None or status.state != "open" or left > _NEARLY_EMPTY * promised:
        return None
    if status.dataset and ledger.cap(status.dataset) is not None:
        return None
    name = _free_name(ledger, f"{status.name}-2", f"{status.name}-")
    epsilon, delta = rounded_up(promised), rounded_up(status.delta)
    command = _opening_command(name, epsilon, delta, status.dataset, status.unit, address)
    return name, f"{command} --period {status.every}" if status.every else command


def shut_out_note(ledger: "Ledger", account: str, dataset: str) -> str:
    """Return a note for the holder of `account`, the first account for `dataset`: which accounts no longer pay for it.

    Accounts that were opened for no dataset may pay for any data, but only until an account is opened for the dataset
    of these data. The result is "" if there are no accounts without a dataset, or if the ledger has accounts for the
    dataset already.
    """
    named = shut_out_names(ledger, dataset)
    return named and (
        f"questions about {dataset} are now paid by accounts that were opened for it only, and no longer by {named}: "
        f"ask them with --account {quote(account)}"
    )


def shut_out_names(ledger: "Ledger", dataset: str) -> str:
    """Return the names of the accounts that stop paying for `dataset` once its first account is opened, or "".

    These are the open accounts that were opened for no dataset. Only a few names are returned, and the number of
    others. The result is "" also if the ledger has accounts for the dataset already.
    """
    if not dataset or ledger.accounts(dataset=dataset, most=1):
        return ""
    others = [status.name for status in ledger.accounts(dataset="") if status.state == "open"]
    more = f" and {len(others) - _SHOWN:,} more" if len(others) > _SHOWN else ""
    return ", ".join(others[:_SHOWN]) + more


_SHOWN = 3
"""The most accounts that a message names."""


def _left_rows(status: "AccountStatus") -> list[tuple[str, str]]:
    if status.epsilon_left is not None:
        fitting = f"; {_more_in_words(status.more_like_last)}" if status.more_like_last is not None else ""
        return [("left", f"{_balance_bar(status)} {budget_left_in_words(status)}{fitting}")]
    remaining_counts = {use.guarantee: use.count for use in status.left}
    spent = {use.guarantee: use.count for use in status.spent}
    rows = []
    for guarantee in {**remaining_counts, **spent}:
        remaining, total = (
            remaining_counts.get(guarantee, 0),
            remaining_counts.get(guarantee, 0) + spent.get(guarantee, 0),
        )
        rows.append(("left", f"{_bar(remaining / total)} {remaining:,} of {total:,}  {format_use(Use(guarantee))}"))
    return rows


def _remaining_in_brief(status: "AccountStatus") -> str:
    """Return the remaining budget of the account with this `status` as short text, for a line in a list of accounts.

    For an account with an (epsilon, delta) budget, the text is the remaining epsilon, as in "2.8 of 3". For an account
    that pays with uses (runs of mechanisms) that were registered when it was opened, the text is the percentage of
    these uses that is left.
    """
    return f"{status.share_left:.0%}" if status.epsilon_left is None else epsilon_left_in_words(status)


def _bar(share: float, width: int = _BAR) -> str:
    """Return a text bar of `width` characters whose filled part shows `share`, a number between 0 and 1.

    The bar is empty only for 0 and full only for 1.
    """
    filled = min(max(round(share * width), 1 if share > 0 else 0), width if share >= 1 else width - 1)
    full, empty = ("█", "░") if (sys.stdout.encoding or "").lower().startswith("utf") else ("#", "-")
    return full * filled + empty * (width - filled)


def _balance_bar(status: "AccountStatus", width: int = _BAR) -> str:
    """Return a bar of what the account with this `status` has left, which is empty if its epsilon is shown as 0."""
    is_empty = status.epsilon_left is not None and float(rounded_down(status.epsilon_left, 2)) == 0
    return _bar(0.0 if is_empty else status.share_left, width)


def print_statuses(statuses: Sequence["AccountStatus"]) -> None:
    """Print a table with one line per account of `statuses`.

    A line has the account's promise, what is left of its budget, the privacy loss so far, and the number of charges.
    """
    columns = ("account", "dataset", "promise", "left", "so far", "charges")
    rows = (
        (
            f"{status.name} ({status.kind})",
            status.dataset,
            f"{rounded_up(status.epsilon.upper)} at {rounded_up(status.delta)}"
            f"{f' per {status.every}' if status.every else ''}",
            f"{_balance_bar(status, 10)} {_remaining_in_brief(status)}",
            rounded_up(status.loss_so_far, 4),
            f"{status.charges:,}",
        )
        for status in statuses
    )
    print_lines("Accounts", columns, rows, numbers=("so far", "charges"))


def print_entries(name: str, entries: Sequence["Entry"]) -> None:
    """Print the ledger's `entries` of the account `name`, one line each.

    A line has the entry's position, its time and its action (for a charge: the question). The line also has the
    idempotency key, the mechanism uses (runs of mechanisms) that were charged or returned, and the beginning of the
    entry's hash.
    """
    from setwise.analytics.present.text import charge_in_words

    rows = []
    for entry in entries:
        contents = entry.contents
        uses = ", ".join(map(format_use, entry.uses))
        uses_text = f"returned {uses}" if contents.kind == "settle" and uses else uses
        action = f"charge: {charge_in_words(contents.text)}" if contents.kind == "charge" else contents.kind
        if contents.kind == "slice":
            action = "slice of the cap"
        at = f"{entry.moment:%Y-%m-%d %H:%M:%S}"
        rows.append((str(entry.position), at, action, contents.key, uses_text, entry.hash[:12]))
    print_lines(f"History of {name}", ("entry", "at (UTC)", "what", "key", "uses", "hash"), rows, numbers=("entry",))


def print_acts(records: Sequence["Record"]) -> None:
    """Print `records`, events of the audit log, one line each.

    The events are what stewards and administrators did, such as freezing an account. A line has the time, the action,
    who did it, what it was done to, and details.
    """
    rows = []
    for record in records:
        act = record.event
        details = "" if act.kind == "head" else ", ".join(f"{name}: {value}" for name, value in act.details.items())
        at = f"{record.moment:%Y-%m-%d %H:%M:%S}"
        rows.append((str(record.holder), at, act.action, act.by, act.subject, details))
    columns = ("number", "at (UTC)", "action", "by", "subject", "details")
    print_lines("Acts", columns, rows, numbers=("number",))


def print_joint(joint: "Joint") -> None:
    """Print the joint (epsilon, delta) of all accounts on a dataset.

    If the dataset has a cap (a budget that all its accounts share), the cap is printed too.
    """
    promise = epsilon_at_delta(joint.epsilon.upper, joint.delta)
    rows = [
        ("dataset", joint.dataset),
        ("accounts", ", ".join(joint.accounts)),
        ("together", f"{promise}, over {joint.periods} period(s) of each"),
        ("method", joint.epsilon.method),
        ("in words", joint.promise),
        ("statement", shown_by(joint.epsilon.statement)),
    ]
    if joint.cap is not None:
        cap = joint.cap
        limit = f"{epsilon_at_delta(cap.epsilon.upper, cap.delta)}, for good"
        rows.append(("cap", f"{limit}; {_bar(cap.share_left)} {cap.share_left:.1%} left"))
    print_table("Joint promise", rows)
