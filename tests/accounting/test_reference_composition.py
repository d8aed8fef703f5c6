import math

import pytest

from setwise.accounting.compose import compose
from setwise.accounting.conversions import zero_concentrated_to_approx_by_paper
from setwise.accounting.guarantees import BoundedRange, ConcentratedDP, Gaussian, PureDP, Use, ZeroConcentratedDP
from setwise.accounting.methods.moments import subgaussian_sum, zero_concentrated_sum
from tests.accounting.reference_rows import rows

TABLE = "composition.csv"
TIGHT = 1e-9
ELSEWHERE = {"eq:truncationLevel"}
"""The truncation level belongs to the mechanisms, and is checked with them."""


def holds(answer, row):
    truth = float(row.value)
    assert answer.lower <= truth * (1 + 1e-13)
    assert answer.upper >= truth * (1 - 1e-13)
    assert answer.lower == pytest.approx(truth, rel=TIGHT, abs=0)
    assert answer.upper == pytest.approx(truth, rel=TIGHT, abs=0)


def asked(composition, row):
    p = row.parameters
    return composition.delta(float(p["g"])) if row.quantity == "delta" else composition.epsilon(float(p["delta"]))


def test_every_row_is_checked_here_or_elsewhere():
    checked = {
        "thm:opt_DPCOMP",
        "thm:opt_nonadaptive",
        "heterogeneous pure DP (Murtagh-Vadhan)",
        "eq:setWiseCompEps2",
        "lem:zCDPgenbound",
        "lem:AGM",
    }
    assert {row.statement for row in rows(TABLE)} == checked | ELSEWHERE


@pytest.mark.parametrize("row", rows(TABLE, "thm:opt_DPCOMP"), ids=str)
@pytest.mark.parametrize("interaction", ["batch", "ordered", "setwise"])
def test_equal_pure(row, interaction):
    uses = [Use(PureDP(epsilon=float(row.parameters["eps"])), row.parameters["k"])]
    answer = asked(compose(uses, interaction), row)
    holds(answer, row)
    assert answer.statement == "thm:opt_DPCOMP"


@pytest.mark.parametrize("row", rows(TABLE, "thm:opt_nonadaptive"), ids=str)
def test_mixed_batch(row):
    p = row.parameters
    epsilon = float(p["eps"])
    uses = [Use(BoundedRange(epsilon=epsilon), p["k"] - p["m"])]
    if p["m"]:
        uses.append(Use(PureDP(epsilon=epsilon), p["m"]))
    answer = asked(compose(uses, "batch"), row)
    holds(answer, row)
    assert answer.statement == ("thm:opt_nonadaptive" if p["m"] else "thm:non-adaptive")


@pytest.mark.parametrize("row", rows(TABLE, "heterogeneous pure DP (Murtagh-Vadhan)"), ids=str)
def test_unequal_pure(row):
    holds(asked(compose([PureDP(epsilon=epsilon) for epsilon in row.parameters["eps"]]), row), row)


@pytest.mark.parametrize("row", rows(TABLE, "eq:setWiseCompEps2"), ids=str)
def test_paper_setwise(row):
    p = row.parameters
    groups = [
        (p["m_dp"], lambda: PureDP(epsilon=p["eps"])),
        (p["m_br"], lambda: BoundedRange(epsilon=p["alpha"])),
        (p["m_cdp"], lambda: ConcentratedDP(mu=p["mu"], tau=p["tau"])),
    ]
    uses = [Use(make(), count) for count, make in groups if count]
    delta, truth = float(p["delta"]), float(row.value)
    paper = subgaussian_sum(uses)
    assert paper.paper_epsilon(delta) == pytest.approx(truth, rel=TIGHT, abs=0)
    assert paper.delta(truth).upper == pytest.approx(delta, rel=1e-6, abs=0)
    assert paper.delta(truth * (1 - 1e-9)).upper >= delta


@pytest.mark.parametrize("row", rows(TABLE, "lem:zCDPgenbound"), ids=str)
def test_paper_zero_concentrated(row):
    every = [ZeroConcentratedDP(xi=xi, rho=rho) for xi, rho in row.parameters["xi_rho"]]
    delta, truth = float(row.parameters["delta"]), float(row.value)
    whole = zero_concentrated_sum([Use(one) for one in every])
    assert whole.paper_epsilon(delta) == pytest.approx(truth, rel=TIGHT, abs=0)
    together = ZeroConcentratedDP(rho=math.fsum(one.rho for one in every))
    assert zero_concentrated_to_approx_by_paper(together, delta).epsilon == pytest.approx(truth, rel=TIGHT, abs=0)
    assert compose(every).epsilon(delta).upper < truth


@pytest.mark.parametrize("row", rows(TABLE, "lem:AGM"), ids=str)
def test_gaussian(row):
    answer = asked(compose([Gaussian(sigma=row.parameters["sigma"])]), row)
    holds(answer, row)
    assert answer.statement == "lem:AGM"
