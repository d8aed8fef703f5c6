"""One figure: what it is called, how its numbers are found, how it is drawn, and what it checks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from setwise.accounting.answer import Progress
from setwise.paper.claim import Claim
from setwise.paper.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of the paper (`fig:...`) or one of ours (`new:...`).

    `compute` finds the numbers; `draw` and `claims` use only what its table says, so that the CSV file, the picture
    and the verdicts cannot disagree.
    """

    label: str
    file: str
    title: str
    compute: Callable[[Progress], Table]
    draw: Callable[[Table], "Picture"]
    claims: Callable[[Table], tuple[Claim, ...]]
