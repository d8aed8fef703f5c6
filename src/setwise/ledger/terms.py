"""Terms of accounts and caps: their promise and budget, fixed when each was opened, and the price of a charge.

A cap is the joint budget of a dataset's accounts.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, Self, assert_never

from setwise.accounting.brackets import CertifiedBound, Interaction
from setwise.accounting.checks import check_choice, check_epsilon, check_failure
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import Guarantee, Use, merged
from setwise.accounting.notation import as_uses, format_use, parse_use
from setwise.accounting.promises import USER, check_unit
from setwise.errors import InvalidParameter
from setwise.ledger.amounts import UNITS, AccountTotals, Totals, WalletTotals, wallet_totals, zcdp_totals
from setwise.ledger.menus import MenuTotals
from setwise.ledger.records import Contents, canonical, check_label, check_name, read_amounts, read_uses
from setwise.ledger.reservations import uses_without_fixed_price
from setwise.ledger.slices import SLICES, CapTotals
from setwise.ledger.stores.base import Movement


class BudgetPeriod(StrEnum):
    """The calendar period, in UTC, after which an account's budget starts afresh.

    >>> from datetime import UTC
    >>> moment = datetime(2026, 11, 15, tzinfo=UTC)
    >>> BudgetPeriod.MONTH.of(moment), BudgetPeriod.WEEK.of(moment)
    ('2026-11', '2026-W46')
    """

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"

    def of(self, moment: datetime) -> str:
        """Return the name of the period that contains `moment`, such as "2026-11" for a month or "2026-W46" for a week.

        For periods of one kind, the alphabetical order of the names is the order in time.
        """
        match self:
            case BudgetPeriod.DAY:
                return f"{moment:%Y-%m-%d}"
            case BudgetPeriod.WEEK:
                year, week, _ = moment.isocalendar()
                return f"{year:04d}-W{week:02d}"
            case BudgetPeriod.MONTH:
                return f"{moment:%Y-%m}"
            case BudgetPeriod.QUARTER:
                return f"{moment.year:04d}-Q{(moment.month + 2) // 3}"
            case BudgetPeriod.YEAR:
                return f"{moment.year:04d}"
            case _:
                assert_never(self)


WHOLE_LIFE = ""
"""The period name of an account without periods, whose budget is for its whole life."""


def parse_period(value: "str | BudgetPeriod | None") -> BudgetPeriod | None:
    """Return the `BudgetPeriod` named `value`, such as "month"; a `value` of None, for no periods, stays None.

    Raises `InvalidParameter` for any other value.
    """
    return None if value is None else check_choice("period", value, BudgetPeriod)


def period_id(period: BudgetPeriod | None, moment: datetime) -> str:
    """Return the name of the period that contains `moment`; the empty text for an account without periods."""
    return WHOLE_LIFE if period is None else period.of(moment)


Kind = Literal["setwise", "filter", "cap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms of an account or a cap: its promise, and the budget that it may spend in each period.

    - `kind` is "setwise", "filter" or "cap" (the joint budget of a dataset's accounts), and `name` the account's name.
      `analyst` and `dataset` say whose account it is and which data it may pay for; either may be empty.
    - `period` is the calendar period after which the budget starts afresh, or None.
    - The promise is the bracket `epsilon` at `delta`. `failure_share` is the share of delta for outright failures
      (events in which everything may be revealed). `unit` is the unit of privacy that is protected: "user", or a part
      of a user such as "user,day".
    - A set-wise account has registered `uses` to draw, and may have a wallet (a budget in mu squared) as `totals`. A
      filter and a cap have only `totals`.
    - `cap` is the register number (the number of the opening record) of the cap that the account's charges also draw
      on, or None. `slices` is True if the account pays its cap from a slice, a part of the cap that is reserved for it.
    """

    kind: Kind
    name: str
    analyst: str
    dataset: str
    period: BudgetPeriod | None
    epsilon: CertifiedBound
    delta: float
    failure_share: float
    uses: tuple[Use, ...] = ()
    totals: Totals | WalletTotals | MenuTotals | CapTotals | None = None
    cap: int | None = None
    slices: bool = False
    unit: str = USER

    def __post_init__(self) -> None:
        check_unit(self.unit)

    def lines(self) -> dict[str, int]:
        """Return the size of each balance of the account or cap: the most units that may be spent of it in a period.

        The keys are balance names, such as "wallet" (mu squared, 2^60 units when full). The balance of a registered use
        (one fixed when the account was opened) is named by its written form, such as "pure:0.1", and its size is the
        number of uses. The size of "slice:wallet" is the most that the account may reserve of its cap's balance
        "wallet".
        """
        registered = {line_of(use): use.count for use in self.uses}
        balances = registered if self.totals is None else registered | self.totals.lines()
        return balances | dict.fromkeys(SLICES.values(), UNITS) if self.slices else balances

    def body(self) -> str:
        """Return the terms of the account or cap as canonical JSON, the text that the register stores and hashes.

        A cap is the joint budget of a dataset's accounts. The register is the ledger's chain of openings and audit
        events.
        """
        totals = None if self.totals is None else asdict(self.totals)
        if totals is not None and totals.get("keep") == "either":
            del totals["keep"]  # caps opened by earlier versions lack this key, and their hashes must still match
        return canonical(
            {
                "kind": self.kind,
                "name": self.name,
                "analyst": self.analyst,
                "dataset": self.dataset,
                "period": self.period,
                "epsilon": {"lower": self.epsilon.lower, "upper": self.epsilon.upper},
                "interaction": self.epsilon.interaction,
                "method": self.epsilon.method,
                "statement": self.epsilon.statement,
                "delta": self.delta,
                "failure_share": self.failure_share,
                "uses": [format_use(use) for use in self.uses],
                "totals": totals,
                "cap": self.cap,
                **({"slices": True} if self.slices else {}),
                **({"unit": self.unit} if self.unit != USER else {}),
            }
        )

    @property
    def account_totals(self) -> AccountTotals:
        """The budget from which the account pays for uses that are not registered: the budget of a filter, or a wallet.

        A filter is an account that admits uses of any parameters while its budget lasts. A set-wise account may have a
        Gaussian wallet (a budget in mu squared) beside the uses registered at its opening. Raises `AssertionError` for
        an account that has neither, and for a cap (a joint budget of accounts), from which no charge is paid directly.
        """
        assert self.totals is not None
        assert not isinstance(self.totals, CapTotals)
        return self.totals

    def split(self, uses: Sequence[Use]) -> tuple[list[Use], list[Use]]:
        """Return two lists: the mechanism uses in `uses` that are registered with the account, and the others.

        Registered uses were fixed when the account was opened. The others are paid from the account's filter (a budget
        of its own) or Gaussian wallet (a budget in mu squared).
        """
        registered = {line_of(use) for use in self.uses}
        draws = [use for use in uses if line_of(use) in registered]
        return draws, [use for use in uses if line_of(use) not in registered]

    @classmethod
    @lru_cache(maxsize=65536)
    def read(cls, body: str) -> Self:
        """Return the terms of an account or cap from `body`, the canonical JSON text that the register stores.

        A cap is the joint budget of a dataset's accounts. The register is the ledger's chain of openings and audit
        events.
        """
        record: dict[str, Any] = json.loads(body)
        epsilon, totals = record["epsilon"], record["totals"]
        return cls(
            kind=record["kind"],
            name=record["name"],
            analyst=record["analyst"],
            dataset=record["dataset"],
            period=parse_period(record["period"]),
            epsilon=CertifiedBound(
                epsilon["lower"],
                epsilon["upper"],
                Interaction.parse(record["interaction"]),
                record["method"],
                record["statement"],
            ),
            delta=record["delta"],
            failure_share=record["failure_share"],
            uses=tuple(parse_use(text) for text in record["uses"]),
            totals=None if totals is None else _read_totals(totals),
            cap=record["cap"],
            slices=record.get("slices", False),
            unit=record.get("unit", USER),
        )


