"""What each period of a series releases, as the ledger keeps it, and the released numbers put together again."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise.ledger.records import canonical
from setwise.live.states.base import History
from setwise.mechanisms.running_totals import RunningTotals

NEVER = np.iinfo(np.int64).max
"""The period in which a group is shown that never passes its threshold."""


def release_texts(totals: RunningTotals, history: History, dates: list[str], public: bool, first: int = 0) -> list[str]:
    """Return what each counted period from `first` on releases, as texts for the ledger.

    Equal histories have equal texts.

    A text has the noisy numbers y of the groups shown before, in the order in which they were first shown, and for each
    group that is new the whole of its y up to then. Public groups are all shown in the first period.
    """
    noisy = totals.release(history.counts, history.noise)
    shown_from = np.zeros(len(history.labels), dtype=np.int64) if public else first_shown(totals, history, noisy)
    texts, order = [], list[int]()
    for period in range(history.periods):
        new = np.flatnonzero(shown_from == period).tolist()
        if period < first:
            order += new
            continue
        body = {
            "period": dates[period],
            "values": noisy[order, period].tolist(),
            "new": [{"item": history.labels[row], "values": noisy[row, : period + 1].tolist()} for row in new],
        }
        texts.append(canonical(body))
        order += new
    return texts


def first_shown(totals: RunningTotals, history: History, noisy: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each private group the first period in which it may be shown, or `NEVER`.

    A group is looked at from the period on in which somebody has it, and shown when its estimate exceeds the threshold.
    """
    held = np.cumsum(history.counts, axis=1) > 0
    passes = held & (totals.estimates(noisy) > totals.thresholds()[: history.periods])
    return np.where(passes.any(axis=1), passes.argmax(axis=1), NEVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The released numbers of a series: groups in the order in which they were shown, periods in columns."""

    periods: tuple[str, ...]
    labels: tuple[str | int, ...]
    noisy: NDArray[np.int64]
    shown_from: tuple[int, ...]


def read_releases(texts: Iterable[str]) -> Released:
    """Return the released numbers that texts, in the order of their periods, hold."""
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
