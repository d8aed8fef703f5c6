"""An answer without rows says so, with the threshold, and has no sentences about numbers that do not appear."""

import pytest

import setwise

ABOUT_NUMBERS = ("interval", "clipped", "counted for each user", "left out", "bounds of")


@pytest.fixture
def session(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("user,film,rating\n" + "\n".join(f"u{n % 900},f{n % 1999},{n % 5}" for n in range(4000)) + "\n")
    with setwise.open(path, user="user", scan=False) as opened:
        yield opened


def ask_mean(session):
    return session.mean(value="rating", item="film", epsilon=0.1)


def ask_both(session):
    return session.sql("SELECT film, AVG(rating) AS m, COUNT(*) AS n FROM ratings GROUP BY film", epsilon=0.1)


def ask_sum(session):
    return session.sum(value="rating", item="film", contributions=2, low=-9, high=9, epsilon=0.1)


@pytest.mark.parametrize("ask", [ask_mean, ask_both, ask_sum])
def test_no_group_was_shown(session, ask):
    """It said "Each interval holds the number counted" and "rating is clipped to -8,388,608 .. 16,777,216"."""
    answer = ask(session)
    assert len(answer) == 0
    for text in (answer.summary, str(answer), answer._repr_html_()):
        assert "No group was shown." in text
        assert "Groups with fewer than about" in text
        assert not [words for words in ABOUT_NUMBERS if words in text.lower()]
    fields = answer.to_dict()
    assert fields["interval_note"] == ""
    assert fields["hint"]


def test_a_condition_that_no_released_row_meets(session):
    asked = "SELECT rating > 2 AS high, COUNT(*) AS n FROM ratings GROUP BY high HAVING n > 1000000"
    answer = session.sql(asked, epsilon=2)
    assert len(answer) == 0
    assert len(answer.answer) > 0
    assert "The statement keeps none of the 2 released groups." in answer.summary
    assert "The statement keeps none" in str(answer)
    assert "interval" not in answer.summary
    page = answer._repr_html_()
    assert "The statement keeps none" in page
    assert "interval holds" not in page
