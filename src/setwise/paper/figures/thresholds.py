"""Paper's figure `fig:truncGauss`: the threshold above which noisy counts are released if groups are not public.

Truncated Gaussian noise is compared with Laplace noise (the mechanism unkLap), both (0.1, 1e-10)-DP.
"""

import math
from fractions import Fraction

from scipy.optimize import brentq

from setwise.accounting.brackets import Progress
from setwise.accounting.calibrate import smallest_noise
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import TruncatedDiscreteGaussian, Use
from setwise.mechanisms.noise.truncated_gaussian import (
    continuous_failure,
    continuous_truncation_level,
    truncation_level,
)
from setwise.mechanisms.unknown_domain import fixed_margin
from setwise.paper import chart
from setwise.paper.figure import Cell, Claim, ClaimRelation, Figure, Table
from setwise.paper.formulas import gaussian_histogram, laplace_histogram_as_pure, paper_sigma

EPSILON = 0.1
DELTA = 1e-10
SENSITIVITIES = (1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100)


def published_threshold(contributions: int) -> float:
    """Return the published threshold, in users, of the Laplace mechanism for unknown domains (unkLap).

    Only groups whose noisy count is above it are shown. It is tau + (Delta tau/epsilon) ln(Delta/delta) with epsilon =
    0.1 and delta = 1e-10. Delta is `contributions`, the largest number of counts that one user changes, and tau = 1 is
    the most by which a user changes one count.
    """
    return 1.0 + contributions / EPSILON * math.log(contributions / DELTA)


def failure_of_margin(t: float, contributions: int) -> float:
    """Return a bound on the probability that one of `contributions` noisy counts passes a noisy threshold.

    If a count passes, its group is shown although only one user has it, so delta must cover this probability. Before
    noise is added, the threshold is `t` times the noise scale above each of the counts. The threshold has Laplace noise
    of the same scale as the counts, so a single count passes with probability exp(-t)(2 + t)/4. The bound is the sum of
    these probabilities.
    """
    return contributions * math.exp(-t) * (2.0 + t) / 4.0


def corrected_threshold(contributions: int) -> float:
    """Return the threshold, in users, with which the paper's mechanism unkLap really is (0.1, 1e-10)-DP.

    unkLap is the Laplace mechanism for unknown domains, which shows only groups whose noisy count is above the
    threshold. With the published threshold it does not satisfy this guarantee. One user changes at most `contributions`
    counts.
    """
    # Either of two neighbouring tables may have a label that the other lacks, so passing may have at most this
    # probability.
    allowed = DELTA / (1.0 + math.exp(EPSILON))
    t = float(brentq(lambda t: math.log(failure_of_margin(t, contributions) / allowed), 1.0, 100.0, xtol=1e-13))
    return 1.0 + contributions / EPSILON * t


def ours_gaussian(contributions: int) -> tuple[float, int]:
    """Return our sigma and our threshold, in users, for truncated Gaussian noise that is (0.1, 1e-10)-DP.

    Only groups whose noisy count is above the threshold are shown. One user changes at most `contributions` counts.
    Half of delta pays for the Gaussian noise, by its exact privacy profile, and half for the threshold.
    """
    noise = smallest_noise(
        lambda sigma: [gaussian_histogram(sigma=sigma, contributions=contributions)], epsilon=EPSILON, delta=DELTA / 2
    )
    sigma = math.ceil(noise.value * 1000) / 1000
    return sigma, truncation_level(contributions, 1, Fraction(sigma), Fraction(DELTA) / 2)


def ours_laplace(contributions: int) -> int:
    """Return our threshold, in users, for a histogram with Laplace noise that is (0.1, 1e-10)-DP.

    One user changes at most `contributions` counts. Half of delta pays for the noise, composed optimally, and half for
    the threshold. All groups take part, so the threshold does not depend on the table and needs no noise. (It would
    depend on the table if only the largest groups took part, as in the paper's mechanism.)
    """
    noise = smallest_noise(
        lambda scale: [laplace_histogram_as_pure(epsilon=1.0 / scale, contributions=contributions)],
        epsilon=EPSILON,
        delta=DELTA / 2,
    )
    scale = Fraction(math.ceil(noise.value * 1000), 1000)
    return 1 + fixed_margin(scale, contributions, Fraction(DELTA) / 2)


