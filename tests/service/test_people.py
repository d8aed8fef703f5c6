"""Tokens are shown once and stored as digests; a cookie leads to the same person and ends with its token."""

import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from setwise.errors import NotSignedIn
from setwise.service.auth.authenticator import COOKIE, CSRF_HEADER, csrf_value
from setwise.service.auth.people import Identity
from setwise.service.settings import Settings
from tests.service.replica import PATIENCE, Replica
from tests.service.team import Team


def test_a_secret_is_in_one_answer_and_nowhere_else(team: Team):
    made = team.steward.post("/people/ada/tokens", json={"label": "phone"}).json()
    listed = team.steward.get("/people/ada/tokens")
    assert made["id"] in {token["id"] for token in listed.json()}
    assert made["secret"] not in listed.text
    team.replica.as_holder(made["secret"]).get("/me")
    folder = Path(team.replica.service.settings.ledger).parent
    stored = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"phone" in stored
    assert made["secret"].encode() not in stored


def test_only_the_first_start_makes_a_steward(team: Team):
    assert team.replica.service.people.first_steward() is None


def test_a_name_is_taken_once(team: Team):
    refused = team.steward.post("/people", json={"name": "ada", "role": "steward"})
    assert refused.status_code == 409
    assert refused.json()["type"] == "urn:setwise:problem:name-taken"


def test_tokens_that_would_have_ended_already_are_refused(team: Team):
    refused = team.steward.post("/people/ada/tokens", json={"expires_at": 1.0})
    assert refused.status_code == 422
    assert refused.json()["field"] == "expires_at"


def test_a_token_of_another_person_cannot_be_revoked_under_this_name(team: Team):
    token = team.steward.post("/people/ada/tokens", json={}).json()
    assert team.steward.delete(f"/people/bob/tokens/{token['id']}").status_code == 404
    assert team.replica.as_holder(token["secret"]).get("/me").json()["name"] == "ada"


@pytest.fixture
def browser(team: Team) -> httpx.Client:
    """ada, signed in with a cookie."""
    session = team.replica.service.authenticator.start_session(team.ada_token)
    client = team.replica.as_holder(None)
    client.cookies.set(COOKIE, session.secret)
    client.headers["x-test-csrf"] = csrf_value(session.secret)
    return client


def test_a_cookie_leads_to_the_same_person(browser: httpx.Client):
    assert browser.get("/me").json() == {"name": "ada", "role": "analyst"}


def test_a_change_with_a_cookie_needs_the_value_of_its_form(browser: httpx.Client):
    body = {"uses": ["pure:0.1"], "delta": 1e-6}
    assert browser.post("/compose", json=body).status_code == 403
    assert browser.post("/compose", json=body, headers={CSRF_HEADER: "0" * 64}).status_code == 403
    value = browser.headers["x-test-csrf"]
    assert browser.post("/compose", json=body, headers={CSRF_HEADER: value}).status_code == 200


def test_a_cookie_is_not_a_token_and_a_token_is_not_a_cookie(team: Team):
    session = team.replica.service.authenticator.start_session(team.ada_token)
    browser = team.replica.as_holder(None, Cookie=f"{COOKIE}={session.secret}")
    assert browser.get("/me").status_code == 200  # and is remembered, as a cookie
    assert team.replica.as_holder(session.secret).get("/me").status_code == 401
    with pytest.raises(NotSignedIn):
        team.replica.service.authenticator.check_cookie(team.ada_token)


def test_signing_out_and_revoking_end_a_session(team: Team):
    door = team.replica.service.authenticator
    first, second = (
        door.start_session(team.ada_token),
        door.start_session(team.ada_token),
    )
    door.end_session(first.secret)
    with pytest.raises(NotSignedIn):
        door.check_cookie(first.secret)
    assert door.check_cookie(second.secret).person.name == "ada"
    token = team.steward.post("/people/ada/tokens", json={}).json()
    third = door.start_session(token["secret"])
    assert team.steward.delete(f"/people/ada/tokens/{token['id']}").status_code == 200
    with pytest.raises(NotSignedIn):
        door.check_cookie(third.secret)


def test_a_session_ends_in_time(team: Team):
    service = team.replica.service
    session = service.authenticator.start_session(team.ada_token)
    team.replica.clock.ahead += service.settings.session_hours * 3600 + 1
    with pytest.raises(NotSignedIn):
        service.authenticator.check_cookie(session.secret)


def test_a_session_ends_no_later_than_the_token_that_began_it(start: Callable[..., Replica]):
    replica = start(token_cache_seconds=0.0)
    service = replica.service
    token = service.people.issue("steward", expires_at=replica.clock() + 600.0)
    session = service.authenticator.start_session(token.secret)
    assert session.expires_at == token.token.expires_at
    browser = replica.as_holder(None)
    browser.cookies.set(COOKIE, session.secret)
    assert browser.get("/me").status_code == 200
    replica.clock.ahead += 601.0  # the session alone would last for hours
    assert browser.get("/me").status_code == 401
    with pytest.raises(NotSignedIn):
        service.authenticator.check_cookie(session.secret)


def test_a_revocation_while_the_token_is_looked_up_counts_at_once(start: Callable[..., Replica]):
    """What was found just before must not be remembered just after."""
    replica = start(token_cache_seconds=1000.0)
    steward = replica.as_holder(replica.steward)
    assert steward.post("/people", json={"name": "eve", "role": "analyst"}).status_code == 201
    made = steward.post("/people/eve/tokens", json={}).json()
    eve = replica.as_holder(made["secret"])
    authenticator = replica.service.authenticator
    found, revoked = threading.Event(), threading.Event()
    check = authenticator.check_token

    def slow(secret: str) -> Identity:
        identity = check(secret)
        found.set()
        assert revoked.wait(PATIENCE)
        return identity

    authenticator.check_token = slow  # type: ignore[method-assign]
    racing = threading.Thread(target=eve.get, args=("/me",))
    racing.start()
    assert found.wait(PATIENCE)
    authenticator.check_token = check  # type: ignore[method-assign]
    assert steward.delete(f"/people/eve/tokens/{made['id']}").status_code == 200
    revoked.set()
    racing.join(PATIENCE)
    assert eve.get("/me").status_code == 401


def test_a_token_revoked_on_one_replica_stops_working_on_the_others_in_time(start: Callable[..., Replica]):
    seconds = Settings().token_cache_seconds
    first, second = start(), start(token_cache_seconds=seconds)
    steward = first.as_holder(first.steward)
    assert steward.post("/people", json={"name": "eve", "role": "analyst"}).status_code == 201
    made = steward.post("/people/eve/tokens", json={}).json()
    eve = second.as_holder(made["secret"])
    assert eve.get("/me").status_code == 200
    assert steward.delete(f"/people/eve/tokens/{made['id']}").status_code == 200
    second.clock.ahead += seconds
    assert eve.get("/me").status_code == 401
    assert seconds <= 2.0
