"""Single sign-on with OpenID Connect (code flow with PKCE): tokens are checked, the provider's groups give roles.

`OpenIdProvider` verifies the provider's response and returns the claims about a person; `SignOn` stores the person with
the role of their groups, and starts a session.
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
from setwise.service.slots import Threads
from setwise.service.storage.schema import Clock

_log = logging.getLogger("setwise.service")

CALLBACK = "/sign-on/callback"
"""The path, below the service's public address, to which the provider sends browsers back."""

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Accepted signature algorithms, all asymmetric, so that only the provider can sign; `none` is not among them."""

_LEEWAY = 60
"""Seconds by which the provider's clock may differ from ours."""

_METADATA_SECONDS = 3600.0
"""Seconds for which the provider's metadata and keys are cached."""

_KEYS_SECONDS = 30.0
"""Seconds after fetching the provider's keys in which an unknown key is refused without fetching them again."""

_TIMEOUT = httpx.Timeout(10.0, connect=5.0)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One sign-on in progress, identified by a `secret` that the browser keeps in a cookie.

    Three values are derived from the secret by one-way functions. The three values prove that the provider's messages
    belong to this sign-on:

    - `state`: the provider repeats it in its response
    - `nonce`: the provider puts it into the ID token
    - `verifier`: the service sends it with the provider's authorization code

    Raises `NotSignedIn` for a secret that is not 43 URL-safe characters.
    """

    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]{43}", self.secret):  # 256 bits; a secret that can be guessed proves nothing
            raise _refuse_sign_on("it was not begun in this browser, or too long ago")

    @property
    def state(self) -> str:
        """The text that the provider must repeat in its response, which ties the response to this browser."""
        return self._derive("state")

    @property
    def nonce(self) -> str:
        """The text that the ID token must contain, which ties the token to this sign-on."""
        return self._derive("nonce")

    @property
    def verifier(self) -> str:
        """The PKCE code verifier, which proves to the provider that this service began the sign-on (RFC 7636)."""
        return self._derive("verifier")

    @property
    def challenge(self) -> str:
        """The PKCE code challenge: the SHA-256 of `verifier`, in URL-safe base64.

        The provider gets the challenge when the sign-on begins. Later the service sends it the verifier, and the
        provider checks that the verifier has this hash.
        """
        return _unpadded_base64(hashlib.sha256(self.verifier.encode()).digest())

    def _derive(self, purpose: str) -> str:
        """Return the text that this sign-on attempt uses for one `purpose`, such as "nonce".

        The text is an HMAC of `purpose` under the attempt's random secret, which the browser keeps in a cookie. Nobody
        can compute the text without the secret.
        """
        return _unpadded_base64(hmac.digest(self.secret.encode(), purpose.encode(), "sha256"))


class OpenIdProvider:
    """Client of the OpenID provider that people sign on with.

    The provider's metadata and signing keys are fetched when first needed and then cached for an hour. `settings` have
    the provider's address, and the id and secret of this service at the provider. `clock` returns the time in seconds
    since 1970.
    """

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
        """The metadata and the keys, each with the time at which it was fetched, in seconds since 1970."""

    async def close(self) -> None:
        """Close the HTTP connections to the provider."""
        await self._http.aclose()

    async def authorization_address(self, attempt: Attempt) -> str:
        """Return the URL of the provider's sign-on page, to which the browser is redirected.

        It has the parameters of the sign-on `attempt`: its state, nonce and PKCE challenge.
        """
        metadata = await self._fetch_metadata()
        parameters = {
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
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(parameters)}"

    async def claims(self, attempt: Attempt, answer: Mapping[str, str], wanted: tuple[str, ...]) -> dict[str, Any]:
        """Return the verified claims about the person who signed on in `attempt`.

        `answer` has the query parameters with which the provider sent the browser back. `wanted` names the claims that
        the caller needs: if the ID token lacks one of them, the provider's user info endpoint is asked as well.

        Raises `NotSignedIn` if the response or the token is not valid, and `Unavailable` if the provider does not
        answer.
        """
        if "error" in answer:  # checked before the state, which some providers leave out of an error response
            raise _refuse_sign_on("the provider has refused it")
        if not hmac.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
            raise _refuse_sign_on("it was not begun in this browser, or another was begun since")
        metadata = await self._fetch_metadata()
        issuer = answer.get("iss")  # RFC 9207
        if issuer is None and metadata.get("authorization_response_iss_parameter_supported"):
            raise _refuse_sign_on("the answer does not say which provider it is from")
        if issuer is not None and issuer != self._issuer:
            raise _refuse_sign_on("the answer is from another provider")
        if "code" not in answer:
            raise _refuse_sign_on("the provider has sent no code")
        tokens = await self._redeem_code(metadata, attempt, answer["code"])
        claims = await self._verify_id_token(metadata, str(tokens.get("id_token", "")), attempt.nonce)
        if all(name in claims for name in wanted):
            return claims
        return await self._user_info(metadata, str(tokens.get("access_token", "")), claims["sub"]) | claims

    async def _redeem_code(self, metadata: dict[str, Any], attempt: Attempt, code: str) -> dict[str, Any]:
        """Exchange the authorization `code` of the callback for tokens, and return the provider's JSON response.

        `metadata` is the provider's configuration document, and `attempt` the sign-on whose PKCE verifier is sent.
        Raises `NotSignedIn` if the provider does not accept the code.
        """
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
            # RFC 6749, section 2.3.1: both parts are URL-encoded before they are joined.
            auth = httpx.BasicAuth(quote(self._client_id, safe=""), quote(self._client_secret, safe=""))
        else:
            form |= {"client_id": self._client_id, "client_secret": self._client_secret}
        response = await self._send("POST", metadata["token_endpoint"], data=form, auth=auth)
        if response.status_code in {400, 401, 403}:
            raise _refuse_sign_on("the provider did not accept the code, which may be old or used before")
        return _json(response)

    async def _verify_id_token(self, metadata: dict[str, Any], token: str, nonce: str) -> dict[str, Any]:
        """Return the claims of an ID `token`, after checking its signature, issuer, audience, times and `nonce`.

        `metadata` is the provider's configuration document. Raises `NotSignedIn` if a check fails.
        """
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
            raise _refuse_sign_on("the ID token was made for another program")
        return claims

    async def _user_info(self, metadata: dict[str, Any], access_token: str, subject: str) -> dict[str, Any]:
        """Return the claims about the person `subject` from the provider's user info endpoint.

        `metadata`, the provider's configuration document, has the address of the endpoint, and `access_token` is sent
        to it. Returns {} if the document names no such endpoint, or if `access_token` is "". Raises `NotSignedIn` if
        the endpoint's claims are about another subject.
        """
        if "userinfo_endpoint" not in metadata or not access_token:
            return {}
        headers = {"Authorization": f"Bearer {access_token}"}
        claims = _json(await self._send("GET", metadata["userinfo_endpoint"], headers=headers))
        if claims.get("sub") != subject:
            raise _refuse_sign_on("the user info is about somebody else")
        return claims

    async def _fetch_metadata(self) -> dict[str, Any]:
        """Return the provider's OpenID configuration document, from the cache if it was fetched within the last hour.

        Raises `Unavailable` if it cannot be fetched, names another issuer, or has addresses without TLS.
        """
        now = self._clock()
        if self._metadata is None or now >= self._metadata[1] + _METADATA_SECONDS:
            address = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
            metadata = _json(await self._send("GET", address))
            if metadata.get("issuer") != self._issuer:
                raise _unavailable("calls itself by another name than oidc_issuer")
            optional = ["userinfo_endpoint"] if "userinfo_endpoint" in metadata else []
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", *optional):
                if not is_safe_address(metadata.get(name)):
                    raise _unavailable(f"has no {name} with https")
            self._metadata = metadata, now
        return self._metadata[0]

    async def _key_set(self, metadata: dict[str, Any], *, anew: bool = False) -> KeySet:
        """Return the public keys with which the provider's signatures are verified; the keys are cached for an hour.

        `metadata`, the provider's configuration document, has the address of the keys. `anew` is for a token that is
        signed with a key not in the cache: the keys are then fetched again if they are more than 30 seconds old.
        """
        now = self._clock()
        if self._keys is None or now >= self._keys[1] + (_KEYS_SECONDS if anew else _METADATA_SECONDS):
            try:
                keys = KeySet.import_key_set(_json(await self._send("GET", metadata["jwks_uri"])))  # type: ignore[arg-type]
            except (JoseError, ValueError, KeyError, TypeError):
                raise _unavailable("has keys that cannot be read") from None
            self._keys = keys, now
        return self._keys[0]

    async def _send(self, method: str, address: str, **options: Any) -> httpx.Response:  # noqa: ANN401 - as httpx takes it
        """Send an HTTP request to the provider's URL `address` and return the response.

        `method` is the HTTP method, and `options` are further arguments of the HTTP client, such as headers. Raises
        `Unavailable` if the provider does not answer, or answers with a redirect or a server error.
        """
        try:
            response = await self._http.request(method, address, **options)
        except httpx.HTTPError as error:
            raise _unavailable(f"did not answer ({type(error).__name__})") from None
        if response.status_code >= 500 or 300 <= response.status_code < 400:
            raise _unavailable(f"answered with status {response.status_code}")
        return response


def _json(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object in the provider's `response`.

    Raises `Unavailable` if the status is not 200, or the body is not a JSON object.
    """
    try:
        document = response.json()
    except ValueError:
        document = None
    if response.status_code != 200 or not isinstance(document, dict):
        raise _unavailable(f"answered with status {response.status_code} and no JSON object")
    return document


