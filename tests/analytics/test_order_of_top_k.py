"""ORDER BY n DESC LIMIT k: the rows are in the order of the numbers that they show."""

import pyarrow as pa

import setwise
from setwise.analytics.sql.parser import parse_sql


def test_a_private_top_k_is_sorted_by_the_counts_that_it_shows():
    """The order and the counts have separate noise: a row with 16,857 stood before one with 17,112."""
    words = [(f"u{user}", f"i{item}") for user in range(2000) for item in range(5)]
    table = pa.table({"who": [who for who, _ in words], "item": [item for _, item in words]})
    text = "SELECT item, COUNT(*) AS n FROM t GROUP BY item ORDER BY n DESC LIMIT 5"
    shown = []
    with setwise.open(table, user="who", name="t") as session:
        for _ in range(6):
            answer = session.sql(
                text, epsilon=1, delta=1e-6, contributions=5, mechanism="unknown_gumbel", counts="laplace"
            )
            shown.append([row["n"]["value"] for row in answer])
            assert answer.by_column()["n"] == shown[-1]
    assert all(len(numbers) == 5 for numbers in shown)
    assert shown == [sorted(numbers, reverse=True) for numbers in shown]


def test_a_limit_above_the_number_of_groups_leaves_nothing_out():
    """Business tools add LIMIT 1000 or 50000: the bounds found for so many groups kept 2 of each user's 31 days."""
    days = [(f"u{user}", f"d{day}") for user in range(300) for day in range(20)]
    table = pa.table({"who": [who for who, _ in days], "day": [day for _, day in days]})
    for limit in ("LIMIT 50000", "LIMIT 1000", ""):
        text = f"SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY n DESC {limit}"
        with setwise.open(table, user="who", name="t") as session:
            counts = [row["n"]["value"] for row in session.sql(text, epsilon=50, delta=1e-6)]
        assert len(counts) == 20
        assert min(counts) > 250, limit
    with setwise.open(table, user="who", name="t") as session:
        text = "SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY n DESC LIMIT 50"
        pages = [f"{text} OFFSET {skipped}" for skipped in (0, 10, 100)]
        assert [parse_sql(page, user="who").query.k for page in pages] == [50, 60, None]
        assert len(session.sql(pages[2], epsilon=50, delta=1e-6).rows) == 0
