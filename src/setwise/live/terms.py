"""The terms of a live series (what it counts, how long, late days), and the noise that its budget allows.

A live series is a set of noisy user counts that is released period by period.
"""

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
from setwise.live.calendar import Calendar, PeriodLength, parse_date
from setwise.mechanisms.labels import Label, distinct_labels
from setwise.mechanisms.parameters import positive_integer, probability, rational
from setwise.mechanisms.running_totals import Purpose, RunningTotals, Shape, choose_shape, wanted_window
from setwise.records import set_fields

LATE_DAYS = 7
"""Default number of days before the first unreleased period that an update reads again, for events that came late."""

_MOST_LATE_DAYS = 4000
_FAILURE_SHARES = (0.3, 0.1, 0.02)
"""Shares of delta to try for the threshold of private groups; the first share that the payer can pay for is taken.

The threshold is lowest at about 0.3 of delta and grows slowly below that. A bare Gaussian wallet sets aside 0.02 of its
delta by default (`setwise.accounting.wallet`), so the last share fits into it.
"""


class Unit:
    """The units of privacy of a live series: what is protected as a whole.

    "user" protects all rows of a user together. "user,day" protects all rows of one user on one day together, which is
    a weaker promise.
    """

    USER = "user"
    USER_DAY = "user,day"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTerms:
    """What a live series counts: the distinct users of every group, where a group is a value of the column `item`.

    - `table` is the table, `user` its column of users, and `at` its column with the time of an event.
    - `source` has the engine and the options with which the table is opened.
    - `where` is a filter of rows, or None.
    - `start` is the first day, and `periods` the number of periods of length `every` ("day", "week" or "month").
    - `contributions` is the most groups in which a user counts; a user counts in their earliest groups.
    - `purpose` says which estimates get the smallest error ("totals", "periods" or "windows" of `window` periods).
    - `domain` lists the groups if they are public, and is None for private groups.
    - `unit` is "user", or "user,day" to protect, and count, each day of a user by itself.
    - `late_days` is how late events may arrive, in days: an update reads again the rows from this many days before the
      first period that it releases.
    - `user_type` is the type of the user column at the opening, such as "integer", or None if it was not recorded.

    Raises `InvalidParameter` for a wrong field.
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
    user_type: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "the name of a series")
        for name in ("table", "user", "item", "at"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise InvalidParameter(f"{name} must be a name, not {getattr(self, name)!r}")
        positive_integer("contributions", self.contributions)
        set_fields(self, start=parse_date(self.start, "start"))
        wanted_window(self.calendar.periods, check_choice("purpose", self.purpose, Purpose), self.window)
        if self.unit not in (Unit.USER, Unit.USER_DAY):
            statement = (
                f"SELECT DATE_TRUNC('month', {self.at}) AS month, COUNT(DISTINCT {self.user}) AS users "  # noqa: S608 - shown
                "FROM table GROUP BY month"
            )
            raise InvalidParameter(
                f"unit must be 'user' or 'user,day' (each day of a user by itself), not {self.unit!r}: a series counts "
                f"users so far and new ones, so ask in SQL how many are active in each week or month: {statement}"
            )
        if type(self.late_days) is not int or not 0 <= self.late_days <= _MOST_LATE_DAYS:
            raise InvalidParameter(f"late_days must lie between 0 and {_MOST_LATE_DAYS}, not {self.late_days!r}")
        if self.domain is not None:
            set_fields(self, domain=distinct_labels(self.domain))
            if not self.domain:
                raise InvalidParameter("domain must hold at least one label")

    @property
    def calendar(self) -> Calendar:
        """The periods of the series as a `Calendar`: their number, their length and the first day."""
        return Calendar(
            every=PeriodLength(check_choice("every", self.every, PeriodLength)), start=self.start, periods=self.periods
        )

    @property
    def key(self) -> str:
        """The idempotency key, ``live:NAME``, under which the ledger charges the series."""
        return f"live:{self.name}"

    def shape(self) -> Shape:
        """Return the weights with which each release of the series adds up a group's counts of all periods so far.

        Noise is added to the weighted sum. At the same privacy cost, different weightings are best for running totals,
        for counts of one period, and for counts over windows. The result is the weighting with the smallest error for
        the numbers that the `purpose` of the series names, such as "totals".
        """
        return choose_shape(self.periods, Purpose(self.purpose), self.window)

    def changeable(self) -> int:
        """Return the largest number of groups whose counts one protected unit can change.

        The protected unit is a user or, if `unit` says so, one day of a user. The number is the limit `contributions`
        or, if fewer groups are public, the number of public groups. The sensitivity of the counts, and with it their
        noise, is computed from it.
        """
        return self.contributions if self.domain is None else min(self.contributions, len(self.domain))

    def is_bounded(self) -> bool:
        """Return whether groups of a user may be left out: False if there are at most `contributions` public groups."""
        return self.domain is None or self.contributions < len(self.domain)

    def to_dict(self) -> dict[str, Any]:
        """Return the terms of the series as a dict of JSON values, the form that the ledger's audit log stores."""
        names = (slot for slot in SeriesTerms.__slots__ if getattr(self, slot) is not None)
        plain = {name: getattr(self, name) for name in names}
        domain = {} if self.domain is None else {"domain": list(self.domain)}
        return plain | domain | {"start": self.start.isoformat(), "source": dict(self.source)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "SeriesTerms":
        """Return the terms of a series from `record`, the dict of JSON values that `to_dict` returned."""
        return cls(**record)

    def request(self, totals: RunningTotals) -> str:
        """Return the JSON text that the ledger stores with the series' charge: the terms, and the noise of `totals`.

        `totals` is the noise mechanism of the series. Equal terms and noise give equal text, so the ledger recognises a
        series that is opened again, and charges nothing.
        """
        # Equal terms and noise have equal text, so the ledger recognises a series that is opened again and charges
        # nothing.
        noise = {"sigma": totals.sigma, "failure": totals.failure, "shape": str(self.shape())}
        return canonical({"live": self.to_dict(), "mechanism": noise})


def plan_within(
    terms: SeriesTerms,
    *,
    epsilon: float,
    delta: float,
    pays: Callable[[tuple[Use, ...]], bool] = lambda _: True,
) -> RunningTotals:
    """Return a noise mechanism for a live series, all of whose releases together are then (epsilon, delta)-DP.

    A live series is a set of noisy user counts, and `terms` say what it counts. The noise is about the smallest with
    which the releases are (epsilon, delta)-DP.

    If the groups are private, a threshold hides groups with only one user. A part of `delta` is the probability that
    the threshold fails to hide such a group. A larger part allows a lower threshold, but an account may pay for only a
    small probability of this kind. So several parts are tried, from 0.3 of `delta` down. `pays(uses)` says whether the
    account can pay for `uses`, the guarantees of the mechanism. The result has the first part that the account can pay
    for or, if there is none, the smallest part.
    """
    exact_epsilon = rational("epsilon", epsilon, Fraction(1, 10**6), Fraction(100))
    whole_delta = float(probability("delta", delta))
    if terms.domain is not None:
        return plan_drawn(terms, sigma=_calibrate_sigma(float(exact_epsilon), whole_delta, None))
    for share in _FAILURE_SHARES:
        failure = share * whole_delta
        plan = plan_drawn(terms, sigma=_calibrate_sigma(float(exact_epsilon), whole_delta, failure), failure=failure)
        if pays(plan.uses()):
            break
    return plan


def plan_drawn(terms: SeriesTerms, *, sigma: float, failure: float | None = None) -> RunningTotals:
    """Return the noise mechanism of a live series (noisy user counts) with these `terms`, with noise of scale `sigma`.

    - `sigma` is the scale of the Gaussian noise divided by the sensitivity. All releases of the series together cost as
      much as one Gaussian mechanism of this sigma.
    - `failure`, for private groups, bounds the probability that the threshold shows a group with only one user; the
      account pays for this probability too. It is None for public groups.

    Raises `InvalidParameter` if private groups have no `failure`, or public groups have one.
    """
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


def _calibrate_sigma(epsilon: float, delta: float, failure: float | None) -> float:
    """Return about the smallest sigma for which Gaussian noise is certified to be (epsilon, delta)-DP.

    The noise has a standard deviation of sigma times the sensitivity. If `failure` is not None, private groups are also
    hidden by a threshold, which may reveal everything with the probability `failure`. The noise and the threshold are
    then (epsilon, delta)-DP together.
    """
    fixed = () if failure is None else (Use(ApproxDP(epsilon=0.0, delta=failure)),)
    noise = smallest_noise(lambda sigma: [Use(Gaussian(sigma=sigma)), *fixed], epsilon=epsilon, delta=delta)
    return math.nextafter(noise.value, math.inf)
