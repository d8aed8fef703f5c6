"""Ways to break a mechanism: one edit of one line each, all of which the suite must notice."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One edit: in `file`, the text `before`, which occurs once, becomes `after`."""

    name: str
    file: str
    before: str
    after: str


MUTANTS = (
    Mutant(
        "Laplace scale 5% low",
        "noise/laplace.py",
        "draw(TwoSided(first=1 / self.scale)",
        "draw(TwoSided(first=20 / (19 * self.scale))",
    ),
    Mutant(
        "Gaussian sigma 5% low",
        "noise/gaussian.py",
        "draw(gaussian_law(self.sigma, bound=None)",
        "draw(gaussian_law(self.sigma * 19 / 20, bound=None)",
    ),
    Mutant(
        "rounded Gaussian: every size rounded down",
        "noise/rounded_gaussian.py",
        "(parts >> np.uint64(width - 1))",
        "(parts >> np.uint64(width - 1) >> np.uint64(1))",
    ),
    Mutant(
        "rounded Gaussian: weights of intervals one half to the right",
        "sampling/inverse_cdf.py",
        "Fraction(z * z) / (4 * self._variance * self._variance)",
        "Fraction(z * (z + 1)) / (4 * self._variance * self._variance)",
    ),
    Mutant(
        "rounded Gaussian: coin without its square term",
        "noise/rounded_gaussian.py",
        "gammas = fractions * (2.0 * sizes + fractions) / variance",
        "gammas = fractions * (2.0 * sizes) / variance",
    ),
    Mutant(
        "rounded Gaussian: never negative",
        "noise/rounded_gaussian.py",
        "np.where(negative, -rounded, rounded)",
        "np.where(negative, rounded, rounded)",
    ),
    Mutant(
        "rounded Gaussian: coins in doubt not refined",
        "noise/rounded_gaussian.py",
        "for index in np.flatnonzero(np.abs(uniform - chance) <= loose * chance + grain + 2.0**-52):",
        "for index in np.flatnonzero(np.abs(uniform - chance) < 0.0):",
    ),
    Mutant(
        "rounded Gaussian: a coin in doubt lands heads when its end is unknown",
        "noise/rounded_gaussian.py",
        "if word + 1 <= exp_minus(self._gamma(size, farthest), bits)[0]:",
        "if word + 1 <= exp_minus(self._gamma(size, nearest), bits)[1]:",
    ),
    Mutant(
        "rounded Gaussian: error bars one too short",
        "noise/rounded_gaussian.py",
        "-float(ndtri(outside / 2)) * (1.0 + 1e-12) - 0.5",
        "-float(ndtri(outside / 2)) * (1.0 + 1e-12) - 1.5",
    ),
    Mutant(
        "unknown Gaussian: threshold without tau",
        "unknown_gaussian.py",
        "np.flatnonzero(noisy > self.per_item + self.margin)",
        "np.flatnonzero(noisy > self.margin)",
    ),
    Mutant(
        "unknown Gaussian: releases at the threshold itself",
        "unknown_gaussian.py",
        "np.flatnonzero(noisy > self.per_item + self.margin)",
        "np.flatnonzero(noisy >= self.per_item + self.margin)",
    ),
    Mutant(
        "unknown Gaussian: delta not shared among the contributions",
        "unknown_gaussian.py",
        "share = float_below(self.delta / self.contributions)",
        "share = float_below(self.delta)",
    ),
    Mutant(
        "unknown Gaussian: threshold one too low",
        "unknown_gaussian.py",
        "-float(ndtri(share)) * (1.0 + 1e-12) - 0.5",
        "-float(ndtri(share)) * (1.0 + 1e-12) - 1.5",
    ),
    Mutant(
        "unknown Gaussian: noise without tau",
        "unknown_gaussian.py",
        "return RoundedGaussianNoise(sigma=binary(self.sigma) * self.per_item)",
        "return RoundedGaussianNoise(sigma=binary(self.sigma))",
    ),
    Mutant(
        "unknown Gaussian: Delta off by one in the cost",
        "unknown_gaussian.py",
        "return Use(step, self.contributions), Use(ApproxDP",
        "return Use(step, max(1, self.contributions - 1)), Use(ApproxDP",
    ),
    Mutant(
        "unknown Gaussian: does not pay for its threshold",
        "unknown_gaussian.py",
        "Use(ApproxDP(epsilon=0.0, delta=float_above(self.delta)))",
        "Use(ApproxDP(epsilon=0.0, delta=float_above(self.delta / self.contributions)))",
    ),
    Mutant(
        "wide Gaussian: acceptance 5% off its peak",
        "noise/gaussian.py",
        "variance, peak = sigma * sigma, sigma * sigma / scale",
        "variance, peak = sigma * sigma, sigma * sigma * 19 / (20 * scale)",
    ),
    Mutant(
        "wide Laplace: zero drawn with both signs",
        "noise/laplace.py",
        "left = left[negative & (sizes == 0)]",
        "left = left[:0]",
    ),
    Mutant(
        "words equal to a cut point not refined",
        "sampling/inverse_cdf.py",
        "for index in undecided:",
        "for index in undecided[:0]:",
    ),
    Mutant(
        "coins in doubt not refined",
        "sampling/bernoulli_exp.py",
        "for index in undecided:",
        "for index in undecided[:0]:",
    ),
    Mutant(
        "overlapping Gumbel keys not refined",
        "sampling/gumbel.py",
        "doubtful = (ends - starts > 1) & (starts < k)",
        "doubtful = (ends - starts > 1) & (starts < 0)",
    ),
    Mutant(
        "T one too small",
        "noise/truncated_gaussian.py",
        "least, most = (least, middle) if holds(middle) else (middle, most)\n    return most",
        "least, most = (least, middle) if holds(middle) else (middle, most)\n    return max(tau, most - 1)",
    ),
    Mutant(
        "T one too large",
        "noise/truncated_gaussian.py",
        "least, most = (least, middle) if holds(middle) else (middle, most)\n    return most",
        "least, most = (least, middle) if holds(middle) else (middle, most)\n    return most + 1",
    ),
    Mutant(
        "clamping instead of truncating",
        "noise/truncated_gaussian.py",
        "return draw(gaussian_law(self.sigma, self.bound), count, randomness, width)",
        "return np.clip(draw(gaussian_law(self.sigma, None), count, randomness, width), -self.bound, self.bound)",
    ),
    Mutant(
        "no truncation",
        "noise/truncated_gaussian.py",
        "return draw(gaussian_law(self.sigma, self.bound), count, randomness, width)",
        "return draw(gaussian_law(self.sigma, None), count, randomness, width)",
    ),
    Mutant(
        "truncated Gaussian releases at the cutoff itself",
        "unknown_gaussian.py",
        "np.flatnonzero(noisy > self.cutoff)",
        "np.flatnonzero(noisy >= self.cutoff)",
    ),
    Mutant(
        "truncated Gaussian: Delta off by one in the cost",
        "unknown_gaussian.py",
        "return (Use(step, self.contributions),)",
        "return (Use(step, max(1, self.contributions - 1)),)",
    ),
    Mutant(
        "Gumbel threshold without tau",
        "unknown_gumbel.py",
        "return self.per_item + ceil_divide(gap.numerator, gap.denominator)",
        "return ceil_divide(gap.numerator, gap.denominator)",
    ),
    Mutant(
        "M missing in the logarithm",
        "unknown_gumbel.py",
        "ln(self.changeable / self.delta, _PRECISION)",
        "ln(1 / self.delta, _PRECISION)",
    ),
    Mutant(
        "M is Delta although the limit is smaller",
        "unknown_gumbel.py",
        "else min(self.contributions, self.limit)",
        "else self.contributions",
    ),
    Mutant(
        "threshold stands on the last count shown",
        "unknown_gumbel.py",
        "int(top.counts[self.limit]) if",
        "int(top.counts[self.limit - 1]) if",
    ),
    Mutant(
        "pays for the labels only, not for stopping",
        "unknown_gumbel.py",
        "min(len(items) + 1, self.k)",
        "max(1, len(items))",
    ),
    Mutant(
        "Gumbel scale without tau",
        "known_domain.py",
        "return self.epsilon / self.per_item",
        "return self.epsilon",
    ),
    Mutant(
        "Gumbel with a value beside the order",
        "known_domain.py",
        "Item(label=self.domain[place])",
        "Item(label=self.domain[place], count=int(histogram.over(self.domain)[place]))",
    ),
    Mutant(
        "Laplace threshold without tau",
        "unknown_laplace.py",
        "threshold = self.per_item + self.margin\n        if",
        "threshold = self.margin\n        if",
    ),
    Mutant(
        "noise not added to the Laplace threshold",
        "unknown_laplace.py",
        "noisy, threshold = drawn[:-1], int(drawn[-1])",
        "noisy, threshold = drawn[:-1], next_count + threshold",
    ),
    Mutant(
        "Laplace threshold from one noise instead of two",
        "unknown_laplace.py",
        "changeable * difference_exceedance(scale, margin) <= delta",
        "changeable * exceedance(scale, margin) <= delta",
    ),
    Mutant(
        "Laplace threshold without 1 + e^epsilon",
        "unknown_laplace.py",
        "failure = self.delta * shrink / (1 + shrink)",
        "failure = self.delta",
    ),
    Mutant(
        "Laplace histogram: Delta off by one in the cost",
        "known_domain.py",
        "Use(guarantee, min(self.contributions, max(1, len(self.domain))))",
        "Use(guarantee, min(max(1, self.contributions - 1), max(1, len(self.domain))))",
    ),
    Mutant(
        "Gaussian histogram: priced by the noise, not by its share of the sensitivity",
        "known_domain.py",
        "Use(Gaussian(sigma=float(binary(self.sigma))),",
        "Use(Gaussian(sigma=float(self.noise.sigma)),",
    ),
    Mutant(
        "least squares: noise without tau",
        "two_phase.py",
        "labels=len(self.order),\n            contributions=self.contributions,\n            per_item=self.per_item,",
        "labels=len(self.order),\n            contributions=self.contributions,\n            per_item=1,",
    ),
    Mutant(
        "two phases: Delta off by one in the cost",
        "two_phase.py",
        "else min(labels, self.contributions)",
        "else min(labels, max(1, self.contributions - 1))",
    ),
    Mutant(
        "ties broken by the order of rows",
        "histogram.py",
        "sorted((key, self.labels[place], place) for",
        "sorted((key, place, place) for",
    ),
    Mutant(
        "zero counts admitted",
        "histogram.py",
        "candidates = np.flatnonzero(self.counts > 0)",
        "candidates = np.flatnonzero(self.counts >= 0)",
    ),
    Mutant(
        "score range doubled away in the exponential mechanism",
        "known_domain.py",
        "rate = self.epsilon / (self.score_range * denominator)",
        "rate = 2 * self.epsilon / (self.score_range * denominator)",
    ),
    Mutant(
        "intervals: threshold one too low",
        "release.py",
        "released = noise.log_tail(threshold + 1 - c)",
        "released = noise.log_tail(threshold - c)",
    ),
    Mutant(
        "intervals: not conditioned on the threshold",
        "release.py",
        "    if threshold is None:\n        return ends\n    if isinstance",
        "    if threshold is None or ends.size:\n        return ends\n    if isinstance",
    ),
    Mutant(
        "intervals: the rank is not accounted for",
        "release.py",
        "miss = (1 - confidence) / 2 * self.share",
        "miss = (1 - confidence) / 2",
    ),
    Mutant(
        "intervals: all of the allowance on one side",
        "release.py",
        "miss = (1 - confidence) / 2 * self.share",
        "miss = (1 - confidence) * self.share",
    ),
    Mutant(
        "intervals: not stretched to the fitted count",
        "release.py",
        "np.minimum(lower, counts).tolist(), np.maximum(upper, counts).tolist()",
        "np.maximum(lower, self.least).tolist(), np.maximum(upper, self.least).tolist()",
    ),
    Mutant(
        "intervals: a zero that is certain",
        "release.py",
        "upper = np.maximum(drawn, self.least) + self.noise.radius(confidence)",
        "upper = np.maximum(drawn + self.noise.radius(confidence), self.least)",
    ),
    Mutant(
        "intervals: Laplace tail one too far",
        "noise/laplace.py",
        "above = -np.maximum(sizes, 1) * step - both",
        "above = -np.maximum(sizes + 1, 1) * step - both",
    ),
    Mutant(
        "intervals: rounded Gaussian tail without its half",
        "noise/rounded_gaussian.py",
        "log_ndtr((0.5 - sizes) / float(self.sigma))",
        "log_ndtr(-sizes / float(self.sigma))",
    ),
    Mutant(
        "intervals: truncated tail not normalised",
        "noise/truncated_gaussian.py",
        "np.append(tails - tails[0], -np.inf)",
        "np.append(tails, -np.inf)",
    ),
    Mutant(
        "the noisy Laplace threshold is not told to the intervals",
        "unknown_laplace.py",
        "Selection(candidates=len(passed), threshold=threshold)",
        "Selection(candidates=len(passed), threshold=self.per_item + self.margin)",
    ),
    Mutant(
        "truncated Gaussian: intervals know another threshold than the release",
        "unknown_gaussian.py",
        "Selection(candidates=len(passed), threshold=self.cutoff)",
        "Selection(candidates=len(passed), threshold=self.bound - 1)",
    ),
    Mutant(
        "counts may be negative",
        "release.py",
        "count=max(value, least), noisy=value",
        "count=value, noisy=value",
    ),
    Mutant(
        "shared noise: 3% low",
        "noise/shared_gaussian.py",
        "return Fraction(float_above(_root_above(value)))",
        "return Fraction(float_above(_root_above(value)) * 0.97)",
    ),
    Mutant(
        "shared noise: sensitivity without the labels a user is not under",
        "noise/shared_gaussian.py",
        "return changeable * (1 - 2 * theta) + labels * theta**2",
        "return changeable * (1 - 2 * theta) + changeable * theta**2",
    ),
    Mutant(
        "shared noise: Delta off by one in the sensitivity",
        "noise/shared_gaussian.py",
        "root = _root_above(squared_sensitivity(labels, changeable, theta))",
        "root = _root_above(squared_sensitivity(labels, changeable - 1, theta))",
    ),
    Mutant(
        "shared noise: own and common part exchanged",
        "noise/shared_gaussian.py",
        "own, common = (_float_root_above(part * unit) for part in (root, theta))",
        "common, own = (_float_root_above(part * unit) for part in (root, theta))",
    ),
    Mutant(
        "shared noise: one more use than is paid for",
        "noise/shared_gaussian.py",
        "deviation**2 / changeable",
        "deviation**2 / (changeable + 1)",
    ),
    Mutant(
        "shared noise: the common part drawn for each count",
        "noise/shared_gaussian.py",
        "draw(1, randomness, width)",
        "draw(count, randomness, width)",
    ),
    Mutant(
        "shared noise: no common part",
        "noise/shared_gaussian.py",
        "return self.combined(own, common, randomness",
        "return self.combined(own, 0 * common, randomness",
    ),
    Mutant(
        "shared noise: ties always rounded up",
        "noise/shared_gaussian.py",
        "np.where(tied, coins, 0)",
        "np.where(tied, 0 * coins, 0)",
    ),
    Mutant(
        "shared noise: rounded towards zero, which tells the count from its noise",
        "noise/shared_gaussian.py",
        "doubled // (2 * self.denominator) - np.where(tied, coins, 0)",
        "np.trunc((own + common) / self.denominator)",
    ),
    Mutant(
        "shared noise: error bars one too short",
        "noise/shared_gaussian.py",
        "math.ceil(reach + 1.0 / self.denominator - 0.5)",
        "math.ceil(reach + 1.0 / self.denominator - 0.5) - 1",
    ),
    Mutant(
        "two phases: intervals of noise for k labels where fewer were found",
        "two_phase.py",
        "noise, fitted = second.noise, second.release(histogram, randomness).items",
        "fitted = second.release(histogram, randomness).items",
    ),
)
