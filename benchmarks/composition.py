"""Closed-form composition against dp-accounting, and against the batch formula of the paper taken literally.

    python benchmarks/composition.py [--json]

Ratios are our time over theirs: below 1 is faster. dp-accounting runs at its default grid.
"""

import argparse
import json
import math
import warnings
from functools import partial

from setwise import BoundedRange, CertifiedBound, Gaussian, PureDP, Use, compose
from timing import best_of, milliseconds

DELTA = 1e-6


def pure_against_dp_accounting(count: int) -> tuple[float, float, float, float]:
    """Return our time and error and theirs for epsilon of `count` uses of 0.01-DP; the truth has 40 digits."""
    from dp_accounting.pld import common, privacy_loss_distribution

    def theirs() -> float:
        pair = privacy_loss_distribution.from_privacy_parameters(common.DifferentialPrivacyParameters(0.01, 0))
        return float(pair.self_compose(count).get_epsilon_for_delta(DELTA))

    ours_time, ours = best_of(20, lambda: compose([Use(PureDP(epsilon=0.01), count)]).epsilon(DELTA))
    theirs_time, their_value = best_of(3, theirs)
    truth = exact_pure_epsilon(0.01, count, DELTA)
    return ours_time, abs(ours.upper - truth), theirs_time, abs(their_value - truth)


def exact_pure_epsilon(epsilon: float, count: int, delta: float) -> float:
    """Return the root of thm:opt_DPCOMP with 40 digits, by Newton from a bracketing start."""
    import mpmath

    with mpmath.workdps(40):
        each = mpmath.mpf(epsilon)
        keep = 1 / (1 + mpmath.exp(-each))

        def value(x: object) -> tuple[object, object]:
            """Return delta and its derivative."""
            first = int(mpmath.ceil((x + count * each) / (2 * each)))
            mass = mpmath.binomial(count, first) * keep**first * (1 - keep) ** (count - first)
            above, below = mpmath.mpf(0), mpmath.mpf(0)
            for lows in range(first, count + 1):
                above += mass
                below += mass * mpmath.exp((count - 2 * lows) * each)
                if mass < mpmath.mpf(10) ** -45 * above:
                    break
                mass *= mpmath.mpf(count - lows) / (lows + 1) * keep / (1 - keep)
            return above - mpmath.exp(x) * below, -mpmath.exp(x) * below

        x = mpmath.mpf(compose([Use(PureDP(epsilon=epsilon), count)]).epsilon(delta).upper)
        for _ in range(4):
            height, slope = value(x)
            x = x - (height - mpmath.mpf(delta)) / slope
        return float(x)


def gaussian_against_dp_accounting(count: int) -> tuple[float, float]:
    """Return our time and theirs for epsilon of `count` Gaussians with sigma 200."""
    import dp_accounting
    from dp_accounting.pld import pld_privacy_accountant

    def theirs() -> float:
        accountant = pld_privacy_accountant.PLDAccountant()
        accountant.compose(dp_accounting.GaussianDpEvent(200.0), count)
        return float(accountant.get_epsilon(DELTA))

    ours, _ = best_of(20, lambda: compose([Use(Gaussian(sigma=200.0), count)]).epsilon(DELTA))
    return ours, best_of(3, theirs)[0]


def literal_mixture(count: int, pure: int, epsilon: float, g: float) -> float:
    """Return thm:opt_nonadaptive as it is written: a maximum over l of a double sum, O(count^3) terms."""
    ranges = count - pure
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    best = 0.0
    for index in range(count + pure + 1):
        t = min(max((g + epsilon * (index + 1 - pure)) / (ranges + 1), 0.0), epsilon)
        q = (1 - math.exp(t - epsilon)) / (1 - math.exp(-epsilon))
        total = 0.0
        for i in range(ranges + 1):
            for j in range(pure + 1):
                gain = 1 - math.exp(g - epsilon * (pure - 2 * j - i) - t * ranges)
                if gain > 0:
                    total += (
                        math.comb(ranges, i)
                        * q ** (ranges - i)
                        * (1 - q) ** i
                        * math.comb(pure, j)
                        * keep ** (pure - j)
                        * (1 - keep) ** j
                        * gain
                    )
        best = max(best, total)
    return best


def mixture_against_literal(count: int, pure: int) -> tuple[float, float, float]:
    """Return our time, the literal formula's, and the relative difference of the two values."""
    g = 6.0
    uses = [Use(PureDP(epsilon=0.1), pure), Use(BoundedRange(epsilon=0.1), count - pure)]
    ours_time, ours = best_of(10, lambda: compose(uses, "batch").delta(g))
    # Timed once: it takes a while.
    import time

    started = time.perf_counter()
    literal = literal_mixture(count, pure, 0.1, g)
    return ours_time, time.perf_counter() - started, abs(ours.upper / literal - 1)


def growth() -> list[tuple[str, int, float]]:
    """Return times for growing counts."""

    def pure(count: int) -> CertifiedBound:
        return compose([Use(PureDP(epsilon=0.01), count)]).epsilon(DELTA)

    def gaussian(count: int) -> CertifiedBound:
        return compose([Use(Gaussian(sigma=200.0), count)]).epsilon(DELTA)

    def mixed(count: int) -> CertifiedBound:
        half = count // 2
        return compose([Use(PureDP(epsilon=0.01), half), Use(BoundedRange(epsilon=0.01), half)], "batch").delta(1.0)

    counts = [10**power for power in range(2, 7)]
    rows = [("pure", count, best_of(5, partial(pure, count))[0]) for count in counts]
    rows += [("gaussian", count, best_of(5, partial(gaussian, count))[0]) for count in counts]
    return rows + [
        ("mixed, delta", count, best_of(2, partial(mixed, count))[0]) for count in (100, 1000, 10_000, 20_000)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one object of named ratios")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # dp-accounting's own

    ours, our_error, theirs, their_error = pure_against_dp_accounting(10_000)
    our_gaussian, their_gaussian = gaussian_against_dp_accounting(10_000)
    fast, literal, difference = mixture_against_literal(300, 150)
    if arguments.json:
        ratios = {
            "pure_vs_dp_accounting": ours / theirs,
            "pure_error": our_error,
            "gaussian_vs_dp_accounting": our_gaussian / their_gaussian,
            "mixed_vs_literal": fast / literal,
        }
        print(json.dumps(ratios))
        return
    print(f"{'task':42}{'setwise':>14}{'peer':>14}{'ratio':>10}  error (setwise, peer)")
    print(
        f"{'pure, k = 10,000: epsilon':42}{milliseconds(ours):>14}{milliseconds(theirs):>14}{ours / theirs:10.5f}"
        f"  {our_error:.1e}, {their_error:.1e}"
    )
    print(
        f"{'gaussian, k = 10,000: epsilon':42}{milliseconds(our_gaussian):>14}{milliseconds(their_gaussian):>14}"
        f"{our_gaussian / their_gaussian:10.5f}"
    )
    print(
        f"{'mixed batch, k = 300, m = 150: delta':42}{milliseconds(fast):>14}{milliseconds(literal):>14}"
        f"{fast / literal:10.6f}  {difference:.1e} apart"
    )
    print()
    print(f"{'growth':16}{'k':>10}{'time':>16}")
    for name, count, seconds in growth():
        print(f"{name:16}{count:>10,}{milliseconds(seconds):>16}")


if __name__ == "__main__":
    main()
