"""Menu accounts over the service: opened by the Python client and over REST, asked for counts and a top k."""

import pytest

import setwise
from setwise.errors import InvalidParameter, NotSignedIn
from tests.service.team import Team

MENU = ["pure:0.1", "bounded-range:0.2"]


@pytest.fixture
def menu_account(team: Team) -> str:
    """An account of bob's, opened once; opening it again finds it there."""
    with setwise.connect(team.replica.url, token=team.tokens["steward"]) as connected:
        try:
            record = connected.steward.open_filter(
                "bob-menu", analyst="bob", dataset="events", epsilon=2.0, delta=1e-6, rule="menu", menu=MENU
            )
        except setwise.errors.AccountExists:
            return "bob-menu"
    assert (record["kind"], record["method"]) == ("filter", "menu")
    assert record["epsilon"] == {"lower": 2.0, "upper": 2.0}
    return "bob-menu"


def test_questions_are_paid_from_the_menu(team: Team, menu_account: str) -> None:
    with setwise.connect(team.replica.url, token=team.tokens["bob"]) as connected:
        events = connected.dataset("events", account=menu_account)
        before = events.standing()["share_left"]
        draws = {"discover": "bounded-range:0.2", "counts": "pure:0.1", "delta": 1e-9}
        answer = events.top_k(item="word", k=2, **draws)
        assert len(answer) <= 2
        after = events.standing()
        assert after["share_left"] < before
        assert after["charges"] == 1


def test_a_use_that_is_not_on_the_menu_is_refused_and_costs_nothing(team: Team, menu_account: str) -> None:
    with setwise.connect(team.replica.url, token=team.tokens["bob"]) as connected:
        events = connected.dataset("events", account=menu_account)
        before = events.standing()["share_left"]
        with pytest.raises(InvalidParameter, match="menu"):
            events.count(counts="gaussian:20")
        assert events.standing()["share_left"] == before


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"menu": []}, "needs a menu"),
        ({"rule": "wallet"}, "belongs to the rule menu"),
        ({"menu": ["gaussian:20"]}, "bounded losses"),
    ],
)
def test_rest_refuses_menus_that_cannot_be_at_their_field(team: Team, changes: dict[str, object], says: str) -> None:
    body = {
        "kind": "filter",
        "name": "bad-menu",
        "analyst": "bob",
        "dataset": "events",
        "epsilon": 2.0,
        "delta": 1e-6,
        "rule": "menu",
        "menu": MENU,
    }
    response = team.steward.post("/accounts", json=body | changes)
    assert response.status_code == 422, response.text
    assert says in response.text


def test_a_cap_takes_no_menu(team: Team) -> None:
    response = team.steward.put("/datasets/events/cap", json={"epsilon": 1.0, "delta": 1e-6, "rule": "menu"})
    assert response.status_code == 422


def test_a_stranger_opens_none(team: Team) -> None:
    with setwise.connect(team.replica.url, token="nonsense") as stranger, pytest.raises(NotSignedIn):
        stranger.steward.open_filter(
            "x", analyst="bob", dataset="events", epsilon=2.0, delta=1e-6, rule="menu", menu=MENU
        )
