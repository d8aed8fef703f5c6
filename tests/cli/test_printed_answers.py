"""Answers on the terminal: numbers in one piece, keys without separators, marks of noise, and the allowed epsilon."""

import io

import pytest
from rich.console import Console

from setwise.accounting.brackets import Bracket, Interaction
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.sql.result import Output, SqlAnswer
from setwise.analytics.statistics import StandardDeviation, Variance
from setwise.cli.output import _cost_in_words, print_lines, print_table, sql_table
from setwise.mechanisms.release import Estimate

COUNTRIES = ("DK", "NO", "SE", "FI")


def released():
    return PrivateAnswer(
        kind="query", measure="users", items=(), mechanism="gaussian", interaction=Interaction.SETWISE,
        epsilon=Bracket(1.0, 1.0), delta=0.0, method="", statement="", spent=(), complete=True, reason="", why="",
        confidence=0.95,
    )  # fmt: skip


def printed(result):
    console = Console(file=io.StringIO(), width=80)
    console.print(sql_table(result, console.width))
    return console.file.getvalue()


def test_numbers_of_three_statistics_are_not_broken_at_80_columns():
    names = ("average", "users", "revenue")
    row = {name: {"value": 338060 + place, "interval": [333405, 342715]} for place, name in enumerate(names)}
    outputs = (Output(name="country", is_key=True), *(Output(name=name, interval=True) for name in names))
    text = printed(
        SqlAnswer(answer=released(), outputs=outputs, computed=tuple({"country": key, **row} for key in COUNTRIES))
    )
    words = text.split()
    for place in range(len(names)):
        assert words.count(f"{338060 + place:,}") == len(COUNTRIES)
    assert words.count("333,405") == words.count("342,715") == len(names) * len(COUNTRIES)


def test_keys_of_computed_rows_have_no_separators():
    outputs = (Output(name="year", is_key=True), Output(name="n", interval=True))
    rows = ({"year": 2025, "n": {"value": 1026, "interval": [1000, 1050]}},)
    words = printed(SqlAnswer(answer=released(), outputs=outputs, computed=rows)).split()
    assert "2025" in words
    assert "1,026" in words


def test_four_statistics_at_80_columns_stand_in_tables_below_each_other():
    """Cells were broken within words and numbers: "(unrelia" above "ble)", and "6,713" below "to"."""
    names = ("n", "mean_age", "total", "sd")
    cells = {name: {"value": 6164.0, "interval": [5615.0, 6713.0]} for name in names}
    for name in ("mean_age", "sd"):
        cells[name]["unreliable"] = True
    outputs = (Output(name="occupation", is_key=True), *(Output(name=name, interval=True) for name in names))
    keys = ("student", "administrator")
    text = printed(
        SqlAnswer(answer=released(), outputs=outputs, computed=tuple({"occupation": key, **cells} for key in keys))
    )
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if line.strip()] == ["occupation", *keys] * 2
    assert text.count("6,164 (unreliable)  5,615 to 6,713") == text.count("6,164  5,615 to 6,713") == 2 * len(keys)


def test_keys_have_no_separators_in_notebooks():
    outputs = (Output(name="year", is_key=True), Output(name="n", interval=True))
    rows = ({"year": 2025, "n": {"value": 1026, "interval": [1000, 1050]}},)
    html = SqlAnswer(answer=released(), outputs=outputs, computed=rows)._repr_html_()
    assert ">2025<" in html
    assert ">1,026<" in html


@pytest.mark.parametrize("statistic", [Variance, StandardDeviation])
def test_a_spread_whose_interval_is_twice_its_value_is_unreliable(statistic):
    spread = statistic(column="delay", low=-32, high=512, per_user=1)
    release = spread.release((spread,))

    def is_unreliable(value, interval):
        return spread.is_unreliable(Estimate(value=value, interval=interval), release, None)

    assert is_unreliable(0.0, (0.0, 101.0))
    assert is_unreliable(50.0, (0.0, 100.0))
    assert not is_unreliable(40.0, (30.0, 50.0))
    assert not is_unreliable(40.0, None)


def test_the_cost_says_how_much_was_allowed_if_less_was_spent():
    assert _cost_in_words(released(), None, 50.0) == "Epsilon 1 of the 50 allowed."
    assert _cost_in_words(released(), None, 1.0) == _cost_in_words(released(), None) == "Epsilon 1."


def test_labels_cannot_command_the_terminal(capsys):
    """A label is data, so that whoever writes rows could otherwise change titles, colours and other lines."""
    hostile = "\x1b]0;title\x07\x1b[31mred\r\u202etxt"
    outputs = (Output(name="country", is_key=True), Output(name="users", interval=True))
    row = {"country": hostile, "users": {"value": 3, "interval": [1, 5]}}
    print_table("Series", [(hostile, "3 (1 to 5)")])
    print_lines("Accounts", ["name"], [(hostile,)], numbers=())
    shown = printed(SqlAnswer(answer=released(), outputs=outputs, computed=(row,))) + capsys.readouterr().out
    assert shown.count("\ufffd]0;title\ufffd\ufffd[31mred\ufffd\ufffdtxt") == 3
    assert not set(shown) & set("\x1b\x07\r\u202e")
