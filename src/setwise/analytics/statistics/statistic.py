"""The base classes of statistics: parameters, clipping bounds and steps, measures, release, SQL names and texts.

`Statistic` is the base class of every statistic, and `BoundedStatistic` that of statistics whose values are clipped to
bounds. Constructors take parameters as people write them (column, low, high, ...), check them, and keep them as checked
values: columns, fractions and whole numbers.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from setwise.analytics.measure import Measure
from setwise.analytics.schema import Schema
from setwise.analytics.statistics.parameters import (
    Number,
    build,
    exact_number,
    number_text,
    parameters_of,
    plain,
    range_text,
    value_text,
)
from setwise.analytics.statistics.search_measures import doubling_measure
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import LARGEST_TAU
from setwise.records import copy_with

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate
    from setwise.mechanisms.statistic_release import StatisticRelease

AUTO, FOUND = "auto", "found"
"""The values of the parameter `bounds` for bounds that a private search is to find, and for bounds that it has found.
"""

LARGEST_NUMBER = 10**90
"""The largest absolute value of a bound; 1 divided by it is the smallest step."""

STEPS = 1000
"""The number of steps between low and high if a query gives no step."""

SOME_USERS = 1000
"""The number of users in the group for which a plan states the error of a mean; the error is proportional to 1 / size.
"""

GROUP_BOUNDS, ROW_BOUNDS = "contribution_bounds_per_group", "contribution_bounds_per_row"
"""GoogleSQL's named arguments for the bounds of what a user adds to a group, and for the bounds of the value of one
row."""

ROWS_BETWEEN = "say between which values a row counts, or AUTO to have it found"
"""What an error message asks for when the bounds of a statistic over rows are missing."""

ROWS = "max_rows_contributed"
"""The named argument of SQL functions for the most rows of a user that count in a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlFunction:
    """How SQL writes a statistic of a column as a function, such as AVG.

    - `bounds` is the name of the function's argument for the clipping bounds.
    - `missing` is the text of the error if a statement leaves this argument out.
    - `takes_share` is True for functions with a quantile level, such as PERCENTILE_CONT(column, level).
    - `takes_rows` is True if the function has the argument "max_rows_contributed", the most rows of a user that count.
    - `share` is the fixed quantile level of a function such as PRIVATE_MAX (0.99); otherwise None.
    """

    bounds: str
    missing: str
    takes_share: bool = False
    takes_rows: bool = False
    share: Fraction | None = None


