"""Notices of PostgreSQL's protocol say how far off numbers may be, which are unreliable, and what would show more."""

import re

import psycopg
import pytest

from setwise.service.postgres.notices import in_sql
from tests.service.test_postgres_door import url

WORDS = "SELECT word, COUNT(DISTINCT user_id) AS users, COUNT(*) AS n FROM events GROUP BY word"


def ask(door, statement: str, *settings: str, account: str = "ada-total"):
    """Return the columns, the rows and the notices of a statement."""
    notices: list[str] = []
    with psycopg.connect(url(door, account), autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        for setting in settings:
            connection.execute(setting)
        notices.clear()
        cursor = connection.execute(statement)
        return [column.name for column in cursor.description], cursor.fetchall(), notices


def beginning(notices: list[str], start: str) -> str:
    """Return the only notice that begins with `start`."""
    (found,) = [notice for notice in notices if notice.startswith(start)]
    return found


def test_a_notice_says_how_far_off_each_column_may_be(door):
    statement = "SELECT country, COUNT(DISTINCT user_id) AS users, AVG(minutes) AS mean FROM visits GROUP BY country"
    columns, rows, notices = ask(door, statement, account="ada-visits")
    assert columns == ["country", "users", "mean"], "the columns of the result do not change"
    told = beginning(notices, "How far off numbers may be (95% intervals): ")
    _, with_ends, _ = ask(door, statement, "SET setwise.intervals = on", account="ada-visits")
    assert [row[:2] for row in with_ends] == [row[:2] for row in rows]
    widest = max(max(users - low, high - users) for _, users, low, high, *_ in with_ends)
    spread = re.search(r"users within ±(?:[\d,]+ to ±)?([\d,]+);", told)
    assert spread is not None, told
    assert int(spread[1].replace(",", "")) == pytest.approx(widest, abs=1)
    assert "mean within ±" in told
    assert "SET setwise.intervals = on" in told


def test_unreliable_numbers_are_counted_and_their_rows_named(door):
    team, _ = door
    budget = ("SET setwise.epsilon = 1.5", "SET setwise.delta = 1e-7", "SET setwise.key = 'unreliable'")
    _, rows, notices = ask(door, "SELECT word, SUM(minutes) AS total FROM events GROUP BY word", *budget)
    query = next(each for each in team.ada.get("/queries").json() if each["key"] == "unreliable")
    marked = [row["word"] for row in query["rows"] if row["total"].get("unreliable")]
    told = [notice for notice in notices if notice.startswith("Unreliable: ")]
    if not marked:
        pytest.skip("noise was small")
    named = "; ".join(marked[:3]) + ("; .." if len(marked) > 3 else "")
    assert told[0].startswith(f"Unreliable: total in {len(marked)} of {len(rows)} rows ({named}). "), told
    assert "noise can be as large" in told[0] or "bounds" in told[0]


def test_a_hint_is_shown_in_words_of_sql(door):
    _, rows, notices = ask(door, WORDS, "SET setwise.epsilon = 0.2")
    assert rows
    told = beginning(notices, "Hint: ")
    assert "--" not in told
    assert "steward can declare it" in told
    assert not re.search(r"\b(epsilon|contributions|per_item) = (?![^()]*\))", told), told


def test_an_answer_without_rows_says_why_and_what_would_show_some(door):
    statement = "SELECT word, COUNT(DISTINCT user_id) AS users FROM events WHERE country = 'absent' GROUP BY word"
    columns, rows, notices = ask(door, statement, "SET setwise.epsilon = 0.1")
    assert columns == ["word", "users"]
    assert rows == []
    told = beginning(notices, "No row: ")
    assert "OPTIONS (epsilon = " in told
    assert "--" not in told


def test_explain_has_a_row_for_each_sentence(door):
    statement = "SELECT word, COUNT(DISTINCT user_id) AS users, AVG(minutes) AS mean FROM events GROUP BY word"
    columns, rows, _ = ask(door, f"EXPLAIN {statement}", "SET setwise.epsilon = 0.2")
    assert columns == ["QUERY PLAN"]
    lines = [line for (line,) in rows]
    assert lines[0].startswith("cost: epsilon 0.2 ")
    assert any(line.startswith("accuracy: ") for line in lines)
    assert any(line.startswith("Budget: ") for line in lines)
    assert len(lines) > 4
    assert max(map(len, lines)) < 300


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (
            "groups are shown with epsilon = 2, contributions = 3 and per_item = 4, in SQL "
            "COUNT(*, contribution_bounds_per_group => (0, 4)); contributions = auto finds more",
            "groups are shown with OPTIONS (epsilon = 2, max_groups_contributed = 3) and "
            "COUNT(*, contribution_bounds_per_group => (0, 4)); OPTIONS (max_groups_contributed = AUTO) finds more",
        ),
        (
            "State --low and --high, or in SQL contribution_bounds_per_row => (low, high).",
            "State contribution_bounds_per_row => (low, high).",
        ),
        ("State low and high, or in SQL x => (low, high).", "State x => (low, high)."),
        ("shown if it is at least 7 with epsilon = 0.5.", "shown if it is at least 7 with OPTIONS (epsilon = 0.5)."),
    ],
)
def test_parameters_become_what_a_statement_can_say(sentence, expected):
    assert in_sql(sentence) == expected
