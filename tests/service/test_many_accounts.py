"""A ledger with many accounts: an analyst's list is quick, and nothing that is refused stays behind."""

import threading
import time
from collections.abc import Callable

import pytest

from setwise.ledger import status
from tests.service.replica import Replica
from tests.service.team import TOP_3, Team, ask, gather
from tests.sizes import OTHER_ACCOUNTS


@pytest.fixture(scope="module")
def crowded(team: Team) -> Team:
    ledger = team.replica.service.ledger
    for number in range(OTHER_ACCOUNTS):
        ledger.open_filter(
            f"other-{number:05d}", epsilon=1.0, delta=1e-6, analyst=f"person-{number % 500}", dataset="x"
        )
    return team


def test_an_analyst_sees_their_own_accounts_in_order_and_a_steward_all(crowded: Team):
    assert [each["account"] for each in crowded.ada.get("/accounts").json()] == ["ada-events", "ada-total"]
    listed = [each["account"] for each in crowded.steward.get("/accounts").json()]
    assert len(listed) == OTHER_ACCOUNTS + 3
    assert listed == sorted(listed)


def test_a_list_says_what_one_account_says_but_for_the_odometer(crowded: Team):
    assert ask(crowded.ada, "listed").status_code == 200
    listed = {each["account"]: each for each in crowded.ada.get("/accounts").json()}
    for name, found in listed.items():
        computed = {"odometer", "path_odometer", "epsilon_left", "laplace_epsilon_left", "more_like_last"}
        assert not any(found.get(key) for key in computed)
        single = crowded.ada.get(f"/accounts/{name}").json()
        assert computed <= single.keys()
        assert {key: single[key] for key in single if key not in computed} == {
            key: found[key] for key in found if key not in computed
        }
    assert listed["ada-events"]["charges"] == 1


def test_a_list_and_a_question_compute_no_odometer(crowded: Team, monkeypatch: pytest.MonkeyPatch):
    def refuse(*given: object) -> None:
        raise AssertionError("computed an odometer")

    monkeypatch.setattr(status, "stopping_odometer", refuse)
    monkeypatch.setattr(crowded.replica.service.calculators, "calculate", refuse)  # where odometers are computed
    assert crowded.ada.get("/accounts").status_code == 200
    assert ask(crowded.ada, "unmeasured").status_code == 200
    assert crowded.ada.get("/accounts/ada-events").status_code == 500
    assert crowded.ada.get("/accounts/ada-total").status_code == 500


def test_an_analysts_list_does_not_read_the_others(crowded: Team, monkeypatch: pytest.MonkeyPatch):
    read = []
    monkeypatch.setattr(
        "setwise.ledger.ledger.status_of", lambda *given: read.append(given) or status.status_of(*given)
    )
    crowded.ada.get("/accounts")
    assert len(read) == 2


def test_health_does_not_wait_for_the_stores_threads(start: Callable[..., Replica]):
    replica = start()
    client = replica.as_holder(replica.steward)
    assert client.get("/health").status_code == 200
    threads = replica.service.threads._executor
    released = threading.Event()
    held = [threads.submit(released.wait, 600.0) for _ in range(16)]
    try:
        time.sleep(1.1)  # what the probe remembers is old by now
        assert client.get("/health").status_code == 200
        assert not any(each.done() for each in held)
    finally:
        released.set()


def test_a_refused_question_leaves_nothing_behind_and_its_key_is_free(start: Callable[..., Replica]):
    team = gather(start())
    jobs = team.replica.service.jobs
    long = [f"label-{number}" * 10 for number in range(9000)]
    spend = TOP_3["spend"] | {"discover": "bounded-range:0.7", "counts": None}
    refused = TOP_3 | {"query": {"kind": "top-k", "item": "word", "k": 3, "domain": long}, "spend": spend}
    for number in range(3):
        assert ask(team.ada, f"refused-{number}", refused).status_code == 422
    broke = TOP_3 | {"query": {"kind": "top-k", "item": "word", "k": 51}}
    assert ask(team.ada, "broke", broke).status_code == 402
    assert jobs.of("ada", 10) == []
    assert ask(team.ada, "refused-0").status_code == 200
