"""A zCDP filter and an odometer, for uses whose parameters are chosen on the fly.

A filter has its budget in advance, and admits or refuses each use before it runs. Whatever uses an adversary asks for,
the whole interaction is (epsilon, delta)-DP. An odometer bounds the privacy loss of the uses so far, at any time. Both
are immutable values.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from setwise.accounting.brackets import Bracket, CertifiedBound, Interaction, either_fails, sum_above, up
from setwise.accounting.checks import check_delta, check_epsilon, check_failure
from setwise.accounting.conversions import optimised_delta
from setwise.accounting.guarantees import Use
from setwise.records import set_fields


@dataclass(frozen=True, slots=True)
class Spent:
    """Two totals over all uses so far; a zCDP filter admits a further use if both stay within its budgets.

    Each use is (xi, rho)-zCDP unless it fails outright (in which case everything may be revealed). The field `rho` is
    the sum of r = rho + max(xi, 0) over the uses, because (xi, rho)-zCDP implies r-zCDP. `failure_sum` is the sum of
    the probabilities of outright failure. Both are rounded up, so that no use is counted too low.
    """

    rho: float = 0.0
    failure_sum: float = 0.0

    @property
    def failure(self) -> Bracket:
        """Bracket for the probability that some use fails outright, in which case everything may be revealed.

        The lower end is 0. The upper end is the sum of the uses' failure probabilities (at most 1), because the
        failures of uses that are chosen on the fly need not be independent.
        """
        return Bracket(0.0, min(1.0, self.failure_sum))

    def delta(self, epsilon: float) -> Bracket:
        """Return [0, d], where d bounds the delta at `epsilon` of all uses that were added to the two totals.

        The totals are `rho`, the sum of the rho of zCDP, and `failure_sum`, the sum of the probabilities of outright
        failure, in which everything may be revealed. The bound also holds for uses that an adversary chooses on the
        fly, if the totals were fixed in advance as budgets and every use that would exceed them was refused.

        Theorem: WhitehouseRaRoWu23 for the filter, CanonneKaSt20 for the conversion.
        """
        return either_fails(self.failure, optimised_delta(0.0, self.rho, epsilon))

    def plus(self, use: Use) -> "Spent":
        """Return these totals with the uses of `use` (a guarantee and a count) added; this object does not change.

        Each of the uses is (xi, rho)-zCDP unless it fails outright (in which case everything may be revealed). So each
        adds r = rho + max(xi, 0) to the field `rho`, because (xi, rho)-zCDP implies r-zCDP, and its probability of
        outright failure to `failure_sum`.
        """
        # A positive xi may be added because the divergence of order alpha > 1 is at most xi + alpha rho <= alpha (xi +
        # rho).
        parameters = use.guarantee.zero_concentrated()
        rho = use.count * (parameters.rho + max(parameters.xi, 0.0)) * (1 + 4e-16)
        failure = use.count * parameters.delta * (1 + 4e-16 if use.count > 1 else 1.0)
        return Spent(up(self.rho + rho), sum_above(self.failure_sum, failure))


def filter_parameters(uses: Sequence[Use]) -> Spent:
    """Return the two sums over `uses` that a zCDP filter limits: of zCDP parameters, and of failure probabilities.

    An outright failure is an event in which everything may be revealed. A use that is (xi, rho)-zCDP adds rho + max(xi,
    0) to the first sum, because it is zCDP with this parameter. A zCDP filter (a budget for uses that are chosen on the
    fly) admits a further use only if both sums stay within their limits.
    """
    spent = Spent()
    for use in uses:
        spent = spent.plus(use)
    return spent


@dataclass(frozen=True, slots=True, kw_only=True)
class ZcdpFilter:
    """An overall (epsilon, delta) budget for uses whose parameters are chosen on the fly, accounted by zCDP.

    `failure_share` is the share of delta for outright failures (in which everything may be revealed). The sum of the
    rho of all uses is limited to `rho_budget`, for which zCDP implies (epsilon, delta)-DP with the remaining share of
    delta.

    >>> round(ZcdpFilter(epsilon=1.0, delta=1e-6).rho_budget, 5)
    0.02294
    """

    epsilon: float
    delta: float
    failure_share: float = 0.5

    def __post_init__(self) -> None:
        set_fields(
            self,
            epsilon=check_epsilon(self.epsilon),
            delta=check_delta(self.delta),
            failure_share=check_failure("failure_share", self.failure_share),
        )

    @property
    def rho_budget(self) -> float:
        """The largest sum of rho for which zCDP implies (epsilon, (1 - `failure_share`) delta)-DP.

        The share `failure_share` of delta is set aside for outright failures (in which everything may be revealed). The
        result is rounded down, so that spending all of it keeps the promise.
        """
        delta = self.delta * (1.0 - self.failure_share)
        low, high = 0.0, self.epsilon
        for _ in range(200):
            middle = 0.5 * (low + high)
            if middle in (low, high):
                break
            low, high = (middle, high) if optimised_delta(0.0, middle, self.epsilon).upper <= delta else (low, middle)
        return low


_LEVELS = 64
"""Number of levels of rho that an odometer uses; each halves or doubles the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZcdpOdometer:
    """An odometer: an upper bound on the privacy loss of all uses so far, which may be read after every use.

    With probability 1 - `delta`, the privacy loss never exceeds the bound, however many uses are recorded.

    - `failure_share` is the share of delta for outright failures (in which everything may be revealed). Once the sum of
      their probabilities exceeds this share of delta, the bound is infinite.
    - `most_rho` is the sum of rho at which a privacy filter admits no further use, or None without a filter. With a
      filter, the bound is made nearly as small as possible for sums of rho up to `most_rho`.
    - `first_rho` is for the case without a filter: the bound is nearly as small as possible for sums of rho of at least
      about this size, and looser below.
    - `spent` has the sums, over the uses so far, of rho and of the failure probabilities.

    >>> from setwise.accounting.guarantees import Gaussian
    >>> ZcdpOdometer(delta=1e-6).record(Use(Gaussian(sigma=20), 10)).epsilon() < 1.02
    True
    >>> ZcdpOdometer(delta=1e-6, most_rho=0.02).record(Use(Gaussian(sigma=20), 10)).epsilon() < 0.92
    True
    """

    # The bound is the smallest of several linear functions of the sum of rho. Each function is tightest at one value of
    # the sum, its level, and has a share of `delta`; the first levels have the largest shares. The levels are fixed in
    # advance: `first_rho`, twice `first_rho`, and so on. If `most_rho` is not None, the levels are `most_rho`, half of
    # it, and so on.

    delta: float
    failure_share: float = 0.5
    first_rho: float = 1e-4
    most_rho: float | None = None
    spent: Spent = field(default_factory=Spent)

    def __post_init__(self) -> None:
        set_fields(
            self,
            delta=check_delta(self.delta),
            failure_share=check_failure("failure_share", self.failure_share),
            first_rho=check_epsilon(self.first_rho, "first_rho"),
        )
        if self.most_rho is not None:
            set_fields(self, most_rho=check_epsilon(self.most_rho, "most_rho"))

    def record(self, use: Use) -> "ZcdpOdometer":
        """Return an odometer that also covers the uses `use` (a guarantee and a count); this object does not change.

        An odometer is an upper bound on the privacy loss so far. The rho and the failure probability of each new use
        are added to the totals in `spent`.
        """
        return replace(self, spent=self.spent.plus(use))

    def epsilon(self) -> float:
        """Return an upper bound on the privacy loss of all uses so far.

        The caller may read the bound again after every use: with probability at least 1 - `delta`, all the bounds that
        are read hold, each for the privacy loss of the uses up to then. A share of `delta` (`failure_share`) is set
        aside for outright failures, in which everything may be revealed. The bound is infinite if the failure
        probabilities of the uses add up to more than this share.

        Theorem: WhitehouseRaRoWu23 (odometers by time-uniform bounds), RogersRoUlVa16 (the definition).
        """
        # Proof: let L be the privacy loss so far, rho the sum of the uses' rho, and delta the part of `delta` that is
        # not set aside for outright failures. For every t > 0, exp(t L - t (t + 1) rho) is a supermartingale, because
        # given the past each use has at most its rho of Renyi divergence of order t + 1. The average of such processes
        # for several t_j, with weights w_j that add up to 1, is a supermartingale too. By Ville's inequality this
        # average ever reaches 1 / delta with probability at most delta. Hence L <= (t_j + 1) rho + log(1 / (w_j delta))
        # / t_j for all j and at all times.
        if self.spent.failure_sum > self.delta * self.failure_share:
            return math.inf
        if self.spent.rho == 0.0:
            return 0.0
        start, factor = (self.first_rho, 2.0) if self.most_rho is None else (self.most_rho, 0.5)
        least = math.inf
        for level in range(_LEVELS):
            weight = 1.0 / ((level + 1) * (level + 2))
            unlikely = -math.log(self.delta * (1.0 - self.failure_share) * weight)
            t = math.sqrt(unlikely / (start * factor**level))
            least = min(least, (t + 1.0) * self.spent.rho + unlikely / t)
        return up(least * (1 + 1e-13))

    def answer(self) -> CertifiedBound:
        """Return the bound on the privacy loss of all uses so far, with the names of its method and of its theorem.

        With probability at least 1 - `delta` (the odometer's field), the privacy loss is at most the upper end of the
        result, even if an adversary chose each mechanism after seeing earlier answers. The lower end is 0.
        """
        return CertifiedBound(0.0, self.epsilon(), Interaction.ADAPTIVE, "zcdp-odometer", "WhitehouseRaRoWu23")