def _refuse_sign_on(why: str) -> NotSignedIn:
    """Log `why` a sign-on was refused, and return the `NotSignedIn` error to raise, whose message contains `why`."""
    _log.warning("single sign-on refused: %s", why)
    return NotSignedIn(f"the sign-on was refused: {why}; begin again")


def _reject_id_token(error: Exception) -> NotSignedIn:
    """Return the `NotSignedIn` error for an ID token that failed verification.

    Only the type of `error` and the name of the claim at fault are shown and logged, because the error's message may
    quote the token.
    """
    claim = getattr(error, "claim", "")
    return _refuse_sign_on(f"the ID token is not valid ({type(error).__name__}{f' of {claim}' if claim else ''})")


def _unavailable(why: str) -> Unavailable:
    """Log why the single sign-on provider cannot be used, and return the `Unavailable` error to raise.

    The log gets the reason `why`. The error's message leaves out the reason, which concerns only the operator.
    """
    _log.error("the provider of single sign-on %s", why)
    return Unavailable(
        "the provider of single sign-on cannot be used at the moment; try again, or sign in with a token"
    )


def _unpadded_base64(raw: bytes) -> str:
    """Return the bytes `raw` in URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


BY = "single sign-on"
"""The actor under which changes by the provider's groups are recorded in the audit log.

