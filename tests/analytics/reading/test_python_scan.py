"""A Python session on the caller's table warns, before the charge, of rows and cells that a question will not read."""

import ast
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import setwise
from setwise.agents import LocalTables
from setwise.ledger.ledger import Ledger

SOURCES = Path(setwise.__file__).parent
PAID = {"epsilon": 90.0, "delta": 1e-3}
AMOUNTS = [str(number) for number in range(1, 951)] + [f"{number:,}" for number in range(1000, 51000, 1000)]
UNREAD = (
    "50 of 1,000 cells of 'amount' are not whole numbers and will be skipped: setwise.open(..., thousands=\",\") reads "
    "them"
)


class Seeded:
    """Random words that are the same for every instance, so that two answers can be compared."""

    def __init__(self) -> None:
        self._generator = np.random.default_rng(7)

    def words(self, count: int, width: int = 64):
        return self._generator.integers(0, 2**64, count, dtype=np.uint64) >> np.uint64(64 - width)


def open_account(ledger: Ledger):
    ledger.open_filter("ada", epsilon=100.0, delta=1e-2)
    return ledger.account("ada")


def sales(folder: Path) -> Path:
    path = folder / "sales.csv"
    path.write_text("who;amount\n" + "".join(f"{user};{cell}\n" for user, cell in enumerate(AMOUNTS)))
    return path


def open_sales(folder: Path, **words):
    return setwise.open(sales(folder), user="who", separator=";", types={"amount": "integer"}, **words)


def test_cells_that_are_not_read_are_warned_of_with_the_argument_that_reads_them(tmp_path: Path):
    with (
        open_sales(tmp_path) as session,
        pytest.warns(setwise.UnreadCellsWarning) as caught,
    ):
        session.sum(value="amount", clip=51000, **PAID)
    (warning,) = caught
    assert UNREAD in str(warning.message)
    assert warning.filename == __file__
    with open_sales(tmp_path, thousands=",") as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        session.sum(value="amount", clip=51000, **PAID)


def test_sql_is_scanned_too(tmp_path: Path):
    with open_sales(tmp_path) as session, pytest.warns(setwise.UnreadCellsWarning, match="50 of 1,000 cells"):
        session.sql("SELECT COUNT(*) AS n FROM sales WHERE amount > 5", **PAID)


def test_a_preview_reads_no_row_and_warns_of_none(tmp_path: Path):
    with open_sales(tmp_path) as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        session.explain("SELECT COUNT(*) AS n FROM sales WHERE amount > 5", **PAID)


def test_an_argument_turns_the_scan_off(tmp_path: Path):
    with open_sales(tmp_path, scan=False) as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        session.sum(value="amount", clip=51000, **PAID)
        session.sql("SELECT COUNT(*) AS n FROM sales WHERE amount > 5", **PAID)


def test_a_warning_comes_once_for_the_same_columns(tmp_path: Path):
    with open_sales(tmp_path) as session, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            session.sum(value="amount", clip=51000, **PAID)
        session.sql("SELECT SUM(amount) AS total FROM sales", **PAID)
    assert len([each for each in caught if each.category is setwise.UnreadCellsWarning]) == 1


def test_warnings_as_errors_stop_a_question_before_its_charge(tmp_path: Path):
    with (
        Ledger.open(str(tmp_path / "ledger.db")) as ledger,
        open_sales(tmp_path, account=open_account(ledger)) as session,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error", setwise.UnreadCellsWarning)
        with pytest.raises(setwise.UnreadCellsWarning):
            session.sum(value="amount", clip=51000, epsilon=1.0)
        with pytest.raises(setwise.UnreadCellsWarning):
            session.sql("SELECT COUNT(*) AS n FROM sales WHERE amount < 5", epsilon=1.0)
        assert ledger.account("ada").status().charges == 0


def test_the_answer_is_the_same_with_and_without_the_scan(tmp_path: Path):
    answers = []
    for scan in (True, False):
        with open_sales(tmp_path, scan=scan, randomness=Seeded()) as session, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers.append(session.sum(value="amount", clip=51000, **PAID).to_json())
    assert answers[0] == answers[1]
    assert "thousands" not in answers[0]


COLUMNS = {"who": [*map(str, range(90)), *["N/A"] * 6, *[None] * 4], "amount": [*["1"] * 70, *["n/a"] * 30]}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table, lambda each: pl.DataFrame(each).lazy()])
def test_tables_in_memory_are_scanned(frame):
    with (
        setwise.open(frame(COLUMNS), user="who", types={"amount": "integer"}) as session,
        pytest.raises(setwise.SetwiseError) as refused,
    ):
        session.sum(value="amount", clip=5, **PAID)
    told = str(refused.value)
    assert "4 of 100 rows have no 'who' and are left out of every answer" in told
    assert "6 rows have 'N/A' as 'who', and this text counts as one person: setwise.open(..., null=[\"N/A\"])" in told
    assert "30 of 100 cells of 'amount' are not whole numbers" in told
    with (
        setwise.open(frame(COLUMNS), user="who", types={"amount": "integer"}, null=["N/A"]) as session,
        pytest.warns(setwise.UnreadCellsWarning, match="10 of 100 rows have no 'who'"),
    ):
        session.sum(value="amount", clip=5, **PAID)


