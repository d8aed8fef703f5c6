"""Compose, calibrate and plan as a process of its own: a line of JSON in, a line of JSON out.

A calculation that takes too long is ended with its process, which a thread could not be.
"""

import json
import sys
from typing import Any

from setwise.accounting import calibrate as calibration
from setwise.accounting.answer import Answer
from setwise.accounting.compose import compose
from setwise.accounting.notation import format_use
from setwise.errors import SetwiseError
from setwise.service.workers.curves import Along, Curve, Mixture, curve
from setwise.service.workers.pool import PlanRequest, packed, unpacked


def calculate(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one calculation.

    >>> asked = {"what": "compose", "uses": ["pure:0.1x25"], "interaction": "setwise", "delta": 1e-6}
    >>> calculate(asked)["epsilon"]["upper"] < 2.0791
    True
    """
    match request:
        case {"what": "compose", "uses": uses, "interaction": interaction, "delta": float(delta)}:
            answer = compose(uses, interaction).epsilon(delta)
            return _answered(answer, epsilon=(answer.lower, answer.upper), delta=(delta, delta))
        case {"what": "compose", "uses": uses, "interaction": interaction, "epsilon": float(epsilon)}:
            answer = compose(uses, interaction).delta(epsilon)
            return _answered(answer, epsilon=(epsilon, epsilon), delta=(answer.lower, answer.upper))
        case {"what": "calibrate", "uses": uses, "interaction": interaction, "epsilon": epsilon, "delta": delta}:
            return _calibrated(uses, interaction, epsilon, delta)
        case {"what": "curve", "which": which, "along": along, "mixture": mixture}:
            return curve(Curve(which), Along(along), Mixture(**mixture))
        case {"what": "plan", "request": request}:
            return _planned(request)
        case _:
            raise ValueError("not a calculation")


def _planned(request: str) -> dict[str, Any]:
    asked = unpacked(request)
    assert isinstance(asked, PlanRequest)
    return {"planned": packed(asked.planned())}


def _calibrated(uses: list[str], interaction: str, epsilon: float, delta: float) -> dict[str, Any]:
    free, plan = calibration.parse_plan(uses)
    match free:
        case "noise":
            found = calibration.smallest_noise(plan, epsilon=epsilon, delta=delta, interaction=interaction)
        case "epsilon":
            found = calibration.largest_epsilon(plan, epsilon=epsilon, delta=delta, interaction=interaction)
        case _:
            found = calibration.largest_count(plan, epsilon=epsilon, delta=delta, interaction=interaction)
    answer = found.composition.delta(epsilon)
    written = [format_use(use) for use in found.uses]
    ends = _answered(answer, epsilon=(epsilon, epsilon), delta=(answer.lower, answer.upper))
    return {"free": free, "value": found.value, "uses": written, **ends}


def _answered(answer: Answer, *, epsilon: tuple[float, float], delta: tuple[float, float]) -> dict[str, Any]:
    return {
        "interaction": str(answer.interaction),
        "epsilon": {"lower": epsilon[0], "upper": epsilon[1]},
        "delta": {"lower": delta[0], "upper": delta[1]},
        "method": answer.method,
        "statement": answer.statement,
    }


def main() -> None:
    """Say that everything is loaded, then answer line after line until the input ends."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        try:
            reply = {"answer": calculate(json.loads(line))}
        except SetwiseError as error:
            reply = {"error": {"name": type(error).__name__, "detail": str(error)}}
        except (ArithmeticError, MemoryError, ValueError) as error:
            reply = {
                "error": {"name": "Unattainable", "detail": f"the calculation cannot be done ({type(error).__name__})"}
            }
        sys.stdout.write(json.dumps(reply, allow_nan=False) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
