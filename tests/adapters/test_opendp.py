import opendp.prelude as dp
import pytest

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import ApproxDP, PureDP, Use, ZeroConcentratedDP
from setwise.adapters import from_measurement
from setwise.errors import InvalidParameter, MissingExtra

dp.enable_features("contrib")


@pytest.fixture(scope="module")
def integer():
    return dp.atom_domain(T=int), dp.absolute_distance(T=int)


def test_laplace_noise_is_pure(integer):
    measurement = dp.m.make_laplace(*integer, scale=10.0)
    assert from_measurement(measurement, 2, count=5) == Use(PureDP(epsilon=measurement.map(2)), 5)


def test_gaussian_noise_is_concentrated_with_and_without_a_failure(integer):
    measurement = dp.m.make_gaussian(*integer, scale=10.0)
    assert from_measurement(measurement, 1) == Use(ZeroConcentratedDP(rho=measurement.map(1)))
    assert from_measurement(dp.c.make_approximate(measurement), 1) == Use(ZeroConcentratedDP(rho=measurement.map(1)))


def test_a_fixed_delta_is_approximate(integer):
    curve = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*integer, scale=10.0))
    measurement = dp.c.make_fix_delta(curve, 1e-6)
    epsilon, delta = measurement.map(1)
    assert from_measurement(measurement, 1) == Use(ApproxDP(epsilon=epsilon, delta=delta))


def test_a_whole_privacy_profile_is_refused_with_the_remedy(integer):
    curve = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*integer, scale=10.0))
    with pytest.raises(InvalidParameter, match=r"SmoothedMaxDivergence.*make_fix_delta"):
        from_measurement(curve, 1)


def test_what_opendp_adds_up_we_add_up_to_no_more(integer):
    each = dp.m.make_gaussian(*integer, scale=10.0)
    whole = dp.c.make_composition([each] * 20)
    theirs = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(whole), 1e-6).map(1)[0]
    ours = compose([from_measurement(each, 1, count=20)], interaction="adaptive").epsilon(1e-6).upper
    assert ours <= theirs * (1 + 1e-9)


def test_opendp_before_016_is_refused_because_it_understates_noisy_max(monkeypatch):
    monkeypatch.setattr("setwise.adapters.version", lambda name: "0.15.1" if name == "opendp" else "")
    count = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=10.0)
    with pytest.raises(MissingExtra, match=r"opendp>=0\.16"):
        from_measurement(count, d_in=1)
