"""Mechanisms for questions that are paid with guarantees which an account registered in advance (`Draws`).

When such an account was opened, a list of privacy guarantees was fixed, each with the number of mechanism runs that it
may pay for. A question names the guarantees that pay for it: one, such as `pure:0.1`, for each noisy count, and another
one, such as `bounded-range:0.1`, for each selection of a group by the exponential mechanism. This module returns a
mechanism that has exactly these guarantees.
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
from setwise.mechanisms.two_phase import UNIT_NOISE, Counts, GaussianCounts, LaplaceCounts, TwoPhaseTopK
from setwise.mechanisms.unknown_domain import UnknownGaussian, UnknownGumbel, UnknownLaplace

AccountNames = tuple[tuple[Guarantee, Guarantee], ...]
"""Pairs of (guarantee of the mechanism, guarantee under which the account registered it)."""

_COUNTED = "pure:E, gaussian:S or discrete-laplace:B"
"""The notations of the guarantees that a noisy count may draw from an account, for error messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountMechanism:
    """The `mechanism` of a question that is paid with guarantees which an account registered in advance.

    - `name` is the mechanism's name in the answer.
    - `account_names` has pairs (guarantee of the mechanism, registered guarantee that is charged for it), only where
      the two are written differently. For example, discrete Laplace noise is charged as pure DP, "pure:0.1".
    """

    mechanism: HistogramMechanism | GroupStatistics
    name: str
    account_names: AccountNames = ()


