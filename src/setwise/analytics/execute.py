"""Execution of a planned question: charge, read, add noise, store the outcome; padded times and withheld answers.

`execute` is the only place where private rows are read after a charge.
"""

import json
import logging
import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from setwise.accounting.brackets import Interaction
from setwise.accounting.guarantees import Use, merged
from setwise.accounting.promises import USER
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.payer import Payer
from setwise.analytics.planning.bounds_search import SearchMemory
from setwise.analytics.planning.expected_error import ranks_note, reliability_note, statistics_note, with_reliability
from setwise.analytics.planning.found_bounds import with_found_bounds
from setwise.analytics.planning.plan import ExecutablePlan, Plan
from setwise.analytics.planning.suggestions import hint_for_answer
from setwise.analytics.present.order import arrange_items
from setwise.analytics.present.text import (
    brief_bounds_note,
    counted_number,
    ending,
    hidden_groups_note,
    in_heading,
    interval_note,
    left_out_note,
    measure_text,
    utc_note,
)
from setwise.analytics.query import EVERYTHING, Query
from setwise.errors import AnswerWithheld, EngineFailed, SetwiseError, Unavailable, UnknownColumn, UnsuitableTable
from setwise.ledger.account import Receipt
from setwise.ledger.records import canonical
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.labels import Label
from setwise.mechanisms.planning.request import MechanismName
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import Estimate, Item
from setwise.mechanisms.statistic_release import GroupTable
from setwise.mechanisms.statistics import GroupRelease, GroupStatistics
from setwise.mechanisms.weighted_rounds import DiscoveredCounts, Discovery, GroupWeights, WeightedRounds


class RoundReader(Protocol):
    """The reader of one search for private groups (groups whose keys are not public): it returns their exact weights.

    The search passes over the table in several rounds. In each round it adds noise to the weight of every group that is
    not found yet, and finds the groups whose noisy weight is high. A user who is in n groups that are not found yet
    adds a weight proportional to 1 / sqrt(n) to each of them. So the l2 norm of what one user adds, and with it the
    noise, does not grow with the user's number of groups.
    """

    def read(self, found_labels: Sequence[Label]) -> GroupWeights:
        """Return the exact weight of every group whose label is not in `found_labels`.

        The weight of a group is a sum over its users. A user who is in n groups not found yet adds about 1 / sqrt(n) to
        each of them. `found_labels` are the labels of the groups that earlier rounds (noisy passes over the table)
        found. The result also has two sums, from which the number of users and their mean number of groups are
        estimated. Weights and sums are exact; the caller adds noise before it uses them.
        """
        ...


class Reader(Protocol):
    """The interface through which a question reads rows: an engine, or an object that borrows an engine from a pool."""

    def histogram(self, aggregation: Aggregation) -> Histogram:
        """Return the exact count of every group whose count is positive; no noise is added here.

        `aggregation` states the columns, the most that one user adds to a group, and the most groups of one user.
        """
        ...

    def top(self, aggregation: Aggregation, most: int) -> Histogram:
        """Return the `most` groups with the highest exact counts, highest first; equal counts are ordered by label.

        No noise is added here. `aggregation` states the columns, the most that one user adds to a group, and the most
        groups of one user.
        """
        ...

    def statistics(self, aggregation: Aggregation) -> GroupTable:
        """Return the exact numbers of every group: its users, and for each measure the sum of what users add.

        A measure (`Measure`) is a whole number that each user adds to a group. `aggregation` states the columns, the
        measures, and the most groups to which one user adds.
        """
        ...

    def group_weights(self, aggregation: Aggregation) -> AbstractContextManager[RoundReader]:
        """Return a context manager for one search for private groups, whose keys are not public.

        The context manager yields the `RoundReader` from which the search reads exact numbers in each of its rounds
        (noisy passes over the table). `aggregation` says which groups and rows are read.
        """
        ...


_WITHHELD = "withheld"
"""The only key in the stored outcome of a question that was charged and could not be answered."""

