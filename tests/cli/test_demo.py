"""`setwise demo` runs end to end: three answers with the truth beside them, and what they promise together."""

import re
from functools import partial

import pytest

from setwise.cli import demo


@pytest.mark.parametrize("events", [500_000, pytest.param(demo.EVENTS, marks=pytest.mark.slow)])
def test_demo(setwise, monkeypatch, events):
    monkeypatch.setattr(demo, "make_events", partial(demo.make_events, events=events))
    done = setwise("demo", COLUMNS="80")
    assert done.returncode == 0
    countries = re.findall(
        r"^([A-Z][a-z]+) +([\d,]+) +([\d,]+) to ([\d,]+) +[\d.]+ +[\d.]+ to [\d.]+ +([\d,]+) *$",
        done.stdout,
        re.MULTILINE,
    )
    titles = re.findall(
        r"^ *\d+ +(\S.*?) +([\d,]+) +([\d,]+) to ([\d,]+) +([\d,]+) +[█░]* *$", done.stdout, re.MULTILINE
    )
    assert (len(countries), len(titles)) == (10, 10)
    # Of twenty intervals with 95% each, two in three must hold the truth.
    numbers = [tuple(int(number.replace(",", "")) for number in row[1:]) for row in countries + titles]
    assert sum(low <= truth <= high for _, low, high, truth in numbers) >= 14
    assert {name for name, *_ in titles} == {f"title {number:05d}" for number in range(1, 11)}
    assert done.stdout.index("SELECT country") < done.stdout.index("Brazil"), "the demo begins with a question in SQL"
    together = [float(number) for number in re.findall(r"│ +([\d.]+) │", done.stdout)]
    assert len(together) == 2
    fixed, seen = together
    assert 0.5 < fixed < seen <= 1.5
    assert "made up" in done.stdout
    assert "…" not in done.stdout
    bars = [len(bar) for bar in re.findall(r"[█░]+", done.stdout)]
    assert max(bars) >= 10
