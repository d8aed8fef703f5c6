"""Ways to break the running totals of live series: one edit of one line each, which the suite must notice."""

from mutant import Mutant

MUTANTS = (
    Mutant(
        "running totals: noise a twentieth narrower than charged",
        "running_totals.py",
        "RoundedGaussianNoise(sigma=Fraction(self.noise_scale))",
        "RoundedGaussianNoise(sigma=Fraction(19 * self.noise_scale, 20))",
        ("running_totals",),
    ),
    Mutant(
        "running totals: noise scale rounded down",
        "running_totals.py",
        "return least if least * least >= squared else least + 1",
        "return least",
        ("running_totals",),
    ),
    Mutant(
        "running totals: noise for one group where a user has several",
        "running_totals.py",
        "squared = Fraction(sigma) ** 2 * contributions * squared",
        "squared = Fraction(sigma) ** 2 * squared",
        ("running_totals",),
    ),
    Mutant(
        "running totals: a user takes part in one period only",
        "running_totals.py",
        "for start in range(participations):",
        "for start in range(1):",
        ("running_totals",),
    ),
    Mutant(
        "running totals: coefficients one unit lower",
        "running_totals.py",
        "nearest = round(coefficient * (1 << bits))",
        "nearest = max(0, round(coefficient * (1 << bits)) - 1)",
        ("running_totals",),
    ),
    Mutant(
        "running totals: threshold not divided among periods",
        "running_totals.py",
        "tail = self.failure * shared / (self.contributions * self.periods)",
        "tail = self.failure * shared / self.contributions",
        ("running_totals",),
    ),
    Mutant(
        "running totals: threshold not divided among groups",
        "running_totals.py",
        "tail = self.failure * shared / (self.contributions * self.periods)",
        "tail = self.failure * shared / self.periods",
        ("running_totals",),
    ),
    Mutant(
        "running totals: threshold without the unit of one user",
        "running_totals.py",
        "return self.participations + self._widen(",
        "return self._widen(",
        ("running_totals",),
    ),
    Mutant(
        "running totals: threshold without room for the Gaussian use",
        "running_totals.py",
        "tail = self.failure * shared / ",
        "tail = self.failure / ",
        ("running_totals",),
    ),
    Mutant(
        "running totals: intervals a tenth too narrow",
        "running_totals.py",
        "return self._widen(-float(ndtri(outside / 2)), window)",
        "return self._widen(-0.9 * float(ndtri(outside / 2)), window)",
        ("running_totals",),
    ),
)
