"""The words of a privacy promise, and the rounding of every epsilon and delta that people see (digits, upwards).

Every page, message and report takes its promises from here. Numbers that are promised are rounded up, and numbers that
remain to be spent are rounded down. So no text states a smaller epsilon or delta than the one that is promised.
"""

import math
import re
from collections.abc import Collection
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from setwise.accounting.brackets import Interaction
from setwise.errors import InvalidParameter

_ROUND_OFF = Decimal("1e-12")
"""A relative difference below this is taken for the rounding error of a float that stands for a shorter decimal
number."""


def rounded_up(value: float, digits: int = 6) -> str:
    """Return `value` as text with `digits` significant digits, rounded up, so that a promise is not understated.

    A difference beyond the twelfth digit counts as the rounding error of a float and is ignored.

    >>> rounded_up(0.12345678), rounded_up(0.1, 4), rounded_up(0.1 * 3, 4), rounded_up(0.10001, 4)
    ('0.123457', '0.1', '0.3', '0.1001')
    """
    return _format(Context(prec=digits, rounding=ROUND_CEILING), Decimal(repr(float(value))) * (1 - _ROUND_OFF))


def rounded_down(value: float, digits: int = 6) -> str:
    """Return `value` as text with `digits` significant digits, rounded down, so that a balance is not overstated.

    A difference beyond the twelfth digit counts as the rounding error of a float and is ignored.

    >>> rounded_down(0.12345678), rounded_down(0.3, 4), rounded_down(4.0099999999999995e-07, 4)
    ('0.123456', '0.3', '4.01e-07')
    """
    return _format(Context(prec=digits, rounding=ROUND_FLOOR), Decimal(repr(float(value))) * (1 + _ROUND_OFF))


def _format(context: Context, value: Decimal) -> str:
    """Return `value` as text with the digits and the rounding that `context` prescribes; "infinity" if infinite."""
    if not value.is_finite():
        return "infinity"
    return f"{float(context.create_decimal(value)):.{context.prec}g}"


def epsilon_at_delta(epsilon: float, delta: float, digits: int = 6) -> str:
    """Return the promise of `epsilon` at `delta` as text, both rounded up to `digits` significant digits.

    >>> epsilon_at_delta(0.12345678, 1e-6, digits=3)
    'epsilon 0.124 at delta 1e-06'
    """
    return f"epsilon {rounded_up(epsilon, digits)} at delta {rounded_up(delta, digits)}"


def delta_too_small(delta: float, failure: float) -> str:
    """Return the message that no epsilon is promised at `delta`, because some use fails outright too often.

    `failure` is the probability that some use fails outright, that is, that everything may be revealed.
    """
    return (
        f"delta = {delta!r} is not above {rounded_up(failure, 3)}, the probability that some use fails outright; "
        "ask for a larger delta"
    )


def promised_pair(epsilon: float, delta: float) -> str:
    """Return "(epsilon, delta)" with at most 4 and 3 significant digits, both numbers rounded up.

    >>> promised_pair(1.23411, 1e-6) + "-differentially private"
    '(1.235, 1e-06)-differentially private'
    """
    return f"({rounded_up(epsilon, 4)}, {rounded_up(delta, 3)})"


COVERS = {
    Interaction.BATCH: "whatever else was chosen up front",
    Interaction.ORDERED: "parameters in a fixed order",
    Interaction.SETWISE: "within a budget fixed before any answer was seen",
    Interaction.ADAPTIVE: "within an account whose questions and parameters are chosen on the fly",
}
"""For each interaction, the part of a promise that says which other questions it covers."""


WEAK_EPSILON = 10.0
"""A promise with a larger epsilon carries a warning: e^10 is 22,000, which protects hardly anybody."""


def promise_in_words(epsilon: float, delta: float) -> str:
    """Return a sentence that says what (epsilon, delta)-differential privacy means for one person.

    If epsilon is above `WEAK_EPSILON`, a second sentence warns that the promise is weak.

    >>> print(promise_in_words(1.0, 1e-6))
    Whether or not one person is in the table changes the chance of any answer by a factor of at most 2.72, except with
    a chance of about one in a million.
    >>> promise_in_words(0.1, 0.0).rpartition("a factor of ")[2], promise_in_words(1, 3e-7).rpartition("about ")[2]
    ('at most 1.11.', 'one in 3.3 million.')
    """
    factor = math.exp(min(epsilon, 700.0))
    most = f"{math.ceil(factor):,}" if 100 <= factor < 1e7 else rounded_up(factor, 3)
    beyond = f", except with a chance of about one in {_large(1 / max(delta, _LEAST))}" if delta > 0 else ""
    weak = " Warning: an epsilon above 10 protects hardly anybody." if epsilon > WEAK_EPSILON else ""
    return (
        f"Whether or not one person is in the table changes the chance of any answer by a factor of at most {most}"
        f"{beyond}.{weak}"
    )


