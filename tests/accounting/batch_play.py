"""What a batch of generalized randomized responses reveals, summed outcome by outcome with 40 digits."""

import itertools

import mpmath


def response(epsilon, t):
    """Losses and probabilities of one generalized randomized response."""
    e, t = mpmath.mpf(epsilon), mpmath.mpf(t)
    keep = (1 - mpmath.exp(t - e)) / (1 - mpmath.exp(-e))
    return [(t, keep), (t - e, 1 - keep)]


def pure(epsilon):
    keep = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
    return [(mpmath.mpf(epsilon), keep), (-mpmath.mpf(epsilon), 1 - keep)]


def nothing(x):
    return 1 - mpmath.exp(x) if x < 0 else mpmath.mpf(0)


def gaussian(sigma):
    s = mpmath.mpf(sigma)
    return lambda x: mpmath.ncdf(1 / (2 * s) - x * s) - mpmath.exp(x) * mpmath.ncdf(-1 / (2 * s) - x * s)


def laplace(scale):
    """The profile of Laplace noise at any x."""
    e = 1 / mpmath.mpf(scale)

    def profile(x):
        if x >= e:
            return mpmath.mpf(0)
        return 1 - mpmath.exp((x - e) / 2) if x > -e else 1 - mpmath.exp(x)

    return profile


def repeated(losses, count):
    """Losses and probabilities of `count` two-point mechanisms alike."""
    (high, keep), (low, flip) = losses
    return [
        ((count - i) * high + i * low, mpmath.binomial(count, i) * keep ** (count - i) * flip**i)
        for i in range(count + 1)
    ]


def delta(mechanisms, total, beside=nothing):
    """The delta of mechanisms given as losses and probabilities, beside one with a known profile."""
    with mpmath.workdps(40):
        terms = []
        for outcome in itertools.product(*mechanisms):
            chance = mpmath.fprod(p for _, p in outcome)
            terms.append(chance * beside(mpmath.mpf(total) - mpmath.fsum(loss for loss, _ in outcome)))
        return mpmath.fsum(terms)
