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
    """The kind of calendar period, in UTC, after which an account's budget starts afresh.

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
    """Return the name of the period that contains `moment`; "" if `period` is None (no periods)."""
    return WHOLE_LIFE if period is None else period.of(moment)


Kind = Literal["setwise", "filter", "cap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms of an account or a cap (a dataset's joint budget): its promise, and its budget in each period.

    - `kind` is "setwise" for an account that draws from registered guarantees, "filter" for an account with a budget,
      and "cap" for a cap. `name` is the account's name.
    - `analyst` and `dataset` say whose account it is and which data it may pay for; either may be empty.
    - `period` is the kind of calendar period after which the budget starts afresh, or None if it never does.
    - `epsilon` and `delta` are the promise, and `unit` is the unit of privacy that is protected, such as "user".
    - `failure_share` is the share of delta for outright failures, which may reveal everything.
    - `uses` lists the guarantees that a "setwise" account registered at its opening, and how often it may use each.
      `uses` is empty for "filter" and "cap".
    - `totals` is the budget of a "filter" or a "cap". A "setwise" account may have a budget, too, for guarantees that
      it has not registered; None if it has none.
    - `cap` is the number of the ledger record that opened the cap from which charges are also paid, or None.
    - `slices` says how a charge is paid from the cap: from a part that is reserved for the account (True), or directly.
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
        """Return the size of each balance of the account or cap: the most units of it that may be spent in a period.

        The keys of the result are names of balances:
        - "wallet" and the other balances of the field `totals`. Most have 2^60 units; 2^59 units of "wallet", for
          example, are half of its mu squared.
        - each registered guarantee (one that was fixed when the account was opened) in written form, such as
          "pure:0.1". One unit is one use of it, so the size is the number of uses registered.
        - "slice:wallet" and further names beginning with "slice:", if a cap (a dataset's joint budget) lets the account
          reserve parts of the cap's balances. Each has 2^60 units, and a unit is worth the same as in the cap's own
          balance.
        """
        registered = {line_of(use): use.count for use in self.uses}
        balances = registered if self.totals is None else registered | self.totals.lines()
        return balances | dict.fromkeys(SLICES.values(), UNITS) if self.slices else balances

    def body(self) -> str:
        """Return the terms of the account or joint budget as canonical JSON, which the ledger stores and hashes."""
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
        """The budget from which the account pays for guarantees that were not registered at its opening.

        Requires: the account has such a budget, and these are not the terms of a cap (a joint budget of accounts) from
        which accounts reserve parts. Such a cap has no price for a charge, because the price depends on the reserved
        part. Otherwise raises `AssertionError`.
        """
        assert self.totals is not None
        assert not isinstance(self.totals, CapTotals)
        return self.totals

    def split(self, uses: Sequence[Use]) -> tuple[list[Use], list[Use]]:
        """Return two lists: the `uses` whose guarantees were registered at the account's opening, and all other `uses`.

        A charge takes registered guarantees from their counts, and pays for all other guarantees from the account's
        budget.
        """
        registered = {line_of(use) for use in self.uses}
        draws = [use for use in uses if line_of(use) in registered]
        return draws, [use for use in uses if line_of(use) not in registered]

    @classmethod
    @lru_cache(maxsize=65536)
    def read(cls, body: str) -> Self:
        """Return the terms of an account or joint budget from the canonical JSON that the method `body` returned."""
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
    """Return the budget of an account or cap (joint budget) from `record`, its JSON object in the ledger."""
    # The keys tell the classes apart, because the JSON does not name them.
    if "items" in record:
        return MenuTotals(**{**record, "items": tuple((written, cost) for written, cost in record["items"])})
    if "wallet" not in record:
        return Totals(**record)
    return WalletTotals(**record) if "rho" in record else CapTotals(**record)


def line_of(use: Use) -> str:
    """Return the name of the balance that counts a registered guarantee: its written form without the count.

    A `use` of three times 0.1-DP, "pure:0.1x3", for example, is counted by the balance "pure:0.1".
    """
    return format_use(Use(use.guarantee))


def charge_movements(
    holder: int, terms: Terms, cap: Totals | None, uses: Sequence[Use], period: str, spent: Mapping[str, int]
) -> list[Movement]:
    """Return the balance changes of a charge of `uses`: first of the account, then of the dataset's zCDP cap.

    - `holder` is the number of the ledger record that opened the account, and `terms` are the account's terms.
    - `cap` is the budget of the zCDP cap (a joint budget of the dataset's accounts); None if no such cap is charged.
    - `uses` lists privacy guarantees and how often each is used. `period` is the name of the account's budget period.
    - `spent` maps each balance to the units spent from it before, because prices may depend on what remains. A full
      balance such as "wallet" has 2^60 units. The balance of a guarantee that was registered at the account's opening,
      such as "pure:0.1", counts its uses.
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
    """Return the changes that a charge of `uses` makes to the account's own balances in the budget period `period`.

    - `holder` is the number of the ledger record that opened the account, and `terms` are the account's terms.
    - `uses` lists privacy guarantees and how often each is used. A registered guarantee is taken from its own count;
      any other is paid from the account's budget.
    - `spent` maps each balance to the units spent from it before, because prices may depend on what remains. Most full
      balances have 2^60 units.

    Raises `InvalidParameter` for a use that the account never pays for: one that is not registered, if the account has
    no budget, or one that is not on the menu (a fixed list of guarantees) of an account with a menu.
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
    """Return the balance changes that give `uses` back to an account, because they were charged but not needed.

    `uses` lists guarantees that were registered at the account's opening, and how often to give back each. Each
    guarantee has a balance of its own, which counts its uses. `holder` is the number of the ledger record that opened
    the account, and `period` the name of its budget period, such as "2026-11".
    """
    return [Movement(holder, period, line_of(use), -use.count) for use in uses]


def slice_balances(spent: Mapping[str, int]) -> dict[str, int]:
    """Return how many units of each balance of the cap (a dataset's joint budget) are reserved for an account.

    `spent` maps the names of the account's balances to units. The balance "slice:wallet" of the account, for example,
    holds the reserved units of the cap's balance "wallet". A full balance has 2^60 units.

    >>> slice_balances({"slice:wallet": 5})["wallet"]
    5
    """
    return {balance_name: spent.get(slice_name, 0) for balance_name, slice_name in SLICES.items()}


def slice_payment(holder: int, price: Mapping[str, int]) -> list[Movement]:
    """Return the balance changes by which an account pays a charge from its slice of the cap.

    A slice is the part of a cap, a dataset's joint budget, that is reserved for one account.

    `holder` is the number of the ledger record that opened the account. `price` maps each balance of the cap to the
    units to pay; a full balance has 2^60 units.
    """
    return [
        Movement(holder, WHOLE_LIFE, SLICES[balance_name], -units)
        for balance_name, units in sorted(price.items())
        if units
    ]


def slice_movements(holder: int, cap: int, amounts: Mapping[str, int]) -> list[Movement]:
    """Return the balance changes that move units between a cap (joint budget) and the slice reserved for an account.

    `holder` and `cap` are the numbers of the records that opened the account and the cap. `amounts` maps each balance
    of the cap to the units to move; a full balance has 2^60 units. A positive number moves units into the slice, and a
    negative number back to the cap. For example, `{"wallet": 5}` takes 5 units from the cap's "wallet" and adds them to
    the account's "slice:wallet".
    """
    changes: list[Movement] = []
    for balance_name, units in sorted(amounts.items()):
        pair = [Movement(cap, WHOLE_LIFE, balance_name, units)]
        # Units of the balance "rule", which records what was dropped, are only spent and added nowhere.
        if balance_name in SLICES:
            pair.append(Movement(holder, WHOLE_LIFE, SLICES[balance_name], units))
        # The database checks changes one after another, so units are taken before they are added.
        changes += pair if units > 0 else pair[::-1]
    return changes


def entry_movements(
    holder: int, terms: Terms, cap: Totals | None, contents: Contents, spent: Mapping[str, int]
) -> list[Movement]:
    """Return the changes of balances that an entry of an account makes, as its `contents` imply.

    - A charge takes units from balances.
    - A settlement (the answer of a charge) gives back the units of registered uses that were not needed.
    - A slice entry moves units between the cap (the joint budget of the dataset's accounts) and the account.
    - A release (the answer of one part of a question) changes nothing.

    The other arguments:

    - `holder` is the number of the ledger record that opened the account, and `terms` are the account's terms.
    - `cap` is the cap if it adds up zCDP, because each charge is then paid from the cap too. It is None if there is no
      cap, or if the account pays from a slice (its reserved part of the cap). A payment from the slice is not in the
      result.
    - `spent` maps each balance to the units spent from it before, because prices may depend on what remains. Most full
      balances have 2^60 units.
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

    - `name` is the account's name. `uses` lists privacy guarantees, and how often the account may use each.
    - `analyst` and `dataset` say whose account it is and which data it may pay for; either may be empty.
    - With `period`, all the uses are available again in every calendar period; None: only once.
    - `wallet`, if not 0, is a mu: the account then also pays for uses that are not registered, as long as these reveal
      together at most as much as one Gaussian mechanism of this mu.
    - `failure` bounds the probability that any unregistered use fails outright, which may reveal everything.
    - `unit` is the unit of privacy that is protected: "user", or a part of a user such as "user,day".

    Certifying the epsilon can take seconds and hundreds of megabytes.
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
        # The costly part; the service calls this function in a worker process.
        epsilon=compose(all_uses, Interaction.SETWISE).epsilon(delta),
        delta=float(delta),
        failure_share=0.5 if any(use.guarantee.split_off_failure()[1] for use in all_uses) else 0.0,
        uses=registered,
        totals=wallet_totals_beside,
        unit=unit,
    )


def _wallet_beside(mu: float, failure: float) -> WalletTotals | None:
    """Return the Gaussian wallet of an account that also has registered uses; None if the account has no wallet.

    The wallet is a budget in mu squared that pays for uses that were not registered when the account was opened. Its
    size is the square of `mu`, and `mu` = 0 means no wallet. `failure` bounds the probability that any use paid from
    the wallet fails outright, which may reveal everything.

    Raises: `InvalidParameter` if `failure` is positive although `mu` is 0.
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
    """Return the terms of a filter: an account that pays for mechanisms up to a budget (epsilon, delta).

    - `name` is the account's name. `analyst` and `dataset` say whose account it is and which data it may pay for;
      either may be empty.
    - With `period`, the budget starts afresh in each calendar period.
    - `failure_share` is the share of delta for outright failures (which may reveal everything); None: the rule's
      default.
    - `rule` is how charges add up: "wallet" (a Gaussian budget in mu squared), "zcdp" (sums of zCDP parameters) or
      "menu" (fixed costs of the guarantees in `menu`, the only ones that the account pays for). Certifying a menu may
      take seconds.
    - `unit` is the unit of privacy that is protected: "user", or a part of a user such as "user,day".
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

    The rule says how charges add up: "wallet" (mu squared), "zcdp" (rho) or "menu" (fixed costs). An outright failure
    may reveal everything. Raises `InvalidParameter` for any other rule.
    """
    if rule not in _RULES:
        raise InvalidParameter(f"rule must be wallet, menu or zcdp, not {rule!r}")
    return _RULES[rule][0] if share is None else share


def filter_promise(rule: str, epsilon: float) -> CertifiedBound:
    """Return the promised `epsilon` of an account with a budget, or of a cap (joint budget), as a `CertifiedBound`.

    The lower and the upper bound of the result are both `epsilon`: the budget was computed from this promise, so
    nothing is left to bound. The result also names the method and the theorem of `rule`, which says how charges add up:
    "wallet" (mu squared), "menu" (fixed costs of listed guarantees) or "zcdp".
    """
    _, method, statement = _RULES[rule]
    return CertifiedBound(float(epsilon), float(epsilon), Interaction.ADAPTIVE, method, statement)


def uses_priced_by_balance(uses: Sequence[Use], terms: Terms, *, has_slice: bool) -> list[Use]:
    """Return those of the `uses` whose price at `Account.charge` is right only for a question fixed before the charge.

    Such uses are paid from a wallet (an amount of mu squared), a menu (a fixed list of guarantees with costs) or a
    slice (the account's reserved part of a dataset's joint budget). If their question is chosen after the charge, when
    later answers were seen, the price may be too low. `Account.reserve` then charges a higher price, or refuses a use
    that a menu pays for. Gaussian and (0, delta)-DP uses are never returned, because their price is right in any case.

    `uses` lists privacy guarantees and how often each is used. `terms` are the account's terms, and `has_slice` says
    whether the account pays from a slice.
    """
    # A question paid from a wallet, a menu or a slice may not be chosen after later answers were seen. Gaussian and
    # (0, delta)-DP uses have a price that is always valid.
    totals = terms.totals
    if has_slice:
        return uses_without_fixed_price(uses)
    if isinstance(totals, MenuTotals) or (totals is not None and totals.price_depends_on_balance):
        return uses_without_fixed_price(terms.split(uses)[1])
    return []
