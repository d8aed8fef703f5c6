"""`setwise compose`: what a set of uses adds up to."""

from typing import Annotated

import typer

from setwise.accounting.notation import syntax
from setwise.cli.options import AsJson
from setwise.errors import InvalidParameter

Mech = Annotated[
    list[str],
    typer.Argument(
        metavar="MECH...",
        help=f"KIND:PARAMETERS[xCOUNT], in order: {syntax()}",
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
    from setwise.cli import output
    from setwise.cli.output import progress

    if (delta is None) == (epsilon is None):
        raise InvalidParameter("give either --delta or --epsilon, and the other is found")
    with progress("composing") as watch:
        composition = composed(uses, interaction, progress=watch)
        if delta is not None:
            answer = composition.epsilon(delta, width=width)
            ends = ((answer.lower, answer.upper), (delta, delta))
            asked, found = ("delta", delta), "epsilon"
        else:
            assert epsilon is not None
            answer = composition.delta(epsilon, width=width)
            ends = ((epsilon, epsilon), (answer.lower, answer.upper))
            asked, found = ("epsilon", epsilon), "delta"
    if as_json:
        output.print_json(output.as_json(*ends, answer))
    else:
        output.print_table("Composition", output.answer_rows(composition.uses, answer, asked, found))
