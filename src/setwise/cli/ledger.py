"""`setwise ledger`: open accounts, show their balances, and verify that no ledger entry was changed afterwards."""

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from setwise.cli import account_output, output
from setwise.cli.advice.running_command import command_words
from setwise.cli.output import AsJson
from setwise.errors import InvalidParameter, StoreFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Table

    from setwise.ledger.audit.heads import HeadFile
    from setwise.ledger.ledger import Ledger

ledger_app = typer.Typer(
    help="Open accounts, see how they stand, and prove what happened.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,  # the group above has it
)

LedgerUrl = Annotated[
    str,
    typer.Option(
        "--ledger",
        envvar="SETWISE_LEDGER",
        metavar="URL",
        help="The ledger: the path of a SQLite file, or postgresql://user@host/database.",
    ),
]
DEFAULT_LEDGER = "setwise.db"
"""The SQLite file that is the ledger if neither --ledger nor $SETWISE_LEDGER is given."""
Name = Annotated[str, typer.Argument(metavar="NAME", help="The account's name.")]
Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="The dataset's name.")]
FailureShare = Annotated[
    float | None, typer.Option(help="The share of delta set aside for outright failures (approx uses, thresholds).")
]


def open_ledger(url: str) -> "Ledger":
    """Open the ledger at `url`, and create it if it does not exist."""
    from setwise.ledger.ledger import Ledger

    return Ledger.open(url)


def existing_ledger(url: str) -> "Ledger":
    """Open the ledger at `url`, or raise `InvalidParameter` if it is a SQLite file that does not exist."""
    _check_exists(url)
    return open_ledger(url)


def _check_exists(url: str) -> None:
    from setwise.ledger.stores.connect import sqlite_path

    path = sqlite_path(url)
    if path is not None and not Path(path).exists():
        from setwise.ledger.ledger import opening_command

        raise InvalidParameter(
            f"there is no ledger at {path}; this makes one, with an account: {opening_command('ana', str(path))}"
        )


def inspected_ledger(url: str) -> "Ledger":
    """Open the ledger at `url` for reading only, which also works if it is damaged or on a read-only disk."""
    from setwise.ledger.ledger import Ledger

    _check_exists(url)
    return Ledger.inspect(url)


ProtectedUnit = Annotated[
    str,
    typer.Option(
        "--unit",
        metavar="user|user,day",
        help="What is protected: each user, or only a part of a user such as each of their days, which is far less.",
    ),
]


@ledger_app.command(name="open")
def open_account(
    name: Name,
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[MECH]...", help="Further uses after --register MECH.")
    ] = None,
    register: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MECH",
            help="Uses to draw from, one or more, as for compose, such as bounded-range:0.1x100.",
        ),
    ] = None,
    take_any: Annotated[
        bool, typer.Option("--filter", help="Take uses of any parameters, up to a total --epsilon.")
    ] = False,
    epsilon: Annotated[float | None, typer.Option(help="The total epsilon of a --filter account.")] = None,
    delta: Annotated[float | None, typer.Option(help="The overall delta of the account; 1e-6 is usual.")] = None,
    analyst: Annotated[str, typer.Option(help="Whose account it is.")] = "",
    dataset: Annotated[str, typer.Option(help="The dataset it is about; its cap, if set, is shared.")] = "",
    period: Annotated[
        str | None, typer.Option(help="A fresh budget every day, week, month, quarter or year (UTC).")
    ] = None,
    failure_share: Annotated[
        float | None,
        typer.Option(help="The share of delta that a --filter sets aside for outright failures (approx uses)."),
    ] = None,
    rule: Annotated[
        str,
        typer.Option(
            help="How a --filter adds up: wallet, menu (with --menu), or zcdp for uses of which only their zCDP is "
            "known."
        ),
    ] = "wallet",
    menu: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MECH",
            help="With --rule menu, a pure or bounded-range use that the account takes, such as pure:0.1; repeatable.",
        ),
    ] = None,
    wallet: Annotated[
        float, typer.Option(metavar="MU", help="With --register, a Gaussian wallet beside, for uses chosen on the fly.")
    ] = 0.0,
    failure: Annotated[
        float, typer.Option(help="With --wallet, the probability with which its uses may fail outright.")
    ] = 0.0,
    unit: ProtectedUnit = "user",
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """Open an account with mechanism uses to spend in any order (--register), or with a budget (--filter)."""
    uses = [*(register or []), *(more or [])]
    if delta is None or (epsilon is not None and not take_any and not uses):
        raise InvalidParameter(f"write: {_complete_command(uses, epsilon, delta)}")
    if take_any == bool(uses) or (more and not register):
        raise InvalidParameter("give either --register with one MECH or more, or --filter with --epsilon")
    if take_any != (epsilon is not None):
        raise InvalidParameter(
            "--filter needs --epsilon" if take_any else "--epsilon belongs to --filter; --register finds its own"
        )
    if menu and not take_any:
        raise InvalidParameter("--menu belongs to --filter with --rule menu; --register lists its own uses")
    if take_any and (wallet or failure):
        raise InvalidParameter("--wallet and --failure belong to --register; --filter has a wallet of its own")
    terms: dict[str, Any] = {"delta": delta, "analyst": analyst, "dataset": dataset, "period": period, "unit": unit}
    with open_ledger(ledger) as opened:
        note = account_output.shut_out_note(opened, name, dataset)
        if epsilon is not None:
            status = opened.open_filter(
                name, epsilon=epsilon, failure_share=failure_share, rule=rule, menu=menu or (), **terms
            )
        else:
            status = opened.open_setwise(name, uses, wallet=wallet, failure=failure, **terms)
    if note:
        print(f"note: {note}", file=sys.stderr)
    account_output.print_status(status, as_json=as_json)


