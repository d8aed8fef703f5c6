"""Columns whose dates are written in several formats that no option reads together, and a copy with one format.

An example is a column with 2024-01-15, 15/01/2024, Sep 15, 2024 and 45300, the number of a day in a spreadsheet.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.engines.typed_cells import BLANKS, MONTHS, CellGrammar
from setwise.analytics.schema import Kind
from setwise.analytics.tables.copies.clean_copies import with_changed_cells
from setwise.analytics.tables.scan_notes import CopyCommand
from setwise.analytics.tables.writing import ENOUGH, NULL_WORDS, guess_grammar, is_readable

_REST = "(|[T ] ?[0-9].*)"
"""The regular expression of a time of day after a date; empty if there is none."""
_NUMBERS = f"([0-9]{{1,2}})[-/.]([0-9]{{1,2}})[-/.]([0-9]{{4}}|[0-9]{{2}}),?{_REST}"
"""The regular expression of a date such as 15/01/2024; its groups are two numbers, the year and the time."""
_DAY_FIRST = f"([0-9]{{1,2}})(?:st|nd|rd|th)?[-. ]+([A-Za-z]{{3,9}})[-., ]+([0-9]{{4}}|[0-9]{{2}}),?{_REST}"
"""The regular expression of a date such as 15 Jan 2024."""
_MONTH_FIRST = f"([A-Za-z]{{3,9}})[-. ]+([0-9]{{1,2}})(?:st|nd|rd|th)?,?[- ]+([0-9]{{4}}|[0-9]{{2}}),?{_REST}"
"""The regular expression of a date such as Jan 15, 2024."""
_SERIAL_DAY = "([2-7][0-9]{4})([.][0-9]+)?"
"""The regular expression of a day since 1899-12-30, from 1954 to 2119, with a time of day as a fraction."""
_MONTH_NUMBER = "'janfebmaraprmayjunjulaugsepoctnovdec'.find(k[{}][:3].lower())//3+1"
"""Python text for the number of the month whose English name is the given group of the match `k`."""
_ISO = "'%s-%02d-%02d%s'%(('20' if k[3]<'69' else '19')*(len(k[3])<3)+k[3],{month},int(k[{day}]),k[4])"
"""Python text for a date as 2024-01-15 from the match `k` of a date whose third group is the year."""
_VALUES = {
    "day first": (_NUMBERS, _ISO.format(month="int(k[2])", day=1)),
    "month first": (_NUMBERS, _ISO.format(month="int(k[1])", day=2)),
    "day and name": (_DAY_FIRST, _ISO.format(month=_MONTH_NUMBER.format(2), day=1)),
    "name and day": (_MONTH_FIRST, _ISO.format(month=_MONTH_NUMBER.format(1), day=2)),
    "serial": (
        _SERIAL_DAY,
        "str(datetime.datetime(1899,12,30)+datetime.timedelta(seconds=round(86400*float(k[0]))))"
        ".replace(' 00:00:00','')",
    ),
}
"""For each form of a date, its regular expression and Python text for the date as 2024-01-15."""
_LEAST_UNREAD = 0.01
"""The share of a column's cells that the best option must leave unread, before a copy is proposed in its place."""
_MONTHS_OF_YEAR, _DAYS_OF_MONTH = 12, 31
_MOST_SERIAL = 0.9
"""The largest share of a column's cells that may be numbers of days, for other cells to show that they are dates."""


