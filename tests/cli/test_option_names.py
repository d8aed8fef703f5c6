"""Sentences of the core name parameters; the command line shows its options, and `setwise sql` only those it has."""

import ast
import re
from pathlib import Path

import pytest

import setwise as package
from setwise.cli.advice.option_names import with_option_names
from setwise.cli.main import _Commands
from setwise.cli.output import affordable_hint
from setwise.errors import SetwiseError
from setwise.ledger.ledger import Ledger

CORE = Path(package.__file__).parent
ALLOWED = re.compile(r"setwise (check|ledger|serve|run)|--filter|^ --ledger $|^--low and --high$|^ --save|--type \\S")
"""Whole commands, which a caller pastes into a terminal, and patterns."""

ROWS = [("user", "page", "minutes", "at"), *((f"u{n % 300}", f"p{n % 3}", n % 50, "2026-01-05") for n in range(3000))]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in ROWS) + "\n")
    return path


def strings(path):
    """Return the strings of a module with their lines, without docstrings."""
    tree = ast.parse(path.read_text())
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value


def test_sentences_of_the_core_name_no_options():
    """Those about how a file is written name options of `setwise check`, and say themselves what Python has instead."""
    folders = ("mechanisms", "accounting", "ledger", "live", "analytics")
    modules = [path for folder in folders for path in (CORE / folder).rglob("*.py")]
    about_files = (CORE / "analytics/tables", CORE / "analytics/engines")
    found = [
        f"{path.name}:{line}: {text}"
        for path in modules
        if not any(folder in path.parents for folder in about_files)
        for line, text in strings(path)
        if re.search(r"(^|[^-\w])--[a-z]", text) and not ALLOWED.search(text)
    ]
    assert not found


def refuse(session, ask):
    with pytest.raises(SetwiseError) as refused:
        ask(session)
    return str(refused.value)


REFUSALS = [
    lambda session: session.mean(value="minutes", within=2),
    lambda session: session.count(item="page", where="minutes > 3 AND at = 5", epsilon=1),
    lambda session: session.histogram(item="minutes by 10", epsilon=1, delta=0),
    lambda session: session.sum(value="minutes", epsilon=1, high=3),
    lambda session: session.sql("SELECT nothing, COUNT(*) FROM visits GROUP BY nothing", epsilon=1),
]


@pytest.mark.parametrize("ask", REFUSALS)
def test_refusals_in_python_name_no_options(ask, table):
    with package.open(table, user="user", scan=False) as session:
        assert " --" not in refuse(session, ask).partition(" (in Python")[0]


def test_answers_in_python_name_no_options(table):
    with package.open(table, user="user", scan=False) as session:
        answers = [
            session.mean(value="minutes", item="page", epsilon=0.01),
            session.histogram(item="page", epsilon=0.01),
            session.variance(value="minutes", low=0, high=50, epsilon=1),
        ]
        for answer in answers:
            assert " --" not in " ".join(text for text in answer.to_dict().values() if isinstance(text, str))
        written = session.sql("SELECT page, AVG(minutes) AS m FROM visits GROUP BY page", epsilon=0.01)
        assert "low and high" not in written.summary
        assert " --" not in written.summary


def options_of(command):
    return {"--help", *(name for parameter in _Commands()[command].params for name in parameter.opts)}


ASKED = {
    "mean": ["--value", "minutes", "--within", "2"],
    "histogram": ["--item", "page", "--epsilon", "0.01", "--delta", "0"],
    "count": ["--item", "page", "--epsilon", "1", "--where", "at = 5"],
    "stddev": ["--value", "minutes", "--epsilon", "1"],
    "sum": ["--value", "minutes", "--epsilon", "1", "--high", "3"],
    "quantile": ["--value", "minutes", "--item", "page", "--epsilon", "0.01"],
}


@pytest.mark.parametrize("command", ASKED)
def test_options_in_refusals_and_notes_exist(command, setwise, table):
    done = setwise(command, table, "--user", "user", *ASKED[command])
    shown = f"{done.stdout} {done.stderr}"
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", shown)) <= options_of(command)
    assert "in SQL" not in shown


SENTENCES = [
    "State low and high, or in SQL contribution_bounds_per_group => (low, high).",
    "how many rows of one user count, as in per_user = 5, or in SQL COUNT(*, contribution_bounds_per_group => (0, 5))",
    "weigh rows alike, state that more rows of a user count: per_user = N, or in SQL max_rows_contributed => N",
    "at least 12 with epsilon = 2 and per_item = 4, or in SQL COUNT(*, contribution_bounds_per_group => (0, 4))",
    "say how much one user may add: give clip, or low and high, or auto for bounds",
    "values, as in low = 0 and high = 100, or in SQL AVG(x, contribution_bounds_per_row => (0, 100))",
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_sql_is_told_calls_and_other_commands_options(sentence):
    written = with_option_names(sentence, is_sql=True)
    assert set(re.findall(r"--[a-z][\w-]*", written)) <= options_of("sql")
    assert "in SQL" not in written
    told = with_option_names(sentence)
    assert "--" in told
    assert "in SQL" not in told
    commands = ("sum", "variance", "count", "histogram")
    assert set(re.findall(r"--[a-z][\w-]*", told)) <= {name for command in commands for name in options_of(command)}


HINT = (
    "an item is shown with probability 95% if its count is at least 90, or at least 40 with --epsilon 2 and "
    "--contributions 8; if the list of groups is public, add --domain FILE (one on a line): every group is then shown"
)


@pytest.mark.parametrize(("asked", "kept"), [(1, True), (2.5, False), (3, False)])
def test_hints_propose_only_what_the_account_can_pay(asked, kept, tmp_path):
    """An account with 0.5 of 3 left was told to add "--epsilon 5", and an empty one "--epsilon 2"."""
    with Ledger.open(f"sqlite:///{tmp_path}/l.db") as ledger:
        ledger.open_filter("ada", epsilon=3, delta=1e-6)
        account = ledger.account("ada")
        account.charge([f"pure:{asked}"], key="k", request="q")
        hint = affordable_hint(HINT, account.status())
    assert ("--epsilon 2" in hint) == kept
    assert ("at least 90" in hint) == (asked < 3)
    assert affordable_hint(HINT, None) == HINT


def test_types_with_blanks_are_quoted_for_the_shell():
    assert with_option_names('as in types = {"my time": "date", "n": "integer"}') == (
        "as in --type 'my time=date' --type n=integer"
    )


def test_names_in_quotes_stay():
    assert with_option_names("no column 'per_user = 5', and the user's per_item") == (
        "no column 'per_user = 5', and the user's --per-item"
    )


def test_a_sql_question_is_told_the_call_alone(setwise, table):
    query = "SELECT AVG(minutes) AS m FROM visits"
    shown = setwise("sql", query, "--table", f"visits={table}", "--user", "user", "--epsilon", "0.01").stdout
    assert "contribution_bounds_per_group => (low, high)" in " ".join(shown.split())
    assert "low and" not in shown
