"""Terms of accounts and caps: what was promised when each was opened, and what its charges draw. They never change."""

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
from setwise.errors import InvalidParameter
from setwise.ledger.amounts import UNITS, AccountTotals, Totals, WalletTotals, wallet_totals, zcdp_totals
from setwise.ledger.records import Contents, canonical, check_label, check_name, read_amounts, read_uses
from setwise.ledger.slices import SLICES, CapTotals
from setwise.ledger.stores.base import Movement


class Period(StrEnum):
    """How long a budget lasts, in UTC.

    >>> from datetime import UTC
    >>> Period.MONTH.of(datetime(2026, 11, 15, tzinfo=UTC)), Period.WEEK.of(datetime(2026, 11, 15, tzinfo=UTC))
    ('2026-11', '2026-W46')
    """

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"

    def of(self, moment: datetime) -> str:
        """Return the name of the period; names of one kind sort as time does."""
        match self:
            case Period.DAY:
                return f"{moment:%Y-%m-%d}"
            case Period.WEEK:
                year, week, _ = moment.isocalendar()
                return f"{year:04d}-W{week:02d}"
            case Period.MONTH:
                return f"{moment:%Y-%m}"
            case Period.QUARTER:
                return f"{moment.year:04d}-Q{(moment.month + 2) // 3}"
            case Period.YEAR:
                return f"{moment.year:04d}"
            case _:
                assert_never(self)


WHOLE_LIFE = ""
"""The name of the only period of an account without periods."""


def parse_period(value: "str | Period | None") -> Period | None:
    """Return the period of that name, None for an account without periods, or raise `InvalidParameter`."""
    return None if value is None else check_choice("period", value, Period)


def period_id(period: Period | None, moment: datetime) -> str:
    """Return the name of the period that a moment lies in; empty for an account without periods."""
    return WHOLE_LIFE if period is None else period.of(moment)


Kind = Literal["setwise", "filter", "cap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What was promised at the opening, and what may be spent for it in each period.

    A set-wise account has `uses` to draw, and may have a wallet beside them as `totals`; a filter and a cap have
    `totals` alone. `cap` is the holder of the cap that the account's charges also draw on; an account that `slices` its
    cap pays from what it holds of it.
    """

    kind: Kind
    name: str
    analyst: str
    dataset: str
    period: Period | None
    epsilon: CertifiedBound
    delta: float
    failure_share: float
    uses: tuple[Use, ...] = ()
    totals: Totals | WalletTotals | CapTotals | None = None
    cap: int | None = None
    slices: bool = False

    def lines(self) -> dict[str, int]:
        """Return what may be spent in a period, and held of a cap at a time, per line."""
        registered = {line_of(use): use.count for use in self.uses}
        own = registered if self.totals is None else registered | self.totals.lines()
        return own | dict.fromkeys(SLICES.values(), UNITS) if self.slices else own

    def body(self) -> str:
        """Return the canonical text of the terms."""
        totals = None if self.totals is None else asdict(self.totals)
        if totals is not None and totals.get("keep") == "either":
            del totals["keep"]  # as caps were written before they could keep one rule from the start
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
            }
        )

    @property
    def account_totals(self) -> AccountTotals:
        """The totals of an account that has any; a cap's are not paid from directly."""
        assert self.totals is not None
        assert not isinstance(self.totals, CapTotals)
        return self.totals

    def split(self, uses: Sequence[Use]) -> tuple[list[Use], list[Use]]:
        """Return the uses that are registered, and those that the filter or the wallet pays."""
        registered = {line_of(use) for use in self.uses}
        draws = [use for use in uses if line_of(use) in registered]
        return draws, [use for use in uses if line_of(use) not in registered]

    @classmethod
    @lru_cache(maxsize=65536)
    def read(cls, body: str) -> Self:
        """Return the terms of a canonical text."""
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
        )


def _read_totals(record: dict[str, Any]) -> Totals | WalletTotals | CapTotals:
    if "wallet" not in record:
        return Totals(**record)
    return WalletTotals(**record) if "rho" in record else CapTotals(**record)


def line_of(use: Use) -> str:
    """Return the name of the line that a registered use is drawn from."""
    return format_use(Use(use.guarantee))


def charge_movements(
    holder: int, terms: Terms, cap: Totals | None, uses: Sequence[Use], period: str, spent: Mapping[str, int]
) -> list[Movement]:
    """Return the movements of a charge after `spent` was spent: on the account's lines, then on those of a zCDP cap."""
    movements = account_movements(holder, terms, uses, period, spent)
    if cap is not None:
        assert terms.cap is not None
        shared = cap.price(uses, {}).items()
        movements += [Movement(terms.cap, WHOLE_LIFE, what, amount) for what, amount in shared if amount]
    return movements


