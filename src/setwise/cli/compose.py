"""`setwise compose`: the joint cost of mechanism uses; `setwise calibrate`: the noise that meets a target.

The target is an overall (epsilon, delta). A use is one run of a mechanism, written like `pure:0.1` or `gaussian:2x25`
(25 runs).
"""

from typing import Annotated

import typer

from setwise.accounting.notation import calibrated_kinds, format_use, syntax
from setwise.accounting.promises import rounded_down, rounded_up
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
"""The argument of `compose`: uses in the notation KIND:PARAMETERS[xCOUNT]."""
Plan = Annotated[
    list[str],
    typer.Argument(
        metavar="MECH...",
        help="Uses as for compose, one of them with a ? for what is to be found: the smallest noise "
        f"({calibrated_kinds('noise')}), the largest epsilon ({calibrated_kinds('epsilon')}), or the largest count "
        "(pure:0.1x?).",
    ),
]
"""The argument of `calibrate`: uses in the same notation, one of them with a ? in place of a parameter or count."""
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
    """Compute the certified (epsilon, delta) of a composition of mechanism uses (runs of mechanisms).

    --interaction says what the analyst may choose after seeing earlier answers: nothing (batch), the mechanisms
    (ordered), also their order (setwise), or also their parameters (adaptive).
    """
    from setwise.accounting.compose import compose as composed

    if (delta is None) == (epsilon is None):
        raise InvalidParameter("give either --delta or --epsilon, and the other is found")
    with output.progress("composing") as watch:
        composition = composed(uses, interaction, progress=watch)
        if delta is not None:
            answer = composition.epsilon(delta, width=width)
            stated, missing = ("delta", delta), "epsilon"
        else:
            assert epsilon is not None
            answer = composition.delta(epsilon, width=width)
            stated, missing = ("epsilon", epsilon), "delta"
    if as_json:
        output.print_json(answer.to_dict(epsilon=epsilon, delta=delta))
    else:
        output.print_table("Composition", output.answer_rows(composition.uses, answer, stated, missing))


def calibrate(
    uses: Plan,
    epsilon: Annotated[float, typer.Option(help="The overall epsilon to meet.")],
    delta: Annotated[float, typer.Option(help="The overall delta to meet.")],
    interaction: InteractionOption = "setwise",
    as_json: AsJson = False,
) -> None:
    """Find the value of a parameter, written as ?, with which all given mechanisms together meet an (epsilon, delta).

    The ? stands for a noise scale, for the epsilon of one mechanism, or for a number of mechanisms. The result is the
    smallest such noise scale, the largest such epsilon, or the largest such number.
    """
    from setwise.accounting import calibrate as calibration

    free, plan = calibration.parse_plan(uses)
    calibrated = calibration.FIND[free](plan, epsilon=epsilon, delta=delta, interaction=interaction)
    answer = calibrated.answer
    if as_json:
        use_texts = [format_use(use) for use in calibrated.uses]
        output.print_json(
            {"free": free, "value": calibrated.value, "uses": use_texts, **answer.to_dict(epsilon=epsilon)}
        )
    else:
        title = {"noise": "Smallest noise", "epsilon": "Largest per-use epsilon", "count": "Largest count"}[free]
        rows = output.answer_rows(calibrated.uses, answer, ("epsilon", epsilon), "delta")
        rounded = rounded_up(calibrated.value) if free == "noise" else rounded_down(calibrated.value)
        output.print_table("Calibration", [(title, f"{calibrated.value:,}" if free == "count" else rounded), *rows])
