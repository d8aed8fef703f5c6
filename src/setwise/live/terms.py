"""What a series counts, for how long and for what purpose, and the mechanism that its budget buys."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import Any

from setwise.accounting.calibrate import smallest_noise
from setwise.accounting.checks import check_choice
from setwise.accounting.guarantees import ApproxDP, Gaussian, Use
from setwise.errors import InvalidParameter
from setwise.ledger.records import canonical, check_name
from setwise.live.calendar import Calendar, Every, parse_date
from setwise.mechanisms.labels import Label, distinct_labels
from setwise.mechanisms.parameters import positive_integer, probability, rational
from setwise.mechanisms.running_totals import Purpose, RunningTotals, Shape, choose_shape, wanted_window

LATE_DAYS = 7
"""How many days before the first unreleased period are read again for late events, unless a series says otherwise."""

_MOST_LATE_DAYS = 4000
_FAILURE_SHARES = (0.3, 0.1, 0.02)
"""Shares of delta that are tried for the failure of private groups; the first that the payer can pay for is taken.

The threshold is lowest at about 0.3 of delta and grows slowly below; wallets set aside 0.02 of theirs for failures.
"""


class Unit:
    """The names of the units of privacy: a user, or each day of a user by itself."""

    USER = "user"
    USER_DAY = "user,day"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTerms:
    """What a series counts: the users of every group of `item`, each once, from `start` on.

    `at` is the column of the time of an event. Each user keeps at most `contributions` groups, the first in order of
    time. With `unit` "user,day" each day of a user is a unit by itself, and what is counted are days of users. `domain`
    lists the groups if they are public. `late_days` says how many days before the first unreleased period an update
    reads again, for events that arrived late. `source` says how the table is opened again: its engine and options.
    """

    name: str
    table: str
    user: str
    item: str
    at: str
    every: str
    start: date
    periods: int
    contributions: int
    purpose: str = "totals"
    window: int | None = None
    where: str | None = None
    domain: tuple[Label, ...] | None = None
    unit: str = Unit.USER
    late_days: int = LATE_DAYS
    source: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name(self.name, "the name of a series")
        for name in ("table", "user", "item", "at"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise InvalidParameter(f"{name} must be a name, not {getattr(self, name)!r}")
        positive_integer("contributions", self.contributions)
        object.__setattr__(self, "start", parse_date(self.start, "start"))
        wanted_window(self.calendar.periods, check_choice("purpose", self.purpose, Purpose), self.window)
        if self.unit not in (Unit.USER, Unit.USER_DAY):
            raise InvalidParameter(f"unit must be 'user' or 'user,day', not {self.unit!r}")
        if type(self.late_days) is not int or not 0 <= self.late_days <= _MOST_LATE_DAYS:
            raise InvalidParameter(f"late_days must lie between 0 and {_MOST_LATE_DAYS}, not {self.late_days!r}")
        if self.domain is not None:
            object.__setattr__(self, "domain", distinct_labels(self.domain))
            if not self.domain:
                raise InvalidParameter("domain must hold at least one label")

    @property
    def calendar(self) -> Calendar:
        """The periods of the series."""
        return Calendar(every=Every(check_choice("every", self.every, Every)), start=self.start, periods=self.periods)

    @property
    def key(self) -> str:
        """The key under which the series is charged, once."""
        return f"live:{self.name}"

    def shape(self) -> Shape:
        """Return the coefficients with the least error for the purpose."""
        return choose_shape(self.periods, Purpose(self.purpose), self.window)

    def changeable(self) -> int:
        """Return how many groups one unit can change."""
        return self.contributions if self.domain is None else min(self.contributions, len(self.domain))

    def to_dict(self) -> dict[str, Any]:
        """Return the terms as plain values, as the ledger keeps them."""
        names = (each for each in SeriesTerms.__slots__ if getattr(self, each) is not None)
        plain = {name: getattr(self, name) for name in names}
        domain = {} if self.domain is None else {"domain": list(self.domain)}
        return plain | domain | {"start": self.start.isoformat(), "source": dict(self.source)}

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> "SeriesTerms":
        """Return the terms that `to_dict` wrote."""
        return cls(**written)

    def request(self, totals: RunningTotals) -> str:
        """Return the text under which the ledger keeps the charge: the same terms and noise have the same text."""
        noise = {"sigma": totals.sigma, "failure": totals.failure, "shape": str(self.shape())}
        return canonical({"live": self.to_dict(), "mechanism": noise})


def plan_within(
    terms: SeriesTerms,
    *,
    epsilon: float,
    delta: float,
    pays: Callable[[tuple[Use, ...]], bool] = lambda _: True,
) -> RunningTotals:
    """Return the mechanism with the least noise that is (epsilon, delta)-differentially private for a whole series.

    For private groups a share of delta pays for their threshold. `pays` says whether the payer can pay for uses; where
    it can for no share, the plan with the smallest share is returned.
    """
    exact = rational("epsilon", epsilon, Fraction(1, 10**6), Fraction(100))
    whole = float(probability("delta", delta))
    if terms.domain is not None:
        return plan_drawn(terms, sigma=_calibrated(float(exact), whole, None))
    for share in _FAILURE_SHARES:
        failure = share * whole
        plan = plan_drawn(terms, sigma=_calibrated(float(exact), whole, failure), failure=failure)
        if pays(plan.uses()):
            break
    return plan


def plan_drawn(terms: SeriesTerms, *, sigma: float, failure: float | None = None) -> RunningTotals:
    """Return the mechanism that costs one ``gaussian:SIGMA``, and for private groups one ``approx:0,FAILURE``."""
    if (failure is None) != (terms.domain is not None):
        raise InvalidParameter(
            "groups that are private need a failure probability: give delta, or list the groups"
            if failure is None
            else "groups that are public need no failure probability: leave it out"
        )
    return RunningTotals.plan(
        periods=terms.periods,
        contributions=terms.changeable(),
        sigma=sigma,
        shape=terms.shape(),
        failure=failure,
    )


def _calibrated(epsilon: float, delta: float, failure: float | None) -> float:
    fixed = () if failure is None else (Use(ApproxDP(epsilon=0.0, delta=failure)),)
    found = smallest_noise(lambda sigma: [Use(Gaussian(sigma=sigma)), *fixed], epsilon=epsilon, delta=delta)
    return math.nextafter(found.value, math.inf)
