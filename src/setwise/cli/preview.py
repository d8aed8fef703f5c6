"""The preview of a question for people: what is released, how accurately, at which cost; then the mechanism."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from setwise.accounting.notation import format_use
from setwise.accounting.promises import promise_in_words, rounded_up
from setwise.cli.output import print_json, print_table, with_option_names

if TYPE_CHECKING:
    from setwise.analytics.planning.plan import Plan
    from setwise.analytics.query import Query


PREVIEW_TITLE = "Preview: no question was answered and nothing was charged"


def show_preview(
    plan: "Plan",
    queries: "Sequence[Query]",
    shortage: str | None,
    warning: str | None = None,
    *,
    as_json: bool,
    details: bool,
) -> None:
    """Print a plan: what is released, how accurate it is, what it costs, and what the account lacks if it cannot pay.

    - `queries`: the queries that the plan answers
    - `shortage`: what the account lacks; None if it can pay or if no account pays
    - `warning`: a warning that the charge ends, for all accounts on the dataset, one of the two ways in which their
      joint budget can be spent (as a Gaussian budget or as a sum of epsilons); None if it ends neither
    - `as_json`: whether to print JSON instead of a table
    - `details`: whether to add the mechanism, how it was chosen, and the mechanism uses (runs of mechanisms) that are
      charged
    """
    from setwise.analytics.present.text import question_in_words

    shortage = None if shortage is None else with_option_names(shortage)
    if as_json:
        print_json({**plan.to_dict(), "shortage": shortage, "warning": warning})
        return
    epsilon, delta = plan.alone or (plan.epsilon.upper, plan.delta)
    at_delta = f" at delta {rounded_up(delta)}" if delta else ""
    rows = [
        ("released", "; ".join(dict.fromkeys(question_in_words(query.to_dict()) for query in queries))),
        ("accuracy", accuracy_in_words(plan)),
        ("cost", f"At most epsilon {rounded_up(epsilon)}{at_delta}"),
        ("promise", promise_in_words(epsilon, delta)),
    ]
    if shortage is not None:
        rows.append(("too little left", shortage))
    if warning is not None:
        rows.append(("warning", warning))
    if details:
        rows += _mechanism_rows(plan)
    print_table(PREVIEW_TITLE, rows)


_EXAMPLES = re.compile(
    r"(?:for example|with the largest limits that may be found), (if .*?): \w[\w+]*(?: as asked)?: "
    r"(.*?)(?= \(found with| \(with prob|; next best|; with the largest limits|$)"
)
"""Pattern of the errors for example bounds in the text that says how a mechanism was chosen (`Plan.why`): the first for
common bounds, the second for the largest that may be found."""

_COUNTS = re.compile(
    r"finds items whose count is ([\d,]+) above those left out(?: \(from rank ([\d,]+) on\))?, "
    r"counts off by \S+ on average, within ±([\d,]+)"
)

_WORST = ". The bounds are found first. At worst, "
"""What stands between the error for common bounds and that for the largest ones."""


def accuracy_in_words(plan: "Plan") -> str:
    """Return a sentence that says how close the answer planned by `plan` will be to the exact numbers.

    The sentence also says how large a group must be to be found. If the contribution bounds (the most groups and rows
    for which one user counts) are found only when the question runs, by a private search, the error is not known yet.
    The sentence then states the error for typical bounds, and for the largest bounds that the search can find. The web
    page "Ask" shows the same sentence.
    """
    error = plan.error
    sure = f"{float(error.confidence):.0%}"
    if error.expected_error is None:

        def in_words(counts: re.Match[str]) -> str:
            shown = _shown_from(counts[1], counts[2])
            return f"counts within about {counts[3]}; {shown} are shown with probability {sure}"

        examples = [(match[1], _COUNTS.sub(in_words, match[2])) for match in _EXAMPLES.finditer(plan.why)]
        if not examples:
            return _capitalize(re.sub(r"^[^:]*: ", "", plan.why))
        return _capitalize(_WORST.join(f"{assumed}: {close}" for assumed, close in examples))
    if error.radius is None:
        close = f"Counts off by about {error.expected_error:.3g}"
    else:
        close = f"Counts within about {error.radius:,} (with probability {sure})"
    if error.detectable is None:
        return close
    rank = None if error.above_rank is None else f"{error.above_rank:,}"
    return f"{close}; {_shown_from(f'{error.detectable:,}', rank)} are shown with probability {sure}"


def _shown_from(count: str, rank: str | None) -> str:
    """Return a phrase for the groups whose counts are so high that they are shown.

    They need at least the `count` or, if only the groups of higher rank than `rank` can be shown, this much more than
    the group of that rank.
    """
    plus = "" if rank is None else f" (plus that of rank {rank}, if there are so many groups)"
    return f"groups with a count of at least about {count}{plus}"


def _mechanism_rows(plan: "Plan") -> list[tuple[str, str]]:
    """Return rows (name, text) that describe the mechanism of `plan`, for the details of a preview.

    The rows state:
    - the mechanism, and why it was chosen
    - the mechanism uses (runs of mechanisms) that are charged at most, and their joint epsilon
    - how large the error of a count is expected to be
    - how large a group's exact count must be for the group to be found very likely
    - how far two exact counts must be apart so that a top k very likely has the two groups in the right order
    """
    rows = [
        ("mechanism", plan.mechanism),
        ("why", plan.why),
        ("at most", "  ".join(format_use(use) for use in plan.uses)),
        ("epsilon", f"{rounded_up(plan.epsilon.upper)} at delta {rounded_up(plan.delta)} ({plan.interaction})"),
    ]
    expected = plan.error
    sure = f"with probability {float(expected.confidence):.0%}"
    if expected.radius is not None and expected.expected_error is not None:
        within = f"within ±{expected.radius:,} {sure}"
        if expected.detectable is not None and "+" not in plan.mechanism:  # the counts themselves pass the threshold
            within += " where clear of the threshold"
        rows.append(("count error", f"{expected.expected_error:.3g} on average, {within}"))
    if expected.detectable is not None:
        plus = "" if expected.above_rank is None else f" above that of rank {expected.above_rank:,}"
        rows.append(("found when", f"{sure}, if a count is at least {expected.detectable:,}{plus}"))
    if expected.shortfall is not None:
        rows.append(("in order when", f"counts are apart by {expected.shortfall:,}"))
    return rows


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
