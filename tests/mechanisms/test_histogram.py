"""Only whole, non-negative counts of distinct labels make a histogram; messages never quote one."""

import numpy as np
import pytest

from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Histogram


@pytest.mark.parametrize(
    "counts",
    [
        [1, -2],
        [1.5, 2.0],
        [float("nan"), 1.0],
        [float("inf"), 1.0],
        [2**62 + 1, 0],
        [2**64, 0],
        [1e19, 0.0],
        ["3", "4"],
        [True, False],
        np.array([2**63, 1], dtype=np.uint64),
        [[1, 2]],
        [None, 1],
    ],
)
def test_impossible_counts_are_refused_without_being_quoted(counts):
    with pytest.raises(InvalidParameter) as caught:
        Histogram.of(["a", "b"], counts)
    assert not any(character.isdigit() for character in str(caught.value).replace("2^62", "").replace("0 and", ""))


def test_whole_counts_of_every_kind_are_taken():
    for counts in ([3, 2**62], np.array([3.0, 2.0**62]), np.array([3, 2**62], dtype=np.uint64)):
        histogram = Histogram.of(["a", "b"], counts)
        assert histogram.counts.dtype == np.int64
        assert histogram.counts.tolist() == [3, 2**62]
    assert len(Histogram.of([], [])) == 0


@pytest.mark.parametrize("labels", [["a", "a"], ["a", 1], [1.5, 2.5], [None, "a"], [True, False], ["a"]])
def test_impossible_labels_are_refused(labels):
    with pytest.raises(InvalidParameter):
        Histogram.of(labels, [1, 2])


def test_ranking_drops_zeros_and_breaks_ties_by_label():
    histogram = Histogram.of(["d", "c", "b", "a"], [5, 0, 5, 7])
    assert histogram.ranked(10).labels == ("a", "b", "d")
    assert histogram.ranked(2).labels == ("a", "b")
    assert histogram.ranked(2).counts.tolist() == [7, 5]
    assert histogram.positive().labels == ("d", "b", "a")
    assert histogram.over(("a", "z", "d")).tolist() == [7, 0, 5]
    assert histogram.over(()).tolist() == []
