"""The contract of a statistic: its words, what an engine aggregates for it, its release, and how its answer reads.

`Statistic` is the base of every statistic, and `BoundedStatistic` of those whose values are clipped to bounds. People
write words (column, low, high, ..); a constructor checks them and keeps a record whose types are exact.
"""

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar, get_args, get_type_hints

from setwise.analytics.measure import Measure
from setwise.analytics.schema import Schema
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import LARGEST_TAU

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate
    from setwise.mechanisms.statistics import StatisticRelease

AUTO, FOUND = "auto", "found"
"""The words for bounds that are to be found privately, and that were found."""

LARGEST_NUMBER = 10**90
"""The largest absolute value of a bound; 1 divided by it is the smallest step."""

STEPS = 1000
"""The number of steps between low and high, unless a query gives a step."""

SOME_USERS = 1000
"""The size of the group for which a plan says how close a mean will be; the error is in proportion to 1 / size."""

Number: TypeAlias = int | float | Fraction | Decimal
"""Any finite number; floats are taken as the shortest decimal that gives them."""

GROUP_BOUNDS, ROW_BOUNDS = "contribution_bounds_per_group", "contribution_bounds_per_row"
"""GoogleSQL's names of the bounds of what a user adds to a group, and of the value of one row."""

ROWS_BETWEEN = "say between which values a row counts, or AUTO to have it found"
"""What to write for the bounds of a statistic over rows."""

