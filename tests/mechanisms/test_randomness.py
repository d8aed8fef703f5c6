"""The operating system is asked at every call, and a forked child never repeats its parent."""

import os
import re
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from significance import assert_frequencies
from tests.sizes import draws

from setwise.errors import InvalidParameter
from setwise.mechanisms.noise.discrete import GaussianNoise
from setwise.mechanisms.randomness import SystemRandomness


@pytest.mark.parametrize("width", [1, 6, 8, 11, 16, 31, 32, 33, 63, 64])
def test_words_are_uniform_in_their_width(width):
    words = SystemRandomness().words(draws(200_000), width)
    assert words.dtype == np.uint64
    assert int(words.max()) < 2**width
    ones = [int(((words >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(width)]
    assert_frequencies(ones, [0.5] * width, draws(200_000))


@pytest.mark.parametrize("width", [0, -1, 65])
def test_widths_out_of_range_are_refused(width):
    with pytest.raises(InvalidParameter):
        SystemRandomness().words(1, width)


def test_every_call_reads_the_operating_system(monkeypatch):
    asked = []
    urandom = os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or urandom(size))
    noise = GaussianNoise(sigma=Fraction(5))
    noise.draw(10, SystemRandomness())
    noise.draw(10, SystemRandomness())
    assert asked == [80, 80]


def test_nothing_else_in_the_room_makes_randomness():
    """Only `randomness.py` reads a generator; everywhere else it is an argument without a default."""
    for path in Path(str(files("setwise.mechanisms"))).glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert ("urandom" in text) is (path.name == "randomness.py")
        assert not re.search(r"np\.random|^import (random|secrets)|SystemRandomness\(\)\)", text, re.MULTILINE)
        assert "randomness: Randomness =" not in text


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_draws_its_own_noise():
    source, noise = SystemRandomness(), GaussianNoise(sigma=Fraction(1000))
    noise.draw(4, source)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, noise.draw(16, source).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reader, 128), dtype=np.int64)
    assert theirs.tolist() != noise.draw(16, source).tolist()
