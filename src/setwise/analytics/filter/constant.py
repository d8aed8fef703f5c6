"""The constant a column is compared with: what was written, read as the column's kind."""

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import assert_never

from setwise.analytics.filter.expression import Value
from setwise.analytics.filter.tokens import Token, TokenKind
from setwise.analytics.schema import Column, Kind
from setwise.errors import InvalidFilter

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?))?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")
LARGEST = 2**63


def constant(column: Column, token: Token) -> Value:
    """Return the constant as a value of the column's kind, or raise `InvalidFilter`.

    Checking here means that no engine has to convert a value of the table, which could fail on some tables and not on
    others. Dates and times may be written as plain text too.
    """
    value = _read(column, token)
    if value is None:
        raise InvalidFilter(
            f"column {column.name!r} holds {column.kind} values and must be compared with {_wanted(column)}, "
            f"not with {token.says!r} at character {token.place}{_csv_hint(column, token)}"
        )
    return value


def _csv_hint(column: Column, token: Token) -> str:
    if column.kind is not Kind.TEXT or token.kind is not TokenKind.NUMBER:
        return ""
    return f"; if it is of a CSV file, give its type, as in --type {column.name}=integer"


def _read(column: Column, token: Token) -> Value | None:
    said = token.says
    match column.kind, token.kind:
        case Kind.TEXT, TokenKind.TEXT:
            return said
        case Kind.INTEGER, TokenKind.NUMBER:
            whole = int(said) if _WHOLE.fullmatch(said) else None
            return whole if whole is not None and -LARGEST <= whole < LARGEST else None
        case Kind.FLOAT, TokenKind.NUMBER:
            number = float(said)
            return number if math.isfinite(number) else None
        case Kind.DECIMAL, TokenKind.NUMBER:
            return _decimal(column, said)
        case Kind.BOOLEAN, TokenKind.WORD:
            return {"true": True, "false": False}.get(said)
        case Kind.DATE, TokenKind.TEXT:
            return _date(said)
        case (Kind.TIMESTAMP, TokenKind.TEXT) | (Kind.INSTANT, TokenKind.TEXT):
            return _moment(column.kind, said)
        case _:
            return None


def _decimal(column: Column, said: str) -> Decimal | None:
    """Return the decimal if the column's type can hold it, so that both sides compare as that type."""
    try:
        value = Decimal(said)
    except InvalidOperation:
        return None
    if not value.is_finite() or abs(value.adjusted()) > 100:
        return None
    fraction = -min(0, int(value.normalize().as_tuple().exponent))
    if column.scale is not None and fraction > column.scale:
        return None
    if column.precision is not None and value and value.adjusted() + 1 + (column.scale or 0) > column.precision:
        return None
    return value


def _date(said: str) -> date | None:
    try:
        return date.fromisoformat(said) if _DATE.fullmatch(said) else None
    except ValueError:
        return None


def _moment(kind: Kind, said: str) -> datetime | None:
    """Return the moment; without a time zone a point in time is taken as UTC."""
    match = _MOMENT.fullmatch(said)
    if match is None or (match[3] and kind is Kind.TIMESTAMP):
        return None
    try:
        moment = datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00'}{match[3] or ''}")
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC) if kind is Kind.INSTANT else moment
    except (ValueError, OverflowError):
        return None


def _wanted(column: Column) -> str:
    match column.kind:
        case Kind.TEXT:
            return "text such as 'a'"
        case Kind.INTEGER:
            return "a whole number of at most 64 bits"
        case Kind.FLOAT:
            return "a finite number"
        case Kind.DECIMAL:
            if column.precision is None:
                return "a number"
            return f"a number of at most {column.precision} digits with {column.scale} of them after the point"
        case Kind.BOOLEAN:
            return "true or false"
        case Kind.DATE:
            return "a date such as '2024-12-31'"
        case Kind.TIMESTAMP:
            return "a time such as '2024-12-31 23:59:59', of no time zone"
        case Kind.INSTANT:
            return "a time such as '2024-12-31 23:59:59+00:00'"
        case Kind.IDENTIFIER | Kind.OTHER:
            return "nothing but null"
        case _:
            assert_never(column.kind)
