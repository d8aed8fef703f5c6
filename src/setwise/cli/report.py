"""How answers are shown: one JSON object for programs, a table for people."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from setwise.accounting.answer import Answer
from setwise.accounting.notation import format_use
from setwise.accounting.use import Use
from setwise.accounting.written import rounded_down, rounded_up

if TYPE_CHECKING:
    from setwise.paper.claim import Claim

_COVERS = {
    "batch": "every mechanism chosen up front",
    "ordered": "parameters in this order, each mechanism chosen after the answers before it",
    "setwise": "parameters drawn in any order, order and mechanisms chosen after the answers so far",
    "adaptive": "parameters too chosen on the fly, up to these totals",
}


def as_json(epsilon: tuple[float, float], delta: tuple[float, float], answer: Answer) -> dict[str, object]:
    """Return the object that `--json` prints: a contract."""
    return {
        "interaction": str(answer.interaction),
        "epsilon": {"lower": epsilon[0], "upper": epsilon[1]},
        "delta": {"lower": delta[0], "upper": delta[1]},
        "method": answer.method,
        "statement": answer.statement,
    }


def print_json(value: dict[str, object]) -> None:
    """Print one object."""
    print(json.dumps(value, allow_nan=False))


def print_table(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print a table of names and values."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, show_header=False, title_justify="left", title_style="bold")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    Console(markup=False).print(table)


def print_claims(claims: "Sequence[Claim]") -> None:
    """Print each claim: verdict, label, the paper's value, ours and what was compared, then what the paper says."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console()
    width = max(len(claim.label) for claim in claims)
    console.print(f"      {'label':{width}}  {'paper':>11}  {'ours':>11}  check", style="bold", soft_wrap=True)
    for claim in claims:
        line = Text(claim.verdict, "green" if claim.passed else "bold red")
        line.append(f"  {claim.label:{width}}", "cyan")
        line.append(f"  {claim.paper:>11.6g}  {claim.ours:>11.6g}  {claim.check}", "not bold")
        console.print(line, soft_wrap=True, highlight=False)
        console.print(Padding(Text(claim.says, "dim"), (0, 0, 0, 6)), highlight=False)


def answer_rows(uses: Sequence[Use], answer: Answer, asked: tuple[str, float], found: str) -> list[tuple[str, str]]:
    """Return the rows that explain an answer: what was composed, the promise, and what it rests on."""
    name, value = asked
    lower, upper = rounded_down(answer.lower), rounded_up(answer.upper)
    where = "there" if f"{answer.lower:.6g}" == upper else f"between {lower} and {upper}"
    return [
        ("uses", "  ".join(format_use(use) for use in uses)),
        ("interaction", f"{answer.interaction}: {_COVERS[str(answer.interaction)]}"),
        (name, f"{value:g}"),
        (found, f"{upper} is promised (the optimum lies {where})"),
        ("method", answer.method),
        ("statement", answer.statement),
    ]
