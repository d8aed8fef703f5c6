"""What every engine must agree with: rows, users and items in plain Python."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import pyarrow as pa

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.query import EVERYTHING
from tests.analytics.engines.truth import truth


def label(value: object) -> str | int:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | str():
            return value
        case _:
            return str(value)


def contributions(table: pa.Table, aggregation: Aggregation) -> dict[object, dict[str | int, int]]:
    """Return what every user could contribute under every item, positive and before any bound."""
    users: dict[object, Counter] = defaultdict(Counter)
    for row in table.to_pylist():
        if row[aggregation.user] is None:
            continue
        if aggregation.where is not None and truth(aggregation.where.expression, row) is not True:
            continue
        if aggregation.item is None:
            item: str | int | None = EVERYTHING
        elif row[aggregation.item] is None:
            item = aggregation.null_item
        else:
            item = label(row[aggregation.item])
        if item is None or (aggregation.domain is not None and item not in aggregation.domain):
            continue
        users[row[aggregation.user]][item] += 1 if aggregation.value is None else row[aggregation.value] or 0
    return {user: {item: n for item, n in items.items() if n > 0} for user, items in users.items()}


def exact(table: pa.Table, aggregation: Aggregation) -> dict[str | int, int]:
    """Return the histogram where no user has more items than they keep."""
    counts: Counter = Counter()
    for items in contributions(table, aggregation).values():
        assert aggregation.item is None or len(items) <= (aggregation.contributions or len(items))
        for item, n in items.items():
            counts[item] += min(n, aggregation.per_item)
    return dict(counts)


def ranked(counts: dict[str | int, int], most: int) -> list[tuple[str | int, int]]:
    """Return the highest counts first, equal ones by label."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:most]


def as_dict(labels: Sequence[str | int], counts: Sequence[int]) -> dict[str | int, int]:
    assert len(set(labels)) == len(labels)
    return dict(zip(labels, (int(count) for count in counts), strict=True))
