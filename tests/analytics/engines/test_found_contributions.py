"""Contributions that are found: every engine counts how many groups each user has, and nobody's rows twice."""

from fractions import Fraction

import numpy as np
import pyarrow as pa

from setwise.analytics.planning.bounds_search import COARSE_STEPS
from setwise.analytics.planning.plan import plan_query
from setwise.analytics.query import EVERYTHING, Count, Query
from setwise.analytics.statistics import Distinct
from setwise.mechanisms.contribution_bound import MOST_GROUPS, MOST_ROWS
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.randomness import SystemRandomness

GROUPS = [1, 1, 2, 3, 5, 8, 300] * 3


def table():
    pairs = [(user, f"page {page}") for user, groups in enumerate(GROUPS) for page in range(groups)]
    return pa.table({"who": [user for user, _ in pairs * 2], "page": [page for _, page in pairs * 2]})


def test_every_engine_counts_the_groups_of_each_user(backend):
    """Each pair is in the table twice, and counts once."""
    engine = backend.engine(table())
    query = Query.histogram(item="page", contributions="auto")
    planned = plan_query(query, Total(epsilon=100, delta=Fraction("1e-6")), "who", engine.describe(), None)
    found = engine.statistics(planned.search.aggregation)
    users = found.cells_of(-1, EVERYTHING, MOST_GROUPS)
    assert users.sum() == len(GROUPS)
    assert {place + 1: int(users[place]) for place in np.flatnonzero(users)} == {1: 6, 2: 3, 3: 3, 5: 3, 8: 3, 300: 3}
    drawn = planned.search.search.release(found, COARSE_STEPS, SystemRandomness())
    assert drawn.contributions in planned.search.search.groups.bounds
    assert drawn.left_out is not None


def test_every_engine_counts_the_rows_of_each_user_in_the_group_where_the_user_has_most(backend):
    """User n has n + 1 rows on page 0, one row on each of two more pages, and a value in every second row."""
    rows = [(user, f"page {page}") for user in range(9) for page in [0] * (user + 1) + [1, 2]]
    values = [None if place % 2 else 1.0 for place in range(len(rows))]
    who, pages = zip(*rows, strict=True)
    engine = backend.engine(pa.table({"who": who, "page": pages, "x": pa.array(values, pa.float64())}))
    counts = (Count(bounds="auto"), Count(column="x", bounds="auto"))
    query = Query(statistics=counts, item="page", contributions="auto")
    planned = plan_query(query, Total(epsilon=100, delta=Fraction("1e-6")), "who", engine.describe(), None)
    found = engine.statistics(planned.search.aggregation)
    users = found.cells_of(0, EVERYTHING, MOST_ROWS + 1)
    assert users.tolist()[:12] == [0, *[1] * 9, 0, 0]
    assert users.sum() == 9
    most = [
        max(sum(value is not None for row, value in zip(rows, values, strict=True) if row == pair) for pair in pairs)
        for pairs in ([(user, f"page {page}") for page in range(3)] for user in range(9))
    ]
    with_values = found.cells_of(1, EVERYTHING, MOST_ROWS + 1)
    assert with_values.tolist() == np.bincount(most, minlength=MOST_ROWS + 1).tolist()
    assert len(planned.search.search.release(found, COARSE_STEPS, SystemRandomness()).rows) == 2


def test_every_engine_counts_the_distinct_values_of_each_user_in_the_group_where_the_user_has_most(backend):
    """User n has n + 1 values on page 0, each in two rows, one of them a null; and two values on page 1."""
    rows = [
        (user, "page 0", f"value {place // 2}" if place > 1 else None)
        for user in range(9)
        for place in range(2 * user + 4)
    ]
    rows += [(user, "page 1", f"other {place}") for user in range(9) for place in range(2)]
    who, pages, values = zip(*rows, strict=True)
    engine = backend.engine(pa.table({"who": who, "page": pages, "value": pa.array(values, pa.string())}))
    statistics = (Distinct(column="value"), Count(column="value", bounds="auto"))
    query = Query(statistics=statistics, item="page", contributions="auto")
    planned = plan_query(query, Total(epsilon=100, delta=Fraction("1e-6")), "who", engine.describe(), None)
    found = engine.statistics(planned.search.aggregation)
    most = [max(user + 1, 2) for user in range(9)]
    assert found.cells_of(0, EVERYTHING, MOST_ROWS + 1).tolist() == np.bincount(most, minlength=MOST_ROWS + 1).tolist()
    rows_of_users = [2 * user + 2 for user in range(9)]
    assert (
        found.cells_of(1, EVERYTHING, MOST_ROWS + 1).tolist()
        == np.bincount(rows_of_users, minlength=MOST_ROWS + 1).tolist()
    )