def _read_totals(record: dict[str, Any]) -> Totals | WalletTotals | MenuTotals | CapTotals:
    """Return the budget of an account or cap from `record`, its JSON object in the register.

    The keys of the object tell whether it is the budget of a zCDP filter, a wallet (a budget in mu squared), a menu (a
    fixed list of uses) or a cap (the joint budget of a dataset's accounts).
    """
    if "items" in record:
        return MenuTotals(**{**record, "items": tuple((written, cost) for written, cost in record["items"])})
    if "wallet" not in record:
        return Totals(**record)
    return WalletTotals(**record) if "rho" in record else CapTotals(**record)


def line_of(use: Use) -> str:
    """Return the name of the balance of a registered use: its written form without a count, such as "pure:0.1".

    An account has such a balance for each use that was registered when it was opened; the balance counts the uses
    spent.
    """
    return format_use(Use(use.guarantee))


def charge_movements(
    holder: int, terms: Terms, cap: Totals | None, uses: Sequence[Use], period: str, spent: Mapping[str, int]
) -> list[Movement]:
    """Return the balance changes of a charge of `uses`: first of the account, then of the dataset's zCDP cap.

    - `holder` is the account's register number (the number of its opening record), and `terms` are its terms.
    - `cap` is the budget of the zCDP cap (a joint budget of the dataset's accounts); None if no such cap is charged.
    - `uses` are mechanism uses (guarantees with counts), and `period` is the name of the account's budget period.
    - `spent` has the units spent before, per balance name (such as "wallet", 2^60 units when full); prices may depend
      on them.
    """
    movements = account_movements(holder, terms, uses, period, spent)
    if cap is not None:
        assert terms.cap is not None
        shared = cap.price(uses, {}).items()
        movements += [
            Movement(terms.cap, WHOLE_LIFE, balance_name, amount) for balance_name, amount in shared if amount
        ]
    return movements


