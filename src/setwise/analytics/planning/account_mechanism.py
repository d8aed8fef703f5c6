"""Mechanisms for questions that are paid with an account's registered uses (`Draws`).

Such a question names two guarantees that the account registered, such as `pure:0.1`: one pays for each noisy count, the
other for each random pick of a group. This module returns a mechanism whose uses have exactly these guarantees.
"""

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
from setwise.errors import BudgetExhausted, InvalidParameter
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from setwise.mechanisms.planning.request import Bounds, MechanismName
from setwise.mechanisms.statistic_release import StatisticRelease
from setwise.mechanisms.statistics import GroupStatistics, HistogramMechanism, NoisyTotal, UsersFound
from setwise.mechanisms.two_phase import Counts, GaussianCounts, LaplaceCounts, TwoPhaseTopK
from setwise.mechanisms.unknown_domain import UnknownGaussian, UnknownGumbel, UnknownLaplace

AccountNames = tuple[tuple[Guarantee, Guarantee], ...]
"""Pairs of (guarantee of the mechanism, guarantee under which the account registered it)."""

_COUNTED = "pure:E, gaussian:S or discrete-laplace:B"
"""The notations of the guarantees that a noisy count may draw from an account, for error messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountMechanism:
    """The mechanism that answers a question whose budget is stated as guarantees that an account registered in advance.

    `mechanism` is the mechanism, and `name` its name in the answer. `account_names` has pairs (guarantee of the
    mechanism, guarantee that the account registered and charges). It has a pair only if the two guarantees are written
    differently. For example, discrete Laplace noise is charged as `pure:E`, because it satisfies pure DP with epsilon
    E.
    """

    mechanism: HistogramMechanism | GroupStatistics
    name: str
    account_names: AccountNames = ()


def mechanism_from_draws(bounds: Bounds, draws: Draws, status: AccountStatus) -> AccountMechanism:
    """Return the mechanism of a histogram or top k whose picks and noisy counts have exactly the guarantees in `draws`.

    The account that pays registered these guarantees in advance. `bounds` are the query's contribution bounds, and
    `status` is the status of the account.

    - bounded-range:E is the guarantee of one pick of a group by the exponential mechanism (Gumbel noise).
    - pure:E is the guarantee of one count with discrete Laplace noise of scale at least per_item/E. Here per_item is
      the most that one user adds to one count.
    - gaussian:S is the guarantee of one count with Gaussian noise of standard deviation at most per_item * S before
      rounding. If one user changes m counts, m uses of gaussian:S cost as much as one use of gaussian:S/sqrt(m), which
      pays for all m counts. The counts share a part of the noise where sharing makes the noise of each count smaller.

    If groups are private, a threshold hides small groups. Its delta comes from `draws` or, if `draws` has none, from
    the account (see `_threshold`).

    Raises: `InvalidParameter` if `draws` pays for picks but the query has no `k`, or if a guarantee is of the wrong
    kind.
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
        return AccountMechanism(mechanism=picks, name=name)
    counts, account_names, noise = _count_noise(draws.counts, bounds.per_item)
    bound = bounds.changeable if bounds.domain is not None else bounds.contributions
    return AccountMechanism(
        mechanism=TwoPhaseTopK(discovery=picks, counts=counts, contributions=bound),
        name=f"{name}+{noise}",
        account_names=account_names,
    )


