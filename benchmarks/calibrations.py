"""What an analytics team calibrates: the value found, how close it is to the best, and the time.

    python benchmarks/calibrations.py [--json]

Times are processor seconds of one run in a process that is warm; the aim is 2 seconds. `room` is the share of epsilon
that the value leaves: the target less the lower end of the epsilon of the uses found, over the target.
"""

import argparse
import json
import time
from dataclasses import dataclass

from setwise.accounting.calibrate import FIND, Calibrated, parse_plan


@dataclass(frozen=True, slots=True)
class Calibration:
    """Uses with one ? and the target they are to meet."""

    uses: str
    epsilon: float
    delta: float = 1e-6
    interaction: str = "setwise"


CALIBRATIONS = (
    Calibration("gaussian:?x25", 1.0),
    Calibration("laplace:?x100", 1.0),
    Calibration("pure:?x1000", 2.0),
    Calibration("bounded-range:?x25", 1.0),
    Calibration("bounded-range:?x100", 1.0),
    Calibration("bounded-range:?x1000", 2.0),
    Calibration("bounded-range:?x10000", 2.0),
    Calibration("bounded-range:?x100", 1.0, 1e-12),
    Calibration("bounded-range:?x100", 1.0, interaction="batch"),
    Calibration("bounded-range:0.1x100 gaussian:?x100", 3.0),
    Calibration("bounded-range:0.1x100 laplace:?x100", 4.0),
    Calibration("bounded-range:?x50 gaussian:20x50", 3.0),
    Calibration("bounded-range:0.5x5 bounded-range:0.2x10 bounded-range:?x100", 3.0),
    Calibration("bounded-range:0.1x?", 2.0),
    Calibration("bounded-range:0.01x?", 8.306),
    Calibration("bounded-range:0.1x50 pure:0.05x?", 3.0),
    Calibration("gaussian:20x?", 2.0, interaction="adaptive"),
    Calibration("zcdp:0.001x? gaussian:20x10", 2.0),
)


def measured(wanted: Calibration) -> tuple[Calibrated, float]:
    """Return what was found and the processor seconds it took."""
    started = time.process_time()
    free, plan = parse_plan(wanted.uses.split())
    found = FIND[free](plan, epsilon=wanted.epsilon, delta=wanted.delta, interaction=wanted.interaction)
    return found, time.process_time() - started


def main() -> None:
    """Print the table, or one object of rooms and times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one object: room and seconds by calibration")
    arguments = parser.parse_args()
    measured(Calibration("bounded-range:0.1x20 laplace:10x20 gaussian:?x3", 3.0))
    lines = []
    for wanted in CALIBRATIONS:
        found, seconds = measured(wanted)
        room = 1.0 - found.composition.epsilon(wanted.delta).lower / wanted.epsilon
        lines.append((wanted, found, room, seconds))
    if arguments.json:
        named = {f"{w.uses} {w.delta:g} {w.interaction}": {"room": r, "seconds": s} for w, _, r, s in lines}
        print(json.dumps(named, indent=1))
        return
    print(f"{'uses':62}{'epsilon':>8}{'delta':>7}  {'interaction':12}{'found':>12}{'room':>9}{'time':>9}")
    for wanted, found, room, seconds in lines:
        print(
            f"{wanted.uses:62}{wanted.epsilon:8g}{wanted.delta:7.0e}  {wanted.interaction:12}{found.value:12.6g}"
            f"{room:9.3%}{seconds:7.2f} s"
        )


if __name__ == "__main__":
    main()
