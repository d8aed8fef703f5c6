"""Ways to break a bound: each charge, rounding direction or domination undone, one edit of one line each.

The test files named are those that must notice.
"""

from functools import partial

import mutant

Mutant = partial(mutant.Mutant, room="accounting")

_TRANSFORM = ("convolution",)
_STEP = ("operator",)
_PROFILE = ("rounding_directions",)
_LATTICE = ("rounding_directions", "convolution")
_BINOMIAL = ("rounding_directions",)
_ATOMS = ("rounding_directions",)
_KINDS = ("rounding_directions", "conversions")
_BATCH = ("batch_mixtures", "batch_accuracy")
_PRICES = ("prices",)
_WALLET = ("wallet",)
_MAJORANT = ("gaussian_majorant",)
_CLASSES = ("classes_beside_gaussian",)

MUTANTS = (
    Mutant(
        "transform: charge by the mean, not the root mean square",
        "losses/fft.py",
        "return math.sqrt(2.0 * float((half * half).sum()) / size)",
        "return 2.0 * float(half.sum()) / size",
        _TRANSFORM,
    ),
    Mutant(
        "transform: errors passed on by other factors not charged",
        "losses/fft.py",
        "charge += count * share * norm * _root_mean_square(others, size)",
        "charge += 0.0 * _root_mean_square(others, size)",
        _TRANSFORM,
    ),
    Mutant(
        "transform: charge taken off from above",
        "losses/fft.py",
        "np.maximum(tilted + charge, charge, out=tilted)",
        "np.maximum(tilted - charge, charge, out=tilted)",
        _TRANSFORM,
    ),
    Mutant(
        "transform: charge added from below",
        "losses/fft.py",
        "np.maximum(tilted - (charge + wrapped), 0.0, out=tilted)",
        "np.maximum(tilted + charge - wrapped, 0.0, out=tilted)",
        _TRANSFORM,
    ),
    Mutant(
        "transform: what is wrapped around not subtracted from below",
        "losses/fft.py",
        "np.maximum(tilted - (charge + wrapped), 0.0, out=tilted)",
        "np.maximum(tilted - charge, 0.0, out=tilted)",
        _TRANSFORM,
    ),
    Mutant(
        "window: right tail dropped without charge",
        "losses/fft.py",
        "dropped = beyond(cut_right, max(window.right_tilt, 0.0), end_right)",
        "dropped = 0.0",
        _TRANSFORM,
    ),
    Mutant(
        "window: left tail not raised to the first loss",
        "losses/fft.py",
        "mass[0] += beyond(cut_left, min(window.left_tilt, 0.0), end_left)",
        "mass[0] += 0.0",
        _TRANSFORM,
    ),
    Mutant(
        "lattice from above: losses rounded down",
        "losses/lattice.py",
        "above = np.clip(above + slack, 0.0, step)",
        "above = np.clip(above - 0.5 * step, 0.0, step)",
        _LATTICE,
    ),
    Mutant(
        "lattice from below: losses not shifted down",
        "losses/lattice.py",
        "shift = max(0.0, float(np.where(far, 0.0, below).max(initial=0.0))) + slack",
        "shift = 0.0",
        _LATTICE,
    ),
    Mutant(
        "lattice tail: dropped mass not charged",
        "losses/lattice.py",
        "+ misplaced + self.dropped",
        "+ misplaced",
        _ATOMS,
    ),
    Mutant(
        "binomial: masses left out not charged",
        "losses/lattice.py",
        "dropped = 0.0 if complete else 2.0 * (count + 1) * smallest_ratio / total",
        "dropped = 0.0",
        _BINOMIAL,
    ),
    Mutant(
        "atoms: dropped mass not charged",
        "losses/lattice.py",
        "* (1 + relative) + self.dropped",
        "* (1 + relative)",
        _ATOMS,
    ),
    Mutant(
        "atoms: positions read on the wrong side",
        "losses/lattice.py",
        "np.concatenate((x - self.loss - moved, x - self.loss + moved))",
        "np.concatenate((x - self.loss + moved, x - self.loss - moved))",
        _ATOMS,
    ),
    Mutant(
        "Gaussians: merged sigma rounded up",
        "guarantees.py",
        "while Fraction(sigma) ** 2 * inverse_variance > 1:",
        "while False:",
        _KINDS,
    ),
    Mutant(
        "large integer Laplace noise: one inner loss too many",
        "losses/dominating_pairs.py",
        "size - (s - last - 1.0) * rate",
        "size - (s - last) * rate",
        ("large_integer_laplace",),
    ),
    Mutant(
        "conversions: parameters rounded down",
        "brackets.py",
        "return value * (1.0 + 4 * ELEMENTARY * UNIT)",
        "return value * (1.0 - 1e-9)",
        _KINDS,
    ),
    Mutant(
        "bounded range: zCDP of half its epsilon",
        "guarantees.py",
        "tau=self.epsilon / 2)",
        "tau=self.epsilon / 3)",
        _KINDS,
    ),
    Mutant(
        "integer Laplace: epsilon rounded down",
        "guarantees.py",
        "return PureDP(epsilon=up(self.sensitivity / self.scale))",
        "return PureDP(epsilon=down(self.sensitivity / self.scale))",
        _KINDS,
    ),
    Mutant(
        "classes beside Gaussians: read at the left end of a cell",
        "methods/moments.py",
        "self._profile(epsilon - loss[1:] - moved)",
        "self._profile(epsilon - loss[:-1] - moved)",
        _CLASSES,
    ),
    Mutant(
        "classes beside Gaussians: what is beyond the cells dropped",
        "methods/moments.py",
        "above += float(tail[-1]) * (1.0 + SPECIAL * UNIT)",
        "above += 0.0",
        _CLASSES,
    ),
    Mutant(
        "step: rounding not charged",
        "adaptive/operator.py",
        "self.rounding = step_rounding(epsilon, cells)",
        "self.rounding = 0.0",
        _STEP,
    ),
    Mutant(
        "step from below: share that keeps not lowered for rounding",
        "adaptive/operator.py",
        "margin = 4.0 * UNIT * true_epsilon",
        "margin = 0.0",
        _STEP,
    ),
    Mutant(
        "step: upper values a thousandth low",
        "adaptive/operator.py",
        "terms = CellTerms(f[cells : cells + count], b_far, drop_a, np.sqrt(omega))",
        "terms = CellTerms(0.999 * f[cells : cells + count], b_far, drop_a, np.sqrt(omega))",
        _STEP,
    ),
    Mutant(
        "step: lower values with the far argument too near",
        "adaptive/operator.py",
        "value += self._own_flip[j] * f[at + cells : at + cells + stop - start]",
        "value += self._own_flip[j] * f[at + cells - 1 : at + cells - 1 + stop - start]",
        _STEP,
    ),
    Mutant(
        "step: a cut grid taken to end in zero from above",
        "adaptive/operator.py",
        "f = self._extend(values, size, float(values[-1]))",
        "f = self._extend(values, size, 0.0)",
        _STEP,
    ),
    Mutant(
        "profile: upper values read along the lower neighbour",
        "adaptive/profiles.py",
        "value = (1.0 - share) * self.upper[cell] + share * self.upper[after]",
        "value = self.upper[after]",
        _PROFILE,
    ),
    Mutant(
        "profile: rounding not charged",
        "adaptive/profiles.py",
        "value *= 1.0 + self.rounding + _POSITION",
        "value *= 1.0",
        _PROFILE,
    ),
    Mutant(
        "batch: a box bounded by its middle",
        "methods/batch_mixture.py",
        "return self._atoms(last, low).average(self.above, x).upper",
        "return self.at(tuple(0.5 * (a + b) for a, b in zip(first, last, strict=True)), x).upper",
        _BATCH,
    ),
    Mutant(
        "price: of bounded range, large ratio, understated",
        "prices.py",
        "remaining * theta * (2.0 + theta) * (1.0 + _CHARGE)",
        "remaining * theta * (1.999999 + theta) * (1.0 + _CHARGE)",
        _PRICES,
    ),
    Mutant(
        "price: of bounded range, series cut after a negative term",
        "prices.py",
        "for n in range(12, -1, -1))",
        "for n in range(1, -1, -1))",
        _PRICES,
    ),
    Mutant(
        "price: Gaussian weight too narrow",
        "prices.py",
        "(s / deviation) ** 2)",
        "(s / deviation) ** 2 * 1.0000001)",
        _PRICES,
    ),
    Mutant(
        "price: half the ripple of the integer lattice",
        "prices.py",
        "ripple = 2.0 * math.exp(-exponent)",
        "ripple = math.exp(-exponent)",
        _PRICES,
    ),
    Mutant(
        "price: truncated mass not charged",
        "prices.py",
        "raised = (ripple + missing) / (1.0 - missing)",
        "raised = ripple",
        _PRICES,
    ),
    Mutant(
        "price: blocks as long as the wallet allows",
        "prices.py",
        "int(wallet / (CONFIG.blocks_to_wallet * one_price))",
        "int(wallet / one_price)",
        _PRICES,
    ),
    Mutant(
        "price: a block pays for less than its uses",
        "prices.py",
        "up(wallet + block * one_price * (1.0 + 4.0 * UNIT))",
        "up(wallet + (block - 0.01) * one_price)",
        _PRICES,
    ),
    Mutant(
        "wallet: failures not taken from delta",
        "wallet.py",
        "(delta - failures - slack)",
        "(delta + failures)",
        _WALLET,
    ),
    Mutant(
        "wallet: no room for the rounding of a sum",
        "wallet.py",
        "loss_limit=down(epsilon + slack)",
        "loss_limit=down(epsilon)",
        _WALLET,
    ),
    Mutant(
        "majorant: the largest rate instead of the least",
        "methods/gaussian_majorant.py",
        "rate = min(cost",
        "rate = max(cost",
        _MAJORANT,
    ),
    Mutant(
        "majorant: jumps of draws that start later",
        "methods/gaussian_majorant.py",
        "jumps.append(prices[max(start, 0)])",
        "jumps.append(prices[min(start + 30, len(points) - 1)])",
        _MAJORANT,
    ),
    Mutant(
        "majorant: Gaussians for nothing",
        "methods/gaussian_majorant.py",
        "return up(level + gaussians) if gaussians else level",
        "return level",
        _MAJORANT,
    ),
    Mutant(
        "zCDP: of Laplace, series cut too early",
        "guarantees.py",
        "for n in range(11))",
        "for n in range(4))",
        ("conversions",),
    ),
    Mutant(
        "composition: a filter that does better is not asked",
        "compose.py",
        "return gaussian <= max(delta",
        "return 1.0 <= max(delta",
        ("coherence",),
    ),
    Mutant(
        "lattice sum: delta is taken as known before the largest loss",
        "losses/pld.py",
        "return self.failure if x >= self.support",
        "return self.failure if x >= 0.99 * self.support",
        ("regressions",),
    ),
    Mutant(
        "zCDP laws: only one direction is checked",
        "methods/concentrated_laws.py",
        "return -law.low <= (xi + rho)",
        "return True or -law.low <= (xi + rho)",
        ("concentrated_laws",),
    ),
    Mutant(
        "zCDP laws: the first order is left out",
        "methods/concentrated_laws.py",
        "if not cumulant[0] <= b[0] * slope:",
        "if cumulant[0] > 1e9:",
        ("concentrated_laws",),
    ),
    Mutant(
        "zCDP laws: the parabola is too wide",
        "methods/concentrated_laws.py",
        "allowed = lowest * slope + rho * lowest * lowest",
        "allowed = lowest * slope + 1.1 * rho * lowest * lowest",
        ("concentrated_laws",),
    ),
    Mutant(
        "integer Gaussians below: no noise is added",
        "methods/integer_gaussians.py",
        "square = noise.sigma**2 / (1.0 - variance / noise.sigma**2)",
        "square = noise.sigma**2",
        ("integer_gaussians",),
    ),
    Mutant(
        "compose: a set is not compared with its parts",
        "compose.py",
        "max(lower, of_part.lower), max(upper, of_part.upper)",
        "max(lower, of_part.lower), upper",
        ("coherence",),
    ),
    Mutant(
        "menu: one unit too many",
        "menu.py",
        "return level - 1",
        "return level",
        ("menu",),
    ),
    Mutant(
        "menu: the dearest use that covers it is forgotten",
        "menu.py",
        "2.0 * pure.epsilon) <= largest",
        "pure.epsilon) <= largest",
        ("menu",),
    ),
)
