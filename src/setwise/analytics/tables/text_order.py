"""Which text columns a query compares by order, as in at >= '2024-06-01', although their cells are dates or numbers.

As text, 900 is above 1000 and 9/9/2023 is above 12/31/2024, so the answer would be about other rows. The data holder is
told before the charge. Cells are recognised by their shape, so that also forms which no option reads are found.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

from setwise.analytics.engines.typed_cells import BLANKS, DAY_PARTS, CellGrammar
from setwise.analytics.schema import Kind
from setwise.analytics.tables.writing import ENOUGH, NULL_WORDS, NUMBERS, is_readable, iso_moment, with_numbers

_TEXT = "'((?:[^']|'')*)'"
"""The regular expression of a text constant in SQL; its group is the text between the quotes."""
_TYPE = "(?:(?:DATE|DATETIME|TIMESTAMP|TIMESTAMPTZ)\\s*|CAST\\s*[(]\\s*)?"
"""The regular expression of a type before a text constant, as in DATE '2024-06-01', which a text column ignores."""
_OF_TIME = (
    "(?P<before>\\b(?:(?:DATE_TRUNC|DATE_PART)\\s*[(]\\s*'[^']*'\\s*,\\s*|EXTRACT\\s*[(]\\s*\\w+\\s+FROM\\s+"
    "|(?:DATE|YEAR|QUARTER|MONTH|WEEK|DAY|HOUR|MINUTE|DAYOFWEEK|DAYNAME|MONTHNAME|STRFTIME|TO_CHAR)\\s*[(]\\s*))"
)
"""The regular expression of a function of time up to its column, as in DATE_TRUNC('week', at)."""

_MONTH = (
    "(?:jan|ene|gen|f[eé]b|f[eé]v|m[aä]r|mrt|a[pbv]r|ma[iyj]|mag|ju[nil]|jou?i|giu|lug|jui|"
    "aug|ago|ao[uû]|se[pt]|o[ck]t|out|ott|nov|de[czs]|d[eé]c|dic|dez|des)[^\\W\\d_]*[.]?"
)
"""The regular expression of the name of a month in a European language, in lower case, by its first three letters."""
_WEEKDAY = "(?:[^\\W\\d_]{2,10}[.]?,? )?"
_YEAR = "(?:[12][0-9]{3}|[0-9]{2})"
_DATE = (
    "(?:[12][0-9]{3}([-/. ])[0-9]{1,2}\\1[0-9]{1,2}"
    f"|[0-3]?[0-9]([-/.] ?)[0-3]?[0-9]\\2{_YEAR}"
    f"|{_WEEKDAY}[0-3]?[0-9](?:st|nd|rd|th|[.º])?[- ]?(?:of |de )?{_MONTH}[-,]? ?(?:de |del )?{_YEAR}"
    f"|{_WEEKDAY}{_MONTH}[- ]?[0-3]?[0-9](?:st|nd|rd|th)?,?[- ]{_YEAR}"
    f"|{_MONTH}[- ][12][0-9]{{3}}|[12][0-9]{{3}}[- ]{_MONTH}(?:[- ][0-3]?[0-9])?)"
)
_HOURS = "[0-2]?[0-9](?:[:.h][0-5][0-9](?:[:.][0-5][0-9](?:[.,][0-9]+)?)?)(?: ?[ap][.]?m[.]?)?"
_ZONE = "(?: ?(?:z|(?:[a-z]{3,5})?(?:[-+][0-9]{1,2}(?::?[0-9]{2})?)?|[a-z_]+(?:/[a-z_]+)+)(?: ?[\\[(][^])]*[\\])])?)?"
_MOMENT = re.compile(f"{_DATE}(?:(?:t|,? (?:at )?){_HOURS}{_ZONE})?", re.IGNORECASE)
"""The shape of a date in any usual form, with or without a time of day and a time zone."""
_TIME_OF_DAY = re.compile(_HOURS, re.IGNORECASE)
"""The shape of a time of day."""

_UNIT = (
    "(?:[$€£¥₹₽₺₪₩₫฿%‰kKM]|R[$]|(?:US|CA|A)[$]|(?:EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|HUF|RON|BGN|TRY|CAD|AUD"
    "|NZD|BRL|MXN|ZAR|kr|Kr|z\u0142|K\u010d|Ft|lei|Rs|Fr|mio|Mio|mrd|Mrd|bn|Tsd|tsd)[.]?)"
)
"""The regular expression of a currency, a percent sign or a word for thousands or millions beside a number."""
_SCALES = {
    **dict.fromkeys(("k", "K", "Tsd", "Tsd.", "tsd", "tsd."), 1_000),
    **dict.fromkeys(("M", "mio", "mio.", "Mio", "Mio."), 1_000_000),
    **dict.fromkeys(("bn", "mrd", "mrd.", "Mrd", "Mrd."), 1_000_000_000),
}
"""By what a number is multiplied, by the word after it."""
_NUMBER = re.compile(
    f"(?:=.)?[-+\u2010-\u2013\u2212(]? ?{_UNIT}? ?[-+\u2212]?"
    "(?:[0-9]{1,3}(?:[.,' \u00a0\u2019\u202f_][0-9]{2,3})+|[0-9]+)?(?:[.,]?[0-9]+|[0-9][.,]|(?<=[0-9]))"
    f'(?:[eE][-+]?[0-9]+)? ?{_UNIT}? ?[-)"]?'
)
"""The shape of a number in any usual form, with or without a currency or another sign beside it."""


_COMPACT_DIGITS = 8
"""The number of digits of a date such as 20240131."""
_ENOUGH_DAYS = 5
"""The fewest different numbers that are taken for dates such as 20240131."""


def ordered_columns(names: Sequence[str], question: str) -> list[str]:
    """Return those of the column `names` that the query `question` compares with a text by order: <, > or BETWEEN.

    A column that is compared with a number is not returned, because a query that compares a text column with a number
    is refused.
    """
    return [name for name in names if ordered_constants(name, question)]


def ordered_constants(name: str, question: str) -> list[str]:
    """Return the texts with which the query `question` compares the column `name` by order: <, > or BETWEEN.

    >>> ordered_constants("at", "at BETWEEN '2024-01-01' AND '2024-06-30' AND '2023' < t.at AND day > '9'")
    ['2024-01-01', '2024-06-30', '2023']
    """
    found = [
        text for pattern in _comparisons(name) for match in pattern.finditer(question) for text in match.group("a", "b")
    ]
    return [text.replace("''", "'") for text in found if text is not None]


def _comparisons(name: str) -> list[re.Pattern[str]]:
    """Return regular expressions of comparisons by order of the column `name` with one text (a), or with two (a, b).

    Beside these groups, each has the groups `before` and `after` for the text around a, and `between` for the text
    between a and b.
    """
    column = f'(?<!\\w)"?{re.escape(name)}"?'
    text, other = (_TEXT.replace("(", f"(?P<{group}>", 1) for group in "ab")
    patterns = (
        f"(?P<before>{column}[\\s)]*[<>]=?\\s*{_TYPE}){text}(?P<between>)(?P<b>(?!))?(?P<after>)",
        f"(?P<before>{column}[\\s)]*(?:NOT\\s+)?BETWEEN\\s*{_TYPE}){text}(?P<between>\\s*AND\\s*{_TYPE}){other}(?P<after>)",
        f"(?P<before>){text}(?P<between>)(?P<b>(?!))?(?P<after>\\s*[<>]=?\\s*(?:\\w+[.])?{column}(?!\\w))",
    )
    return [re.compile(pattern, re.IGNORECASE) for pattern in patterns]


def kind_of_texts(cells: Sequence[str], constants: Collection[str]) -> Kind | None:
    """Return the kind of which most of the sampled `cells` of a text column seem to be, by their shape.

    The kind is timestamp for dates, with or without a time of day, and for times of day. It is float for numbers, but
    date for numbers such as 20240131, and timestamp for other numbers that are compared with a date. The result is None
    if less than 90% of the cells are dates or numbers. `constants` are the texts with which the cells are compared.
    """
    filled = _filled(cells)

    def most(pattern: re.Pattern[str]) -> bool:
        return bool(filled) and sum(map(bool, map(pattern.fullmatch, filled))) >= ENOUGH * len(filled)

    is_dated = any(_MOMENT.fullmatch(constant.strip(BLANKS)) for constant in constants)
    if most(_MOMENT) or most(_TIME_OF_DAY):
        return Kind.TIMESTAMP
    if not most(_NUMBER):
        return None
    if are_compact_days(filled) and (is_dated or any(map(_is_compact_day, constants))):
        return Kind.DATE
    return Kind.TIMESTAMP if is_dated else Kind.FLOAT


def are_compact_days(cells: Sequence[str]) -> bool:
    """Return whether at least 90% of the sampled `cells`, and at least five, are dates such as 20240131.

    Only years from 1900 to 2099 count. Fewer than 0.1% of all whole numbers of eight digits are such dates, so that
    other numbers, such as order numbers, are hardly ever taken for dates.
    """
    filled = _filled(cells)
    return len({*filled}) >= _ENOUGH_DAYS and sum(map(_is_compact_day, filled)) >= ENOUGH * len(filled)


def _is_compact_day(text: str) -> bool:
    """Return whether `text` is a date such as 20240131, of the years 1900 to 2099."""
    parts = re.fullmatch(DAY_PARTS, text.strip(BLANKS))
    if parts is None or re.fullmatch("(19|20)[0-9]{6}", text.strip(BLANKS)) is None:
        return False
    try:
        date(*map(int, parts.groups()))
    except ValueError:
        return False
    return True


def are_in_order(cells: Sequence[str], constants: Collection[str]) -> bool:
    """Return whether cells and constants have the same order as texts as they have as dates, times or numbers.

    Then a comparison as text gives the right result. True if all `cells` and `constants` are written in the same one of
    these ways:
    - whole numbers with equally many digits;
    - dates that begin with the year, and have two digits for month and day, as 2024-01-31; a time may follow;
    - times of day with two digits for each part.

    Some may also be only the beginning of such a date or time, as 2024-06.
    """
    shapes = {re.sub("[0-9]", "9", text)[:16] for text in _filled(cells)}
    wanted = {re.sub("[0-9]", "9", text)[:16] for text in constants}
    longest = max({*shapes, *wanted}, key=len, default="")
    if set(longest) == {"9"}:
        shorter = {"9999", "999999"} if len(longest) == _COMPACT_DIGITS else set()
        return shapes == {longest} and wanted <= {longest, *shorter}
    sortable = re.fullmatch("9999(?:([-/.])99(?:\\1(?:99(?:[T ]99:99)?)?)?)?|99(?::99(?::99(?:[.,]9*)?)?)?", longest)
    return sortable is not None and all(longest.startswith(shape) for shape in {*shapes, *wanted})


def _filled(cells: Sequence[str]) -> list[str]:
    """Return those of `cells` that are not empty, without blanks around them; words such as NULL count as empty."""
    return [text for cell in cells if (text := cell.strip(BLANKS)) and text not in NULL_WORDS]


def with_plain_constants(statement: str, name: str, kind: Kind, grammar: CellGrammar) -> str:
    """Return `statement` with plain numbers and ISO dates as the constants with which the column `name` is compared.

    This is needed if the text column `name` is to be read as `kind`, numbers or dates: its constants are then written
    in the way in which the cells are. Only comparisons by order (<, > or BETWEEN) are changed, and only constants that
    are numbers or dates. `statement` is SQL or a condition, and `grammar` says how numbers and dates are written.

    >>> grammar = CellGrammar(date_format="%m/%d/%Y")
    >>> with_plain_constants("at < '6/1/2024'", "at", Kind.DATE, grammar)
    "at < '2024-06-01'"
    >>> with_plain_constants("price < '$1,000'", "price", Kind.FLOAT, grammar)
    'price < 1000'
    """

    def changed(match: re.Match[str]) -> str:
        first = plain_constant(match["a"], kind, grammar)
        second = "" if match["b"] is None else plain_constant(match["b"], kind, grammar)
        return f"{match['before']}{first}{match['between']}{second}{match['after']}"

    for pattern in _comparisons(name):
        statement = pattern.sub(changed, statement)
    return statement


def with_times_read(statement: str, name: str, function: str) -> str:
    """Return the SQL `statement` with `function`(name) in place of the column `name` where it needs dates or times.

    These places are comparisons by order with a text, and arguments of functions of time such as DATE_TRUNC. The
    numbers of the column are times since 1970, which `function`, such as TO_TIMESTAMP, reads.

    >>> with_times_read("SELECT DATE_TRUNC('week', at) AS at FROM t WHERE t.at < '2024-06-01'", "at", "TO_TIMESTAMP")
    "SELECT DATE_TRUNC('week', TO_TIMESTAMP(at)) AS at FROM t WHERE TO_TIMESTAMP(t.at) < '2024-06-01'"
    >>> with_times_read("'2024' < t.at AND TO_TIMESTAMP(at) < '2025'", "at", "TO_TIMESTAMP")
    "'2024' < TO_TIMESTAMP(t.at) AND TO_TIMESTAMP(at) < '2025'"
    """
    column = re.compile(f'(?<!\\w)"?{re.escape(name)}"?(?!\\w)', re.IGNORECASE)
    argument = re.compile(f'{_OF_TIME}(?P<column>(?:\\w+[.])?"?{re.escape(name)}"?)(?!\\w)', re.IGNORECASE)
    for pattern in _comparisons(name):
        statement = pattern.sub(
            lambda match: column.sub(lambda found: f"{function}({found[0]})", match[0], 1), statement
        )
    statement = argument.sub(lambda match: f"{match['before']}{function}({match['column']})", statement)
    statement = re.sub(f"(\\w+[.]){function}[(]", f"{function}(\\1", statement)  # t.at was found without its table
    return re.sub(f"{function}[(]((?:\\w+[.])?){function}[(]([^()]*)[)][)]", f"{function}(\\1\\2)", statement)


def with_times_as_numbers(condition: str, name: str, per_second: int) -> str:
    """Return `condition` with numbers since 1970 in place of the dates with which the column `name` is compared.

    A condition of an option such as --where has no functions. `per_second` says how many units of the column make a
    second. A date is taken for its first moment in UTC, and a text that is no date stays as it is.

    >>> with_times_as_numbers("at >= DATE '2024-06-01'", "at", 1000)
    'at >= 1717200000000'
    """

    def number(text: str) -> str:
        written = plain_constant(text, Kind.TIMESTAMP, CellGrammar()).strip("'")
        try:
            moment = datetime.fromisoformat(written)
        except ValueError:
            return f"'{text}'"
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return str(int(moment.timestamp() * per_second))

    def changed(match: re.Match[str]) -> str:
        before, between = (
            re.sub(f"{_TYPE}$", "", match[group], flags=re.IGNORECASE) for group in ("before", "between")
        )
        second = "" if match["b"] is None else number(match["b"])
        return f"{before}{number(match['a'])}{between}{second}{match['after']}"

    for pattern in _comparisons(name):
        condition = pattern.sub(changed, condition)
    return condition


def plain_constant(text: str, kind: Kind, grammar: CellGrammar) -> str:
    """Return the SQL constant for `text`, for comparison with a column that is read as `kind`.

    For example 6/1/2024 -> '2024-06-01'. `grammar` says how dates and numbers are written. If `text` is no date or
    number, as `kind` demands, the result is `text` in quotes.
    """
    written = text.strip(BLANKS)
    if kind in (Kind.DATE, Kind.TIMESTAMP):
        moment = iso_moment(written, grammar.date_format) or iso_moment(day_of(written), grammar.date_format)
        return f"'{text if moment is None else moment}'"
    number = re.sub(f"^(-?) ?{_UNIT} ?|^=.| ?{_UNIT}$", r"\1", re.sub(r"^\((.*)\)$", r"-\1", written)).strip(BLANKS)
    scale = next((scale for word, scale in _SCALES.items() if written.removesuffix(word) != written), 1)
    for numbers in ((grammar.decimal, grammar.thousands), *NUMBERS):
        written_so = with_numbers(replace(grammar, date_format=None), *numbers)
        if is_readable(number, Kind.FLOAT, written_so):
            for mark in written_so.thousands_marks:
                number = number.replace(mark, "")
            number = number.replace(written_so.decimal, ".").lstrip("+")
            return number if scale == 1 else f"{(Decimal(number) * scale).normalize():f}"
    return f"'{text}'"


def day_of(text: str) -> str:
    """Return the date in `text`, which may have the name of a weekday before it, and a time of day and a zone after it.

    A text that is no date is returned as it is.

    >>> day_of("Mon, 06/01/2024 02:10 PM EST")
    '06/01/2024'
    """
    match = re.fullmatch(f"{_WEEKDAY}(?P<day>.*?)(?:(?:t|,? (?:at )?){_HOURS}{_ZONE})", text, re.IGNORECASE)
    return text if match is None or _MOMENT.fullmatch(match["day"]) is None else match["day"]