def test_objects_of_a_pandas_column_that_are_not_read_are_counted():
    """`from_pandas` makes floats and datetimes among texts null."""
    mixed = ["a"] * 50 + [1.5] * 20 + [None] * 10 + [float("nan")] * 5 + [pd.Timestamp(0)] * 15
    frame = pd.DataFrame({"who": range(100), "kind": pd.Series(mixed, dtype=object)})
    with setwise.open(frame, user="who") as session, pytest.warns(setwise.UnreadCellsWarning) as caught:
        session.histogram(item="kind", contributions=1, **PAID)
    (warning,) = caught
    assert "35 of 85 cells of 'kind' are objects such as floats or datetimes among texts and will be skipped" in str(
        warning.message
    )


def test_columns_that_the_question_does_not_name_are_not_scanned():
    with (
        setwise.open(pa.table({**COLUMNS, "who": range(100)}), user="who", types={"amount": "integer"}) as session,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        session.count(**PAID)


def test_a_joined_private_table_is_scanned(tmp_path: Path):
    people = pa.table({"who": [*map(str, range(90)), None, None], "age": [30] * 92})
    visits = pa.table({"who": [*map(str, range(90))], "page": ["home"] * 90})
    with setwise.open(visits, user="who", private={"people": people}, name="visits") as session:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            session.count(**PAID)
        with pytest.warns(setwise.UnreadCellsWarning, match="people: 2 of 92 rows have no 'who'"):
            session.sql("SELECT COUNT(*) AS n FROM visits v JOIN people p ON v.who = p.who", **PAID)
    with (
        setwise.open(visits, user="who", private={"people": people}, name="visits") as session,
        pytest.warns(setwise.UnreadCellsWarning, match="people: 2 of 92 rows have no 'who'"),
    ):
        session.join("people", using="who").count(**PAID)


def test_an_agent_that_asks_a_session_gets_no_exact_count(tmp_path: Path):
    """Warnings that are errors would otherwise reach the agent as the message of an error."""
    with (
        Ledger.open(str(tmp_path / "ledger.db")) as ledger,
        open_sales(tmp_path, account=open_account(ledger)) as session,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        tables = LocalTables({"sales": session}, ledger.account("ada"), answer_step=0)
        assert "rows" in tables.ask("sales", "SELECT COUNT(*) AS n FROM sales WHERE amount < 5", {"epsilon": 1.0}, "k")


def test_every_caller_of_open_inside_the_package_says_whether_it_scans():
    """The scan is on by default for people who call `setwise.open`; a door to others must turn it off."""
    calls = []
    for module in SOURCES.rglob("*.py"):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "setwise.analytics.opening"
            for alias in node.names
            if alias.name == "open"
        }
        calls += [
            (module.name, {each.arg: each.value for each in node.keywords})
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in imported
        ]
    assert len(calls) >= 3
    for name, arguments in calls:
        assert ast.unparse(arguments["scan"]) == "False", name


@pytest.mark.parametrize("door", ["service", "client", "agents.py"])
def test_no_door_to_others_imports_the_scan(door: str):
    place = SOURCES / door
    for module in [place] if place.is_file() else place.rglob("*.py"):
        text = module.read_text(encoding="utf-8")
        assert "unread_cells" not in text
        assert "holder_scan" not in text
