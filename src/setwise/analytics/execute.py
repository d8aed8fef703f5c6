"""Execution of a planned question: charge it, read the table, add noise, store the outcome.

`execute` is the one place where private rows are read after a charge.
"""

import json
import logging
import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol, TypeAlias

from setwise.accounting.brackets import Interaction
from setwise.accounting.guarantees import Use, merged
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.bounds_search import SearchMemory, bounds_in_answer
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.payer import Payer
from setwise.analytics.planning import ExecutablePlan, Plan
from setwise.analytics.precision import (
    releases_of,
    reliability_note,
    statistics_error,
    statistics_note,
    with_reliability,
)
from setwise.analytics.present.order import arranged
from setwise.analytics.present.text import counted_number, ending, interval_note, left_out_note, measured
from setwise.analytics.query import EVERYTHING, Query
from setwise.errors import AnswerWithheld, EngineFailed, SetwiseError, Unavailable, UnknownColumn, UnsuitableTable
from setwise.ledger.account import Receipt
from setwise.ledger.records import canonical
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.labels import Label
from setwise.mechanisms.planning.planner import plan
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.planning.statistics import plan_statistics
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import Item
from setwise.mechanisms.statistics import GroupRelease, GroupStatistics, GroupTable


class Reader(Protocol):
    """What a question is answered from: an engine, or what lends one."""

    def histogram(self, aggregation: Aggregation) -> Histogram:
        """Return every positive group with its exact bounded count."""
        ...

    def top(self, aggregation: Aggregation, most: int) -> Histogram:
        """Return the `most` highest groups, highest first; equal counts by label in code point order."""
        ...

    def statistics(self, aggregation: Aggregation) -> GroupTable:
        """Return the exact measures of every group."""
        ...


_WITHHELD = "withheld"
"""The only name in the stored outcome of a question that was charged and could not be answered."""

WITHHELD_REASON = (
    "the question was charged and then could not be answered, because of a defect that was logged; asking again under "
    "the same key returns this outcome: tell the operator, and ask under another key"
)
"""The same sentence whatever happened, because what happened may depend on private rows."""

_logger = logging.getLogger("setwise")


def execute(
    planned: ExecutablePlan,
    reader: Reader,
    payer: Payer,
    *,
    key: str,
    request: str,
    randomness: Randomness,
    searches: SearchMemory,
) -> tuple[str, bool]:
    """Charge the plan, run it and store its outcome; return the stored answer, and whether it was stored before.

    This is the only place where private rows are read, so it is also the only place that decides what a caller can see
    of a failure afterwards. The outcome of a charge is the answer, or the refusal `AnswerWithheld`, and is stored under
    the key before it is shown: a retry returns the same outcome. The only errors that leave no outcome are those of
    the engine and of the ledger's database. Such a run shows nothing that it drew, and a retry starts afresh, except
    that it uses the bounds which a search in this process has drawn for the charge (`searches`).

    Ensures: no row is read before the charge is stored. Unused draws are returned to an account that registered them.
    Raises: what `payer.charge` refuses; after the charge, what the engine raises (`EngineFailed`, `UnsuitableTable`,
        `UnknownColumn`), `StoreFailed` or `AnswerWithheld`, and nothing else.
    """

    def answered(receipt: Receipt, failures: _EngineFailures) -> tuple[PrivateAnswer, tuple[Use, ...]]:
        answer = _answer_planned(planned, _EngineReader(reader, failures), randomness, receipt, searches)
        registered = planned.plan.interaction is Interaction.SETWISE
        return answer, planned.unused(answer.spent) if registered else ()

    return _charge_and_settle(planned.plan.uses, payer, key, request, answered, searches)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPart:
    """A releasing SELECT of a statement that has several: its plan, and what returns the reader of its rows.

    The rows may depend on what earlier parts released, because a released number may stand in a condition.
    """

    planned: ExecutablePlan
    reader: Callable[[Sequence[PrivateAnswer]], Reader]


