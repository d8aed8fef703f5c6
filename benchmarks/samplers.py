"""Exact samplers against NumPy's float normal, OpenDP and diffprivlib, in one run.

    python benchmarks/samplers.py            a table for people
    python benchmarks/samplers.py --json     one object of named ratios, our time over theirs

gaussian_vs_numpy, laplace_vs_numpy: 10^6 exact draws over 10^6 float normals. gaussian_vs_opendp: 10^6 exact draws over
10^6 by OpenDP (timed on fewer and scaled up). topk_vs_float: exact Gumbel top 100 of 10^6 over the same in plain
floats. timing_spearman: the rank correlation of the time of a single draw with the size of the noise drawn,
n = 20,000, the median of three such runs (one run alone scatters by 0.007 around no correlation).
"""

import argparse
import json
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy.stats import spearmanr

from setwise.mechanisms.noise.discrete import GaussianNoise, LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.sampling.gumbel import gumbel_order

COUNT = 10**6
RANDOMNESS = SystemRandomness()


def fastest(work: Callable[[], object], repeats: int = 9) -> float:
    """Return the shortest of several timings, in seconds; other load on the machine only adds to them."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def opendp_time(noise: str, draws: int = 20_000) -> float | None:
    """Return OpenDP's time for 10^6 integer draws, or None when it cannot be imported."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    space = (
        dp.vector_domain(dp.atom_domain(T=int)),
        (dp.l1_distance(T=int) if noise == "laplace" else dp.l2_distance(T=float)),
    )
    measure = dp.m.make_laplace if noise == "laplace" else dp.m.make_gaussian
    mechanism = measure(*space, scale=10.0)
    zeros = [0] * draws
    return fastest(lambda: mechanism(zeros), repeats=3) * COUNT / draws


def diffprivlib_time(noise: str, draws: int = 300) -> float | None:
    """Return diffprivlib's time for 10^6 integer draws of like scale, or None when it cannot be imported."""
    try:
        from diffprivlib.mechanisms import GaussianDiscrete, Geometric
    except ImportError:
        return None
    if noise == "laplace":
        mechanism = Geometric(epsilon=0.1, sensitivity=1)
    else:
        mechanism = GaussianDiscrete(epsilon=0.5, delta=1e-6, sensitivity=1)  # sigma near 8
    return fastest(lambda: [mechanism.randomise(0) for _ in range(draws)], repeats=3) * COUNT / draws


def timing_correlation(draws: int = 20_000) -> float:
    """Return Spearman's rank correlation between the time of one draw and the size of its noise.

    The draws are timed one by one after a warm-up; a trend of the machine is shared by all sizes.
    """
    noise = GaussianNoise(sigma=Fraction(10))
    for _ in range(2_000):
        noise.draw(1, RANDOMNESS)
    times, sizes = np.empty(draws), np.empty(draws)
    for place in range(draws):
        start = time.perf_counter_ns()
        value = noise.draw(1, RANDOMNESS)
        times[place] = time.perf_counter_ns() - start
        sizes[place] = abs(int(value[0]))
    return float(spearmanr(times, sizes).statistic)


def float_top_k(scores: np.ndarray[tuple[int], np.dtype[np.int64]], generator: np.random.Generator) -> None:
    """Rank by float Gumbel noise: what an inexact implementation would do."""
    keys = 0.1 * scores + generator.gumbel(size=len(scores))
    top = np.argpartition(keys, len(keys) - 100)[-100:]
    top[np.argsort(-keys[top])]


