"""What stewards do: freeze and close accounts, remove people; all of it stays in a trail that nobody can change."""

from collections.abc import Callable

import pytest
from sqlalchemy import inspect, text

from setwise.service.settings import Settings
from setwise.service.storage import schema
from setwise.service.storage.database import open_database
from tests.service.replica import Replica
from tests.service.team import TOP_3, Team, ask, gather, open_account


def set_state(team: Team, account: str, state: str, reason: str = "") -> int:
    return team.steward.put(f"/accounts/{account}/state", json={"state": state, "reason": reason}).status_code


def test_a_frozen_account_pays_for_nothing_until_it_is_opened_again(team: Team):
    open_account(team.steward, "ada-frozen", "ada")
    body = TOP_3 | {"account": "ada-frozen"}
    assert ask(team.ada, "before", body).status_code == 200
    assert set_state(team, "ada-frozen", "frozen", "the contract is being looked at") == 200
    assert team.ada.get("/accounts/ada-frozen").json()["state"] == "frozen"
    refused = ask(team.ada, "while", body)
    assert refused.status_code in {402, 422}
    assert "frozen" in refused.json()["detail"]
    assert ask(team.ada, "before", body).status_code == 200  # what was answered is still shown
    assert set_state(team, "ada-frozen", "open") == 200
    assert ask(team.ada, "while", body).status_code == 200


def test_a_closed_account_stays_closed(team: Team):
    open_account(team.steward, "ada-closed", "ada")
    assert set_state(team, "ada-closed", "closed", "done") == 200
    assert set_state(team, "ada-closed", "closed") == 200
    assert set_state(team, "ada-closed", "open") == 422
    assert ask(team.ada, "closed", TOP_3 | {"account": "ada-closed"}).status_code in {402, 422}
    assert team.steward.get("/audit").json()["faults"] == []


def test_a_removed_person_is_known_nowhere_and_their_history_stays(start: Callable[..., Replica]):
    first, second = start(), start(token_cache_seconds=0.0)
    team = gather(first)
    elsewhere = second.as_holder(team.ada_token)
    session = first.service.authenticator.start_session(team.ada_token)
    assert ask(team.ada, "kept").status_code == 200
    assert elsewhere.get("/me").status_code == 200
    assert team.steward.delete("/people/ada").json() == {"name": "ada", "role": "analyst"}
    assert team.ada.get("/me").status_code == elsewhere.get("/me").status_code == 401
    with pytest.raises(Exception, match="session has ended"):
        first.service.authenticator.check_cookie(session.secret)
    assert [each["name"] for each in team.steward.get("/people").json()] == ["bob", "steward"]
    assert team.steward.post("/people/ada/tokens", json={}).status_code == 404
    assert team.steward.post("/people", json={"name": "ada", "role": "analyst"}).status_code == 409
    assert len(team.steward.get("/accounts/ada-events/history").json()) == 2
    assert team.steward.delete("/people/ada").status_code == 404
    assert team.steward.delete("/people/steward").status_code == 403


def test_everything_a_steward_does_is_in_the_trail(start: Callable[..., Replica]):
    team = gather(start())
    token = team.steward.post("/people/bob/tokens", json={}).json()["id"]
    team.steward.delete(f"/people/bob/tokens/{token}")
    set_state(team, "bob-events", "frozen", "on leave")
    team.steward.delete("/people/bob")
    trail = team.steward.get("/trail").json()
    assert {each["by"] for each in trail} == {"steward"}
    done = [(each["action"], each["subject"]) for each in trail]
    assert done[:4] == [
        ("person.added", "ada"),
        ("token.issued", "ada"),
        ("person.added", "bob"),
        ("token.issued", "bob"),
    ]
    assert done[4] == ("dataset", "events")
    assert done[-3:] == [("token.revoked", "bob"), ("freeze", "bob-events"), ("person.removed", "bob")]
    assert trail[-2]["details"]["reason"] == "on leave"
    assert team.steward.get("/trail", params={"after": trail[-2]["number"]}).json() == trail[-1:]
    assert team.ada.get("/trail").status_code == 403
    assert token not in team.ada.get("/metrics").text
    assert team.steward.get("/audit").json()["faults"] == []


