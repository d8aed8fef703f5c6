import math

import pytest

from setwise.accounting.brackets import Interaction
from setwise.accounting.compose import compose
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
from setwise.accounting.notation import parse_use
from setwise.errors import InvalidParameter

NEVER = [-1.0, math.nan, math.inf, -math.inf, "0.1", None, True, [0.1], 1e300, 1j]
ONE = [
    (PureDP, "epsilon"),
    (BoundedRange, "epsilon"),
    (Laplace, "scale"),
    (Gaussian, "sigma"),
    (DiscreteLaplace, "scale"),
    (DiscreteGaussian, "sigma"),
]


def refused(message, value=None):
    """The message is one sentence that names what is wrong."""
    text = str(message.value)
    assert text
    assert "\n" not in text
    assert ". " not in text
    if value is not None:
        assert (repr(value) if not isinstance(value, str) else value) in text


@pytest.mark.parametrize("value", [*NEVER, 0, 0.0, 1e-300], ids=repr)
@pytest.mark.parametrize(("kind", "name"), ONE)
def test_one_parameter(kind, name, value):
    with pytest.raises(InvalidParameter, match=name) as error:
        kind(**{name: value})
    refused(error, value)


@pytest.mark.parametrize("value", NEVER, ids=repr)
@pytest.mark.parametrize("name", ["mu", "tau"])
def test_concentrated(name, value):
    with pytest.raises(InvalidParameter, match=name) as error:
        ConcentratedDP(**{"mu": 0.1, "tau": 0.1, name: value})
    refused(error, value)


@pytest.mark.parametrize("value", [v for v in NEVER if v != -1.0], ids=repr)
@pytest.mark.parametrize("name", ["rho", "xi", "delta"])
def test_zero_concentrated(name, value):
    with pytest.raises(InvalidParameter, match=name) as error:
        ZeroConcentratedDP(**{"rho": 0.1, "xi": 0.0, "delta": 0.0, name: value})
    refused(error, value)


@pytest.mark.parametrize("value", [1.0, 1.5, -1e-9, math.nan, "x", True], ids=repr)
@pytest.mark.parametrize("kind", [ApproxDP, ZeroConcentratedDP])
def test_failure_chance(kind, value):
    other = {"epsilon": 0.1} if kind is ApproxDP else {"rho": 0.1}
    with pytest.raises(InvalidParameter, match="delta") as error:
        kind(delta=value, **other)
    refused(error, value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ConcentratedDP(mu=0.0, tau=0.0),
        lambda: ZeroConcentratedDP(rho=0.0),
        lambda: ZeroConcentratedDP(rho=0.1, xi=-0.2),
        lambda: ZeroConcentratedDP(rho=-0.1),
        lambda: ApproxDP(epsilon=0.0, delta=0.0),
        lambda: ApproxDP(epsilon=-0.1, delta=0.1),
        lambda: TruncatedDiscreteGaussian(sigma=1.0, bound=1, sensitivity=2),
    ],
)
def test_parameters_that_do_not_fit_together(make):
    with pytest.raises(InvalidParameter) as error:
        make()
    refused(error)


@pytest.mark.parametrize("value", [0, -1, 1.0, 1.5, "1", None, True, math.nan, 10**13], ids=repr)
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("sensitivity", lambda value: DiscreteLaplace(scale=100.0, sensitivity=value)),
        ("sensitivity", lambda value: DiscreteGaussian(sigma=100.0, sensitivity=value)),
        ("bound", lambda value: TruncatedDiscreteGaussian(sigma=100.0, bound=value)),
    ],
)
def test_whole_numbers(name, make, value):
    with pytest.raises(InvalidParameter, match=name) as error:
        make(value)
    refused(error, value)


def test_a_limit_of_many_digits_is_told_in_full():
    least = 123_456_789 / 500
    with pytest.raises(InvalidParameter, match=rf"must lie between {least!r} and 1e\+12, not 246913\.5"):
        DiscreteLaplace(scale=246913.5, sensitivity=123_456_789)
    assert DiscreteLaplace(scale=least, sensitivity=123_456_789).scale == least


@pytest.mark.parametrize("count", [0, -3, 1.5, 2.0, "2", None, True, math.nan, 10**12], ids=repr)
def test_counts(count):
    with pytest.raises(InvalidParameter, match="count") as error:
        Use(PureDP(epsilon=0.1), count)
    refused(error, count)


@pytest.mark.parametrize("guarantee", [None, 0.1, "pure:0.1", PureDP, Use(PureDP(epsilon=0.1))], ids=str)
def test_a_use_needs_a_guarantee(guarantee):
    with pytest.raises(InvalidParameter, match="guarantee") as error:
        Use(guarantee)
    refused(error)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.1, 0, 1, math.nan, math.inf, "1e-6", None, True], ids=repr)
def test_delta_asked_for(delta):
    with pytest.raises(InvalidParameter, match="delta") as error:
        compose([PureDP(epsilon=0.1)]).epsilon(delta)
    refused(error, delta)


@pytest.mark.parametrize("epsilon", [-1e-9, -1, math.nan, math.inf, "1", None, True], ids=repr)
def test_epsilon_asked_for(epsilon):
    with pytest.raises(InvalidParameter, match="epsilon") as error:
        compose([PureDP(epsilon=0.1)]).delta(epsilon)
    refused(error, epsilon)


@pytest.mark.parametrize("interaction", ["", "Batch", "sideways", None, 3], ids=repr)
def test_unknown_interaction(interaction):
    with pytest.raises(InvalidParameter, match="interaction must be one of") as error:
        compose([PureDP(epsilon=0.1)], interaction)
    refused(error, interaction)


def test_known_interactions():
    assert [Interaction.parse(name) for name in ("batch", "ordered", "setwise", "adaptive")] == list(Interaction)


@pytest.mark.parametrize("uses", [[], (), iter([])], ids=["list", "tuple", "iterator"])
def test_nothing_to_compose(uses):
    with pytest.raises(InvalidParameter, match="nothing to compose") as error:
        compose(uses)
    refused(error)


@pytest.mark.parametrize("uses", [[0.1], [None], [["pure:0.1"]]], ids=repr)
def test_things_that_are_not_uses(uses):
    with pytest.raises(InvalidParameter):
        compose(uses)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pure",
        "pure:",
        ":0.1",
        "pure:x",
        "pure:0.1x",
        "pure:0.1x0",
        "pure:0.1x-2",
        "pure:0.1x1.5",
        "pure:0.1x1000000000000",
        "pure:0.1xx2",
        "pure:-0.1",
        "pure:nan",
        "pure:inf",
        "pure:0.1,0.2",
        "pure:0,1",
        "impure:0.1",
        "PURE:0.1",
        "cdp:0.1",
        "approx:0.1",
        "approx:0.1,1",
        "approx:0.1,-1e-9",
        "gaussian:0",
        "zcdp:0.1,0,0,0",
        "discrete-laplace:10,1.5",
        "discrete-gaussian:10,0",
        "truncated-gaussian:10",
        "truncated-gaussian:10,2.5",
        "truncated-gaussian:10,nan",
        "discrete-laplace:10,inf",
        "pure:0.1 x 2 y",
    ],
)
def test_malformed_text(text):
    with pytest.raises(InvalidParameter) as error:
        parse_use(text)
    refused(error, text)
