"""`setwise paper`: recompute every figure of the paper as picture and CSV, and check every claim of its text."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.cli import output
from setwise.cli.output import AsJson

if TYPE_CHECKING:
    from setwise.paper.figure import Claim

FAILED = 1
"""The exit status if a claim does not hold; 2 to 4 are errors."""


def paper(
    out: Annotated[Path, typer.Option(help="The folder for pictures (SVG, PNG), numbers (CSV) and claims.")] = Path(
        "setwise-paper"
    ),
    figure: Annotated[
        list[str] | None,
        typer.Option(help="Only this figure, by label (fig:gap) or file (order-gap); text: claims of the text."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute every figure and quoted number of the paper, and print both numbers; exit status 1 if a claim fails."""
    from setwise.paper.study import run, select_figures, write_claims

    wanted = select_figures(figure or [])
    with output.progress("paper") as watch:
        parts = list(run(wanted, out, watch))
    claims = [claim for part in parts for claim in part.claims]
    files = [*(file for part in parts for file in part.files), *write_claims(claims, out)]
    failed = [claim for claim in claims if not claim.passed]
    if as_json:
        output.print_json(
            {
                "passed": not failed,
                "claims": [claim.as_json() for claim in claims],
                "files": [str(file) for file in files],
            }
        )
    else:
        _print_claims(claims)
        print(f"{len(claims) - len(failed)} of {len(claims)} claims hold; {len(files)} files in {out}")
    if failed:
        raise typer.Exit(FAILED)


def _print_claims(claims: "Sequence[Claim]") -> None:
    """Print each of `claims`, the numbers that the paper states: verdict, label, both values, comparison and quotation.

    The two values are the value in the paper and the value that was computed here.
    """
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
