"""Answers keep their contract, survive storage, convert to frames and show themselves."""

import json
import math
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from setwise.accounting.brackets import Bracket, Interaction
from setwise.accounting.notation import parse_use
from setwise.accounting.promises import rounded_down, rounded_up
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.present.plot import plot_answer
from setwise.contract import AnswerItemRecord
from setwise.errors import InvalidParameter
from setwise.mechanisms.release import Estimate, Item
from setwise.service.workers.answers import ShowAnswer, StoredAnswer


def answer(**changes):
    given = {
        "kind": "top-k",
        "measure": "users",
        "items": (
            Item(label="tea <b>", count=12, interval=(3, 22), noisy=12),
            Item(label="mate, $x$", count=0, interval=(0, 9), noisy=-4),
        ),
        "mechanism": "unknown_gumbel+gaussian",
        "interaction": Interaction.SETWISE,
        "epsilon": Bracket(0.99, 0.9951),
        "delta": 1e-6,
        "method": "certified-optimum",
        "statement": "a theorem",
        "spent": (parse_use("bounded-range:0.1x3"), parse_use("approx:0,1e-7")),
        "complete": False,
        "reason": "the threshold was reached before k",
        "why": "unknown_gumbel+gaussian: the best",
        "confidence": 0.95,
        "interval_note": "Each interval holds the exact number with probability 95%.",
    }
    return PrivateAnswer(**(given | changes))


LABELS_ONLY = {"items": (Item(label=7), Item(label=5))}
NOTHING = {"items": ()}


def test_the_json_is_the_contract():
    assert json.loads(answer().to_json()) == {
        "items": [
            {"item": "tea <b>", "count": 12, "interval": [3, 22], "noisy": 12},
            {"item": "mate, $x$", "count": 0, "interval": [0, 9], "noisy": -4, "unreliable": True},
        ],
        "measure": "users",
        "mechanism": "unknown_gumbel+gaussian",
        "interaction": "setwise",
        "epsilon": {"lower": 0.99, "upper": 0.9951},
        "delta": 1e-6,
        "spent": ["bounded-range:0.1x3", "approx:0.0,1e-07"],
        "complete": False,
        "interval_note": "Each interval holds the exact number with probability 95%.",
        "left_out": "",
        "hint": "",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"items": (Item(label=7), Item(label=5))},
        {"items": (Item(label=("tea", 7), count=3, interval=(0, 9), noisy=3),), "groups": ("drink", "hour")},
        {"items": (Item(label="tea", estimates=(Estimate(value=1.5, interval=(1.0, 2.0)),)),), "statistics": ("m",)},
    ],
)
def test_each_item_is_the_record_that_openapi_publishes(changes):
    for item in json.loads(answer(**changes).to_json())["items"]:
        published = {name: value for name, value in item.items() if name in AnswerItemRecord.__annotations__}
        assert TypeAdapter(AnswerItemRecord).validate_python(item, strict=True) == published
        assert {*item} == {*published, *changes.get("statistics", ())}


def quantiles(*days):
    """Return the median and the 90th percentile of each of `days`."""
    both = (Estimate(value=1.0, interval=(0.0, 2.0)), Estimate(value=9.0, interval=(8.0, 11.0)))
    items = tuple(Item(label=day, estimates=both) for day in days)
    return answer(kind="quantile", items=items, statistics=("p50", "p90"), axes=("time",))


def test_a_line_joins_values_of_one_kind_at_several_times():
    """One day was drawn as a line on web pages, and a zigzag through the medians and the 90th percentiles in files."""
    item = Item(label="2026-05-01", count=3, interval=(0, 9), noisy=3)
    days = answer(items=(item, replace(item, label="2026-05-02")), axes=("time",))
    one_day, several = replace(days, items=days.items[:1]), quantiles("2026-05-01", "2026-05-02")
    for shown, is_line in ((days, True), (one_day, False), (several, False)):
        assert bool(plot_answer(shown, None).figure.axes[0].patches) is not is_line
        assert ShowAnswer(StoredAnswer(text=shown.stored(), statement=None)).result().over_time is is_line


