import pytest

from setwise.accounting.compose import compose
from setwise.paper.formulas import paper_sigma


def test_twenty_five_laplace_counts():
    answer = compose(["pure:0.1x25"]).epsilon(1e-6)
    assert answer.lower == pytest.approx(2.07906, abs=5e-6)
    assert answer.upper == pytest.approx(2.07906, abs=5e-6)


def test_sigma_by_the_paper():
    assert paper_sigma(epsilon=2.08, delta=1e-6, items=25) == pytest.approx(13.0948, abs=5e-5)


@pytest.mark.parametrize(
    ("pure_count", "range_count", "truth"),
    [(0, 20, 1.2004), (10, 10, 1.9209), (20, 0, 2.4507), (25, 25, 3.0946), (50, 50, 4.4679)],
)
def test_the_papers_bound_is_beaten(pure_count, range_count, truth):
    uses = [f"{kind}:0.1x{n}" for kind, n in (("pure", pure_count), ("bounded-range", range_count)) if n]
    assert compose(uses).epsilon(1e-6).upper < truth - 0.2
