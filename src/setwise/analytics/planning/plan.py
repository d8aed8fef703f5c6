"""Planning: choose how to answer a query within its budget; only metadata of the table is read.

The mechanism and its noise scale are chosen in mechanisms/planning.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, assert_never

from setwise.accounting.brackets import Bracket, CertifiedBound, Interaction
from setwise.accounting.guarantees import Guarantee, Use, merged
from setwise.accounting.notation import format_use, parse_use
from setwise.accounting.promises import in_unit_nouns
from setwise.analytics.bins import group_of
from setwise.analytics.budget import NO_ACCOUNT_TO_DRAW_FROM, Budget, Draws
from setwise.analytics.engines.aggregation import Aggregation, check_suitable, columns_read, with_filter
from setwise.analytics.filter.expression import Filter
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.planning.account_mechanism import (
    check_registered,
    mechanism_from_draws,
    statistics_from_draws,
)
from setwise.analytics.planning.accuracy import Accuracy
from setwise.analytics.planning.bounds_search import (
    COARSE_STEPS,
    FINE_STEPS,
    FoundBounds,
    Search,
    budgeted_query,
    example_queries,
    has_open_bounds,
    open_bounds,
    search_for,
)
from setwise.analytics.planning.charges import Charge, promise_within
from setwise.analytics.planning.expected_error import releases_of, statistics_error, statistics_in_words
from setwise.analytics.planning.mechanism_choice import choose_mechanism
from setwise.analytics.planning.missed_accuracy import AccuracyTarget
from setwise.analytics.present.order import Axis, axis_of, columns_in_utc
from setwise.analytics.query import Query
from setwise.analytics.schema import Column, Schema
from setwise.analytics.tables.domain import fit_labels, fit_null_item
from setwise.errors import InvalidParameter, UnsuitableTable
from setwise.ledger.records import canonical, check_text
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from setwise.mechanisms.planning.cost import certified_price
from setwise.mechanisms.planning.planner import Mechanism, count_error_in_words
from setwise.mechanisms.planning.request import Bounds, CountNoise, Total
from setwise.mechanisms.planning.statistics import StatisticsChoice
from setwise.mechanisms.release import ErrorEstimate
from setwise.mechanisms.statistics import GroupStatistics
from setwise.mechanisms.two_phase import TwoPhaseTopK
from setwise.mechanisms.unknown_domain import TruncatedGaussian, UnknownGaussian, UnknownGumbel, UnknownLaplace
from setwise.mechanisms.weighted_rounds import DiscoveredCounts, Discovery, WeightedRounds

if TYPE_CHECKING:
    from setwise.contract import PlanRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a question would be answered: its mechanism, cost and expected error. `preview` returns a plan at no cost.

    - `mechanism` is the name of the mechanism, and `why` a sentence that compares it with other mechanisms.
    - `uses` are the privacy guarantees that are charged, with numbers of runs. Some of the runs may turn out not to be
      needed.
    - `epsilon` is the certified cost of `uses` at `delta`, as a lower and an upper end. The upper end is the promise.
    - `delta` is the delta of the account that pays, or else the delta of the question.
    - `interaction` says what an analyst may choose after seeing answers without breaking the promise.
    - `method` names the computation of `epsilon`, and `statement` the theorem behind it.
    - `error` is the expected error, and `accuracy` says in words how close the answer will be.
    - `alone` is the cost of `uses` as (epsilon, delta) at the question's own delta, which may differ from the
      account's. It is None unless an account pays and the question states an epsilon.
    """

    mechanism: str
    uses: tuple[Use, ...]
    interaction: Interaction
    epsilon: Bracket
    delta: float
    method: str
    statement: str
    error: ErrorEstimate
    why: str
    accuracy: Accuracy
    alone: tuple[float, float] | None = None

    def __str__(self) -> str:
        uses = "  ".join(format_use(use) for use in self.uses)
        return f"{self.mechanism}, at most {uses}; {self.why}"

    def with_count_error(self, counted: ErrorEstimate, query: Query) -> "Plan":
        """Return this plan with the expected error `counted` in place of the error that was planned for its counts.

        A plan may find groups first and count them afterwards. If the groups found show that a user may be limited to
        fewer groups than planned, the counts need less noise. The caller then states the smaller error of the answer to
        `query`: in the field `error`, and in words in `why` and `accuracy`.
        """
        error = replace(self.error, expected_error=counted.expected_error, radius=counted.radius)
        why = self.why.replace(count_error_in_words(self.error), count_error_in_words(error))
        return replace(self, error=error, why=why, accuracy=Accuracy.of(query, error, self.mechanism, why))

    def in_units(self, unit: str, names: Collection[str]) -> "Plan":
        """Return this plan with texts about the unit of privacy `unit`, such as user-days; `names` are column names."""
        why = in_unit_nouns(self.why, unit, names)
        return replace(self, why=why, accuracy=self.accuracy.in_units(unit, names))

    def to_dict(self) -> "PlanRecord":
        """Return the plan as the JSON object that the command line and the service show; `from_dict` reads it."""
        return {
            "mechanism": self.mechanism,
            "why": self.why,
            "accuracy": self.accuracy.text,
            "uses": [format_use(use) for use in self.uses],
            "interaction": str(self.interaction),
            "epsilon": {"lower": self.epsilon.lower, "upper": self.epsilon.upper},
            "delta": self.delta,
            "method": self.method,
            "statement": self.statement,
            "about": self.accuracy.about,
            "expected_error": self.error.expected_error,
            "radius": self.error.radius,
            "threshold": self.accuracy.threshold,
            "detectable": self.error.detectable,
            "above_rank": self.error.above_rank,
            "shortfall": self.error.shortfall,
            "confidence": float(self.error.confidence),
            "alone": None if self.alone is None else {"epsilon": self.alone[0], "delta": self.alone[1]},
        }

    @classmethod
    def from_dict(cls, record: "PlanRecord") -> "Plan":
        """Return the plan that `to_dict` wrote as `record`."""
        alone = record["alone"]
        return cls(
            mechanism=record["mechanism"],
            why=record["why"],
            accuracy=Accuracy(text=record["accuracy"], about=record["about"], threshold=record["threshold"]),
            uses=tuple(parse_use(use) for use in record["uses"]),
            interaction=Interaction.parse(record["interaction"]),
            epsilon=Bracket(record["epsilon"]["lower"], record["epsilon"]["upper"]),
            delta=record["delta"],
            method=record["method"],
            statement=record["statement"],
            error=ErrorEstimate(
                confidence=Fraction(str(record["confidence"])),
                expected_error=record["expected_error"],
                radius=record["radius"],
                detectable=record["detectable"],
                above_rank=record.get("above_rank"),
                shortfall=record["shortfall"],
            ),
            alone=None if alone is None else (alone["epsilon"], alone["delta"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutablePlan:
    """The `plan` of a `query`, ready to be run.

    - `aggregation` is what the engine computes, and `mechanism` adds the noise.
    - `account_names` has pairs (guarantee of the mechanism, guarantee that the account registered), for mechanisms that
      the account pays for with another guarantee. For example, discrete Laplace noise of scale 10 may be paid for as
      0.1-DP, because the account counts its budget in the guarantees that it registered.
    - `shows_counts` is False if the question asked for the labels of groups only, without their counts.
    - `total` is the question's own (epsilon, delta). It is None if the question is paid with guarantees that an account
      registered in advance.
    - `from_text` are the columns that the plan reads and that the table stores as text, such as those of a CSV file;
      the engine parses each as its declared type, such as integer.
    - `version` is the version of a lake table (Delta or Iceberg); "" for other tables.
    - `axes` says for each group column whether its labels are names, numbers or times.
    - `in_utc` are the columns of times with a time zone whose periods, such as days, are group keys. The periods begin
      at midnight in UTC, which the answer says.
    - `search` is the private search that runs first, for bounds which the query leaves open (such as the most groups in
      which a user counts); None if the query states all bounds.
    - `largest_group` is an estimate of the count of the largest group, from the noisy numbers of a search that ran
      before; None if there is no estimate.
    - `is_weighable` is True if the table allows private groups to be found in rounds (several noisy passes over it).
    - `target` is the accuracy that the question asked for in place of an epsilon; None if it stated its budget.
    """

    query: Query
    plan: Plan
    aggregation: Aggregation
    mechanism: Mechanism | GroupStatistics
    shows_counts: bool
    account_names: tuple[tuple[Guarantee, Guarantee], ...] = ()
    from_text: tuple[Column, ...] = ()
    version: str = ""
    axes: tuple[Axis, ...] = ()
    in_utc: tuple[str, ...] = ()
    total: Total | None = None
    search: "BoundsSearch | None" = None
    largest_group: float | None = None
    is_weighable: bool = False
    target: AccuracyTarget | None = None

    def at_version(self, version: str) -> "ExecutablePlan":
        """Return the same plan for the version `version` of a Delta or Iceberg table with the same columns.

        A plan depends on the columns and not on the rows, so a service may reuse the plan of an earlier version.
        """
        search = self.search
        if search is not None:
            search = replace(search, schema=replace(search.schema, version=version))
        return replace(self, version=version, search=search)

    def in_units(self, unit: str) -> "ExecutablePlan":
        """Return this plan with texts about the unit of privacy `unit`, such as "user,day", instead of users."""
        return replace(self, plan=self.plan.in_units(unit, self.query.columns))

    def with_filter(self, query: Query, where: Filter | None, schema: Schema) -> "ExecutablePlan":
        """Return this plan with the filter of another query in it, so that nothing else is planned anew.

        `query` differs from the query of this plan in its filter only, and `where` is its parsed filter, or None.
        `schema` describes the table.
        Raises: `UnsuitableTable` if the columns do not allow the filter; `InvalidParameter` if UTF-8 cannot encode it.
        """
        assert self.search is None, "the search for bounds has a query of its own"
        if query.where is not None:
            check_text(query.where, "a question")
        aggregation = with_filter(self.aggregation, where, schema)
        read = columns_read(aggregation)
        from_text = tuple(each for each in schema if each.from_text and each.name in read)
        return replace(self, query=replace(self.query, where=query.where), aggregation=aggregation, from_text=from_text)

    @property
    def rounds(self) -> WeightedRounds | None:
        """The mechanism that finds the private groups in rounds: several noisy passes over the table.

        None if the plan finds groups in another way, or if its groups are public.
        """
        match self.mechanism:
            case DiscoveredCounts(rounds=rounds) | GroupStatistics(discovery=WeightedRounds() as rounds):
                return rounds
            case _:
                return None

    def over(self, discovery: Discovery) -> "ExecutablePlan":
        """Return the plan that counts the groups in `discovery`, or releases their statistics, without a new search.

        Call this on a plan that finds groups in rounds (noisy passes over the table), once the rounds have found the
        groups in `discovery`. If the returned plan counts users or rows, its limit on a user's groups may be lower than
        in this plan: about twice the average number of groups of a user, as the rounds estimated it, because a lower
        limit needs less noise.

        Raises: `InvalidParameter` if the plan does not find groups in rounds.
        """
        aggregation = replace(self.aggregation, domain=discovery.labels)
        match self.mechanism:
            case DiscoveredCounts() as counts:
                bound = counts.kept_contributions(discovery)
                query = replace(self.query, contributions=bound) if bound < counts.contributions else self.query
                aggregation = replace(aggregation, contributions=query.contributions)
                mechanism = counts.over(discovery)
                counted = self.plan.with_count_error(mechanism.preview(self.plan.error.confidence), query)
                return replace(self, query=query, plan=counted, mechanism=mechanism, aggregation=aggregation)
            case GroupStatistics() as statistics:
                users = discovery.counted_users(self.query.contributions)
                return replace(self, mechanism=statistics.over(discovery.labels, users), aggregation=aggregation)
            case _:
                raise InvalidParameter("only groups that rounds have found are measured by themselves")

    @property
    def most(self) -> int | None:
        """How many groups the plan reads from the engine; None if it reads all.

        If there are more groups, those with the highest exact counts or sums are read.
        """
        return None if isinstance(self.mechanism, GroupStatistics) else groups_read(self.mechanism)

    def in_account_names(self, spent: Sequence[Use]) -> tuple[Use, ...]:
        """Return `spent`, guarantees with numbers of runs, with each guarantee replaced by the account's name for it.

        An account may pay for a mechanism with a guarantee of another name. For example, if the account has registered
        0.1-DP and pays with it for discrete Laplace noise of scale 10, then runs of this noise become runs of 0.1-DP in
        the result. Answers state the registered guarantees, because the account counts its budget in them.
        """
        names = dict(self.account_names)
        return merged(Use(names.get(use.guarantee, use.guarantee), use.count) for use in spent)

    def unused(self, spent: Sequence[Use]) -> tuple[Use, ...]:
        """Return the mechanism runs that were charged for the plan but did not take place, for a refund to the account.

        `spent` are the runs that took place, with guarantees written as the account registered them (see
        `in_account_names`).
        """
        counts = {use.guarantee: use.count for use in merged(spent)}
        unspent = ((use.guarantee, use.count - counts.get(use.guarantee, 0)) for use in merged(self.plan.uses))
        return tuple(Use(guarantee, count) for guarantee, count in unspent if count > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsSearch:
    """A private search for bounds that runs before the answer, and what is needed to plan the answer afterwards.

    - `search` finds the bounds that the query leaves open, such as the most rows of a user that count.
    - `aggregation` requests the exact counts from which the search chooses bounds.
    - `user` is the user column, and `schema` describes the table.
    - `steps` limits the bounds that the search may find, because noise grows with them: the larger absolute bound of a
      sum is at most `steps` times the rounding step of the sum, and at most `steps` rows of a user count.
    """

    search: Search
    aggregation: Aggregation
    user: str
    schema: Schema
    steps: int

    def plan_bounded(self, found_bounds: FoundBounds) -> ExecutablePlan:
        """Return the plan for answering the query after its private search, within the budget that remains.

        `found_bounds` are the bounds that the search has found, such as the most rows of a user that count.

        Ensures: does not raise for any bounds that the search can find, because the query was planned before the charge
        with bounds that cost at least as much as any that can be found (see `budgeted_query`). A test plans every pair
        of bounds for every statistic and kind of column.
        """
        query = self.search.bounded_query(found_bounds, self.schema, self.steps)
        planned = plan_query(query, self.search.remaining, self.user, self.schema, None, self.aggregation.where)
        planned = replace(planned, largest_group=found_bounds.largest_group)
        if found_bounds.contributions is None or not isinstance(planned.mechanism, DiscoveredCounts):
            return planned
        return replace(planned, mechanism=replace(planned.mechanism, keeps_bound=True))


def groups_read(mechanism: Mechanism) -> int | None:
    """Return the number of groups with the highest exact counts (or sums) that a mechanism reads; None if it reads all.

    Some mechanisms consider only the largest groups, up to a limit. They read one group more than the limit, because
    their threshold depends on the count of the next group.
    """
    match mechanism:
        case UnknownGumbel(limit=limit) | TwoPhaseTopK(discovery=UnknownGumbel(limit=limit)):
            return limit + 1
        case UnknownLaplace(limit=int() as limit):
            return limit + 1
        case KnownLaplace() | KnownGaussian() | KnownGumbel() | TwoPhaseTopK():
            return None
        case UnknownLaplace() | UnknownGaussian() | TruncatedGaussian() | DiscoveredCounts() | WeightedRounds():
            return None
        case _:
            assert_never(mechanism)


_UNKNOWN_ERROR = ErrorEstimate(confidence=CONFIDENCE, expected_error=None, radius=None, detectable=None, shortfall=None)
"""The error of an answer whose bounds are not known yet."""


def plan_query(
    query: Query,
    budget: Budget,
    user: str,
    schema: Schema,
    status: AccountStatus | None,
    where: Filter | None = None,
    charge: Charge | None = None,
) -> ExecutablePlan:
    """Return the executable plan of `query` within `budget`; no row of the table is read.

    - `user` is the user column, and `schema` describes the table's columns.
    - `status` is the status of the account that pays; None if the question brings its own budget.
    - `where` is the parsed filter of the query; None if it is to be parsed here.
    - `charge` is the cost of the query, if the caller knows the cost already and only wants the expected error. The
      plan then states this cost. It must not be run, because its noise is only estimated. None computes the cost.

    Raises: an error such as `InvalidParameter`, `InvalidFilter` or `UnsuitableTable` that says what is wrong with the
    query or its budget.
    """
    _check_encodable(query)
    if where is None and query.where is not None:
        where = parse_filter(query.where, schema)
    if isinstance(budget, Total) and (search := search_for(query, budget)) is not None:
        return _with_search(search, budget, user, schema, status, where)
    if has_open_bounds(query):
        raise InvalidParameter(
            f"bounds are found within an epsilon: give one, or state {' and '.join(open_bounds(query))}"
        )
    fit = _fitted_query(query, schema)
    aggregation = aggregation_of(fit, user, schema, where)
    check_suitable(aggregation, schema)
    match budget:
        case Total():
            bounds = replace(fit.bounds, weighable=_is_weighable(fit, schema))
            executable = _from_total(fit, bounds, aggregation, budget, status, charge)
        case Draws():
            if status is None:
                raise InvalidParameter(NO_ACCOUNT_TO_DRAW_FROM)
            executable = _from_draws(fit, aggregation, budget, status)
        case _:
            assert_never(budget)
    read = columns_read(aggregation)
    groups = [group_of(text, schema) for text in query.groups]
    return replace(
        executable,
        from_text=tuple(each for each in schema if each.from_text and each.name in read),
        version=schema.version,
        axes=tuple(axis_of(group, schema, public=query.domain is not None) for group in groups),
        in_utc=columns_in_utc(groups, schema),
    )


def draft_plan(query: Query, total: Total, user: str, schema: Schema) -> Plan:
    """Return a plan that states the mechanism runs of `query` and their cost within `total`, for comparing budgets.

    Runs and cost are those of the plan that `plan_query` makes. If the query leaves bounds (such as the most rows of a
    user) to a private search, this function is faster: it neither plans the answer with the bounds that the search may
    find, nor estimates the answer's error. `user` is the user column, and `schema` describes the table.
    """
    search = search_for(query, total)
    if search is None:
        return plan_query(query, total, user, schema, None).plan
    overall, delta, alone = promise_within(search.uses(), total, None)
    return _plan("auto", search.uses(), overall, delta, _UNKNOWN_ERROR, "", Accuracy.of_examples([], ""), alone)


def _check_encodable(query: Query) -> None:
    """Raise `InvalidParameter` if a column name or the filter of `query` contains text that UTF-8 cannot encode.

    An example is an unpaired surrogate; engines and ledgers cannot store text with one. The labels of the query need no
    check here, because `distinct_labels` has checked them.
    """
    check_text(canonical(replace(query, domain=None, k=None).to_dict()), "a question")


def _with_search(
    search: Search, total: Total, user: str, schema: Schema, status: AccountStatus | None, where: Filter | None
) -> ExecutablePlan:
    """Return a plan for a query that leaves some of its bounds to a private search: search first, then answer.

    Bounds are the most groups or rows in which one user counts, and clipping bounds. The plan runs `search`, which
    finds these bounds with a part of the budget, and then answers within the remaining budget.

    - `total` is the budget of search and answer together.
    - `user` is the user column, and `schema` describes the table's columns.
    - `status` is the status of the account that pays, or None; `where` is the parsed filter of rows, or None.

    Raises: the planner's error if the query would not fit the budget with the costliest bounds that the search may
    find. The error comes before anything is charged.
    """
    overall, delta, alone = charge = promise_within(search.uses(), total, status)
    costliest, steps = _plan_costliest(search, user, schema, where, charge)
    examples = _plan_examples(search, user, schema, where, charge, steps)
    words = f"bounds are found first, within a tenth of epsilon; then {costliest.plan.mechanism}"
    words += "".join(f"; {assumed}: {example.why}" for assumed, example in examples)
    accuracy = Accuracy.of_examples([(assumed, example.accuracy) for assumed, example in examples], words)
    name = f"auto+{costliest.plan.mechanism}"
    plan = _plan(name, search.uses(), overall, delta, _UNKNOWN_ERROR, words, accuracy, alone)
    before = BoundsSearch(
        search=search, aggregation=search.aggregation(costliest.aggregation), user=user, schema=schema, steps=steps
    )
    return replace(costliest, query=search.query, plan=plan, search=before)


def _plan_examples(
    search: Search, user: str, schema: Schema, where: Filter | None, charge: Charge, steps: int
) -> list[tuple[str, Plan]]:
    """Return, for a preview, one or two pairs: a phrase that states example bounds, and the plan with these bounds.

    The bounds themselves are not known yet, because a private search finds them after the charge. Examples for which
    planning fails are left out.

    - `search` is the search for bounds. The last example has the largest bounds that it may find, with at most `steps`
      rows of a user.
    - `user` is the user column, and `schema` has the table's columns.
    - `where` is the parsed filter, or None.
    - `charge` is the cost of search and answer together.
    """
    plans = []
    for example, assumed in example_queries(search.query, steps):
        with suppress(InvalidParameter):
            planned = plan_query(example, search.remaining, user, schema, None, where, charge)
            plans.append((assumed, planned.plan))
    return plans


def _plan_costliest(
    search: Search, user: str, schema: Schema, where: Filter | None, charge: Charge
) -> tuple[ExecutablePlan, int]:
    """Return (plan, steps): a plan of the query with the costliest bounds that `search` can find, and a limit on sums.

    The plan is made before the question is charged. If it can be made, the query can be planned with any bounds that
    the private search finds after the charge. The plan itself is never run; its noise scale is only an estimate.

    The result `steps` says how large the bounds of a sum may be that the search finds: at most `steps` times the sum's
    rounding step. It is 65,536 (`FINE_STEPS`) if the query can be planned with so many steps within the budget, and
    otherwise 1,024 (`COARSE_STEPS`).

    - `user` is the user column, and `schema` has the table's columns.
    - `where` is the parsed filter, or None.
    - `charge` is the cost of the search and the answer together, which the plan states as its cost.
    """
    for steps in (FINE_STEPS, COARSE_STEPS):
        try:
            query = budgeted_query(search.query, steps)
            return plan_query(query, search.remaining, user, schema, None, where, charge), steps
        except InvalidParameter:
            if steps == COARSE_STEPS:
                raise
    raise AssertionError("the loop returns or raises")


def aggregation_of(query: Query, user: str, schema: Schema, where: Filter | None = None) -> Aggregation:
    """Return the aggregation for `query`: what the engine has to compute from a table with the columns of `schema`.

    `user` is the user column. `where` is the parsed filter of the query; None if it is to be parsed here.
    """
    if where is None and query.where is not None:
        where = parse_filter(query.where, schema)
    counted = query.counted
    return Aggregation(
        user=user,
        item=None if query.item is None else tuple(group_of(text, schema) for text in query.groups),
        value=None if counted is None else counted.column,
        contributions=query.contributions,
        per_item=query.per_item,
        where=where,
        domain=query.domain,
        null_item=fit_null_item(query.null_item, [group_of(text, schema).labels(schema) for text in query.groups]),
        measures=() if counted is not None else query.measures,
    )


def aggregation_of_statistics(aggregation: Aggregation, query: Query) -> Aggregation:
    """Return `aggregation` with the number of users of each group, and the statistics of `query` beside it.

    A request for one count or sum of each group is made for mechanisms that find private groups by this number. A
    mechanism that finds them by their users needs both.
    """
    return replace(aggregation, value=None, per_item=1, measures=query.measures)


def _fitted_query(query: Query, schema: Schema) -> Query:
    """Return `query` with what depends on the columns of the table filled in; `schema` describes the columns.

    The public group keys get the types of the group columns. For example, "7" becomes the number 7 in a column of
    integers. A statistic that states no rounding step (the step to whose multiples a user's values are rounded) gets
    the default step of its column.
    Raises: `UnsuitableTable` if a top k would be ranked by sums of a column that does not hold integers.
    """
    columns = [group_of(text, schema).labels(schema) for text in query.groups]
    fit = replace(
        query,
        domain=None if query.domain is None else fit_labels(query.domain, columns),
        statistics=tuple(statistic.in_steps(schema) for statistic in query.statistics),
    )
    if query.k is not None and query.counted is not None and fit.counted is None:
        kind = schema.column(query.counted.column or "").kind
        raise UnsuitableTable(
            f"a top k ranks by users, rows or whole sums, and the value column {query.counted.column!r} is {kind}: "
            "declare it an integer, or ask for the sum as a statistic of the groups with the most users"
        )
    return fit


_UNSIGNED = ("UBIGINT", "UInt64")
"""Types whose labels may exceed 2^63, which a list of found labels cannot hold."""


def _is_weighable(query: Query, schema: Schema) -> bool:
    """Return whether the private groups of `query` can be found in rounds: several noisy passes over the table.

    `schema` describes the table. Groups cannot be found in rounds in three cases:
    - The query has no groups.
    - The rows do not name users, as in a table that `Session.prepare` stored.
    - A group column holds unsigned 64-bit integers. The groups that one round finds are passed to the next one as a
      list of labels, which holds signed integers below 2^63 only.
    """
    columns = [group_of(text, schema).labels(schema) for text in query.groups]
    return bool(columns) and not schema.prepared and not any(column.native in _UNSIGNED for column in columns)


def _from_total(
    query: Query,
    bounds: Bounds,
    aggregation: Aggregation,
    total: Total,
    status: AccountStatus | None,
    charge: Charge | None,
) -> ExecutablePlan:
    """Return the plan of `query` within `total`, the (epsilon, delta) that the question states.

    - `bounds` has the query's contribution bounds and public groups.
    - `aggregation` is what the engine computes for the query.
    - `status` is the status of the account that pays; None if no account pays.
    - `charge` is the cost of the query, if the caller knows the cost already and only wants the expected error. The
      returned plan must then not be run, because its noise is only estimated. None computes the cost.
    """
    choice = choose_mechanism(query, bounds, total, certified=charge is None)
    uses = merged(choice.mechanism.guarantees())
    overall, delta, alone = charge or promise_within(uses, total, status)
    if isinstance(choice.mechanism, GroupStatistics):
        aggregation = aggregation_of_statistics(aggregation, query)
    accuracy = Accuracy.of(query, choice.error, choice.name, choice.why, choice.close)
    return ExecutablePlan(
        query=query,
        plan=_plan(choice.name, uses, overall, delta, choice.error, choice.why, accuracy, alone),
        aggregation=aggregation,
        mechanism=choice.mechanism,
        shows_counts=query.counted is None or total.counts is not CountNoise.NONE,
        total=total,
        is_weighable=bounds.weighable,
    )


def _from_draws(query: Query, aggregation: Aggregation, draws: Draws, status: AccountStatus) -> ExecutablePlan:
    """Return the plan of `query` that is paid with `draws`, guarantees that an account registered in advance.

    `status` is the status of the account. `aggregation` is what the engine computes for the query.
    """
    if query.counted is None:
        drawn = statistics_from_draws(query.bounds, releases_of(query.statistics), draws, status)
    else:
        drawn = mechanism_from_draws(query.bounds, draws, status)
    choice_note = f"{drawn.name}: given by what is drawn from the account"
    if isinstance(drawn.mechanism, GroupStatistics):
        choice = StatisticsChoice(mechanism=drawn.mechanism, name=drawn.name, discovery=None)
        error, close = statistics_error(query, choice), statistics_in_words(query, choice)
        why = f"{choice_note}; {close}"
    else:
        error, why, close = drawn.mechanism.preview(), choice_note, ""
    names = dict(drawn.account_names)
    uses = merged(Use(names.get(use.guarantee, use.guarantee), use.count) for use in drawn.mechanism.guarantees())
    interaction = Interaction.ADAPTIVE
    if status.kind == "setwise":
        interaction = Interaction.SETWISE
        check_registered(uses, status)
    overall = certified_price(uses, status.delta, interaction)
    accuracy = Accuracy.of(query, error, drawn.name, why, close)
    return ExecutablePlan(
        query=query,
        plan=_plan(drawn.name, uses, overall, status.delta, error, why, accuracy),
        aggregation=aggregation,
        mechanism=drawn.mechanism,
        shows_counts=draws.counts is not None,
        account_names=drawn.account_names,
    )


def _plan(
    mechanism: str,
    uses: tuple[Use, ...],
    overall: CertifiedBound,
    delta: float,
    error: ErrorEstimate,
    why: str,
    accuracy: Accuracy,
    alone: tuple[float, float] | None = None,
) -> Plan:
    return Plan(
        mechanism=mechanism,
        uses=uses,
        interaction=overall.interaction,
        epsilon=Bracket(overall.lower, overall.upper),
        delta=delta,
        method=overall.method,
        statement=overall.statement,
        error=error,
        why=why,
        accuracy=accuracy,
        alone=alone,
    )
