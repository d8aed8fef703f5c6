"""A kind of guarantee is described once: whatever speaks of kinds reads its class."""

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from setwise.accounting.brackets import up
from setwise.accounting.calibrate import parse_plan, smallest_noise
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import KINDS, Guarantee, PureDP, Use, largest_loss
from setwise.accounting.notation import as_uses, format_use, parse_use, syntax, use_in_words
from setwise.service.api import schemas
from tests.accounting.admission import AdmittingFilter

SOURCES = Path(__file__).parents[2] / "src" / "setwise"


@dataclass(frozen=True, slots=True, kw_only=True)
class Staircase(Guarantee):
    """Staircase noise: its loss takes two values, so it composes as randomized response."""

    kind = "staircase"
    example = "10x2"
    calibrates = "noise"

    scale: float

    def in_words(self):
        return "staircase count", f"scale {self.scale:g}"

    def pure(self):
        return PureDP(epsilon=up(1.0 / self.scale))

    def zero_concentrated(self):
        return self.pure().zero_concentrated()

    def concentrated(self):
        return self.pure().concentrated()

    def largest_loss(self):
        return 1 / Fraction(self.scale)

    def price(self, left):
        return self.pure().price(left)

    def split_off_failure(self):
        return self.pure(), 0.0


@pytest.fixture
def staircase(monkeypatch):
    monkeypatch.setitem(KINDS, Staircase.kind, Staircase)
    return Use(Staircase(scale=10.0), 25)


def test_one_class_is_enough_to_read_write_and_compose(staircase):
    assert parse_use("staircase:10x25") == staircase
    assert format_use(staircase) == "staircase:10.0x25"
    assert "staircase:10x2" in syntax()
    for interaction in ("batch", "ordered", "setwise", "adaptive"):
        found = compose(as_uses(["staircase:10x25", "bounded-range:0.1x2"]), interaction).epsilon(1e-6)
        like = compose(["pure:0.1x25", "bounded-range:0.1x2"], interaction).epsilon(1e-6)
        assert (found.lower, found.upper) == (pytest.approx(like.lower), pytest.approx(like.upper))
    assert AdmittingFilter(epsilon=2.0, delta=1e-6).admits(Use(Staircase(scale=100.0)))
    assert largest_loss([(staircase.guarantee, 25)]) == 2.5


def test_one_class_is_enough_to_calibrate_and_to_show(staircase):
    free, plan = parse_plan(["staircase:?x25"])
    assert free == "noise"
    assert 9.0 < smallest_noise(plan, epsilon=2.08, delta=1e-6).value < 10.0
    assert use_in_words(staircase) == "25 staircase counts at scale 10"


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_every_kind_is_accepted_by_the_service(kind):
    TypeAdapter(schemas.Use).validate_python(f"{kind.kind}:{kind.example}")


def test_kinds_are_listed_nowhere_else():
    """A file that names most kinds is a second list, and would be forgotten when one is added."""
    scanned = [path for path in SOURCES.rglob("*") if path.suffix in (".py", ".js", ".html")]
    assert {path.suffix for path in scanned} == {".py", ".js", ".html"}
    for path in scanned:
        if path.name == "guarantees.py":
            continue
        text = path.read_text(encoding="utf-8")
        named = [kind for kind in KINDS if re.search(rf"([\"'`]){kind}\1|^ *{kind}: ", text, re.MULTILINE)]
        assert len(named) < 5, f"{path} lists the kinds {named}"


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_every_kind_is_described_in_full(kind):
    use = parse_use(f"{kind.kind}:{kind.example}")
    assert type(use.guarantee) is kind
    assert parse_use(format_use(use)) == use
    assert all(use.guarantee.in_words())
    rest, failure = use.guarantee.split_off_failure()
    assert failure == use.guarantee.zero_concentrated().delta
    assert rest is None or rest.split_off_failure() == (rest, 0.0) or rest == use.guarantee
    known = use.guarantee.worst_known_example()
    assert known is None or known.worst_known_example() == known
