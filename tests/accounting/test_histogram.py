"""Histograms with bounded contributions: the paper's bounds and the exact ones below them."""

import pytest

from setwise.accounting.compose import compose
from setwise.errors import InvalidParameter
from setwise.paper.formulas import (
    gaussian_histogram,
    gaussian_histogram_epsilon_by_paper,
    laplace_histogram,
    laplace_histogram_as_pure,
    paper_sigma,
)


@pytest.mark.parametrize("contributions", [1, 5, 25, 100])
@pytest.mark.parametrize("epsilon", [0.05, 0.1, 1.0])
def test_exact_laplace_is_below_the_papers(epsilon, contributions):
    paper = compose([laplace_histogram_as_pure(epsilon=epsilon, contributions=contributions)])
    exact = compose([laplace_histogram(scale=1 / epsilon, contributions=contributions)])
    for delta in (1e-3, 1e-6, 1e-9):
        assert exact.epsilon(delta).lower <= paper.epsilon(delta).upper * (1 + 1e-12)


@pytest.mark.parametrize("contributions", [1, 10, 100])
@pytest.mark.parametrize("sigma", [0.8, 5.0, 40.0])
def test_exact_gaussian_is_below_the_papers(sigma, contributions):
    exact = compose([gaussian_histogram(sigma=sigma, contributions=contributions)])
    paper = gaussian_histogram_epsilon_by_paper(sigma=sigma, contributions=contributions, delta=1e-6)
    assert exact.epsilon(1e-6).upper < paper
    assert paper_sigma(epsilon=paper, delta=1e-6, items=contributions) == pytest.approx(sigma, rel=1e-12)


def test_the_papers_example():
    laplace = compose([laplace_histogram_as_pure(epsilon=0.1, contributions=25)]).epsilon(1e-6)
    assert laplace.upper == pytest.approx(2.07905647131726, rel=1e-12)
    assert paper_sigma(epsilon=2.08, delta=1e-6, items=25) == pytest.approx(13.0948, abs=5e-5)


@pytest.mark.parametrize("contributions", [0, -1, 2.5, "3", True])
def test_contributions_are_positive_whole_numbers(contributions):
    with pytest.raises(InvalidParameter, match="contributions"):
        gaussian_histogram(sigma=1.0, contributions=contributions)