WITHHELD_REASON = (
    "the question was charged and then could not be answered, because of a defect that was logged; asking again under "
    "the same key returns this outcome: tell the operator, and ask under another key"
)
"""One sentence for every such failure, because the cause of the failure may depend on private rows."""

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
    unit: str = USER,
) -> tuple[str, bool]:
    """Charge the plan `planned`, run it and store the answer; return (answer as text, whether it was stored before).

    - `reader` reads the rows, and `payer` is charged.
    - `key` is the idempotency key of the charge and of the stored answer; a retry with this key returns the answer.
    - `request` is the canonical text of the request. This text is stored with the charge, so that a retry is
      recognised, and another question under the same key is refused.
    - `randomness` is the source of the noise.
    - `searches` keeps the noisy results of searches for bounds and groups, so that a retry uses them again and draws no
      new noise for them.
    - `unit` is the unit of privacy, such as "user".

    Ensures: no row is read before the charge is stored. An account may pay with guarantees of single mechanisms that it
    registered at its opening; those that were charged but not needed are then given back to it.
    Raises: what `payer.charge` raises, such as `BudgetExhausted`. After the charge, only errors of the engine
    (`EngineFailed`, `UnsuitableTable`, `UnknownColumn`), `StoreFailed`, or `AnswerWithheld` (the charged question
    cannot be answered; this is stored, and a retry raises it again).
    """

    def compute(receipt: Receipt, failures: _EngineFailures) -> tuple[PrivateAnswer, tuple[Use, ...]]:
        answer = _answer_planned(planned, _EngineReader(reader, failures), randomness, receipt, searches)
        registered = planned.plan.interaction is Interaction.SETWISE
        return answer.in_units(unit, planned.query.columns), planned.unused(answer.spent) if registered else ()

    # Private rows are read after a charge only here and in `execute_parts`, which decides what a caller can see of
    # failures. The outcome is stored before it is shown. After an error of the engine or of the ledger's database no
    # outcome is stored: the caller has then seen no noisy value, and a retry draws new noise, but uses the results in
    # `searches` again.
    return _charge_and_settle(planned.plan.uses, payer, key, request, compute, searches)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPart:
    """The plan of one SELECT in a SQL statement that has several SELECTs over private rows.

    `reader(answers)` takes the answers of the earlier SELECTs, and returns the engine (or a borrowed one) that reads
    the rows of this SELECT. Those answers are needed because the SELECT may filter its rows by a number that an earlier
    SELECT released.
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
    unit: str = USER,
) -> tuple[str, bool]:
    """Charge `payer` once for all SELECTs (`parts`) of a SQL statement, run them in order, and store one outcome.

    Returns (stored answer, whether it was stored before). Raises the errors of `execute`.
    - `whole` is the plan of the statement: the mechanisms that all parts run, and their certified cost together.
    - `key` is the idempotency key of the charge and of the stored outcome; a retry with this key returns the outcome.
    - `request` is the canonical text of the request. This text is stored with the charge, so that a retry is
      recognised, and another statement under the same key is refused.
    - `randomness` is the source of the noise.
    - `searches` keeps the answers of parts, and the noisy results of searches for bounds and groups, so that a retry
      uses them again and draws no new noise for them.
    - `unit` is the unit of privacy, such as "user".
    """

    def compute(receipt: Receipt, failures: _EngineFailures) -> tuple[PrivateAnswer, tuple[Use, ...]]:
        answers: list[PrivateAnswer] = []
        for place, part in enumerate(parts):

            def answer_part(part: StatementPart = part, place: int = place) -> PrivateAnswer:
                with failures.remembering():
                    reader = _EngineReader(part.reader(tuple(answers)), failures)
                return _answer_planned(part.planned, reader, randomness, receipt, searches, f"part {place}: ")

            # Later parts read rows that depend on the answers of earlier ones, so a retry must not draw these anew.
            answers.append(searches.draw_once(receipt, f"answer of part {place}", answer_part))
        columns = [column for part in parts for column in part.planned.query.columns]
        return _answer_whole(answers, whole).in_units(unit, columns), ()

    # All parameters are fixed before the first part runs, so the mechanisms compose set-wise.
    return _charge_and_settle(whole.uses, payer, key, request, compute, searches)


def _answer_whole(answers: Sequence[PrivateAnswer], whole: Plan) -> PrivateAnswer:
    """Return the answer of a statement with several SELECTs: the items of the last one, with the cost of all.

    `answers` are the answers of the SELECTs in the order in which they ran; the field `parts` of the result holds them.
    `whole` is the plan of all SELECTs together.
    """
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


ComputeAnswer: TypeAlias = "Callable[[Receipt, _EngineFailures], tuple[PrivateAnswer, tuple[Use, ...]]]"
"""A function that reads rows for a charge, and returns the answer and the uses that are refunded to the account."""


def _charge_and_settle(
    uses: Sequence[Use], payer: Payer, key: str, request: str, compute: ComputeAnswer, searches: SearchMemory
) -> tuple[str, bool]:
    """Charge `uses` to `payer`, call `compute` for the answer, and store the answer or a refusal under `key`.

    Return (text of the stored answer, whether it was stored before). If `key` has paid for the same request before, the
    stored answer is returned, and `compute` is not called.

    - `uses` are the mechanisms to be run, each as a privacy guarantee and a number of runs.
    - `key` is the idempotency key, and `request` the text that identifies the request.
    - `compute` reads rows, and returns the answer and the mechanisms to be refunded because they were not run. Its
      arguments are the receipt of the charge, and an object that records errors of engines.
    - `searches` keeps noisy results that were drawn for this charge, so that a retry after a crash of the engine draws
      no new noise. They are dropped once the outcome is stored, because a retry then returns the stored outcome.

    Raises: `AnswerWithheld` if the stored outcome is a refusal; the other errors of `execute`.
    """
    receipt = payer.charge(uses, key=key, request=request)
    if receipt.answer is not None:
        return _read_outcome(receipt.answer), True
    outcome, returned = _run_to_outcome(receipt, compute)
    try:
        stored = payer.settle(receipt, answer=outcome, returned=returned)
    except Unavailable:
        raise
    except Exception as error:  # the charge keeps one outcome even if this one cannot be stored
        stored = payer.settle(receipt, answer=_withhold(error))
    searches.forget(receipt)
    return _read_outcome(stored), False


def _run_to_outcome(receipt: Receipt, compute: ComputeAnswer) -> tuple[str, tuple[Use, ...]]:
    """Compute the answer of the charge `receipt` by calling `compute`; return (text to be stored, refund).

    The text is the answer. If an error occurs that may depend on private rows, the text is a refusal, which says
    nothing about the rows. The refund has the mechanisms that were charged but not run, each as a privacy guarantee and
    a number of runs.

    Raises: errors of an engine (the database that reads the rows), and nothing else.
    """
    engines = _EngineFailures()
    try:
        answer, returned = compute(receipt, engines)
        return answer.stored(), returned
    except Exception as error:
        if error is engines.failure:
            raise
        return _withhold(error), ()


def _withhold(error: Exception) -> str:
    """Return the text of the refusal that is stored in place of an answer, because `error` was raised.

    The type and the place of the error are logged, but not its message, because the message may quote private rows.
    """
    places = traceback.extract_tb(error.__traceback__)
    place = f"{places[-1].filename}:{places[-1].lineno}" if places else "an unknown place"
    _logger.error("a charged question was not answered: %s at %s", type(error).__name__, place)
    return canonical({_WITHHELD: WITHHELD_REASON})


def _read_outcome(stored: str) -> str:
    """Return the text of a stored answer; raise `AnswerWithheld` if a refusal was stored in place of an answer.

    A refusal is stored if a question was charged but could not be answered, so that a retry is refused again.
    """
    if stored.startswith(f'{{"{_WITHHELD}":'):
        raise AnswerWithheld(json.loads(stored)[_WITHHELD])
    return stored


class _EngineFailures:
    """Remembers whether an error came from the engine that reads the table, because only such an error may be shown.

    By their contract (`Engine`), engines fail with `EngineFailed`, `UnsuitableTable` or `UnknownColumn`, and with
    constant messages that depend on no value in the table. Any other error might quote private rows, so the caller
    stores a refusal in its place.
    """

    def __init__(self) -> None:
        self.failure: SetwiseError | None = None

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """Return a context manager that records an error of an engine raised inside its block, and raises it again.

        Only the errors with which engines may fail are recorded: `EngineFailed`, `UnsuitableTable` and `UnknownColumn`.
        """
        try:
            yield
        except (EngineFailed, UnsuitableTable, UnknownColumn) as error:
            self.failure = error
            raise


class _EngineReader:
    """A reader of private rows that passes every call on to `reader`, and records the errors that the engine raises.

    `failures` gets the record. It distinguishes an error of an engine, whose message reveals nothing about rows and may
    be shown, from any other error.
    """

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

    @contextmanager
    def group_weights(self, aggregation: Aggregation) -> Iterator["RoundReader"]:
        with self._failures.remembering(), self._reader.group_weights(aggregation) as weights:
            yield weights


def _answer_planned(
    planned: ExecutablePlan,
    reader: Reader,
    randomness: Randomness,
    receipt: Receipt,
    searches: SearchMemory,
    part: str = "",
) -> PrivateAnswer:
    """Run the plan `planned`, which was charged, and return its answer.

    - `reader` reads the rows, and `randomness` is the source of the noise.
    - `searches` keeps the noisy results of searches for bounds and groups under the charge `receipt`, so that a retry
      uses them again and draws no new noise for them.
    - `part` names this plan among several plans of a statement; "" otherwise.
    """
    search = planned.search
    if search is None:
        if planned.rounds is None:
            return _release_answer(planned, reader, randomness)
        discovery = _discover_groups(planned, planned.rounds, reader, randomness, receipt, searches, part)
        return _measure_groups(planned, planned.rounds, discovery, reader, randomness)
    found_bounds = searches.draw_once(
        receipt,
        f"{part}bounds",
        lambda: search.search.release(reader.statistics(search.aggregation), search.steps, randomness),
    )
    bounded = search.plan_bounded(found_bounds)
    answer = _answer_planned(bounded, reader, randomness, receipt, searches, part)
    return with_found_bounds(answer, planned, bounded.query, found_bounds)


def _discover_groups(
    planned: ExecutablePlan,
    rounds: WeightedRounds,
    reader: Reader,
    randomness: Randomness,
    receipt: Receipt,
    searches: SearchMemory,
    part: str,
) -> Discovery:
    """Run `rounds` (several noisy passes over the table), and return the private groups that they find.

    - `planned` says which rows are read, `reader` reads them, and `randomness` is the source of the noise.
    - `searches` keeps the noisy result of each round under the charge `receipt`, so that a retry uses it again and
      draws no new noise.
    - `part` names the plan among several plans of a statement; "" otherwise.
    """
    state = Discovery()
    with reader.group_weights(planned.aggregation.for_discovery()) as weights:
        while not state.is_complete:

            def draw_round(before: Discovery = state) -> Discovery:
                return rounds.run_round(before, weights.read(before.labels), randomness)

            state = searches.draw_once(receipt, f"{part}round {len(state.found) + 1}", draw_round)
    return state


def _measure_groups(
    planned: ExecutablePlan, rounds: WeightedRounds, discovery: Discovery, reader: Reader, randomness: Randomness
) -> PrivateAnswer:
    """Return the answer of the plan `planned` about the groups in `discovery`, found by `rounds`.

    `rounds` is the mechanism that found the groups in several noisy passes over the table. `reader` reads the rows of
    these groups, and `randomness` is the source of the noise. If no group was found, the answer is empty and no row is
    read.
    """
    measuring = planned.over(discovery) if discovery.labels else planned
    answer = _release_answer(measuring, reader, randomness) if discovery.labels else _answer(planned, (), (), True, "")
    stated, bound = planned.query.contributions, measuring.query.contributions
    reason = (
        f"The stated bound of {stated:,} was lowered to {bound:,}, twice the number of groups that users have, so that "
        "counts need less noise; others are left out. The mechanism truncated_gaussian keeps the stated bound."
    )
    lowered = "" if bound == stated else reason
    whole = isinstance(planned.mechanism, DiscoveredCounts)  # its counts use the whole cost, however many there are
    spent = planned.mechanism.guarantees() if whole else (*rounds.guarantees(), *answer.spent)
    return replace(
        answer,
        spent=planned.in_account_names(spent),
        why=f"{_rounds_in_words(discovery)}; {answer.why}",
        measure="; ".join((answer.measure, *in_heading([lowered]))),
        left_out=" ".join(filter(None, (answer.left_out, lowered))),
        brief=" ".join(filter(None, (answer.brief, lowered))),
        found={
            **answer.found,
            "rounds": [{"groups": groups} for groups in discovery.found],
            "users": discovery.users,
            "groups_per_user": discovery.groups_per_user,
            **({} if bound == stated else {"kept_contributions": bound}),
        },
    )


def _rounds_in_words(discovery: Discovery) -> str:
    """Return a text that says how many groups a private search found in each round (noisy pass over the table).

    `discovery` is the result of the search. The text becomes a part of the answer's explanation of its mechanism.
    """
    numbers = [f"{groups:,}" for groups in discovery.found]
    *first, last = numbers
    several = f"{', '.join(first)} and {last} groups were found in {len(numbers)} rounds"
    return several if first else f"{last} groups were found in one round"


def _release_answer(planned: ExecutablePlan, reader: Reader, randomness: Randomness) -> PrivateAnswer:
    """Read the groups that the plan `planned` needs from `reader`, add noise, and return the answer.

    `randomness` is the source of the noise.
    Requires: the plan contains no search for bounds or groups, because the caller has run these searches and has put
    their results into the plan.
    """
    query, mechanism, confidence = planned.query, planned.mechanism, planned.plan.error.confidence
    assert not isinstance(mechanism, DiscoveredCounts | WeightedRounds)  # `over` has replaced them
    if isinstance(mechanism, GroupStatistics):
        return _statistics_answer(
            planned, mechanism.release(reader.statistics(planned.aggregation), randomness, confidence)
        )
    if planned.most is None:
        read = reader.histogram(planned.aggregation)
    else:
        read = reader.top(planned.aggregation, planned.most)
    release = mechanism.release(read, randomness)
    cut = release if query.k is None else release.top(query.k)
    if not planned.shows_counts:
        items = tuple(Item(label=_label(query, item.label)) for item in cut.items)
        return _answer(planned, items, release.spent, release.complete, "")
    intervals = cut.intervals(confidence)
    items = tuple(
        Item(
            label=_label(query, item.label),
            count=item.count,
            interval=None if interval is None else (interval.lower, interval.upper),
            noisy=item.noisy,
        )
        for item, interval in zip(cut.items, intervals, strict=True)
    )
    error = planned.plan.error
    detectable = error.detectable if error.above_rank is None else None
    note = interval_note(cut, confidence, counted_number(query), intervals, detectable)
    return _answer(planned, items, release.spent, release.complete, note)


def _statistics_answer(planned: ExecutablePlan, release: GroupRelease) -> PrivateAnswer:
    assert isinstance(planned.mechanism, GroupStatistics)
    if planned.query.counted is None:
        groups = with_reliability(planned.query, planned.mechanism, release)
        pairs = zip(release.labels, groups, strict=True)
        items = tuple(Item(label=_label(planned.query, label), estimates=estimates) for label, estimates in pairs)
    else:
        counts = zip(release.labels, release.estimates, strict=True)
        items = tuple(_counted_item(planned.query, label, *estimates) for label, estimates in counts)
    query = planned.query
    in_rounds = query.domain is None and planned.mechanism.discovery is None  # the groups found are its domain
    note = statistics_note(
        query,
        planned.plan.error.confidence,
        counted_number(query),
        in_rounds=in_rounds,
        ranks=ranks_note(query, planned.mechanism, release),
    )
    return _answer(planned, items, release.spent, release.complete, note, users=release.users)


def _counted_item(query: Query, label: Label, estimate: Estimate) -> Item:
    """Return the item of a group whose count of rows was released after the group was found by its users.

    The item has the same fields as if the group had been found by its rows: `estimate` as a count with its interval,
    and the noisy number. A group that was found has at least one row.
    """
    assert estimate.interval is not None
    noisy = round(estimate.value)
    lower, upper = (max(1, round(end)) for end in estimate.interval)
    return Item(label=_label(query, label), count=max(1, noisy), interval=(lower, upper), noisy=noisy)


def _answer(
    planned: ExecutablePlan,
    items: tuple[Item, ...],
    spent: Sequence[Use],
    complete: bool,
    note: str,
    *,
    users: Sequence[float | None] = (),
) -> PrivateAnswer:
    """Return the answer of the plan `planned` with the released `items`, their cost, and sentences about them.

    - `spent` is the privacy cost of the release.
    - `complete` is False if a limit on the number of items may have left some out.
    - `note` are sentences about the intervals.
    - `users` has the noisy number of users of each item, as the search for private groups released it; empty or None
      where the search released none.
    """
    query, plan = planned.query, planned.plan
    whole = None if query.domain is None else len(query.domain)  # the number of public items; None if they are private
    reached = query.item is None or len(items) in (query.k, whole)
    short = not reached and (query.k is not None or not items)
    by_users = plan.mechanism == MechanismName.WEIGHTED_ROUNDS or isinstance(planned.mechanism, GroupStatistics)
    hidden = hidden_groups_note(query, plan.error, reached, by_users=by_users)
    in_utc, user = utc_note(planned.in_utc), planned.aggregation.user
    missed = "" if planned.target is None else planned.target.missed_note(items)
    measure = measure_text(query, planned.from_text, planned.version, user)
    return PrivateAnswer(
        kind=query.kind,
        measure="; ".join((measure, *in_heading([hidden, missed]))),
        items=arrange_items(query, planned.axes, items),
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
        interval_note=" ".join(filter(None, (note, reliability_note(query, items)))) if items else "",
        left_out=" ".join(filter(None, (left_out_note(query, user), hidden, in_utc, missed))),
        brief=" ".join(filter(None, (missed, brief_bounds_note(query, user), in_utc))),
        hidden=hidden,
        axes=planned.axes,
        hint=hint_for_answer(planned, items, users, is_short=short),
        alone=plan.alone,
        groups=query.groups if len(query.groups) > 1 else (),
        statistics=() if query.counted is not None else tuple(statistic.name for statistic in query.statistics),
    )


def _label(query: Query, label: Label) -> Label:
    """Return the label that the answer to `query` shows for the group whose key is `label`.

    If `query` has group columns, the result is `label` itself. Otherwise all rows form one group, and its label says
    what was measured: "users" or "events" if users or rows are counted, the name of the column for a sum, and "all"
    (`EVERYTHING`) for other statistics.
    """
    if query.item is not None or label != EVERYTHING:
        return label
    if query.counted is None:
        return EVERYTHING
    return query.counted.column or ("users" if query.per_item == 1 else "events")


def padded(elapsed: float, step: float) -> float:
    """Return how long after its question an answer is sent, if computing it took `elapsed`; all times are in seconds.

    The time is the least of step, 2 step, 4 step, 8 step, ... that is at least `elapsed`. So an observer of one answer
    learns only between which two of these times the work ended. Returns `elapsed` if `step` is 0.

    >>> [padded(seconds, 0.25) for seconds in (0.01, 0.25, 0.26, 3.0)]
    [0.25, 0.25, 0.5, 4.0]
    """
    if step <= 0.0:
        return elapsed
    if elapsed <= step:
        return step
    power = math.ceil(math.log2(elapsed / step))
    return float(step * 2**power) if step * 2**power >= elapsed else float(step * 2 ** (power + 1))
