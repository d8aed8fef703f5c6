"""The paper's randomness is the same every time, uniform, and used nowhere else."""

import re
from pathlib import Path

import numpy as np
import pytest

from setwise.errors import InvalidParameter
from setwise.paper.figures.macbeth_noise import SeededRandomness

ROOT = Path(__file__).parents[2]


def test_the_first_words_never_change():
    assert SeededRandomness(1606).words(2).tolist() == [2574319141209653944, 11760036838838055622]


def test_one_stream_whatever_the_calls():
    whole = SeededRandomness(3).words(10)
    source = SeededRandomness(3)
    assert np.concatenate([source.words(4), source.words(1), source.words(5)]).tolist() == whole.tolist()


@pytest.mark.parametrize("width", [1, 6, 8, 33, 64])
def test_words_fill_their_width(width):
    words = SeededRandomness(5).words(4000, width)
    assert words.dtype == np.uint64
    assert int(words.max()) < 2**width
    assert abs(float((words >= np.uint64(2 ** (width - 1))).mean()) - 0.5) < 0.05


@pytest.mark.parametrize("width", [0, 65])
def test_widths_out_of_range_are_refused(width):
    with pytest.raises(InvalidParameter):
        SeededRandomness(1).words(1, width)


def test_only_the_paper_room_knows_it():
    outside = [path for path in (ROOT / "src").rglob("*.py") if "paper" not in path.parts]
    assert not [path for path in outside if re.search(r"SeededRandomness|paper\.seeded", path.read_text())]
