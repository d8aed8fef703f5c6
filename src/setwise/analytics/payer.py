"""Payers: what questions are charged to, which noise is tried first, and the suggestion of a budget that would fit.

A payer is an account of a ledger, or an in-memory payer of questions that bring their own budget. When the balance of
an account is too small for a question, `suggest_budget` suggests a smaller budget.
"""

import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Protocol, TypeVar

from setwise.accounting.brackets import CertifiedBound, Interaction, up
from setwise.accounting.guarantees import Use, merged
from setwise.accounting.promises import rounded_down
from setwise.accounting.zcdp_filter import ZcdpOdometer, filter_parameters
from setwise.analytics.budget import AskedBudget, default_delta
from setwise.errors import BudgetExhausted, InvalidParameter, KeyConflict, SetwiseError, Unattainable
from setwise.ledger.account import Receipt
from setwise.ledger.status import AccountStatus
from setwise.ledger.terms import Terms
from setwise.mechanisms.planning.cost import certified_price
from setwise.mechanisms.planning.request import CountNoise, Total

T = TypeVar("T")
P = TypeVar("P")


class Payer(Protocol):
    """The account or budget that a question is charged to before data is read; it also stores the answer.

    An account of a ledger is a payer. Questions without an account are charged to a payer in memory, which `OneOff`
    makes.
    """

    def charge(self, uses: Sequence[Use], *, key: str, request: str) -> Receipt:
        """Charge `uses` durably for the request text `request` under the idempotency key `key`, and return the receipt.

        `uses` are the mechanisms that a question runs, each as a privacy guarantee and a number of runs. If the key was
        charged before for the same request, nothing more is charged, and the receipt may hold the stored answer.
        """
        ...

    def settle(self, receipt: Receipt, *, answer: str, returned: Sequence[Use] = ()) -> str:
        """Store `answer` for the charge of `receipt`, refund the mechanisms in `returned`, and return the stored text.

        `returned` has the mechanisms that were charged but not run, each as a privacy guarantee and a number of runs.
        Only the text that is returned may be shown to the analyst: it differs from `answer` if another attempt at the
        same question stored its answer first.
        """
        ...


class AccountPayer(Payer, Protocol):
    """A payer that can also report its balance and the dataset that it pays for: an account of a ledger."""

    def status(self) -> AccountStatus:
        """Return the account's promise, its remaining budget and what it has spent."""
        ...

    def shortage(self, uses: Sequence[Use]) -> str | None:
        """Return in words what the account lacks to pay for `uses`, or None if it can pay; nothing is charged.

        `uses` are mechanisms, each a privacy guarantee and a number of runs: for example 25 runs of pure DP with
        epsilon 0.1.
        """
        ...

    def warning(self, uses: Sequence[Use]) -> str | None:
        """Return a warning if, after a charge of `uses`, the dataset's joint budget can be spent in one way only.

        The accounts on a dataset share a joint budget, which can be spent in two ways: as a Gaussian budget (all
        charges together reveal no more than one Gaussian mechanism) or as a sum of epsilons. A charge that fits only
        one way ends the other way for good, for all these accounts. The result is None if the charge ends neither.
        `uses` are mechanisms, each as a privacy guarantee and a number of runs. Nothing is charged.
        """
        ...

    @property
    def unit(self) -> str:
        """The unit of privacy that the account protects: "user", or a part of a user such as "user,day"."""
        ...

    def check_dataset(self, known_as: str) -> None:
        """Raise `InvalidParameter` unless this account may pay for questions about the dataset called `known_as`."""
        ...


