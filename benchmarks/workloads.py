"""What an analytics team composes: brackets of epsilon, their widths and times.

    python benchmarks/workloads.py [--json]

Times are processor seconds of one run in a process that is warm; the aims are a relative width of 1 percent, except for
classes without a dominating pair, and 3 seconds.
"""

import argparse
import json
import time
from dataclasses import dataclass

from setwise import CertifiedBound, compose


@dataclass(frozen=True, slots=True)
class Workload:
    """Uses, the delta they are asked at, and what the analyst may decide on the way."""

    name: str
    uses: tuple[str, ...]
    delta: float = 1e-6
    interaction: str = "setwise"


def several(kind: str, parameters: list[float], count: int) -> tuple[str, ...]:
    """Return `count` uses of each parameter."""
    return tuple(f"{kind}:{parameter:g}x{count}" for parameter in parameters)


TWENTY = [round(0.01 * i, 2) for i in range(1, 21)]
FIVE = ("bounded-range:0.5x10", "bounded-range:0.2x30", "bounded-range:0.1x100", "bounded-range:0.05x300")
THIRTY = [round(0.02 * 1.07**i, 4) for i in range(30)]
SCALES = [3.0, 4.0, 5.0, 7.0, 9.0, 11.0, 13.0, 17.0, 23.0, 31.0]
DAYS = [round(20.0 + 0.1 * i, 1) for i in range(365)]
EIGHT = [round(0.1 * 1.15**i, 4) for i in range(8)]
IN_ORDER = ("gaussian:17.6x100", "bounded-range:0.0452x1", "bounded-range:0.569x300", "gaussian:24")
LARGE = ("bounded-range:3x1000", "bounded-range:2.1x1000", "bounded-range:1.3x1000")
TWELVE = [round(0.1 * 1.15**i, 4) for i in range(12)]
APART = ("bounded-range:0.0395x35", "bounded-range:0.0155x19", "bounded-range:0.0744x685", "bounded-range:0.02x3")
SIGMAS = [10.0, 12.0, 15.0, 20.0, 30.0, 45.0, 60.0, 80.0, 100.0, 150.0]

