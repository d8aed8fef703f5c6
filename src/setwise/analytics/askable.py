"""Calls for asking questions (`top_k`, `count`, `mean`, ...), shared by local sessions and the client of a service."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.budget import AskedBudget, BudgetWords, budget_of, default_delta
from setwise.analytics.catalog import Declaration
from setwise.analytics.planning.plan import Plan
from setwise.analytics.query import (
    AUTO,
    SHAPES,
    Columns,
    Domain,
    Grouping,
    Number,
    Query,
    Reach,
    Shares,
    parameters_of,
)
from setwise.analytics.statistics import STATISTICS
from setwise.analytics.statistics.parameters import build
from setwise.mechanisms.labels import Label

if TYPE_CHECKING:
    from setwise.ledger.terms import Terms


class Words(Grouping, BudgetWords, total=False):
    """Keyword arguments of a question: about its groups (`Grouping`), and about its budget (`BudgetWords`)."""


class SqlWords(Reach, BudgetWords, total=False):
    """Keyword arguments beside a SQL text: the budget, and limits on groups that the text does not state itself.

    The budget is stated as in `BudgetWords`, such as by `epsilon` and `delta`. The limits on groups are the most groups
    in which one user counts (`contributions`), and the public group keys (`domain`).
    """


Asked: TypeAlias = tuple[dict[str, Any], BudgetWords]
"""The parameters of a question by name, and the keyword arguments that state its budget."""


def split_budget(words: Mapping[str, Any]) -> tuple[dict[str, Any], BudgetWords]:
    """Return the keyword arguments `words` of a question as two dictionaries: (about the query, about its budget).

    The arguments about the budget are those that `BudgetWords` names, such as epsilon. The caller builds the query and
    its budget separately.
    """
    spent = {name: words[name] for name in BudgetWords.__annotations__ if name in words}
    return {name: value for name, value in words.items() if name not in spent}, cast("BudgetWords", spent)


def with_defaults(
    kind: str, words: Mapping[str, Any], spent: BudgetWords, declared: Declaration, terms: "Terms | None"
) -> Asked:
    """Return (parameters, budget) of a question, with defaults for the bounds on a user and for delta filled in.

    - `kind` is the name of the question's shape, such as "mean".
    - `words` are its parameters by name, and `spent` is its budget.
    - `declared` has the bounds that the catalog (the data holder's file of declared tables) states for the table.
    - `terms` are the terms (promise and budget) of the account that pays; None without account. The default delta, for
      a question with private groups, depends on them.

    A bound that the question leaves out is taken from `declared`, or else left to a private search:

    - clipping bounds,
    - the most groups of a user (not for a top k),
    - the most rows of a user (for a variance, a standard deviation or a number of distinct values).

    A question that states neither an epsilon nor an accuracy is paid with guarantees that an account registered in
    advance. For such a question only the most rows of a user are filled in. The other bounds are not: they might need a
    private search, which is paid from an epsilon that this question does not have. It gets no default delta either,
    because its delta is that of a registered guarantee.
    """
    filled = dict(words)
    if kind in STATISTICS and STATISTICS[kind].over_rows and words.get("per_user") is None:
        filled["per_user"] = declared.rows_per_user  # None leaves the number to a private search
    if spent.get("epsilon") is None and spent.get("within") is None:
        return filled, spent
    stated = [name for name in ("low", "high", "clip", "step", "bounds") if words.get(name) is not None]
    if "bounds" in parameters_of(SHAPES[kind]) and not stated:
        if (bounds := declared.bounds.get(str(words.get("value")))) is None:
            filled["bounds"] = AUTO
        else:
            filled["low"], filled["high"] = bounds
    if words.get("item") is None or words.get("domain") is not None:
        return filled, spent
    if kind != "top-k" and words.get("contributions") is None:
        filled["contributions"] = declared.contributions or AUTO
    return filled, spent if spent.get("delta") is not None else {**spent, "delta": default_delta(terms)}


class Askable(ABC):
    """A table that answers questions privately.

    Its methods `top_k`, `histogram`, `count`, `sum`, `mean`, `quantile`, `distinct`, `variance` and `stddev` take
    keyword arguments; `ask` takes a `Query` and its budget as records. `preview` returns the cost of a question and the
    expected error of its answer, and costs nothing.
    """

    @abstractmethod
    def ask(self, query: Query, budget: AskedBudget, *, key: str | None = None) -> PrivateAnswer:
        """Plan `query`, charge it to `budget`, read the table, and return the noisy answer.

        Asking again under the same `key` returns the stored answer at no cost; None makes a new key.
        """

    @abstractmethod
    def preview(self, query: Query, budget: AskedBudget) -> Plan:
        """Return how `query` would be answered within `budget`: mechanism, cost and expected error.

        A preview reads no row and costs nothing.
        """

    @abstractmethod
    def read_domain(self, domain: Domain) -> tuple[Label, ...]:
        """Return the public group keys that `domain` states: a list, or the path of a public file that lists them."""

    def budget(self, words: BudgetWords) -> AskedBudget:
        """Return the budget that the keyword arguments `words` state.

        The budget is an (epsilon, delta), an accuracy to reach (`Within`), or the guarantees of single mechanisms, for
        which an account pays (`Draws`).
        """
        return budget_of(words)

    def top_k(
        self,
        *,
        item: Columns,
        k: int,
        per_item: int | None = None,
        value: str | None = None,
        key: str | None = None,
        **words: Unpack[Words],
    ) -> PrivateAnswer:
        """Return the `k` items with the highest numbers, highest first, with these numbers plus noise.

        - `item` is the column, or the columns, whose values are the items.
        - Without `per_item` and `value`, the number of an item says how many users have the item. With `per_item` alone
          it says how many rows have the item, where at most `per_item` rows of each user count.
        - With `value`, a column of integers, it is the sum of this column over the item's rows. Each user adds at least
          0 and at most `per_item`, or 1 without `per_item`.
        - A service takes the `per_item` of its dataset, if that has one, wherever the question leaves `per_item` out.
        - `key`: asking again under the same key returns the same answer at no cost. None makes a new key.
        - `words` state the groups (see `Grouping`) and the budget (see `BudgetWords`).
        """
        return self._ask("top-k", words, key, item=item, k=k, per_item=per_item, value=value)

    def histogram(
        self,
        *,
        item: Columns,
        per_item: int | None = None,
        value: str | None = None,
        key: str | None = None,
        **words: Unpack[Words],
    ) -> PrivateAnswer:
        """Return every item with its number plus noise: its users, its rows, or the sum of a column.

        - `item` is the column, or the columns, whose values are the items. If they are not public (no `domain`), items
          with few users are left out.
        - Without `per_item` and `value`, the number of an item says how many users have the item. With `per_item` alone
          it says how many rows have the item, where at most `per_item` rows of each user count.
        - With `value`, a column of integers, it is the sum of this column over the item's rows. Each user adds at least
          0 and at most `per_item`, or 1 without `per_item`.
        - A service takes the `per_item` of its dataset, if that has one, wherever the question leaves `per_item` out.
        - `key`: asking again under the same key returns the same answer at no cost. None makes a new key.
        - `words` state the groups (see `Grouping`) and the budget (see `BudgetWords`). If the items are not public and
          `contributions` (the most items that one user counts towards) is left out, a session finds it privately with a
          tenth of epsilon, and a service takes the bound that its dataset has.
        """
        return self._ask("histogram", words, key, item=item, per_item=per_item, value=value)

    def count(
        self,
        *,
        per_user: int | None = None,
        where: str | None = None,
        key: str | None = None,
        **words: Unpack[BudgetWords],
    ) -> PrivateAnswer:
        """Return the noisy number of users or, if `per_user` is given, of rows.

        - `per_user` is the most rows of each user that are counted.
        - `where` is a condition on the rows to be counted; None counts all rows.
        - `key`: asking again under the same key returns the same answer at no cost. None makes a new key.
        - `words` state the budget (see `BudgetWords`).
        """
        return self._ask("count", words, key, per_user=per_user, where=where)

    def sum(
        self,
        *,
        value: str,
        clip: int | None = None,
        low: Number | None = None,
        high: Number | None = None,
        step: Number | None = None,
        bounds: str | None = None,
        item: Columns | None = None,
        key: str | None = None,
        **words: Unpack[Words],
    ) -> PrivateAnswer:
        """Return the noisy sum of the column `value`; each user adds their own sum, clipped to `low` .. `high`.

        - `clip` is short for the bounds 0 .. `clip`.
        - `step` is the rounding step: each user's own sum is rounded to a multiple of it. If it is None, the step is 1
          for a column of integers, and a thousandth of high - low for other columns.
        - `bounds="auto"` finds the bounds privately with a tenth of epsilon.
        - `item` is a column, or several, to group rows by: each of its values gets one sum. A user's own sum is then
          clipped in each group by itself.
        - `key`: asking again under the same key returns the same answer at no cost. None makes a new key.
        - `words` state the groups (see `Grouping`) and the budget (see `BudgetWords`).
        """
        return self._ask(
            "sum", words, key, item=item, value=value, clip=clip, low=low, high=high, step=step, bounds=bounds
        )

    def mean(
        self,
        *,
        value: str,
        low: Number | None = None,
        high: Number | None = None,
        step: Number | None = None,
        per_user: int | None = None,
        bounds: str | None = None,
        item: Columns | None = None,
        key: str | None = None,
        **words: Unpack[Words],
    ) -> PrivateAnswer:
        """Return the noisy mean over users of each user's own mean of the column `value`.

        - Each user's own mean is clipped to `low` .. `high`, and rounded to a multiple of `step`. A `step` of None is a
          thousandth of high - low.
        - `per_user` asks for the mean over rows instead. The value of each row is then clipped, and a user with more
          than `per_user` rows has the weight of `per_user` rows.
        - `bounds="auto"` finds `low` and `high` privately with a tenth of epsilon.
        - `item` is a column, or several, to group rows by: each of its values gets one mean.
        - `key`: asking again under the same key returns the same answer at no cost. None makes a new key.
        - `words` state the groups (see `Grouping`) and the budget (see `BudgetWords`).
        """
        return self._ask(
            "mean", words, key, item=item, value=value, low=low, high=high, step=step, per_user=per_user, bounds=bounds
        )

    def quantile(
        self,
        *,
        value: str,
        low: Number | None = None,
        high: Number | None = None,
        at: Shares = 0.5,
        step: Number | None = None,
        bounds: str | None = None,
        item: Columns | None = None,
        key: str | None = None,
        **words: Unpack[Words],
    ) -> PrivateAnswer:
        """Return quantiles of the column `value` at the levels `at`, such as 0.5 for the median.

        All users have equal weight; the weight of a user is divided evenly among the user's rows.
        - The exponential mechanism selects one of low, low + step, .., high. A `step` of None is a thousandth of high -
          low. In a column of integers it is then rounded up to a whole number, and it is 1 if the bounds are at most
          10,000 apart.
        - `at` is a level between 0 and 1, or a list of levels for one quantile each.
        - `bounds="auto"` finds `low` and `high` privately with a tenth of epsilon.
        - `item` is a column, or several, to group rows by: each of its values gets quantiles of its own.
        - `key`: asking again under the same key returns the same answer at no cost. None makes a new key.
        - `words` state the groups (see `Grouping`) and the budget (see `BudgetWords`).
        """
        return self._ask(
            "quantile", words, key, item=item, value=value, low=low, high=high, at=at, step=step, bounds=bounds
        )

    def distinct(
        self,
        *,
        value: str,
        per_user: int | None = None,
        item: Columns | None = None,
        key: str | None = None,
        **words: Unpack[Words],
    ) -> PrivateAnswer:
        """Return the noisy number of distinct values of the column `value`; each user adds at most `per_user` values.

        - `per_user` is found privately with a tenth of epsilon if it is left out. Of a user with more than `per_user`
          distinct values, a random choice of `per_user` values is kept. A value is counted if it is kept of at least
          one user.
        - `item` is a column, or several, to group rows by: each group gets one number, and `per_user` is a limit in
          each group by itself.
        - `key`: asking again under the same key returns the same answer at no cost. None makes a new key.
        - `words` state the groups (see `Grouping`) and the budget (see `BudgetWords`).
        """
        return self._ask("distinct", words, key, item=item, value=value, per_user=per_user)

    def variance(
        self,
        *,
        value: str,
        low: Number | None = None,
        high: Number | None = None,
        per_user: int | None = None,
        bounds: str | None = None,
        item: Columns | None = None,
        key: str | None = None,
        **words: Unpack[Words],
    ) -> PrivateAnswer:
        """Return the noisy population variance of the column `value` over rows; values are clipped to `low` .. `high`.

        - `per_user` limits the weight of a user: a user with more than `per_user` rows counts like `per_user` rows. 1
          gives all users equal weight. If `per_user` is left out, it is found privately with a tenth of epsilon.
        - `bounds="auto"` finds `low` and `high` privately with a tenth of epsilon.
        - `item` is a column, or several, to group rows by: each group gets one variance, and `per_user` is a limit in
          each group by itself.
        - `key`: asking again under the same key returns the same answer at no cost. None makes a new key.
        - `words` state the groups (see `Grouping`) and the budget (see `BudgetWords`).
        """
        return self._ask(
            "variance", words, key, item=item, value=value, low=low, high=high, per_user=per_user, bounds=bounds
        )

    def stddev(
        self,
        *,
        value: str,
        low: Number | None = None,
        high: Number | None = None,
        per_user: int | None = None,
        bounds: str | None = None,
        item: Columns | None = None,
        key: str | None = None,
        **words: Unpack[Words],
    ) -> PrivateAnswer:
        """Return the noisy standard deviation of the column `value` over rows: the square root of `variance`.

        - Values are clipped to `low` .. `high`. `bounds="auto"` finds these bounds privately with a tenth of epsilon.
        - A user with more than `per_user` rows counts like `per_user` rows; the number is found privately if it is left
          out.
        - `item` is a column, or several, to group rows by: each group gets one standard deviation.
        - `key`: asking again under the same key returns the same answer at no cost. None makes a new key.
        - `words` state the groups (see `Grouping`) and the budget (see `BudgetWords`).
        """
        return self._ask(
            "stddev", words, key, item=item, value=value, low=low, high=high, per_user=per_user, bounds=bounds
        )

    def _ask(
        self,
        kind: str,
        words: Words | BudgetWords,
        key: str | None,
        **parameters: Any,  # noqa: ANN401 - checked by the query
    ) -> PrivateAnswer:
        """Build a query from `parameters` and `words`, ask it within the budget in `words`, and return its answer.

        - `kind` is the name of the query's shape, such as "top-k".
        - `parameters` are the arguments of this shape, and `words` are the arguments about groups and budget.
        - `key`: asking again under the same key returns the same answer at no cost. None makes a new key.
        Raises: `InvalidParameter` for a keyword argument that the query does not have.
        """
        parameters, spent = self.with_defaults(kind, *split_budget(parameters | words))
        if parameters.get("domain") is not None:
            parameters["domain"] = self.read_domain(parameters["domain"])
        query: Query = build(SHAPES[kind], f"a {kind} query", parameters)
        return self.ask(query, self.budget(spent), key=key)

    def with_defaults(self, kind: str, parameters: dict[str, Any], spent: BudgetWords) -> Asked:  # noqa: ARG002 - `Session` uses it
        """Return (`parameters`, `spent`), the parameters and the budget of a question, with defaults filled in.

        `kind` is the name of the question's shape, such as "mean". Here nothing is filled in, because a service fills
        in the defaults of its datasets itself. `Session`, which runs without a service, overrides this method.
        """
        return parameters, spent
