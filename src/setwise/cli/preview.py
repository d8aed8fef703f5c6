"""The preview of a question for people: what is released, how accurately, at which cost; then the mechanism."""

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from setwise.accounting.notation import format_use
from setwise.accounting.promises import promise_in_words, rounded_up
from setwise.cli.advice.option_names import with_option_names
from setwise.cli.output import print_json, print_table

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
    unit: str,
    as_json: bool,
    details: bool,
) -> None:
    """Print a plan: what is released, how accurate it is, what it costs, and what the account lacks if it cannot pay.

    - `queries`: the queries that the plan answers
    - `shortage`: what the account lacks; None if it can pay or if no account pays
    - `warning`: a warning that the charge ends, for all accounts on the dataset, one of the two ways in which their
      joint budget can be spent (as a Gaussian budget or as a sum of epsilons); None if it ends neither
    - `unit`: the unit of privacy, such as "user" or "user,day", which the texts are about
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
        ("released", "; ".join(dict.fromkeys(question_in_words(query.to_dict(), unit) for query in queries))),
        ("accuracy", plan.accuracy.text),
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


def _mechanism_rows(plan: "Plan") -> list[tuple[str, str]]:
    """Return rows (name, text) that describe the mechanism of `plan`, for the details of a preview.

    The rows state:
    - the mechanism, and why it was chosen
    - the mechanism uses (runs of mechanisms) that are charged at most, and their joint epsilon
    - how large the error of the counts, or of another statistic, is expected to be
    - how large a group's exact count must be for the group to be found very likely
    - how far two exact counts must be apart so that a top k very likely has the two groups in the right order
    """
    from setwise.analytics.statistics.parameters import radius_text

    rows = [
        ("mechanism", plan.mechanism),
        ("why", plan.why),
        ("at most", "  ".join(format_use(use) for use in plan.uses)),
        ("epsilon", f"{rounded_up(plan.epsilon.upper)} at delta {rounded_up(plan.delta)} ({plan.interaction})"),
    ]
    expected, accuracy = plan.error, plan.accuracy
    sure = f"with probability {float(expected.confidence):.0%}"
    if expected.radius is not None and expected.expected_error is not None:
        within = f"within ±{radius_text(Fraction(str(expected.radius)))} {sure}"
        if expected.detectable is not None and "+" not in plan.mechanism:  # the counts themselves pass the threshold
            within += " where clear of the threshold"
        rows.append(("error", f"{accuracy.about} off by {expected.expected_error:,.3g} on average, {within}"))
    if expected.detectable is not None:
        plus = "" if expected.above_rank is None else f" above that of rank {expected.above_rank:,}"
        rows.append(("found when", f"{sure}, if a {accuracy.threshold} is at least {expected.detectable:,}{plus}"))
    if expected.shortfall is not None:
        rows.append(("in order when", f"groups differ by at least {expected.shortfall:,} in {accuracy.threshold}"))
    return rows
