"""Whatever pays for questions: the port, the payer of those that bring their own total, and what an account can pay."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
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
    """The payer of questions that bring their own total, kept in memory; it remembers what each was charged.

    It refuses nothing: each question's total is its caller's word, and the plan is certified to stay within it.

    >>> from setwise.accounting.guarantees import PureDP
    >>> payer = OneOff()
    >>> receipt = payer.charge([Use(PureDP(epsilon=0.5))], key="a", request="{}")
    >>> payer.settle(receipt, answer="42"), payer.charge([], key="a", request="{}").answer
    ('42', '42')
    """

    __slots__ = ("_answers", "_lock", "_receipts", "_requests")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._receipts: dict[str, Receipt] = {}
        self._requests: dict[str, str] = {}
        self._answers: dict[str, str] = {}

    def charge(self, uses: Sequence[Use], *, key: str, request: str) -> Receipt:
        """Remember the uses under the key; one thread at a time, so that a key is charged once."""
        with self._lock:
            if key not in self._receipts:
                entry = len(self._receipts) + 1
                self._receipts[key] = Receipt(account="one-off", key=key, entry=entry, period="", uses=tuple(uses))
                self._requests[key] = request
            elif self._requests[key] != request:
                raise KeyConflict(f"key {key!r} was used for a different request; choose another key")
            return replace(self._receipts[key], answer=self._answers.get(key))

    def settle(self, receipt: Receipt, *, answer: str, returned: Sequence[Use] = ()) -> str:  # noqa: ARG002
        """Store the answer; the first one stays. Nothing is given back, because there is no account to give it to."""
        return self._answers.setdefault(receipt.key, answer)

    @property
    def charges(self) -> tuple[tuple[Use, ...], ...]:
        """What each question was charged, in order."""
        return tuple(receipt.uses for receipt in self._receipts.values())


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
