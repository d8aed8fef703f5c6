"""The releases of a live series: the first period in which a private group is shown, and the stored noisy counts.

A live series is a set of noisy user counts that is released period by period. The ledger stores each release as a text.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise.ledger.records import canonical
from setwise.live.states.base import History
from setwise.mechanisms.running_totals import RunningTotals

NEVER = np.iinfo(np.int64).max
"""The period number that stands for "not shown": the group has not passed its threshold in any counted period."""


def release_texts(
    totals: RunningTotals, history: History, dates: list[str], public: bool, earlier: Sequence[str] = ()
) -> list[str]:
    """Return the JSON texts to release now, one for each period of `history` that was not released before.

    - `totals` is the noise mechanism of the series.
    - `history` has the exact counts and the noise of all periods so far, and `dates` has the first days of the periods.
    - `public` says whether the groups are public; if so, all are shown in the first period.
    - `earlier` are the texts of the first periods, which were released before.

    A private group is hidden until it has users and the noisy estimate of their number exceeds a threshold; it is then
    shown in all later periods. The text of a period has one noisy value of this period for each group that was shown
    before, in the order in which the groups were first shown. For each group that this period shows first, the text has
    the noisy values of all periods so far. Equal histories give equal texts, so that an update that is repeated
    releases the same numbers.

    Raises `KeyError` if `earlier` shows a group that the history does not have.
    """
    noisy = totals.release(history.counts, history.noise)
    shown_from = np.zeros(len(history.labels), dtype=np.int64) if public else first_shown(totals, history, noisy)
    rows = {label: row for row, label in enumerate(history.labels)}
    order = [rows[label] for label in read_releases(earlier).labels]
    hidden = np.ones(len(history.labels), dtype=bool)
    hidden[order] = False
    texts = []
    for period in range(len(earlier), history.periods):
        new: list[int] = np.flatnonzero(hidden & (shown_from <= period)).tolist()
        # The history has the groups in the order in which users brought them into the data. A single user may decide
        # that order, so no release may repeat it.
        if not public:
            new.sort(key=lambda row: (isinstance(history.labels[row], str), history.labels[row]))
        body = {
            "period": dates[period],
            "values": noisy[order, period].tolist(),
            "new": [{"item": history.labels[row], "values": noisy[row, : period + 1].tolist()} for row in new],
        }
        # If a private state was copied and both copies are updated, their noise differs. The random mark makes their
        # texts differ too, even if no group is shown, so that the ledger notices.
        if history.marks[period]:
            body["mark"] = history.marks[period]
        texts.append(canonical(body))
        order += new
        hidden[new] = False
    return texts


def is_same_release(one: str, other: str) -> bool:
    """Return whether `one` and `other`, two texts released for one period, say the same.

    The groups that a period shows first may be listed in any order, because earlier versions of Setwise listed them in
    another order. Everything else must be equal.
    """
    bodies: list[dict[str, Any]] = [json.loads(text) for text in (one, other)]
    # Earlier versions listed new groups in the order of the data, and their series are still updated.
    for body in bodies:
        body["new"] = sorted(body["new"], key=lambda group: (isinstance(group["item"], str), group["item"]))
    return bodies[0] == bodies[1]


def first_shown(totals: RunningTotals, history: History, noisy: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each private group, the number (from 0) of the period in which it is first shown; `NEVER` if in none.

    A group is shown once it has users and the estimate of its number of users exceeds the threshold of the period. The
    threshold hides groups with only one user.

    - `totals` is the noise mechanism of the series, which has the thresholds.
    - `history` has the exact counts of all periods so far.
    - `noisy` are the noisy values, with groups in rows and periods in columns.
    """
    # The threshold hides groups of one user.
    has_users = np.cumsum(history.counts, axis=1) > 0
    passes = has_users & (totals.estimates(noisy) > totals.thresholds()[: history.periods])
    return np.where(passes.any(axis=1), passes.argmax(axis=1), NEVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The released numbers of a live series, from which `RunningTotals.estimates` estimates numbers of users.

    - `periods` are the first days of the periods, as YYYY-MM-DD.
    - `labels` are the groups, in the order in which they were first shown.
    - `noisy` has a row for each group and a column for each period. A value is noise plus a weighted sum of the group's
      counts of new users up to that period. It is a whole number of units of 2^-b users, where b is the field `bits` of
      the series' mechanism (`RunningTotals`).
    - `shown_from` has, for each group, the number (from 0) of the period that first showed it.
    """

    periods: tuple[str, ...]
    labels: tuple[str | int, ...]
    noisy: NDArray[np.int64]
    shown_from: tuple[int, ...]


def read_releases(texts: Iterable[str]) -> Released:
    """Return the released numbers of a live series, parsed from the JSON `texts` of its periods in order.

    `release_texts` makes such texts, each with noisy user counts of groups.
    """
    periods: list[str] = []
    labels: list[str | int] = []
    rows: list[list[int]] = []
    shown_from: list[int] = []
    for place, text in enumerate(texts):
        body: dict[str, Any] = json.loads(text)
        periods.append(body["period"])
        for row, value in zip(rows, body["values"], strict=True):
            row.append(value)
        for group in body["new"]:
            labels.append(group["item"])
            rows.append(list(group["values"]))
            shown_from.append(place)
    noisy = np.array(rows, dtype=np.int64).reshape(len(rows), len(periods))
    return Released(periods=tuple(periods), labels=tuple(labels), noisy=noisy, shown_from=tuple(shown_from))
