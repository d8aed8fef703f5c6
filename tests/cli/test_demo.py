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
    rows = [
        (name.strip(), *(int(number.replace(",", "")) for number in numbers))
        for name, *numbers in re.findall(
            r"^ *\d+ +(\S.*?) +([\d,]+) +([\d,]+) to ([\d,]+) +([\d,]+) +[█░]* *$", done.stdout, re.MULTILINE
        )
    ]
    first, second, countries = rows[:10], rows[10:20], rows[20:]
    assert [len(part) for part in (first, second, countries)] == [10, 10, 10]
    # Of thirty intervals with 95% each, two in three must hold the truth; those of the second question are about
    # counts that bounding has lowered.
    assert sum(low <= truth <= high for _, _, low, high, truth in first + countries) >= 14
    assert all(count < truth for _, count, _, _, truth in second)
    assert {name for name, *_ in first} == {f"title {number:05d}" for number in range(1, 11)}
    together = [float(number) for number in re.findall(r"│ +([\d.]+) │", done.stdout)]
    assert len(together) == 2
    fixed, seen = together
    assert 0.5 < fixed < seen <= 1.5
    assert "made up" in done.stdout
    assert "…" not in done.stdout
    bars = [len(bar) for bar in re.findall(r"[█░]+", done.stdout)]
    assert max(bars) >= 10
