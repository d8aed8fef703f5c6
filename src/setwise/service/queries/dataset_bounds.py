"""The contribution bounds that a dataset sets for questions: how many groups and rows of a user count."""

from setwise.analytics.query import Query
from setwise.errors import InvalidParameter
from setwise.service.problems import at_field
from setwise.service.storage.datasets import Dataset


def bounded_query(query: Query, dataset: Dataset) -> Query:
    """Return `query` with the dataset's contribution bounds filled in where the query states none.

    Contribution bounds limit what one user contributes: the most groups in which the user counts, the most that the
    user adds to one group, and the most rows of the user that count in one group.

    Raises `InvalidParameter` in two cases:

    - The query states a larger bound than the dataset, for one of the first two bounds.
    - The query is a histogram of private groups (noise decides which of them are shown), and nothing limits in how many
      groups one user counts: neither the query nor the dataset states a bound, and the query does not ask the service
      to find one ("auto").
    """
    bounded = _within_bounds(query.with_declared_rows(dataset.rows_per_user), dataset)
    has_bound = bounded.contributions is not None or bounded.auto_contributions
    if bounded.kind == "histogram" and not has_bound and bounded.domain is None:
        with at_field("query.contributions"):
            raise InvalidParameter(
                "a histogram of this dataset needs contributions or a domain: give either, or ask for a top k"
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
