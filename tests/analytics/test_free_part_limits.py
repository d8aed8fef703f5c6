"""Limits of the part of a statement over released rows: its size, its time and its memory."""

import pytest

from setwise.analytics.sql.parser import parse_sql
from setwise.errors import InvalidParameter


def _shell(select: str):
    return parse_sql(f"SELECT {select} FROM t", user="u", columns=("u", "n")).shell


@pytest.mark.parametrize(
    "select",
    [
        " * ".join(["COUNT(*)"] * 6) + " AS x",
        " / ".join(["COUNT(*)"] * 6) + " AS x",
        ", ".join(f"(COUNT(*) / SUM(n) - COUNT(*) / SUM(n)) / COUNT(*) AS x{place}" for place in range(150)),
    ],
    ids=["product of six", "quotient of six", "many columns"],
)
def test_hidden_columns_stay_small(select):
    """A statement of 82 characters once became SQL of 757,456 characters, which took 95 s to write."""
    shell = _shell(select)
    assert len(shell.sql) < 300_000


@pytest.mark.parametrize(
    "select",
    [
        "COUNT(*) * SUM(n)",
        "COUNT(*) * SUM(n) / COUNT(DISTINCT u)",
        "100.0 * (COUNT(*) / SUM(n)) / (SUM(n) / COUNT(*))",
        "(COUNT(*) / SUM(n) - SUM(n) / COUNT(*)) / (SUM(n) / COUNT(*))",
        " + ".join(["COUNT(*)"] * 50),
    ],
    ids=["product", "product and ratio", "ratio of ratios", "relative change", "sum of fifty"],
)
def test_everyday_products_and_ratios_keep_their_interval(select):
    column = _shell(f"{select} AS x").columns[0]
    assert column.lower is not None
    assert column.upper is not None


def test_a_product_without_an_interval_is_still_answered():
    column = _shell(" * ".join(["COUNT(*)"] * 6) + " AS x").columns[0]
    assert (column.lower, column.upper) == (None, None)
    assert column.unreliable is not None


@pytest.mark.parametrize("function", ["LPAD", "RPAD", "rpad"])
@pytest.mark.parametrize("length", ["900000000", "k", "1000 * 1000", "1e9"])
def test_texts_are_padded_to_a_stated_length_only(function, length):
    """DuckDB computed such a constant while it planned: 900,000,000 characters took 73 s and 1.9 GB."""
    with pytest.raises(InvalidParameter, match="at most 10,000"):
        parse_sql(f"SELECT {function}('x', {length}, 'y') FROM (SELECT COUNT(*) AS k FROM t) AS x", user="u")


def test_texts_are_padded_as_before():
    shell = parse_sql("SELECT LPAD(CAST(COUNT(*) AS VARCHAR), 10, ' ') AS x FROM t", user="u").shell
    assert "LPAD(" in shell.sql
