"""The contract of the REST API: each JSON object that Setwise returns, as a typed dictionary, and the name of a header.

A `to_dict` method returns one of these dictionaries, the service publishes the same classes in its OpenAPI document,
and the Python client returns them to its caller. A field that is added here and filled in by `to_dict` therefore
appears in all three places. This module imports nothing of Setwise, so that every other module may import it.

A key that is marked `NotRequired` is absent where it says nothing; every other key is always present. An epsilon is a
privacy loss, and a delta a probability. A use is text such as "pure:0.1x25": 25 runs of mechanisms that are 0.1-DP. A
time is in seconds since 1970 or, as text, in ISO 8601.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic cannot read typing.TypedDict before Python 3.12

IDEMPOTENCY_HEADER = "Idempotency-Key"
"""The HTTP header with the idempotency key of a question: the service, the client and printed curl commands use it.

The script `service/pages/static/api.js` sets the same header.
"""

Role = Literal["steward", "analyst", "monitor"]
"""The rights of a person in the service."""

State = Literal["open", "frozen", "closed"]
"""Whether an account pays for questions: a frozen account may be opened again, a closed account may not."""

Every = Literal["day", "week", "month", "quarter", "year"]
"""The calendar period after which an account has its whole budget again."""

Rule = Literal["wallet", "zcdp"]
"""How the uses of a cap add up: by a Gaussian wallet, or by their zCDP parameters alone."""

AccountRule = Literal["wallet", "menu", "zcdp"]
"""How the uses of an account add up: as those of a cap, or by the costs of a menu that is fixed at the opening."""

Keep = Literal["either", "wallet", "sum"]
"""By which rule a cap is paid: a Gaussian wallet, a sum of epsilons, or whichever is cheaper while both can pay."""


@dataclass(frozen=True, eq=False)
class Example:
    """An example value of a JSON field, with its meaning and its possible values, for the OpenAPI document.

    Pydantic calls `__get_pydantic_json_schema__` while it writes that document; nothing else reads an `Example`.
    """

    value: object
    meaning: str = ""
    one_of: tuple[str, ...] = ()

    def __get_pydantic_json_schema__(
        self,
        schema: Any,  # noqa: ANN401 - pydantic's own type
        handler: Callable[[Any], dict[str, Any]],
    ) -> dict[str, Any]:
        """Return the JSON schema of the field with the example, the meaning and the possible values."""
        described = {**handler(schema), "examples": [self.value]}
        if self.meaning:
            described["description"] = self.meaning
        if self.one_of:
            described["enum"] = list(self.one_of)
        return described


_HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

Epsilon = Annotated[float, Example(2.0, "a privacy loss")]
Delta = Annotated[float, Example(1e-6, "a probability")]
DatasetName = Annotated[str, Example("events")]
AccountName = Annotated[str, Example("ada-events")]
Hash = Annotated[str, Example(_HASH, "a SHA-256 digest in hexadecimal digits")]
UseTexts = Annotated[list[str], Example(["bounded-range:0.1x10", "pure:0.1x10"], "uses: guarantees with their counts")]
InteractionName = Annotated[
    str,
    Example("setwise", "what the analyst may choose after seeing answers", ("batch", "ordered", "setwise", "adaptive")),
]
Method = Annotated[str, Example("certified-optimum", "the computation that gave the bracket")]
Statement = Annotated[
    str, Example("docs/optimal-composition.md, the set-wise optimum", "the theorem or section with the proof")
]


class BracketRecord(TypedDict):
    """A certified interval for an epsilon or a delta: `lower` and `upper`. The upper end is what is promised."""

    lower: Annotated[float, Example(2.4319)]
    upper: Annotated[float, Example(2.4326)]


class CompositionRecord(TypedDict):
    """The epsilon and delta of several runs of mechanisms together, as certified intervals, and the theorem used.

    The caller stated epsilon or delta; the interval of the stated number has equal ends. `interaction` is what the
    analyst may choose after seeing answers, `method` is how the bounds were computed, and `statement` names the
    theorem. `words` describes each use for people; the command line leaves it out.
    """

    interaction: InteractionName
    epsilon: BracketRecord
    delta: BracketRecord
    method: Method
    statement: Statement
    words: NotRequired[Annotated[list[str], Example(["25 counts at ε 0.1"])]]


class CalibrationRecord(CompositionRecord):
    """The result of a calibration: the `value` found for the one parameter that the caller left open by writing "?".

    For example, "gaussian:?x25" asks for the smallest noise scale with which 25 runs meet an (epsilon, delta). `free`
    says which parameter was open: noise, epsilon or count. `uses` are the runs of mechanisms with the value in place of
    the "?", and the other fields are the epsilon and delta of these runs together.
    """

    free: Annotated[str, Example("noise", "which parameter the ? stands for", ("noise", "epsilon", "count"))]
    value: Annotated[float, Example(21.12)]
    uses: Annotated[list[str], Example(["gaussian:21.12x25"])]


class PersonRecord(TypedDict):
    """A person and their role."""

    name: Annotated[str, Example("ada")]
    role: Annotated[str, Example("analyst", "the rights of the person", ("steward", "analyst", "monitor"))]


class TokenRecord(TypedDict):
    """A token of `person`, without its secret; `label` says what the token is for. Times are in seconds since 1970.

    `expires_at` is None if the token never ends, and `revoked_at` is None if it was not revoked.
    """

    id: Annotated[str, Example("9f86d081884c7d65")]
    person: Annotated[str, Example("ada")]
    label: Annotated[str, Example("laptop")]
    created_at: Annotated[float, Example(1760000000.0)]
    expires_at: Annotated[float | None, Example(1767776000.0)]
    revoked_at: Annotated[float | None, Example(None)]


class NewTokenRecord(TokenRecord):
    """A token that was made by this request; `secret` is shown here and never again."""

    secret: Annotated[str, Example("setwise_...")]


class ColumnRecord(TypedDict):
    """A column that questions may use, and the kind of its values."""

    name: Annotated[str, Example("word")]
    kind: Annotated[
        str,
        Example(
            "text",
            "the kind of its values",
            ("text", "integer", "float", "decimal", "boolean", "date", "timestamp", "instant", "identifier", "other"),
        ),
    ]


class DatasetRecord(TypedDict):
    """The columns of a dataset that questions may use, and its contribution bounds.

    - `items`, `values`, `filters`: the columns to group by, to aggregate and to filter by
    - `contributions`: the most groups in which one user (or part of a user, by `unit`) counts, or None
    - `per_item`: the most that one user (or part of a user) adds to one group, or None: the most rows if rows are
      counted, and the largest amount if a column is summed
    - `public`: the columns of tables without users that SQL may join, by the name of the table
    """

    name: DatasetName
    engine: Annotated[
        str, Example("duckdb", "the engine that reads the table", ("duckdb", "postgresql", "spark", "clickhouse"))
    ]
    user: Annotated[str, Example("user_id")]
    unit: Annotated[str, Example("user", "what is protected: each user, or a part of a user such as user,day")]
    items: list[ColumnRecord]
    values: list[ColumnRecord]
    filters: list[ColumnRecord]
    contributions: Annotated[int | None, Example(10)]
    per_item: Annotated[int | None, Example(20)]
    public: Annotated[
        dict[str, list[ColumnRecord]], Example({"countries": [{"name": "region", "kind": "text"}]}, "tables to join")
    ]


class CatalogRecord(TypedDict):
    """All datasets of the service as a catalog in TOML, and their names."""

    text: Annotated[str, Example('[tables.events]\nsource = "events.parquet"\nuser = "user_id"\n')]
    datasets: Annotated[list[str], Example(["events"])]


class CapRecord(TypedDict):
    """The cap of a dataset: the joint budget (epsilon, delta) that all accounts on the dataset may spend together."""

    dataset: DatasetName
    epsilon: Annotated[float, Example(10.0)]
    delta: Annotated[float, Example(1e-5)]


class ReclaimedRecord(TypedDict):
    """The result of reclaiming reserved budget: the number of `accounts` on `dataset` that lost their unspent part.

    An account reserves parts of the dataset's cap (the joint budget of its accounts). A steward can take back what idle
    accounts have not spent.
    """

    dataset: DatasetName
    accounts: Annotated[int, Example(3)]


class QuestionBudgetRecord(TypedDict):
    """An account's default budget (`epsilon`, `delta`) for SQL over PostgreSQL's protocol that states no budget.

    For at most `fresh_hours` hours, repeating a statement without a budget returns its stored answer, at no cost.
    """

    epsilon: Annotated[float, Example(0.1)]
    delta: Annotated[float, Example(1e-9)]
    fresh_hours: Annotated[float, Example(24.0)]


class PathRecord(TypedDict):
    """Bounds on the privacy loss of all answers so far that an account paid for: the present state of an odometer.

    `upper` changes with each answer. With probability 1 - delta, there is no time at which the privacy loss exceeds the
    value that `upper` has at that time. `lower` shows how tight `upper` is: no epsilon below `lower` can be proved at
    this delta. Mechanisms that ran may fail outright (reveal everything), and the probabilities of these failures are
    taken from delta. `upper` is None if they leave nothing of delta.
    """

    lower: Annotated[float, Example(0.4)]
    upper: Annotated[float | None, Example(1.2)]


class AccountSummaryRecord(TypedDict):
    """The status of an account without its odometers (bounds on the privacy loss so far), which take time to compute.

    - `kind`: "setwise" pays with runs of mechanisms that were registered at its opening, and "filter" from a budget;
      "cap" stands for the joint budget of a dataset's accounts
    - `epsilon`, `delta`: the account guarantees that all its answers are (`epsilon.upper`, `delta`)-DP together
    - `left`, `spent`: the remaining and the spent budget, as runs of mechanisms such as "pure:0.1x25" (25 runs)
    - `every`, `period`: the calendar period that renews the budget, and the present one; None if it is never renewed
    """

    account: AccountName
    kind: Annotated[str, Example("setwise", "how the account pays", ("setwise", "filter", "cap"))]
    analyst: Annotated[str, Example("ada")]
    dataset: DatasetName
    unit: Annotated[str, Example("user", "what the account protects: each user, or a part of a user such as user,day")]
    promise: Annotated[str, Example("Whether or not one person is in the table ...", "the promise in words")]
    epsilon: BracketRecord
    delta: Delta
    method: Method
    statement: Statement
    left: UseTexts
    spent: UseTexts
    share_left: Annotated[float, Example(0.6, "the share of the budget that remains")]
    charges: Annotated[int, Example(1)]
    state: Annotated[str, Example("open", "whether the account pays for questions", ("open", "frozen", "closed"))]
    every: Annotated[str | None, Example(None, "the calendar period after which the whole budget is there again")]
    period: Annotated[str | None, Example(None, "the present period, of an account that has periods")]


class AccountRecord(AccountSummaryRecord):
    """The status of an account with its odometers, which are two bounds on the privacy loss of all answers so far.

    - `odometer`: all answers so far are together (`odometer.upper`, `delta`)-DP if no further question is asked. In a
      list of accounts it is None, and the fields below are absent
    - `path_odometer`: with probability 1 - `delta`, there is no time at which the privacy loss exceeds the upper bound
      that is stated at that time
    - `epsilon_left`, `laplace_epsilon_left`: the largest epsilon of one further question, with any noise and with
      Laplace noise
    - `more_like_last`: how many more questions like the last one the account can pay for
    """

    odometer: Annotated[
        BracketRecord | None,
        Example(
            {"lower": 0.4, "upper": 0.9},
            "the epsilon so far, as a stopping rule: if no further question is asked, all answers together are private "
            "at its upper end and `delta`; null in lists, where it is not computed",
        ),
    ]
    path_odometer: NotRequired[
        Annotated[
            PathRecord,
            Example(
                {"lower": 0.4, "upper": 1.2},
                "the privacy loss of the answers ever exceeds its upper end only with probability `delta`",
            ),
        ]
    ]
    epsilon_left: NotRequired[
        Annotated[float | None, Example(2.6, "the largest epsilon of one further question; null for registered uses")]
    ]
    laplace_epsilon_left: NotRequired[Annotated[float | None, Example(0.32, "the same with Laplace noise, if limited")]]
    more_like_last: NotRequired[
        Annotated[int | None, Example(14, "how many more questions like the last one fit; null before the first")]
    ]


class JointRecord(TypedDict):
    """The joint promise of all accounts on a dataset: all their answers together are (`epsilon.upper`, `delta`)-DP.

    It holds even if the analysts of the accounts share their answers.
    If the budget of an account is renewed, the budgets of `periods` calendar periods are counted. `cap` is the status
    of the dataset's cap (the joint budget of its accounts), or None if it has no cap.
    """

    dataset: DatasetName
    unit: Annotated[str, Example("user", "what is protected: each user, or a part of a user such as user,day")]
    promise: Annotated[str, Example("Whether or not one person is in the table ...", "the promise in words")]
    accounts: Annotated[list[str], Example(["ada-events", "bob-events"])]
    periods: Annotated[int, Example(1)]
    epsilon: BracketRecord
    delta: Delta
    interaction: InteractionName
    method: Method
    statement: Statement
    cap: AccountRecord | None


class EntryRecord(TypedDict):
    """An entry of an account's ledger. Its content is the JSON in `text`, which depends on the `kind`.

    - charge: the question that it paid for
    - settle: the answer to the question of an earlier charge
    - slice: the part of a cap (the joint budget of a dataset's accounts) that the account reserved or gave back
    - release: a part of an answer that an earlier charge paid for, such as a day of a live series

    `period` is the calendar period whose budget paid, or None if the budget is never renewed. `hash` covers this entry
    and the hash of the previous entry.
    """

    entry: Annotated[int, Example(1, "its number in the account")]
    at: Annotated[str, Example("2026-11-15T12:00:00+00:00")]
    kind: Annotated[str, Example("charge", "what the entry records", ("charge", "settle", "slice", "release"))]
    key: Annotated[str, Example("monday-top-ten")]
    period: Annotated[str | None, Example(None)]
    uses: Annotated[list[str], Example(["bounded-range:0.1x10"], "drawn by a charge, returned by a settlement")]
    text: Annotated[str, Example('{"query":{"kind":"top-k"}}', "JSON, as it was written")]
    hash: Hash


class ActRecord(TypedDict):
    """An event of the audit log: the person `by` did `action` (such as person.added) to `subject`.

    Events are kept for good: `hash` covers the event and the events before it, so that a removal is noticed.
    """

    number: Annotated[int, Example(7)]
    at: Annotated[str, Example("2026-11-15T12:00:00+00:00")]
    action: Annotated[str, Example("person.added")]
    by: Annotated[str, Example("steward")]
    subject: Annotated[str, Example("ada")]
    details: Annotated[dict[str, Any], Example({"role": "analyst"})]
    hash: Hash


class AuditRecord(TypedDict):
    """The result of verifying the ledger. The ledger is sound (`verified`) if `faults`, a list of sentences, is empty.

    `accounts` and `entries` are the numbers of accounts and ledger entries that were checked. `head` is one digest of
    the ends of all hash chains. Keep it: with this digest, a later verification finds any change of these entries.
    """

    verified: Annotated[bool, Example(True)]
    accounts: Annotated[int, Example(7)]
    entries: Annotated[int, Example(42)]
    head: Hash
    faults: Annotated[list[str], Example([])]


class HealthRecord(TypedDict):
    """The state of a replica (one process of the service): "ok", or "read-only" if its database accepts no writes.

    A read-only replica returns stored answers, but charges and answers no new question.
    """

    status: Annotated[str, Example("ok", "the state of the database", ("ok", "read-only"))]
    version: Annotated[str, Example("1.0.0")]


class ProblemRecord(TypedDict):
    """The body of an error response (application/problem+json); `detail` says what is wrong and what to do."""

    type: Annotated[str, Example("urn:setwise:problem:invalid-parameter")]
    title: Annotated[str, Example("Invalid parameter")]
    status: Annotated[int, Example(422)]
    detail: Annotated[str, Example("k: Input should be greater than or equal to 1")]
    field: NotRequired[Annotated[str, Example("query.k", "the part of the request at fault")]]


class BudgetRecord(TypedDict):
    """The (`epsilon`, `delta`) that one question costs by itself, if no other question of its account is counted."""

    epsilon: Annotated[float, Example(0.5)]
    delta: Annotated[float, Example(1e-7)]


class PlanRecord(TypedDict):
    """The largest cost of a question, and the accuracy that its answer is planned to have.

    The numbers `expected_error` and `radius` are about the first count or, if there is none, about the first statistic
    (of the last SELECT, if there are several). For a sum of euros, for example, they are in euros. Numbers are None if
    the mechanism has no such number.

    - `mechanism`, `why`: the mechanism, and how it was chosen
    - `accuracy`: how close the answer will be, in words: each statistic, in its own unit
    - `uses`, `epsilon`: the most runs of mechanisms that the question can spend, such as "pure:0.1x25" (25 runs), and
      their cost at `delta`
    - `interaction`, `method`, `statement`: what the analyst may choose after seeing answers, how the bounds in
      `epsilon` were computed, and the theorem that proves them
    - `about`: the statistic that `expected_error` and `radius` are about, such as "counts" or "sums of price"
    - `expected_error`: the mean absolute error
    - `radius`: a bound on the error that holds with probability `confidence`. For a quantile, it is the number of users
      by which its rank may be off
    - `threshold`: the number of a group that `detectable` and `shortfall` are about: "count", "sum of price", or
      "number of users" if several statistics (or other ones) are asked for
    - `detectable`: the exact count that a private group needs to be shown with probability `confidence`. If only the
      groups with the highest counts can be shown, it is instead a difference: a group is shown with this probability if
      its count is at least this much above the highest count of the groups that cannot be shown
    - `above_rank`: the rank of that highest count, such as 1,001; the count is 0 if there are fewer groups. None if
      `detectable` is no difference
    - `shortfall`: a top k picks groups one after another. With probability `confidence`, the count of each picked group
      is at most this much below the highest count of the groups not picked yet
    - `alone`: the cost of the question by itself, if an account pays and the question states its own budget; otherwise
      None
    """

    mechanism: Annotated[str, Example("unknown_gumbel")]
    why: Annotated[str, Example("unknown_gumbel: given by what is drawn from the account")]
    accuracy: Annotated[str, Example("Counts within about 30 (with probability 95%)")]
    uses: UseTexts
    interaction: InteractionName
    epsilon: BracketRecord
    delta: Delta
    method: Method
    statement: Statement
    about: Annotated[str, Example("counts", "the statistic that expected_error and radius are about")]
    expected_error: Annotated[float | None, Example(9.99)]
    radius: Annotated[int | float | None, Example(30)]
    threshold: Annotated[str, Example("count", "the number of a group that detectable and shortfall are about")]
    detectable: Annotated[int | None, Example(None)]
    above_rank: Annotated[int | None, Example(None)]
    shortfall: Annotated[int | None, Example(214)]
    confidence: Annotated[float, Example(0.95)]
    alone: Annotated[BudgetRecord | None, Example(None, "the cost of the question by itself")]


class PreviewRecord(PlanRecord):
    """The plan of a question to the service, and whether its account can pay for it now.

    - `left`: the remaining budget of the account, as runs of mechanisms such as "pure:0.1x50" (50 runs)
    - `words`: a description for people of each of the plan's `uses`, the runs of mechanisms that it can spend
    - `shortage`: a sentence about what is lacking to pay, in the account or in the joint budget of the dataset's
      accounts (the cap); None if the account can pay
    - `warning`: a sentence, or None. The cap can be spent in two ways: in mu squared (as a Gaussian budget) and as a
      sum of epsilons. The sentence warns that the charge would end one of these two ways for all accounts
    """

    left: Annotated[list[str], Example(["bounded-range:0.1x50", "pure:0.1x50"])]
    words: Annotated[list[str], Example(["10 picks at ε 0.1"], "`uses` as pages show them, in order")]
    shortage: Annotated[
        str | None, Example(None, "what the account lacks to pay, and a budget that fits; null if it can pay")
    ]
    warning: Annotated[
        str | None, Example(None, "which rule of the cap the charge would end for all accounts, or null")
    ]


class AnswerItemRecord(TypedDict):
    """One group of an answer: the `count` to report, the `interval` around it, and the raw noisy count `noisy`.

    `noisy` may be negative; use it to add counts up. An answer with other statistics than one count does not have these
    three fields. Each group then has one field for each statistic, under the statistic's name, such as "mean_age": an
    object with `value`, `interval` and `unreliable`.
    """

    item: Annotated[
        str | int | dict[str, str | int],
        Example("the", "the label of the group; an object by column if there are several"),
    ]
    count: NotRequired[Annotated[int | None, Example(731)]]
    interval: NotRequired[Annotated[list[int] | None, Example([701, 761])]]
    noisy: NotRequired[Annotated[int | None, Example(731)]]
    unreliable: NotRequired[Annotated[bool, Example(True, "whether noise may be as large as the count")]]


class AnswerRecord(TypedDict):
    """A private answer as it is stored.

    - `measure`: what the numbers count
    - `items`: the groups with their numbers
    - `spent`: the runs of mechanisms that were charged, such as "pure:0.1x25" (25 runs)
    - `complete`: True if no item that the question asked for can be missing
    - `reason`: why the list of items ends where it does
    - `epsilon`, `delta`: the cost of the answer, at the account's delta if an account paid
    - `alone`: [epsilon, delta] of this answer by itself, if an account paid and the question stated its own budget
    """

    kind: Annotated[str, Example("top-k")]
    measure: Annotated[str, Example("users")]
    items: list[AnswerItemRecord]
    mechanism: Annotated[str, Example("unknown_gumbel")]
    interaction: InteractionName
    epsilon: BracketRecord
    delta: Delta
    method: Method
    statement: Statement
    spent: UseTexts
    complete: Annotated[bool, Example(True)]
    reason: Annotated[str, Example("all 10 items were found")]
    why: Annotated[str, Example("unknown_gumbel: given by what is drawn from the account")]
    confidence: Annotated[float, Example(0.95)]
    interval_note: NotRequired[Annotated[str, Example("Each interval holds the exact number with probability 95%.")]]
    left_out: NotRequired[
        Annotated[str, Example("", "the rows that the numbers do not include because contributions are bounded")]
    ]
    axes: NotRequired[
        Annotated[list[str], Example(["time"], "whether the labels of each group column are names, numbers or time")]
    ]
    hint: NotRequired[Annotated[str, Example("", "how to see more groups, if the answer has few")]]
    alone: NotRequired[Annotated[list[float] | None, Example([0.5, 1e-7])]]
    unit: NotRequired[
        Annotated[str, Example("user,day", "what is protected, where that is only a part of a user; else left out")]
    ]
    promise: NotRequired[
        Annotated[str, Example("Each single day of a user is protected, but ...", "in words, where `unit` is given")]
    ]
    groups: NotRequired[Annotated[list[str], Example([], "the columns of items that have several")]]
    statistics: NotRequired[Annotated[list[str], Example([], "the names of statistics other than one count")]]
    found: NotRequired[Annotated[dict[str, Any], Example({}, "bounds that were left to be found, by column")]]


class OutputRecord(TypedDict):
    """A column that SQL selects: a group column, a statistic of the answer, or a value computed from these two.

    - `name`: the name of the column
    - `group`: the index of the group column, from 0; None for the other two kinds of columns
    - `statistic`: the index of the statistic, from 0; None for the other two kinds of columns
    - `interval`: for a computed column, whether its values have intervals
    """

    name: Annotated[str, Example("users")]
    group: Annotated[int | None, Example(None)]
    statistic: Annotated[int | None, Example(0)]
    interval: Annotated[bool, Example(False, "whether a column that is computed from released rows has intervals")]


class QueryRecord(TypedDict):
    """A query, which is to be polled while its `state` is running.

    - `asked`: the body of the request that asked the query
    - `progress`: how far the query is, as one of four values from 0 to 1, which do not depend on the data
    - `answer`, `problem`: the answer of a query that is done, and the error of one that failed; else None
    - `columns`, `rows`: the columns and rows of an answer in SQL, or None; a row maps columns to group labels or to
      values with intervals
    """

    id: Annotated[str, Example("5f2b8c1e9a7d4c3b8e6f0a1b2c3d4e5f")]
    account: AccountName
    key: Annotated[str, Example("monday-top-ten")]
    state: Annotated[str, Example("done", "where the query stands", ("running", "done", "failed", "cancelled"))]
    progress: Annotated[float, Example(1.0)]
    created_at: Annotated[float, Example(1760000000.0)]
    asked: Annotated[
        dict[str, Any], Example({"dataset": "events", "query": {"kind": "top-k", "item": "word", "k": 10}})
    ]
    answer: AnswerRecord | None
    problem: ProblemRecord | None
    columns: list[OutputRecord] | None
    rows: Annotated[
        list[dict[str, Any]] | None, Example([{"word": "the", "users": {"value": 731, "interval": [701, 761]}}])
    ]
    row_problem: Annotated[
        str | None, Example(None, "why the SQL over released rows failed; `rows` are then the released rows themselves")
    ]
    row_notes: NotRequired[
        Annotated[
            list[str] | None, Example(None, "sentences about the rows, such as how sure intervals of a ratio are")
        ]
    ]


class SeriesRecord(TypedDict):
    """A live series (noisy user counts by period): what it counts, what it cost, and how accurate its numbers are.

    - `spent`: the privacy guarantees that the series was charged, once, at its opening
    - `within`: the half-width of the widest 95% interval of a running total, in users
    - `shown_from`: a private item is shown if its noisy number of users is at least this number; None if the items are
      public
    - `matrix`: a release is noise plus a weighted sum of the counts of its period and of earlier periods; this
      describes the weights in words
    """

    name: Annotated[str, Example("reach")]
    dataset: DatasetName
    account: AccountName
    item: Annotated[str, Example("word")]
    every: Annotated[str, Example("day")]
    start: Annotated[str, Example("2026-01-01")]
    periods: Annotated[int, Example(365)]
    unit: Annotated[str, Example("user", "what is protected: each user, or each day of a user")]
    contributions: Annotated[int, Example(5)]
    spent: Annotated[list[str], Example(["gaussian:4.3", "approx:0.0,3e-07"])]
    within: Annotated[float, Example(54.2, "the half-width of the widest 95% interval of a total")]
    shown_from: Annotated[float | None, Example(170.4, "from how many users on a private item is shown")]
    matrix: Annotated[str, Example("the square root of the prefix sums")]
    closed: Annotated[bool, Example(False)]


class LineRecord(TypedDict):
    """One item (group) of a live series (noisy user counts), with a number and an interval per released period."""

    item: Annotated[str | int, Example("tea")]
    values: Annotated[list[int], Example([120, 180])]
    intervals: Annotated[list[list[int]], Example([[90, 150], [140, 220]])]


class SeriesValuesRecord(TypedDict):
    """The released numbers of a live series (noisy user counts), as running totals or over windows of periods.

    - `every` is the length of a period. `periods` are the first days of the released periods, and `remaining` is the
      number of periods still to be released.
    - `measure` says what the numbers in `series` count, and `left_out` which rows they leave out.
    - `epsilon` and `delta` are what the whole series costs, with its future periods, and `spent` are the mechanism uses
      (runs of mechanisms) that it was charged.
    - `unit` is what the series protects, such as "user" or "user,day" (the rows of a user on one day), and `promise`
      states unit, epsilon and delta in words.
    """

    name: Annotated[str, Example("reach")]
    every: Annotated[str, Example("day")]
    unit: Annotated[str, Example("user")]
    measure: Annotated[str, Example("users from the first period up to each period")]
    left_out: Annotated[str, Example("Of each user at most 5 items count, the first in order of time.")]
    periods: Annotated[list[str], Example(["2026-01-01", "2026-01-02"])]
    remaining: Annotated[int, Example(363)]
    series: list[LineRecord]
    epsilon: BracketRecord
    delta: Delta
    spent: Annotated[list[str], Example(["gaussian:4.3", "approx:0.0,3e-07"])]
    promise: Annotated[str, Example("Each user is protected, with all of their rows.")]


class CancelledRecord(TypedDict):
    """The response to a request to stop the running update of the live series `name` (noisy user counts by period).

    The field `cancelled` is True if the update was stopped. It is False if the replica (process of the service) that
    got the request was running no update of the series; another replica may be running one.
    """

    name: Annotated[str, Example("reach")]
    cancelled: Annotated[bool, Example(True)]


class ReleasedRecord(TypedDict):
    """The periods that an update of the live series `name` (noisy user counts) released, by their first days."""

    name: Annotated[str, Example("reach")]
    released: Annotated[list[str], Example(["2026-01-01", "2026-01-02"])]
