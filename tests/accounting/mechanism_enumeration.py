"""The hockey-stick divergence of integer noise by summing over every outcome."""

import itertools
import math

import numpy as np


def discrete_laplace(scale, reach):
    return {z: math.exp(-abs(z) / scale) for z in range(-reach, reach + 1)}


def discrete_gaussian(sigma, reach):
    return {z: math.exp(-z * z / (2.0 * sigma * sigma)) for z in range(-reach, reach + 1)}


def outcomes(weights, shift):
    """Return the probabilities of every outcome of a release and of one whose count is shifted."""
    norm = math.fsum(weights.values())
    pairs = [(p / norm, weights.get(z - shift, 0.0) / norm) for z, p in weights.items()]
    return pairs + [(0.0, p / norm) for z, p in weights.items() if z + shift not in weights]


def likely(pairs):
    """Return the outcomes with those of equal likelihood ratio taken together, those of next to no probability last."""
    together = {}
    for p, q in pairs:
        ratio = round(math.log(p / q), 9) if p > 0.0 < q else None
        before = together.get(ratio, (0.0, 0.0))
        together[ratio] = before[0] + p, before[1] + q
    return list(together.values())


def delta(weights, shift, total, uses=1):
    """Return sum of max(0, P - e^total Q) over all outcomes of `uses` independent releases."""
    return delta_together([outcomes(weights, shift)] * uses, total)


def delta_together(releases, total):
    """Return sum of max(0, P - e^total Q) over all outcomes of independent releases."""
    growth = math.exp(total)
    return math.fsum(
        max(0.0, math.prod(p for p, _ in pick) - growth * math.prod(q for _, q in pick))
        for pick in itertools.product(*releases)
    )


def renyi(exponents, shift, order):
    """Return the Rényi divergence between noise with these log weights and its shift, given both can produce it."""
    shared = [(e, exponents[z - shift]) for z, e in exponents.items() if z - shift in exponents]
    p, q = (np.array(side) for side in zip(*shared, strict=True))
    p, q = p - np.logaddexp.reduce(p), q - np.logaddexp.reduce(q)
    return float(np.logaddexp.reduce(order * p + (1 - order) * q)) / (order - 1)


def gaussian_exponents(sigma, reach):
    return {z: -z * z / (2.0 * sigma * sigma) for z in range(-reach, reach + 1)}
