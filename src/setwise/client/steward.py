"""What a steward does over the service's API: people and tokens, data sets and caps, accounts, audit and trail."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from setwise.client.records import (
    AccountRecord,
    ActRecord,
    AuditRecord,
    CapRecord,
    DatasetRecord,
    EntryRecord,
    Every,
    JointRecord,
    NewTokenRecord,
    PersonRecord,
    ReclaimedRecord,
    Role,
    Rule,
    State,
    TokenRecord,
)

_PAGE = 1000
"""Entries and acts that are asked for at once."""


class Requests(Protocol):
    """What is needed of a client: requests that are tried again."""

    def request(self, method: str, path: str, body: object = None, *, key: str | None = None) -> Any:  # noqa: ANN401
        """Return the JSON that a route answers with, or raise the error that its problem stands for."""
        ...


class Steward:
    """A steward's calls; `Client.steward` is one. Whoever is no steward is refused with `Forbidden`.

    steward = setwise.connect("https://setwise.example", token=...).steward
    steward.add_person("ada", role="analyst")
    steward.register_dataset("events", table="events.parquet", user="user_id", items=["word"], contributions=10)
    steward.open_filter("ada-events", analyst="ada", dataset="events", epsilon=2.0, delta=1e-6, every="month")
    """

    def __init__(self, client: Requests) -> None:
        self._client = client

    def people(self) -> list[PersonRecord]:
        """Return everybody."""
        found: list[PersonRecord] = self._client.request("GET", "/people")
        return found

    def add_person(self, name: str, *, role: Role) -> PersonRecord:
        """Add a person; they can do nothing until they have a token or sign on."""
        found: PersonRecord = self._client.request("POST", "/people", {"name": name, "role": role})
        return found

    def remove_person(self, name: str) -> PersonRecord:
        """Remove a person: their tokens end, their accounts and answers stay; the name stays taken."""
        found: PersonRecord = self._client.request("DELETE", f"/people/{quote(name, safe='')}")
        return found

    def join_subject(self, name: str, subject: str) -> PersonRecord:
        """Let a person use single sign-on whom its provider knows by `subject`."""
        path = f"/people/{quote(name, safe='')}/subject"
        found: PersonRecord = self._client.request("PUT", path, {"subject": subject})
        return found

    def tokens(self, person: str) -> list[TokenRecord]:
        """Return a person's tokens, without their secrets."""
        found: list[TokenRecord] = self._client.request("GET", f"/people/{quote(person, safe='')}/tokens")
        return found

    def issue_token(self, person: str, *, label: str = "", expires_at: float | None = None) -> NewTokenRecord:
        """Make a token, for 90 days unless `expires_at` says otherwise; its secret is nowhere but in the answer."""
        body = {"label": label, "expires_at": expires_at}
        found: NewTokenRecord = self._client.request("POST", f"/people/{quote(person, safe='')}/tokens", body)
        return found

    def revoke_token(self, person: str, token: str) -> TokenRecord:
        """End a token by its id, and the browser sessions that began with it."""
        path = f"/people/{quote(person, safe='')}/tokens/{quote(token, safe='')}"
        found: TokenRecord = self._client.request("DELETE", path)
        return found

    def register_dataset(
        self,
        name: str,
        *,
        table: str,
        user: str,
        items: Sequence[str],
        values: Sequence[str] = (),
        filters: Sequence[str] = (),
        contributions: int | None = None,
        per_item: int = 1,
        types: Mapping[str, str] | None = None,
        public: Mapping[str, str] | None = None,
        csv: Mapping[str, object] | None = None,
        engine: str = "duckdb",
        apart: str = "",
    ) -> DatasetRecord:
        """Register a table: its user column, and the columns that may be items, added up or filtered by.

        `types` says which columns of a CSV file are not text, `csv` how it is written (separator, encoding, header,
        columns, skip_lines, format), and `public` which tables without users SQL may join, by name.
        """
        body = {
            "name": name,
            "engine": engine,
            "table": table,
            "user": user,
            "items": list(items),
            "values": list(values),
            "filters": list(filters),
            "contributions": contributions,
            "per_item": per_item,
            "types": dict(types or {}),
            "public": dict(public or {}),
            "csv": None if csv is None else dict(csv),
            "apart": apart,
        }
        found: DatasetRecord = self._client.request("POST", "/datasets", body)
        return found

    def set_cap(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        rule: Rule = "wallet",
        failure_share: float | None = None,
    ) -> CapRecord:
        """Limit all accounts on a data set together, for good; set once, before the first account is opened."""
        body = {"epsilon": epsilon, "delta": delta, "rule": rule, "failure_share": failure_share}
        found: CapRecord = self._client.request("PUT", f"/datasets/{quote(dataset, safe='')}/cap", body)
        return found

    def reclaim(self, dataset: str, *, idle_hours: float = 0.0) -> ReclaimedRecord:
        """Give back to a cap what accounts hold of it, of those without a charge for `idle_hours`."""
        path = f"/datasets/{quote(dataset, safe='')}/cap/reclaim"
        found: ReclaimedRecord = self._client.request("POST", path, {"idle_hours": idle_hours})
        return found

    def joint(self, dataset: str, *, periods: int = 1) -> JointRecord:
        """Return what all accounts on a data set promise together, should their analysts collude."""
        found: JointRecord = self._client.request("GET", f"/datasets/{quote(dataset, safe='')}/joint?periods={periods}")
        return found

    def open_setwise(
        self,
        name: str,
        uses: Sequence[str],
        *,
        analyst: str,
        dataset: str,
        delta: float,
        every: Every | None = None,
        wallet: float = 0.0,
        failure: float = 0.0,
    ) -> AccountRecord:
        """Open an account that draws from registered uses, such as "bounded-range:0.1x50", in any order.

        With `wallet`, a mu, uses of other parameters are paid from a Gaussian wallet of that mu beside them, and may
        fail outright with probability `failure` in all.
        """
        body: dict[str, object] = {"kind": "setwise", "name": name, "uses": list(uses)}
        body |= {"wallet": wallet, "failure": failure}
        return self._opened(body, analyst=analyst, dataset=dataset, delta=delta, every=every)

    def open_filter(
        self,
        name: str,
        *,
        analyst: str,
        dataset: str,
        epsilon: float,
        delta: float,
        every: Every | None = None,
        rule: Rule = "wallet",
        failure_share: float | None = None,
    ) -> AccountRecord:
        """Open an account with a total, for uses of any parameters.

        `failure_share` of delta is set aside for outright failures. The rule "zcdp" takes uses of which only their
        zCDP is known.
        """
        body: dict[str, object] = {"kind": "filter", "name": name, "epsilon": epsilon}
        body |= {"rule": rule, "failure_share": failure_share}
        return self._opened(body, analyst=analyst, dataset=dataset, delta=delta, every=every)

    def freeze(self, account: str, *, reason: str = "") -> AccountRecord:
        """Let an account pay for nothing until it is opened again."""
        return self._set_state(account, "frozen", reason)

    def thaw(self, account: str, *, reason: str = "") -> AccountRecord:
        """Open a frozen account again."""
        return self._set_state(account, "open", reason)

    def close_account(self, account: str, *, reason: str = "") -> AccountRecord:
        """Close an account for good."""
        return self._set_state(account, "closed", reason)

    def account(self, name: str) -> AccountRecord:
        """Return the status of an account, with its odometer."""
        found: AccountRecord = self._client.request("GET", f"/accounts/{quote(name, safe='')}")
        return found

    def history(self, account: str, *, after: int = 0) -> Iterator[EntryRecord]:
        """Yield the entries of an account in order, from the one after number `after` on."""
        yield from self._paged(f"/accounts/{quote(account, safe='')}/history", "entry", after)

    def audit(self) -> AuditRecord:
        """Recompute the whole ledger, and return every fault."""
        found: AuditRecord = self._client.request("GET", "/audit")
        return found

    def trail(self, *, after: int = 0) -> Iterator[ActRecord]:
        """Yield what stewards and operators did, in order, from the one after number `after` on."""
        yield from self._paged("/trail", "number", after)

    def _opened(
        self, body: dict[str, object], *, analyst: str, dataset: str, delta: float, every: Every | None
    ) -> AccountRecord:
        body |= {"analyst": analyst, "dataset": dataset, "delta": delta, "every": every}
        found: AccountRecord = self._client.request("POST", "/accounts", body)
        return found

    def _set_state(self, account: str, state: State, reason: str) -> AccountRecord:
        path = f"/accounts/{quote(account, safe='')}/state"
        found: AccountRecord = self._client.request("PUT", path, {"state": state, "reason": reason})
        return found

    def _paged(self, path: str, number: str, after: int) -> Iterator[Any]:
        while found := self._client.request("GET", f"{path}?after={after}&most={_PAGE}"):
            yield from found
            after = found[-1][number]
