"""State that a session on a table shares with the sessions on that table joined to others."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from setwise.analytics.engines.joins import Join
from setwise.analytics.payer import OneOff
from setwise.analytics.planning.bounds_search import SearchMemory
from setwise.analytics.query import Query
from setwise.analytics.tables.holder_scan import HolderScan


@dataclass(frozen=True, slots=True)
class SessionState:
    """State that a session on a table shares with the sessions on that table joined to others.

    `one_off` records the questions that bring their own budget, so that the privacy costs of the questions of all these
    sessions are added up. `searches` remembers bounds that were found for a charge until its outcome is stored. `scan`
    warns the holder of the table of cells that a question will not read; it is None if nobody is to be warned.
    """

    one_off: OneOff = field(default_factory=OneOff)
    searches: SearchMemory = field(default_factory=SearchMemory)
    scan: HolderScan | None = None

    def warn_of_query(self, query: Query, joins: Sequence[Join]) -> None:
        """Warn of cells in the columns of `query`, and in the tables of `joins`, that it will not read."""
        self.warn_of_text(" ".join(map(str, [*query.to_dict().values(), *joins])))

    def warn_of_text(self, text: str) -> None:
        """Warn of cells in the tables and columns that the SQL statement `text` names and that it will not read."""
        if self.scan is not None:
            self.scan.warn(text)