def execute_parts(
    parts: Sequence[StatementPart],
    whole: Plan,
    payer: Payer,
    *,
    key: str,
    request: str,
    randomness: Randomness,
    searches: SearchMemory,
) -> tuple[str, bool]:
    """Charge the uses of all parts once, run them in their order and store one outcome under the key.

    `whole` is the plan of the statement: the merged uses of its parts, and what they are promised to cost together. All
    parameters were fixed before the first part ran, so the uses compose set-wise although later rows depend on earlier
    answers. The outcome is that of `execute`; the answer holds the answers of the parts.
    """

    def answered(receipt: Receipt, failures: _EngineFailures) -> tuple[PrivateAnswer, tuple[Use, ...]]:
        answers: list[PrivateAnswer] = []
        for place, part in enumerate(parts):

            def answer_part(part: StatementPart = part, place: int = place) -> PrivateAnswer:
                with failures.remembering():
                    reader = _EngineReader(part.reader(tuple(answers)), failures)
                return _answer_planned(part.planned, reader, randomness, receipt, searches, f"part {place}: ")

            # Later parts read rows that depend on the answers of earlier ones, so a retry must not draw these anew.
            answers.append(searches.draw_once(receipt, f"answer of part {place}", answer_part))
        return _answer_whole(answers, whole), ()

    return _charge_and_settle(whole.uses, payer, key, request, answered, searches)


def _answer_whole(answers: Sequence[PrivateAnswer], whole: Plan) -> PrivateAnswer:
    """Return the answers of a statement as one: the items of the last, with what all of them cost."""
    return replace(
        answers[-1],
        mechanism=whole.mechanism,
        interaction=whole.interaction,
        epsilon=whole.epsilon,
        delta=whole.delta,
        method=whole.method,
        statement=whole.statement,
        spent=merged(use for answer in answers for use in answer.spent),
        alone=whole.alone,
        why=whole.why,
        found={name: value for answer in answers for name, value in answer.found.items()},
        parts=tuple(answers),
    )


Answered: TypeAlias = "Callable[[Receipt, _EngineFailures], tuple[PrivateAnswer, tuple[Use, ...]]]"
"""Reads rows for a charge, and returns the answer and the uses that go back to the account."""


def _charge_and_settle(
    uses: Sequence[Use], payer: Payer, key: str, request: str, answered: Answered, searches: SearchMemory
) -> tuple[str, bool]:
    """Charge the uses, run what was charged and store its outcome; return it, and whether it was stored before."""
    receipt = payer.charge(uses, key=key, request=request)
    if receipt.answer is not None:
        return _read_outcome(receipt.answer), True
    outcome, returned = _run_to_outcome(receipt, answered)
    try:
        stored = payer.settle(receipt, answer=outcome, returned=returned)
    except Unavailable:
        raise
    except Exception as error:  # an outcome that cannot be stored must not make room for another one
        stored = payer.settle(receipt, answer=_withhold(error))
    searches.forget(receipt)
    return _read_outcome(stored), False


def _run_to_outcome(receipt: Receipt, answered: Answered) -> tuple[str, tuple[Use, ...]]:
    """Return the text of the outcome, and the uses that go back to the account.

    Raises what an engine raises, and nothing else. Any other error, such as one of the second plan or of a conversion,
    may have been caused by what was read, so that it becomes the outcome.
    """
    engines = _EngineFailures()
    try:
        answer, returned = answered(receipt, engines)
        return answer.stored(), returned
    except Exception as error:
        if error is engines.failure:
            raise
        return _withhold(error), ()


def _withhold(error: Exception) -> str:
    """Return the stored outcome of a question that could not be answered; log the kind of error and its place.

    The error's message is neither stored nor logged, because it may quote what was read.
    """
    places = traceback.extract_tb(error.__traceback__)
    place = f"{places[-1].filename}:{places[-1].lineno}" if places else "an unknown place"
    _logger.error("a charged question was not answered: %s at %s", type(error).__name__, place)
    return canonical({_WITHHELD: WITHHELD_REASON})


def _read_outcome(stored: str) -> str:
    """Return the text of a stored answer, or raise `AnswerWithheld` if the outcome is a refusal."""
    if stored.startswith(f'{{"{_WITHHELD}":'):
        raise AnswerWithheld(json.loads(stored)[_WITHHELD])
    return stored


class _EngineFailures:
    """Remembers the failure of an engine, so that an engine's error can be told from any other error.

    By their contract (`Engine`), engines fail with `EngineFailed`, `UnsuitableTable` and `UnknownColumn` and constant
    words, which depend on no value in the table. Any other error of a reader is not its failure in this sense.
    """

    def __init__(self) -> None:
        self.failure: SetwiseError | None = None

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """Remember the failure of an engine inside the block, and let it go on."""
        try:
            yield
        except (EngineFailed, UnsuitableTable, UnknownColumn) as error:
            self.failure = error
            raise