No person can have this name.
"""


class SignOn:
    """Signs people on with an OpenID provider. The first sign-on creates the person, and each sign-on sets their role.

    The role comes from the provider's groups alone. If none of a person's groups has a role, the sign-on is refused and
    the person's tokens are revoked. A person is identified by the provider's stable id, the claim `sub`.

    - `settings`: have the provider's address, and the role of each group
    - `people`: the store of people
    - `authenticator`: starts the browser session after a sign-on
    - `ledger`: its audit log gets each new person and each change of a role
    - `threads`: the threads for short work with the database
    - `clock`: returns the time in seconds since 1970
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
        """Return a new sign-on attempt, and the URL of the provider's sign-on page to redirect the browser to."""
        attempt = Attempt(secrets.token_urlsafe(32))
        return attempt, await self.provider.authorization_address(attempt)

    async def finish(self, attempt: Attempt, answer: Mapping[str, str]) -> NewSession:
        """Return a new browser session for the person who signed on in `attempt`.

        `answer` has the query parameters with which the provider sent the browser back.
        Raises `NotSignedIn` for an invalid response, `Forbidden` if none of the person's groups has a role, and
        `NameTaken` if another person has the same name.
        """
        groups_claim, name_claim = self._settings.oidc_groups_claim, self._settings.oidc_name_claim
        claims = await self.provider.claims(attempt, answer, (groups_claim, name_claim))
        subject = self.subject(claims["sub"])
        role = self._role(claims.get(groups_claim))
        if role is None:
            await self._threads.run(self._end_access, subject)
            raise Forbidden("none of your groups has a role here; ask a steward which one you need")
        name = person_name(str(claims.get(name_claim) or claims["sub"]))
        return await self._threads.run(self._admit, subject, name, role)

    def subject(self, claim: str) -> str:
        """Return the id under which the service's database knows a user of the provider.

        The id is a digest of the provider's issuer and of `claim`, which is the claim `sub` in the user's ID tokens.
        """
        return hashlib.sha256(f"{self._settings.oidc_issuer} {claim}".encode()).hexdigest()

    def _role(self, groups: object) -> Role | None:
        """Return the most trusted role that the settings give to one of the person's groups; None if there is none.

        `groups` is the claim in the ID token: a list of names, or a string for a single group.
        """
        named = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        roles = {self._settings.oidc_roles.get(group) for group in named if isinstance(group, str)}
        return next((role for role in Role if str(role) in roles), None)

    def _admit(self, subject: str, name: str, role: Role) -> NewSession:
        """Record the sign-on of a person with this `role`, and return the new browser session.

        The person, whom the provider knows as `subject`, is created under `name` at the first sign-on. The session's
        token expires with the session.
        """
        person, before = self._people.signed_on(subject, name=name, role=role)
        if before is None:
            self._ledger.record("person.added", by=BY, subject=person.name, details={"role": str(role)})
        elif before is not role:
            self._ledger.record("person.role", by=BY, subject=person.name, details={"role": str(role)})
            self._authenticator.forget_person(person.name)
        return self._authenticator.start_session(self._people.issue_for_session(person.name).secret)

    def _end_access(self, subject: str) -> None:
        """Revoke all tokens and sessions of a person whose groups no longer have a role, and make them an analyst.

        So a former steward is no longer a steward. `subject` identifies the person at the provider. The audit log
        records the change.
        """
        person = self._people.lost_groups(subject)
        if person is not None:
            self._ledger.record("person.role", by=BY, subject=person.name, details={"role": ""})
            self._authenticator.forget_person(person.name)


def person_name(claim: str) -> str:
    """Return a valid person's name made from the provider's name `claim`: forbidden characters become dashes.

    >>> person_name("ada"), person_name("Ada.L@example.org"), person_name("_søren ")
    ('ada', 'Ada.L-example.org', 's-ren')
    """
    return re.sub(r"[^A-Za-z0-9._-]", "-", claim.strip()).lstrip("._-")[:64] or "person"
