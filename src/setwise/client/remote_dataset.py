"""A data set of a service, asked as a local session is."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, assert_never

from setwise.accounting.guarantees import Guarantee, Use
from setwise.accounting.intervals import Bracket
from setwise.accounting.notation import parse_use
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.budget import Draws, Spending, Total, spending_of, spending_to_dict
from setwise.analytics.query import Count, HistogramQuery, Query, Sum, TopK, canonical, query_to_dict
from setwise.analytics.session import Domain
from setwise.analytics.tables.domain import read_domain
from setwise.client.client import Client
from setwise.errors import EngineFailed, error_of
from setwise.mechanisms.release import Preview


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePlan:
    """How a question would be answered: mechanism, the most it costs, its own guarantee, and what to expect."""

    name: str
    uses: tuple[Use, ...]
    overall: Bracket
    delta: float
    preview: Preview
    why: str


class RemoteDataset:
    """A data set of a service and the account that pays; `Client.dataset` returns one.

    `top_k`, `histogram`, `count` and `sum` take what those of a local session on an account take, and return the same.
    Bounds that are left out are those that the steward has registered.
    """

    def __init__(self, client: Client, name: str, account: str) -> None:
        self._client = client
        self._name = name
        self._account = account

    def __repr__(self) -> str:
        return f"<setwise data set {self._name!r}, paid for by {self._account!r}>"

    def standing(self) -> dict[str, Any]:
        """Return how the account stands."""
        found: dict[str, Any] = self._client.request("GET", f"/accounts/{self._account}")
        return found

    def top_k(
        self,
        *,
        item: str,
        k: int,
        epsilon: float | None = None,
        delta: float | None = None,
        contributions: int | None = None,
        per_item: int | None = None,
        value: str | None = None,
        domain: Domain | None = None,
        counts: str | Guarantee | None = None,
        mechanism: str | None = None,
        discover: str | Guarantee | None = None,
        where: str | None = None,
        null_item: str | None = None,
        limit: int | None = None,
        key: str | None = None,
    ) -> PrivateAnswer:
        """Return the k items that the most users have, highest first; see `setwise.Session.top_k`."""
        query = TopK(
            item=item,
            k=k,
            contributions=contributions,
            per_item=per_item or 1,
            value=value,
            domain=None if domain is None else read_domain(domain),
            where=where,
            null_item=null_item,
            limit=limit,
        )
        given = {"contributions": contributions, "per_item": per_item}
        return self._ask(
            query,
            spending_of(epsilon=epsilon, delta=delta, counts=counts, mechanism=mechanism, discover=discover),
            key,
            given,
        )

    def histogram(
        self,
        *,
        item: str,
        epsilon: float | None = None,
        delta: float | None = None,
        contributions: int | None = None,
        per_item: int | None = None,
        value: str | None = None,
        domain: Domain | None = None,
        counts: str | Guarantee | None = None,
        mechanism: str | None = None,
        where: str | None = None,
        null_item: str | None = None,
        limit: int | None = None,
        key: str | None = None,
    ) -> PrivateAnswer:
        """Return how many users every item has; see `setwise.Session.histogram`."""
        query = HistogramQuery(
            item=item,
            contributions=contributions or 1,
            per_item=per_item or 1,
            value=value,
            domain=None if domain is None else read_domain(domain),
            where=where,
            null_item=null_item,
            limit=limit,
        )
        given = {"contributions": contributions, "per_item": per_item}
        return self._ask(
            query,
            spending_of(epsilon=epsilon, delta=delta, counts=counts, mechanism=mechanism, discover=None),
            key,
            given,
        )

    def count(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        per_user: int = 1,
        counts: str | Guarantee | None = None,
        mechanism: str | None = None,
        where: str | None = None,
        key: str | None = None,
    ) -> PrivateAnswer:
        """Return how many users there are, or rows, at most `per_user` of a user; see `setwise.Session.count`."""
        return self.ask(
            Count(per_user=per_user, where=where),
            spending_of(epsilon=epsilon, delta=delta, counts=counts, mechanism=mechanism, discover=None),
            key=key,
        )

    def sum(
        self,
        *,
        value: str,
        clip: int,
        epsilon: float | None = None,
        delta: float | None = None,
        counts: str | Guarantee | None = None,
        mechanism: str | None = None,
        where: str | None = None,
        key: str | None = None,
    ) -> PrivateAnswer:
        """Return the sum of an integer column, each user's sum clipped; see `setwise.Session.sum`."""
        query = Sum(value=value, clip=clip, where=where)
        return self.ask(
            query, spending_of(epsilon=epsilon, delta=delta, counts=counts, mechanism=mechanism, discover=None), key=key
        )

    def preview(self, query: Query, spending: Spending) -> RemotePlan:
        """Return what a question would cost and how far off its answer may be; free, and no data is touched."""
        found = self._client.request("POST", "/preview", self._body(query_to_dict(query), spending))
        expected = {name: found[name] for name in ("expected_error", "radius", "detectable", "shortfall")}
        return RemotePlan(
            name=found["mechanism"],
            uses=tuple(parse_use(use) for use in found["cost"]),
            overall=Bracket(found["epsilon"]["lower"], found["epsilon"]["upper"]),
            delta=found["delta"],
            preview=Preview(confidence=Fraction(str(found["confidence"])), **expected),
            why=found["why"],
        )

    def ask(self, query: Query, spending: Spending, *, key: str | None = None) -> PrivateAnswer:
        """Ask a question given as records, under a key of its own unless one is given, and wait for its answer."""
        return self._ask(query, spending, key, {})

    def _ask(self, query: Query, spending: Spending, key: str | None, given: Mapping[str, int | None]) -> PrivateAnswer:
        written = query_to_dict(query)
        for name, bound in given.items():
            if bound is None:  # left to what the steward has registered
                written.pop(name, None)
        body = self._body(written, spending)
        asked = self._client.request("POST", "/queries", body, key=secrets.token_hex(16) if key is None else key)
        ended = self._client.wait(asked)
        if ended["answer"] is not None:
            return PrivateAnswer.from_stored(canonical(ended["answer"]))
        if ended["problem"] is not None:
            raise error_of(ended["problem"])
        raise EngineFailed("the query was cancelled; ask again under the same key")

    def _body(self, query: dict[str, object], spending: Spending) -> dict[str, object]:
        match spending:
            case Total():
                kind = "total"
            case Draws():
                kind = "draws"
            case _:
                assert_never(spending)
        spend = {"kind": kind, **spending_to_dict(spending)}
        return {"dataset": self._name, "account": self._account, "query": query, "spend": spend}
