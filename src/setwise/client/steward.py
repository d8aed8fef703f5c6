"""The calls of a steward over the service's API: people, tokens, datasets, caps, accounts and the audit log.

A cap is the joint budget of a dataset's accounts. Every call returns a JSON object of the service as a typed dictionary
of `setwise.contract`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from setwise.contract import (
    AccountRecord,
    AccountRule,
    ActRecord,
    AuditRecord,
    CapRecord,
    CatalogRecord,
    DatasetRecord,
    EntryRecord,
    Every,
    JointRecord,
    Keep,
    NewTokenRecord,
    PersonRecord,
    QuestionBudgetRecord,
    ReclaimedRecord,
    Role,
    Rule,
    State,
    TokenRecord,
)

_PAGE = 1000
"""Entries, or events of the audit log, that one request asks for."""


class Requests(Protocol):
    """Protocol of a client that sends requests, and repeats a request whose connection was lost."""

    def request(self, method: str, path: str, body: object = None, *, key: str | None = None) -> Any:  # noqa: ANN401
        """Send a request with this HTTP `method`, route `path` and JSON `body`, and return the JSON of the response.

        `key` is the idempotency key, or None. Raises the error of `setwise.errors` that the service's problem document
        names.
        """
        ...


class Steward:
    """The calls of a steward; `Client.steward` returns one. Each raises `Forbidden` if the person is not a steward.

    steward = setwise.connect("https://setwise.example", token=...).steward
    steward.add_person("ada", role="analyst")
    steward.register_dataset("events", table="events.parquet", user="user_id", items=["word"], contributions=10)
    steward.open_filter("ada-events", analyst="ada", dataset="events", epsilon=2.0, delta=1e-6, every="month")
    """

    def __init__(self, client: Requests) -> None:
        self._client = client

    def people(self) -> list[PersonRecord]:
        """Return the record (name and role) of every person of the service."""
        return self._client.request("GET", "/people")

    def add_person(self, name: str, *, role: Role) -> PersonRecord:
        """Add the person `name` with the `role` "steward", "analyst" or "monitor".

        Until the person has a token or uses single sign-on, the service refuses their requests. Raises `NameTaken` if a
        person has the name, or had it before being removed.
        """
        return self._client.request("POST", "/people", {"name": name, "role": role})

    def remove_person(self, name: str) -> PersonRecord:
        """Remove a person and revoke their tokens. Their accounts and answers stay; nobody else can take the name."""
        return self._client.request("DELETE", _path("people", name))

    def join_subject(self, name: str, subject: str) -> PersonRecord:
        """Let the person `name` sign in by single sign-on.

        `subject` is the value of the claim `sub` by which the identity provider identifies the person.
        """
        return self._client.request("PUT", _path("people", name, "subject"), {"subject": subject})

    def tokens(self, person: str) -> list[TokenRecord]:
        """Return the tokens of a person, without their secrets."""
        return self._client.request("GET", _path("people", person, "tokens"))

    def issue_token(self, person: str, *, label: str = "", expires_at: float | None = None) -> NewTokenRecord:
        """Make a token for `person` and return it with its secret, which cannot be read again.

        `label` says what the token is for, and is shown in lists of tokens. `expires_at` is the time at which the token
        ends, in seconds since 1970; with None it ends after the number of days that the operator has set, 90 by
        default.
        """
        body = {"label": label, "expires_at": expires_at}
        return self._client.request("POST", _path("people", person, "tokens"), body)

    def revoke_token(self, person: str, token: str) -> TokenRecord:
        """Revoke the token of `person` with the id `token`, and end the browser sessions that were opened with it."""
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
        per_item: int | None = None,
        types: Mapping[str, str] | None = None,
        public: Mapping[str, str] | None = None,
        csv: Mapping[str, object] | None = None,
        engine: str = "duckdb",
        apart: str = "",
        unit: str = "user",
    ) -> DatasetRecord:
        """Register a table as a dataset, and return its record.

        - `table`: a path in the service's data folder or, for an `engine` other than DuckDB, the name of a table
        - `user`: the column that identifies the user of each row
        - `items`, `values`, `filters`: the columns to group by, to aggregate and to filter by
        - `contributions`: the most groups in which one user counts
        - `per_item`: the most that a user adds to one group: a number of rows for a count of rows, and an amount of the
          summed column for a sum. With None, counts of rows in SQL spend a part of their epsilon on finding this bound
        - `types`: the kinds of CSV columns that are not text
        - `public`: the tables without users that SQL may join, as a mapping from their names to their places
        - `csv`: how the file is written (separator, quote, encoding, header, columns, skip_lines, format)
        - `apart`: why the dataset does not share the cap (joint budget) of other datasets on the table; "" if it does
        - `unit`: what accounts on the dataset protect: "user", or a part of a user such as "user,day", a far weaker
          promise

        Raises `NameTaken`, `UnknownColumn`, `UnsuitableTable` or `InvalidParameter`.
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
            "unit": unit,
        }
        return self._client.request("POST", "/datasets", body)

    def export_catalog(self) -> CatalogRecord:
        """Return all datasets as a catalog: its TOML `text`, which the command line reads, and the datasets' names."""
        return self._client.request("GET", "/catalog")

    def import_catalog(self, text: str, *, apart: str = "") -> CatalogRecord:
        """Register each table of a catalog, given as TOML `text`, as a dataset; return the catalog of all datasets.

        A table is skipped if a dataset with the same name and definition is registered already. `apart` is the reason
        why the new datasets do not share the cap (joint budget) of other datasets on the same tables; "" if they do.

        Raises `InvalidParameter`, `UnsuitableTable`, `UnknownColumn` or `NameTaken`, and then registers nothing. Raises
        `BadRequest` if datasets on one table would have different caps; tables before it stay registered.
        """
        return self._client.request("PUT", "/catalog", {"text": text, "apart": apart})

    def set_cap(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        rule: Rule = "wallet",
        failure_share: float | None = None,
        keep: Keep = "either",
    ) -> CapRecord:
        """Set the cap of `dataset`, the joint budget (epsilon, delta) of all accounts on it; return the cap's record.

        A cap is set once, before the first account is opened, and cannot be changed.

        - `rule`: how charges add up: "zcdp" adds their zCDP parameters, and "wallet" adds what `keep` says
        - `failure_share`: the share of delta for outright failures of mechanisms, which may reveal everything; None is
          the rule's default
        - `keep`: what the rule "wallet" adds. With "wallet", the mu squared of charges must fit into a Gaussian budget.
          With "sum", their epsilons must add up to at most `epsilon`. With "either", both sums are kept until a charge
          fits only one of them; the other one is then dropped for all accounts
        """
        body = {"epsilon": epsilon, "delta": delta, "rule": rule, "failure_share": failure_share, "keep": keep}
        return self._client.request("PUT", _path("datasets", dataset, "cap"), body)

    def reclaim(self, dataset: str, *, idle_hours: float = 0.0) -> ReclaimedRecord:
        """Take back the unspent parts of the cap of `dataset` that idle accounts have reserved.

        The cap is the joint budget of all accounts on the dataset. An account is idle if it had no ledger entry, such
        as a charge, in the last `idle_hours` hours. The result has the number of accounts that lost their reserved
        part.
        """
        return self._client.request("POST", _path("datasets", dataset, "cap", "reclaim"), {"idle_hours": idle_hours})

    def joint(self, dataset: str, *, periods: int = 1) -> JointRecord:
        """Return the (epsilon, delta) of all accounts on `dataset` together, even if their analysts collude.

        If an account's budget is renewed in every calendar period, the budgets of `periods` periods are counted.
        """
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
        """Open the account `name`, which pays with the runs of mechanisms in `uses`, and return its status.

        - `uses`: the runs that are registered now, as text: "bounded-range:0.1x50" stands for 50 runs. They may be
          spent in any order
        - `analyst`: who may spend the uses on questions to `dataset`
        - `delta`: the delta at which the overall epsilon of all uses is certified
        - `every`: the calendar period after which the account has all its uses again; None means never
        - `wallet`: the mu of a Gaussian wallet, which pays for uses that are not registered: together they reveal at
          most as much as one Gaussian mechanism of this mu. 0 for none
        - `failure`: limits the sum of the probabilities that uses paid from the wallet fail outright, which may reveal
          everything
        """
        body: dict[str, object] = {"kind": "setwise", "name": name, "uses": list(uses)}
        body |= {"wallet": wallet, "failure": failure}
        return self._open(body, analyst=analyst, dataset=dataset, delta=delta, every=every)

    def open_filter(
        self,
        name: str,
        *,
        analyst: str,
        dataset: str,
        epsilon: float,
        delta: float,
        every: Every | None = None,
        rule: AccountRule = "wallet",
        failure_share: float | None = None,
        menu: Sequence[str] = (),
    ) -> AccountRecord:
        """Open the account `name` of `analyst` on `dataset` with a budget (epsilon, delta), and return its status.

        - `every`: the calendar period after which the account has its whole budget again; None means never
        - `rule`: how charges add up: in mu squared ("wallet"), by their zCDP parameters ("zcdp"), or by fixed prices of
          the few kinds of mechanisms that `menu` lists ("menu")
        - `failure_share`: the share of delta for outright failures of mechanisms, which may reveal everything; None is
          the rule's default
        - `menu`: only for the rule "menu": guarantees of mechanisms, pure or bounded-range, such as "pure:0.1". The
          account pays only for mechanisms that lose no more privacy than a listed one. In return, it can pay for more
          of them than under "wallet"
        """
        body: dict[str, object] = {"kind": "filter", "name": name, "epsilon": epsilon}
        body |= {"rule": rule, "failure_share": failure_share} | ({"menu": list(menu)} if menu else {})
        return self._open(body, analyst=analyst, dataset=dataset, delta=delta, every=every)

    def freeze(self, account: str, *, reason: str = "") -> AccountRecord:
        """Stop `account` from paying for questions until `thaw` opens it again; the audit log records the `reason`."""
        return self._set_state(account, "frozen", reason)

    def thaw(self, account: str, *, reason: str = "") -> AccountRecord:
        """Let the frozen `account` pay for questions again; `reason` is recorded in the audit log."""
        return self._set_state(account, "open", reason)

    def close_account(self, account: str, *, reason: str = "") -> AccountRecord:
        """Close `account` for good: it pays for no further question. `reason` is recorded in the audit log."""
        return self._set_state(account, "closed", reason)

    def question_budget(self, account: str) -> QuestionBudgetRecord:
        """Return the default budget of `account` for SQL statements over PostgreSQL's protocol that state no budget.

        BI tools send such statements, and each statement spends this budget.
        """
        return self._client.request("GET", _path("accounts", account, "question-budget"))

    def set_question_budget(
        self, account: str, *, epsilon: float, delta: float = 1e-9, fresh_hours: float = 24.0
    ) -> QuestionBudgetRecord:
        """Set the budget (epsilon, delta) of each SQL statement over PostgreSQL's protocol that states none itself.

        `account` pays for these statements, which BI tools send, for example. For at most `fresh_hours` hours,
        repeating a statement returns the stored answer; later it is charged again.
        """
        body = {"epsilon": epsilon, "delta": delta, "fresh_hours": fresh_hours}
        return self._client.request("PUT", _path("accounts", account, "question-budget"), body)

    def account(self, name: str) -> AccountRecord:
        """Return the status of the account `name`, with its odometers: bounds on the privacy loss of its answers."""
        return self._client.request("GET", _path("accounts", name))

    def history(self, account: str, *, after: int = 0) -> Iterator[EntryRecord]:
        """Yield the ledger entries of an account (charges, stored answers) whose number is above `after`, in order."""
        yield from self._pages(_path("accounts", account, "history"), "entry", after)

    def audit(self) -> AuditRecord:
        """Have the service verify the whole ledger; return the result, with a sentence for every fault."""
        return self._client.request("GET", "/audit")

    def trail(self, *, after: int = 0) -> Iterator[ActRecord]:
        """Yield the events of the audit log whose number is above `after`, in order."""
        yield from self._pages("/trail", "number", after)

    def _open(
        self, body: dict[str, object], *, analyst: str, dataset: str, delta: float, every: Every | None
    ) -> AccountRecord:
        """Open an account of `analyst` on `dataset` whose kind and budget are in `body`; return its status.

        The other arguments are added to `body` in place, which is then sent as JSON. `delta` is the delta of the
        account's guarantee, and `every` the calendar period after which the account has its whole budget again (None
        for never).
        """
        body |= {"analyst": analyst, "dataset": dataset, "delta": delta, "every": every}
        return self._client.request("POST", "/accounts", body)

    def _set_state(self, account: str, state: State, reason: str) -> AccountRecord:
        """Set an account's state to "open", "frozen" or "closed", and return the account's status.

        `reason` is recorded in the audit log.
        """
        return self._client.request("PUT", _path("accounts", account, "state"), {"state": state, "reason": reason})

    def _pages(self, path: str, number: str, after: int) -> Iterator[Any]:
        """Yield the records of the list at the route `path`, which is requested page by page.

        Each record has an integer field by which the list is ordered; `number` is the name of this field. Only records
        in which the field is larger than `after` are yielded.
        """
        while page := self._client.request("GET", f"{path}?after={after}&most={_PAGE}"):
            yield from page
            after = page[-1][number]


def _path(*parts: str) -> str:
    """Return the path of a route of the service: its `parts`, each URL-quoted, joined by slashes."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)
