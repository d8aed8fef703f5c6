"""Whatever pays for questions: the port, and the payer of questions that bring their own total."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from setwise.accounting.guarantees import Use
from setwise.errors import KeyConflict
from setwise.ledger.account import Receipt
from setwise.ledger.status import AccountStatus


class Payer(Protocol):
    """What a question is charged to before data is touched, and where its answer is kept; accounts of a ledger are."""

    def charge(self, uses: Sequence[Use], *, key: str, request: str) -> Receipt:
        """Charge the uses for good; a key charged before for the same request costs nothing and may have an answer."""
        ...

    def settle(self, receipt: Receipt, *, answer: str, returned: Sequence[Use] = ()) -> str:
        """Store the answer, give unused draws back, and return the text that is stored: only that may be shown."""
        ...


class AccountPayer(Payer, Protocol):
    """A payer that says what it promises: the ledger's accounts."""

    def status(self) -> AccountStatus:
        """Return what was promised, what is left and what is spent."""
        ...

    def shortage(self, uses: Sequence[Use]) -> str | None:
        """Return in words what is missing to pay for the uses, or None when enough is left; nothing is charged."""
        ...


class DatasetPayer(AccountPayer, Protocol):
    """An account that says whether it may pay for questions about a dataset."""

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
        """Store the answer; the first one stays. Nothing is given back, for nothing is left to draw on."""
        return self._answers.setdefault(receipt.key, answer)

    @property
    def charges(self) -> tuple[tuple[Use, ...], ...]:
        """What each question was charged, in order."""
        return tuple(receipt.uses for receipt in self._receipts.values())