class OneOff:
    """The payer of questions that bring their own budget; charges and answers are kept in memory.

    The caller chooses the budget of each question, and nothing limits the sum, so no charge is refused.
    `Session.guarantee` computes the joint cost of all questions.

    >>> from setwise.accounting.guarantees import PureDP
    >>> payer = OneOff().of_budget(0.5, 0.0)
    >>> receipt = payer.charge([Use(PureDP(epsilon=0.5))], key="a", request="{}")
    >>> payer.settle(receipt, answer="42"), payer.charge(receipt.uses, key="a", request="{}").answer
    ('42', '42')
    """

    __slots__ = ("_answers", "_charges", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._charges: dict[str, _Charge] = {}
        self._answers: dict[str, str] = {}

    def of_budget(self, epsilon: float, delta: float) -> "Payer":
        """Return the payer of one question, whose plan is certified to satisfy (`epsilon`, `delta`)-DP.

        Its charges and answers are kept in this object, together with the charges and answers of other questions.
        """
        return _QuestionPayer(self, (epsilon, delta))

    def charge(self, uses: Sequence[Use], total: tuple[float, float], *, key: str, request: str) -> Receipt:
        """Record `uses` and `total`, their (epsilon, delta), under `key` for the text `request`; return the receipt.

        `uses` are the mechanisms that the question runs, each as a privacy guarantee and a number of runs. If the key
        was charged before, nothing is charged, and the receipt has the stored answer, or None.
        Raises: `KeyConflict` if the key was used for another request or other uses.
        """
        with self._lock:
            if key not in self._charges:
                entry = len(self._charges) + 1
                receipt = Receipt(account="one-off", key=key, entry=entry, period="", uses=tuple(uses))
                self._charges[key] = _Charge(receipt=receipt, request=request, total=total)
            charge = self._charges[key]
            if (charge.request, charge.receipt.uses) != (request, tuple(uses)):
                raise KeyConflict.used_before(key)
            return replace(charge.receipt, answer=self._answers.get(key))

    def settle(self, receipt: Receipt, *, answer: str) -> str:
        """Store `answer` for the charge `receipt`, unless an answer is stored already; return the stored answer."""
        return self._answers.setdefault(receipt.key, answer)

    @property
    def charges(self) -> tuple[tuple[Use, ...], ...]:
        """The mechanisms that each question so far was charged for, one entry per question in the order of the charges.

        An entry lists privacy guarantees, each with the number of mechanisms that have this guarantee.
        """
        return tuple(charge.receipt.uses for charge in self._charges.values())

    @property
    def spent(self) -> tuple[Use, ...]:
        """The mechanisms of all questions so far, as privacy guarantees and numbers of runs, each guarantee once."""
        return merged(use for charge in self._charges.values() for use in charge.receipt.uses)

    def guarantee(self, delta: float, claimed: Interaction) -> CertifiedBound:
        """Return the certified epsilon, at the overall `delta`, of all questions so far together.

        `claimed` is what, as the caller says, the analyst chose after seeing answers. Adaptive means that questions and
        budgets were chosen. The other values mean that all mechanisms and budgets were fixed before the first answer,
        so that the epsilon is smaller; set-wise, for example, means that only questions and their order were chosen.

        Requires: at least one question was charged.
        """
        if claimed is Interaction.ADAPTIVE:
            return self._chosen_on_the_fly(delta)
        composed = certified_price(self.spent, delta, claimed)
        return min(composed, self._added_up(claimed, delta), key=lambda bound: bound.upper)

    def _chosen_on_the_fly(self, delta: float) -> CertifiedBound:
        """Return the certified epsilon at `delta` of all questions, chosen with their budgets after earlier answers.

        Two bounds are computed: the sum of the questions' epsilons (see `_added_up`), and an odometer, a bound on the
        privacy loss so far that holds although each question was chosen after seeing earlier answers. The lower one is
        returned. Answers may decide which one this is, so each bound is computed at half of `delta`.

        Only the sum is computed, at all of `delta`, if the delta of the first question is more than a tenth of `delta`.
        The sum needs a delta that is at least the sum of the questions' deltas, for which half of `delta` would be too
        little after a few such questions.
        """
        # Each epsilon holds except with some probability, and answers decide which is lower, so each gets half of
        # `delta`. Whether only the sum is used is decided before the first answer, so it does not depend on answers.
        first = next(iter(self._charges.values())).total[1]
        if 10 * first > delta:
            return self._added_up(Interaction.ADAPTIVE, delta)
        odometer = ZcdpOdometer(delta=delta / 2, spent=filter_parameters(self.spent)).answer()
        return min(odometer, self._added_up(Interaction.ADAPTIVE, delta / 2), key=lambda bound: bound.upper)

    def _added_up(self, claimed: Interaction, delta: float) -> CertifiedBound:
        """Return the bound on epsilon, at `delta`, that simply adds up the epsilons of all questions so far.

        The bound is infinity if the deltas of the questions add up to more than `delta`. `claimed` says what the
        analyst chose after seeing answers. The sum is valid whatever that was; `claimed` is only recorded in the
        result.
        Theorem: DworkKeMcMiNa06 (basic composition); it also holds when parameters are chosen on the fly.
        """
        totals = [charge.total for charge in self._charges.values()]
        epsilon, failed = (sum(map(Fraction, part)) for part in zip(*totals, strict=True))
        upper = up(float(epsilon)) if failed <= Fraction(delta) else math.inf
        return CertifiedBound(0.0, upper, claimed, "basic-composition", "DworkKeMcMiNa06")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Charge:
    """A charge that an in-memory payer keeps, so that the same request under the same key is not charged twice.

    - `receipt` is the proof of the charge, which also has the stored answer.
    - `request` is the text of the request, to which the request of a later charge under this key is compared.
    - `total` is the (epsilon, delta) that was charged.
    """

    receipt: Receipt
    request: str
    total: tuple[float, float]


@dataclass(frozen=True, slots=True)
class _QuestionPayer:
    """The payer of one question: it passes the charge on to `payer`, which keeps the charges of a session in memory.

    `total` is the question's (epsilon, delta). This total is recorded with the charge and not before, so that a request
    that fails before its charge leaves no trace.
    """

    payer: OneOff
    total: tuple[float, float]

    def charge(self, uses: Sequence[Use], *, key: str, request: str) -> Receipt:
        return self.payer.charge(uses, self.total, key=key, request=request)

    def settle(self, receipt: Receipt, *, answer: str, returned: Sequence[Use] = ()) -> str:  # noqa: ARG002
        """Store `answer` for the charge of `receipt`, and return the stored text.

        `returned` is ignored, because there is no account to refund.
        """
        return self.payer.settle(receipt, answer=answer)


def _no_status() -> AccountStatus | None:
    return None


def first_payable(
    budget: AskedBudget,
    attempt: Callable[[AskedBudget], T],
    status: Callable[[], AccountStatus | None] = _no_status,
    uses_of: Callable[[AskedBudget], Sequence[Use]] = lambda _: (),
) -> T:
    """Try a question with several kinds of noise, and return the result of the first attempt that can be paid for.

    - `budget` is the question's budget. If it names its noise, its mechanism or a wanted accuracy, there is only one
      attempt.
    - `attempt` plans the question within a budget, charges it and returns its answer.
    - `status` returns the status of the account that pays. `uses_of` returns the mechanisms of the plan within a budget
      (privacy guarantees and numbers of runs). Both are needed to begin with the noise that uses up least of the
      account (see `sparing_budget`). Without them, the first attempt has the noise that the planner prefers.

    Raises: the error of the first attempt if no attempt can be paid for.
    """
    chosen = sparing_budget(budget, status, uses_of)
    try:
        return attempt(chosen)
    except (BudgetExhausted, KeyConflict) as error:
        # A key that paid for other noise conflicts with the first attempt, so a retry looks for its charge here, too.
        # Only then is a delta added, because a key that was used before pays for nothing new.
        delta = _account_delta(status()) if isinstance(error, KeyConflict) else None
        for other in (budget, *_with_other_noise(budget, delta)):
            if other != chosen:
                with suppress(BudgetExhausted, KeyConflict, InvalidParameter, Unattainable):
                    return attempt(other)
        raise


def payable_plan(
    budget: AskedBudget,
    plan: Callable[[AskedBudget], P],
    can_pay: Callable[[P], bool],
    status: Callable[[], AccountStatus | None] = _no_status,
    uses_of: Callable[[P], Sequence[Use]] = lambda _: (),
) -> P:
    """Return the plan within `budget` that an account would run, without charging the account or reading rows.

    The account may be able to pay for one kind of noise and not for another. So the question is planned with several
    kinds in turn, and the first plan that the account can pay for is returned. If there is none, the result is
    `plan(budget)`, the plan that the planner prefers.

    - `plan` plans the question within a budget, and `can_pay` says whether the account can pay for a plan.
    - `status` returns the status of the account, and `uses_of` the mechanisms of a plan (privacy guarantees and numbers
      of runs). With both, the kind of noise that uses up least of the account is tried first. Without them, the
      planner's choice is.
    """

    def attempt(tried: AskedBudget) -> P:
        planned = plan(tried)
        if not can_pay(planned):
            raise BudgetExhausted("the account cannot pay for this plan")
        return planned

    try:
        return first_payable(budget, attempt, status, lambda tried: uses_of(plan(tried)))
    except BudgetExhausted:
        return plan(budget)


_ROUNDING = 1e-9
"""The share of a question's epsilon by which what is left may fall below adding up, because amounts are whole units."""


def sparing_budget(
    budget: AskedBudget,
    status: Callable[[], AccountStatus | None],
    uses_of: Callable[[AskedBudget], Sequence[Use]],
) -> AskedBudget:
    """Return `budget` with the kind of noise that uses up least of the account, if the question leaves the kind open.

    Some accounts can be spent in two ways: as a Gaussian budget (all charges together reveal no more than one Gaussian
    mechanism) or as a sum of epsilons. A charge that fits only one of these ways rules out the other way from then on,
    and the epsilon that the account has left may fall by far more than the question's epsilon. The planner, which
    chooses noise for its accuracy, does not avoid this.

    So three kinds of noise are tried in this order: the planner's choice, Laplace noise, Gaussian noise. The first kind
    that takes at most the question's epsilon from the account is chosen. If no kind does, it is the kind after which
    the account has most left. Gaussian noise takes the account's default delta if `budget` has none, because the
    account's promise has a delta in any case.

    - `status` returns the status of the account that pays; None if no account pays.
    - `uses_of` plans the question within a budget, and returns its mechanisms (guarantees and numbers of runs).

    The result is `budget` unchanged in these cases: it names its noise, its mechanism or a wanted accuracy; no account
    pays; the account cannot be spent in these two ways (for example because it registered its guarantees in advance);
    the question's epsilon is more than the account has left; no noise can be paid for.
    """
    account = status() if _leaves_noise_open(budget) else None
    if account is None or not isinstance(budget, Total) or account.epsilon_left is None:
        return budget
    asked, left = float(budget.epsilon), account.epsilon_left
    if asked > left:
        return budget
    best, most = budget, -math.inf
    for tried in (budget, *_with_other_noise(budget, _account_delta(account))):
        try:
            after = account.epsilon_left_after(uses_of(tried))
        except SetwiseError:
            continue  # no mechanism has these parameters
        if after is not None and left - after <= asked * (1 + _ROUNDING):
            return tried
        if after is not None and after > most:
            best, most = tried, after
    return best


def _account_delta(status: AccountStatus | None) -> Fraction | None:
    """Return the delta for a question that needs a delta and states none; None if no account pays.

    `status` is the status of the account that pays. The delta is 1e-6, or about a tenth of the account's limit on
    outright failures (which may reveal everything) if that is less.
    """
    return None if status is None else Fraction(str(default_delta(status.terms)))


def _leaves_noise_open(budget: AskedBudget) -> bool:
    return isinstance(budget, Total) and budget.counts is CountNoise.BEST and budget.mechanism is None


def _with_other_noise(budget: AskedBudget, delta: Fraction | None) -> Iterator[Total]:
    """Yield `budget` with Laplace noise, and `budget` with Gaussian noise, so that a caller can try both kinds.

    An account may be able to pay for one kind and not for the other, or may pay less for it. Nothing is yielded if
    `budget` states the kind of noise. Gaussian noise needs a delta. A `budget` without a delta gets `delta`; if that is
    None too, only Laplace noise is yielded.
    """
    if isinstance(budget, Total) and _leaves_noise_open(budget):
        yield replace(budget, counts=CountNoise.LAPLACE)
        if gaussian_delta := budget.delta or delta:
            yield replace(budget, counts=CountNoise.GAUSSIAN, delta=gaussian_delta)


_LEAST = 1e-3
"""The smallest share of the requested epsilon at which a suggestion is looked for."""
_HALVINGS = 10
"""The number of bisection steps on a logarithmic scale: they determine the payable share to within 0.7% of itself."""

_FEWER = (1.0, 0.9, 0.7, 0.4)
"""Shares of the estimated payable epsilon that are tried in turn. The estimate assumes the same mechanism with the same
split of the budget, so the largest share may be too much."""

_SHARES = (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02)
"""Shares of the requested epsilon that are tried in turn together with a smaller delta; each plans the question."""


@dataclass(frozen=True, slots=True)
class BudgetSuggestion:
    """A budget that an account can pay for, in place of one that it cannot pay for.

    - `text` is a phrase such as "it would fit with an epsilon of 0.4, or with Gaussian noise: add counts='gaussian'".
    - `parameters` are the parameters of the question that differ, as text by name, such as {"epsilon": "0.4"}; None
      stands for a parameter to leave out.
    """

    text: str
    parameters: Mapping[str, str | None]


def refuse_without_epsilon(status: "AccountStatus") -> None:
    """Raise `InvalidParameter` for a question without a budget, if the account with this `status` pays from a budget.

    The error proposes an epsilon of 1, or what is left for any question if that is less. Nothing is raised if the
    account pays only with guarantees that were registered when it was opened, which the question has to name.
    """
    remaining = status.epsilon_left if status.laplace_epsilon_left is None else status.laplace_epsilon_left
    if remaining is None:
        return
    message = f"say what the account {status.name!r} may spend on this question"
    epsilon = rounded_down(min(1.0, remaining), 2)
    if float(epsilon) == 0:
        raise InvalidParameter(f"{message}: it has no epsilon left")
    raise InvalidParameter(f"{message}, as in epsilon = {epsilon}").proposing({"epsilon": epsilon})


def suggest_budget(
    total: Total, needed: Sequence[Use], account: AccountPayer, fits: Callable[[Total], bool], *, in_json: bool = False
) -> BudgetSuggestion | None:
    """Return a suggestion of budgets near `total` that the account could still pay for, or None if none is found.

    Its text is, for example: "it would fit with an epsilon of 0.4, or with Gaussian noise: add counts='gaussian'", and
    its parameters are those of the budget that the text names first. The epsilon is the largest one that the account
    can pay for, rounded down to two digits, with the noise that `first_payable` would choose for it. If no epsilon
    helps, because the account has less left for failures than the question's delta, a
    smaller delta is suggested together with an epsilon. Gaussian noise is proposed because an account with a Gaussian
    budget pays less for it than for Laplace noise of the same (epsilon, delta). If the account has at least the
    question's epsilon left, but only for Gaussian noise with stated bounds, the phrase begins by saying so.

    - `total` is the budget of a question that `account` cannot pay for, and `needed` are the mechanisms that were
      planned for it, each as a privacy guarantee and a number of runs.
    - `fits` plans the question within another budget, and says whether the account can pay for it.
    - `in_json` writes the parameters as JSON fields, and not as keyword arguments of Python.
    """

    def is_payable(other: Total) -> bool:
        try:
            return fits(other)
        except SetwiseError:
            return False  # no mechanism has these parameters

    status, accuracy_left_out = account.status(), {"within": None} if total.from_accuracy else {}
    total = replace(total, from_accuracy=False)

    def is_payable_with_some_noise(other: Total) -> bool:
        return any(map(is_payable, (other, *_with_other_noise(other, _account_delta(status)))))

    gaussian = gaussian_alternative(total, status.terms)
    smaller = next(filter(is_payable_with_some_noise, _smaller(total, needed, account)), None)
    if smaller is None:
        smaller = next(filter(is_payable_with_some_noise, _with_smaller_delta(total, account)), None)
    remedies: list[str] = []
    parameters: dict[str, str | None] = {}
    if smaller is not None:
        largest = min(float(total.epsilon), status.epsilon_left or math.inf)
        smaller = _with_largest_epsilon(smaller, largest, is_payable_with_some_noise)
        parameters = {"epsilon": f"{float(smaller.epsilon):g}"}
        if smaller.delta != total.delta:
            parameters["delta"] = _delta_text(smaller.delta)
        delta = f" and a delta of {parameters['delta']}" if "delta" in parameters else ""
        accuracy = " in place of within" if accuracy_left_out else ""
        remedies.append(f"an epsilon of {parameters['epsilon']}{delta}{accuracy}")
    if gaussian is not None and is_payable(gaussian):
        added = _added_parameters(total, gaussian)
        words = _parameters_in_words(added, in_json=in_json)
        epsilon = f"an epsilon of {float(total.epsilon):g} in place of within and " if accuracy_left_out else ""
        remedies.append(f"{epsilon}Gaussian noise: {words}")
        if not parameters:
            parameters = {**({"epsilon": f"{float(total.epsilon):g}"} if accuracy_left_out else {}), **added}
    if not remedies and total.counts is CountNoise.GAUSSIAN and total.mechanism is None:
        # The account may have charges of Laplace noise that leave nothing for Gaussian noise.
        epsilons = (_two_digits(share * float(total.epsilon)) for share in _SHARES)
        laplace = (replace(total, epsilon=epsilon, counts=CountNoise.LAPLACE) for epsilon in epsilons)
        if (payable := next(filter(is_payable, laplace), None)) is not None:
            payable = _with_largest_epsilon(payable, float(total.epsilon), is_payable)
            parameters = {"epsilon": f"{float(payable.epsilon):g}", "counts": str(CountNoise.LAPLACE)}
            accuracy = " in place of within" if accuracy_left_out else ""
            remedies.append(f"Laplace noise and an epsilon of {parameters['epsilon']}{accuracy}")
    why = _why_refused(total, status) if smaller is not None and smaller.delta == total.delta else ""
    if not remedies:
        return None
    return BudgetSuggestion(
        f"{why}it would fit with {', or with '.join(remedies)}", {**parameters, **accuracy_left_out}
    )


def with_suggestion(shortage: str, suggestion: BudgetSuggestion | None) -> str:
    """Return the sentence that refuses a charge, `shortage`, followed by the `suggestion` of a budget that would fit.

    `shortage` is the account's own sentence (`Account.shortage`, or the message of `BudgetExhausted`), and `suggestion`
    the result of `suggest_budget`; None if no budget was found.
    """
    return shortage if suggestion is None else f"{_SIGMA.sub('', shortage)}; {suggestion.text}"


def exhausted(shortage: str, suggestion: BudgetSuggestion | None) -> BudgetExhausted:
    """Return the error that refuses a charge with the sentence `shortage`, and proposes the `suggestion` if any."""
    error = BudgetExhausted(with_suggestion(shortage, suggestion))
    return error if suggestion is None else error.proposing(suggestion.parameters)


_SIGMA = re.compile(r"; Gaussian noise of sigma [\d.e+-]+(?: for each of the \d+ uses)? would fit$")
"""The end of an account's refusal that names the scale of noise that would fit. Questions state an epsilon instead."""


def _why_refused(total: Total, status: AccountStatus) -> str:
    """Return the beginning of a sentence: why an account refuses a question although it has its epsilon left.

    The epsilon left, in `status`, is that of a question with Gaussian noise and stated bounds. Other noise costs more
    of the account's Gaussian budget, and so does a search for bounds, which is paid for before its noise is known. The
    result is "" if the account has less left than the epsilon of `total`, the question's budget, or if it has nearly as
    much left for Laplace noise.
    """
    laplace, left = status.laplace_epsilon_left, status.epsilon_left or 0.0
    if laplace is None or laplace >= 0.99 * left or total.epsilon > left:
        return ""
    return (
        f"the epsilon of {rounded_down(left, 2)} that is left is for Gaussian noise with stated bounds, as other noise "
        "and bounds that are found cost more; "
    )


def _with_largest_epsilon(payable: Total, largest: float, is_payable: Callable[[Total], bool]) -> Total:
    """Return `payable`, a budget that an account can pay for, with the largest epsilon that the account can pay for.

    The epsilon has two digits, is at least that of `payable` and at most `largest`. `is_payable` plans the question
    within another budget, and says whether the account can pay for it.
    """

    def with_place(place: int) -> Total:
        exponent, digits = divmod(place, 90)  # numbers of two digits in ascending order: 10, 11, .. 99, 100, 110, ..
        return replace(payable, epsilon=(digits + 10) * Fraction(10) ** (exponent - 1))

    def place_of(epsilon: float) -> int:
        rounded = _two_digits(epsilon)
        exponent = math.floor(math.log10(rounded))
        return 90 * exponent + int(rounded / Fraction(10) ** (exponent - 1)) - 10

    low, high = place_of(float(payable.epsilon)), place_of(largest) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_payable(with_place(middle)) else (low, middle)
    return max(payable, with_place(low), key=lambda total: total.epsilon)


def gaussian_alternative(total: Total, terms: Terms) -> Total | None:
    """Return the budget `total` with Gaussian noise on counts instead of the stated kind, or None.

    The result is None if the kind cannot be changed: it must be Laplace noise or the planner's choice, and `total` must
    not name a mechanism. Gaussian noise needs a delta. If `total` has the delta 0, the result has the default delta of
    the account that pays; `terms` has this account's budget and limits.
    """
    if total.counts not in (CountNoise.BEST, CountNoise.LAPLACE) or total.mechanism is not None:
        return None
    delta = total.delta or Fraction(str(default_delta(terms)))
    return replace(total, counts=CountNoise.GAUSSIAN, delta=delta)


def _added_parameters(total: Total, gaussian: Total) -> dict[str, str]:
    """Return the parameters that turn the budget `total` into `gaussian`, as text by name, such as {"delta": "2e-8"}.

    Both are budgets of one question. `gaussian` differs from `total` by its noise and perhaps by its delta; a delta
    that is the same is left out.
    """
    return {
        "counts": "gaussian",
        **({} if gaussian.delta == total.delta else {"delta": _delta_text(gaussian.delta)}),
    }


def _parameters_in_words(parameters: Mapping[str, str], *, in_json: bool) -> str:
    """Return advice such as "add counts='gaussian', delta=2e-8": keyword arguments, or JSON fields if `in_json`.

    `parameters` has text by name; a value that is no number is quoted.
    """
    quote, write = ('"', '"{}": {}') if in_json else ("'", "{}={}")
    values = {name: f"{quote}{text}{quote}" if text.isalpha() else text for name, text in parameters.items()}
    return "add " + ", ".join(write.format(name, value) for name, value in values.items())


def _smaller(total: Total, needed: Sequence[Use], account: AccountPayer) -> Iterator[Total]:
    share = _paid_share(needed, account)
    if share is None:
        return
    for fewer in _FEWER:
        yield replace(total, epsilon=_two_digits(fewer * float(total.epsilon) * share))


def _with_smaller_delta(total: Total, account: AccountPayer) -> Iterator[Total]:
    """Yield budgets with a delta that `account` can still pay for: first with the epsilon of `total`, then with less.

    `total` is a budget that the account cannot pay for because its delta is too large; the caller suggests the first
    yielded budget that the account can pay for. An account limits the probability of outright failures, in which
    everything may be revealed. The delta of the yielded budgets is half of what is left of this limit, rounded down to
    two digits. Nothing is yielded if nothing is left, or if the delta of `total` is not larger than what is left,
    because the account then lacks something else.
    """
    remaining = filter_parameters(account.status().left).failure_sum
    if not 0 < remaining < total.delta:
        return
    delta = _two_digits(remaining / 2)
    for share in _SHARES:
        yield replace(total, epsilon=_two_digits(share * float(total.epsilon)), delta=delta)


def _delta_text(delta: Fraction) -> str:
    """Return `delta` as a short text, such as 2e-8."""
    return re.sub("e-0*", "e-", f"{float(delta):g}")


def _paid_share(needed: Sequence[Use], account: AccountPayer) -> float | None:
    """Return the largest factor f, at most 1, such that `account` can pay for `needed` with f times their epsilons.

    The caller suggests a smaller budget to an analyst whose account cannot pay for the whole question. `needed` are the
    question's mechanisms, each a privacy guarantee and a number of runs. The factor is found by bisection, to within
    1%. The least factor that is tried is 0.001 (`_LEAST`); None if the account cannot pay even with this factor.
    """
    low, high = math.log(_LEAST), 0.0

    def pays(log_share: float) -> bool:
        try:
            return account.shortage([_with_less_loss(use, math.exp(log_share)) for use in needed]) is None
        except SetwiseError:
            return False  # no mechanism has these parameters, or no use of that kind is registered

    if not pays(low):
        return None
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if pays(middle) else (low, middle)
    return math.exp(low)


def _with_less_loss(use: Use, share: float) -> Use:
    """Return `use`, a privacy guarantee and a number of runs, changed so that each run reveals less and costs less.

    The epsilon of the guarantee is multiplied by the factor `share`, which is at most 1. For noise with a known
    distribution, the scale of the noise is divided by `share` instead. For truncated noise, the bound at which the
    noise is cut off is divided by `share`, too, and rounded up.
    """
    guarantee: Any = use.guarantee
    names = {each.name for each in fields(guarantee)}
    changed: dict[str, float] = {name: getattr(guarantee, name) * share for name in names & {"epsilon"}}
    changed |= {name: getattr(guarantee, name) / share for name in names & {"scale", "sigma"}}
    changed |= {name: math.ceil(getattr(guarantee, name) / share) for name in names & {"bound"}}
    return Use(replace(guarantee, **changed), use.count)


def _two_digits(value: float) -> Fraction:
    """Return the positive `value` rounded down to two significant digits."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 1)
    return math.floor(Fraction(value) / unit) * unit