def account_movements(
    holder: int, terms: Terms, uses: Sequence[Use], period: str, spent: Mapping[str, int]
) -> list[Movement]:
    """Return the changes that a charge of the mechanism uses `uses` makes to the account's own balances in `period`.

    `period` is the name of the account's budget period. `holder` is the account's register number (the number of its
    opening record), and `terms` are its terms. `spent` has the units spent before, per balance name (such as "wallet",
    2^60 units when full). A use that was registered when the account was opened draws from its own balance, and any
    other use from the filter or the wallet (a budget in mu squared).

    Raises `InvalidParameter` for a use that is not registered if the account has neither filter nor wallet.
    """
    draws, others = terms.split(uses)
    amounts = {line_of(use): use.count for use in draws}
    if others and terms.totals is None:
        raise InvalidParameter(
            f"{format_use(others[0])} is not registered with the account {terms.name!r}, "
            f"which has {', '.join(format_use(use) for use in terms.uses)}"
        )
    if others:
        amounts |= terms.account_totals.price(others, spent)
    return [Movement(holder, period, balance_name, amount) for balance_name, amount in amounts.items() if amount]


def refund_movements(holder: int, uses: Sequence[Use], period: str) -> list[Movement]:
    """Return the balance changes that give the unused `uses` of a charge back to a set-wise account in `period`.

    A set-wise account draws from mechanism uses that were registered at its opening. `period` is the name of its budget
    period, and `holder` its register number (the number of its opening record).
    """
    return [Movement(holder, period, line_of(use), -use.count) for use in uses]


def slice_balances(spent: Mapping[str, int]) -> dict[str, int]:
    """Return the units in an account's slice (its reserved part of the cap), per balance name of the cap.

    `spent` has units per balance name of the account. Among these balances is "slice:wallet"; its units are those that
    the account has reserved of the cap's balance "wallet" (mu squared, 2^60 units when full).
    """
    return {balance_name: spent.get(slice_name, 0) for balance_name, slice_name in SLICES.items()}


def slice_payment(holder: int, price: Mapping[str, int]) -> list[Movement]:
    """Return the balance changes by which a charge is paid from the account's slice (its reserved part of the cap).

    `holder` is the account's register number (the number of its opening record). `price` are the units to pay, per
    balance name of the cap; a full balance has 2^60.
    """
    return [
        Movement(holder, WHOLE_LIFE, SLICES[balance_name], -units)
        for balance_name, units in sorted(price.items())
        if units
    ]


def slice_movements(holder: int, cap: int, amounts: Mapping[str, int]) -> list[Movement]:
    """Return the balance changes that move units between a cap and an account's slice (its reserved part of the cap).

    `holder` and `cap` are the register numbers (the numbers of the opening records) of the account and the cap.
    `amounts` are units per balance name of the cap (such as "wallet", 2^60 units when full): positive ones move into
    the slice, negative ones return to the cap. The database checks the changes one after another, so a change that
    takes units comes before the one that adds them. Units of the balance "rule", which records a dropped payment rule,
    are only spent and added nowhere.
    """
    changes: list[Movement] = []
    for balance_name, units in sorted(amounts.items()):
        pair = [Movement(cap, WHOLE_LIFE, balance_name, units)]
        if balance_name in SLICES:
            pair.append(Movement(holder, WHOLE_LIFE, SLICES[balance_name], units))
        changes += pair if units > 0 else pair[::-1]
    return changes


