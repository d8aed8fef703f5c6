"""What a steward does over the service's API: people and tokens, data sets and caps, accounts, audit and trail.

The answers are typed JSON objects, whose fields `docs/reference/routes.md` describes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict
from urllib.parse import quote

Role = Literal["steward", "analyst", "monitor"]
State = Literal["open", "frozen", "closed"]
Every = Literal["day", "week", "month", "quarter", "year"]
Rule = Literal["wallet", "zcdp"]


class BracketRecord(TypedDict):
    """A certified [lower, upper]; the upper end is promised."""

    lower: float
    upper: float


class PersonRecord(TypedDict):
    """A person."""

    name: str
    role: Role


class TokenRecord(TypedDict):
    """A token without its secret; times are seconds since 1970."""

    id: str
    person: str
    label: str
    created_at: float
    expires_at: float | None
    revoked_at: float | None


class NewTokenRecord(TokenRecord):
    """A token that was just made; its secret is shown this once."""

    secret: str


class ColumnRecord(TypedDict):
    """A column that may be named in questions."""

    name: str
    kind: str


class DatasetRecord(TypedDict):
    """What may be asked of a data set."""

    name: str
    engine: str
    user: str
    items: list[ColumnRecord]
    values: list[ColumnRecord]
    filters: list[ColumnRecord]
    contributions: int | None
    per_item: int
    public: dict[str, list[ColumnRecord]]


class CapRecord(TypedDict):
    """The cap of a data set."""

    dataset: str
    epsilon: float
    delta: float


class ReclaimedRecord(TypedDict):
    """How many accounts gave back what they held of a cap."""

    dataset: str
    accounts: int


class QuestionBudgetRecord(TypedDict):
    """What a statement without a budget costs, and after how many hours it is a new question."""

    epsilon: float
    delta: float
    fresh_hours: float


class AccountRecord(TypedDict):
    """An account's status; `odometer` is None in lists."""

    account: str
    kind: Literal["setwise", "filter", "cap"]
    analyst: str
    dataset: str
    epsilon: BracketRecord
    delta: float
    method: str
    statement: str
    left: list[str]
    spent: list[str]
    share_left: float
    odometer: BracketRecord | None
    path_odometer: BracketRecord | None
    epsilon_left: float | None
    more_like_last: int | None
    charges: int
    state: State
    every: str | None
    period: str | None


class JointRecord(TypedDict):
    """What the accounts on a data set promise together."""

    dataset: str
    accounts: list[str]
    periods: int
    epsilon: BracketRecord
    delta: float
    interaction: str
    method: str
    statement: str
    cap: AccountRecord | None


class EntryRecord(TypedDict):
    """An entry of an account: a charge with what was asked, a settlement with the answer, a slice of a cap, a release.

    A release is a part of an answer, such as a day of a live series, that an earlier charge has paid for.
    `text` is that JSON, as it was written.
    """

    entry: int
    at: str
    kind: Literal["charge", "settle", "slice", "release"]
    key: str
    period: str | None
    uses: list[str]
    text: str
    hash: str


class SeriesRecord(TypedDict):
    """A live series: what it counts, what it cost, and how close its numbers are."""

    name: str
    dataset: str
    account: str
    item: str
    every: str
    start: str
    periods: int
    unit: str
    contributions: int
    spent: list[str]
    within: float
    shown_from: float | None
    matrix: str
    closed: bool


class LineRecord(TypedDict):
    """One item of a live series over time."""

    item: str | int
    values: list[int]
    intervals: list[tuple[int, int]]


class SeriesValuesRecord(TypedDict):
    """The released numbers of a live series."""

    name: str
    every: str
    unit: str
    measure: str
    left_out: str
    periods: list[str]
    remaining: int
    series: list[LineRecord]
    epsilon: BracketRecord
    delta: float
    spent: list[str]
    promise: str


class ActRecord(TypedDict):
    """What somebody did, in its place in the ledger's register."""

    number: int
    at: str
    action: str
    by: str
    subject: str
    details: dict[str, Any]
    hash: str


