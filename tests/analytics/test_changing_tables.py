"""When the table changes between questions: what an account promises, by enumeration, and what a key and a copy mean.

A user's rows are one bit in each version of the table. The analyst chooses the two versions of every round, which
differ in that bit or not, after seeing the answers before, and asks each for the bit by randomized response, which is
pure DP. The hockey-stick divergence of the two worlds is computed exactly for every such analyst.
"""

import itertools
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import setwise
from setwise.accounting.brackets import Interaction
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import PureDP, Use
from setwise.analytics.query import Query
from setwise.errors import UnsuitableTable
from setwise.ledger.ledger import Ledger
from setwise.mechanisms.planning.request import Total

VERSIONS = list(itertools.product((0, 1), repeat=2))
"""The user's bit in the one world and in the other."""


def law(bit: int, epsilon: float) -> tuple[float, float]:
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    return (truth, 1 - truth) if bit == 0 else (1 - truth, truth)


def divergence(epsilons: list[float], total: float, one: float = 1.0, other: float = 1.0) -> float:
    """Return the largest sum of (p - e^total q)+ over all analysts, who choose the versions of a round adaptively."""
    if not epsilons:
        return max(0.0, one - math.exp(total) * other)
    best = 0.0
    for here, there in VERSIONS:
        answers = zip(law(here, epsilons[0]), law(there, epsilons[0]), strict=True)
        best = max(best, sum(divergence(epsilons[1:], total, one * p, other * q) for p, q in answers))
    return best


@pytest.mark.parametrize("epsilons", [[0.3], [0.3, 0.3], [0.5, 0.1, 0.5], [0.2] * 5])
@pytest.mark.parametrize("share", [0.0, 0.4, 0.8, 1.0])
def test_the_promise_holds_for_one_users_rows_in_all_versions(epsilons: list[float], share: float):
    total = share * sum(epsilons)
    promised = compose([Use(PureDP(epsilon=epsilon), 1) for epsilon in epsilons], Interaction.SETWISE).delta(total)
    assert divergence(epsilons, total) <= promised.upper * (1 + 1e-9) + 1e-15


def test_the_promise_is_needed_in_full_when_the_table_changes():
    """Constant versions already reach the composed loss; a promise of the largest single loss would not hold."""
    assert divergence([0.3, 0.3], 0.3) > 0.01
    assert divergence([0.3, 0.3], 0.6) == pytest.approx(0, abs=1e-12)


def parts_divergence(epsilon: float, total: float) -> float:
    """Return the divergence of two questions about disjoint parts of a table, when rows may move between them.

    In the first version the user's row is in the one part, in the second in the other, if it is there at all.
    """
    first, second = (list(zip(law(1, epsilon), law(0, epsilon), strict=True)) for _ in range(2))
    return sum(max(0.0, p1 * p2 - math.exp(total) * q1 * q2) for p1, q1 in first for p2, q2 in second)


def test_disjoint_parts_compose_in_sequence_when_rows_move():
    """Parallel composition would promise epsilon for both; the loss is twice that, and twice that is charged."""
    assert parts_divergence(0.5, 0.5) > 0.05
    assert parts_divergence(0.5, 1.0) == pytest.approx(0, abs=1e-12)


def test_a_key_replays_the_answer_about_the_version_it_was_first_asked_of(tmp_path: Path):
    table = tmp_path / "visits.parquet"
    answers = []
    with Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        ledger.open_filter("ada", epsilon=10, delta=1e-5)
        for users, key in ((100, "first"), (5000, "first"), (5000, "second")):
            pq.write_table(pa.table({"who": range(users)}), table)
            with setwise.open(table, user="who", account=ledger.account("ada")) as session:
                answers.append(session.ask(Query.count(), Total(epsilon=1, delta=1e-7), key=key))
        assert ledger.account("ada").status().charges == 2
    assert answers[1].items == answers[0].items
    assert (answers[0].replayed, answers[1].replayed, answers[2].replayed) == (False, True, False)
    assert [answer.items[0].count > 1000 for answer in answers] == [False, False, True]


def test_a_prepared_copy_of_an_earlier_version_is_refused(tmp_path: Path):
    table = tmp_path / "visits.parquet"
    pq.write_table(pa.table({"who": range(100), "what": ["x"] * 100}), table)
    with setwise.open(table, user="who") as session:
        session.prepare(tmp_path / "prepared", item="what")
    pq.write_table(pa.table({"who": range(99), "what": ["x"] * 99}), table)
    with (
        setwise.open(tmp_path / "prepared", user="who") as session,
        pytest.raises(UnsuitableTable, match="has changed"),
    ):
        session.ask(Query.top_k(item="what", k=1), Total(epsilon=1, delta=1e-6))


@pytest.mark.parametrize("name", ["visits.parquet", "visits.csv"])
def test_a_file_that_is_gone_is_said_in_one_sentence(tmp_path: Path, name: str):
    table = tmp_path / name
    if name.endswith(".csv"):
        table.write_text("who,what\n1,x\n")
    else:
        pq.write_table(pa.table({"who": [1], "what": ["x"]}), table)
    with setwise.open(table, user="who") as session:
        table.unlink()
        with pytest.raises(UnsuitableTable, match="gone"):
            session.ask(Query.top_k(item="what", k=1), Total(epsilon=1, delta=1e-6))