def entry_movements(
    holder: int, terms: Terms, cap: Totals | None, contents: Contents, spent: Mapping[str, int]
) -> list[Movement]:
    """Return the balance changes that the entry `contents` of an account makes; a release makes none.

    `holder` is the account's register number (the number of its opening record), and `terms` are its terms. `cap` is
    the budget of its zCDP cap (a joint budget of the dataset's accounts), or None. `spent` has the units spent before,
    per balance name (such as "wallet", 2^60 units when full), on which prices may depend. A payment from the account's
    slice, its reserved part of a cap, is not included.
    """
    if contents.kind == "slice":
        return slice_movements(holder, terms.cap or 0, read_amounts(contents.text))
    if contents.kind == "release":
        return []
    uses = read_uses(contents.uses)
    if contents.kind == "charge":
        return charge_movements(holder, terms, cap, uses, contents.period, spent)
    return refund_movements(holder, uses, contents.period)


def setwise_terms(
    name: str,
    uses: Iterable[Use | Guarantee | str],
    *,
    delta: float,
    analyst: str = "",
    dataset: str = "",
    period: str | BudgetPeriod | None = None,
    wallet: float = 0.0,
    failure: float = 0.0,
    unit: str = USER,
) -> Terms:
    """Return the terms of an account that draws from registered `uses`, with the overall epsilon at `delta` certified.

    - `name` is the account's name. `analyst` and `dataset` say whose account it is and which data it may pay for;
      either may be empty.
    - With `period`, every calendar period starts with all the mechanism uses again.
    - A positive `wallet` is the mu of a Gaussian wallet, a budget for uses that are not registered. These may fail
      outright (which may reveal everything) with probability `failure` altogether.
    - `unit` is the unit of privacy (a user, or a part such as a day of a user) that the promise protects.

    Certifying many different uses can take seconds and hundreds of megabytes, so the service does it in a worker
    process.
    """
    registered = merged(as_uses(uses))
    wallet_totals_beside = _wallet_beside(wallet, failure)
    all_uses = merged((*registered, *(() if wallet_totals_beside is None else wallet_totals_beside.as_uses())))
    return Terms(
        kind="setwise",
        name=check_name(name, "an account's name"),
        analyst=check_label(analyst, "analyst"),
        dataset=check_label(dataset, "dataset"),
        period=parse_period(period),
        epsilon=compose(all_uses, Interaction.SETWISE).epsilon(delta),
        delta=float(delta),
        failure_share=0.5 if any(use.guarantee.split_off_failure()[1] for use in all_uses) else 0.0,
        uses=registered,
        totals=wallet_totals_beside,
        unit=unit,
    )


def _wallet_beside(mu: float, failure: float) -> WalletTotals | None:
    """Return the Gaussian wallet of this `mu` that an account has beside its registered uses, or None if mu is 0.

    Uses paid from it may fail outright (which may reveal everything) with probability `failure` altogether. Its limit
    on the sum of epsilons is 0, so uses are paid from the wallet's mu^2 only.

    Raises `InvalidParameter` for a failure probability without a wallet.
    """
    if not mu:
        if failure:
            raise InvalidParameter(
                f"failure = {failure!r} is for a wallet beside the registered uses: give a wallet too"
            )
        return None
    size = check_epsilon(mu, "wallet") ** 2
    return WalletTotals(size, 0.0, check_failure("failure", failure), size)


