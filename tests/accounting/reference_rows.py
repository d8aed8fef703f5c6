"""Rows of the reference tables, each with the statement it checks, computed independently to forty digits."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path

_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Row:
    statement: str
    parameters: dict
    quantity: str
    value: str

    def __str__(self):
        return f"{self.statement} {json.dumps(self.parameters)}"


def rows(table, *statements):
    """Return the rows of a table that check the statements (all rows when none is named)."""
    with (_DATA / table).open(encoding="utf-8", newline="") as lines:
        every = [
            Row(line["statement"], json.loads(line["parameters"]), line["quantity"], line["value"])
            for line in csv.DictReader(lines)
        ]
    return [row for row in every if not statements or row.statement in statements]