USER = "user"
"""The default unit of privacy: everything that one user has in the table."""


def check_unit(unit: str) -> str:
    """Return `unit` if it is the name of a unit of privacy, and raise `InvalidParameter` otherwise.

    A unit of privacy is what is protected: all rows of a user, or only the user's rows with one value of a column. Its
    name is "user"; or "user," followed by a column; or "user," followed by a column that is split by day, week or
    month, as in "user,at by day". Only the form is checked, not whether the column exists.
    """
    kind, _, part = unit.partition(",") if isinstance(unit, str) else ("", "", "")
    if kind != USER or (unit != USER and not part.strip()):
        raise InvalidParameter(f"unit is user, or user and a column, as in 'user,at by day', not {unit!r}")
    return unit


def unit_nouns(unit: str) -> tuple[str, str]:
    """Return (singular, plural): the nouns by which texts call one unit of privacy, and several.

    The unit "user" protects all rows of a user, and a unit such as "user,device" a user's rows with one value of the
    column `device`. Only for "user" and "user,day" are there nouns; every other unit is quoted.

    >>> unit_nouns("user"), unit_nouns("user,day"), unit_nouns("user,device")
    (('user', 'users'), ('user-day', 'user-days'), ("unit 'user,device'", "units 'user,device'"))
    """
    if unit == USER:
        return "user", "users"
    return ("user-day", "user-days") if unit == "user,day" else (f"unit {unit!r}", f"units {unit!r}")


_USER_NOUNS = re.compile(r"(?<![\w'\"`.-])[Uu]sers?(?![\w\"`-]|\.\w)(?:'s(?!\w))?")
"""Pattern of a word that names users in a sentence, also with an apostrophe and s. Words in quotes and parts of longer
names do not match."""

_BEFORE_NOUN = re.compile(
    r"(?:^|; |\d |\b(?:a|an|one|each|every|per|no|few|fewer|more|most|many|all|some|several|about|among|over|in|as) )$"
)
"""Pattern of what stands before the word "user" or "users" where it is no name of a column."""


def in_unit_nouns(text: str, unit: str, names: Collection[str] = ()) -> str:
    """Return `text`, sentences about users, as sentences about the unit of privacy `unit`, such as user-days.

    `names` are the names of columns that the sentences may contain. Where one of them is "user" or "users", it stays.

    >>> in_unit_nouns("mean of user, each user's own; at most 3 of a user", "user,day", ["user"])
    "mean of user, each user-day's own; at most 3 of a user-day"
    """
    if unit == USER:
        return text
    one, several = unit_nouns(unit)

    def noun(match: re.Match[str]) -> str:
        word, possessive, _ = match[0].partition("'")
        if word in names and not _BEFORE_NOUN.search(text[: match.start()]):
            return match[0]
        named = several if word.endswith("s") else one
        if possessive:
            named = f"{named.partition(' ')[0]}'s"  # "a unit's own", because the name of the unit ends with a quote
        return named[:1].upper() + named[1:] if word[0] == "U" else named

    return _USER_NOUNS.sub(noun, text)


def promise_for_unit(unit: str, epsilon: float, delta: float) -> str:
    """Return the promise (epsilon, delta) in words, for one unit of privacy.

    `unit` is "user", or "user," followed by the column by which the rows of one user are divided into units. The first
    sentence says what is protected: all rows of a user, or only one day or column value of a user at a time.

    >>> print(promise_for_unit("user,day", 1.0, 0.0))
    Each single day of a user is protected, but not the user: whoever has n of them in the table is protected only with
    n times this epsilon. Whether or not one day of a person is in the table changes the chance of any answer by a
    factor of at most 2.72.
    """
    words = promise_in_words(epsilon, delta)
    kind, _, part = unit.partition(",")
    if not part:
        return f"Each {kind} is protected, with all of their rows. {words}"
    noun = "day" if part == "day" else f"value of {part!r}"
    beyond = " and a delta that grows even faster" if delta > 0 else ""
    return (
        f"Each single {noun} of a user is protected, but not the user: whoever has n of them in the table is protected "
        f"only with n times this epsilon{beyond}. {words.replace('one person is', f'one {noun} of a person is')}"
    )


_LEAST = 1e-300
"""Smaller deltas are worded as this one, because their reciprocals may be infinite."""

_LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def _large(value: float) -> str:
    """Return `value`, the n of "one in n", as text with two significant digits; a million or more is put in words.

    The number is rounded down, because the chance of one in n must not be understated.

    >>> _large(3_399_999.0), _large(1e6), _large(1_234.0)
    ('3.3 million', 'a million', '1,200')
    """
    two = float(rounded_down(value, 2))
    for unit, name in _LARGE:
        if two >= unit:
            return f"a {name}" if two == unit else f"{two / unit:,.10g} {name}"
    return f"{two:,.0f}"
