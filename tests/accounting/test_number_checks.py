"""Numbers that people give are checked before anything is computed with them."""

import pytest

from setwise.accounting.checks import check_number
from setwise.errors import InvalidParameter


@pytest.mark.parametrize("value", [10**400, -(10**400)], ids=["huge", "huge negative"])
def test_an_integer_beyond_floats_is_refused_in_words(value: int) -> None:
    """It used to raise a bare OverflowError."""
    with pytest.raises(InvalidParameter, match="epsilon must be at most"):
        check_number("epsilon", value)
