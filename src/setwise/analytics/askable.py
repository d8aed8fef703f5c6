"""Asking in words: the calls that a local session and a dataset of a service share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Unpack, cast

from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.budget import AskedBudget, BudgetWords, budget_of
from setwise.analytics.planning import Plan
from setwise.analytics.query import SHAPES, Columns, Domain, Grouping, Number, Query, Reach, Shares
from setwise.mechanisms.labels import Label


class Words(Grouping, BudgetWords, total=False):
    """The words of a question about groups, and what may be spent on it; see `Grouping` and `BudgetWords`."""


class SqlWords(Reach, BudgetWords, total=False):
    """What is said beside a SELECT: bounds that it does not state itself, and what may be spent on it."""


def parted(words: Mapping[str, Any]) -> tuple[dict[str, Any], BudgetWords]:
    """Return the words of a question and those of its budget apart."""
    spent = {name: words[name] for name in BudgetWords.__annotations__ if name in words}
    return {name: value for name, value in words.items() if name not in spent}, cast("BudgetWords", spent)


class Askable(ABC):
    """A table that answers privately.

    `top_k`, `histogram`, `count`, `sum`, `mean` and `quantile` ask in words; `ask` takes a query and its budget as
    records. `preview` says what such a question would cost and how far off its answer may be, and costs nothing.
    """

    @abstractmethod
    def ask(self, query: Query, budget: AskedBudget, *, key: str | None = None) -> PrivateAnswer:
        """Plan, charge, run and answer a question given as records."""

    @abstractmethod
    def preview(self, query: Query, budget: AskedBudget) -> Plan:
        """Return how the question would be answered: mechanism, cost and expected error; free, no row is read."""

    @abstractmethod
    def read_domain(self, domain: Domain) -> tuple[Label, ...]:
        """Return public labels from a list or a file."""

    def budget(self, words: BudgetWords) -> AskedBudget:
        """Return the budget that the words mean."""
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
        """Return the k items that the most users have, highest first.

        `per_item` is how much one user may add to one item: rows, or units of the integer column `value`. `epsilon` and
        `delta` are the total for this question, and `contributions` bounds how many items one user counts towards; the
        other words are those of `Grouping` and `BudgetWords`. Asking again under the same `key` returns the same answer
        for free.
        """
        return self._ask(Query.top_k, words, key, item=item, k=k, per_item=per_item, value=value)

    def histogram(
        self,
        *,
        item: Columns,
        per_item: int | None = None,
        value: str | None = None,
        key: str | None = None,
        **words: Unpack[Words],
    ) -> PrivateAnswer:
        """Return how many users every item has; the words are those of `top_k`.

        Over an unknown domain `contributions` must be given, and items with few users stay hidden.
        """
        return self._ask(Query.histogram, words, key, item=item, per_item=per_item, value=value)

    def count(
        self,
        *,
        per_user: int | None = None,
        where: str | None = None,
        key: str | None = None,
        **words: Unpack[BudgetWords],
    ) -> PrivateAnswer:
        """Return how many users there are, or with `per_user` above 1 how many events, at most that many of a user."""
        return self._ask(Query.count, words, key, per_user=per_user, where=where)

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
        """Return the sum of a column, each user's own sum clipped to `low` .. `high`, or to 0 .. `clip`.

        With `item` the sum of every item. What is not whole is added up in steps of a thousandth of high - low, unless
        `step` says otherwise.
        """
        asked: dict[str, Any] = {"value": value, "clip": clip, "low": low, "high": high, "step": step, "bounds": bounds}
        return self._ask(Query.sum, words, key, item=item, **asked)

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
        """Return the mean of a column over users, each user's own mean clipped to `low` .. `high`; of every `item`.

        With `per_user` it is over rows instead, each clipped, at most that many of a user.
        """
        asked: dict[str, Any] = {"value": value, "low": low, "high": high, "step": step, "per_user": per_user}
        asked["bounds"] = bounds
        return self._ask(Query.mean, words, key, item=item, **asked)

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
        """Return the value that the share `at` of users are below, or several, on a grid from `low` to `high`."""
        asked: dict[str, Any] = {"value": value, "low": low, "high": high, "at": at, "step": step, "bounds": bounds}
        return self._ask(Query.quantile, words, key, item=item, **asked)

    def distinct(
        self,
        *,
        value: str,
        per_user: int | None = None,
        item: Columns | None = None,
        key: str | None = None,
        **words: Unpack[Words],
    ) -> PrivateAnswer:
        """Return the number of distinct values of a column, of which every user keeps at most `per_user`; by `item`.

        A user with more values keeps a random choice of them; ten, if `per_user` is left out.
        """
        return self._ask(SHAPES["distinct"], words, key, item=item, value=value, per_user=per_user)

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
        """Return the variance of a column over rows, each clipped to `low` .. `high`; of every `item`.

        At most `per_user` rows of a user count in a group; without it every user weighs as much as one row.
        """
        asked: dict[str, Any] = {"value": value, "low": low, "high": high, "per_user": per_user, "bounds": bounds}
        return self._ask(SHAPES["variance"], words, key, item=item, **asked)

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
        """Return the standard deviation of a column over rows; the words are those of `variance`."""
        asked: dict[str, Any] = {"value": value, "low": low, "high": high, "per_user": per_user, "bounds": bounds}
        return self._ask(SHAPES["stddev"], words, key, item=item, **asked)

    def _ask(
        self,
        shape: Callable[..., Query],
        words: Words | BudgetWords,
        key: str | None,
        **asked: Any,  # noqa: ANN401 - checked by the query
    ) -> PrivateAnswer:
        """Part the words into the query and its budget, and ask."""
        asked, spent = parted(asked | words)
        if asked.get("domain") is not None:
            asked["domain"] = self.read_domain(asked["domain"])
        return self.ask(shape(**asked), self.budget(spent), key=key)