ROWS = "max_rows_contributed"
"""The named argument of SQL functions for how many rows of a user count in a group at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlFunction:
    """How SQL writes a statistic of a column: which named argument has its bounds, and whether a share follows.

    `takes_share` is for functions such as PERCENTILE_CONT(column, share). `takes_rows` is for statistics over rows, of
    which a user may have several: they have the named argument `ROWS`. `missing` tells what to write for bounds.
    `share` is the share of a function that stands for one quantile, such as PRIVATE_MAX.
    """

    bounds: str
    missing: str
    takes_share: bool = False
    takes_rows: bool = False
    share: Fraction | None = None


class Statistic(ABC):
    """A statistic of the rows of each group, as one user's part in it is bounded.

    A subclass is a frozen record of checked parameters. Its constructor takes the words of JSON, of the command line
    and of Python, and raises `InvalidParameter` for a wrong one.
    """

    __slots__ = ()

    kind: ClassVar[str]
    """The name of the statistic in JSON, of its command and of its Python call."""

    summary: ClassVar[str]
    """What its command does, in one sentence."""

    sql: ClassVar[Mapping[str, SqlFunction]] = {}
    """The SQL functions of a column that are this statistic, by name."""

    by_picks: ClassVar[bool] = False
    """Whether its release draws picks instead of noise on sums."""

    over_rows: ClassVar[bool] = False
    """Whether it is always over rows, so that a form asks how many rows of a user count."""

    has_interval: ClassVar[bool] = True
    """Whether its estimates have an interval of values."""

    radius_unit: ClassVar[str] = ""
    """What the radius of a plan is about, where it is not a plain interval of the answer."""

    column: str | None

    @classmethod
    def read(cls, words: Mapping[str, object]) -> "list[Statistic]":
        """Return the statistics that the words of JSON mean: one, unless a word lists several shares."""
        return [build(cls, f"a {cls.kind}", dict(words))]

    def words(self) -> dict[str, object]:
        """Return the words that say more than their defaults, as JSON values; `read` takes them back."""
        return {
            name: plain(getattr(self, name))
            for name, parameter in parameters_of(type(self)).items()
            if getattr(self, name) not in (None, parameter.default)
        }

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the statistic's column in an answer."""

    @property
    def is_plain(self) -> bool:
        """Whether the command and the call of this kind can ask for it; otherwise a query lists its statistics."""
        return True

    @property
    def per_item(self) -> int | None:
        """The most that one user adds to a group, if groups can be ranked by the statistic; None otherwise.

        Groups are ranked by whole numbers of 0 or more.
        """
        return None

    def ranking_words(self, *, grouped: bool) -> dict[str, object]:
        """Return the words of the statistic in a top k, a histogram, a count or a sum of whole numbers."""
        raise InvalidParameter(f"groups cannot be ranked by a {self.kind}, grouped or not ({grouped})")

    def filled(self, per_item: int | None) -> "Statistic":
        """Return the statistic with the data set's bound on what a user adds, where it has none of its own."""
        del per_item
        return self

    def in_steps(self, schema: Schema) -> "Statistic":
        """Return the statistic with the step in which its column is added up."""
        del schema
        return self

    @abstractmethod
    def measures(self) -> tuple[Measure, ...]:
        """Return what the engine aggregates for a statistic that has its step."""

    @abstractmethod
    def release(self, among: "Sequence[Statistic]") -> "StatisticRelease":
        """Return the release of the statistic among those of a query; the planner chooses its noise scale."""

    @abstractmethod
    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return an estimate in whole units as one in units of the statistic's column."""

    @abstractmethod
    def planned_radius(self, release: "StatisticRelease") -> Fraction | None:
        """Return half the width of its intervals, from parameters alone; None for users as the groups were found.

        It is in units of the column for counts and sums, and for means of `SOME_USERS` users or rows. It is in ranks
        for quantiles.
        """

    def planned_together(self) -> object:
        """Return a key that is equal for statistics whose radii are told in one phrase; None for those told alone."""
        return None

    @abstractmethod
    def planned_words(self, radii: Sequence[Fraction]) -> str:
        """Return how close the statistic will be; with several `radii`, those of the statistics told together."""

    def alike(self) -> "Statistic":
        """Return a statistic that is equal for those that an answer describes in one phrase."""
        return self

    @abstractmethod
    def described(self, together: "Sequence[Statistic]", where: str) -> str:
        """Return what the statistic is and how a user's part in it is bounded, for headings.

        `together` are the statistics that `alike` says are described with it. `where` is " per item" or "".
        """

    @classmethod
    def asked_in_words(cls, column: str | None, words: Mapping[str, Any], by: str) -> str:
        """Return a statistic as JSON has it in words; `by` names the groups."""
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
        """Return what people call the statistic, from its words."""
        del words
        return cls.kind

    @classmethod
    def heading(cls) -> str:
        """Return its title for a form, such as "Mean"."""
        return cls.kind.capitalize()

    @classmethod
    def over(cls, words: Mapping[str, Any]) -> str:
        """Return " over events" where the words make it a statistic of rows, and "" otherwise."""
        del words
        return ""

    def is_unreliable(self, estimate: "Estimate", release: "StatisticRelease", users: float | None) -> bool:
        """Whether noise is large against the group of an estimate in units of the column.

        `users` is the released number of the group's users; None where none was released.
        """
        del estimate, release, users
        return False

    @property
    def kept_of_user(self) -> str:
        """What is counted of a user in a group at most, such as "5 rows", if more is left out; "" otherwise."""
        return ""

    @property
    def interval_note(self) -> str:
        """A sentence about what its interval allows for or leaves out; "" where there is nothing to say."""
        return ""

    @property
    def is_auto(self) -> bool:
        """Whether its bounds are to be found privately."""
        return False

    def search_measures(self) -> tuple[Measure, ...]:
        """Return what the engine counts in doubling bins to find the bounds.

        With several measures the bounds are the outermost of those that each finds.
        """
        raise InvalidParameter(f"a {self.kind} has no bounds to be found")

    def with_bounds(self, low: Fraction, high: Fraction) -> "Statistic":
        """Return the statistic with the bounds that were found."""
        raise InvalidParameter(f"a {self.kind} has no bounds to be found, such as {float(low):g} and {float(high):g}")

    def found_bounds(self) -> tuple[float, float] | None:
        """Return its bounds as an answer tells them where they were found; None where it has none."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipBounds:
    """The bounds that values are clipped to, the step they are rounded to, and whether the bounds were found privately.

    `step` is None until the kind of the column is known.
    """

    low: Fraction
    high: Fraction
    step: Fraction | None = None
    found: bool = False

    @property
    def width(self) -> Fraction:
        """The distance between the bounds."""
        return self.high - self.low

    @property
    def centre(self) -> Fraction:
        """The middle between the bounds."""
        return (self.low + self.high) / 2

    @property
    def known_step(self) -> Fraction:
        """The step; 1 if none was given."""
        return Fraction(1) if self.step is None else self.step


def read_bounds(
    low: Number | None, high: Number | None, step: Number | None, bounds: str | None, *, from_zero: bool = False
) -> ClipBounds | None:
    """Return the bounds that people wrote, or None for "auto": bounds that are to be found.

    `from_zero` is for sums, whose bounds contain 0 and whose step is at most the farther bound.
    """
    if bounds == AUTO:
        if (low, high, step) != (None, None, None):
            raise InvalidParameter("low, high and step are found with bounds='auto': leave them out")
        return None
    if bounds not in (None, FOUND):
        raise InvalidParameter(f"bounds must be {AUTO!r}, or left out, not {shown(bounds)}")
    if low is None or high is None:
        raise InvalidParameter("say between which values one user counts: give low and high, or bounds='auto'")
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
    return ClipBounds(low=least, high=most, step=exact, found=bounds == FOUND)


def _bounded_number(name: str, given: object) -> Fraction:
    number = exact_number(name, given)
    if abs(number) > LARGEST_NUMBER:
        raise InvalidParameter(f"{name} must be at most {LARGEST_NUMBER:g} either way, not {given!r}")
    return number


class BoundedStatistic(Statistic):
    """A statistic of a column whose values are clipped to bounds, which are given or found privately.

    `clip` is None while the bounds are to be found.
    """

    __slots__ = ()

    column: str
    clip: ClipBounds | None

    @property
    def low(self) -> Fraction | None:
        """The lower bound; None while it is to be found."""
        return None if self.clip is None else self.clip.low

    @property
    def high(self) -> Fraction | None:
        """The upper bound; None while it is to be found."""
        return None if self.clip is None else self.clip.high

    @property
    def step(self) -> Fraction | None:
        """What values are rounded to; None until the kind of the column is known."""
        return None if self.clip is None else self.clip.step

    @property
    def bounds(self) -> str | None:
        """The word for the bounds: "auto" if they are to be found, "found" if they were, None if they were given."""
        if self.clip is None:
            return AUTO
        return FOUND if self.clip.found else None

    @property
    def name(self) -> str:
        """The name of the statistic's column in an answer: its kind and the column."""
        return f"{self.kind}_{self.column}"

    @property
    def clipped(self) -> ClipBounds:
        """The bounds, of a statistic that has them."""
        if self.clip is None:
            raise InvalidParameter(f"the bounds of the {self.kind} of {self.column} are still to be found")
        return self.clip

    def with_clip(self, clip: ClipBounds) -> Self:
        """Return the same statistic with other bounds."""
        return changed(self, clip=clip)

    def in_steps(self, schema: Schema) -> "Statistic":
        """Return the statistic with its step: as given, or a thousandth of the distance between the bounds."""
        clip = self.clipped
        return self if clip.step is not None else self.with_clip(replace(clip, step=self.default_step(schema)))

    def default_step(self, schema: Schema) -> Fraction:
        """Return the step of a statistic that was given none."""
        del schema
        return self.clipped.width / STEPS

    @property
    def is_auto(self) -> bool:
        """Whether its bounds are to be found privately."""
        return self.clip is None

    def search_measures(self) -> tuple[Measure, ...]:
        """Return what the engine counts in doubling bins to find the bounds: each user's own mean."""
        return (doubling_measure(self.column, averaged=True),)

    def with_bounds(self, low: Fraction, high: Fraction) -> "Statistic":
        """Return the statistic with the bounds that were found."""
        return self.with_clip(ClipBounds(low=low, high=high, found=True))

    def found_bounds(self) -> tuple[float, float] | None:
        """Return its bounds as an answer tells them."""
        return float(self.clipped.low), float(self.clipped.high)

    def between(self) -> str:
        """Return the bounds in words."""
        return f"between {number_text(self.clipped.low)} and {number_text(self.clipped.high)}"