def statistics_from_draws(
    bounds: Bounds, wanted: Sequence[StatisticRelease], draws: Draws, status: AccountStatus
) -> AccountMechanism:
    """Return the mechanism that releases several statistics per group, paid with an account's registered guarantees.

    - `bounds` are the query's contribution bounds: to how many groups one user adds, and how much.
    - `wanted` has one release per statistic, whose noise is chosen here.
    - `draws.counts` is the guarantee of each noisy number. It is charged once for a count or a sum, twice for a mean,
      and three times for a variance.
    - `draws.discover` is the guarantee of each pick of a quantile, and is charged once for a single quantile. Several
      quantiles of the same values are found by bisection; it is then charged once for each level of the bisection.
    - `status` is the status of the account that pays.

    If the group keys are private, the groups are found by their numbers of users. A top k picks them by the exponential
    mechanism. Any other query releases the groups whose noisy counts exceed a threshold, and these counts also answer a
    count of users. The delta of the threshold comes from `draws` or, if `draws` states none, from the account.
    """
    group_discovery = _discovery_from_draws(bounds, draws, status)
    account_names: dict[Guarantee, Guarantee] = {} if group_discovery is None else dict(group_discovery.account_names)
    statistics: list[StatisticRelease] = []
    pick = Fraction(draws.discover.epsilon) if isinstance(draws.discover, BoundedRange) else None
    for release in wanted:
        counted = isinstance(release, UsersFound) and (group_discovery is None or bounds.k is not None)
        noisy = NoisyTotal(reach=1, noise=_UNIT) if counted else release
        release_with_noise = noisy.with_draws(None if draws.counts is None else _shared_noise(draws.counts), pick)
        if not release_with_noise.by_picks and draws.counts is not None:
            account_names |= dict.fromkeys(release_with_noise.guarantees(), draws.counts)
        statistics.append(release_with_noise)
    discovery = None if group_discovery is None else group_discovery.mechanism
    assert not isinstance(discovery, GroupStatistics)
    mechanism = GroupStatistics(
        statistics=tuple(statistics),
        contributions=bounds.contributions,
        discovery=discovery,
        domain=bounds.domain or (),
        k=bounds.k,
    )
    name = "statistics" if group_discovery is None else f"{group_discovery.name}+statistics"
    return AccountMechanism(mechanism=mechanism, name=name, account_names=tuple(account_names.items()))


def _discovery_from_draws(bounds: Bounds, draws: Draws, status: AccountStatus) -> AccountMechanism | None:
    """Return the mechanism that finds groups by their numbers of users, paid with the registered guarantees in `draws`.

    `bounds` are the query's contribution bounds (to how many groups one user adds, and how much), and `status` is the
    status of the account that pays. Returns None if the domain is public and the query has no `k`, because every group
    of the domain is then released and none has to be found.
    Raises: `InvalidParameter` if the query asks for the top `k` groups, but `draws.discover`, which pays for picking
    groups, is None.
    """
    by_users = replace(bounds, per_item=1)
    if bounds.k is None:
        return None if bounds.domain is not None else _noisy_histogram(by_users, draws, status)
    if draws.discover is None:
        raise InvalidParameter("the groups with the most users are picked: give discover, as bounded-range:E")
    return mechanism_from_draws(by_users, replace(draws, counts=None), status)


_UNIT = LaplaceCounts(scale=Fraction(1))


