"""Parsing of a SQL statement into private queries, which are charged, and a free part over their released rows.

Every SELECT of a statement is of one of three kinds. A per-user SELECT computes each of its rows from the rows of one
user, so its result is again a private table (per_user/). A releasing SELECT aggregates private rows over users and
becomes a `Query`, whose noisy answer is released (core_builder.py). A free SELECT reads released rows and public tables
(free/).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from sqlglot import exp

from setwise.analytics.query import AUTO, Contributions
from setwise.analytics.sql.core import StatementSettings
from setwise.analytics.sql.spellings import rewrite_spellings
from setwise.analytics.sql.statement import Statement
from setwise.analytics.sql.statement_reader import StatementReader, TableFacts
from setwise.analytics.sql.suggestions.corrections import (
    corrections,
    simplest_statements,
    with_other_aliases,
    with_paths,
)
from setwise.analytics.sql.suggestions.nullable_sums import nullable_sums, of_numbers
from setwise.analytics.sql.syntax import SPENDING, construct_of, number_in, parse, unsupported
from setwise.analytics.sql.time_units import check_epochs
from setwise.errors import BadRequest, InvalidParameter, Unattainable, UnknownColumn, UnsuitableTable
from setwise.mechanisms.labels import Label


@contextmanager
def _not_too_deep() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise InvalidParameter("the SQL nests too deep: write it with fewer parentheses") from None


NOTHING_KNOWN = TableFacts()
"""The facts about a statement of whose tables nothing is known."""


@_not_too_deep()
def parse_sql(
    text: str,
    *,
    user: str | None = None,
    contributions: Contributions | None = None,
    domain: tuple[Label, ...] | None = None,
    columns: Sequence[str] | None = None,
    facts: TableFacts = NOTHING_KNOWN,
    today: date | None = None,
) -> Statement:
    """Parse the SQL `text` and return the statement: its private queries, and the SQL over their noisy answers.

    - `user` is the user column, unless the OPTIONS clause of the text names it.
    - `contributions` is the most groups in which one user counts, and `domain` the public group keys; both hold for all
      private queries of the statement.
    - `columns` are the columns of the joined tables, needed only if `facts.schema_of` is None; None if not known.
    - `facts` has the names of the tables, and what the catalog (the data holder's file) declares for them.
    - `today` is the value of CURRENT_DATE; None is the current day in UTC.
    Raises: `InvalidParameter`, naming everything that is not supported and, if possible, a statement to write instead.

    >>> from setwise.analytics.query import Query
    >>> sql = "SELECT page, COUNT(DISTINCT who) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 3"
    >>> parse_sql(sql, user="who").query == Query.top_k(item="page", k=3, per_item=1)
    True
    """
    try:
        tree, options, explain = parse(text)
        null_sums = nullable_sums(tree, text)
        tree = rewrite_spellings(tree)
        if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
            raise unsupported(construct_of(tree), "ask one SELECT")
    except InvalidParameter as error:
        if user is None:
            raise
        refusal = _refusal(text, StatementSettings(user=user), facts, columns, [str(error)])
        raise InvalidParameter(refusal) from None
    named = options.get("privacy_unit_column", user)
    if named is None:
        raise InvalidParameter("say which column tells users apart: declare user, or privacy_unit_column in OPTIONS")
    if user is not None and named != user:
        raise InvalidParameter(
            f"the user column of this table is {user!r}, not {named!r}: leave out privacy_unit_column"
        )
    if "max_groups_contributed" in options:
        if contributions is not None:
            raise InvalidParameter("contributions are given twice: leave out max_groups_contributed")
        bound = options["max_groups_contributed"]
        contributions = AUTO if bound == AUTO else number_in(bound, "max_groups_contributed")  # type: ignore[assignment]
    settings = StatementSettings(
        user=named,
        contributions=facts.contributions if contributions is None else contributions,
        contributions_source="catalog" if contributions is None and facts.contributions is not None else "statement",
        domain=domain,
        declared=facts.declared,
        domains=dict(facts.domains),
        today=datetime.now(UTC).date() if today is None else today,
    )
    check_epochs(tree)
    reader = StatementReader(settings, facts, columns)
    try:
        statement = reader.read(tree)
    except InvalidParameter as error:
        reader.problems.add(error)
        statement = None
    if reader.problems.messages or statement is None:
        refusal = _refusal(text, settings, facts, columns, reader.problems.messages)
        raise InvalidParameter(refusal).needing(reader.problems.needed_types)
    spending: dict[str, Any] = {name: float(number_in(options[name], name)) for name in SPENDING if name in options}
    source = statement.cores[-1].source
    if facts.schema_of is not None and null_sums:
        null_sums = of_numbers(null_sums, facts.schema_of(source.table, source.joins))
    return replace(statement, explain=explain, null_sums=null_sums, **spending)


_NOTHING_CLOSE = "no statement that is answered asks nearly this, but one can count the users"
"""The words before a suggestion that only counts users, so that nobody takes it for the question that was refused."""


def _refusal(
    text: str, settings: StatementSettings, facts: TableFacts, columns: Sequence[str] | None, problems: Sequence[str]
) -> str:
    """Return the error message for the refused statement `text`: all its `problems`, and a statement to write instead.

    `settings`, `facts` and `columns` are the arguments with which `text` was parsed. If no correction is accepted, the
    message suggests a count of users. If that is refused too, it suggests nothing.
    """
    message = "; ".join(problems)
    if any(problem.startswith("the table has no column") for problem in problems):
        message += (
            "; a column of another file comes in by JOIN, with private={NAME: FILE} or public={NAME: FILE} for it"
        )

    def columns_of(table: str) -> Sequence[str]:
        with suppress(InvalidParameter, UnknownColumn, UnsuitableTable):
            return (columns or ()) if facts.schema_of is None else facts.schema_of(table, ()).names
        return ()

    def is_accepted(candidate: str, *, may_need_types: bool = False) -> bool:
        """Return whether the SQL text `candidate` is a statement that can be answered, perhaps with a larger budget.

        The text is read with the settings and table facts of the refused statement. `may_need_types` is for columns of
        text, such as those of a CSV file, which can be read again as numbers or times: if it is True, a statement that
        needs this is accepted too.
        """
        reader = StatementReader(settings, facts, columns)
        try:
            statement = reader.read(rewrite_spellings(parse(candidate)[0]))
            if statement is None or reader.problems.messages:
                return may_need_types and 0 < len(reader.problems.messages) <= len(reader.problems.needed_types)
            if not may_need_types and not all(core.fits_kinds for core in statement.cores):
                return False
            if facts.check is not None:
                facts.check(statement)
        except Unattainable:
            return True  # for a larger budget
        except BadRequest as error:
            return may_need_types and bool(error.needed_types)
        except RecursionError:
            return False
        return True

    for candidate in with_other_aliases(text, columns_of):
        if is_accepted(candidate, may_need_types=True):
            return f"{message}; write: {with_paths(candidate, text)}"
    simplest = list(simplest_statements(text, settings.user))
    for candidate in corrections(text, settings.user, columns_of):
        if candidate not in simplest and is_accepted(candidate):
            return f"{message}; write: {with_paths(candidate, text)}"
    for candidate in simplest:
        if is_accepted(candidate):
            return f"{message}; {_NOTHING_CLOSE}; write: {with_paths(candidate, text)}"
    return message


__all__ = ["NOTHING_KNOWN", "TableFacts", "parse_sql"]