_DOUBLING_STEP = Fraction(1, 4)
"""The step of values whose bin is searched for: a user's values are added up in units of 2^-22."""


def extreme_measures(column: str) -> tuple[Measure, Measure]:
    """Return the measures that count users by the doubling bins of their least and of their greatest value."""
    measure = doubling_measure(column, averaged=False)
    return replace(measure, extreme=-1), replace(measure, extreme=1)


def doubling_measure(column: str | None, *, averaged: bool, counted: bool = False) -> Measure:
    """Return the measure that counts users by the doubling bin of their mean, their sum, or their number of rows."""
    from setwise.mechanisms.doubling_bounds import DOUBLINGS

    return Measure(
        column=column,
        averaged=averaged,
        counted=counted and column is not None,
        doubling=True,
        step=_DOUBLING_STEP,
        least=-DOUBLINGS,
        most=DOUBLINGS,
        in_cells=True,
    )


_Record = TypeVar("_Record")


def set_fields(record: object, **values: object) -> None:
    """Set the fields of a frozen record, for constructors whose parameters are not the fields."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def changed(record: _Record, **values: object) -> _Record:
    """Return a copy of a frozen record with other fields, which are not checked again."""
    copy = object.__new__(type(record))
    names = [field.name for field in fields(record)]  # type: ignore[arg-type]  # every record is a dataclass
    set_fields(copy, **{name: getattr(record, name) for name in names} | values)
    return copy


def bounded_reach(reach: int) -> int:
    """Return how many steps a user adds at most, at least 1, or raise `InvalidParameter` where noise cannot hide it."""
    if reach > LARGEST_TAU:
        raise InvalidParameter(f"a user may add at most {LARGEST_TAU:,} steps, not {reach:,}: give a larger step")
    return max(1, reach)


def scaled(estimate: "Estimate", origin: Fraction, step: Fraction, rounding: Fraction) -> "Estimate":
    """Return origin + step * estimate, its interval wider by `rounding` on either side."""
    from setwise.mechanisms.release import Estimate

    if estimate.interval is None:
        raise InvalidParameter("an estimate without an interval cannot be scaled with one")
    value, lower, upper = (origin + Fraction(each) * step for each in (estimate.value, *estimate.interval))
    return Estimate(
        value=whole_or_float(value), interval=(whole_or_float(lower - rounding), whole_or_float(upper + rounding))
    )


def covers_half(estimate: "Estimate", low: Fraction, high: Fraction) -> bool:
    """Whether the interval of an estimate covers at least half of what the statistic can be, low .. high."""
    return estimate.interval is not None and 2 * (estimate.interval[1] - estimate.interval[0]) >= high - low


def whole_or_float(number: Fraction) -> float:
    """Return a whole number as an integer, and others as a float."""
    return int(number) if number.denominator == 1 else float(number)


def number_text(value: Fraction) -> str:
    """Return a number as headings show it."""
    return f"{int(value):,}" if value.denominator == 1 else f"{float(value):g}"


def plain(value: object) -> object:
    """Return a value as JSON has it."""
    match value:
        case Fraction():
            return whole_or_float(value)
        case tuple():
            return [plain(each) for each in value]
        case _:
            return value


@cache
def parameters_of(call: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a call by name; those of a typed dictionary of keywords are listed one by one."""
    parameters: dict[str, inspect.Parameter] = {}
    kinds = get_type_hints(getattr(call, "__init__") if isinstance(call, type) else call)  # noqa: B009
    for parameter in inspect.signature(call).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            (words,) = get_args(kinds[parameter.name])
            for name, kind in get_type_hints(words).items():
                parameters[name] = inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind
                )
        else:
            parameters[parameter.name] = parameter.replace(annotation=kinds[parameter.name])
    return parameters