@dataclass(frozen=True, slots=True)
class MixedDates:
    """The forms in which the cells of one column write dates, of which no option reads all.

    `examples` has a cell of each form, and `forms` has keys of `_VALUES`, without dates such as 2024-01-15. `is_clear`
    says that a cell such as 15/01/2024 shows the order of days and months. If it is False, the data holder must say.
    """

    examples: tuple[str, ...]
    forms: tuple[str, ...]
    is_clear: bool

    def copies(self, name: str, file: TableFile | None, csv: CsvOptions, names: Sequence[str]) -> list[CopyCommand]:
        """Return the commands that write a copy of `file` in which the dates of the column `name` are as 2024-01-15.

        There is one command, or one for each order of days and months if the cells do not show it. `csv` says how the
        file is written, and `names` are its columns in order. The list is empty if no command can write a copy.
        """
        orders = [""] if self.is_clear else ["day first", "month first"]
        copies = []
        for place, order in enumerate(orders):
            forms = [order, *(form for form in self.forms if "first" not in form)] if order else self.forms
            pairs = ",".join(f"('{pattern}',lambda k:{value})" for pattern, value in map(_VALUES.__getitem__, forms))
            value = f"next((g(k) for p,g in ({pairs},) for k in [re.fullmatch(p,m[0])] if k),m[0])"
            command = "" if file is None else with_changed_cells(file, csv, names, name, ".+", value, place=place)
            meaning = f"if 02/05/2024 has the {order}" if order else ""
            copies += [CopyCommand(meaning=meaning, command=command)] if command else []
        return copies

    def sentence(self, name: str) -> str:
        """Return a sentence that tells the data holder in which forms the column `name` writes dates."""
        shown = " and ".join(map(repr, self.examples))
        text = f"dates of {name!r} are written in {len(self.examples)} ways, as {shown}, which no option reads together"
        return text if self.is_clear else f"{text}, and no cell tells whether 02/05/2024 is a day in May or in February"


def mixed_dates(cells: Sequence[str]) -> MixedDates | None:
    """Return the forms in which the sampled `cells` of a column write dates, if no option reads all; else None.

    At least 90% of the filled cells must be dates, and the date format that reads most cells must leave 1% unread. Days
    and months in both orders, as 31/05/2024 and 05/31/2024, give None, because no command can tell which is meant.
    """
    filled = [text for cell in cells if (text := cell.strip(BLANKS)) and text not in NULL_WORDS]
    shown: dict[str, list[str]] = {}
    for text in filled:
        shown.setdefault(_form(text), []).append(text)
    unknown, serial = len(shown.pop("", [])), len(shown.get("serial", []))
    if len(shown) < 2 or unknown > (1 - ENOUGH) * len(filled) or serial > _MOST_SERIAL * len(filled):
        return None
    numbers = [match for text in shown.get("numbers", []) if (match := re.fullmatch(_NUMBERS, text))]
    days = (("day first", 1), ("month first", 2))
    orders = [order for order, group in days if any(int(match[group]) > _MONTHS_OF_YEAR for match in numbers)]
    if len(orders) > 1 or _fewest_unread(filled) < max(1, _LEAST_UNREAD * len(filled)):
        return None
    others = [form for form in shown if form not in ("iso", "numbers")]
    forms = [*(orders or (["day first"] if numbers else [])), *others]
    examples = tuple(min(texts) for texts in shown.values())
    return MixedDates(examples, tuple(forms), bool(orders) or not numbers)


def _form(text: str) -> str:
    """Return the form in which `text` writes a date: "iso", "numbers" or a key of `_VALUES`; "" if it is no date."""
    if is_readable(text, Kind.TIMESTAMP, CellGrammar()):
        return "iso"
    if match := re.fullmatch(_NUMBERS, text):
        low, high = sorted(map(int, match.groups()[:2]))
        return "numbers" if 1 <= low <= _MONTHS_OF_YEAR and high <= _DAYS_OF_MONTH else ""
    for form, (pattern, group) in {"day and name": (_DAY_FIRST, 2), "name and day": (_MONTH_FIRST, 1)}.items():
        if (match := re.fullmatch(pattern, text)) and match[group][:3].lower() in {name[:3].lower() for name in MONTHS}:
            return form
    return "serial" if re.fullmatch(_SERIAL_DAY, text) else ""


def _fewest_unread(filled: Sequence[str]) -> int:
    """Return how many of the `filled` cells are no dates in the date format that reads the most of them."""
    written = [text for text in filled if _form(text) not in ("iso", "serial")]
    grammars = (CellGrammar(), guess_grammar({"": written}, CellGrammar()).grammar)
    return min(sum(not is_readable(text, Kind.DATE, grammar) for text in filled) for grammar in grammars)
