"""What the service answers with, as typed JSON objects; `docs/reference/routes.md` describes every field."""

from typing import Any, Literal, TypedDict

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
    """An entry of an account: a charge with what was asked, a settlement with the answer, or a slice of a cap.

    `text` is that JSON, as it was written.
    """

    entry: int
    at: str
    kind: Literal["charge", "settle", "slice"]
    key: str
    period: str | None
    uses: list[str]
    text: str
    hash: str


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
