"""The terms on which an account or a cap was opened: fixed for good, and written into the chain of openings."""

import json
from dataclasses import dataclass
from typing import Any, Literal, Self

from setwise.accounting.answer import Answer
from setwise.accounting.interaction import Interaction
from setwise.accounting.notation import format_use, parse_use
from setwise.accounting.use import Use
from setwise.ledger.canonical import canonical
from setwise.ledger.parts import Totals
from setwise.ledger.period import Period, parse_period

Kind = Literal["setwise", "filter", "cap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What was promised at the opening, and what may be spent for it in each period.

    A set-wise account has `uses` to draw; a filter and a cap have `totals`. `cap` is the holder of the cap that the
    account's charges also draw on.
    """

    kind: Kind
    name: str
    analyst: str
    dataset: str
    period: Period | None
    epsilon: Answer
    delta: float
    failure_share: float
    uses: tuple[Use, ...] = ()
    totals: Totals | None = None
    cap: int | None = None

    def lines(self) -> dict[str, int]:
        """Return what may be spent in a period, per line."""
        if self.totals is not None:
            return self.totals.lines()
        return {format_use(Use(use.guarantee)): use.count for use in self.uses}

    def body(self) -> str:
        """Return the canonical text of the terms."""
        totals = None if self.totals is None else {"rho": self.totals.rho, "failure": self.totals.failure}
        return canonical(
            {
                "kind": self.kind,
                "name": self.name,
                "analyst": self.analyst,
                "dataset": self.dataset,
                "period": self.period,
                "epsilon": {"lower": self.epsilon.lower, "upper": self.epsilon.upper},
                "interaction": self.epsilon.interaction,
                "method": self.epsilon.method,
                "statement": self.epsilon.statement,
                "delta": self.delta,
                "failure_share": self.failure_share,
                "uses": [format_use(use) for use in self.uses],
                "totals": totals,
                "cap": self.cap,
            }
        )

    @classmethod
    def read(cls, body: str) -> Self:
        """Return the terms of a canonical text."""
        record: dict[str, Any] = json.loads(body)
        epsilon, totals = record["epsilon"], record["totals"]
        return cls(
            kind=record["kind"],
            name=record["name"],
            analyst=record["analyst"],
            dataset=record["dataset"],
            period=parse_period(record["period"]),
            epsilon=Answer(
                epsilon["lower"],
                epsilon["upper"],
                Interaction.parse(record["interaction"]),
                record["method"],
                record["statement"],
            ),
            delta=record["delta"],
            failure_share=record["failure_share"],
            uses=tuple(parse_use(text) for text in record["uses"]),
            totals=None if totals is None else Totals(totals["rho"], totals["failure"]),
            cap=record["cap"],
        )
