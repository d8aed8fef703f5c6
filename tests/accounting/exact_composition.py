"""Composition written down literally and summed to fifty digits and more."""

import itertools

from mpmath import mp, mpf

DIGITS = 70


def _keep(epsilon):
    return 1 / (1 + mp.exp(-mpf(epsilon)))


def pure(count, epsilon, total):
    """The optimal delta of `count` epsilon-DP mechanisms (thm:opt_DPCOMP)."""
    with mp.workdps(DIGITS):
        e, g, q = mpf(epsilon), mpf(total), _keep(epsilon)
        last = int(mp.floor((count - g / e) / 2))
        if last < 0:
            return mpf(0)
        mode = int(count * (1 - q))
        term = mp.binomial(count, last) * q ** (count - last) * (1 - q) ** last
        value = mpf(0)
        for flips in range(last, -1, -1):
            value += term * max(mpf(0), -mp.expm1(g - (count - 2 * flips) * e))
            if flips < mode and term < value * mpf(10) ** -40:
                break
            term *= mpf(flips) / (count - flips + 1) * q / (1 - q)
        return value


def unequal_pure(epsilons, total):
    """The optimal delta of pure DP mechanisms with different epsilons, over all sign patterns."""
    with mp.workdps(DIGITS):
        value = mpf(0)
        for signs in itertools.product((1, -1), repeat=len(epsilons)):
            mass, loss = mpf(1), mpf(0)
            for sign, epsilon in zip(signs, epsilons, strict=True):
                mass *= _keep(sign * mpf(epsilon))
                loss += sign * mpf(epsilon)
            if loss > total:
                value += mass * -mp.expm1(mpf(total) - loss)
        return value


def gaussian(sigma, total, count=1):
    """The delta of `count` Gaussian mechanisms (lem:AGM)."""
    with mp.workdps(DIGITS):
        s, g = mpf(sigma) / mp.sqrt(count), mpf(total)
        return mp.ncdf(1 / (2 * s) - g * s) - mp.exp(g) * mp.ncdf(-1 / (2 * s) - g * s)


def pure_beside_gaussian(count, epsilon, sigma, uses, total):
    """The delta of `count` epsilon-DP mechanisms and `uses` Gaussians."""
    with mp.workdps(DIGITS):
        q = _keep(epsilon)
        return mp.fsum(
            mp.binomial(count, j)
            * q ** (count - j)
            * (1 - q) ** j
            * gaussian(sigma, mpf(total) - (count - 2 * j) * mpf(epsilon), uses)
            for j in range(count + 1)
        )


def batch_at(t, count, pure_count, epsilon, total):
    """The delta of `pure_count` randomized responses beside `count` generalized ones, all with the same t."""
    with mp.workdps(DIGITS):
        t, e, g, q = mpf(t), mpf(epsilon), mpf(total), _keep(epsilon)
        high = mp.expm1(t - e) / mp.expm1(-e)
        low = mp.expm1(t) / mp.expm1(e)
        number = [mpf(0)] * (count + 2 * pure_count + 1)  # pmf of the number of steps of epsilon down
        for i in range(count + 1):
            first = mp.binomial(count, i) * high ** (count - i) * low**i
            for j in range(pure_count + 1):
                number[i + 2 * j] += first * mp.binomial(pure_count, j) * q ** (pure_count - j) * (1 - q) ** j
        value = mpf(0)
        for steps, mass in enumerate(number):
            loss = t * count + e * (pure_count - steps)
            if loss > g:
                value += mass * -mp.expm1(g - loss)
        return value


def batch_points(count, epsilon, total):
    """The stationary points of thm:opt_nonadaptive: all (total + l epsilon) / (count + 1) inside [0, epsilon]."""
    with mp.workdps(DIGITS):
        e, g = mpf(epsilon), mpf(total)
        first = int(mp.ceil(-g / e))
        return [t for n in range(first, first + count + 3) if 0 <= (t := (g + n * e) / (count + 1)) <= e]


def batch(count, pure_count, epsilon, total):
    """The optimal delta of a batch of `pure_count` epsilon-DP and `count` epsilon-BR mechanisms, by a full scan."""
    return max(batch_at(t, count, pure_count, epsilon, total) for t in batch_points(count, epsilon, total))
