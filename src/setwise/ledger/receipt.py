"""Proof of a charge."""

from dataclasses import dataclass

from setwise.accounting.use import Use


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A charge that is on disk: entry number `entry` of `account`, made under `key`, for `uses`.

    `answer` is the stored answer when the request was answered before, and None when it has still to be answered.
    """

    account: str
    key: str
    entry: int
    period: str
    uses: tuple[Use, ...]
    answer: str | None = None