def account_movements(
    holder: int, terms: Terms, uses: Sequence[Use], period: str, spent: Mapping[str, int]
) -> list[Movement]:
    """Return the movements of a charge on the account's own lines after `spent` was spent.

    A registered use draws from its line, any other use from the filter or the wallet.
    """
    draws, others = terms.split(uses)
    own = {line_of(use): use.count for use in draws}
    if others and terms.totals is None:
        raise InvalidParameter(
            f"{format_use(others[0])} is not registered with the account {terms.name!r}, "
            f"which has {', '.join(format_use(use) for use in terms.uses)}"
        )
    if others:
        own |= terms.account_totals.price(others, spent)
    return [Movement(holder, period, what, amount) for what, amount in own.items() if amount]


def refund_movements(holder: int, uses: Sequence[Use], period: str) -> list[Movement]:
    """Return the movements by which a settlement gives unused draws back to a set-wise account."""
    return [Movement(holder, period, line_of(use), -use.count) for use in uses]


def slice_balances(spent: Mapping[str, int]) -> dict[str, int]:
    """Return the units of an account's slice, per line of the cap."""
    return {what: spent.get(line, 0) for what, line in SLICES.items()}


def slice_payment(holder: int, paid: Mapping[str, int]) -> list[Movement]:
    """Return the movements by which a charge pays from the account's slice."""
    return [Movement(holder, WHOLE_LIFE, SLICES[what], -units) for what, units in sorted(paid.items()) if units]


def slice_movements(holder: int, cap: int, amounts: Mapping[str, int]) -> list[Movement]:
    """Return the movements between a cap and the slice of an account: taken when positive, given back when negative.

    Units leave one side before they arrive at the other, because the database checks each movement against the one
    before it. Units of the line `rule` are spent and arrive nowhere.
    """
    found: list[Movement] = []
    for what, units in sorted(amounts.items()):
        pair = [Movement(cap, WHOLE_LIFE, what, units)]
        if what in SLICES:
            pair.append(Movement(holder, WHOLE_LIFE, SLICES[what], units))
        found += pair if units > 0 else pair[::-1]
    return found


def entry_movements(
    holder: int, terms: Terms, cap: Totals | None, contents: Contents, spent: Mapping[str, int]
) -> list[Movement]:
    """Return the movements of an entry after `spent` was spent, without the payment of a charge from a slice."""
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
    period: str | Period | None = None,
    wallet: float = 0.0,
    failure: float = 0.0,
) -> Terms:
    """Return the terms of an account that draws from registered uses, with the overall epsilon at `delta` certified.

    Certifying many different uses can take seconds and hundreds of megabytes: the service does it in a worker process.
    `Ledger.open_setwise` explains the arguments.
    """
    registered = merged(as_uses(uses))
    beside = _wallet_beside(wallet, failure)
    whole = merged((*registered, *(() if beside is None else beside.as_uses())))
    return Terms(
        kind="setwise",
        name=check_name(name, "an account's name"),
        analyst=check_label(analyst, "analyst"),
        dataset=check_label(dataset, "dataset"),
        period=parse_period(period),
        epsilon=compose(whole, Interaction.SETWISE).epsilon(delta),
        delta=float(delta),
        failure_share=0.5 if any(use.guarantee.split_off_failure()[1] for use in whole) else 0.0,
        uses=registered,
        totals=beside,
    )


def _wallet_beside(mu: float, failure: float) -> WalletTotals | None:
    """Return the wallet beside registered uses for a mu, or None for 0. It has no rule by the sum of losses."""
    if not mu:
        if failure:
            raise InvalidParameter("failure is what a wallet beside the registered uses may fail with: give a wallet")
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
    period: str | Period | None = None,
    failure_share: float | None = None,
    rule: str = "wallet",
) -> Terms:
    """Return the terms of an account that takes uses of any parameters, up to a budget (epsilon, delta).

    `Ledger.open_filter` explains the arguments.
    """
    share = failure_share_of(rule, failure_share)
    totals = (wallet_totals if rule == "wallet" else zcdp_totals)(epsilon=epsilon, delta=delta, failure_share=share)
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
    )


ACCOUNT_FAILURE_SHARE = 0.2
"""The share of an account's or cap's delta that is set aside for outright failures unless the opener names another.

Two questions that each fail with a tenth of delta fit, or a hundred with 0.2%. It costs about 1% of noise: two uses of
eighty (docs/ledger.md, "The share for failures").
"""

_RULES = {
    "wallet": (ACCOUNT_FAILURE_SHARE, "gaussian-wallet", "docs/optimal-composition.md, Gaussian wallets"),
    "zcdp": (0.5, "zcdp-filter", "WhitehouseRaRoWu23 with CanonneKaSt20"),
}
"""Per rule of a filter: its default share of delta for outright failures, its method, and its statement."""


def failure_share_of(rule: str, given: float | None) -> float:
    """Return the share of delta for outright failures, or raise `InvalidParameter` for an unknown rule."""
    if rule not in _RULES:
        raise InvalidParameter(f"rule must be zcdp or wallet, not {rule!r}")
    return _RULES[rule][0] if given is None else given


def filter_promise(rule: str, epsilon: float) -> CertifiedBound:
    """Return the promise of a filter account or a cap: its epsilon, by its rule."""
    _, method, statement = _RULES[rule]
    return CertifiedBound(float(epsilon), float(epsilon), Interaction.ADAPTIVE, method, statement)