def filter_terms(
    name: str,
    *,
    epsilon: float,
    delta: float,
    analyst: str = "",
    dataset: str = "",
    period: str | BudgetPeriod | None = None,
    failure_share: float | None = None,
    rule: str = "wallet",
    unit: str = USER,
    menu: Sequence[Use | Guarantee | str] = (),
) -> Terms:
    """Return the terms of a filter: an account that takes uses of any parameters, up to a budget (epsilon, delta).

    - `name` is the account's name. `analyst` and `dataset` say whose account it is and which data it may pay for;
      either may be empty.
    - With `period`, the budget starts afresh in each calendar period.
    - `failure_share` is the share of delta for outright failures (events in which everything may be revealed); None
      takes the default of the rule.
    - `rule` says how charges add up: "wallet" (uses are paid from a Gaussian wallet, a budget in mu squared), "zcdp"
      (their zCDP parameters add up) or "menu" (`menu` lists the uses that the account takes, and each has a fixed cost
      in units). Certifying the budget of a menu may take seconds.
    - `unit` is the unit of privacy (a user, or a part such as a day of a user) that the promise protects.
    """
    share = failure_share_of(rule, failure_share)
    if bool(menu) != (rule == "menu"):
        raise InvalidParameter(
            "the rule menu needs a menu of uses: name the uses, such as pure:0.1"
            if rule == "menu"
            else f"a menu belongs to the rule menu, not {rule}: leave one of them out"
        )
    totals: Totals | WalletTotals | MenuTotals
    if rule == "menu":
        totals = MenuTotals.for_promise(menu, epsilon=epsilon, delta=delta, failure_share=share)
    elif rule == "wallet":
        totals = wallet_totals(epsilon=epsilon, delta=delta, failure_share=share)
    else:
        totals = zcdp_totals(epsilon=epsilon, delta=delta, failure_share=share)
    return Terms(
        kind="filter",
        name=check_name(name, "an account's name"),
        analyst=check_label(analyst, "analyst"),
        dataset=check_label(dataset, "dataset"),
        period=parse_period(period),
        epsilon=filter_promise(rule, epsilon),
        delta=float(delta),
        failure_share=float(share),
        totals=totals,
        unit=unit,
    )


ACCOUNT_FAILURE_SHARE = 0.2
"""The share of an account's or cap's delta that is set aside for outright failures unless the opener names another.

Two questions that each fail with probability delta/10 fit into it, or a hundred that each fail with 0.2% of delta. It
costs about 1% of noise: two uses of eighty (docs/ledger.md, "The share for failures").
"""

_RULES = {
    "wallet": (ACCOUNT_FAILURE_SHARE, "gaussian-wallet", "docs/optimal-composition.md, Gaussian wallets"),
    "menu": (ACCOUNT_FAILURE_SHARE, "menu", "docs/optimal-composition.md, menu accounts"),
    "zcdp": (0.5, "zcdp-filter", "WhitehouseRaRoWu23 with CanonneKaSt20"),
}
"""Per rule of a filter: its default share of delta for outright failures, its method, and its statement."""


def failure_share_of(rule: str, share: float | None) -> float:
    """Return the share of delta for outright failures: `share` or, if it is None, the default of the accounting `rule`.

    An outright failure is an event in which everything may be revealed. Raises `InvalidParameter` for an unknown rule;
    the known rules are "wallet", "zcdp" and "menu".
    """
    if rule not in _RULES:
        raise InvalidParameter(f"rule must be wallet, menu or zcdp, not {rule!r}")
    return _RULES[rule][0] if share is None else share


def filter_promise(rule: str, epsilon: float) -> CertifiedBound:
    """Return the promise of a filter account or a cap as a certified bracket [`epsilon`, `epsilon`].

    The bracket names the method and the theorem of `rule`: "wallet", "menu" or "zcdp".
    """
    _, method, statement = _RULES[rule]
    return CertifiedBound(float(epsilon), float(epsilon), Interaction.ADAPTIVE, method, statement)


def uses_priced_by_balance(uses: Sequence[Use], terms: Terms, *, has_slice: bool) -> list[Use]:
    """Return the mechanism uses in `uses` whose price assumes that their question is fixed when they are charged.

    The question of such a use may not be chosen after later answers were seen. These are the uses that are paid from a
    wallet (a budget in mu squared), a menu (a fixed list of uses), or a slice (an account's reserved part of the
    dataset's cap). Two kinds of uses are left out, because their price is fixed: Gaussian uses, and uses that reveal
    nothing unless they fail outright (and may then reveal everything). `terms` are the terms of the account, and
    `has_slice` says whether it pays its cap from a slice.
    """
    totals = terms.totals
    if has_slice:
        return uses_without_fixed_price(uses)
    if isinstance(totals, MenuTotals) or (totals is not None and totals.price_depends_on_balance):
        return uses_without_fixed_price(terms.split(uses)[1])
    return []
