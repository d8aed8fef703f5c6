"""What an adaptive analyst can reach, found by playing: nested search over the analyst's choices.

Whatever the search finds is the delta of one real analyst, so it never exceeds the optimum; and it looks closely enough
to come within `SHORT` of it, unless nearly every choice is useless: keep the total well below the sum of the epsilons.
"""

import itertools

import numpy as np

SHORT = 5e-5
"""How far, relatively, the search may stay below the optimum."""

_COARSE, _COARSER = np.linspace(0.0, 1.0, 73), np.linspace(0.0, 1.0, 25)
_FINE = np.linspace(-1.0, 1.0, 9)
_MANY = 100
"""Beyond so many questions at once the inner searches are cut short: the curve is flat around its maximum."""


def fixed(loss, mass):
    """A mechanism whose privacy loss takes these values with these probabilities."""
    return ("fixed", tuple(loss), tuple(mass))


def pure(epsilon):
    keep = 1.0 / (1.0 + np.exp(-epsilon))
    return fixed((epsilon, -epsilon), (keep, keep * np.exp(-epsilon)))


def bounded_range(epsilon):
    return ("range", epsilon)


def in_order(mechanisms, total):
    """Return the best delta found against mechanisms used in this order."""
    return float(_in_order(tuple(mechanisms), np.array([float(total)]))[0])


def in_any_order(mechanisms, total):
    """Return the best delta found when the analyst also picks, after every answer, which mechanism comes next."""
    return float(_in_any_order(tuple(sorted(mechanisms)), np.array([float(total)]))[0])


def _nothing(x):
    return np.maximum(0.0, -np.expm1(np.minimum(x, 0.0)))


def _in_order(mechanisms, x):
    if not mechanisms:
        return _nothing(x)
    first, rest = mechanisms[0], mechanisms[1:]
    return _use(first, lambda y: _in_order(rest, y), x, rest)


def _in_any_order(mechanisms, x):
    if not mechanisms:
        return _nothing(x)
    best = np.zeros_like(x)
    for index, first in enumerate(mechanisms):
        if index and mechanisms[index - 1] == first:
            continue
        rest = mechanisms[:index] + mechanisms[index + 1 :]
        best = np.maximum(best, _use(first, lambda y, rest=rest: _in_any_order(rest, y), x, rest))
    return best


def _use(mechanism, after, x, rest):
    if mechanism[0] == "fixed":
        _, losses, masses = mechanism
        values = after((x[None, :] - np.array(losses)[:, None]).ravel()).reshape(len(losses), x.size)
        return np.array(masses) @ values
    epsilon = mechanism[1]
    if not rest:  # with nothing to follow, this t is best; as it is a legal one, no harm is done if it were not
        t = np.clip((x + epsilon) / 2.0, 0.0, epsilon)
        return np.maximum(_play(epsilon, t[None, :], x, after)[0], after(x))
    coarse = _COARSE if x.size < _MANY else _COARSER
    t = np.broadcast_to(epsilon * coarse[:, None], (coarse.size, x.size))
    spacing = epsilon * (coarse[1] - coarse[0])
    corners = _corners(rest)
    if corners.size:  # the best t often puts the analyst on a corner of what follows
        exact = np.concatenate((x - corners[:, None], x + epsilon - corners[:, None]))
        t = np.concatenate((t, np.clip(exact, 0.0, epsilon)))
    value = _play(epsilon, t, x, after)
    everyone = np.arange(x.size)
    while True:
        winner = value.argmax(axis=0)
        best_t, best = t[winner, everyone], value[winner, everyone]
        if spacing < epsilon * (1e-5 if x.size < _MANY else 3e-4):
            return best
        t = np.clip(best_t[None, :] + spacing * _FINE[:, None], 0.0, epsilon)
        value = _play(epsilon, t, x, after)
        spacing *= _FINE[1] - _FINE[0]


def _corners(rest):
    """Return where the delta of mechanisms with fixed losses has corners: the sums of their losses."""
    if any(mechanism[0] != "fixed" for mechanism in rest):
        return np.empty(0)
    return np.unique([sum(losses) for losses in itertools.product(*(mechanism[1] for mechanism in rest))])


def _play(epsilon, t, x, after):
    """Return the delta of generalized randomized response at each t, followed by `after`."""
    keep = np.expm1(t - epsilon) / np.expm1(-epsilon)
    flip = np.expm1(t) / np.expm1(epsilon)
    below, above = (x - t).ravel(), (x + epsilon - t).ravel()
    values = after(np.concatenate((below, above))).reshape(2, *t.shape)
    return keep * values[0] + flip * values[1]
