"""Sessions on CSV files, whose columns are read as the types that each question needs.

A CSV file states no types, so its columns are text unless a type is declared. A question such as ``SELECT AVG(amount)``
says itself that `amount` holds numbers. The type is taken from the question and never from the rows, so that no row
decides whether a question is answered. Cells that cannot be read as the type count as null.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.askable import SqlWords
from setwise.analytics.budget import AskedBudget
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.payer import AccountPayer
from setwise.analytics.planning.plan import ExecutablePlan
from setwise.analytics.query import Query
from setwise.analytics.schema import Kind
from setwise.analytics.session import Session
from setwise.analytics.session_state import SessionState
from setwise.analytics.tables.scan_notes import in_python
from setwise.errors import BadRequest

if TYPE_CHECKING:
    from setwise.analytics.sql_question import SqlQuestion

T = TypeVar("T")


class FileSession(Session):
    """A session on a CSV file that reads a text column as numbers, times or truth values if a question needs these.

    Only columns without a declared type are converted, and never the user column.
    - `open_with(types)` returns a session that also reads the columns named in `types` as these types.
    - `declared_types` maps the columns whose types the caller declared to these types.
    - `words` are the keyword arguments of `Session`.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        open_with: Callable[[Mapping[str, Kind]], Session],
        declared_types: Mapping[str, Kind],
        **words: Any,  # noqa: ANN401 - each of its own type, as `Session` declares
    ) -> None:
        super().__init__(engine, types=declared_types, **words)
        self._open_with: Callable[[Mapping[str, Kind]], Session] = partial(self._open_scanned, open_with)
        self._fixed = {*declared_types, self._user, self._person}
        plain = Session(engine, types=declared_types, **words)
        self._by_types: dict[frozenset[tuple[str, Kind]], Session] = {frozenset(): plain}

    def ask_sql(self, text: str, words: SqlWords, called: str | None = None) -> "SqlQuestion":
        """Parse and plan the SQL statement `text` about this file, and return it as a question; nothing is charged.

        Columns of text are read as numbers, times or truth values if the statement needs these. `words` are the
        question's options beside the text, such as its budget, and `called` is one more name by which `text` may refer
        to the table, or None.
        """

        def ask_and_plan(session: Session) -> "SqlQuestion":
            question = session.ask_sql(text, words, called)
            question.plan()  # which checks the types of columns that the parser does not need to know
            return question

        return self._with_needed_types(ask_and_plan)[1]

    def for_question(self, query: Query, budget: AskedBudget) -> Session:
        """Return a session on this table that reads columns as the types that `query` needs.

        The types are found by planning `query` within `budget`: a plan that fails names the types that it lacks.
        """
        return self._with_needed_types(lambda session: session.plan(query, budget))[0]

    def plan(self, query: Query, budget: AskedBudget) -> ExecutablePlan:
        """Return the plan of `query` within `budget`, on this table with the column types that `query` needs."""
        return self._with_needed_types(lambda session: session.plan(query, budget))[1]

    def ask(self, query: Query, budget: AskedBudget, *, key: str | None = None) -> PrivateAnswer:
        """Plan `query`, charge it to `budget`, read the file, and return the noisy answer.

        Columns of the file are read as the types that the query needs. Asking again under the same `key` returns the
        stored answer at no cost; None makes a new key.
        """
        return self.for_question(query, budget).ask(query, budget, key=key)

    def _with_needed_types(self, attempt: Callable[[Session], T]) -> tuple[Session, T]:
        """Return (session, result): a session with which `attempt` succeeds, and what `attempt` returns for it.

        `attempt` plans a question with the session that it is given. If planning fails because the question needs other
        types of columns, and the error names them, `attempt` is called again with a session that reads the columns as
        these types.
        Raises: the error of the last attempt, if it names no type that could be given to a column.
        """
        types: dict[str, Kind] = {}
        while True:
            session = self._read_as(types)
            try:
                return session, attempt(session)
            except BadRequest as error:
                new = {self._key_of(name): Kind(kind) for name, kind in error.needed_types.items()}
                if not new or not all(self._may_read(name, types.get(name or ""), new[name]) for name in new):
                    if self._state.scan is None:
                        raise
                    raise in_python(error) from None
                types |= {name: kind for name, kind in new.items() if name is not None}

    def _may_read(self, name: str | None, before: Kind | None, kind: Kind) -> bool:
        """Return whether a question that could not be planned may be tried again with column `name` read as `kind`.

        For example, a question that sums a text column is planned again with the column read as numbers.

        - The answer is no for the user column, for a column with a declared type, and for a `name` of None (no file has
          the column).
        - `before` is the kind that an earlier attempt at the same question gave to the column; None if no attempt did.
          After such an attempt, only a change from float to integer is allowed, so that the attempts come to an end.
        """
        is_free = name is not None and name not in self._fixed
        return is_free and (before is None or (before, kind) == (Kind.FLOAT, Kind.INTEGER))

    def _key_of(self, name: str) -> str | None:
        """Return the key that the argument `types` of `setwise.open` has for the column `name`; None if no file has it.

        In `types`, a column of a joined table is called TABLE.COLUMN, and any other column by its name alone. If
        several tables have the column, `name` is TABLE.COLUMN already.
        """
        table, _, column = name.rpartition(".")
        if name in self.schema.names:
            return name
        if table in self._beside.names:
            return name
        if table and column in self.schema.names:
            return column
        for joined, source in self._beside.all.items():
            with open_engine(source) as engine:
                if name in engine.describe().names:
                    return f"{joined}.{name}"
        return None

    def _read_as(self, types: Mapping[str, Kind]) -> Session:
        """Return a session on this table that reads further columns as `types`, a mapping from columns to types.

        Equal `types` return the same session. All sessions on the table add up what they spend, so that each can state
        their joint privacy cost.
        """
        wanted = frozenset(types.items())
        if wanted not in self._by_types:
            self._by_types[wanted] = self._open_with(types)
        return self._by_types[wanted]

    def _open_scanned(self, open_with: Callable[[Mapping[str, Kind]], Session], types: Mapping[str, Kind]) -> Session:
        """Return the session `open_with(types)`, which warns of unread cells if this session does.

        Its warnings are about cells that cannot be read as `types`.
        """
        session = open_with(types)
        if (scan := self._state.scan) is not None:
            session._state = replace(self._state, scan=scan.with_types(types))
        return session

    def _with_payer(self, account: AccountPayer, state: SessionState) -> Self:
        paid = super()._with_payer(account, state)
        # This session opens the file with further types, so that it also closes the engines.
        paid._open_with = lambda types: self._read_as(types)._with_payer(account, state)
        paid._by_types = {frozenset(): self._read_as({})._with_payer(account, state)}
        return paid

    def stop_scan(self) -> None:
        """Stop the warnings about cells that cannot be parsed, in all sessions on this file.

        The warnings have exact counts of cells, without noise, so only the data holder may see them. A program that
        lets other people ask questions calls this method first.
        """
        for session in self._by_types.values():
            session.stop_scan()
        super().stop_scan()

    def cancel(self) -> None:
        """Stop the question that another thread is asking; what was charged for it stays charged."""
        for session in list(self._by_types.values()):
            session.cancel()
        super().cancel()

    def close(self) -> None:
        """Close the engines of this session and of the sessions that read the table with other column types."""
        for session in self._by_types.values():
            session.close()
        super().close()
