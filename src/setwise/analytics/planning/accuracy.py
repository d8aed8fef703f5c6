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

_GROWTH = (
    "This is an example: the bounds are found first, and where one is ten times as large, the error is up to ten times "
    "as large"
)
"""What a preview says of bounds that are not known before the charge. "At worst within 17,945" was said of sums that
came within 6,185,128, because the example of values was between 0 and 100 there, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How close the answer to a question will be to the exact numbers, in words.

    - `text` is a sentence without its full stop. It names each statistic, in its own unit.
    - `about` is the statistic whose error is `ErrorEstimate.radius`, such as "counts" or "sums of price".
    - `threshold` is the statistic that decides whether a group is shown, such as "count". `ErrorEstimate.detectable`
      says how large it must be in a group.
    """

    text: str
    about: str
    threshold: str

    @classmethod
    def of(cls, query: Query, error: ErrorEstimate, mechanism: str, why: str, statistics: str = "") -> "Accuracy":
        """Return the accuracy of a plan of `query` with the expected `error`.

        - `mechanism` is the name of the plan's mechanism.
        - `why` has the form "MECHANISM: TEXT", where TEXT says why the plan has this mechanism. If the answer has only
          labels, and so no number with an error, TEXT becomes the accuracy's text.
        - `statistics` says how close each statistic will be. It is "" if groups are found by the only number that the
          query asks for; the error of this number is then `error`.
        """
        about = query.statistics[main_statistic(query)].subject
        threshold = "number of users" if statistics else _threshold(query, mechanism)
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

        The accuracy depends on the bounds that the search will find, so it is stated for an example of bounds.

        - `examples` has pairs (a phrase that states example bounds, the accuracy with these bounds). The first one is
          stated. The largest bounds that can be found would say nothing: a sum would be within billions.
        - `why` has the form "MECHANISM: TEXT". If there are no examples, TEXT becomes the accuracy's text.
        """
        if not examples:
            return cls(text=_capitalize(why.partition(": ")[2]), about="counts", threshold="count")
        assumed, example = examples[0]
        text = f"{_capitalize(_after_comma(assumed))}: {_uncapitalize(example.text)}. {_GROWTH}"
        return cls(text=text, about=example.about, threshold=example.threshold)

    def in_units(self, unit: str, names: Collection[str]) -> "Accuracy":
        """Return this accuracy with texts that speak of the unit of privacy `unit` where they spoke of users.

        Only words change: "fewer than 36 users" becomes "fewer than 36 user-days" for the unit "user,day". `names` are
        the names of the question's columns, which stay as they are, even if one is called "user".
        """
        text, about, threshold = (in_unit_nouns(each, unit, names) for each in (self.text, self.about, self.threshold))
        return Accuracy(text=text, about=about, threshold=threshold)

    @classmethod
    def of_all(cls, parts: Sequence["Accuracy"]) -> "Accuracy":
        """Return the accuracy of a statement whose SELECTs have the accuracies `parts`: the text of each, in order.

        `about` and `threshold` are those of the last SELECT.
        """
        last = parts[-1]
        text = ". ".join(dict.fromkeys(part.text for part in parts))
        return cls(text=text, about=last.about, threshold=last.threshold)


def _threshold(query: Query, mechanism: str) -> str:
    """Return the statistic that decides whether a private group of `query` is shown: "count", for example.

    It is the number of users if the query has several statistics, or only one by which groups cannot be ranked (such as
    a mean), and also if the `mechanism` is `WEIGHTED_ROUNDS` (which finds groups in rounds) and several rows of a user
    count in a group. Otherwise it is the statistic of the query. The caller knows of other mechanisms that find groups
    by their users.
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
    """Return a phrase that says how large a group's statistic must be for the group to be shown.

    `threshold` is the statistic, such as "count". It must be at least `error.detectable`. If `error.above_rank` is a
    rank r, only groups above this rank can be shown: the statistic must then exceed that of the group of rank r by
    `error.detectable`. The result is "" if `error.detectable` is None, for example because no group has to be found.
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