def _complete_command(uses: list[str], epsilon: float | None, delta: float | None) -> str:
    """Return the `setwise ledger open` command that runs, with the parameters that were left out.

    `uses` are the mechanism uses (runs of mechanisms) to register. Without uses, the account gets a budget of
    `epsilon`, or of 1 if that is None. A missing `delta` becomes 1e-6.
    """
    from shlex import join

    from setwise.analytics.budget import DEFAULT_DELTA

    words = list(command_words.get())
    if not uses:
        words += [] if "--filter" in words else ["--filter"]
        words += ["--epsilon", "1"] if epsilon is None else []
    words += ["--delta", f"{DEFAULT_DELTA:g}"] if delta is None else []
    return join(["setwise", *words])


@ledger_app.command()
def cap(
    dataset: Dataset,
    epsilon: Annotated[float, typer.Option(help="The total epsilon of all accounts on the dataset.")],
    delta: Annotated[float, typer.Option(help="The total delta of all accounts on the dataset.")],
    failure_share: FailureShare = None,
    rule: Annotated[
        str, typer.Option(help="How charges add up: wallet, or zcdp for uses of which only their zCDP is known.")
    ] = "wallet",
    keep: Annotated[
        str,
        typer.Option(
            help="Which way to pay the cap keeps: wallet (any noise), sum (of epsilons, pure noise only), or either: "
            "both, until a question fits one of them only and ends the other for everybody."
        ),
    ] = "either",
    unit: ProtectedUnit = "user",
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """Limit for good what all accounts on a dataset may spend together; only possible before any of them is opened."""
    with open_ledger(ledger) as opened:
        opened.set_cap(
            dataset,
            epsilon=epsilon,
            delta=delta,
            failure_share=failure_share,
            rule=rule,
            keep=keep,  # type: ignore[arg-type]  # checked there, where the error names it
            unit=unit,
        )
        status = opened.cap(dataset)
    assert status is not None
    account_output.print_status(status, as_json=as_json)


@ledger_app.command()
def keep(
    dataset: Dataset,
    rule: Annotated[str, typer.Argument(metavar="wallet|sum", help="The way to pay that the cap keeps.")],
    by: Annotated[str, typer.Option("--by", help="Who does this; it is kept for good.")] = "",
    ledger: LedgerUrl = DEFAULT_LEDGER,
) -> None:
    """Fix how the cap of a dataset (the joint budget of its accounts) is paid from now on.

    With wallet, the cap is a Gaussian budget, which pays for any noise. With sum, it is a sum of epsilons, which pays
    for pure noise (such as Laplace noise) only. This works only for a cap that was set with --keep either and can still
    be paid in both ways.
    """
    with existing_ledger(ledger) as opened:
        opened.keep_rule(dataset, rule, by=by)  # type: ignore[arg-type]  # checked there
    typer.echo(f"the cap of {dataset} is paid by {rule} from now on")


@ledger_app.command()
def reclaim(
    dataset: Dataset,
    idle: Annotated[float, typer.Option(help="Only from accounts without a charge for this many hours.")] = 0.0,
    ledger: LedgerUrl = DEFAULT_LEDGER,
) -> None:
    """Take back the unused parts of a dataset's cap (the joint budget of its accounts) that accounts have reserved."""
    with existing_ledger(ledger) as opened:
        count = opened.reclaim(dataset, idle=timedelta(hours=idle))
    typer.echo(f"{count} account{'' if count == 1 else 's'} gave back what they held of the cap of {dataset}")


@ledger_app.command()
def show(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One account; all of them without it.")] = None,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """Show the guaranteed epsilon, the remaining budget and the privacy loss so far, of one account or of all."""
    with existing_ledger(ledger) as opened:
        statuses = opened.accounts() if name is None else (opened.account(name).status_by_entries(),)
    if name is not None:
        account_output.print_status(statuses[0], as_json=as_json)
    elif as_json:
        output.print_json({"accounts": [status.to_dict() for status in statuses]})
    else:
        account_output.print_statuses(statuses)


@ledger_app.command()
def history(
    name: Name,
    after: Annotated[int | None, typer.Option(help="Begin after this entry; without it, the last ones.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The most entries to show.")] = 100,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """List the ledger entries of an account, such as charges and settlements (stored answers and refunds)."""
    with existing_ledger(ledger) as opened:
        start = max(0, opened.account(name).entries() - limit) if after is None else after
        entries = list(islice(opened.history(name, after=start), limit))
    if as_json:
        output.print_json({"account": name, "entries": [entry.to_dict() for entry in entries]})
    else:
        account_output.print_entries(name, entries)


LastHead = Annotated[
    Path | None,
    typer.Option(help="The file outside the database that keeps the last signed head; KEY.head unless given."),
]


@ledger_app.command()
def verify(
    head: Annotated[str | None, typer.Option(help="The head an earlier verify printed: nothing may be new.")] = None,
    since: Annotated[
        Path | None, typer.Option(help="A file with what an earlier verify --json printed: entries may only be added.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The key of signed heads: every one must be signed with it.")] = None,
    within: Annotated[
        float | None, typer.Option(metavar="HOURS", help="With --key, the hours within which a head must be signed.")
    ] = None,
    last_head: LastHead = None,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """Recompute every hash chain and every balance, and report each ledger entry that was changed afterwards."""
    from setwise.ledger.audit.heads import read_key
    from setwise.ledger.audit.verification import Anchor

    if within is not None and (key is None or not 0 < within < _MOST_HOURS):
        raise InvalidParameter("--within takes a number of hours above 0, and needs --key")
    anchor = None if since is None else Anchor.parse(_text_of(since))
    secret, age = None if key is None else read_key(key), None if within is None else timedelta(hours=within)
    with inspected_ledger(ledger) as opened:
        verification = opened.verify(
            head=head, since=anchor, key=secret, within=age, last_head=_head_file(last_head, key)
        )
    if as_json:
        output.print_json(verification.to_dict())
    elif not verification.faults:
        rows = [("accounts", f"{len(verification.anchor.accounts):,}"), ("entries", f"{verification.entries:,}")]
        output.print_table("Verified", [*rows, ("head", verification.anchor.head)])
    if verification.faults:
        more = f", and {len(verification.faults) - 1} more faults" if len(verification.faults) > 1 else ""
        raise StoreFailed(f"the ledger was tampered with: {verification.faults[0]}{more}")


_MOST_HOURS = 24 * 366 * 100
"""The largest number of hours for --within: a hundred years."""


@ledger_app.command(name="sign")
def sign_head(
    key: Annotated[Path, typer.Option(help="A file with a key of 16 bytes or more, kept away from the database.")],
    last_head: LastHead = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Sign although the last head kept outside is missing or not in this ledger.")
    ] = False,
    ledger: LedgerUrl = DEFAULT_LEDGER,
) -> None:
    """Check the ledger against the last signed head, append a new head, and print it. Run this on a schedule.

    A head records where every account's hash chain ends. A ledger that does not contain the last head, such as an old
    copy that was put back, is signed only with --anew.
    """
    from setwise.ledger.audit.heads import read_key

    with existing_ledger(ledger) as opened:
        output.print_json(opened.sign(read_key(key), last_head=_head_file(last_head, key), anew=anew).to_dict())


def _head_file(path: Path | None, key: Path | None) -> "HeadFile | None":
    """Return the file, outside the database, that keeps the last signed head; None if both arguments are None.

    A head records where every account's hash chain ends. The file is at `path`; if that is None, it is beside the
    signing key `key`.
    """
    from setwise.ledger.audit.heads import HeadFile

    return HeadFile(path) if path is not None else None if key is None else HeadFile.beside(key)


By = Annotated[str, typer.Option("--by", help="Who does this; it is kept for good.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is kept for good.")]


@ledger_app.command()
def freeze(name: Name, by: By = "", reason: Reason = "", ledger: LedgerUrl = DEFAULT_LEDGER) -> None:
    """Stop an account from paying for questions, until `thaw` lets it pay again."""
    with existing_ledger(ledger) as opened:
        opened.freeze(name, by=by, reason=reason)


@ledger_app.command()
def thaw(name: Name, by: By = "", reason: Reason = "", ledger: LedgerUrl = DEFAULT_LEDGER) -> None:
    """Let a frozen account pay for questions again."""
    with existing_ledger(ledger) as opened:
        opened.thaw(name, by=by, reason=reason)


@ledger_app.command()
def close(name: Name, by: By = "", reason: Reason = "", ledger: LedgerUrl = DEFAULT_LEDGER) -> None:
    """Stop an account from paying for questions, permanently; its entries and answers stay in the ledger."""
    with existing_ledger(ledger) as opened:
        opened.close_account(name, by=by, reason=reason)


@ledger_app.command()
def acts(
    after: Annotated[int, typer.Option(help="Begin after this number of the register.")] = 0,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """List the events of the audit log in order: what stewards and administrators did, such as freezing an account."""
    with inspected_ledger(ledger) as opened:
        records = opened.acts(after=after)
    if as_json:
        output.print_json({"acts": [record.to_dict() for record in records]})
    else:
        account_output.print_acts(records)


WithService = Annotated[
    bool, typer.Option("--service", help="With the service's own tables: people, tokens, datasets, queries.")
]


@ledger_app.command()
def export(
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="Where to write; - is standard output.")] = "-",
    service: WithService = False,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """Write the whole ledger as JSON lines, one object per line, for a backup that `restore` can read."""
    if as_json and file == "-":
        raise InvalidParameter("--json tells about the FILE written; without a FILE the lines themselves are JSON")
    with inspected_ledger(ledger) as opened, _stream(file, "w") as stream:
        lines = opened.export(stream, tables=_service_tables() if service else ())
    if as_json:
        output.print_json({"file": file, "lines": lines})
    elif file != "-":
        output.print_table("Exported", [("file", file), ("lines", f"{lines:,}")])


@ledger_app.command()
def restore(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What export wrote; - is standard input.")],
    service: WithService = False,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """Read an export into an empty ledger: either all of it, with every hash checked, or nothing."""
    with _stream(file, "r") as stream, open_ledger(ledger) as opened:
        entries = opened.restore(stream, tables=_service_tables() if service else ())
    if as_json:
        output.print_json({"file": file, "entries": entries})
    else:
        output.print_table("Restored", [("file", file), ("entries", f"{entries:,}")])


def _service_tables() -> "Sequence[Table]":
    from setwise.service.storage import schema

    return schema.metadata.sorted_tables


@ledger_app.command()
def joint(
    dataset: Dataset,
    delta: Annotated[float | None, typer.Option(help="The joint delta; the sum of the accounts' without it.")] = None,
    periods: Annotated[int, typer.Option(help="How many periods of accounts with periods to count.")] = 1,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """Show the joint (epsilon, delta) of all accounts on a dataset, which holds even if their analysts collude."""
    with existing_ledger(ledger) as opened:
        guarantee = opened.joint(dataset, delta=delta, periods=periods)
    if as_json:
        output.print_json(guarantee.to_dict())
    else:
        account_output.print_joint(guarantee)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{path} cannot be read: {_reason(error)}") from None


def _stream(file: str, mode: str) -> AbstractContextManager[TextIO]:
    if file == "-":
        return nullcontext(sys.stdout if mode == "w" else sys.stdin)
    try:
        if mode == "r":
            return Path(file).open(encoding="utf-8")
        return _private_file(file)
    except OSError as error:
        raise InvalidParameter(f"{file} cannot be opened: {_reason(error)}") from None


def _private_file(file: str) -> TextIO:
    """Open `file` for writing with permissions for its owner only, because an export holds every request and answer."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(descriptor, 0o600)  # os.open does not change the permissions of a file that exists
    return os.fdopen(descriptor, "w", encoding="utf-8")


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return getattr(error, "strerror", None) or "it is not UTF-8 text"
