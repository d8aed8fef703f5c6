"""Single sign-on: whom the provider has recognised becomes a person with the role that their groups stand for."""

import hashlib
import re
import secrets
from collections.abc import Mapping

from setwise.errors import Forbidden
from setwise.ledger.ledger import Ledger
from setwise.service.auth.authenticator import Authenticator
from setwise.service.auth.browser_sessions import BrowserSessions, NewSession
from setwise.service.auth.openid import CALLBACK, Attempt, OpenIdProvider, Registration
from setwise.service.auth.people import People, Role
from setwise.service.settings import Settings
from setwise.service.storage.database import Threads
from setwise.service.storage.schema import Clock

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
        sessions: BrowserSessions,
        authenticator: Authenticator,
        ledger: Ledger,
        threads: Threads,
        *,
        clock: Clock,
    ) -> None:
        assert settings.oidc_issuer is not None
        secret = settings.oidc_client_secret
        registration = Registration(
            issuer=settings.oidc_issuer,
            client_id=settings.oidc_client_id,
            client_secret=None if secret is None else secret.get_secret_value(),
            redirect_uri=settings.public_url.rstrip("/") + CALLBACK,
            scopes=settings.oidc_scopes,
        )
        self.provider = OpenIdProvider(registration, clock=clock)
        self._settings = settings
        self._people = people
        self._sessions = sessions
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
        return self._sessions.start(self._people.issue_for_session(person.name).secret)

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
