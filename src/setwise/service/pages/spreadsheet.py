"""CSV as a browser downloads it: opened with a double click, by programs that take some texts for formulas."""

from dataclasses import replace

from setwise.analytics.private_answer import PrivateAnswer
from setwise.mechanisms.histogram import Label

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_QUOTE = "'"


def to_spreadsheet(answer: PrivateAnswer) -> str:
    """Return the items as CSV in which no label is a formula; leaving out a first apostrophe gives each label back."""
    return replace(answer, items=tuple(replace(each, item=_quoted(each.item)) for each in answer.items)).to_csv()


def _quoted(label: Label) -> Label:
    """Return a label as text: with an apostrophe before what might be a formula, and before an apostrophe.

    >>> _quoted("=1+1"), _quoted("'x"), _quoted("a=b"), _quoted(-5)
    ("'=1+1", "''x", 'a=b', -5)
    """
    if isinstance(label, str) and label.startswith((*_FORMULA, _QUOTE)):
        return _QUOTE + label
    return label
