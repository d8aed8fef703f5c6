"""Amounts: a filter in whole units is never more generous than the filter it stands for."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise import Use, parse_use
from setwise.accounting.zcdp_filter import ZcdpFilter
from setwise.errors import Unattainable
from setwise.ledger.amounts import FAILURE, RHO, UNITS, zcdp_totals
from tests.ledger.auditor import counted, price
from tests.ledger.examples import EXAMPLES

FILTERS = st.builds(
    ZcdpFilter,
    epsilon=st.floats(0.01, 20.0),
    delta=st.floats(1e-15, 1e-3),
    failure_share=st.sampled_from([0.0, 0.1, 1 / 3, 0.5, 0.9]),
)
MECHS = st.one_of(
    st.floats(1e-6, 3.0).map(lambda value: f"pure:{value!r}"),
    st.floats(1e-6, 3.0).map(lambda value: f"bounded-range:{value!r}"),
    st.floats(0.5, 1e6).map(lambda value: f"gaussian:{value!r}"),
    st.tuples(st.floats(1e-9, 0.1), st.floats(-1e-9, 0.1), st.floats(0.0, 1e-7)).map(
        lambda values: "zcdp:" + ",".join(repr(value) for value in values)
    ),
    st.floats(1e-18, 1e-5).map(lambda value: f"approx:0,{value!r}"),
)
DRAWS = st.lists(
    st.tuples(MECHS, st.integers(1, 1000)).map(lambda pair: f"{pair[0]}x{pair[1]}"), min_size=1, max_size=8
)


def totals_of(promise):
    return zcdp_totals(epsilon=promise.epsilon, delta=promise.delta, failure_share=promise.failure_share)


def exact(draws):
    prices = [(count * price(mech)[0], count * price(mech)[1]) for mech, count in map(counted, draws)]
    return sum(rho for rho, _ in prices), sum(failure for _, failure in prices)


@EXAMPLES
@given(FILTERS, DRAWS)
def test_what_fits_in_units_fits_in_the_total(promise, draws):
    totals = totals_of(promise)
    spent = {RHO: 0, FAILURE: 0}
    for draw in draws:
        for what, amount in totals.price([parse_use(draw)], {}).items():
            spent[what] += amount
    rho, failure = exact(draws)
    if spent[RHO] <= totals.lines()[RHO]:
        assert rho <= Fraction(totals.rho) <= Fraction(promise.rho_budget)
        assert rho <= Fraction(totals.worth(spent).rho)
    if spent[FAILURE] <= totals.lines()[FAILURE]:
        assert failure <= Fraction(totals.failure) <= Fraction(promise.delta)
        assert failure <= Fraction(totals.worth(spent).failure_sum)


@EXAMPLES
@given(FILTERS, DRAWS)
def test_little_is_lost_by_rounding(promise, draws):
    totals = totals_of(promise)
    rho, failure = exact(draws)
    for what, amount, total in ((RHO, rho, totals.rho), (FAILURE, failure, totals.failure)):
        found = totals.price([parse_use(draw) for draw in draws], {})[what]
        if total and amount < Fraction(total):
            assert found <= amount * UNITS / Fraction(total) * (1 + Fraction(1, 10**13)) + 1


@EXAMPLES
@given(FILTERS, st.integers(0, UNITS), st.integers(0, UNITS))
def test_the_largest_use_is_paid_for_exactly(promise, rho, failure):
    totals = totals_of(promise)
    left = {RHO: rho, FAILURE: min(failure, totals.lines()[FAILURE])}
    for use in totals.largest(left):
        assert all(amount <= left[what] for what, amount in totals.price([use], {}).items())
        assert Fraction(use.guarantee.rho) >= Fraction(totals.rho) * rho / UNITS * (1 - Fraction(1, 2**52))


@EXAMPLES
@given(FILTERS)
def test_conversion_and_failures_stay_within_delta(promise):
    totals = totals_of(promise)
    converted = Fraction(promise.delta * (1.0 - promise.failure_share))
    assert converted + Fraction(totals.failure) <= Fraction(promise.delta) or not promise.failure_share


def test_a_positive_xi_joins_rho_and_a_negative_one_is_dropped():
    totals = zcdp_totals(epsilon=1.0, delta=1e-6, failure_share=0.5)
    plain = totals.price([parse_use("zcdp:0.01")], {})[RHO]
    assert totals.price([parse_use("zcdp:0.01,-0.005")], {})[RHO] == plain
    assert totals.price([parse_use("zcdp:0.01,0.005")], {})[RHO] == pytest.approx(1.5 * plain, rel=1e-12)


def test_what_is_beyond_the_total_is_cut_to_just_beyond():
    totals = zcdp_totals(epsilon=1.0, delta=1e-6, failure_share=0.5)
    huge = totals.price([Use(parse_use("gaussian:0.000001").guarantee, 10**9), parse_use("approx:0,0.5x1000")], {})
    assert huge == {RHO: UNITS + 1, FAILURE: UNITS + 1}
    assert 2 * (UNITS + 1) < 2**63


def test_a_total_that_leaves_nothing_is_refused():
    with pytest.raises(Unattainable, match="leaves nothing"):
        zcdp_totals(epsilon=1.0, delta=5e-324, failure_share=0.5)
