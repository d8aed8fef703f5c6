"""Single sign-on with an OpenID Connect provider: the authorization code flow with PKCE, and the roles of groups.

`OpenIdProvider` says whom the provider has recognised; `SignOn` makes them a person with the role of their groups.
"""

import base64
import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from setwise.errors import Forbidden, NotSignedIn, Unavailable
from setwise.ledger.ledger import Ledger
from setwise.service.auth.authenticator import Authenticator, NewSession
from setwise.service.auth.people import People, Role
from setwise.service.settings import Settings, is_safe_address
from setwise.service.shares import Threads
from setwise.service.storage.schema import Clock

_log = logging.getLogger("setwise.service")

CALLBACK = "/sign-on/callback"
"""Where the provider sends people back to, below the service's public address."""

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Signatures that only the provider can make; `none` and the symmetric ones are never among them."""

_LEEWAY = 60
"""Seconds by which the provider's clock may differ from ours."""

_METADATA_SECONDS = 3600.0
"""How long the provider's own description is kept."""

_KEYS_SECONDS = 30.0
"""How long after its keys were fetched an unknown key is refused without asking again."""

_TIMEOUT = httpx.Timeout(10.0, connect=5.0)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-on under way, known by one secret that its browser keeps in a cookie.

    `state` ties the provider's answer to the browser, `nonce` ties the ID token to it, and `verifier` the code. Each is
    a one-way function of the secret, so that one seen in an address reveals none of the others.
    """

    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]{43}", self.secret):  # 256 bits: what could be guessed binds no browser
            raise _refused("it was not begun in this browser, or too long ago")

    @property
    def state(self) -> str:
        """What the provider must repeat in its answer."""
        return self._derived("state")

    @property
    def nonce(self) -> str:
        """What the ID token must repeat."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """What proves to the provider that the code is ours to redeem (RFC 7636)."""
        return self._derived("verifier")

    @property
    def challenge(self) -> str:
        """What the provider is told of the verifier beforehand."""
        return _unpadded(hashlib.sha256(self.verifier.encode()).digest())

    def _derived(self, purpose: str) -> str:
        return _unpadded(hmac.digest(self.secret.encode(), purpose.encode(), "sha256"))


class OpenIdProvider:
    """The provider as this service sees it; its description and keys are fetched when first needed and then kept."""

    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        assert settings.oidc_issuer is not None
        secret = settings.oidc_client_secret
        self._issuer = settings.oidc_issuer
        self._client_id = settings.oidc_client_id
        self._client_secret = None if secret is None else secret.get_secret_value()
        self._redirect_uri = settings.public_url.rstrip("/") + CALLBACK
        self._scopes = settings.oidc_scopes
        self._clock = clock
        self._http = httpx.AsyncClient(timeout=_TIMEOUT, headers={"Accept": "application/json"})
        self._metadata: tuple[dict[str, Any], float] | None = None
        self._keys: tuple[KeySet, float] | None = None
        """Each with when it was fetched."""

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def authorization_address(self, attempt: Attempt) -> str:
        """Return where to send a browser to sign on."""
        metadata = await self._described()
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(self._scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        address: str = metadata["authorization_endpoint"]
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(asked)}"

    async def claims(self, attempt: Attempt, answer: Mapping[str, str], wanted: tuple[str, ...]) -> dict[str, Any]:
        """Return the claims about whoever signed on, or raise `NotSignedIn`; `answer` is what the provider sent back.

        When the ID token leaves out one that is wanted, the user info endpoint is asked; what the token says wins.
        """
        if "error" in answer:  # some providers leave out the state then
            raise _refused("the provider has refused it")
        if not hmac.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
            raise _refused("it was not begun in this browser, or another was begun since")
        metadata = await self._described()
        issuer = answer.get("iss")  # RFC 9207
        if issuer is None and metadata.get("authorization_response_iss_parameter_supported"):
            raise _refused("the answer does not say which provider it is from")
        if issuer is not None and issuer != self._issuer:
            raise _refused("the answer is from another provider")
        if "code" not in answer:
            raise _refused("the provider has sent no code")
        tokens = await self._redeem_code(metadata, attempt, answer["code"])
        claims = await self._verified(metadata, str(tokens.get("id_token", "")), attempt.nonce)
        if all(name in claims for name in wanted):
            return claims
        return await self._user_info(metadata, str(tokens.get("access_token", "")), claims["sub"]) | claims

    async def _redeem_code(self, metadata: dict[str, Any], attempt: Attempt, code: str) -> dict[str, Any]:
        """Exchange the code for tokens."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": attempt.verifier,
        }
        auth = None
        methods = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if self._client_secret is None:
            form["client_id"] = self._client_id
        elif "client_secret_basic" in methods:
            # Encoded before they are put together: RFC 6749, section 2.3.1.
            auth = httpx.BasicAuth(quote(self._client_id, safe=""), quote(self._client_secret, safe=""))
        else:
            form |= {"client_id": self._client_id, "client_secret": self._client_secret}
        response = await self._send("POST", metadata["token_endpoint"], data=form, auth=auth)
        if response.status_code in {400, 401, 403}:
            raise _refused("the provider did not accept the code, which may be old or used before")
        return _json(response)

    async def _verified(self, metadata: dict[str, Any], token: str, nonce: str) -> dict[str, Any]:
        """Return the claims of an ID token of the provider, for us, for this attempt and still valid."""
        registry = jwt.JWTClaimsRegistry(
            now=int(self._clock()),
            leeway=_LEEWAY,
            iss={"essential": True, "value": self._issuer},
            sub={"essential": True},
            aud={"essential": True, "value": self._client_id},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            try:
                claims = jwt.decode(token, await self._key_set(metadata), algorithms=ALGORITHMS).claims
            except InvalidKeyIdError:
                claims = jwt.decode(token, await self._key_set(metadata, anew=True), algorithms=ALGORITHMS).claims
            registry.validate(claims)
        except (JoseError, ValueError) as error:
            raise _reject_id_token(error) from None
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else self._client_id) != self._client_id:
            raise _refused("the ID token was made for another program")
        return claims

    async def _user_info(self, metadata: dict[str, Any], access_token: str, subject: str) -> dict[str, Any]:
        """Return what the provider says of whoever signed on beside the ID token; {} where it has no such address."""
        if "userinfo_endpoint" not in metadata or not access_token:
            return {}
        headers = {"Authorization": f"Bearer {access_token}"}
        found = _json(await self._send("GET", metadata["userinfo_endpoint"], headers=headers))
        if found.get("sub") != subject:
            raise _refused("the user info is about somebody else")
        return found

    async def _described(self) -> dict[str, Any]:
        """Return the provider's own description, or raise `Unavailable`."""
        now = self._clock()
        if self._metadata is None or now >= self._metadata[1] + _METADATA_SECONDS:
            address = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
            found = _json(await self._send("GET", address))
            if found.get("issuer") != self._issuer:
                raise _unavailable("calls itself by another name than oidc_issuer")
            optional = ["userinfo_endpoint"] if "userinfo_endpoint" in found else []
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", *optional):
                if not is_safe_address(found.get(name)):
                    raise _unavailable(f"has no {name} with https")
            self._metadata = found, now
        return self._metadata[0]

    async def _key_set(self, metadata: dict[str, Any], *, anew: bool = False) -> KeySet:
        """Return the provider's keys; when a key is unknown they are fetched anew, but not too often."""
        now = self._clock()
        if self._keys is None or now >= self._keys[1] + (_KEYS_SECONDS if anew else _METADATA_SECONDS):
            try:
                keys = KeySet.import_key_set(_json(await self._send("GET", metadata["jwks_uri"])))  # type: ignore[arg-type]
            except (JoseError, ValueError, KeyError, TypeError):
                raise _unavailable("has keys that cannot be read") from None
            self._keys = keys, now
        return self._keys[0]

    async def _send(self, method: str, address: str, **given: Any) -> httpx.Response:  # noqa: ANN401 - as httpx takes it
        try:
            response = await self._http.request(method, address, **given)
        except httpx.HTTPError as error:
            raise _unavailable(f"did not answer ({type(error).__name__})") from None
        if response.status_code >= 500 or 300 <= response.status_code < 400:
            raise _unavailable(f"answered with status {response.status_code}")
        return response


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        found = response.json()
    except ValueError:
        found = None
    if response.status_code != 200 or not isinstance(found, dict):
        raise _unavailable(f"answered with status {response.status_code} and no JSON object")
    return found


