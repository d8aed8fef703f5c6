"""The planned accuracy of an answer in words, as previews state it on the command line, on the page and in JSON."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction

from setwise.accounting.promises import in_unit_nouns
from setwise.analytics.planning.expected_error import main_statistic
from setwise.analytics.query import Query
from setwise.analytics.statistics import Sum
from setwise.analytics.statistics.parameters import radius_text
from setwise.mechanisms.planning.request import MechanismName
from setwise.mechanisms.release import ErrorEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How close the answer to a question will be to the exact numbers, in words.

    - `text` is a sentence without its full stop. It names each statistic, in its own unit.
    - `about` is the statistic that `ErrorEstimate.radius` is about, such as "counts" or "sums of price".
    - `threshold` is the number of a group that `ErrorEstimate.detectable` is about, such as "count".
    """

    text: str
    about: str
    threshold: str

    @classmethod
    def of(cls, query: Query, error: ErrorEstimate, mechanism: str, why: str, statistics: str = "") -> "Accuracy":
        """Return the accuracy of a plan of `query` with the expected `error`.

        - `mechanism` is the name of the plan's mechanism.
        - `why` is the text that compares the plan's mechanism with others, after the mechanism's name and a colon. It
          takes the place of a number if only labels are released, because their counts have no error then.
        - `statistics` says how close each statistic will be; "" if groups can be ranked by the only one, which then has
          the error `error`.
        """
        about = query.statistics[main_statistic(query)].subject
        threshold = _threshold(query, mechanism)
        sure = f"(with probability {float(error.confidence):.0%})"
        if statistics:
            close = statistics
        elif error.expected_error is None:
            return cls(text=_capitalize(why.partition(": ")[2]), about=about, threshold=threshold)
        elif error.radius is None:
            close = f"{about} off by about {error.expected_error:.3g}"
        else:
            close = f"{about} within about {radius_text(Fraction(str(error.radius)))} {sure}"
        return cls(text=_capitalize(close + _shown_groups(error, threshold)), about=about, threshold=threshold)

    @classmethod
    def of_examples(cls, examples: Sequence[tuple[str, "Accuracy"]], why: str) -> "Accuracy":
        """Return the accuracy of a plan whose bounds are found first, by a private search.

        `examples` has pairs (a phrase that states example bounds, the accuracy with these bounds): first typical
        bounds, then the largest that the search can find. If there are none, the text is the end of `why`.
        """
        if not examples:
            return cls(text=_capitalize(why.partition(": ")[2]), about="counts", threshold="count")
        phrases = [f"{_after_comma(assumed)}: {_uncapitalize(accuracy.text)}" for assumed, accuracy in examples]
        return cls(
            text=_capitalize(". The bounds are found first. At worst, ".join(phrases)),
            about=examples[0][1].about,
            threshold=examples[0][1].threshold,
        )

    def in_units(self, unit: str, names: Collection[str]) -> "Accuracy":
        """Return this accuracy about the unit of privacy `unit`, such as user-days; `names` are names of columns."""
        text, about, threshold = (in_unit_nouns(each, unit, names) for each in (self.text, self.about, self.threshold))
        return Accuracy(text=text, about=about, threshold=threshold)

    @classmethod
    def of_all(cls, parts: Sequence["Accuracy"]) -> "Accuracy":
        """Return the accuracy of a statement whose SELECTs have the accuracies `parts`; numbers are about the last."""
        last = parts[-1]
        text = ". ".join(dict.fromkeys(part.text for part in parts))
        return cls(text=text, about=last.about, threshold=last.threshold)


def _threshold(query: Query, mechanism: str) -> str:
    """Return the number of a group that decides whether a private group of `query` is shown: "count", for example.

    Groups of a query with several statistics are found by their numbers of users. If the `mechanism` finds groups in
    rounds, groups of every query are.
    """
    match query.counted:
        case None:
            return "number of users"
        case _ if mechanism == MechanismName.WEIGHTED_ROUNDS and query.per_item > 1:
            return "number of users"
        case Sum(column=column):
            return f"sum of {column}"
        case _:
            return "count"


def _shown_groups(error: ErrorEstimate, threshold: str) -> str:
    """Return a phrase for the groups that are shown because their numbers are so high; "" if no group has to be found.

    A group's number, which `threshold` names, must be at least `error.detectable` or, if only the groups above a rank
    can be shown, this much more than the number of the group of that rank.
    """
    if error.detectable is None:
        return ""
    rank = error.above_rank
    plus = "" if rank is None else f" (plus that of rank {rank:,}, if there are so many groups)"
    sure = f"shown with probability {float(error.confidence):.0%}"
    return f"; groups with a {threshold} of at least about {error.detectable:,}{plus} are {sure}"


def _after_comma(text: str) -> str:
    return text.partition(", ")[2]


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _uncapitalize(text: str) -> str:
    return text[:1].lower() + text[1:]
