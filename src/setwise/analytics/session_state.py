"""The state that a session on a table shares with the sessions on that table joined to other tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from setwise.analytics.engines.joins import Join
from setwise.analytics.payer import OneOff
from setwise.analytics.planning.bounds_search import SearchMemory
from setwise.analytics.query import Query
from setwise.analytics.tables.holder_scan import HolderScan
from setwise.analytics.tables.scan_notes import NullSum


@dataclass(frozen=True, slots=True)
class SessionState:
    """State that a session on a table shares with the sessions on that table joined to other tables.

    - `one_off` records the questions that bring their own budget, so that the costs of all these sessions are added up.
    - `searches` remembers what private searches drew for a charge (for example clipping bounds) until the charge has
      its answer. A retry of the question under the same charge uses these values again.
    - `scan` warns the data holder of cells that a question will not read; None if nobody is to be warned.
    """

    one_off: OneOff = field(default_factory=OneOff)
    searches: SearchMemory = field(default_factory=SearchMemory)
    scan: HolderScan | None = None

    def warn_of_query(self, query: Query, joins: Sequence[Join]) -> None:
        """Warn the data holder of cells that `query` cannot read, in its columns and in the tables of `joins`."""
        self.warn_of_text(" ".join(map(str, [*query.to_dict().values(), *joins])), [joins])

    def warn_of_text(self, text: str, joins: Sequence[Sequence[Join]] = (), null_sums: Sequence[NullSum] = ()) -> None:
        """Warn the data holder of cells that a question cannot read, in the columns that the question names.

        `text` is the SQL statement of the question, or another text with the names of the columns. `joins` has the
        joins of each SELECT, for which the scan also checks whether their keys meet rows of the joined table.
        `null_sums` are sums of columns that are null where one of the columns is.
        """
        if self.scan is not None:
            self.scan.warn(text, joins, null_sums)
