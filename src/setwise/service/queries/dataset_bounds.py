"""The contribution bounds that a dataset sets for questions: how many groups and rows of a user count."""

from setwise.analytics.query import Query
from setwise.analytics.sql.core import with_contributions
from setwise.errors import InvalidParameter
from setwise.service.problems import at_field
from setwise.service.storage.datasets import Dataset


def bounded_query(query: Query, dataset: Dataset, *, finds_bounds: bool) -> Query:
    """Return `query` with its contribution bounds: its own, those of `dataset`, or one that a private search finds.

    Contribution bounds limit what one user contributes: the most groups in which the user counts, the most that the
    user adds to one group, and the most rows of the user that count in one group. If neither the query nor the dataset
    states the most groups, a private search finds it within a tenth of epsilon, where SQL would have it found, too: for
    private groups (noise decides which of them are shown), and for five public groups or more.

    `finds_bounds` is False if the account pays with guarantees that were registered for single mechanisms, because none
    of them pays for a search.

    Raises `InvalidParameter` if the query states a larger bound than the dataset, or if it is a histogram of private
    groups whose bound would have to be found, but cannot.
    """
    bounded = _within_bounds(query.with_declared_rows(dataset.rows_per_user), dataset)
    if finds_bounds:
        return with_contributions(bounded)
    has_bound = bounded.contributions is not None or bounded.auto_contributions
    if bounded.kind == "histogram" and not has_bound and bounded.domain is None:
        with at_field("query.contributions"):
            raise InvalidParameter(
                "say in how many groups one user may count (contributions), or list public groups (domain): registered "
                "uses pay for no search of that number"
            )
    return bounded


def _within_bounds(query: Query, dataset: Dataset) -> Query:
    """Return `query` with two contribution bounds of `dataset` filled in where the query states none.

    - `contributions`: the most groups in which one user counts
    - `per_item`: the most that one user adds to a group: a number of rows, or an amount of a summed column

    A query without groups is returned unchanged. Raises `InvalidParameter` if the dataset has one of these bounds and
    the query states a larger one.
    """
    if query.item is None:
        return query
    filled = query.filled(contributions=dataset.contributions, per_item=dataset.per_item)
    bounds = (
        ("contributions", filled.contributions, dataset.contributions),
        ("per_item", filled.per_item, dataset.per_item),
    )
    for name, bound, most in bounds:
        if bound is not None and most is not None and bound > most:
            with at_field(f"query.{name}"):
                raise InvalidParameter(f"{name} must be at most {most} on this dataset, not {bound}")
    return filled