class AuditRecord(TypedDict):
    """What verifying the ledger found; keep `head` to compare later."""

    verified: bool
    accounts: int
    entries: int
    head: str
    faults: list[str]


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
        return self._client.request("GET", "/people")

    def add_person(self, name: str, *, role: Role) -> PersonRecord:
        """Add a person; they can do nothing until they have a token or sign on."""
        return self._client.request("POST", "/people", {"name": name, "role": role})

    def remove_person(self, name: str) -> PersonRecord:
        """Remove a person: their tokens end, their accounts and answers stay; the name stays taken."""
        return self._client.request("DELETE", _path("people", name))

    def join_subject(self, name: str, subject: str) -> PersonRecord:
        """Let a person use single sign-on whom its provider knows by `subject`."""
        return self._client.request("PUT", _path("people", name, "subject"), {"subject": subject})

    def tokens(self, person: str) -> list[TokenRecord]:
        """Return a person's tokens, without their secrets."""
        return self._client.request("GET", _path("people", person, "tokens"))

    def issue_token(self, person: str, *, label: str = "", expires_at: float | None = None) -> NewTokenRecord:
        """Make a token, for 90 days unless `expires_at` says otherwise; its secret is nowhere but in the answer."""
        body = {"label": label, "expires_at": expires_at}
        return self._client.request("POST", _path("people", person, "tokens"), body)

    def revoke_token(self, person: str, token: str) -> TokenRecord:
        """End a token by its id, and the browser sessions that began with it."""
        return self._client.request("DELETE", _path("people", person, "tokens", token))

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
        return self._client.request("POST", "/datasets", body)

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
        return self._client.request("PUT", _path("datasets", dataset, "cap"), body)

    def reclaim(self, dataset: str, *, idle_hours: float = 0.0) -> ReclaimedRecord:
        """Give back to a cap what accounts hold of it, of those without a charge for `idle_hours`."""
        return self._client.request("POST", _path("datasets", dataset, "cap", "reclaim"), {"idle_hours": idle_hours})

    def joint(self, dataset: str, *, periods: int = 1) -> JointRecord:
        """Return what all accounts on a data set promise together, should their analysts collude."""
        return self._client.request("GET", f"{_path('datasets', dataset, 'joint')}?periods={periods}")

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

    def question_budget(self, account: str) -> QuestionBudgetRecord:
        """Return what a statement of this account costs that names no budget, as BI tools send them."""
        return self._client.request("GET", _path("accounts", account, "question-budget"))

    def set_question_budget(
        self, account: str, *, epsilon: float, delta: float = 1e-9, fresh_hours: float = 24.0
    ) -> QuestionBudgetRecord:
        """Set what such a statement costs, and after how many hours the same statement is a new question."""
        body = {"epsilon": epsilon, "delta": delta, "fresh_hours": fresh_hours}
        return self._client.request("PUT", _path("accounts", account, "question-budget"), body)

    def account(self, name: str) -> AccountRecord:
        """Return the status of an account, with its odometer."""
        return self._client.request("GET", _path("accounts", name))

    def history(self, account: str, *, after: int = 0) -> Iterator[EntryRecord]:
        """Yield the entries of an account in order, from the one after number `after` on."""
        yield from self._paged(_path("accounts", account, "history"), "entry", after)

    def audit(self) -> AuditRecord:
        """Recompute the whole ledger, and return every fault."""
        return self._client.request("GET", "/audit")

    def trail(self, *, after: int = 0) -> Iterator[ActRecord]:
        """Yield what stewards and operators did, in order, from the one after number `after` on."""
        yield from self._paged("/trail", "number", after)

    def _opened(
        self, body: dict[str, object], *, analyst: str, dataset: str, delta: float, every: Every | None
    ) -> AccountRecord:
        body |= {"analyst": analyst, "dataset": dataset, "delta": delta, "every": every}
        return self._client.request("POST", "/accounts", body)

    def _set_state(self, account: str, state: State, reason: str) -> AccountRecord:
        return self._client.request("PUT", _path("accounts", account, "state"), {"state": state, "reason": reason})

    def _paged(self, path: str, number: str, after: int) -> Iterator[Any]:
        while found := self._client.request("GET", f"{path}?after={after}&most={_PAGE}"):
            yield from found
            after = found[-1][number]


def _path(*parts: str) -> str:
    """Return the address of a route, names quoted."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)