class _EngineReader:
    """A reader whose failures are remembered."""

    def __init__(self, reader: Reader, failures: _EngineFailures) -> None:
        self._reader = reader
        self._failures = failures

    def histogram(self, aggregation: Aggregation) -> Histogram:
        with self._failures.remembering():
            return self._reader.histogram(aggregation)

    def top(self, aggregation: Aggregation, most: int) -> Histogram:
        with self._failures.remembering():
            return self._reader.top(aggregation, most)

    def statistics(self, aggregation: Aggregation) -> GroupTable:
        with self._failures.remembering():
            return self._reader.statistics(aggregation)


def _answer_planned(
    planned: ExecutablePlan,
    reader: Reader,
    randomness: Randomness,
    receipt: Receipt,
    searches: SearchMemory,
    part: str = "",
) -> PrivateAnswer:
    """Search for bounds if the plan asks for it, and return the answer; `part` names one of several plans."""
    search = planned.search
    if search is None:
        return _release_answer(planned, reader, randomness)
    found = searches.draw_once(
        receipt, f"{part}bounds", lambda: search.search.release(reader.statistics(search.aggregation), randomness)
    )
    bounded = search.plan_bounded(found)
    return _with_found_bounds(_release_answer(bounded, reader, randomness), planned, bounded.query)


def _release_answer(planned: ExecutablePlan, reader: Reader, randomness: Randomness) -> PrivateAnswer:
    """Return the answer of a plan without a search, whose mechanism reads no more than it needs."""
    query, mechanism, confidence = planned.query, planned.mechanism, planned.plan.error.confidence
    if isinstance(mechanism, GroupStatistics):
        return _of_statistics(
            planned, mechanism.release(reader.statistics(planned.aggregation), randomness, confidence)
        )
    if planned.most is None:
        read = reader.histogram(planned.aggregation)
    else:
        read = reader.top(planned.aggregation, planned.most)
    release = mechanism.release(read, randomness)
    cut = release if query.k is None else release.top(query.k)
    items = tuple(
        Item(
            label=_label(query, item.label),
            count=item.count if planned.shows_counts else None,
            interval=None if interval is None or not planned.shows_counts else (interval.lower, interval.upper),
            noisy=item.noisy if planned.shows_counts else None,
        )
        for item, interval in zip(cut.items, cut.intervals(confidence), strict=True)
    )
    note = interval_note(cut, confidence, counted_number(query)) if planned.shows_counts else ""
    return _answer(planned, items, release.spent, release.complete, note)


def _with_found_bounds(answer: PrivateAnswer, planned: ExecutablePlan, bounded: Query) -> PrivateAnswer:
    """Return the answer of the `bounded` query with what the whole question costs, and the bounds that were found."""
    found = bounds_in_answer(bounded, planned.query)
    listed = ", ".join(f"{name} {_in_words(value)}" for name, value in found.items())
    return replace(
        answer,
        interaction=planned.plan.interaction,
        epsilon=planned.plan.epsilon,
        delta=planned.plan.delta,
        method=planned.plan.method,
        statement=planned.plan.statement,
        mechanism=planned.plan.mechanism,
        spent=planned.plan.uses,
        alone=planned.plan.alone,
        why=f"found within a tenth of epsilon: {listed}; {answer.why}",
        found=found,
    )


def _in_words(value: object) -> str:
    return f"between {value[0]:g} and {value[1]:g}" if isinstance(value, list) else str(value)


def _of_statistics(planned: ExecutablePlan, release: GroupRelease) -> PrivateAnswer:
    assert isinstance(planned.mechanism, GroupStatistics)
    groups = with_reliability(planned.query, planned.mechanism, release)
    items = tuple(
        Item(label=_label(planned.query, label), estimates=estimates)
        for label, estimates in zip(release.labels, groups, strict=True)
    )
    note = statistics_note(planned.query, planned.plan.error.confidence, counted_number(planned.query))
    sentences = [sentence for sentence in (note, reliability_note(groups)) if sentence]
    return _answer(planned, items, release.spent, release.complete, " ".join(sentences))