def compute(progress: Progress, sensitivities: tuple[int, ...] = SENSITIVITIES) -> Table:
    """Return the table of thresholds in users, with one row for each l0-sensitivity (number of counts a user changes).

    `sensitivities` lists the l0-sensitivities. There are thresholds for the paper's truncated Gaussian noise, for its
    Laplace noise as published and as corrected, and for this library's truncated Gaussian and Laplace noise. Further
    columns have the sigmas of the Gaussian noises, the level at which the paper truncates its noise, and the delta that
    this library's truncated Gaussian noise reaches. Noise and threshold get half of delta each; only for the paper's
    Laplace noise, all of delta is for the threshold. `progress` is called with the share of rows done.
    """
    rows: list[dict[str, Cell]] = []
    for done, count in enumerate(sensitivities):
        # The paper does not say how it splits delta between noise and threshold; here each gets half.
        sigma = paper_sigma(epsilon=EPSILON, delta=DELTA / 2, items=count)
        level = continuous_truncation_level(count, 1.0, sigma, DELTA / 2)
        ours, bound = ours_gaussian(count)
        whole = compose([Use(TruncatedDiscreteGaussian(sigma=ours, bound=bound, sensitivity=1), count)])
        rows.append(
            {
                "sensitivity": count,
                "paper_sigma": sigma,
                "paper_truncation": level,
                "paper_threshold": 1.0 + level,
                "laplace_published": published_threshold(count),
                "laplace_corrected": corrected_threshold(count),
                "ours_sigma": ours,
                "ours_gaussian": bound,
                "ours_gaussian_delta": whole.delta(EPSILON).upper,
                "ours_laplace": ours_laplace(count),
            }
        )
        progress((done + 1) / len(sensitivities))
    return Table.of_rows(rows)


def claims(table: Table) -> tuple[Claim, ...]:
    """Return checks of what the paper's text says about thresholds for showing private groups.

    Some checks are corrections of numbers that the paper has wrong. A correction passes if a third, independently
    computed number agrees with ours. `table` is a result of `compute`.
    """
    sigma, tau, many = 20.0, 1.0, 10
    level = continuous_truncation_level(many, tau, sigma, 1e-8)
    many_counts = {"sensitivity": 100.0}
    return (
        Claim(
            label="fig:truncGauss",
            says="the truncation level is below the Laplace threshold for many counts (100; paper: Laplace as "
            "published)",
            paper=table.at(many_counts, "laplace_published"),
            ours=table.at(many_counts, "paper_truncation"),
            relation=ClaimRelation.BELOW,
        ),
        Claim(
            label="eq:truncationLevel",
            says="T solves the equation (Delta = 10, sigma = 20, delta = 1e-8: Delta (1 - P[E]) at our T)",
            paper=1e-8,
            ours=many * continuous_failure(level, tau, tau * sigma),
            tolerance=1e-16,
        ),
        Claim(
            label="algo:truncGauss",
            says="the proof says P[E] is at most delta/Delta; it is at least 1 - delta/Delta (same parameters)",
            paper=1e-9,
            ours=1.0 - continuous_failure(level, tau, tau * sigma),
            relation=ClaimRelation.CORRECTED,
            independent=_overlap(level, tau, sigma),
            tolerance=1e-12,
        ),
        Claim(
            label="algo:truncGauss",
            says="releasing what passes T instead of T + tau keeps the promise on the integers (largest delta over our "
            "curve at epsilon = 0.1, exactly composed; paper: the delta asked for)",
            paper=DELTA,
            ours=max(table.numbers("ours_gaussian_delta")),
            relation=ClaimRelation.BELOW,
        ),
        Claim(
            label="table:tasks",
            says="unkLap keeps delta = 1e-10 with the published threshold, t = ln(Delta/delta), at Delta = 1; its bad "
            "event compares two noises (paper: failure claimed; ours: exp(-t)(2 + t)/4)",
            paper=DELTA,
            ours=failure_of_margin(math.log(1.0 / DELTA), 1),
            relation=ClaimRelation.CORRECTED,
            independent=_two_laplace(math.log(1.0 / DELTA)),
            tolerance=1e-15,
        ),
    )