def mechanism_from_draws(bounds: Bounds, draws: Draws, status: AccountStatus) -> AccountMechanism:
    """Return the mechanism of a histogram or top k whose noise has exactly the guarantees in `draws`.

    - `bounds` are the query's contribution bounds (to how many groups one user adds, and how much) and its `k`, the
      number of groups that a top k asks for.
    - `draws` has the guarantees, which the account registered in advance: one for each selection of a group by the
      exponential mechanism, and one for each noisy count.
    - `status` is the status of the account that pays.
    Raises: `InvalidParameter` if `draws` has a guarantee for selections but the query is no top k, or if a guarantee is
    of the wrong kind.
    """
    if draws.discover is None:
        return _noisy_histogram(bounds, draws, status)
    if bounds.k is None:
        raise InvalidParameter("only a top k draws picks: leave discover out")
    # bounded-range:E is one pick by the exponential mechanism (Gumbel noise).
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

    - `bounds` are the query's contribution bounds (to how many groups one user adds, and how much).
    - `wanted` has the mechanism of each statistic; its noise scale is chosen here.
    - `draws.counts` is the guarantee of each noisy number, and `draws.discover` is the guarantee of each random
      selection of a quantile or a group.
    - `status` is the status of the account that pays.
    """
    # A count or a sum is charged one noisy number, a mean two, and a variance three. A single quantile is charged one
    # pick, several of the same values one for each level of their bisection. Numbers of users that found groups also
    # answer a count of users.
    group_discovery = _discovery_from_draws(bounds, draws, status)
    account_names: dict[Guarantee, Guarantee] = {} if group_discovery is None else dict(group_discovery.account_names)
    statistics: list[StatisticRelease] = []
    pick = Fraction(draws.discover.epsilon) if isinstance(draws.discover, BoundedRange) else None
    for release in wanted:
        counted = isinstance(release, UsersFound) and (group_discovery is None or bounds.k is not None)
        noisy = NoisyTotal(reach=1, noise=UNIT_NOISE) if counted else release
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
    """Return the mechanism that finds the groups of a query, paid with registered guarantees; None if none is needed.

    No mechanism is needed if the groups are public and the query is no top k. A top k selects the groups with the most
    users; any other query shows the groups with enough users.

    - `bounds` are the query's contribution bounds.
    - `draws` has the registered guarantees that pay: `draws.discover` pays for selecting a group.
    - `status` is the status of the account that pays.

    Raises: `InvalidParameter` if the query is a top k but `draws.discover` is None.
    """
    by_users = replace(bounds, per_item=1)
    if bounds.k is None:
        return None if bounds.domain is not None else _noisy_histogram(by_users, draws, status)
    if draws.discover is None:
        raise InvalidParameter("the groups with the most users are picked: give discover, as bounded-range:E")
    return mechanism_from_draws(by_users, replace(draws, counts=None), status)


def _shared_noise(guarantee: Guarantee) -> Counts:
    """Return noise that satisfies `guarantee` if one user changes a sum by at most 1 (sensitivity 1).

    A statistic multiplies the noise scale by the sensitivity of each of its sums, and rounds the product down to a
    float. The rounding lowers the scale by less than one part in 2^52, which could be too little noise for the
    guarantee. So a Laplace scale is enlarged by one part in 2^52 here.
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
    """Return the exponential mechanism that selects the top k groups; each selection has `epsilon`-bounded range.

    - `bounds` has the query's k, public groups and limits per user.
    - `draws` are the guarantees that the question names, out of those that its account registered.
    - `status` is the status of the account. If the groups are private, it must have registered a guarantee for the
      threshold that hides groups with few users. `draws` may say with which delta; otherwise the registered delta is
      taken.
    """
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
    """Return a mechanism that adds noise to every group's count, paid with a guarantee that the account registered.

    - `bounds` says to how many groups one user adds, and how much, and lists the groups if they are public.
    - `draws.counts` is the registered guarantee. One use of it (one run) is charged for each noisy count that one user
      can change.
    - `status` is the status of the account, which also has the guarantee for the threshold that hides private groups.

    Raises: `InvalidParameter` if the number of counts that one user can change is not bounded, or if `draws.counts` is
    None.
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
    """Return (noise, account names, kind of noise) for a noisy count that is paid with a registered guarantee.

    - The noise is chosen so that it costs what `guarantee` allows, for a count to which one user adds at most
      `per_item`.
    - The account names translate guarantees: pairs (guarantee of the noise, registered guarantee that is charged for
      it). For example, integer Laplace noise may be charged as the registered "pure:0.1". There are no pairs if the
      noise has exactly the registered guarantee.
    - The kind of noise is "laplace" or "gaussian".

    Raises: `InvalidParameter` unless `guarantee` is pure DP, or the guarantee of Gaussian noise, or of integer Laplace
    noise of the sensitivity `per_item`.
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
            # For m counts of one user, m uses of gaussian:S cost what one use of gaussian:S/sqrt(m) costs.
            return GaussianCounts(sigma=Fraction(sigma)), (), "gaussian"
        case DiscreteLaplace(sensitivity=sensitivity):
            raise InvalidParameter(
                f"{_in_notation(guarantee)} is for counts a user moves by {sensitivity}, not by per_item = {per_item}"
            )
        case _:
            raise InvalidParameter(f"counts must draw {_COUNTED}, not {_in_notation(guarantee)}")


def _threshold(draws: Draws, status: AccountStatus) -> Fraction:
    """Return the delta of the threshold on noisy counts that hides private groups with few users.

    The delta bounds the probability that the threshold shows a group which only one user has. The question is paid with
    privacy guarantees that an account has registered in advance. If the question states the delta
    (`draws.threshold_delta`), it is returned. Otherwise the delta is looked up in `status`, the status of the account:
    among its registered guarantees, those with epsilon 0 are meant for thresholds. If all of these have the same delta,
    it is returned.

    Raises: `InvalidParameter` if the question states no delta, and the account has no such guarantee, or several with
    different deltas, or is not an account that pays with registered guarantees (the kind "setwise").
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
    """Raise unless the account with this `status` can pay for `uses`, the mechanism runs planned for a question.

    An account without a budget can pay only with guarantees that it registered in advance. The balance of an account
    with a budget is not checked here, but when the account is charged.
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
    """Raise unless the account with this `status` registered each guarantee in `uses` for enough runs.

    `uses` are the mechanisms of a question, each as a privacy guarantee and a number of runs. If the account also has a
    budget, guarantees that it did not register raise no error, because the budget can pay for them.
    Raises: `InvalidParameter` if a guarantee was not registered; `BudgetExhausted` if it was registered too few times.
    """
    # Checked before the joint cost is computed: this is fast for registered guarantees, but may be slow for others.
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
