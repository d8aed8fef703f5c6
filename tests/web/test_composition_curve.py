"""The curves of the page Explore: their laws, and the bounds of their work."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.accounting.compose import compose
from setwise.service.workers.tasks import Along, Curve, CurvePoints, Mixture
from tests.service.team import Team
from tests.sizes import examples

mixtures = st.builds(
    Mixture,
    number=st.integers(1, 20),
    share=st.floats(0.0, 1.0),
    epsilon=st.sampled_from([0.01, 0.1, 0.5, 1.0]),
    delta=st.sampled_from([1e-9, 1e-6, 1e-3]),
)


def curve(which: Curve, along: Along, mixture: Mixture) -> dict[str, list[float]]:
    return CurvePoints(which=which, along=along, mixture=mixture).result()


@settings(max_examples=examples(6), deadline=None)
@given(mixture=mixtures, along=st.sampled_from(list(Along)))
def test_more_freedom_never_costs_less(mixture: Mixture, along: Along) -> None:
    """batch <= ordered <= set-wise <= the paper's bound, at every place."""
    found = {which: curve(which, along, mixture) for which in (Curve.BATCH, Curve.ORDERED, Curve.SETWISE, Curve.PAPER)}
    slack = 1 + 1e-9
    for place in range(len(found[Curve.BATCH]["x"])):
        upper = {which: found[which]["upper"][place] for which in found}
        lower = {which: found[which]["lower"][place] for which in found}
        assert lower[Curve.BATCH] <= upper[Curve.ORDERED] * slack
        assert lower[Curve.ORDERED] <= upper[Curve.SETWISE] * slack
        assert lower[Curve.SETWISE] <= upper[Curve.PAPER] * slack


@given(mixture=mixtures)
def test_shares_round_to_whole_uses(mixture: Mixture) -> None:
    assert 0 <= mixture.ranges <= mixture.number
    assert abs(mixture.ranges - mixture.share * mixture.number) <= 0.5
    assert sum(compose([use]).uses[0].count for use in mixture.uses()) == mixture.number


def test_the_last_place_is_what_was_chosen() -> None:
    mixture = Mixture(number=23, share=0.4, epsilon=0.2, delta=1e-6)
    found = curve(Curve.SETWISE, Along.NUMBER, mixture)
    whole = compose(["bounded-range:0.2x9", "pure:0.2x14"]).epsilon(1e-6)
    assert (found["x"][-1], found["upper"][-1]) == (23, whole.upper)
    along_share = curve(Curve.SETWISE, Along.SHARE, mixture)
    assert along_share["upper"][along_share["x"].index(9 / 23)] == whole.upper


def test_noises_are_compared_at_equal_standard_deviation() -> None:
    mixture = Mixture(number=10, share=0.0, epsilon=0.5, delta=1e-6)
    laplace = curve(Curve.LAPLACE, Along.NUMBER, mixture)
    gaussian = curve(Curve.GAUSSIAN, Along.NUMBER, mixture)
    assert laplace["upper"][-1] == compose(["laplace:2x10"]).epsilon(1e-6).upper
    # Laplace noise of scale 2 has the variance 2 * 2^2.
    assert gaussian["upper"][-1] == compose([f"gaussian:{8**0.5!r}x10"]).epsilon(1e-6).upper
    assert laplace["upper"][-1] <= curve(Curve.PURE, Along.NUMBER, mixture)["upper"][-1]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("k", 201),
        ("k", 0),
        ("k", "many"),
        ("epsilon", 2.1),
        ("epsilon", 0),
        ("epsilon", "nan"),
        ("delta", 0.2),
        ("delta", 0),
        ("share", 1.1),
        ("share", "inf"),
        ("which", "best"),
        ("along", "delta"),
    ],
)
def test_numbers_out_of_bounds_are_refused_by_name(shop: Team, field: str, value: object) -> None:
    good: dict[str, object] = {
        "which": "setwise",
        "k": 5,
        "epsilon": 0.1,
        "delta": 1e-6,
        "share": 0.5,
        "along": "number",
    }
    ada = shop.signed_in("ada")
    accept = {"Accept": "application/json"}
    refused = ada.get("/explore/curve", params=good | {field: value}, headers=accept)
    assert (refused.status_code, refused.json()["field"]) == (422, field)
    answered = ada.get("/explore/curve", params=good, headers=accept)
    assert answered.status_code == 200
    assert answered.headers["Cache-Control"].startswith("private")
