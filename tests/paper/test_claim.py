"""What it means for a claim to pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.errors import InvalidParameter
from setwise.paper.figure import Claim, ClaimRelation, markdown

VALUES = st.floats(-10.0, 10.0)


def claim(**values):
    return Claim(**{"label": "lem:GM", "says": "a number", "paper": 1.0, "ours": 1.0} | values)


@given(paper=VALUES, ours=VALUES, tolerance=st.floats(0.0, 1.0))
def test_same_below_and_above_exclude_and_exhaust(paper, ours, tolerance):
    verdicts = [
        claim(paper=paper, ours=ours, tolerance=tolerance, relation=relation).passed
        for relation in (ClaimRelation.SAME, ClaimRelation.BELOW, ClaimRelation.ABOVE)
    ]
    close = abs(abs(ours - paper) - tolerance) < 1e-9
    assert sum(verdicts) == 1 or close
    assert verdicts[0] == (abs(ours - paper) <= tolerance)


def test_a_correction_fails_when_the_paper_was_right_or_ours_is_wrong():
    def corrected(paper, ours):
        return claim(paper=paper, ours=ours, relation=ClaimRelation.CORRECTED, independent=2.0, tolerance=0.1)

    assert corrected(1.0, 2.05).passed
    assert not corrected(1.95, 2.05).passed
    assert not corrected(1.0, 1.5).passed
    assert corrected(1.0, 1.5).verdict == "fail"


def test_only_corrections_have_an_independent_value():
    with pytest.raises(InvalidParameter):
        claim(relation=ClaimRelation.CORRECTED)
    with pytest.raises(InvalidParameter):
        claim(independent=1.0)


def test_nan_never_passes():
    nan = float("nan")
    assert not any(
        claim(ours=nan, relation=r).passed for r in (ClaimRelation.SAME, ClaimRelation.BELOW, ClaimRelation.ABOVE)
    )


def test_a_negative_tolerance_is_refused():
    with pytest.raises(InvalidParameter, match=r"-0\.5"):
        claim(tolerance=-0.5)


def test_the_table_says_what_was_checked():
    text = markdown([claim(ours=3.0), claim(ours=0.0, relation=ClaimRelation.BELOW)])
    assert "| `lem:GM` | a number | 1 | 3 | same within 0 | fail |" in text
    assert "| ours below | pass |" in text