def _shared_noise(guarantee: Guarantee) -> Counts:
    """Return noise that satisfies `guarantee` for a sensitivity of 1; each statistic multiplies it by its sensitivity.

    A Laplace scale is enlarged by one part in 2^52, because scale * sensitivity is later rounded to a float, and the
    rounding may lower it by one part in 2^53.
    Raises: `InvalidParameter` unless the guarantee is pure DP or Gaussian.
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


def _noisy_histogram(bounds: Bounds, draws: Draws, status: AccountStatus) -> AccountMechanism:
    """Return the mechanism of a histogram in which `draws.counts`, a registered guarantee, pays for each noisy count.

    The account is charged one use of `draws.counts` for each count that one user can change. `bounds` (to how many
    groups one user adds, and how much) limit the number of these counts. If groups are private, a threshold hides small
    groups; its delta comes from `draws` or from `status`, the status of the account.
    Raises: `InvalidParameter` if the number of counts that a user can change is not bounded, or `draws.counts` is None.
    """
    changed = bounds.changeable
    if changed is None:
        raise InvalidParameter("without a bound on contributions, labels are found by picks: give discover")
    if draws.counts is None:
        raise InvalidParameter("say what each count draws: give counts, such as pure:0.1")
    counts, account_names, _ = _count_noise(draws.counts, bounds.per_item)
    match counts:
        case LaplaceCounts(scale=scale) if bounds.domain is not None:
            laplace = KnownLaplace(domain=bounds.domain, contributions=changed, per_item=bounds.per_item, scale=scale)
            return AccountMechanism(
                mechanism=laplace, name=str(MechanismName.KNOWN_LAPLACE), account_names=account_names
            )
        case GaussianCounts(sigma=sigma) if bounds.domain is not None:
            gaussian = KnownGaussian(domain=bounds.domain, contributions=changed, per_item=bounds.per_item, sigma=sigma)
            return AccountMechanism(
                mechanism=gaussian, name=str(MechanismName.KNOWN_GAUSSIAN), account_names=account_names
            )
        case LaplaceCounts(scale=scale):
            above = UnknownLaplace(
                contributions=changed, per_item=bounds.per_item, scale=scale, delta=_threshold(draws, status)
            )
            return AccountMechanism(
                mechanism=above, name=str(MechanismName.UNKNOWN_LAPLACE), account_names=account_names
            )
        case GaussianCounts(sigma=sigma):
            beyond = UnknownGaussian(
                contributions=changed, per_item=bounds.per_item, sigma=sigma, delta=_threshold(draws, status)
            )
            return AccountMechanism(mechanism=beyond, name="unknown_gaussian", account_names=account_names)
        case _:
            assert_never(counts)


def _count_noise(guarantee: Guarantee, per_item: int) -> tuple[Counts, AccountNames, str]:
    """Return (noise, account names, kind of noise) for a count that is paid with the registered `guarantee`.

    - `per_item`, the most that one user adds to one count, is the sensitivity.
    - The kind of noise is "laplace" or "gaussian".
    - The account names are pairs (guarantee of the noise, guarantee that the account is charged), and empty if the two
      are the same. They differ only for pure:E, whose noise is discrete Laplace noise.
    Raises: `InvalidParameter` unless `guarantee` is pure DP, or the guarantee of Gaussian noise, or of Laplace noise of
    the sensitivity `per_item`.
    """
    match guarantee:
        case PureDP(epsilon=epsilon):
            # Rounded up to a float: a scale below per_item / epsilon would exceed the registered epsilon.
            scale = float_above(per_item / Fraction(epsilon))
            noise_guarantee = DiscreteLaplace(scale=scale, sensitivity=per_item)
            return LaplaceCounts(scale=Fraction(scale) / per_item), ((noise_guarantee, guarantee),), "laplace"
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
    """Return the delta of the threshold that hides groups with few users.

    An account pays for it as approx:0,DELTA, a guarantee that reveals nothing except with probability DELTA. The result
    is `draws.threshold_delta` if given. Otherwise it is the delta of the only approx:0,DELTA that the account
    registered; `status` is the status of the account.
    Raises: `InvalidParameter` if no delta is given and the account registered no such guarantee, or several.
    """
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


def check_planned(uses: tuple[Use, ...], status: AccountStatus) -> None:
    """Raise unless the account of `status` can pay for `uses`, mechanism runs planned for a question with an epsilon.

    An account with a budget passes for any `uses` here; its balance is checked later, when it is charged. An account
    that registered its mechanism runs in advance must have registered each of these guarantees often enough. The
    account that `setwise run` opens for a report has done so, because the report is planned before the account is
    opened.
    Raises: `InvalidParameter` if a guarantee was not registered; `BudgetExhausted` if it was registered too few times.
    """
    registered = {use.guarantee for use in status.terms.uses}
    if status.terms.totals is None and not all(use.guarantee in registered for use in uses):
        raise InvalidParameter(
            f"the account {status.name!r} holds registered draws: say which to draw (discover, counts) "
            "instead of an epsilon"
        )
    check_registered(uses, status)


def check_registered(uses: tuple[Use, ...], status: AccountStatus) -> None:
    """Raise unless the account of `status` registered each guarantee in `uses` at least as many times as `uses` has it.

    `uses` are the mechanism runs that a question needs, as guarantees with counts. A guarantee that was not registered
    is allowed only if the account also has a wallet, which is a budget for mechanism runs that are not known in
    advance. This check comes before the joint cost of `uses` is computed: computing the cost is fast for registered
    guarantees, but may be slow for arbitrary guarantees in a request.
    Raises: `InvalidParameter` for a guarantee that was not registered; `BudgetExhausted` for one that was registered
    too few times.
    """
    registered = status.terms.uses
    counts = {use.guarantee: use.count for use in registered}
    for use in uses:
        if use.guarantee not in counts:
            if status.terms.totals is not None:
                continue
            raise InvalidParameter(
                f"{format_use(use)} is not registered with the account {status.name!r}, "
                f"which has {', '.join(format_use(each) for each in registered)}"
            )
        if use.count > counts[use.guarantee]:
            has = format_use(Use(use.guarantee, counts[use.guarantee]))
            raise BudgetExhausted(f"the account {status.name!r} cannot pay for {format_use(use)}: it has only {has}")
