"""The ledger's register of live series: the terms under which each was opened, and which of them were closed.

A live series is a set of noisy user counts that is charged once and released period by period. The register consists of
events in the ledger's audit log.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from setwise.errors import NameTaken
from setwise.ledger.ledger import Ledger
from setwise.live.terms import SeriesTerms, plan_drawn
from setwise.mechanisms.running_totals import RunningTotals

OPENED = "live.opened"
CLOSED = "live.closed"
"""The audit actions under which the ledger's register records that a series was opened or closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The ledger's record of an opened live series: who pays, where the private state is, and the terms.

    A live series is a set of noisy user counts that is charged once and released period by period.

    - `account` is the name of the account that pays.
    - `own_account` says whether that account was opened for this series alone.
    - `state` is the address of the private state (counted users and noise), without a password.
    - `delta` is the delta at which the paying account states its epsilon.
    - `sigma` is the noise scale divided by the sensitivity.
    - `failure` bounds the probability that a group with only one user is shown; None if the groups are public.
    - `terms` say what the series counts.
    """

    account: str
    own_account: bool
    state: str
    delta: float
    sigma: float
    failure: float | None
    terms: SeriesTerms

    def to_dict(self) -> dict[str, Any]:
        """Return the record of the opened series as a dict of JSON values, as the ledger's audit log stores it."""
        names = ("account", "own_account", "state", "delta", "sigma", "failure")
        return {**{name: getattr(self, name) for name in names}, "terms": self.terms.to_dict()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Opening":
        """Return the record of an opened series from `record`, the dict of JSON values that `to_dict` returned."""
        return cls(**{**record, "terms": SeriesTerms.from_dict(record["terms"])})

    @property
    def totals(self) -> RunningTotals:
        """The mechanism that adds the noise of the series, made from the terms and two parameters that were recorded.

        The parameters are `sigma` (the noise scale divided by the sensitivity) and `failure` (a bound on the
        probability that a group with only one user is shown; None if the groups are public).
        """
        return plan_drawn(self.terms, sigma=self.sigma, failure=self.failure)


def openings_of(ledger: Ledger) -> dict[str, tuple[Opening, bool]]:
    """Return every live series of the ledger by name: the record of its opening, and whether it was closed.

    A live series is a set of noisy user counts that is released period by period. If the audit log has several openings
    of one name, the first one is returned.
    """
    series_by_name: dict[str, tuple[Opening, bool]] = {}
    for record in ledger.acts(actions=(OPENED, CLOSED)):
        event = record.event
        if event.action == OPENED and event.subject not in series_by_name:
            series_by_name[event.subject] = (Opening.from_dict(event.details), False)
        elif event.action == CLOSED and event.subject in series_by_name:
            series_by_name[event.subject] = (series_by_name[event.subject][0], True)
    return series_by_name


def is_recorded(ledger: Ledger, opening: Opening) -> bool:
    """Return whether the ledger's audit log already has this `opening` of a live series.

    A live series is a set of noisy user counts that is released period by period. Raises `NameTaken` if the name in the
    terms of `opening` belongs to another series, or to a series that was closed.
    """
    existing = openings_of(ledger).get(opening.terms.name)
    if existing is not None and existing != (opening, False):
        raise NameTaken(f"a series is called {opening.terms.name!r} already: take another name")
    return existing is not None
