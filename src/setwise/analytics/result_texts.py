"""Sentences about the result of a SQL statement, which is computed from released answers, and their words in SQL.

The sentences about one answer are in `present/text.py`.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from setwise.analytics.answer import PrivateAnswer
from setwise.mechanisms.release import EXACT_NUMBER, NUMBER_COUNTED

_CONFIDENCE_SENTENCES = re.compile(r"(?:(?:On average|Each|The) [^.]*\d%[^.]*\. ?)+")
"""Pattern of the sentences at the beginning of an interval note that say how often intervals hold."""

_LARGER_NUMBERS = re.compile(
    r"(?P<before>^|[.;] )the table's own (?:number|count)s? (?:is|are|can be) larger[^.:]*?(?:because |: )(?P<first>at)"
    r"|, so the table's own (?:number|count)s? can be larger",
    re.IGNORECASE,
)
"""Pattern of the warning that the table's own numbers are, or can be, larger than those of an answer."""


def describe_parts(answer: PrivateAnswer, groups: Sequence[Sequence[str]]) -> PrivateAnswer:
    """Return `answer` with texts that are joined from the texts of its parts, the answers of a statement's SELECTs.

    `groups` has the group columns of each SELECT, by which its text is told from the others: "By carrier: ... By hour:
    ...". If all SELECTs have the same text, it is stated once. An answer without parts is returned unchanged.
    """
    if not answer.parts:
        return answer
    names = _part_names(groups)

    def join_texts(texts: Sequence[str], separator: str) -> str:
        if len(set(texts)) == 1:
            return texts[0]
        return separator.join(f"{name}: {text}" for name, text in zip(names, texts, strict=False) if text)

    return replace(
        answer,
        measure=join_texts([part.measure for part in answer.parts], "; "),
        left_out=join_texts([part.left_out for part in answer.parts], " "),
        interval_note=join_texts([part.interval_note for part in answer.parts], " "),
        brief=join_texts([part.number_sentences() for part in answer.parts], " "),
        hidden="",
    )


def with_written_arguments(answer: PrivateAnswer, arguments: Sequence[tuple[str, str]]) -> PrivateAnswer:
    """Return `answer` with texts that name an expression as the SQL statement writes it, such as price * 2.

    For SUM(price * 2), a column is computed under a made-up name. A text that suggests to ask SUM(made-up name) would
    be of no use, because the analyst's table has no such column. `arguments` has pairs (made-up column name, SQL text
    that replaces it).
    """

    def written(text: str) -> str:
        for name, expression in arguments:
            text = text.replace(f"ask SUM({name}) / COUNT({name})", f"ask SUM({expression}) / COUNT({expression})")
            text = text.replace(f"GROUP BY FLOOR({name} / 10)", f"GROUP BY FLOOR(({expression}) / 10)")
        return text

    return replace(answer, left_out=written(answer.left_out), brief=written(answer.brief))


def without_intervals(answer: PrivateAnswer) -> PrivateAnswer:
    """Return `answer` without the sentences on how often intervals hold, for a result in which no number has one."""
    parts = tuple(without_intervals(part) for part in answer.parts)
    note = _CONFIDENCE_SENTENCES.sub("", answer.interval_note, count=1).strip()
    return replace(answer, interval_note=note, parts=parts)


def _part_names(groups: Sequence[Sequence[str]]) -> list[str]:
    """Return a name for each SELECT, made of its group columns `groups`; names that would be equal are numbered.

    >>> _part_names([["city", "age"], []]), _part_names([["city"], ["city"]])
    (['By city and age', 'In all'], ['SELECT 1 (by city)', 'SELECT 2 (by city)'])
    """
    names = [f"By {' and '.join(columns)}" if columns else "In all" for columns in groups]
    if len(set(names)) == len(names):
        return names
    return [f"SELECT {place} ({name[:1].lower()}{name[1:]})" for place, name in enumerate(names, start=1)]


def with_chosen_rows(answer: PrivateAnswer, *, are_wider: bool) -> PrivateAnswer:
    """Return `answer` with texts for a result that shows only rows chosen by their noisy numbers, as LIMIT does.

    Rows with high noise are chosen more often, so an interval of a chosen row contains the exact number less often than
    an interval of any row. A sentence that says this replaces the sentences that state how often intervals hold.
    `are_wider` is True if the intervals of the rows have been widened, so that they hold as often as is stated.
    The field `measure`, which files in CSV show beside each number, says as well how rows were chosen.
    """
    parts = tuple(with_chosen_rows(part, are_wider=are_wider) for part in answer.parts)
    chosen = "rows chosen by their noisy numbers"
    measure = f"{answer.measure}; {chosen}" + ("" if are_wider else ", whose intervals hold less often")
    answer = replace(answer, measure=measure)
    if not _CONFIDENCE_SENTENCES.match(answer.interval_note):
        return replace(answer, parts=parts)
    number = NUMBER_COUNTED if NUMBER_COUNTED in answer.interval_note else EXACT_NUMBER
    sure = f"{answer.confidence:.0%}"
    effect = (
        f"so intervals are wider: on average {sure} of them hold {number}"
        if are_wider
        else f"so fewer than {sure} of their intervals may hold {number}"
    )
    sentence = (
        "The statement chose these rows by their noisy numbers, so a row may be here, or missing, by noise alone; that "
        f"favours high noise, {effect}. "
    )
    note = _CONFIDENCE_SENTENCES.sub(sentence, answer.interval_note, count=1).strip()
    return replace(answer, interval_note=note, parts=parts)


def without_larger_numbers(answer: PrivateAnswer) -> PrivateAnswer:
    """Return `answer` without the warning that the table's own numbers can be larger, for a result without counts.

    The bounds on users can only lower a count, but they can change the ratio of two counts to either side.
    """
    parts = tuple(without_larger_numbers(part) for part in answer.parts)

    def bounds_alone(warning: re.Match[str]) -> str:
        first, before = warning["first"], warning["before"]
        return "" if first is None else f"{before}{first if before.startswith(';') else first.capitalize()}"

    return replace(answer, brief=_LARGER_NUMBERS.sub(bounds_alone, answer.brief), parts=parts)


_VALUE = r"[\w.+-]*\w"
_PARAMETERS = (
    rf"(?P<parameters>low and high|low = {_VALUE} and high = {_VALUE}|(?:per_user|per_item|contributions) = {_VALUE})"
)
_ROUND = r"\((?:[^()]|\([^()]*\))*\)"
_CALL = rf"\w+{_ROUND}"
_CALLS = rf"(?P<calls>{_CALL}(?:, {_CALL})*|\w+ => (?:{_ROUND}|{_VALUE})|max_groups_contributed = {_VALUE})"
_BOTH = re.compile(rf"{_PARAMETERS}, or in SQL {_CALLS}")
"""Parameters, and what says the same in SQL: calls of functions, one argument of a call, or an option of OPTIONS."""


def in_sql_words(text: str) -> str:
    """Return `text` about a SQL question, with the SQL alone wherever it names a parameter "or in SQL" a call.

    >>> in_sql_words("State low and high, or in SQL contribution_bounds_per_row => (low, high).")
    'State contribution_bounds_per_row => (low, high).'
    """
    return _BOTH.sub(r"\g<calls>", text)


def without_sql_words(text: str) -> str:
    """Return `text` about a question that was not SQL, without the SQL that would say the same as its parameters.

    >>> without_sql_words("as in per_user = 5, or in SQL COUNT(*, contribution_bounds_per_group => (0, 5))")
    'as in per_user = 5'
    """
    return _BOTH.sub(r"\g<parameters>", text)