def _refused(why: str) -> NotSignedIn:
    _log.warning("single sign-on refused: %s", why)
    return NotSignedIn(f"the sign-on was refused: {why}; begin again")


def _reject_id_token(error: Exception) -> NotSignedIn:
    """An ID token that is not believed; the kind of error has nothing of the token in it, its words may."""
    claim = getattr(error, "claim", "")
    return _refused(f"the ID token is not valid ({type(error).__name__}{f' of {claim}' if claim else ''})")


def _unavailable(why: str) -> Unavailable:
    _log.error("the provider of single sign-on %s", why)
    return Unavailable(
        "the provider of single sign-on cannot be used at the moment; try again, or sign in with a token"
    )


def _unpadded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


BY = "single sign-on"
"""Who did what the provider's groups brought about, in the trail; no person can have this name."""


class SignOn:
    """Signs people on with a provider: they appear with their first sign-on, and each one sets their role anew.

    A role comes from groups alone: whoever is in none that is mapped is refused, and loses all tokens. People are known
    by what the provider identifies them by, never by a name that it may give to somebody else later.
    """

    def __init__(
        self,
        settings: Settings,
        people: People,
        authenticator: Authenticator,
        ledger: Ledger,
        threads: Threads,
        *,
        clock: Clock,
    ) -> None:
        self.provider = OpenIdProvider(settings, clock=clock)
        self._settings = settings
        self._people = people
        self._authenticator = authenticator
        self._ledger = ledger
        self._threads = threads

    async def begin(self) -> tuple[Attempt, str]:
        """Return a new attempt and the provider's address for it."""
        attempt = Attempt(secrets.token_urlsafe(32))
        return attempt, await self.provider.authorization_address(attempt)

    async def finish(self, attempt: Attempt, answer: Mapping[str, str]) -> NewSession:
        """Return the session of whoever signed on, or raise `NotSignedIn`, `Forbidden` or `NameTaken`."""
        groups_claim, name_claim = self._settings.oidc_groups_claim, self._settings.oidc_name_claim
        claims = await self.provider.claims(attempt, answer, (groups_claim, name_claim))
        subject = self.subject(claims["sub"])
        role = self._role(claims.get(groups_claim))
        if role is None:
            await self._threads.run(self._end_access, subject)
            raise Forbidden("none of your groups has a role here; ask a steward which one you need")
        name = person_name(str(claims.get(name_claim) or claims["sub"]))
        return await self._threads.run(self._admitted, subject, name, role)

    def subject(self, given: str) -> str:
        """Return what is stored of whom the provider means: a digest of its address and its own identifier."""
        return hashlib.sha256(f"{self._settings.oidc_issuer} {given}".encode()).hexdigest()

    def _role(self, groups: object) -> Role | None:
        """Return the most that one of the groups stands for; a single group may come as a string."""
        named = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        roles = {self._settings.oidc_roles.get(group) for group in named if isinstance(group, str)}
        return next((role for role in Role if str(role) in roles), None)

    def _admitted(self, subject: str, name: str, role: Role) -> NewSession:
        """Give the person their role and a token that ends with the session, and start the session."""
        person, before = self._people.signed_on(subject, name=name, role=role)
        if before is None:
            self._ledger.record("person.added", by=BY, subject=person.name, details={"role": str(role)})
        elif before is not role:
            self._ledger.record("person.role", by=BY, subject=person.name, details={"role": str(role)})
            self._authenticator.forget_person(person.name)
        return self._authenticator.start_session(self._people.issue_for_session(person.name).secret)

    def _end_access(self, subject: str) -> None:
        """End all tokens and sessions of a person who is in no mapped group any more, and every right of a steward."""
        person = self._people.lost_groups(subject)
        if person is not None:
            self._ledger.record("person.role", by=BY, subject=person.name, details={"role": ""})
            self._authenticator.forget_person(person.name)


def person_name(given: str) -> str:
    """Return a name that people here may have: other characters than those of names become dashes.

    >>> person_name("ada"), person_name("Ada.L@example.org"), person_name("_søren ")
    ('ada', 'Ada.L-example.org', 's-ren')
    """
    return re.sub(r"[^A-Za-z0-9._-]", "-", given.strip()).lstrip("._-")[:64] or "person"
