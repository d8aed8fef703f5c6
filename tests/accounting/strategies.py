"""What Hypothesis may draw: parameters, guarantees and sets of uses."""

from hypothesis import strategies as st

from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
    ConcentratedDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PureDP,
    TruncatedDiscreteGaussian,
    Use,
    ZeroConcentratedDP,
)


def thousandths(smallest, largest):
    return st.integers(round(smallest * 1000), round(largest * 1000)).map(lambda n: n / 1000)


epsilons = thousandths(0.01, 1.2)
totals = thousandths(0.0, 3.0)
deltas = st.floats(-30.0, -0.3).map(lambda power: 10.0**power)
counts = st.integers(1, 12)

pure = st.builds(PureDP, epsilon=epsilons)
ranges = st.builds(BoundedRange, epsilon=epsilons)
gaussians = st.builds(Gaussian, sigma=thousandths(0.8, 30.0))
laplaces = st.builds(Laplace, scale=thousandths(0.8, 30.0))
approximate = st.builds(ApproxDP, epsilon=epsilons, delta=st.sampled_from([1e-12, 1e-9, 1e-7]))
discrete_laplaces = st.builds(DiscreteLaplace, scale=thousandths(1.0, 9.0), sensitivity=st.integers(1, 3))
discrete_gaussians = st.builds(DiscreteGaussian, sigma=thousandths(0.8, 6.0), sensitivity=st.integers(1, 2))


def uses_of(guarantee, most=4, count=counts):
    return st.lists(st.builds(Use, guarantee, count), min_size=1, max_size=most)


linear_uses = uses_of(st.one_of(pure, gaussians, approximate, laplaces, discrete_laplaces))
mixed_uses = uses_of(st.one_of(pure, ranges, gaussians, approximate), most=3, count=st.integers(1, 4))

_parameter = st.floats(1e-12, 500.0)
_scale = st.floats(1.0, 1e12)
_chance = st.floats(0.0, 1.0, exclude_max=True)
_whole = st.integers(1, 10**9)


@st.composite
def _zcdp(draw):
    rho = draw(_parameter)
    return ZeroConcentratedDP(rho=rho, xi=draw(st.floats(-rho, 500.0)), delta=draw(_chance))


@st.composite
def _discrete(draw, kind):
    sensitivity = draw(st.integers(1, 1000))
    return kind(draw(st.floats(2.0 * sensitivity, 1e12)), sensitivity)


@st.composite
def _truncated(draw):
    sensitivity = draw(st.integers(1, 1000))
    return TruncatedDiscreteGaussian(
        sigma=draw(st.floats(1.0 * sensitivity, 1e12)),
        bound=draw(st.integers(sensitivity, 10**9)),
        sensitivity=sensitivity,
    )


any_guarantee = st.one_of(
    st.builds(PureDP, epsilon=_parameter),
    st.builds(BoundedRange, epsilon=_parameter),
    st.builds(ConcentratedDP, mu=_parameter, tau=_parameter),
    _zcdp(),
    st.builds(ApproxDP, epsilon=_parameter, delta=_chance),
    st.builds(Laplace, scale=_scale),
    st.builds(Gaussian, sigma=_scale),
    _discrete(lambda scale, s: DiscreteLaplace(scale=scale, sensitivity=s)),
    _discrete(lambda sigma, s: DiscreteGaussian(sigma=sigma, sensitivity=s)),
    _truncated(),
)
any_use = st.builds(Use, any_guarantee, _whole)
