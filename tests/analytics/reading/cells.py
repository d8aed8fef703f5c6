"""Cells of text under a declared type: examples, generated ones, and what each is, in plain Python."""

import random
import re
from datetime import date, datetime, timedelta
from typing import TypeAlias

from setwise.analytics.schema import Kind

Value: TypeAlias = int | float | bool | date | datetime | None

EXAMPLES = {
    Kind.INTEGER: "7| 7 |+7|-7|2.0|2.|2.50|2.5|-0|-0.0|007|1e3|1,000|1_000|0x10||  |９|9223372036854775807|"
    "9223372036854775808|-9223372036854775808|-9223372036854775809|9223372036854775807.0|nan|inf|.0|0.|+|--1|1 2|true|"
    "99999999999999999999999|7\t|\u00a07|7\n|7\r|7\u2028|\u20287|7\u0085|7\0|1.0.0|1.-0",
    Kind.FLOAT: "1.5| 1.5 |1e3|1E-3|1e400|-1e400|1e-400|nan|NaN|inf|Infinity|1,5|1_0|.5|5.|.|1d|1f|0x1p3||"
    "1.5\u2028|+.5e+3",
    Kind.BOOLEAN: "true|TRUE|True|t|T|f|1|0|yes|no|Y|n|on|off| true |false||truE\n|2|1.0|wahr|true\u2028",
    Kind.DATE: "2024-02-29|2023-02-29| 2024-01-02 |2024/01/02|20240102|2024-1-2|02.01.2024|01/02/2024|2024-01/02|"
    "2024-01-02 00:00:00|2024-01-02T10:30:00|2024-01-02T10:30:00.123Z|2024-01-02 24:00:00|0000-01-01|0001-01-01|"
    "9999-12-31|10000-01-01|2024-13-01|infinity|epoch|today|2024-01-02Z|2024-01-02+02:00|2024-01-02 (BC)|2024-00-10|"
    "20240230|2024-01-02\u2028|2024-01-02T|2024-01-02T10|2024-11-2|"
    "2024/1/12 9:05|2024-1-2/3|2024-1/2|2024-123-1|2024112|2024-1-2-05:00|2024-1-32|2024-1-2 9|2024- 1-2|20240102-05",
    Kind.TIMESTAMP: "2024-01-02|20240102|2024/01/02 10:30|2024-01-02 10:30:00|2024-01-02T10:30:00|"
    "2024-01-02T10:30:00.123456|2024-01-02T10:30:00.1234567|2024-01-02T10:30:00.9999999|2024-01-02T10:30:00.1|"
    "2024-01-02T10:30:00.|2024-01-02T10:30:00Z|2024-01-02 10:30:00+02:00|2024-01-02 10:30:00 +0200|"
    "2024-01-02 10:30:00-05|2024-01-02 10:30:00 UTC|2024-01-02 10:30Z|2024-01-02Z|2024-01-02T24:00:00|"
    "2024-01-02 10:30:60|0001-01-01T00:00+01:00|9999-12-31T23:59:59-01:00|0000-12-31T23:00-02:00|infinity|1704190000|"
    "2024-02-30T10:30| 2024-01-02 10:30:00 |2024-01-02 10:30:00+24:00|2024-01-02 10:30:00+|2024-03-31T02:30:00|"
    "1582-10-10T00:00|1900-02-29|2024-01-02 10:30:00\u2028|"
    "2024-1-2|2024-1-2 9:30|2024/11/2T9:30:59.1234567|2024-1-12 9:30:00+02:00|2024-01-02 9:3|2024-01-02 009:30|"
    "2024-1-2-05:00|20240102 9:30|2024-01-02 19:30:59.123456Z",
}

_PARTS = {
    Kind.INTEGER: ["0", "9", "123", "-", "+", ".", "0", "e", " ", "9223372036854775807", "1"],
    Kind.FLOAT: ["0", "9", ".", "e", "-", "+", "1", "308", " "],
    Kind.BOOLEAN: ["t", "rue", "f", "alse", "1", "0", "y", "no", " ", "T"],
    Kind.DATE: ["2024", "0001", "9999", "-", "-", "/", "01", "12", "31", "02", "29", "T00:00", "Z", " "],
    Kind.TIMESTAMP: [
        "2024",
        "-",
        "-",
        "02",
        "29",
        "T",
        " ",
        "10:30",
        ":59",
        ".5",
        "Z",
        "+02:00",
        "-0330",
        "+14",
        "2024-02-03",
        "1",
        "9:30",
    ],
}


def examples(kind: Kind, seed: int, count: int) -> list[str]:
    """Return the examples of a kind and generated cells that resemble them."""
    rng = random.Random(seed)
    listed = EXAMPLES[kind].split("|")
    spliced = ["".join(rng.choice(_PARTS[kind]) for _ in range(rng.randint(1, 7))) for _ in range(count)]
    changed = []
    for _ in range(count):
        cell = rng.choice(listed)
        place = rng.randint(0, len(cell))
        changed.append(cell[:place] + rng.choice(["", rng.choice(_PARTS[kind])]) + cell[place + rng.randint(0, 1) :])
    return listed + spliced + changed


def value_of(cell: str, kind: Kind) -> Value:
    """Return what a cell is, or None."""
    text = cell.strip(" \t\r\n")
    match kind:
        case Kind.INTEGER:
            found = re.fullmatch(r"([+-]?[0-9]+)(\.0*)?", text)
            number = int(found[1]) if found else 2**64
            return number if -(2**63) <= number < 2**63 else None
        case Kind.FLOAT:
            return float(text) if re.fullmatch(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", text) else None
        case Kind.BOOLEAN:
            words = dict.fromkeys(["true", "t", "yes", "y", "1"], True)
            return (words | dict.fromkeys(["false", "f", "no", "n", "0"], False)).get(text.lower())
        case _:
            return _moment(text, kind)


def _moment(text: str, kind: Kind) -> date | datetime | None:
    found = re.fullmatch(
        r"(?P<y>[0-9]{4})(?P<s>[-/]?)(?P<m>[0-9]{1,2})(?P=s)(?P<d>[0-9]{1,2})"
        r"([ T](?P<H>[0-9]{1,2}):(?P<M>[0-9]{2})(:(?P<S>[0-9]{2})(\.(?P<f>[0-9]+))?)?)?"
        r"( ?(?P<z>Z|UTC|(?P<sign>[+-])(?P<zh>[0-9]{2})(:?(?P<zm>[0-5][0-9]))?))?",
        text,
    )
    if found is None or (not found["s"] and len(found["m"] + found["d"]) < 4):
        return None
    fraction = int(((found["f"] or "") + "000000")[:6])
    numbers = [int(found[name] or 0) for name in ("y", "m", "d", "H", "M", "S")]
    if int(found["zh"] or 0) > 23:
        return None
    offset = timedelta(hours=int(found["zh"] or 0), minutes=int(found["zm"] or 0))
    try:
        moment = datetime(*numbers, fraction)  # type: ignore[misc, arg-type]
        if kind is Kind.DATE:
            return moment.date()
        return moment + offset if found["sign"] == "-" else moment - offset
    except (ValueError, OverflowError):
        return None
