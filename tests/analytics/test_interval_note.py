"""What is said of intervals: a probability for each only where that is true, and why some reach further."""

from fractions import Fraction

import pytest

from setwise.analytics.present.text import interval_note
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.release import Item, Release, Selection, ranked_items

NOISE = LaplaceNoise(scale=Fraction(10))
EACH, AVERAGE = "Each interval holds", "On average 95% of a list's intervals hold"
RANK, THRESHOLD, FIT, CUT = "also the luckiest", "passes 100", "by least squares", "are shown as"


def note(noisy, *, selection=None, least=0, items=None):
    listed = ranked_items(tuple(range(len(noisy))), noisy, least) if items is None else items
    release = Release(items=listed, spent=(), complete=True, noise=NOISE, selection=selection, least=least)
    return interval_note(release, CONFIDENCE)


@pytest.mark.parametrize(
    ("said", "given"),
    [
        ({EACH}, {"noisy": [500, 400]}),
        ({AVERAGE}, {"noisy": [500, 400], "selection": Selection(candidates=2)}),
        ({AVERAGE, RANK}, {"noisy": [500, 400], "selection": Selection(candidates=60)}),
        ({AVERAGE}, {"noisy": [500, 400], "selection": Selection(candidates=2, threshold=100), "least": 1}),
        ({AVERAGE, THRESHOLD}, {"noisy": [500, 101], "selection": Selection(candidates=2, threshold=100), "least": 1}),
        (
            {AVERAGE, RANK, THRESHOLD},
            {"noisy": [120, 101], "selection": Selection(candidates=9, threshold=100), "least": 1},
        ),
        ({AVERAGE, CUT}, {"noisy": [500, -3], "selection": Selection(candidates=2)}),
        (
            {EACH, FIT},
            {"noisy": [1, 2], "items": (Item(label="a", count=2, noisy=1), Item(label="b", count=2, noisy=2))},
        ),
    ],
)
def test_exactly_what_applies_is_said(said, given):
    text = note(**given)
    assert {part for part in (EACH, AVERAGE, RANK, THRESHOLD, FIT, CUT) if part in text} == said


def test_one_number_is_held_with_its_probability():
    assert note([500], selection=Selection(candidates=1)) == "The interval holds the exact number with probability 95%."


def test_without_counts_nothing_is_said():
    assert interval_note(Release(items=(Item(label="a"),), spent=(), complete=True), CONFIDENCE) == ""
    assert interval_note(Release(items=(), spent=(), complete=True, noise=NOISE), CONFIDENCE) == ""
