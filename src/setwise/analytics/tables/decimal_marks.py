"""Which mark is the decimal point of the numbers in a column: a point, a comma, or one in some cells and one in others.

The cells 813,75 and 253.98 of one column are both numbers, but no option reads both. A cell such as 1,234 shows
nothing, because its comma may be a decimal point or stand between thousands.
"""

import re
from collections.abc import Sequence


def has_two_marks(cells: Sequence[str]) -> bool:
    """Return whether the numbers in the sampled `cells` of a column have points and commas as decimal points.

    It is True if some numbers can only have a decimal comma, as 813,75, and others only a decimal point, as 253.98. It
    is also True if no number tells which mark is the decimal point, but some have a comma and others a point before
    three digits, as 34,948 and 39.110. It is False if fewer than 90% of the cells look like numbers.

    >>> [has_two_marks(cells) for cells in (["813,75", "253.98"], ["34,948", "39.110"], ["1,234", "253.98"])]
    [True, True, False]
    """
    numbers = [text for text in cells if re.fullmatch("[-+]?[0-9][0-9.,]*", text)]
    if 10 * len(numbers) < 9 * len(cells):
        return False
    marks = {_decimal_mark(number) for number in numbers}
    return {".", ","} <= marks or ({"1.234", "1,234"} <= marks and not marks & {".", ","})


def show_their_marks(cells: Sequence[str]) -> bool:
    """Return whether the last mark of each number in `cells` is its decimal point, as in 813,75 and in 6,022.20.

    >>> show_their_marks(["813,75", "6,022.20", "7"]), show_their_marks(["1,234"]), show_their_marks(["1.234.567"])
    (True, False, False)
    """
    marked = [text for text in cells if re.search("[.,]", text)]
    return all(_decimal_mark(text) == re.sub("[^.,]", "", text)[-1] for text in marked)


def _decimal_mark(number: str) -> str:
    """Return the decimal point that `number` shows: "." or ","; "" if it has no mark.

    For a number such as 5,678, whose comma may be a decimal point or stand between thousands, the result is "1,234";
    with a point in place of the comma, it is "1.234".

    >>> [_decimal_mark(text) for text in ("7.5", "6.022,20", "5,678", "1.234.567", "12")]
    ['.', ',', '1,234', ',', '']
    """
    marks = re.sub("[^.,]", "", number)
    if not marks:
        return ""
    if len({*marks}) == 2:
        return marks[-1]
    if len(marks) > 1:
        return "," if marks[0] == "." else "."
    return f"1{marks}234" if re.fullmatch("[-+]?[1-9][0-9]{0,2}[.,][0-9]{3}", number) else marks


def thousands_mark(numbers: Sequence[str], separator: str, *, is_money: bool) -> str:
    """Return the mark in `numbers` that may be a decimal point or stand between thousands, as in 1.234; "" if none.

    A point is taken for a decimal point, unless the numbers are amounts of money (`is_money`), which have no three
    decimal places, or stand in a file whose `separator` is usual where the decimal point is a comma.

    >>> thousands_mark(["34.948", "9.110"], ",", is_money=True)
    '.'
    """
    texts = [number.strip() for number in numbers]
    for mark in ".,":
        marked = [text for text in texts if re.fullmatch(f"[1-9][0-9]{{0,2}}[{mark}][0-9]{{3}}", text)]
        whole = [text for text in texts if text.isdecimal()]
        if not marked or len(marked) + len(whole) < len(texts):
            continue
        if mark == ".":
            return mark if is_money or has_unclear_points(separator) else ""
        # as a number with three decimal places, 12 would be written 12,000
        return "" if any(1 <= int(text) < 1000 for text in whole) else mark
    return ""


def has_unclear_points(separator: str) -> bool:
    """Return whether the point in 1.234 may stand between thousands, in a file with `separator` between cells.

    True for semicolons and tabs. Semicolons separate cells in countries whose decimal point is a comma, and tabs
    everywhere. Commas separate cells where the decimal point is a point.
    """
    return separator in (";", "\t")
