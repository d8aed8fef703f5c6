"""A preview says, before anything is asked, whether the account or the cap of its dataset would pay, and what fits."""

import json
import re

import pytest

from tests.service.team import EVENTS, Team, ask, made

COUNT = {"kind": "count"}


def body(account: str, dataset: str, epsilon: float, counts: str = "best", delta: float = 0.0) -> dict[str, object]:
    spend = {"kind": "total", "epsilon": epsilon, "delta": delta, "counts": counts}
    return {"dataset": dataset, "account": account, "query": COUNT, "spend": spend}


def open_filter(team: Team, name: str, dataset: str, epsilon: float) -> None:
    account = {"kind": "filter", "name": name, "analyst": "ada", "dataset": dataset, "epsilon": epsilon, "delta": 1e-6}
    made(team.steward.post("/accounts", json=account))


@pytest.fixture(scope="module")
def capped(team: Team) -> Team:
    """The team with a dataset of its own whose cap is small, and an account on it that is larger than the cap."""
    made(team.steward.post("/datasets", json=EVENTS.body | {"name": "capped", "apart": "a cap of its own"}))
    cap = team.steward.put("/datasets/capped/cap", json={"epsilon": 0.4, "delta": 1e-5})
    assert cap.status_code == 200, cap.text
    open_filter(team, "ada-capped", "capped", 5.0)
    return team


def test_a_preview_within_the_balance_lacks_nothing(team: Team):
    found = team.ada.post("/preview", json=body("ada-total", "events", 0.1)).json()
    assert (found["shortage"], found["warning"]) == (None, None)


def test_a_preview_names_a_budget_that_fits_and_is_then_paid(team: Team):
    open_filter(team, "ada-little", "events", 0.3)
    preview = team.ada.post("/preview", json=body("ada-little", "events", 1.0))
    assert preview.status_code == 200, preview.text
    shortage = preview.json()["shortage"]
    fitting = re.search(r"it would fit with an epsilon of ([0-9.e-]+)", shortage)
    assert fitting is not None, shortage
    refused = ask(team.ada, "too-much", body("ada-little", "events", 1.0))
    assert (refused.status_code, refused.json()["detail"]) == (402, shortage)
    smaller = body("ada-little", "events", float(fitting[1]))
    assert team.ada.post("/preview", json=smaller).json()["shortage"] is None
    assert ask(team.ada, "fits", smaller).status_code == 200


def test_a_refusal_over_rest_names_the_fields_that_ask_for_gaussian_noise(team: Team):
    open_filter(team, "ada-noisy", "events", 1.0)
    first = body("ada-noisy", "events", 0.6, "gaussian", 1e-7)
    assert ask(team.ada, "first", first).status_code == 200
    status = team.ada.get("/accounts/ada-noisy").json()
    assert 0 < status["laplace_epsilon_left"] < 0.9 * status["epsilon_left"]
    wanted = body("ada-noisy", "events", 0.4, "laplace")
    shortage = team.ada.post("/preview", json=wanted).json()["shortage"]
    found = re.search(r'Gaussian noise: add ("counts": "gaussian", "delta": [\de.-]+)$', shortage)
    assert found is not None, shortage
    added = json.loads(f"{{{found[1]}}}")
    noisier = body("ada-noisy", "events", 0.4, added["counts"], added["delta"])
    assert team.ada.post("/preview", json=noisier).json()["shortage"] is None


def test_a_preview_says_that_the_cap_is_too_small(capped: Team):
    preview = capped.ada.post("/preview", json=body("ada-capped", "capped", 1.0)).json()
    assert "cap" in preview["shortage"]
    assert preview["warning"] is None
    assert ask(capped.ada, "beyond-the-cap", body("ada-capped", "capped", 1.0)).status_code == 402


def test_a_preview_warns_of_what_its_charge_would_end_for_others(capped: Team):
    preview = capped.ada.post("/preview", json=body("ada-capped", "capped", 0.38, "laplace")).json()
    assert preview["shortage"] is None
    assert "for all accounts under the cap of the dataset 'capped'" in preview["warning"]
    assert capped.ada.post("/preview", json=body("ada-capped", "capped", 0.02, "laplace")).json()["warning"] is None


def test_noise_that_the_account_can_still_pay_for_is_previewed_and_charged(team: Team):
    """A pure count of epsilon 2 ends what pays for Gaussian noise; the histogram is then counted with Laplace noise."""
    open_filter(team, "ada-switch", "events", 5.0)
    assert ask(team.ada, "switch-first", body("ada-switch", "events", 2.0)).status_code == 200
    histogram = {"query": {"kind": "histogram", "item": "word", "contributions": 5}}
    wanted = body("ada-switch", "events", 1.0, delta=1e-7) | histogram
    named = body("ada-switch", "events", 1.0, "gaussian", 1e-7) | histogram
    assert "not for Gaussian noise" in team.ada.post("/preview", json=named).json()["shortage"]
    preview = team.ada.post("/preview", json=wanted).json()
    assert preview["shortage"] is None, preview
    first = ask(team.ada, "switch", wanted)
    assert first.status_code == 200, first.text
    assert first.json()["answer"]["mechanism"] == preview["mechanism"]
    assert ask(team.ada, "switch", wanted).json()["answer"] == first.json()["answer"]
    assert team.ada.get("/accounts/ada-switch").json()["charges"] == 2


def test_counts_and_a_histogram_of_a_half_are_answered_one_after_the_other_from_an_account_of_three(team: Team):
    """The histogram took Gaussian noise, which ended the sum of epsilons; the next count was refused."""
    open_filter(team, "ada-halves", "events", 3.0)
    histogram = {"query": {"kind": "histogram", "item": "word", "contributions": 5}}
    asked = [body("ada-halves", "events", 0.5, delta=1e-7) | histogram if n == 1 else body("ada-halves", "events", 0.5)
             for n in range(6)]  # fmt: skip
    for number, question in enumerate(asked):
        preview = team.ada.post("/preview", json=question).json()
        first = ask(team.ada, f"half-{number}", question)
        assert first.status_code == 200, (number, first.text)
        assert first.json()["answer"]["mechanism"] == preview["mechanism"]
        left = team.ada.get("/accounts/ada-halves").json()["epsilon_left"]
        assert left > 2.999 - 0.5 * (number + 1)
    assert ask(team.ada, "half-1", asked[1]).status_code == 200
    assert team.ada.get("/accounts/ada-halves").json()["charges"] == 6