WORKLOADS = (
    Workload("a top 10 with counts", ("bounded-range:0.1x10", "gaussian:20x10")),
    Workload("a day of picks", ("bounded-range:0.1x100",)),
    Workload("a week of picks and counts", ("bounded-range:0.1x200", "pure:0.05x200")),
    Workload("a month of picks", ("bounded-range:0.05x2000",)),
    Workload("a quarter of picks", ("bounded-range:0.02x10000",)),
    Workload("a year of picks", ("bounded-range:0.01x100000",)),
    Workload("a million small picks", ("bounded-range:0.001x1000000",)),
    Workload("a published deployment", ("bounded-range:0.15x3000",), 1e-9),
    Workload("picks and Gaussian counts, 20,000 each", ("bounded-range:0.02x20000", "gaussian:100x20000")),
    Workload("picks and Laplace counts", ("bounded-range:0.1x300", "laplace:10x300")),
    Workload("picks, Laplace and Gaussian counts", ("bounded-range:0.1x50", "laplace:20x50", "gaussian:30x100")),
    Workload("twenty sizes of picks", several("bounded-range", TWENTY, 50)),
    Workload("five sizes of picks", (*FIVE, "bounded-range:0.02x1000")),
    Workload("five sizes and Gaussian counts", (*FIVE, "gaussian:25x200")),
    Workload("few large and many small picks", ("bounded-range:0.5x5", "bounded-range:0.0005x1000")),
    Workload("two sizes of picks", ("bounded-range:0.1x40", "bounded-range:0.23x40")),
    Workload("three sizes of picks and counts", ("bounded-range:0.3x20", "bounded-range:0.1x60", "pure:0.1x50")),
    Workload("thresholds and picks", ("approx:0.1,1e-9x20", "bounded-range:0.1x100")),
    Workload("integer Laplace counts", ("discrete-laplace:20x1000",)),
    Workload("integer Laplace counts of several items", ("discrete-laplace:60,3x200",)),
    Workload("integer Gaussian counts", ("discrete-gaussian:50x1000",)),
    Workload("large integer Gaussian counts", ("discrete-gaussian:2674x20000",), 1e-9),
    Workload("ten integer Gaussians, daily for a year", several("discrete-gaussian", SIGMAS, 365)),
    Workload("truncated Gaussian counts and picks", ("truncated-gaussian:40,300x50", "bounded-range:0.1x50")),
    Workload("rounded Gaussian counts", ("gaussian:40x365", "gaussian:15x52", "gaussian:5x12")),
    Workload("unequal pure counts", ("pure:0.01x300", "pure:0.03x100", "pure:0.1x30", "pure:0.3x5")),
    Workload("picks and counts at 1e-15", ("bounded-range:0.1x200", "gaussian:20x100"), 1e-15),
    Workload("a year of picks at 1e-15", ("bounded-range:0.01x100000",), 1e-15),
    Workload("counts on the fly", ("gaussian:20x80",), interaction="adaptive"),
    Workload("a batch of picks", ("bounded-range:0.1x1000",), interaction="batch"),
    Workload(
        "a batch of two sizes and counts",
        ("bounded-range:0.1x50", "bounded-range:0.2x20", "gaussian:20x50"),
        interaction="batch",
    ),
    Workload("picks, then counts, in order", ("bounded-range:0.1x100", "gaussian:20x100"), interaction="ordered"),
    Workload("zCDP beside Gaussians (no pair)", ("zcdp:0.001x50", "gaussian:20x100")),
    Workload("one zCDP use", ("zcdp:0.2",)),
    Workload("two zCDP uses", ("zcdp:0.1x2",)),
    Workload("365 integer Gaussians, all different", several("discrete-gaussian", DAYS, 1)),
    Workload(
        "twelve integer Gaussians on the fly", several("discrete-gaussian", DAYS[::31], 30), interaction="adaptive"
    ),
    Workload("five large sizes of picks", several("bounded-range", [2.0, 1.0, 0.75, 0.5, 0.25], 3)),
    Workload("thirty sizes of pure counts", several("pure", THIRTY, 10)),
    Workload(
        "ten scales of Laplace counts and picks",
        (*several("laplace", SCALES, 5), "bounded-range:0.1x20", "bounded-range:0.25x20", "bounded-range:0.5x5"),
    ),
    Workload("a batch of eight sizes", several("bounded-range", EIGHT, 5), interaction="batch"),
    Workload("small and large picks between counts", IN_ORDER, 1e-10, "ordered"),
    Workload("a batch of thousands of large picks", LARGE, interaction="batch"),
    Workload("a batch of twelve sizes", several("bounded-range", TWELVE, 20), interaction="batch"),
    Workload("four sizes that share no grid, in order", APART, 4e-8, "ordered"),
)


def measured(workload: Workload) -> tuple[CertifiedBound, float]:
    """Return the epsilon of a workload and the processor seconds it took."""
    started = time.process_time()
    answer = compose(workload.uses, workload.interaction).epsilon(workload.delta)
    return answer, time.process_time() - started


def main() -> None:
    """Print the table, or one object of widths and times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one object: relative widths and seconds by workload")
    arguments = parser.parse_args()
    compose(["bounded-range:0.1x20", "laplace:10x20", "gaussian:20x3"]).epsilon(1e-6)
    found = [(workload, *measured(workload)) for workload in WORKLOADS]
    if arguments.json:
        named = {w.name: {"width": a.width / a.upper, "seconds": s} for w, a, s in found}
        print(json.dumps(named, indent=1))
        return
    print(f"{'workload':42}{'delta':>7}{'lower':>11}{'upper':>11}{'width':>9}{'time':>9}  method")
    for workload, answer, seconds in found:
        print(
            f"{workload.name:42}{workload.delta:7.0e}{answer.lower:11.5f}{answer.upper:11.5f}"
            f"{answer.width / answer.upper:9.3%}{seconds:7.2f} s  {answer.method}"
        )


if __name__ == "__main__":
    main()
