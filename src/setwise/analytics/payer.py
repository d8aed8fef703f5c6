"""Whatever pays for questions: the port, the payer of those that bring their own total, and what an account can pay."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Protocol

from setwise.accounting.guarantees import Use
from setwise.errors import KeyConflict, SetwiseError
from setwise.ledger.account import Receipt
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.planning.request import CountNoise, Total


class Payer(Protocol):
    """What a question is charged to before data is touched, and where its answer is kept; accounts of a ledger are."""

    def charge(self, uses: Sequence[Use], *, key: str, request: str) -> Receipt:
        """Charge the uses for good; a key charged before for the same request costs nothing and may have an answer."""
        ...

    def settle(self, receipt: Receipt, *, answer: str, returned: Sequence[Use] = ()) -> str:
        """Store the answer, give unused draws back, and return the text that is stored: only that may be shown."""
        ...


class AccountPayer(Payer, Protocol):
    """A payer that says what it promises, and for which data: the ledger's accounts."""

    def status(self) -> AccountStatus:
        """Return what was promised, what is left and what is spent."""
        ...

    def shortage(self, uses: Sequence[Use]) -> str | None:
        """Return in words what is missing to pay for the uses, or None when enough is left; nothing is charged."""
        ...

    def warning(self, uses: Sequence[Use]) -> str | None:
        """Return in words what paying for the uses would end for other accounts, or None; nothing is charged."""
        ...

    def check_dataset(self, known_as: str) -> None:
        """Raise `InvalidParameter` when draws on the dataset of that name must be paid for by another account."""
        ...


class OneOff:
    """The payer of questions that bring their own budget, kept in memory.

    It never refuses a charge: the caller chose the budget of each question, and the plan is certified to stay within
    it. It remembers what each question was charged and the budget it brought, for `Session.guarantee`.

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
        """Return the payer of one question, whose uses are certified to keep (epsilon, delta)."""
        return _QuestionPayer(self, (epsilon, delta))

    def charge(self, uses: Sequence[Use], total: tuple[float, float], *, key: str, request: str) -> Receipt:
        """Record the uses and the budget under the key, unless the key was charged before for the same request."""
        with self._lock:
            if key not in self._charges:
                entry = len(self._charges) + 1
                receipt = Receipt(account="one-off", key=key, entry=entry, period="", uses=tuple(uses))
                self._charges[key] = _Charge(receipt=receipt, request=request, total=total)
            charge = self._charges[key]
            if (charge.request, charge.receipt.uses) != (request, tuple(uses)):
                raise KeyConflict(f"key {key!r} was used for a different request; choose another key")
            return replace(charge.receipt, answer=self._answers.get(key))

    def settle(self, receipt: Receipt, *, answer: str) -> str:
        """Store the answer under the key of the receipt, unless there is one; return the stored answer."""
        return self._answers.setdefault(receipt.key, answer)

    @property
    def charges(self) -> tuple[tuple[Use, ...], ...]:
        """The uses of each question, in the order of the charges."""
        return tuple(charge.receipt.uses for charge in self._charges.values())

    @property
    def totals(self) -> tuple[tuple[float, float], ...]:
        """The (epsilon, delta) of each question that was charged, in the order of the charges."""
        return tuple(charge.total for charge in self._charges.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Charge:
    """A charge in memory: its receipt, the text of its request, and the (epsilon, delta) that its uses keep."""

    receipt: Receipt
    request: str
    total: tuple[float, float]


@dataclass(frozen=True, slots=True)
class _QuestionPayer:
    """Pays for one question from `payer`; `total` is the question's budget.

    The budget is recorded with the charge, so that a request which fails before its charge leaves nothing behind.
    """

    payer: OneOff
    total: tuple[float, float]

    def charge(self, uses: Sequence[Use], *, key: str, request: str) -> Receipt:
        return self.payer.charge(uses, self.total, key=key, request=request)

    def settle(self, receipt: Receipt, *, answer: str, returned: Sequence[Use] = ()) -> str:  # noqa: ARG002
        """Store the answer. Nothing is returned, because there is no account to return it to."""
        return self.payer.settle(receipt, answer=answer)


_LEAST = 1e-3
_HALVINGS = 10
"""A smaller epsilon is looked for down to this share of the one asked for, to within 0.7% of itself."""

_FEWER = (1.0, 0.9, 0.7, 0.4)
"""Shares of the epsilon that would fit if the same mechanism with the same split were planned for it."""


def what_fits(total: Total, needed: Sequence[Use], account: AccountPayer, fits: Callable[[Total], bool]) -> str | None:
    """Return in words a total near the one asked for that the account would still pay for, or None if none is found.

    A wallet pays less for Gaussian noise than for Laplace noise of the same (epsilon, delta), so that is tried first;
    then the largest epsilon, to two digits, at which the account pays for uses like those planned, by whichever rule.
    """
    for words, other in (*_gaussian(total, account.status()), *_smaller(total, needed, account)):
        try:
            if fits(other):
                return f"it would fit with {words}"
        except SetwiseError:
            continue  # no mechanism has these parameters
    return None


def _gaussian(total: Total, status: AccountStatus) -> Iterator[tuple[str, Total]]:
    if total.counts in (CountNoise.BEST, CountNoise.LAPLACE) and total.mechanism is None:
        if total.delta:
            yield "gaussian counts", replace(total, counts=CountNoise.GAUSSIAN)
        else:
            delta = status.delta / 10
            yield (
                f"gaussian counts and a delta of {delta:g}",
                replace(total, counts=CountNoise.GAUSSIAN, delta=Fraction(delta)),
            )


def _smaller(total: Total, needed: Sequence[Use], account: AccountPayer) -> Iterator[tuple[str, Total]]:
    found = _paid_share(needed, account)
    if found is None:
        return
    for fewer in _FEWER:
        epsilon = _two_digits(fewer * float(total.epsilon) * found)
        yield f"an epsilon of {float(epsilon):g}", replace(total, epsilon=epsilon)


def _paid_share(needed: Sequence[Use], account: AccountPayer) -> float | None:
    """Return the share of their epsilon at which the account pays for the uses, None when it does at none.

    What it pays falls with the epsilon, so it is found by halving on a logarithmic scale.
    """
    low, high = math.log(_LEAST), 0.0

    def pays(log_share: float) -> bool:
        try:
            return account.shortage([_weaker(use, math.exp(log_share)) for use in needed]) is None
        except SetwiseError:
            return False  # no mechanism has these parameters, or no use of that kind is registered

    if not pays(low):
        return None
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if pays(middle) else (low, middle)
    return math.exp(low)


def _weaker(use: Use, share: float) -> Use:
    """Return the use with a share of its epsilon, and that much more noise."""
    guarantee: Any = use.guarantee
    names = {each.name for each in fields(guarantee)}
    changed: dict[str, float] = {name: getattr(guarantee, name) * share for name in names & {"epsilon"}}
    changed |= {name: getattr(guarantee, name) / share for name in names & {"scale", "sigma"}}
    changed |= {name: math.ceil(getattr(guarantee, name) / share) for name in names & {"bound"}}
    return Use(replace(guarantee, **changed), use.count)


def _two_digits(value: float) -> Fraction:
    """Return the value rounded down to two digits."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 1)
    return math.floor(Fraction(value) / unit) * unit