def test_answers_stored_before_counts_were_whole_can_be_read():
    """They had counts of 483.75 beside intervals from 488, and negative ones, and no note."""
    stored = json.loads(answer().stored())
    stored["items"] = [
        {"item": "tea", "count": 483.75, "interval": [488, 592]},
        {"item": "mate", "count": -12, "interval": [0, 5]},
        {"item": "rum", "count": None, "interval": None},
    ]
    del stored["interval_note"]
    found = PrivateAnswer.from_stored(json.dumps(stored))
    assert [(each.count, each.interval, each.noisy) for each in found] == [
        (484, (484, 592), None),
        (0, (0, 5), None),
        (None, None, None),
    ]
    assert "before intervals accounted for selection" in found.interval_note


def test_where_only_the_highest_are_shown_the_average_is_said_to_be_of_all(tmp_path):
    many = tuple(Item(label=place, count=9, interval=(3, 22), noisy=9) for place in range(101))
    assert "over all 101 items, not over the 100 shown" in answer(items=many)._repr_html_()
    assert "not over the" not in answer(items=many[:100])._repr_html_()
    answer(items=many).plot(str(tmp_path / "a.svg"))
    assert "over all 101 items, not over the 60 shown" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize("changes", [{}, LABELS_ONLY, NOTHING])
def test_storage_loses_nothing(changes):
    before = answer(**changes)
    assert PrivateAnswer.from_stored(before.stored()) == before


@pytest.mark.parametrize("changes", [{}, LABELS_ONLY, NOTHING])
def test_frames_hold_the_items(changes):
    found = answer(**changes)
    rows = [
        {
            "item": e.label,
            "count": e.count,
            "lower": e.interval and e.interval[0],
            "upper": e.interval and e.interval[1],
            "noisy": e.noisy,
        }
        for e in found
    ]
    assert found.to_arrow().to_pylist() == rows
    assert found.to_polars().to_dicts() == rows
    assert list(found.to_pandas().columns) == ["item", "count", "lower", "upper", "noisy"]
    assert found.to_pandas()["item"].tolist() == list(found.labels)
    assert found.to_csv().splitlines()[0] == "item,count,lower,upper,noisy,measure"
    assert len(found.to_csv().splitlines()) == 1 + len(found)


def test_labels_are_escaped_and_the_promise_is_told():
    page = answer()._repr_html_()
    assert "tea &lt;b&gt;" in page
    assert "<b>" not in page
    assert "(0.9951, 1e-06)" in page
    assert "Each interval holds the exact number" in page
    assert page.count("<tr>") == 3
    assert "script" not in page
    assert "no item passed" not in answer(**LABELS_ONLY)._repr_html_()


def test_printing_shows_the_items():
    assert str(answer()).splitlines()[0] == "tea <b>: 12 in [3, 22]"
    assert str(answer(**LABELS_ONLY)).splitlines()[:2] == ["7", "5"]
    assert "threshold" in str(answer(**NOTHING))


@pytest.mark.parametrize("changes", [{}, LABELS_ONLY, NOTHING])
def test_plots_are_pictures(tmp_path, changes):
    plot_answer(answer(**changes), str(tmp_path / "a.png"))
    answer(**changes).plot(str(tmp_path / "a.svg"))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "a.svg").read_text()
    for path in ("a.pdf", "absent/a.png"):
        with pytest.raises(InvalidParameter):
            plot_answer(answer(), str(tmp_path / path))


def test_round_off_is_not_written_as_a_digit():
    for value, written in ((0.1, "0.1"), (0.1 * 3, "0.3"), (0.5 * (1 + 1e-15), "0.5"), (1e-7, "1e-07"), (0.0, "0")):
        assert rounded_up(value, 4) == rounded_down(value, 4) == written
    assert (rounded_up(0.1000001, 4), rounded_down(0.0999999, 4)) == ("0.1001", "0.09999")
    assert rounded_up(math.inf) == "infinity"


def test_promises_are_rounded_up():
    assert rounded_up(0.99504, 4) == "0.9951"
    assert rounded_up(1.0) == "1"
    for digits in (1, 3, 6):
        assert float(rounded_up(2 / 3, digits)) > 2 / 3