class Statistic(ABC):
    """A statistic of the rows of each group, with a bound on what one user can add to it.

    A subclass, such as `Count` or `Mean`, is a frozen record of parameters. Its constructor checks them, and raises
    `InvalidParameter` for a wrong one. `column` is the column that the statistic reads, or None. Class attributes say
    how the statistic is named, released and shown.
    """

    __slots__ = ()

    kind: ClassVar[str]
    """The name of the statistic in JSON, of its command and of its Python method."""

    summary: ClassVar[str]
    """One sentence for the help text of the statistic's command."""

    sql: ClassVar[Mapping[str, SqlFunction]] = {}
    """The SQL functions of a column that compute this statistic, by name."""

    by_picks: ClassVar[bool] = False
    """Whether the release uses exponential-mechanism picks (as quantiles do) instead of noise added to sums."""

    over_rows: ClassVar[bool] = False
    """Whether the statistic is always over rows, so that a form asks how many rows of a user count."""

    has_interval: ClassVar[bool] = True
    """Whether estimates of the statistic have a confidence interval of values; those of quantiles have none."""

    radius_unit: ClassVar[str] = ""
    """What the half-width of a plan's interval refers to, if it depends on the group.

    For a mean it is " of means over 1,000 users", because the interval is narrower in a larger group, and the sizes of
    groups are private. "" if the half-width is that of every interval of the answer.
    """

    only_lowered: ClassVar[bool] = False
    """Whether leaving out rows and groups can only lower the statistic, as with counts, and nothing is clipped."""

    column: str | None

    @classmethod
    def read(cls, words: Mapping[str, object]) -> "list[Statistic]":
        """Return the statistics of this class that `words`, parameters from JSON, state: usually a list of one.

        {"column": "age", "low": 0, "high": 100}, for example, states one mean. A quantile at several levels is several
        statistics: with "at": [0.5, 0.9] the list has the median and the 90th percentile.
        """
        return [build(cls, f"a {cls.kind}", dict(words))]

    def words(self) -> dict[str, object]:
        """Return the statistic's parameters that differ from their defaults, as JSON values that `read` accepts."""
        return {
            name: plain(getattr(self, name))
            for name, parameter in parameters_of(type(self)).items()
            if getattr(self, name) not in (None, parameter.default)
        }

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the column that holds the statistic in an answer."""

    @property
    def is_plain(self) -> bool:
        """Whether the command and the Python method for this kind of statistic can state all its parameters.

        If not, only a query with a list of statistics (in JSON or SQL) can ask for the statistic.
        """
        return True

    @property
    def per_item(self) -> int | None:
        """The most that one user adds to a group, if groups can be ranked by the statistic; None otherwise.

        Groups are ranked only by whole numbers of 0 or more, such as counts.
        """
        return None

    def ranking_words(self, *, grouped: bool) -> dict[str, object]:
        """Return the statistic's parameters as a dict, for the JSON form of a top k, a histogram, a count or a sum.

        A sum of the column "age" clipped at 5, for example, has {"value": "age", "per_item": 5} in a top k or
        histogram, and {"value": "age", "clip": 5} without groups. `grouped` is True for a top k or histogram.
        `Query.to_dict` adds the dict to the JSON form.

        Raises: `InvalidParameter` if groups cannot be ranked by the statistic.
        """
        raise InvalidParameter(f"groups cannot be ranked by a {self.kind}, grouped or not ({grouped})")

    def with_dataset_bound(self, per_item: int | None) -> "Statistic":
        """Return the statistic with the bound `per_item` on what one user adds, unless it states a bound of its own.

        The dataset declares this bound; `per_item` is None if it declares none. This base method returns the statistic
        unchanged; statistics that can take such a bound override it.
        """
        del per_item
        return self

    def in_steps(self, schema: Schema) -> "Statistic":
        """Return the statistic with its rounding step filled in; users' values are rounded to multiples of this step.

        The step may depend on whether the column has integers, which `schema` says. By default there is no step, and
        the statistic is returned unchanged.
        """
        del schema
        return self

    @abstractmethod
    def measures(self) -> tuple[Measure, ...]:
        """Return the measures of the statistic; a measure is a whole number that each user adds to a group.

        The engine adds up a measure over the users of a group. There are two exceptions. For a quantile, users have
        weights on the grid of possible results, and the engine adds up the weights at each grid point. For a number of
        distinct values, it counts the values.

        Call the method `in_steps` first: it fills in the step to whose multiples values are rounded.
        """

    @abstractmethod
    def release(self, among: "Sequence[Statistic]") -> "StatisticRelease":
        """Return the mechanism that releases the statistic; its noise scale is a placeholder until the planner chooses.

        `among` are all statistics of the query. Quantiles need them, because several quantiles of one column are
        released by one mechanism.
        """

    @abstractmethod
    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return `estimate` converted to units of the statistic's column.

        The given estimate is in rounding steps, because the engine adds up users' values as whole numbers of steps.
        """

    @property
    @abstractmethod
    def subject(self) -> str:
        """What a planned error is about, in the plural, such as "sums of price"."""

    @property
    def error_unit(self) -> Fraction:
        """How many units of the column one step of the mechanism's error is; 1 unless users' values are rounded."""
        return Fraction(1)

    @abstractmethod
    def planned_radius(self, release: "StatisticRelease") -> Fraction | None:
        """Return the half-width, in units of the column, of the 95% interval that the statistic is planned to have.

        `release` is the mechanism with its noise scale. The half-width of a mean is stated for 1,000 users or rows. For
        a quantile, the result is the number of users by which the rank of the released value may be off. The result is
        None for a number of users if the search for private groups counts them already, because their noise is then not
        in `release`.
        """

    def planned_together(self) -> object:
        """Return a key by which the text of a plan groups statistics; None if this statistic gets a phrase of its own.

        Statistics with equal keys are described by one phrase, which `planned_words` returns. For example, all
        quantiles of one column have the same key and are described as "quantiles of age within 12 and 15 users in
        rank".
        """
        return None

    @abstractmethod
    def planned_words(self, radii: Sequence[Fraction]) -> str:
        """Return a phrase that says how close the statistic will be to its exact value, such as "counts within ±12".

        The phrase describes all statistics of a plan that have the same key (`planned_together`). `radii` has the
        planned half-width of each of these statistics, as `planned_radius` returns it.
        """

    def alike(self) -> "Statistic":
        """Return a key by which an answer groups its statistics: those with equal keys share one text (`description`).

        By default the key is the statistic itself, which then has a text of its own.
        """
        return self

    @abstractmethod
    def description(self, together: "Sequence[Statistic]", where: str) -> str:
        """Return a text for headings: what the statistic is, and how it limits what one user adds.

        `together` are the statistics that share the text, such as several quantiles of one column. `where` is " per
        item" if the query has groups, else "".
        """

    @classmethod
    def asked_in_words(cls, column: str | None, words: Mapping[str, Any], by: str) -> str:
        """Return a text for people that says which statistic is asked for, such as "mean of age by city".

        `column` is the column of the statistic, or None. `words` are the statistic's JSON parameters. `by` is the text
        that names the groups, or "".
        """
        match words:
            case {"bounds": "auto"}:
                return f"{cls.title(words)} of {column}{cls.over(words)}{by}, its bounds to be found"
            case {"high": high}:
                bounds = f" between {words.get('low', 0)} and {high}"
            case {"clip": most} | {"per_item": most}:
                bounds = f", at most {most} of a user"
            case _:
                bounds = ""
        return f"{cls.title(words)} of {column}{cls.over(words)}{bounds}{by}"

    @classmethod
    def title(cls, words: Mapping[str, Any]) -> str:
        """Return the name of this kind of statistic for people, such as "mean".

        `words`, the JSON parameters of the statistic, are used by quantiles only, whose name depends on the levels
        asked for.
        """
        del words
        return cls.kind

    @classmethod
    def heading(cls) -> str:
        """Return the name of this kind of statistic for a form, such as "Mean"."""
        return cls.kind.capitalize()

    @classmethod
    def over(cls, words: Mapping[str, Any]) -> str:
        """Return " over events" if the statistic is computed over rows, else "": words for a text about it.

        For example, "mean of age over events" is a mean over rows, and "mean of age" a mean over users. `words` are the
        statistic's parameters as in JSON. This base method ignores them and returns "".
        """
        del words
        return ""

    def is_unreliable(self, estimate: "Estimate", release: "StatisticRelease", users: float | None) -> bool:
        """Return whether noise may be as large as `estimate`, so that the answer marks the estimate as unreliable.

        `estimate` is in units of the column, and `release` is the mechanism with its noise scale. `users` is the
        released number of users in the group, or None if that number is not released.
        """
        from setwise.mechanisms.release import noise_may_dominate

        del release, users
        return noise_may_dominate(estimate.value, estimate.interval)

    def is_at_bound(self, estimate: "Estimate") -> bool:
        """Return whether `estimate` is marked as unreliable because it is a clipping bound; False except for means."""
        del estimate
        return False

    @property
    def kept_of_user(self) -> str:
        """The most of one user that the statistic includes in a group, as text, such as "5 rows".

        The text is "" if the statistic has no limit on a user's rows, or if this limit is 1.
        """
        return "" if self.most_rows in (None, 1) else f"{self.most_rows:,} {self.counted_of_user}"

    @property
    def clipped_values(self) -> str:
        """A clause for sentences below an answer, which says what is clipped and to which bounds; "" if nothing is.

        For a mean over rows it is, for example, "each row's age is clipped to 0 .. 120".
        """
        return ""

    @property
    def user_weight_note(self) -> str:
        """A sentence, without its full stop, on how much users with many rows weigh; "" if none is needed.

        For a mean, it begins with "AVG is the mean over users of each user's own mean".
        """
        return ""

    @property
    def search_limit_note(self) -> str:
        """A sentence, without its full stop, for a column whose values may exceed all bounds that a search can find.

        A private search finds no clipping bounds beyond 2^64. If a bound that it found is as large as that, the
        sentence says how to include larger values, for example by stating bounds. Otherwise the text is "".
        """
        return ""

    @property
    def interval_note(self) -> str:
        """A sentence that says how the rounding of users' values affects the interval; "" if nothing is rounded.

        For example: "That of mean_age allows for the rounding of each user's own mean, by at most 0.05."
        """
        return ""

    @property
    def is_auto(self) -> bool:
        """Whether a private search is still to find a bound: clipping bounds, or the most rows of a user."""
        return self.finds_clip or self.finds_rows

    @property
    def finds_clip(self) -> bool:
        """Whether a private search is still to find the statistic's clipping bounds."""
        return False

    @property
    def finds_rows(self) -> bool:
        """Whether a private search is still to find the most rows, or distinct values, of a user that count."""
        return False

    def row_measure(self) -> Measure:
        """Return the measure (a number per user) from which a private search finds a limit on one user's rows.

        The limit says how many rows (or distinct values) of one user count in a group. For example, the measure of a
        count of rows is the number of rows that the user has in the group where they have the most. The search chooses
        the limit from noisy numbers of users with few or many rows.

        Raises: `InvalidParameter` if the statistic has no such limit.
        """
        raise InvalidParameter(f"a {self.kind} has no bound on rows to be found")

    def with_rows(self, most: int, steps: int) -> "Statistic":
        """Return the statistic with the limit `most` on one user's rows (or distinct values) in a group that count.

        A private search has found this limit, because the analyst did not state it. `steps` matters for variances only:
        a variance rounds values to multiples of a rounding step, and one user may add at most 16 * `steps` rounding
        steps to a sum. Noise is in proportion to this number, and noise for a larger number could not be sampled from a
        small budget.

        Raises: `InvalidParameter` if the statistic has no limit on rows.
        """
        raise InvalidParameter(f"a {self.kind} has no bound on rows to be found, such as {most} ({steps} steps)")

    def with_declared_rows(self, most: int | None) -> "Statistic":
        """Return the statistic with `most` as its limit on one user's rows in a group, unless it states one itself.

        `most` is the limit that the data holder declared for the dataset, so that no private search has to spend budget
        on finding one; None if none was declared. A statistic that needs no such limit is returned unchanged.
        """
        del most
        return self

    @property
    def most_rows(self) -> int | None:
        """The most rows, or distinct values, of a user that count in a group; None if there is no such bound."""
        return None

    @property
    def rows_name(self) -> str:
        """The name under which an answer lists the limit on a user's rows that a private search found.

        It is the statistic's name, such as "count_age". Statistics for which a search also finds clipping bounds have
        another name here, because the answer lists the clipping bounds under the statistic's name.
        """
        return self.name

    @property
    def counted_of_user(self) -> str:
        """What the limit on a user's rows counts, as text like "rows that have price" or "distinct values of page"."""
        return "rows" if self.column is None else f"rows that have {self.column}"

    def search_measures(self) -> tuple[Measure, ...]:
        """Return the measures (numbers per user, such as their mean) from which a search finds the clipping bounds.

        For each measure, the engine counts the users in bins whose ends are powers of two, and the search finds a lower
        and an upper bound. The lowest lower and the highest upper bound of all measures are taken.
        Raises: `InvalidParameter` if the statistic has no bounds.
        """
        raise InvalidParameter(f"a {self.kind} has no bounds to be found")

    def with_bounds(self, low: Fraction, high: Fraction) -> "Statistic":
        """Return the statistic with the clipping bounds `low` and `high`, which a private search found.

        Raises: `InvalidParameter` if the statistic takes no bounds.
        """
        raise InvalidParameter(f"a {self.kind} has no bounds to be found, such as {float(low):g} and {float(high):g}")

    def clip_range(self) -> tuple[float, float] | None:
        """Return the statistic's clipping bounds (low, high), to be shown in the answer; None if it has no bounds."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipBounds:
    """Clipping bounds of a column: smaller values are raised to `low`, and larger values are lowered to `high`.

    - `low` and `high` are in units of the column.
    - `step` is the rounding step, in units of the column too: clipped values are rounded to a whole number of steps,
      counted from a point that depends on the statistic (0 for a sum, `low` for a quantile). It is None until the kind
      of the column is known.
    - `from_search` says whether a private search found the bounds; otherwise they were stated.
    - `has_fractions` is True once the column is known to have other numbers than whole ones. A step of 1 then changes
      its values.
    """

    low: Fraction
    high: Fraction
    step: Fraction | None = None
    from_search: bool = False
    has_fractions: bool = False

    @property
    def width(self) -> Fraction:
        """The distance between the two clipping bounds, in units of the column."""
        return self.high - self.low

    @property
    def centre(self) -> Fraction:
        """The middle between the two clipping bounds, in units of the column."""
        return (self.low + self.high) / 2

    @property
    def known_step(self) -> Fraction:
        """The step to which clipped values are rounded, in units of the column; 1 if none was given."""
        return Fraction(1) if self.step is None else self.step


def read_bounds(
    low: Number | None, high: Number | None, step: Number | None, bounds: str | None, *, from_zero: bool = False
) -> ClipBounds | None:
    """Return the clipping bounds and the rounding step that a statistic's parameters state; None if `bounds` is "auto".

    - `low` and `high` are the clipping bounds, and `step` is the rounding step, at most high - low; None if the step is
      chosen later.
    - `bounds` is "auto" if a private search is to find low, high and step (so none may be given), "found" if a search
      has found them, and None otherwise.
    - `from_zero` is True for sums, whose step may be as large as the larger one of |low| and |high|.
    Raises: `InvalidParameter` if a bound is missing, is not a number, or contradicts another parameter.
    """
    if bounds == AUTO:
        if (low, high, step) != (None, None, None):
            raise InvalidParameter("with auto for bounds, low, high and step are found: leave them out")
        return None
    if bounds not in (None, FOUND):
        raise InvalidParameter(f"bounds must be {AUTO!r}, or left out, not {value_text(bounds)}")
    if low is None or high is None:
        raise InvalidParameter("say between which values one user counts: give low and high, or auto for bounds")
    least, most = _bounded_number("low", low), _bounded_number("high", high)
    if not least < most:
        raise InvalidParameter(f"low must be below high, not {float(least):g} and {float(most):g}")
    exact = None if step is None else _bounded_number("step", step)
    if exact is not None:
        widest = max(abs(least), abs(most)) if from_zero else most - least
        if exact < 1 / Fraction(LARGEST_NUMBER):
            raise InvalidParameter(f"step must be above 0, not {float(exact):g}")
        if exact > widest:
            raise InvalidParameter(f"step must be at most {float(widest):g}, not {float(exact):g}")
    return ClipBounds(low=least, high=most, step=exact, from_search=bounds == FOUND)


def _bounded_number(name: str, value: object) -> Fraction:
    number = exact_number(name, value)
    if abs(number) > LARGEST_NUMBER:
        raise InvalidParameter(f"{name} must be at most {LARGEST_NUMBER:g} either way, not {value!r}")
    return number


class BoundedStatistic(Statistic):
    """A statistic of a column whose values are clipped to bounds, which are given or found by a private search.

    `clip` holds the bounds, and is None until a search has found them.
    """

    __slots__ = ()

    column: str
    clip: ClipBounds | None

    @property
    def low(self) -> Fraction | None:
        """The lower clipping bound, in units of the column; None until a search has found it."""
        return None if self.clip is None else self.clip.low

    @property
    def high(self) -> Fraction | None:
        """The upper clipping bound, in units of the column; None until a search has found it."""
        return None if self.clip is None else self.clip.high

    @property
    def step(self) -> Fraction | None:
        """The step to which values are rounded, in units of the column; None until the kind of the column is known."""
        return None if self.clip is None else self.clip.step

    @property
    def bounds(self) -> str | None:
        """The state of the clipping bounds: "auto" before a private search, "found" after it, None if given."""
        if self.clip is None:
            return AUTO
        return FOUND if self.clip.from_search else None

    @property
    def name(self) -> str:
        """The name of the column that holds the statistic in an answer: KIND_COLUMN, such as mean_age."""
        return f"{self.kind}_{self.column}"

    @property
    def clip_bounds(self) -> ClipBounds:
        """The bounds to which values are clipped, and the step to which they are rounded, once the bounds are known.

        Raises: `InvalidParameter` if the bounds are still to be found by a private search.
        """
        if self.clip is None:
            raise InvalidParameter(f"the bounds of the {self.kind} of {self.column} are still to be found")
        return self.clip

    def with_clip(self, clip: ClipBounds) -> Self:
        """Return the same statistic with the clipping bounds and rounding step `clip`."""
        return copy_with(self, clip=clip)

    def in_steps(self, schema: Schema) -> "Statistic":
        """Return the statistic with its rounding step filled in: the stated step, or else a thousandth of high - low.

        Values of the column are clipped to `low` .. `high` and rounded to multiples of the step, because mechanisms
        compute with whole numbers. `schema` describes the table. Only statistics whose step depends on whether the
        column has integers use it.
        """
        clip = self.clip_bounds
        return self if clip.step is not None else self.with_clip(replace(clip, step=self.default_step(schema)))

    def default_step(self, schema: Schema) -> Fraction:
        """Return the rounding step, in units of the column, if none is stated: a thousandth of high - low.

        The values of the column are clipped to `low` .. `high`. `schema` is not used.
        """
        del schema
        return self.clip_bounds.width / STEPS

    @property
    def finds_clip(self) -> bool:
        """Whether the clipping bounds are still to be found by a private search."""
        return self.clip is None

    def search_measures(self) -> tuple[Measure, ...]:
        """Return the measure from which a private search finds the clipping bounds: each user's own mean.

        The engine counts the users by their means, in bins whose ends are powers of two.
        """
        return (doubling_measure(self.column, averaged=True),)

    def with_bounds(self, low: Fraction, high: Fraction) -> "Statistic":
        """Return the statistic with the clipping bounds `low` and `high`, which a private search found."""
        return self.with_clip(ClipBounds(low=low, high=high, from_search=True))

    def clip_range(self) -> tuple[float, float] | None:
        """Return the clipping bounds (low, high) as floats, to be shown in the answer.

        The result is never None: a statistic of this class always has clipping bounds.

        Raises: `InvalidParameter` if a private search has not found the bounds yet.
        """
        return float(self.clip_bounds.low), float(self.clip_bounds.high)

    @property
    def clipped_values(self) -> str:
        """A clause for sentences below an answer, which says to which bounds values are clipped.

        For example: "each row's age is clipped to 0 .. 120".
        """
        return f"each row's {self.column} is clipped to {self.clip_text()}"

    @property
    def search_limit_note(self) -> str:
        """A sentence, without its full stop, that says how to include values beyond the bounds that a search can find.

        For example: "No bounds beyond 1.845e+19 are found: if size has larger values, state their bounds, or divide
        size by a constant". It is "" unless a private search found bounds at its limit of 2^64.
        """
        from setwise.mechanisms.doubling_bounds import LARGEST_EXPONENT

        limit = Fraction(2) ** LARGEST_EXPONENT
        clip = self.clip
        if clip is None or not clip.from_search or max(abs(clip.low), abs(clip.high)) < limit:
            return ""
        return (
            f"No bounds beyond {float(limit):.4g} are found: if {self.column} has larger values, state their bounds, "
            f"or divide {self.column} by a constant"
        )

    def clip_text(self) -> str:
        """Return the clipping bounds as text, as in "0 .. 5", or a phrase if they are still to be found by a search."""
        clip = self.clip
        return "bounds that are found" if clip is None else range_text(clip.low, clip.high, is_found=clip.from_search)

    def between(self) -> str:
        """Return the clipping bounds as text, as in "between 0 and 5"."""
        return f"between {number_text(self.clip_bounds.low)} and {number_text(self.clip_bounds.high)}"


def bounded_reach(reach: int) -> int:
    """Return the sensitivity of a sum in rounding steps: `reach`, the most steps that one user adds, but at least 1.

    Raises: `InvalidParameter` if `reach` is more than 2^40 (`LARGEST_TAU`), because noise for that sensitivity cannot
    be sampled.
    """
    if reach > LARGEST_TAU:
        raise InvalidParameter(f"a user may add at most {LARGEST_TAU:,} steps, not {reach:,}: give a larger step")
    return max(1, reach)