def test_two_names_of_one_table_share_a_cap_unless_a_steward_says_why_not(start: Callable[..., Replica]):
    team = gather(start())
    again = {"table": "events.parquet", "user": "user_id", "items": ["word"]}
    first = {"name": "capped", "contributions": 5} | again | {"apart": "the rows of last year alone"}
    assert team.steward.post("/datasets", json=first).status_code == 201
    assert team.steward.put("/datasets/capped/cap", json={"epsilon": 1.0, "delta": 1e-6}).status_code == 200
    refused = team.steward.post("/datasets", json={"name": "second"} | again)
    assert refused.status_code == 201  # joined with events, which has no cap; capped stands apart
    joint = team.steward.get("/datasets/second/joint").json()
    assert set(joint["accounts"]) == {"ada-events", "ada-total", "bob-events"}


def test_what_accounts_hold_of_a_cap_goes_back_to_it(start: Callable[..., Replica]):
    replica = start()
    team = gather(replica)
    table = {"name": "capped", "table": "events.parquet", "user": "user_id", "items": ["word"], "contributions": 5}
    assert team.steward.post("/datasets", json=table | {"apart": "for a test"}).status_code == 201
    assert team.steward.post("/datasets/capped/cap/reclaim", json={}).status_code == 422  # it has no cap yet
    assert team.steward.put("/datasets/capped/cap", json={"epsilon": 5.0, "delta": 1e-5}).status_code == 200
    account = {"kind": "filter", "name": "ada-capped", "analyst": "ada", "dataset": "capped"}
    assert team.steward.post("/accounts", json=account | {"epsilon": 2.0, "delta": 1e-6}).status_code == 201
    total = {"kind": "total", "epsilon": 0.5, "delta": 1e-9}
    body = {"dataset": "capped", "account": "ada-capped", "query": TOP_3["query"], "spend": total}
    assert ask(team.ada, "holds", body).status_code == 200

    def reclaim(**body: float) -> dict[str, object]:
        response = team.steward.post("/datasets/capped/cap/reclaim", json=body)
        assert response.status_code == 200, response.text
        found: dict[str, object] = response.json()
        return found

    assert reclaim(idle_hours=1.0) == {"dataset": "capped", "accounts": 0}  # it was used just now
    assert reclaim() == {"dataset": "capped", "accounts": 1}
    assert reclaim() == {"dataset": "capped", "accounts": 0}
    acts = [each for each in team.steward.get("/trail").json() if each["action"] == "cap.reclaimed"]
    assert [each["details"]["accounts"] for each in acts] == [0, 1, 0]
    assert {(each["by"], each["subject"]) for each in acts} == {("steward", "capped")}
    assert team.steward.post("/datasets/nowhere/cap/reclaim", json={}).status_code == 404
    assert team.ada.post("/datasets/capped/cap/reclaim", json={}).status_code == 403
    assert team.steward.get("/audit").json()["faults"] == []


def test_a_token_lasts_ninety_days_unless_told_otherwise(team: Team):
    made = team.steward.post("/people/ada/tokens", json={}).json()
    days = (made["expires_at"] - made["created_at"]) / 86400
    assert days == pytest.approx(Settings().token_days) == pytest.approx(90.0)
    longer = team.steward.post("/people/ada/tokens", json={"expires_at": made["created_at"] + 1e8}).json()
    assert longer["expires_at"] == made["created_at"] + 1e8


def test_tables_made_before_people_could_be_removed_or_sign_on_are_migrated(tmp_path):
    url = str(tmp_path / "old.db")
    database = open_database(url)
    with database.writing() as connection:
        connection.execute(text("DROP TABLE service_people"))
        old = "CREATE TABLE service_people (name VARCHAR(64) PRIMARY KEY, role VARCHAR(16), created_at DOUBLE)"
        connection.execute(text(old))
        connection.execute(schema.versions.delete().where(schema.versions.c.version > 1))
    database.close()
    for _ in range(2):
        database = open_database(url)
        with database.reading() as connection:
            assert connection.execute(schema.people.select()).all() == []
            (unique,) = inspect(connection).get_indexes("service_people")
            assert unique["column_names"] == ["subject"]
            assert unique["unique"]
        database.close()