def _overlap(level: float, tau: float, sigma: float) -> float:
    """Return the probability that a noisy value lies where the noisy values of two neighbouring tables overlap.

    The exact value differs by `tau` between the two tables. The noise is Gaussian of deviation `sigma`, truncated to
    [-level, level], so each table can give only values at most `level` from its own exact value. A value outside of the
    overlap shows which table it is from.

    The result is P[E] for the event E in the proof of the paper's algo:truncGauss. It is computed by integration, as a
    check of a number that is computed in another way.
    """
    from scipy.integrate import quad

    inside = quad(lambda z: math.exp(-0.5 * (z / sigma) ** 2), tau - level, level, epsabs=0.0, epsrel=1e-13, limit=200)
    whole = quad(lambda z: math.exp(-0.5 * (z / sigma) ** 2), -level, level, epsabs=0.0, epsrel=1e-13, limit=200)
    return float(inside[0] / whole[0])


def _two_laplace(t: float) -> float:
    """Return P[Z1 - Z2 > t] for two independent Laplace variables of scale 1, by integrating over Z2.

    The formula exp(-t)(2 + t)/4 for this probability is used elsewhere; the integral is a second way to compute it, for
    a check.
    """
    from scipy.integrate import quad

    def weight(z: float) -> float:
        """Return the density of Z2 at `z` times the probability that Z1 exceeds t + z.

        Z1 and Z2 are Laplace variables of scale 1, and t is the argument of `_two_laplace`, which integrates this
        function over z.
        """
        beyond = 0.5 * math.exp(-(t + z)) if t + z > 0 else 1.0 - 0.5 * math.exp(t + z)
        return 0.5 * math.exp(-abs(z)) * beyond

    parts = ((-t - 60.0, -t), (-t, 0.0), (0.0, 60.0))
    return math.fsum(float(quad(weight, a, b, epsabs=0.0, epsrel=1e-12, limit=200)[0]) for a, b in parts)


def draw(table: Table) -> "chart.Picture":
    """Return a picture of the thresholds for showing private groups against the l0-sensitivity, on logarithmic axes.

    `table` is a result of `compute`.
    """
    picture, (panel,) = chart.panels(1, (7.8, 5.4))
    x = table.numbers("sensitivity")
    curves = (
        ("laplace_corrected", chart.OTHER, "unkLap, corrected threshold"),
        ("paper_threshold", chart.PAPER_TOO, "truncGauss, T + tau (eq:truncationLevel, lem:GM)"),
        ("ours_laplace", chart.OURS_TOO, "ours: Laplace, all groups read, composed optimally"),
        ("ours_gaussian", chart.OURS, "ours: truncated Gaussian on the integers, T, exact Gaussian"),
        ("laplace_published", chart.PAPER, "unkLap, published threshold (breaks its delta 6-fold)"),
    )
    for name, stroke, label in curves:
        chart.line(panel, x, table.numbers(name), stroke, label)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    panel.set_yticks(
        [200, 500, 1000, 2000, 5000, 10000, 20000], ["200", "500", "1,000", "2,000", "5,000", "10,000", "20,000"]
    )
    panel.minorticks_off()
    panel.set(
        xlabel="l0-sensitivity Delta (counts one user changes)", ylabel="threshold a noisy count must pass (users)"
    )
    panel.set_title("(0.1, 1e-10)-DP, each user adds at most 1 to a count", loc="left")
    panel.legend(loc="upper left", fontsize=8.5, frameon=False)
    return picture


FIGURE = Figure(
    label="fig:truncGauss",
    file="thresholds",
    title="Thresholds over an unknown domain",
    compute=compute,
    draw=draw,
    claims=claims,
)
