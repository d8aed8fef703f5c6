"""The mechanism that the draws of an account stand for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import assert_never

from setwise.accounting.brackets import float_above
from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
    DiscreteLaplace,
    Gaussian,
    Guarantee,
    PureDP,
    Use,
)
from setwise.accounting.notation import format_use
from setwise.analytics.budget import Draws
from setwise.errors import InvalidParameter
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from setwise.mechanisms.planning.planner import Mechanism
from setwise.mechanisms.planning.request import Bounds, MechanismName
from setwise.mechanisms.statistics import GroupStatistics, NoisyTotal, StatisticRelease, UsersFound
from setwise.mechanisms.two_phase import Counts, GaussianCounts, LaplaceCounts, TwoPhaseTopK
from setwise.mechanisms.unknown_domain import UnknownGaussian, UnknownGumbel, UnknownLaplace

AccountNames = tuple[tuple[Guarantee, Guarantee], ...]

_COUNTED = "pure:E, gaussian:S or discrete-laplace:B"
"""What a count may draw from an account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A mechanism, its name, and what its own guarantees are called in the account."""

    mechanism: Mechanism | GroupStatistics
    name: str
    account_names: AccountNames = ()


def drawn_mechanism(bounds: Bounds, draws: Draws, status: AccountStatus) -> Drawn:
    """Return the mechanism whose every use is one of the draws.

    Picks of bounded-range:E are Gumbel picks. Counts of pure:E get discrete Laplace noise of scale at least per_item/E,
    which is E-DP; those of gaussian:S get Gaussian noise of deviation per_item * S at most, rounded: m draws buy one
    Gaussian of parameter S / sqrt(m), whose noise counts share a part of where that makes them narrower.
    """
    if draws.discover is None:
        return _noisy_histogram(bounds, draws, status)
    if bounds.k is None:
        raise InvalidParameter("only a top k draws picks: leave discover out")
    match draws.discover:
        case BoundedRange(epsilon=epsilon):
            picks = _picks(bounds, Fraction(epsilon), draws, status)
        case _:
            raise InvalidParameter(f"discover must be bounded-range:E, not {_in_notation(draws.discover)}")
    name = str(MechanismName.KNOWN_GUMBEL if bounds.domain is not None else MechanismName.UNKNOWN_GUMBEL)
    if draws.counts is None:
        return Drawn(mechanism=picks, name=name)
    counts, account_names, noise = _count_noise(draws.counts, bounds.per_item)
    bound = bounds.changeable if bounds.domain is not None else bounds.contributions
    return Drawn(
        mechanism=TwoPhaseTopK(discovery=picks, counts=counts, contributions=bound),
        name=f"{name}+{noise}",
        account_names=account_names,
    )


def drawn_statistics(bounds: Bounds, wanted: Sequence[StatisticRelease], draws: Draws, status: AccountStatus) -> Drawn:
    """Return the statistics whose every use is one of the draws, of groups that are public or found by draws.

    Each count, sum and half of a mean draws `counts`. A quantile draws `discover` once, several of the same values as
    often as these are halved. Groups of an unknown domain are found as for a histogram or a top k of users: by noise on
    their numbers, which are then known, or by picks.
    """
    found = _drawn_discovery(bounds, draws, status)
    account_names: dict[Guarantee, Guarantee] = {} if found is None else dict(found.account_names)
    statistics: list[StatisticRelease] = []
    pick = Fraction(draws.discover.epsilon) if isinstance(draws.discover, BoundedRange) else None
    for release in wanted:
        counted = isinstance(release, UsersFound) and (found is None or bounds.k is not None)
        noisy = NoisyTotal(reach=1, noise=_UNIT) if counted else release
        drawn = noisy.with_draws(None if draws.counts is None else _shared_noise(draws.counts), pick)
        if not drawn.by_picks and draws.counts is not None:
            account_names |= dict.fromkeys(drawn.guarantees(), draws.counts)
        statistics.append(drawn)
    discovery = None if found is None else found.mechanism
    assert not isinstance(discovery, GroupStatistics)
    mechanism = GroupStatistics(
        statistics=tuple(statistics),
        contributions=bounds.contributions,
        discovery=discovery,
        domain=bounds.domain or (),
        k=bounds.k,
    )
    name = "statistics" if found is None else f"{found.name}+statistics"
    return Drawn(mechanism=mechanism, name=name, account_names=tuple(account_names.items()))


def _drawn_discovery(bounds: Bounds, draws: Draws, status: AccountStatus) -> Drawn | None:
    """Return how groups are found by their users; None when the domain is public and all of it is wanted."""
    by_users = replace(bounds, per_item=1)
    if bounds.k is None:
        return None if bounds.domain is not None else _noisy_histogram(by_users, draws, status)
    if draws.discover is None:
        raise InvalidParameter("the groups with the most users are picked: give discover, as bounded-range:E")
    return drawn_mechanism(by_users, replace(draws, counts=None), status)


_UNIT = LaplaceCounts(scale=Fraction(1))


def _shared_noise(guarantee: Guarantee) -> Counts:
    """Return noise that is no more than the guarantee whatever one user adds.

    The scale has room for the rounding of scale * reach to a float, which is down by at most one part in 2^53.
    """
    match guarantee:
        case PureDP(epsilon=epsilon):
            return LaplaceCounts(scale=(1 + Fraction(1, 2**52)) / Fraction(epsilon))
        case Gaussian(sigma=sigma):
            return GaussianCounts(sigma=Fraction(sigma))
        case _:
            raise InvalidParameter(f"counts must draw {_COUNTED}, not {_in_notation(guarantee)}")


def _picks(bounds: Bounds, epsilon: Fraction, draws: Draws, status: AccountStatus) -> KnownGumbel | UnknownGumbel:
    assert bounds.k is not None
    if bounds.domain is not None:
        return KnownGumbel(domain=bounds.domain, k=bounds.k, per_item=bounds.per_item, epsilon=epsilon)
    return UnknownGumbel(
        k=bounds.k,
        limit=bounds.search_limit,
        contributions=bounds.contributions,
        per_item=bounds.per_item,
        epsilon=epsilon,
        delta=_threshold(draws, status),
    )


def _noisy_histogram(bounds: Bounds, draws: Draws, status: AccountStatus) -> Drawn:
    """Return noise on every count, one draw for each that a user can change."""
    changed = bounds.changeable
    if changed is None:
        raise InvalidParameter("without a bound on contributions, labels are found by picks: give discover")
    if draws.counts is None:
        raise InvalidParameter("say what each count draws: give counts, such as pure:0.1")
    counts, account_names, _ = _count_noise(draws.counts, bounds.per_item)
    match counts:
        case LaplaceCounts(scale=scale) if bounds.domain is not None:
            laplace = KnownLaplace(domain=bounds.domain, contributions=changed, per_item=bounds.per_item, scale=scale)
            return Drawn(mechanism=laplace, name=str(MechanismName.KNOWN_LAPLACE), account_names=account_names)
        case GaussianCounts(sigma=sigma) if bounds.domain is not None:
            gaussian = KnownGaussian(domain=bounds.domain, contributions=changed, per_item=bounds.per_item, sigma=sigma)
            return Drawn(mechanism=gaussian, name=str(MechanismName.KNOWN_GAUSSIAN), account_names=account_names)
        case LaplaceCounts(scale=scale):
            above = UnknownLaplace(
                contributions=changed, per_item=bounds.per_item, scale=scale, delta=_threshold(draws, status)
            )
            return Drawn(mechanism=above, name=str(MechanismName.UNKNOWN_LAPLACE), account_names=account_names)
        case GaussianCounts(sigma=sigma):
            beyond = UnknownGaussian(
                contributions=changed, per_item=bounds.per_item, sigma=sigma, delta=_threshold(draws, status)
            )
            return Drawn(mechanism=beyond, name="unknown_gaussian", account_names=account_names)
        case _:
            assert_never(counts)


def _count_noise(guarantee: Guarantee, per_item: int) -> tuple[Counts, AccountNames, str]:
    """Return the noise one count draws, how the account calls it, and its name."""
    match guarantee:
        case PureDP(epsilon=epsilon):
            # The noise's scale is a float, rounded up, so that it is never below per_item / epsilon.
            scale = float_above(per_item / Fraction(epsilon))
            drawn = DiscreteLaplace(scale=scale, sensitivity=per_item)
            return LaplaceCounts(scale=Fraction(scale) / per_item), ((drawn, guarantee),), "laplace"
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity) if sensitivity == per_item:
            return LaplaceCounts(scale=Fraction(scale) / per_item), (), "laplace"
        case Gaussian(sigma=sigma):
            return GaussianCounts(sigma=Fraction(sigma)), (), "gaussian"
        case DiscreteLaplace(sensitivity=sensitivity):
            raise InvalidParameter(
                f"{_in_notation(guarantee)} is for counts a user moves by {sensitivity}, not by per_item = {per_item}"
            )
        case _:
            raise InvalidParameter(f"counts must draw {_COUNTED}, not {_in_notation(guarantee)}")


def _threshold(draws: Draws, status: AccountStatus) -> Fraction:
    """Return the delta of the threshold: as given, or the only approx:0,DELTA that the account has registered."""
    if draws.threshold_delta is not None:
        return Fraction(draws.threshold_delta)
    registered = {
        use.guarantee.delta
        for use in status.terms.uses
        if isinstance(use.guarantee, ApproxDP) and use.guarantee.epsilon == 0.0
    }
    if len(registered) == 1 and status.kind == "setwise":
        return Fraction(registered.pop())
    raise InvalidParameter(
        f"an unknown domain draws one approx:0,DELTA for its threshold: give that delta, because "
        f"account {status.name!r} has {'several' if registered else 'none'} registered"
    )


def _in_notation(guarantee: Guarantee) -> str:
    return format_use(Use(guarantee))