def build(make: Callable[..., Any], what: str, given: dict[str, object]) -> Any:  # noqa: ANN401 - what `make` makes
    """Return what the words make, or raise `InvalidParameter` for words that are unknown or missing."""
    known = parameters_of(make)
    for name in given:
        if name not in known:
            raise InvalidParameter(f"{what} has no {name!r}; it has {', '.join(sorted(known))}")
    needed = [name for name, each in known.items() if each.default is inspect.Parameter.empty]
    if not set(needed) <= set(given):
        raise InvalidParameter(f"{what} needs {' and '.join(map(repr, needed))}")
    return make(**given)


def exact_number(name: str, value: object) -> Fraction:
    """Return a finite number as the rational it stands for, or raise `InvalidParameter`.

    >>> exact_number("low", 0.1)
    Fraction(1, 10)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction | Decimal):
        raise InvalidParameter(f"{name} must be a number, not {shown(value)}")
    if not isinstance(value, Fraction) and not math.isfinite(value):
        raise InvalidParameter(f"{name} must be finite, not {value!r}")
    return Fraction(str(value)) if isinstance(value, float) else Fraction(value)


def check_column(name: str, value: object) -> str:
    """Return the name of a column, or raise `InvalidParameter`."""
    if not isinstance(value, str) or not value:
        raise InvalidParameter(f"{name} must be the name of a column, not {shown(value)}")
    return value


def shown(value: object) -> str:
    """Return a value as an error may show it: a frame or column given by mistake holds private data."""
    return repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
