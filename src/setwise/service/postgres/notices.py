"""Writes the sentences that a PostgreSQL client shows beside an answer (NOTICE messages).

A result over this protocol has plain numbers only, because BI tools expect the columns of the SELECT. So notices say
what the columns cannot: the privacy guarantee, how far off numbers may be, which numbers are unreliable, how more rows
would be shown, and what is left in the account.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from setwise.accounting.promises import promise_in_words, rounded_down, rounded_up
from setwise.analytics.answer import version_in
from setwise.analytics.present.text import visible_text
from setwise.analytics.sql.suggestions.hint_clauses import with_options_clause
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.release import UNRELIABLE, mark_reasons

_NAMED_ROWS = 3
"""The most group keys that a notice names for a column with unreliable numbers."""

_LONGEST_KEY = 60
"""Characters after which a group key is cut in a notice, because a text column may have keys of any length."""

_DIGITS = 3
"""Significant digits of the half-width of an interval; half-widths are rounded up."""

_DECLARING = "a steward can declare it for the dataset (domains)"
"""How public groups are listed. A statement over this protocol cannot list them."""


def answer_notices(record: Mapping[str, Any], status: AccountStatus) -> tuple[str, ...]:
    """Return the notices of an answered question, each one or a few sentences, the privacy guarantee first.

    `record` is the question's JSON record as the API returns it, and `status` the status of its account.
    """
    answer, rows = record["answer"], record["rows"]
    row_notes: Sequence[str] = record.get("row_notes") or ()
    names = [column["name"] for column in record["columns"]]
    version = version_in(answer["measure"])
    reasons = in_sql(mark_reasons(answer.get("interval_note", "")))
    sentences = [
        answer.get("promise") or promise_in_words(answer["epsilon"]["upper"], answer["delta"]),
        in_sql(answer.get("left_out", "")),
        f"Version {version} of the table was read." if version else "",
        _describe_intervals(names, rows, answer["confidence"]),
        _describe_unreliable(record, "" if UNRELIABLE in row_notes else reasons),
        *map(in_sql, row_notes),
        in_sql(_explain_missing_rows(record)),
        budget_left(status),
    ]
    return tuple(sentence for sentence in sentences if sentence)


def budget_left(status: AccountStatus) -> str:
    """Return a sentence with the remaining and the overall epsilon of the account whose status is `status`.

    For example "Budget: about epsilon 2.6 of 3 is left in the account ada-month."
    """
    total = rounded_up(status.epsilon.upper, 3)
    remaining = rounded_down(status.share_left * status.epsilon.upper, 2)
    return f"Budget: about epsilon {remaining} of {total} is left in the account {status.name}."


def in_sql(sentence: str) -> str:
    """Return `sentence` with parameters of Python replaced by what a statement over this protocol can say."""
    return with_options_clause(sentence, _DECLARING)


def sentences_of(text: str) -> list[str]:
    """Return the sentences of `text`, and the parts of a sentence between semicolons; brackets stay whole.

    EXPLAIN shows each in a row, because psql shows a row of several sentences as one line of hundreds of characters.

    >>> sentences_of("counts within 35 (95%; of users); bounds are found. It fits.")
    ['counts within 35 (95%; of users)', 'bounds are found', 'It fits.']
    """
    sentences, depth, begin = [], 0, 0
    for place, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if depth <= 0 and text[place : place + 2] in ("; ", ". "):
            sentences.append(text[begin:place])
            begin = place + 2
    return [sentence for sentence in (*sentences, text[begin:]) if sentence]


def _describe_intervals(names: Sequence[str], rows: Sequence[Mapping[str, Any]], confidence: float) -> str:
    """Return a sentence with the half-widths of the intervals in each column; "" if no number has an interval.

    For example "How far off numbers may be (95% intervals): users within ±12 to ±35; planes within ±336." A half-width
    is the distance from the number to the farther end of its interval. `names` are the columns of `rows`, and
    `confidence` is the probability of the intervals.
    """
    described = []
    for name in names:
        half_widths = [half for row in rows if (half := _half_width(row.get(name))) is not None]
        if half_widths:
            widest, narrowest = (_rounded_up(end(half_widths)) for end in (max, min))
            spread = widest if widest == narrowest else f"{narrowest} to ±{widest}"
            described.append(f"{name} within ±{spread}")
    if not described:
        return ""
    return (
        f"How far off numbers may be ({confidence:.0%} intervals): {'; '.join(described)}. "
        "SET setwise.intervals = on adds the intervals as columns."
    )


def _half_width(cell: object) -> float | None:
    """Return the distance from the number in `cell` to the farther end of its interval; None without an interval."""
    if not isinstance(cell, dict) or cell.get("value") is None or cell.get("interval") is None:
        return None
    lower, upper = cell["interval"]
    return float(max(cell["value"] - lower, upper - cell["value"], 0))


def _rounded_up(half_width: float) -> str:
    """Return `half_width` as text with three significant digits, rounded up; a whole number below 1,000,000 in full."""
    if half_width.is_integer() and half_width < 1_000_000:
        return f"{half_width:,.0f}"
    text = rounded_up(half_width, _DIGITS)
    return f"{float(text):,.0f}" if 1000 <= half_width < 1e15 else text


def _describe_unreliable(record: Mapping[str, Any], reasons: str) -> str:
    """Return sentences which say what numbers are unreliable: in which columns, and in how many and which rows.

    For example "Unreliable: planes in 3 of 40 rows (AA; UA; DL)." The first three rows are named by their group keys.
    The result is "" if no number is unreliable. `record` is the question's JSON record, and `reasons` are sentences
    that say why numbers are unreliable.
    """
    rows = record["rows"]
    labels = [column["name"] for column in record["columns"] if column["group"] is not None or column.get("is_key")]
    described = []
    for name in (column["name"] for column in record["columns"]):
        marked = [row for row in rows if isinstance(row.get(name), dict) and row[name].get("unreliable")]
        if not marked:
            continue
        if not labels:
            described.append(name if len(rows) == 1 else f"{name} in {len(marked):,} of {len(rows):,} rows")
            continue
        keys = [", ".join(_key_text(row[label]) for label in labels) for row in marked[:_NAMED_ROWS]]
        more = "; .." if len(marked) > _NAMED_ROWS else ""
        described.append(f"{name} in {len(marked):,} of {len(rows):,} rows ({'; '.join(keys)}{more})")
    return f"Unreliable: {', '.join(described)}. {reasons}".rstrip() if described else ""


def _key_text(key: object) -> str:
    """Return a group key as text without control characters, cut after 60 characters; "NULL" for None."""
    text = "NULL" if key is None else visible_text(str(key["value"] if isinstance(key, dict) else key))
    return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}.."


def _explain_missing_rows(record: Mapping[str, Any]) -> str:
    """Return a sentence on why rows may be missing, and what would show them; "" if nothing is known to help.

    If the result has no row, the sentence says why. If rows could not be computed from the released numbers, it says so
    as well. `record` is the question's JSON record.
    """
    answer = record["answer"]
    problem = f"The rows could not be computed: {record['row_problem']}." if record.get("row_problem") else ""
    hints = dict.fromkeys(part["hint"] for part in (answer, *answer.get("parts", ())) if part.get("hint"))
    hint = "; ".join(hints)
    reason = "" if record["rows"] and (answer.get("hidden") or not hint) else answer.get("reason", "")
    told = ": ".join(filter(None, [reason, hint]))
    if not told:
        return problem
    return f"{problem} {'Hint' if record['rows'] else 'No row'}: {told.rstrip('.')}.".lstrip()