def _answer(
    planned: ExecutablePlan, items: tuple[Item, ...], spent: Sequence[Use], complete: bool, note: str
) -> PrivateAnswer:
    query, plan = planned.query, planned.plan
    whole = None if query.domain is None else len(query.domain)  # how many items there can be, where that is known
    reached = query.item is None or len(items) in (query.k, whole)
    short = not reached and (query.k is not None or not items)
    return PrivateAnswer(
        kind=query.kind,
        measure=measured(query, planned.from_text, planned.version),
        items=arranged(query, planned.axes, items),
        mechanism=plan.mechanism,
        interaction=plan.interaction,
        epsilon=plan.epsilon,
        delta=plan.delta,
        method=plan.method,
        statement=plan.statement,
        spent=planned.in_account_names(spent),
        complete=reached,
        reason=ending(query, len(items), complete),
        why=plan.why,
        confidence=float(plan.error.confidence),
        interval_note=note,
        left_out=left_out_note(query, planned.aggregation.user),
        axes=planned.axes,
        hint=what_shows_more(query, planned.total) if short and planned.total is not None else "",
        alone=plan.alone,
        groups=query.groups if len(query.groups) > 1 else (),
        statistics=() if query.counted is not None else tuple(statistic.name for statistic in query.statistics),
    )


def _label(query: Query, label: Label) -> Label:
    """Return the item's name in the answer; the one group of a count or sum is called by what it counts."""
    if query.item is not None or label != EVERYTHING:
        return label
    if query.counted is None:
        return EVERYTHING
    return query.counted.column or ("users" if query.per_item == 1 else "events")


_FEWER_CONTRIBUTIONS = (20, 5, 1)
_LARGER_EPSILONS = (Fraction(1), Fraction(5))
_WORTHWHILE = 0.75
"""The share of today's lead that another parameter must do with to be named."""


def what_shows_more(query: Query, total: Total) -> str:
    """Return which lead an item needed to be shown, and which parameters would have shown more; "" where none would.

    Each parameter is planned as a question of its own, so the numbers are those its preview would have.
    """
    needed = _lead(query, total)
    if query.domain is not None or needed is None:
        return ""
    remedies = [*_by_contributions(query, total, needed), *_by_epsilon(query, total, needed)]
    found = f"an item is shown when its count is {needed:,} above those left out"
    return (
        f"{found}; {' or '.join(remedies)} would do"
        if remedies
        else f"{found}; more can be shown from a list of public items"
    )


def _by_contributions(query: Query, total: Total, needed: int) -> list[str]:
    for bound in _FEWER_CONTRIBUTIONS:
        if query.contributions is None or bound < query.contributions:
            lead = _lead(replace(query, contributions=bound), total)
            if lead is not None and lead <= _WORTHWHILE * needed:
                return [f"{lead:,} with contributions = {bound} (at most {bound} item{'s' * (bound > 1)} of a user)"]
    return []


def _by_epsilon(query: Query, total: Total, needed: int) -> list[str]:
    for epsilon in _LARGER_EPSILONS:
        if total.epsilon < epsilon:
            lead = _lead(query, replace(total, epsilon=epsilon))
            if lead is not None and lead <= _WORTHWHILE * needed:
                return [f"{lead:,} with epsilon = {float(epsilon):g}"]
    return []


def _lead(query: Query, total: Total) -> int | None:
    """Return by how much an item must lead to be shown, or None where that is no matter or cannot be planned."""
    try:
        if query.counted is None:
            error = statistics_error(plan_statistics(query.bounds, total, releases_of(query.statistics)))
        else:
            error = plan(query.bounds, total).preview
    except SetwiseError:
        return None
    return None if error.detectable is None else max(error.detectable, error.shortfall or 0)


def padded(elapsed: float, step: float) -> float:
    """Return the least of step, 2 step, 4 step, 8 step, ... that is no less than `elapsed`; with step 0, `elapsed`.

    An observer of one answer learns which power of two its time lay under, and no more.

    >>> [padded(seconds, 0.25) for seconds in (0.01, 0.25, 0.26, 3.0)]
    [0.25, 0.25, 0.5, 4.0]
    """
    if step <= 0.0:
        return elapsed
    if elapsed <= step:
        return step
    power = math.ceil(math.log2(elapsed / step))
    return float(step * 2**power) if step * 2**power >= elapsed else float(step * 2 ** (power + 1))