def measure() -> dict[str, float | None]:
    """Return every measured time in seconds for 10^6 draws, and the correlation."""
    generator = np.random.default_rng()
    scores = generator.integers(0, 1000, COUNT)
    gaussian, laplace = GaussianNoise(sigma=Fraction(10)), LaplaceNoise(scale=Fraction(10))
    wide_gaussian, wide_laplace = GaussianNoise(sigma=Fraction(10**6)), LaplaceNoise(scale=Fraction(10**6))
    rounded = RoundedGaussianNoise(sigma=Fraction(10))
    for noise in (gaussian, rounded, laplace, wide_gaussian, wide_laplace):
        noise.draw(1, RANDOMNESS)  # builds the tables
    return {
        "numpy normal (float)": fastest(lambda: generator.normal(size=COUNT)),
        "discrete Gaussian, sigma 10": fastest(lambda: gaussian.draw(COUNT, RANDOMNESS)),
        "rounded Gaussian, sigma 10": fastest(lambda: rounded.draw(COUNT, RANDOMNESS)),
        "discrete Laplace, scale 10": fastest(lambda: laplace.draw(COUNT, RANDOMNESS)),
        "discrete Gaussian, sigma 10^6": fastest(lambda: wide_gaussian.draw(COUNT, RANDOMNESS), 3),
        "discrete Laplace, scale 10^6": fastest(lambda: wide_laplace.draw(COUNT, RANDOMNESS), 3),
        "OpenDP Gaussian, scale 10": opendp_time("gaussian"),
        "OpenDP Laplace, scale 10": opendp_time("laplace"),
        "diffprivlib GaussianDiscrete": diffprivlib_time("gaussian"),
        "diffprivlib Geometric": diffprivlib_time("laplace"),
        "Gumbel top 100 of 10^6 (float)": fastest(lambda: float_top_k(scores, generator)),
        "Gumbel top 100 of 10^6, exact": fastest(lambda: gumbel_order(scores, Fraction(1, 10), 100, RANDOMNESS)),
        "timing_spearman": float(np.median([timing_correlation() for _ in range(3)])),
    }


def ratios(times: dict[str, float | None]) -> dict[str, float | None]:
    """Return the named ratios; None where an opponent cannot be imported."""

    def over(ours: str, theirs: str) -> float | None:
        mine, other = times[ours], times[theirs]
        return None if mine is None or other is None else mine / other

    return {
        "gaussian_vs_numpy": over("discrete Gaussian, sigma 10", "numpy normal (float)"),
        "rounded_gaussian_vs_numpy": over("rounded Gaussian, sigma 10", "numpy normal (float)"),
        "laplace_vs_numpy": over("discrete Laplace, scale 10", "numpy normal (float)"),
        "gaussian_vs_opendp": over("discrete Gaussian, sigma 10", "OpenDP Gaussian, scale 10"),
        "rounded_gaussian_vs_opendp": over("rounded Gaussian, sigma 10", "OpenDP Gaussian, scale 10"),
        "laplace_vs_opendp": over("discrete Laplace, scale 10", "OpenDP Laplace, scale 10"),
        "gaussian_vs_diffprivlib": over("discrete Gaussian, sigma 10", "diffprivlib GaussianDiscrete"),
        "laplace_vs_diffprivlib": over("discrete Laplace, scale 10", "diffprivlib Geometric"),
        "topk_vs_float": over("Gumbel top 100 of 10^6, exact", "Gumbel top 100 of 10^6 (float)"),
        "timing_spearman": times["timing_spearman"],
    }


def main() -> None:
    """Run every comparison and print it."""
    parser = argparse.ArgumentParser(description="Exact samplers against NumPy, OpenDP and diffprivlib.")
    parser.add_argument("--json", action="store_true", help="print one object of named ratios")
    arguments = parser.parse_args()
    times = measure()
    if arguments.json:
        print(json.dumps(ratios(times)))
        return
    print(f"{'10^6 draws':34}{'seconds':>12}{'million/s':>12}")
    for name, seconds in times.items():
        if name != "timing_spearman":
            missing = f"{'cannot be imported':>24}"
            print(f"{name:34}" + (missing if seconds is None else f"{seconds:12.4f}{1 / seconds:12.3f}"))
    print()
    for name, ratio in ratios(times).items():
        print(f"{name:34}" + ("opponent cannot be imported" if ratio is None else f"{ratio:12.6f}"))


if __name__ == "__main__":
    main()
