"""Single sign-on against a provider that is honest, and one that lies in every way that a forger might."""

import base64
import hmac
import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from setwise.errors import InvalidParameter, NameTaken
from setwise.service.auth.openid import Attempt
from setwise.service.auth.people import Role
from setwise.service.settings import Settings
from tests.servers.openid import Provider, Token, honest, provider
from tests.service.replica import PATIENCE, Replica, running
from tests.service.team import made

CLIENT = "setwise & sons"
SECRET = "it's a secret/+%"
ADDRESSES = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
"""The addresses in a provider's description to which a browser, a code, a token or trust goes."""
ROLES = {"data-office": "steward", "research": "analyst", "watch": "monitor"}


@pytest.fixture(scope="module")
def openid() -> Iterator[Provider]:
    with provider() as found:
        yield found


@pytest.fixture(autouse=True)
def honest_again(openid: Provider) -> Iterator[None]:
    yield
    openid.token, openid.metadata, openid.down, openid.groups_in_token = honest, {}, False, True


@pytest.fixture(scope="module")
def replica(openid: Provider, tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Iterator[Replica]:
    from tests.service.conftest import SETTINGS

    folder = tmp_path_factory.mktemp("sign-on")
    with running(
        Settings(
            ledger=str(folder / "setwise.db"),
            data_dir=data_dir,
            public_url="http://127.0.0.1:1",
            oidc_issuer=openid.url,
            oidc_client_id=CLIENT,
            oidc_client_secret=SECRET,
            oidc_roles=ROLES,
            **SETTINGS,
        )
    ) as found:
        yield found


def browser(replica: Replica) -> httpx.Client:
    client = httpx.Client(base_url=replica.url, headers={"Accept": "text/html"}, timeout=PATIENCE, verify=False)
    replica.clients.append(client)
    return client


def answer_to(window: httpx.Client, openid: Provider, subject: str, **query: str) -> str:
    """Begin in a window, sign on at the provider, and return the path that it sends the window back to."""
    led = window.get("/sign-on", params=query)
    assert led.status_code == 303, led.text
    back = urlsplit(openid.answered(led.headers["location"], subject))
    return f"{back.path}?{back.query}"


def sign_on(replica: Replica, openid: Provider, subject: str, **query: str) -> tuple[httpx.Client, httpx.Response]:
    window = browser(replica)
    return window, window.get(answer_to(window, openid, subject, **query))


def refused(response: httpx.Response, status: int = 401) -> str:
    """See that nobody was signed in, and return what is said."""
    assert response.status_code == status, response.text
    assert "setwise_session" not in response.headers.get("set-cookie", "")
    told = re.search(r'role="alert">([^<]+)<', response.text)
    assert told is not None
    return told[1]


def trail(replica: Replica, name: str) -> list[tuple[str, str, str]]:
    acts = replica.as_holder(replica.steward).get("/trail", params={"most": 1000}).json()
    return [(each["action"], each["by"], each["details"].get("role", "-")) for each in acts if each["subject"] == name]


def test_a_person_appears_with_the_role_of_their_groups(replica: Replica, openid: Provider):
    openid.knows("grace", "research", "football")
    openid.knows("edsger", "research", "data-office")
    for name, role in (("grace", "analyst"), ("edsger", "steward")):
        window, response = sign_on(replica, openid, name, next="/accounts?x=1")
        assert response.status_code == 303
        assert response.headers["location"] == "/accounts?x=1"
        assert window.get("/api/v1/me").json() == {"name": name, "role": role}
        assert trail(replica, name) == [("person.added", "single sign-on", role)]
        assert sign_on(replica, openid, name)[1].status_code == 303
        assert len(trail(replica, name)) == 1


def test_a_group_may_stand_for_a_monitor_and_any_other_role_for_more(replica: Replica, openid: Provider):
    openid.knows("margaret", "watch")
    window, response = sign_on(replica, openid, "margaret")
    assert response.status_code == 303, response.text
    assert window.get("/api/v1/me").json() == {"name": "margaret", "role": "monitor"}
    assert window.get("/api/v1/metrics").status_code == 200
    assert window.get("/api/v1/accounts").status_code == 403
    openid.knows("margaret", "watch", "research")
    assert sign_on(replica, openid, "margaret")[0].get("/api/v1/me").json()["role"] == "analyst"


def test_groups_may_come_from_the_user_info(replica: Replica, openid: Provider):
    openid.knows("barbara", "research")
    openid.groups_in_token = False
    window, _ = sign_on(replica, openid, "barbara")
    assert window.get("/api/v1/me").json() == {"name": "barbara", "role": "analyst"}


def test_the_signed_id_token_wins_over_the_user_info(replica: Replica, openid: Provider):
    """The user info is not signed: it adds claims that the ID token leaves out, and changes none."""
    openid.knows("hedy", "data-office")

    def without_name(claims: dict[str, object], key: RSAKey) -> str:
        del claims["preferred_username"]  # so that the user info is asked for it
        return honest(claims | {"groups": ["research"]}, key)

    openid.token = without_name
    window, response = sign_on(replica, openid, "hedy")
    assert response.status_code == 303, response.text
    assert window.get("/api/v1/me").json() == {"name": "hedy", "role": "analyst"}


def test_losing_a_group_takes_the_role_away(replica: Replica, openid: Provider):
    steward = replica.as_holder(replica.steward)
    openid.knows("john", "data-office")
    earlier, _ = sign_on(replica, openid, "john")
    assert earlier.get("/api/v1/people").status_code == 200
    token = made(steward.post("/people/john/tokens", json={"label": "cron"}))["secret"]
    program = replica.as_holder(token)
    assert program.get("/people").status_code == 200
    openid.knows("john", "research")
    sign_on(replica, openid, "john")
    assert earlier.get("/api/v1/people").status_code == program.get("/people").status_code == 403
    assert program.get("/me").json()["role"] == "analyst"
    openid.knows("john")
    assert "none of your groups" in refused(sign_on(replica, openid, "john")[1], 403).lower()
    assert program.get("/me").status_code == earlier.get("/api/v1/me").status_code == 401
    openid.knows("john", "research")
    assert sign_on(replica, openid, "john")[0].get("/api/v1/me").json()["role"] == "analyst"
    assert program.get("/me").status_code == 401
    roles = [role for action, by, role in trail(replica, "john") if by == "single sign-on"]
    assert roles == ["steward", "analyst", ""]


def test_somebody_without_a_role_is_not_added(replica: Replica, openid: Provider):
    for subject, groups in (("mallory", ["football"]), ("trudy", [])):
        openid.knows(subject, *groups)
        refused(sign_on(replica, openid, subject)[1], 403)
    openid.knows("oscar", groups={"research": True})
    refused(sign_on(replica, openid, "oscar")[1], 403)
    openid.knows("oscar", groups=[["research"], None, 7])
    refused(sign_on(replica, openid, "oscar")[1], 403)
    people = {each["name"] for each in replica.as_holder(replica.steward).get("/people").json()}
    assert people.isdisjoint({"mallory", "trudy", "oscar"})


def test_a_removed_person_stays_out(replica: Replica, openid: Provider):
    openid.knows("alan", "data-office")
    window, _ = sign_on(replica, openid, "alan")
    assert replica.as_holder(replica.steward).delete("/people/alan").status_code == 200
    assert window.get("/api/v1/me").status_code == 401
    assert "removed" in refused(sign_on(replica, openid, "alan")[1], 403)


def test_nobody_signs_on_as_somebody_else_by_name(replica: Replica, openid: Provider):
    """Names are given out by the provider, sometimes by people themselves: what counts is the subject."""
    steward = replica.as_holder(replica.steward)
    openid.knows("impostor", "research", preferred_username="steward")
    assert "steward" in refused(sign_on(replica, openid, "impostor")[1], 409)
    made(steward.post("/people", json={"name": "tony", "role": "analyst"}))
    openid.knows("tony@example", "research", preferred_username="tony")
    refused(sign_on(replica, openid, "tony@example")[1], 409)
    assert steward.put("/people/tony/subject", json={"subject": "tony@example"}).status_code == 200
    assert sign_on(replica, openid, "tony@example")[0].get("/api/v1/me").json()["name"] == "tony"
    openid.knows("tony@example", "research", preferred_username="renamed")
    assert sign_on(replica, openid, "tony@example")[0].get("/api/v1/me").json()["name"] == "tony"
    made(steward.post("/people", json={"name": "antony", "role": "analyst"}))
    assert steward.put("/people/antony/subject", json={"subject": "tony@example"}).status_code == 409
    assert steward.put("/people/steward/subject", json={"subject": "x"}).status_code == 403
    assert steward.put("/people/nobody/subject", json={"subject": "x"}).status_code == 404
    assert ("person.joined", "steward", "-") in trail(replica, "tony")


def test_two_first_sign_ons_at_once_are_one_person(start: Callable[..., Replica], monkeypatch: pytest.MonkeyPatch):
    """The second finds nobody, and by the time it adds the person, the first has done so."""
    people = start().service.people
    clock = people._clock

    def overtaken() -> float:
        monkeypatch.setattr(people, "_clock", clock)
        people.signed_on("subject", name="twice", role=Role.STEWARD)
        return clock()

    monkeypatch.setattr(people, "_clock", overtaken)
    person, before = people.signed_on("subject", name="twice", role=Role.ANALYST)
    assert (person.name, person.role, before) == ("twice", Role.ANALYST, Role.STEWARD)
    with pytest.raises(NameTaken):
        people.signed_on("another", name="twice", role=Role.ANALYST)


def test_sign_ons_are_counted_against_their_address(start: Callable[..., Replica], openid: Provider):
    single = {"public_url": "http://127.0.0.1:1", "oidc_issuer": openid.url, "oidc_client_id": "x", "oidc_roles": ROLES}
    window = browser(start(**single, requests_per_second=0.001, burst=3))
    before = len(openid.asked)
    statuses = [window.get("/sign-on/callback?state=x&code=y").status_code for _ in range(6)]
    assert statuses == [401, 401, 401, 429, 429, 429]
    assert len(openid.asked) == before  # the provider is not asked on behalf of strangers
    assert window.get("/sign-on").status_code == 429


def test_tokens_still_serve_programs_and_sessions_end_by_revocation(replica: Replica, openid: Provider):
    openid.knows("leslie", "research")
    window, _ = sign_on(replica, openid, "leslie")
    steward = replica.as_holder(replica.steward)
    (session,) = steward.get("/people/leslie/tokens").json()
    assert session["label"] == "single sign-on"
    assert session["expires_at"] - session["created_at"] == pytest.approx(12 * 3600)
    program = replica.as_holder(made(steward.post("/people/leslie/tokens", json={}))["secret"])
    assert steward.delete(f"/people/leslie/tokens/{session['id']}").status_code == 200
    assert window.get("/api/v1/me").status_code == 401
    assert program.get("/me").json()["name"] == "leslie"


def test_what_sessions_leave_behind_is_dropped(replica: Replica, openid: Provider):
    openid.knows("donald", "research")
    steward = replica.as_holder(replica.steward)
    for _ in range(3):
        sign_on(replica, openid, "donald")
    assert len(steward.get("/people/donald/tokens").json()) == 3
    service = replica.service
    replica.clock.ahead += 13 * 3600
    try:
        service.people.issue_for_session("donald")
        assert len(service.people.tokens("donald")) == 1
    finally:
        replica.clock.ahead -= 13 * 3600


# What a forger may try. Each makes an ID token from the honest claims and the provider's key.


def _with(**changed: object) -> Token:
    return lambda claims, key: honest({**claims, **changed}, key)


def _without(name: str) -> Token:
    return lambda claims, key: honest({each: value for each, value in claims.items() if each != name}, key)


def _segment(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def _unsigned(alg: str) -> Token:
    return lambda claims, key: f"{_segment({'alg': alg, 'kid': key.kid})}.{_segment(claims)}."


def _hs256_with_public_key(claims: dict[str, object], key: RSAKey) -> str:
    signed = f"{_segment({'alg': 'HS256', 'kid': key.kid})}.{_segment(claims)}"
    made = hmac.digest(key.as_pem(private=False), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"


def _unknown_kid(claims: dict[str, object], key: RSAKey) -> str:
    return jwt.encode({"alg": "RS256", "kid": "unheard-of"}, claims, key)


def _other_key_same_kid(claims: dict[str, object], key: RSAKey) -> str:
    other = RSAKey.generate_key(2048)
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, other)


def _own_key_in_header(claims: dict[str, object], key: RSAKey) -> str:
    other = RSAKey.generate_key(2048)
    return jwt.encode({"alg": "RS256", "jwk": other.as_dict(private=False)}, claims, other)


def _claims_changed_after_signing(claims: dict[str, object], key: RSAKey) -> str:
    header, _, signature = honest(claims, key).split(".")
    return f"{header}.{_segment(claims | {'groups': ['data-office']})}.{signature}"


FORGERIES: dict[str, Token] = {
    "wrong issuer": _with(iss="https://elsewhere.example"),
    "issuer with a slash": lambda claims, key: honest(claims | {"iss": f"{claims['iss']}/"}, key),
    "no issuer": _without("iss"),
    "wrong audience": _with(aud="another-program"),
    "no audience": _without("aud"),
    "several audiences, no azp": _with(aud=[CLIENT, "another-program"]),
    "another azp": _with(azp="another-program"),
    "wrong nonce": _with(nonce="0" * 43),
    "no nonce": _without("nonce"),
    "expired": _with(exp=int(time.time()) - 120),
    "no expiry": _without("exp"),
    "from the future": _with(iat=int(time.time()) + 3600),
    "not valid yet": _with(nbf=int(time.time()) + 3600),
    "no subject": _without("sub"),
    "alg none": _unsigned("none"),
    "alg None": _unsigned("None"),
    "no signature": _unsigned("RS256"),
    "HS256 with the public key": _hs256_with_public_key,
    "unknown kid": _unknown_kid,
    "another key under its kid": _other_key_same_kid,
    "a key of its own": _own_key_in_header,
    "changed after signing": _claims_changed_after_signing,
    "empty": lambda claims, key: "",
    "not a token": lambda claims, key: "a.b.c",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_id_token_signs_nobody_in(replica: Replica, openid: Provider, forgery: str):
    openid.knows("forged", "research")
    openid.token = FORGERIES[forgery]
    assert "refused" in refused(sign_on(replica, openid, "forged")[1])
    people = replica.as_holder(replica.steward).get("/people").json()
    assert "forged" not in {each["name"] for each in people}


def test_the_same_claims_untouched_are_believed(replica: Replica, openid: Provider):
    """So that every forgery above is refused for its own fault."""
    openid.knows("ok", "research")
    openid.token = _with(aud=[CLIENT, "another-program"], azp=CLIENT)
    assert sign_on(replica, openid, "ok")[1].status_code == 303


def test_a_new_key_is_fetched_when_the_provider_turns_to_it(replica: Replica, openid: Provider):
    openid.knows("rotated", "research")
    assert sign_on(replica, openid, "rotated")[1].status_code == 303
    before, openid.key = openid.key, RSAKey.generate_key(2048, {"use": "sig"}, auto_kid=True)
    replica.clock.ahead += 31
    try:
        assert sign_on(replica, openid, "rotated")[1].status_code == 303
        openid.token = lambda claims, _: honest(claims, before)
        refused(sign_on(replica, openid, "rotated")[1])
        asked = len([path for path in openid.asked if path == "/jwks"])
        for _ in range(3):
            refused(sign_on(replica, openid, "rotated")[1])
        assert len([path for path in openid.asked if path == "/jwks"]) == asked
    finally:
        replica.clock.ahead -= 31


def test_a_code_counts_once_and_in_its_own_browser(replica: Replica, openid: Provider):
    openid.knows("once", "research")
    window = browser(replica)
    back = answer_to(window, openid, "once")
    kept = dict(window.cookies)
    stranger = browser(replica)
    refused(stranger.get(back))  # a link that a forger made somebody click
    stranger.get("/sign-on")
    refused(stranger.get(back))  # with a sign-on of their own under way
    assert window.get(back).status_code == 303
    refused(window.get(back))  # its cookie is gone
    again = browser(replica)
    again.cookies.set("setwise_sign_on", kept["setwise_sign_on"], path="/sign-on")
    assert "used before" in refused(again.get(back))


@pytest.mark.parametrize("secret", ["", "x", "a" * 42, "a" * 43 + "!"])
def test_a_secret_that_could_be_guessed_binds_no_browser(replica: Replica, openid: Provider, secret: str):
    """A forger signs on at the provider for a secret that they know, and has somebody else follow the answer."""
    openid.knows("guess", "research")
    attempt = object.__new__(Attempt)
    object.__setattr__(attempt, "secret", secret)
    query = parse_qs(urlsplit(browser(replica).get("/sign-on").headers["location"]).query)
    asked = {name: values[0] for name, values in query.items()}
    asked |= {"state": attempt.state, "nonce": attempt.nonce, "code_challenge": attempt.challenge}
    back = urlsplit(openid.answered(f"{openid.url}/oauth2/authorize?{urlencode(asked)}", "guess"))
    victim = browser(replica)
    if secret:
        victim.cookies.set("setwise_sign_on", f"{secret}.%2Fask", path="/sign-on")
    refused(victim.get(f"{back.path}?{back.query}"))


def test_state_verifier_and_nonce_are_held_to(replica: Replica, openid: Provider):
    openid.knows("bound", "research")
    window = browser(replica)
    back = answer_to(window, openid, "bound")
    refused(window.get(re.sub("state=[^&]+", "state=" + "0" * 43, back)))
    other = browser(replica)
    theirs = parse_qs(urlsplit(answer_to(other, openid, "bound")).query)["code"][0]
    window = browser(replica)
    mine = answer_to(window, openid, "bound")
    assert "code" in refused(window.get(re.sub("code=[^&]+", f"code={theirs}", mine)))  # PKCE


def test_an_answer_of_another_provider_is_refused(replica: Replica, openid: Provider):
    openid.knows("mixed", "research")
    window = browser(replica)
    back = answer_to(window, openid, "mixed")
    assert "another provider" in refused(window.get(f"{back}&iss=https://elsewhere.example"))


def test_a_refusal_by_the_provider_is_told(replica: Replica, openid: Provider):
    window = browser(replica)
    led = urlsplit(window.get("/sign-on").headers["location"])
    state = parse_qs(led.query)["state"][0]
    told = refused(window.get("/sign-on/callback", params={"error": "<script>", "state": state}))
    assert "script" not in told


def test_a_user_info_about_somebody_else_is_refused(replica: Replica, openid: Provider):
    openid.knows("sub1", "research")
    openid.knows("sub2", "data-office")
    openid.groups_in_token = False
    openid.token = lambda claims, key: honest(claims | {"sub": "sub2"}, key)
    assert "somebody else" in refused(sign_on(replica, openid, "sub1")[1])


@pytest.mark.parametrize(
    "going",
    ["https://elsewhere.example/", "//elsewhere.example/ask", "/\\elsewhere.example", "/ask/..//evil", "/login"],
)
def test_signing_on_never_leads_elsewhere(replica: Replica, openid: Provider, going: str):
    openid.knows("led", "research")
    assert sign_on(replica, openid, "led", next=going)[1].headers["location"] == "/ask"
    window = browser(replica)
    back = answer_to(window, openid, "led")
    secret = window.cookies["setwise_sign_on"].partition(".")[0]
    window.cookies.delete("setwise_sign_on")
    window.cookies.set("setwise_sign_on", f"{secret}.{quote(going, safe='')}", path="/sign-on")
    response = window.get(back)
    assert response.status_code == 303
    assert response.headers["location"] == "/ask"


def test_a_session_is_new_with_every_sign_on(replica: Replica, openid: Provider):
    """A session that somebody planted in a browser does not become that of whoever signs on."""
    openid.knows("fixed", "research")
    window = browser(replica)
    window.cookies.set("setwise_session", "planted", path="/")
    response = window.get(answer_to(window, openid, "fixed"))
    session = re.search("setwise_session=([^;]+)", ",".join(response.headers.get_list("set-cookie")))
    assert session is not None
    assert session[1] != "planted"
    assert all(
        "httponly" in line.lower() for line in response.headers.get_list("set-cookie") if "Max-Age=0" not in line
    )
    assert "samesite=lax" in response.headers["set-cookie"].lower()


def test_no_secret_of_a_sign_on_is_logged(replica: Replica, openid: Provider, caplog: pytest.LogCaptureFixture):
    openid.knows("logged", "research")
    seen: list[str] = []
    openid.token = lambda claims, key: seen.append(honest(claims, key)) or seen[-1]
    with caplog.at_level(logging.INFO, logger="setwise.service"):
        replica_log = logging.getLogger("setwise.service")
        replica_log.addHandler(caplog.handler)
        window = browser(replica)
        back = answer_to(window, openid, "logged")
        window.get(back)
        openid.token = _without("nonce")
        refused(sign_on(replica, openid, "logged")[1])
        replica_log.removeHandler(caplog.handler)
    told = "\n".join(json.dumps(vars(record), default=str) for record in caplog.records)
    assert "single sign-on refused" in told
    secrets = [*parse_qs(urlsplit(back).query)["code"], *parse_qs(urlsplit(back).query)["state"], *seen]
    secrets += [window.cookies["setwise_session"], SECRET, seen[0].split(".")[1]]
    assert [secret for secret in secrets if secret in told] == []
    assert SECRET not in repr(replica.service.settings)


def test_a_provider_that_is_down_or_lies_about_itself_is_told_and_tokens_still_serve(
    start: Callable[..., Replica], openid: Provider
):
    single = {"public_url": "http://127.0.0.1:1", "oidc_issuer": openid.url, "oidc_client_id": "x", "oidc_roles": ROLES}
    openid.down = True
    replica = start(**single)
    window = browser(replica)
    assert "cannot be used" in refused(window.get("/sign-on"), 503)
    assert replica.as_holder(replica.steward).get("/me").status_code == 200
    openid.down = False
    lies = [
        {"issuer": "https://elsewhere.example"},
        *({name: f"http://elsewhere.example/{name}"} for name in ADDRESSES),
        *({name: None} for name in ADDRESSES),
    ]
    for lie in lies:
        openid.metadata = lie
        refused(window.get("/sign-on"), 503)
    openid.metadata = {"authorization_response_iss_parameter_supported": True}
    openid.knows("late", "research")
    refused(window.get(answer_to(window, openid, "late")))  # the answer does not name its issuer
    back = answer_to(window, openid, "late")
    assert window.get(f"{back}&iss={openid.url}").status_code == 303  # a public client, without a secret


def test_without_a_provider_there_is_no_sign_on(start: Callable[..., Replica]):
    replica = start()
    window = browser(replica)
    assert window.get("/sign-on").status_code == window.get("/sign-on/callback").status_code == 404
    assert "/sign-on" not in window.get("/login").text
    steward = replica.as_holder(replica.steward)
    assert steward.put("/people/steward/subject", json={"subject": "x"}).status_code == 422


GOOD = {
    "public_url": "https://setwise.example",
    "oidc_issuer": "https://id.example",
    "oidc_client_id": "setwise",
    "oidc_roles": ROLES,
}


@pytest.mark.parametrize(
    "changed",
    [
        {"public_url": ""},
        {"public_url": "http://setwise.example"},
        {"oidc_issuer": "http://id.example"},
        {"oidc_client_id": ""},
        {"oidc_roles": {}},
        {"oidc_roles": {"research": "owner"}},
        {"oidc_scopes": ("profile",)},
    ],
)
def test_settings_that_cannot_work_are_refused(changed: dict[str, object]):
    assert Settings(**GOOD).oidc_issuer == "https://id.example"
    with pytest.raises(InvalidParameter, match=r"^oidc_"):
        Settings(**GOOD | changed)


def test_roles_come_from_the_environment_as_json(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SETWISE_OIDC_ROLES", '{"data office": "steward"}')
    assert Settings().oidc_roles == {"data office": "steward"}
