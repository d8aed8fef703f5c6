"""`setwise compose` and `setwise calibrate`: what uses add up to, and which uses meet a target."""

from typing import Annotated

import typer

from setwise.accounting.notation import calibrated_kinds, format_use, rounded_down, rounded_up, syntax
from setwise.cli import output
from setwise.cli.output import AsJson
from setwise.errors import InvalidParameter

Mech = Annotated[
    list[str],
    typer.Argument(
        metavar="MECH...",
        help=f"KIND:PARAMETERS[xCOUNT], in order: {syntax()}",
    ),
]
Plan = Annotated[
    list[str],
    typer.Argument(
        metavar="MECH...",
        help="Uses as for compose, one of them with a ? for what is to be found: the smallest noise "
        f"({calibrated_kinds('noise')}), the largest epsilon ({calibrated_kinds('epsilon')}), or the largest count "
        "(pure:0.1x?).",
    ),
]
InteractionOption = Annotated[str, typer.Option(help="batch, ordered, setwise or adaptive.")]


def compose(
    uses: Mech,
    delta: Annotated[float | None, typer.Option(help="The overall delta; epsilon is found.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The overall epsilon; delta is found.")] = None,
    interaction: InteractionOption = "setwise",
    width: Annotated[
        float | None,
        typer.Option(help="Refine until no wider than this share of the upper end, or refuse."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a set of uses adds up to: a certified (epsilon, delta) for the interaction."""
    from setwise.accounting.compose import compose as composed

    if (delta is None) == (epsilon is None):
        raise InvalidParameter("give either --delta or --epsilon, and the other is found")
    with output.progress("composing") as watch:
        composition = composed(uses, interaction, progress=watch)
        if delta is not None:
            answer = composition.epsilon(delta, width=width)
            asked, found = ("delta", delta), "epsilon"
        else:
            assert epsilon is not None
            answer = composition.delta(epsilon, width=width)
            asked, found = ("epsilon", epsilon), "delta"
    if as_json:
        output.print_json(answer.to_dict(epsilon=epsilon, delta=delta))
    else:
        output.print_table("Composition", output.answer_rows(composition.uses, answer, asked, found))


def calibrate(
    uses: Plan,
    epsilon: Annotated[float, typer.Option(help="The overall epsilon to meet.")],
    delta: Annotated[float, typer.Option(help="The overall delta to meet.")],
    interaction: InteractionOption = "setwise",
    as_json: AsJson = False,
) -> None:
    """Find the smallest noise, largest per-use epsilon or largest count that meets a target for planned uses."""
    from setwise.accounting import calibrate as calibration

    free, plan = calibration.parse_plan(uses)
    found = calibration.FIND[free](plan, epsilon=epsilon, delta=delta, interaction=interaction)
    answer = found.answer
    if as_json:
        written = [format_use(use) for use in found.uses]
        output.print_json({"free": free, "value": found.value, "uses": written, **answer.to_dict(epsilon=epsilon)})
    else:
        title = {"noise": "Smallest noise", "epsilon": "Largest per-use epsilon", "count": "Largest count"}[free]
        rows = output.answer_rows(found.uses, answer, ("epsilon", epsilon), "delta")
        rounded = rounded_up(found.value) if free == "noise" else rounded_down(found.value)
        output.print_table("Calibration", [(title, f"{found.value:,}" if free == "count" else rounded), *rows])
