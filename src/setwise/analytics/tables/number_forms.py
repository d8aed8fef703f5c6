"""Sentences for the data holder about numbers in forms that are not read, with commands that write plain numbers.

The forms are a minus after the digits or of another character, ="5" as spreadsheets write texts, groups of two digits
as in India, degrees with a direction such as 45\u00b0 N, fractions such as 4/5, a unit, scale or currency such as kr
beside the number, and two decimal points in one column.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.engines.typed_cells import BLANKS, CellGrammar
from setwise.analytics.schema import Kind
from setwise.analytics.tables.copies.clean_copies import with_changed_cells
from setwise.analytics.tables.decimal_marks import has_two_marks, show_their_marks, thousands_mark
from setwise.analytics.tables.number_units import (
    CURRENCIES,
    DIGITS,
    MINUS,
    SCALES,
    NumbersWithUnits,
    are_numbers,
    decimal_point,
    numbers_with_units,
    plain_pattern,
    scaled_value,
)
from setwise.analytics.tables.scan_notes import CopyCommand, ScanNote
from setwise.analytics.tables.writing import ENOUGH, NULL_WORDS, is_readable


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberForm:
    """A form in which the numbers of a column are written but not read, and what the data holder can do about it.

    - `sentence` names the form, and ends with the commands of `copies`, or with advice if there are none.
    - `copies` are the commands that write a readable copy of the file: one, or one for each meaning of the numbers.
    - `is_one_sided` says that the numbers in this form are all smaller, or all larger, than the numbers that are read:
      for example, if only negative numbers have the form. Any answer without them is then wrong in one direction.
    """

    sentence: str
    copies: tuple[CopyCommand, ...] = ()
    is_one_sided: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """A form in which numbers are written but not read, such as 5- for -5, and how to turn it into a plain number.

    - `held` describes the form in a sentence about the cells, such as "have the minus after the digits".
    - `pattern` is the regular expression that a whole cell in this form matches.
    - `group` is the number of the group (parentheses) of `pattern` that matches the digits; 0 is the whole cell.
    - `sign` is "-" if a minus has to be written before these digits, else "".
    - `value` is a Python expression for the plain number, used in a command that writes a copy of the file. In it, `m`
      is the match of the cell, as in "'-'+m[1]".
    - `shown` is a regular expression that at least one cell must match. Other cells alone do not show the form.
    """

    held: str
    pattern: str
    group: int
    sign: str
    value: str
    shown: str = ""


_FORMS = (
    _Form(held="have the minus after the digits", pattern=f"({DIGITS}?) ?-", group=1, sign="-", value="'-'+m[1]"),
    _Form(
        held="have a minus that is another character",
        pattern=f"[\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d] ?({DIGITS})",
        group=1,
        sign="-",
        value="'-'+m[1]",
    ),
    _Form(held="are written as texts by a spreadsheet", pattern="=.([^=]*).", group=1, sign="", value="m[1]"),
    _Form(
        held="have commas between groups of two digits",
        pattern="[+-]?[0-9]{1,3}(,[0-9]{2,3})*,[0-9]{3}([.][0-9]+)?",
        group=0,
        sign="",
        value="m[0].replace(',','')",
        # the last group has three digits in India, too: 503,64 has a decimal comma
        shown="[+-]?[0-9]{1,2}(,[0-9]{2})+,[0-9]{3}([.][0-9]+)?",
    ),
    _Form(
        held="have N, S, E or W after the degrees in place of a sign",
        pattern="([0-9]+(?:[.,][0-9]+)?) ?[\u00b0\u00ba]? ?([NSEW])",
        group=1,
        sign="",
        value="'-'*(m[2] in ('S','W'))+m[1]",
        shown="[0-9]+(?:[.,][0-9]+)? ?[\u00b0\u00ba] ?[NSEW]",
    ),
)


class NumberColumn:
    """A column whose cells may be numbers in a form that is not read, and the file that has to be copied.

    - `name` is the column, and `cells` are sampled cells of the column.
    - `file` is the table's file, or None if the table has several files or none. `csv` says how the file is written,
      and `names` are its columns in order.
    """

    def __init__(
        self, name: str, cells: Sequence[str], file: TableFile | None, csv: CsvOptions, names: Sequence[str]
    ) -> None:
        self._name, self._file, self._csv, self._names = name, file, csv, names
        self._filled = [text for cell in cells if (text := cell.strip(BLANKS)) and text not in NULL_WORDS]
        self._separator = "," if file is None else csv.format_of(csv.suffix_of(file)).separator

    def form(self, *, is_number: bool) -> NumberForm | None:
        """Return the form in which the numbers of the column are written and not read; None if no known form fits.

        `is_number` says that the column is to be read as numbers. Otherwise a word beside a number is taken for a unit
        only if it is a currency, a percent sign or a scale, because texts such as item 5 are no numbers.
        """
        return (
            self.two_marks()
            or self._written_form()
            or self._fractions(is_number=is_number)
            or self._with_units(is_number=is_number)
        )

    def two_marks(self) -> NumberForm | None:
        """Return a form if some numbers of the column have a decimal comma and others a decimal point; else None.

        If each number shows which mark is its decimal point, as 813,75 and 253.98 do, the form has a command that
        writes a copy with one mark. If some do not, as 1,234, it asks the data holder to change the file.
        """
        if not has_two_marks(self._filled):
            return None
        point = "," if self._csv.decimal == "," or self._separator == ";" else "."
        held = "have a decimal comma in some cells and a decimal point in others"
        if not show_their_marks(self._filled):
            held = "have a comma in some cells and a point in others, and 1,234 and 1.234 do not tell which of them is"
            return self._unsolved(f"{held} the decimal point", "write all numbers with the same one in the file")
        value = f"re.sub('[.,]','',m[1])+'{point}'+m[2]"
        return self._solved(held, [("", "in which all have the same", "([-+]?[0-9.,]*)[.,]([0-9]+)", value, ())])

    def _written_form(self) -> NumberForm | None:
        """Return the first form of `_FORMS` in which numbers of the column are written; None if there is none."""
        for form in _FORMS:
            plain = [
                form.sign + match[form.group].replace(",", "" if form.group == 0 else ",") if match else text
                for text in self._filled
                for match in [re.fullmatch(form.pattern, text)]
            ]
            is_shown = not form.shown or any(re.fullmatch(form.shown, text) for text in self._filled)
            if plain != self._filled and is_shown and are_numbers(plain):
                copies = [("", "with plain numbers", form.pattern, form.value, ())]
                return self._solved(form.held, copies, is_one_sided=form.sign == "-")
        return None

    def _fractions(self, *, is_number: bool) -> NumberForm | None:
        """Return a form if the cells of the column are fractions with a slash, such as 4/5; else None.

        The copy has the numbers before the slash, if the number behind it is the same in all cells. Cells such as 05/24
        or 7/5 may be months or days, and are not taken for fractions. If the numbers behind the slash differ, the cells
        are taken for fractions only if `is_number` says that the column is to be read as numbers.
        """
        matches = [re.fullmatch(_FRACTION, text) for text in self._filled]
        parts = [(float(match[1].replace(",", ".")), int(match[2])) for match in matches if match is not None]
        if not parts or len(parts) < ENOUGH * len(matches) or any(number > whole for number, whole in parts):
            return None
        wholes = {whole for _, whole in parts}
        if len(wholes) > 1 and not is_number:
            return None
        held = f"are fractions such as {examples(self._filled[:1])}"
        if len(wholes) > 1 or any(is_readable(text, Kind.FLOAT, CellGrammar()) for text in self._filled):
            return self._unsolved(f"{held}, which are not read", "write them as decimal numbers in the file")
        (whole,) = wholes
        said = f"with the number before the slash, which is then of {whole}"
        return self._solved(held, [("", said, f"({_NUMERATOR}) ?/ ?{whole}", "m[1]", ())])

    def _with_units(self, *, is_number: bool) -> NumberForm | None:
        """Return a form if units, scales or currencies stand beside numbers of the column; else None.

        `is_number` says that any word is taken for a unit, and not only a currency, a percent sign or a scale.
        """
        found = numbers_with_units(self._filled)
        if found is None or not (is_number or {*found.words} <= {*CURRENCIES, *SCALES, "%"}):
            return None
        held = f"have {' or '.join(map(repr, found.words[:_MOST_WORDS]))} beside them"
        if len(found.units) > 1:
            return self._unsolved(f"{held}, which are not read", "convert them to one unit in the file")
        unit = " ".join(word for pair in found.units for word in pair if word)
        if found.has_plain and found.units:
            return self._beside_plain(found, held, unit)
        point = decimal_point(found.numbers) or "."
        pattern = plain_pattern(found.units, found.scales, may_lack=True)
        if found.scales:
            factors = {scale: SCALES[scale] for scale in found.scales}
            said = " and ".join(f"{scale} is multiplied by {factor:,}" for scale, factor in factors.items())
            copies = [("", f"in which {said}", pattern, scaled_value(point, factors), ())]
            return self._solved(f"{held}, which are not read", copies, is_one_sided=found.has_plain)
        mark = thousands_mark(found.numbers, self._separator, is_money=found.is_money)
        held, said = f"{held}, which are not read", f"with plain numbers, which are then in {unit!r}"
        plain = f"{MINUS}+m[4]"
        if not mark:
            return self._solved(held, [("", said, pattern, plain, ())])
        small = ("--type", f"{self._name}=float") if mark == "." else ("--decimal", ",")
        whole = f"{MINUS}+re.sub('[^0-9]','',m[4])"
        return self._solved(
            f"{held}, and have three digits after each {'point' if mark == '.' else 'comma'}",
            [
                (f"if 1{mark}234 is one and a bit", said, pattern, plain, small),
                ("if it is 1234", said, pattern, whole, ()),
            ],
        )

    def _beside_plain(self, found: NumbersWithUnits, held: str, unit: str) -> NumberForm:
        """Return the form of numbers that have the same `unit` beside them or none, such as 5 kg and 700.

        The cells do not tell what those without a unit are in, so the data holder has to say it. `held` describes the
        numbers in a sentence, and `found` has them.
        """
        held = f"{held}, which are not read, and others have no unit"
        said = f"with plain numbers, which are then all in {unit!r}"
        if found.scales:
            return self._unsolved(held, "write all in one unit in the file")
        if found.units == (("", "%"),):
            pattern, point = plain_pattern((), ["%"], may_lack=True), decimal_point(found.numbers) or "."
            copies = [
                (meaning, said, pattern, scaled_value(point, {"%": 1}, factor), ())
                for meaning, factor in (("if 0.5 is 50%", 100), ("if 0.5 is 0.5%", 1))
            ]
            return self._solved(f"{held}: write all in one unit in the file", copies)
        pattern = plain_pattern(found.units, (), may_lack=True)
        same = (f"if those without a unit are in {unit!r} too", said, pattern, f"{MINUS}+m[4]", ())
        if thousands_mark(found.numbers, self._separator, is_money=found.is_money):
            return self._unsolved(held, "write all in one unit in the file")
        return self._solved(f"{held}: write all in one unit in the file", [same])

    def _unsolved(self, held: str, advice: str) -> NumberForm:
        """Return the form of numbers that no command mends. `held` describes them, and `advice` says what to do."""
        return NumberForm(sentence=f"numbers of {self._name!r} {held}: {advice}")

    def _solved(
        self,
        held: str,
        copies: Sequence[tuple[str, str, str, str, tuple[str, ...]]],
        *,
        is_one_sided: bool = False,
    ) -> NumberForm:
        """Return the form of numbers that a copy of the file makes readable.

        - `held` describes the numbers in the form's sentence, such as "have the minus after the digits".
        - `copies` has an entry (meaning, content, pattern, value, options) for each copy that the data holder may
          choose. `meaning` says in which case the copy is right ("" if always), and `content` what the copy has. In the
          copy, cells that match the regular expression `pattern` are replaced by the value of the Python expression
          `value`, in which `m` is the match. `options` are those with which the copy has to be read.
        - `is_one_sided` says that the numbers in this form are all smaller, or all larger, than the other numbers.
        """
        what = "cells" if held.startswith("are fractions") else "numbers"
        sentence, commands = f"{what} of {self._name!r} {held}", []
        if ", which are not read" not in held:
            sentence += ", which are not read"
        parts = []
        for place, (meaning, content, pattern, value, options) in enumerate(copies):
            command = ""
            if self._file is not None:
                command = with_changed_cells(
                    self._file, self._csv, self._names, self._name, pattern, value, place=place
                )
            if command:
                commands.append(CopyCommand(meaning=meaning, command=command, options=options))
                parts.append(f"{meaning}{', ' if meaning else ''}a copy {content}: {command}")
        if not parts:
            parts = ["write plain numbers in the file"] if "in the file" not in held else []
        sentence = "; ".join([f"{sentence}: {parts[0]}", *parts[1:]]) if parts else sentence
        return NumberForm(sentence=sentence, copies=tuple(commands), is_one_sided=is_one_sided)


def form_note(form: NumberForm, text: str = "") -> ScanNote:
    """Return a note about a column whose numbers are written in the `form`; it begins with `text`, if there is one."""
    is_sure = len(form.copies) == 1 and not form.copies[0].meaning
    return ScanNote(
        f"{text}: {form.sentence}" if text else form.sentence,
        mostly_unreadable=form.is_one_sided,
        copy_command=form.copies[0].command if is_sure else "",
        is_unsolved=not form.copies,
        choices=() if is_sure else form.copies,
    )


_NUMERATOR = "0|[1-9][0-9]*|[0-9]+[.,][0-9]+"
_FRACTION = f"({_NUMERATOR}) ?/ ?([1-9][0-9]*)"
"""The regular expression of a fraction; its groups are the numbers before and behind the slash."""
_MOST_WORDS = 3
"""The most units that a sentence lists."""


def mixed_numbers_sentence(name: str, cells: Sequence[str]) -> str:
    """Return a sentence if half or more of the sampled `cells` of a text column are numbers, but not all; else "".

    A column with cells such as 12 and unknown is read as text. The sentence states the option that reads the column
    `name` as numbers, and skips the other cells. No two `cells` are equal.
    """
    filled = [text for cell in cells if (text := cell.strip(BLANKS)) and text not in NULL_WORDS]
    others = [text for text in filled if not is_readable(text, Kind.FLOAT, CellGrammar())]
    if not others or 2 * len(others) > len(filled):
        return ""
    return (
        f"most different cells of {name!r} are numbers, but others are not, such as {examples(others)}: "
        f"if they are amounts, --type {name}=float reads the numbers and skips the others"
    )


def bounds_sentence(cells: Sequence[str]) -> str:
    """Return a phrase about `cells` that are no numbers but bounds of numbers, such as <5000 or 90+; else "".

    The phrase tells the data holder in which direction an answer without them is wrong.
    """
    signs = {_BOUND.fullmatch(cell.strip(BLANKS)) for cell in cells}
    low = all(sign is not None and sign[1] and sign[1][0] in "<\u2264" for sign in signs)
    high = all(sign is not None and (not sign[1] or sign[1][0] in ">\u2265") for sign in signs)
    if not cells or not (low or high):
        return ""
    side = "too high" if low else "too low"
    return (
        f"they are bounds such as {cells[0].strip(BLANKS)!r}, so that an answer without them is {side}: write a number "
        "for each of them in the file"
    )


_BOUND = re.compile(f"([<>\u2264\u2265]=?)? ?[-+]?{DIGITS}(?(1)|[+])")
"""The regular expression of a bound, such as <5000 or 90+, with its sign as its group."""


def examples(cells: Sequence[str]) -> str:
    """Return up to three different `cells`, as text in quotes, which show the data holder what cannot be read."""
    shown = sorted({cell.strip(BLANKS)[:40] for cell in cells})
    return " or ".join(map(repr, [shown[0], shown[len(shown) // 2], shown[-1]] if len(shown) > 3 else shown))
