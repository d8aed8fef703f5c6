"""An OpenID Connect provider on this machine: `oidc-provider-mock`, with PKCE enforced and lies on request."""

import base64
import hashlib
import io
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import werkzeug.serving
from joserfc import jwt
from joserfc.jwk import RSAKey

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # on loopback only

Token = Callable[[dict[str, Any], RSAKey], str]
"""Makes an ID token of the claims that the provider would have stated, and of its key."""


def honest(claims: dict[str, Any], key: RSAKey) -> str:
    """Return the token that the provider should issue."""
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)


@dataclass
class Provider:
    """A provider in front of the mock: it signs ID tokens itself, so that a test can have it sign wrong ones.

    The mock knows the people, asks them in its own pages, and issues codes; PKCE, which it does not check, is checked
    here.
    """

    url: str = ""
    key: RSAKey = field(
        default_factory=lambda: RSAKey.generate_key(2048, {"use": "sig", "alg": "RS256"}, auto_kid=True)
    )
    token: Token = honest
    metadata: dict[str, Any] = field(default_factory=dict)
    down: bool = False
    groups_in_token: bool = True
    challenges: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    client: httpx.Client = field(default_factory=lambda: httpx.Client(verify=False))

    def knows(self, subject: str, *groups: str, **claims: object) -> None:
        """Let the provider know a person."""
        about = {"preferred_username": subject, "groups": list(groups)} | claims
        assert self.client.put(f"{self.url}/users/{subject}", json=about).status_code == 204

    def answered(self, authorize: str, subject: str) -> str:
        """Sign a person on at the provider, and return the address that it sends the browser back to."""
        response = self.client.post(authorize, data={"sub": subject})
        assert response.status_code == 302, response.text
        return response.headers["location"]


@contextmanager
def provider() -> Iterator[Provider]:
    """Run a provider, and end it at the end."""
    with warnings.catch_warnings(record=True):
        import oidc_provider_mock
        from oidc_provider_mock import _app

    _app.AuthorizationCodeGrant.TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_basic", "client_secret_post", "none"]
    mock = oidc_provider_mock.app(require_nonce=True)
    mock.debug = False
    found = Provider()

    def app(environ: dict[str, Any], start: Callable[..., object]) -> Iterable[bytes]:
        return _answer(found, mock, environ, start)

    server = werkzeug.serving.make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield found
    finally:
        found.client.close()
        server.shutdown()
        thread.join()
        server.server_close()


class _Quiet(werkzeug.serving.WSGIRequestHandler):
    def log(self, *given: object) -> None: ...


def _answer(
    provider: Provider, mock: Callable[..., Any], environ: dict[str, Any], start: Callable[..., object]
) -> Iterable[bytes]:
    path = environ["PATH_INFO"]
    provider.asked.append(path)
    if provider.down:
        return _json(start, {}, "503 Service Unavailable")
    if path == "/jwks":
        return _json(start, {"keys": [provider.key.as_dict(private=False)]})
    form = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(form)
    given = {name: values[0] for name, values in parse_qs(form.decode()).items()}
    if path == "/oauth2/token" and not _verifies(provider, given):
        return _json(start, {"error": "invalid_grant"}, "400 Bad Request")
    status, headers, body = _passed_on(mock, environ)
    if path == "/.well-known/openid-configuration":
        return _json(start, json.loads(body) | provider.metadata)
    if path == "/oauth2/token" and status.startswith("200"):
        tokens = json.loads(body)
        claims = json.loads(_decoded(tokens["id_token"].split(".")[1]))
        if not provider.groups_in_token:
            claims.pop("groups", None)
        return _json(start, tokens | {"id_token": provider.token(claims, provider.key)})
    if path == "/oauth2/authorize" and status.startswith("302"):
        back = parse_qs(urlsplit(dict(headers)["Location"]).query)
        asked = parse_qs(environ["QUERY_STRING"])
        assert asked["code_challenge_method"] == ["S256"]
        if "code" in back:
            provider.challenges[back["code"][0]] = asked["code_challenge"][0]
    start(status, headers)
    return [body]


def _verifies(provider: Provider, given: dict[str, str]) -> bool:
    hashed = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
    challenge = base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()
    return provider.challenges.get(given.get("code", "")) == challenge


def _passed_on(mock: Callable[..., Any], environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
    said: list[Any] = []
    body = b"".join(mock(environ, lambda status, headers, _=None: said.extend((status, headers))))
    return said[0], said[1], body


def _json(start: Callable[..., object], found: object, status: str = "200 OK") -> list[bytes]:
    start(status, [("Content-Type", "application/json")])
    return [json.dumps(found).encode()]


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
