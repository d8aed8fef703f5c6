"""Tables for the contract suite."""

from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa

SEPARATORS = [
    "a|b",
    "a",
    "b|c",
    "|",
    "",
    " a",
    "A",
    "é",
    "e\u0301",
    "z",
    "\U0001f600",
    "\ufffd",
    "100%",
    "_",
    "\\",
    "'",
    '"',
]


def mixed(rows: int = 600, seed: int = 7) -> pa.Table:
    """Return a table of every kind of column, with nulls, repeats, separators inside labels, and awkward names."""
    generator = np.random.default_rng(seed)

    def holes(values: list[object], share: float = 0.1) -> list[object]:
        return [None if generator.random() < share else value for value in values]

    def chosen(values: list[object]) -> list[object]:
        return [values[place] for place in generator.integers(len(values), size=rows)]

    days = [date(2024, 2, 29), date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31)]
    return pa.table(
        {
            "user_id": pa.array(holes(chosen(list(range(-20, 20)))), pa.int64()),
            "user name": pa.array(holes(chosen(["a", "a|", "A", "", "é", "e\u0301", "1", "01"])), pa.string()),
            "word": pa.array(holes(chosen(SEPARATORS)), pa.string()),
            'od"d %s ;--': pa.array(holes(chosen([-5, 0, 3, 2**62, -(2**63), 2**63 - 1])), pa.int64()),
            "amount": pa.array(holes(chosen([-(2**63), 2**63 - 1, -3, 0, 1, 2, 5])), pa.int64()),
            "small": pa.array(holes(chosen([-1, 0, 1, 4])), pa.int32()),
            "flag": pa.array(holes(chosen([True, False])), pa.bool_()),
            "day": pa.array(holes(chosen(days)), pa.date32()),
            "share": pa.array(holes(chosen([0.5, -1.0, float("nan")])), pa.float64()),
            "price": pa.array(holes(chosen([Decimal("1.50"), Decimal("-2.25")])), pa.decimal128(9, 2)),
        }
    )
