"""An exact histogram, the private input of a mechanism. It is never released."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.errors import InvalidParameter
from setwise.mechanisms.labels import Label, distinct_labels

LARGEST_COUNT = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Distinct labels (group keys), each with an exact whole count from 0 to 2^62.

    The labels are all text, all integers, or all tuples with one text or integer for each group column.

    Raises: `InvalidParameter` if the number of labels differs from the number of counts.

    >>> Histogram.of(["b", "a"], [2, 2]).ranked(1)
    Histogram(labels=('a',), counts=array([2]))
    """

    labels: tuple[Label, ...]
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.counts):
            raise InvalidParameter(f"{len(self.labels)} labels cannot have {len(self.counts)} counts")

    @classmethod
    def of(cls, labels: Iterable[object], counts: object) -> "Histogram":
        """Return the histogram in which the group `labels[i]` has the count `counts[i]`.

        Both are sequences or NumPy arrays of the same length.

        Raises: `InvalidParameter` if a label is repeated, if some labels are text and others integers, or if counts are
        not whole numbers from 0 to 2^62.
        """
        return cls(distinct_labels(labels), _whole_counts(counts))

    def __len__(self) -> int:
        return len(self.labels)

    def ranked(self, most: int) -> "Histogram":
        """Return the histogram of the `most` labels with the highest positive counts, highest first.

        Labels are group keys. Equal counts are ordered by label. So one more user in the table can bring only their own
        groups into the list. If ties were broken by chance, other groups could enter it too, which noise that hides a
        user's own groups would not hide.
        """
        if self._is_ranked():
            return self if len(self) <= most else self.first(most)
        candidates = np.flatnonzero(self.counts > 0)
        if len(candidates) > most:
            values = self.counts[candidates]
            least = np.partition(values, len(values) - most)[len(values) - most]
            candidates = candidates[values >= least]
        pairs = zip((-self.counts[candidates]).tolist(), candidates.tolist(), strict=True)
        order = [place for _, _, place in sorted((key, self.labels[place], place) for key, place in pairs)][:most]
        return self._at(order)

    def _is_ranked(self) -> bool:
        """Whether all counts are positive and in descending order, with equal counts in the order of their labels.

        Database queries already return the highest counts in this order, and this check is quicker than sorting them
        again.
        """
        counts = self.counts
        if len(counts) == 0 or counts[-1] <= 0:
            return len(counts) == 0
        if (counts[1:] > counts[:-1]).any():
            return False
        ties = np.flatnonzero(counts[1:] == counts[:-1]).tolist()
        return all(self.labels[place] < self.labels[place + 1] for place in ties)  # type: ignore[operator]

    def positive(self) -> "Histogram":
        """Return the histogram without the labels whose count is 0, in the same order."""
        return self._at(np.flatnonzero(self.counts > 0).tolist())

    def _at(self, places: list[int]) -> "Histogram":
        """Return the histogram of the labels and counts at the indices `places`, in the order of `places`."""
        return Histogram(tuple(self.labels[place] for place in places), self.counts[places])

    def first(self, most: int) -> "Histogram":
        """Return the histogram of the first `most` labels, in their order."""
        return Histogram(self.labels[:most], self.counts[:most])

    def over(self, domain: Sequence[Label]) -> NDArray[np.int64]:
        """Return the counts of the labels in the public `domain`, in its order, as an array.

        Labels of the domain that this histogram does not have get 0; labels that are not in the domain are ignored.
        """
        places = {label: place for place, label in enumerate(self.labels)}
        padded = np.append(self.counts, np.int64(0))
        return padded[[places.get(label, -1) for label in domain]]


def _whole_counts(counts: object) -> NDArray[np.int64]:
    """Return `counts` as an int64 array; raise `InvalidParameter` unless they are whole numbers from 0 to 2^62.

    Messages never quote a count, because counts are private.
    """
    values = np.asarray(counts)
    if values.ndim != 1:
        raise InvalidParameter("counts must be a flat sequence")
    if values.size == 0:
        return np.empty(0, dtype=np.int64)
    if values.dtype == object:
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            raise InvalidParameter("counts must be whole numbers, but some are not")
        if any(not 0 <= value <= LARGEST_COUNT for value in values):
            raise InvalidParameter("counts must lie between 0 and 2^62, but some do not")
        return values.astype(np.int64)
    if values.dtype.kind not in "iuf":
        raise InvalidParameter("counts must be whole numbers, but they are of another kind")
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.floor(values)).all()):
        raise InvalidParameter("counts must be whole numbers, but some are fractional, infinite or NaN")
    if (values < 0).any() or (values > LARGEST_COUNT).any():
        raise InvalidParameter("counts must lie between 0 and 2^62, but some do not")
    return values.astype(np.int64)
