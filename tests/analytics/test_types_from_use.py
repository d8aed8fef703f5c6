"""Columns of a CSV file without declared types are read as the types that a question needs."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import setwise as library
from setwise.analytics.budget import budget_of
from setwise.analytics.query import Query
from setwise.errors import BadRequest, InvalidParameter, UnsuitableTable
from tests.command_line import Done

LARGE = 100.0
"""An epsilon with which answers are nearly exact."""


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A file of 2,000 users with one paid and one open order each; amounts are 10.5 and 20.5, in March and April."""
    path = tmp_path / "orders.csv"
    lines = ["customer,status,amount,rating,at,member"]
    for customer in range(2000):
        lines.append(f"{customer},paid,10.5,4,2026-03-02 10:00:00,yes")
        lines.append(f"{customer},open,20.5,5,2026-04-02 11:00:00,no")
    path.write_text("\n".join(lines) + "\n")
    return path


def rows(path: Path, text: str) -> list[dict[str, object]]:
    with library.open(path, user="customer") as session:
        return session.sql(text, epsilon=LARGE, delta=1e-6).to_dict()["rows"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT AVG(amount) AS x FROM orders", 15.5),
        ("SELECT SUM(amount) AS x FROM orders", 62_000.0),
        ("SELECT SUM(amount * 2) AS x FROM orders", 124_000.0),
        ("SELECT SUM(ROUND(amount)) AS x FROM orders", 64_000.0),
        ("SELECT COUNT(*) AS x FROM orders WHERE amount > 15", 2000.0),
        ("SELECT COUNT(*) AS x FROM orders WHERE amount + 1 > 15", 2000.0),
        ("SELECT COUNT(*) AS x FROM orders WHERE member", 2000.0),
        ("SELECT COUNT(*) AS x FROM orders WHERE EXTRACT(month FROM at) = 3", 2000.0),
        ("SELECT COUNT(*) AS x FROM orders WHERE CAST(rating AS INTEGER) = 5", 2000.0),
    ],
)
def test_a_statement_says_itself_which_columns_hold_numbers_times_and_conditions(
    orders: Path, text: str, expected: float
) -> None:
    (row,) = rows(orders, text)
    assert row["x"]["value"] == pytest.approx(expected, rel=0.02)


def test_a_number_that_is_also_grouped_by_is_an_integer(orders: Path) -> None:
    found = rows(orders, "SELECT rating, AVG(rating) AS x FROM orders GROUP BY rating ORDER BY rating")
    assert [row["rating"] for row in found] == [4, 5]


def test_times_are_grouped_by_month_without_a_declared_type(orders: Path) -> None:
    found = rows(orders, "SELECT DATE_TRUNC('month', at) AS m, COUNT(*) AS x FROM orders GROUP BY 1 ORDER BY 1")
    assert [row["m"] for row in found] == ["2026-03-01", "2026-04-01"]


def test_rounding_to_tens_makes_groups(orders: Path) -> None:
    for text in ("ROUND(amount, -1)", "ROUND(amount / 10) * 10"):
        found = rows(orders, f"SELECT {text} AS b, COUNT(*) AS x FROM orders GROUP BY 1 ORDER BY 1")
        assert [row["b"] for row in found] == [10, 20]


def test_one_question_does_not_change_how_the_next_reads_the_column(orders: Path) -> None:
    with library.open(orders, user="customer") as session:
        session.sql("SELECT AVG(rating) FROM orders", epsilon=LARGE, delta=1e-6)
        labels = session.sql(
            "SELECT rating, COUNT(*) AS x FROM orders GROUP BY rating ORDER BY 1", epsilon=LARGE, delta=1e-6
        ).to_dict()["rows"]
        assert [row["rating"] for row in labels] == ["4", "5"]
        assert len(session.spent) >= 1
        assert session.guarantee(1e-5).upper >= LARGE  # both questions are added up


def test_methods_of_a_session_read_by_use_too(orders: Path) -> None:
    with library.open(orders, user="customer") as session:
        budget = budget_of({"epsilon": LARGE, "delta": 1e-6})
        query = Query.mean(value="amount", low=0, high=30)
        assert session.ask(query, budget).value == pytest.approx(15.5, rel=0.02)
        assert session.preview(query, budget).delta <= 1e-6
        assert session.for_question(query, budget).types == {"amount": "float"}
        assert session.types == {}


def test_a_declared_type_and_the_user_column_are_not_changed(orders: Path) -> None:
    with library.open(orders, user="customer", types={"amount": "text"}) as session, pytest.raises(UnsuitableTable):
        session.sql("SELECT AVG(amount) FROM orders", epsilon=1.0)
    with library.open(orders, user="customer") as session, pytest.raises(BadRequest, match="customer"):
        session.sql("SELECT COUNT(*) FROM orders WHERE customer > 5", epsilon=1.0)


def test_rows_do_not_decide_the_type(orders: Path, tmp_path: Path) -> None:
    """A file whose amounts are words gives a question the same types and the same columns of the answer."""
    words = tmp_path / "words" / "orders.csv"
    words.parent.mkdir()
    words.write_text(orders.read_text().replace(",10.5,", ",ten,").replace(",20.5,", ",twenty,"))
    text = "SELECT AVG(amount) AS x FROM orders WHERE amount > 3"
    types = []
    for path in (orders, words):
        with library.open(path, user="customer") as session:
            types.append(session.ask_sql(text, {"epsilon": 1.0}).types)
    assert types[0] == types[1] == {"amount": "float"}


def test_a_column_of_a_joined_file_is_read_by_use(orders: Path, tmp_path: Path) -> None:
    weights = tmp_path / "weights.csv"
    weights.write_text("status,weight\npaid,2.5\nopen,1.5\n")
    with library.open(orders, user="customer", public={"weights": weights}) as session:
        text = "SELECT SUM(w.weight) AS x FROM orders o JOIN weights w ON o.status = w.status"
        (row,) = session.sql(text, epsilon=LARGE, delta=1e-6).to_dict()["rows"]
        assert row["x"]["value"] == pytest.approx(8000.0, rel=0.02)


def test_the_command_line_notes_the_types_on_standard_error(orders: Path, setwise: Callable[..., Done]) -> None:
    words = ("sql", f"SELECT AVG(amount) FROM '{orders}'", "--user", "customer", "--epsilon", "10")
    result = setwise(*words)
    assert result.returncode == 0
    assert "the question reads amount as float" in result.stderr
    assert "the question reads" not in result.stdout
    declared = setwise(*words, "--type", "amount=float")
    assert declared.returncode == 0
    assert "the question reads" not in declared.stderr


def test_questions_without_bounds_find_them(orders: Path, setwise: Callable[..., Done]) -> None:
    """A mean, a sum and a histogram need no option beyond the user column and epsilon."""
    shared = (orders, "--user", "customer", "--epsilon", "50")
    for words in (
        ("mean", *shared, "--value", "amount"),
        ("sum", *shared, "--value", "amount"),
        ("quantile", *shared, "--value", "amount"),
        ("histogram", *shared, "--item", "status"),
        ("mean", *shared, "--value", "amount", "--item", "status"),
    ):
        done = setwise(*words)
        assert done.returncode == 0, done.stderr
    with library.open(orders, user="customer") as session:
        answer = session.mean(value="amount", item="status", epsilon=50.0)
        assert answer.delta == 1e-6
        assert sorted(str(item.label) for item in answer.items) == ["open", "paid"]


def test_a_statement_without_user_and_budget_names_both_and_the_columns(
    orders: Path, setwise: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(orders.parent)
    done = setwise("sql", "SELECT COUNT(*) FROM orders.csv")
    assert done.returncode == 2
    assert "add --user customer --epsilon 1" in done.stderr
    assert "the columns customer, status, amount" in done.stderr
    paid = setwise("sql", "SELECT COUNT(*) FROM orders.csv", "--epsilon", "1")
    assert "add --user customer, or" in paid.stderr
    named = setwise("sql", "SELECT COUNT(*) FROM orders", "--user", "customer", "--epsilon", "1")
    assert "--table orders=orders.csv" in named.stderr


def test_a_table_in_memory_with_a_catalog_is_refused_without_its_rows(tmp_path: Path) -> None:
    table = pa.table({"who": ["secret-name"], "page": ["home"]})
    catalog = tmp_path / "catalog.toml"
    catalog.write_text("[tables.visits]\nsource = 'visits.csv'\nuser = 'who'\n")
    with pytest.raises(InvalidParameter, match="name of one of its tables") as refused:
        library.open(table, catalog=catalog)
    assert "secret-name" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT AVG(n) AS x FROM (SELECT customer, SUM(amount) AS n FROM orders GROUP BY customer) t", 31.0),
        ("SELECT COUNT(*) AS x FROM orders WHERE at >= TIMESTAMP '2026-03-15 00:00:00'", 2000.0),
        ("SELECT COUNT(*) AS x FROM orders WHERE at < DATEADD('month', 1, TIMESTAMP '2026-02-15')", 2000.0),
    ],
)
def test_subqueries_and_times_say_it_too(orders: Path, text: str, expected: float) -> None:
    (row,) = rows(orders, text)
    assert row["x"]["value"] == pytest.approx(expected, rel=0.02)


def test_a_refusal_knows_the_types_of_the_table(orders: Path, setwise: Callable[..., Done]) -> None:
    """MAX of a time was to be replaced by a quantile of a time, which is refused."""
    events = orders.parent / "events.parquet"
    day = datetime(2026, 3, 1, tzinfo=UTC)
    pq.write_table(pa.table({"who": list(range(500)), "ts": pa.array([day] * 500, pa.timestamp("us"))}), events)
    words = ("--table", f"events={events}", "--user", "who", "--epsilon", "5")
    refused = setwise("sql", "SELECT MAX(ts) AS last FROM events", *words)
    assert refused.returncode == 2
    pasted = refused.stderr.partition("; write: ")[2].strip()
    assert setwise("sql", pasted, *words).returncode == 0


def test_a_statement_to_paste_keeps_its_names(orders: Path, setwise: Callable[..., Done]) -> None:
    """The alias per_user became an option of the command line in the middle of the statement."""
    text = "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer ORDER BY total DESC LIMIT 10"
    words = ("--table", f"orders={orders}", "--user", "customer", "--epsilon", "5")
    refused = setwise("sql", text, *words)
    pasted = refused.stderr.partition("; write: ")[2].strip()
    assert "--per-user" not in pasted
    assert setwise("sql", pasted, *words).returncode == 0, pasted


def test_a_report_on_a_csv_file_takes_types_from_its_questions(orders: Path, setwise: Callable[..., Done]) -> None:
    report = orders.parent / "report.toml"
    report.write_text(
        f"""
title = "Weekly"
table = "{orders}"
user = "customer"
epsilon = 20.0
delta = 1e-6

[[questions]]
name = "mean"
sql = "SELECT AVG(amount) AS mean FROM orders"

[[questions]]
name = "spread"
kind = "stddev"
value = "amount"
low = 0
high = 30
"""
    )
    assert setwise("run", report, "--preview").returncode == 0
    ledger = f"sqlite:///{orders.parent / 'ledger.db'}"
    done = setwise("run", report, "--key", "one", "--ledger", ledger, "--json")
    assert done.returncode == 0, done.stderr
    assert '"mean"' in done.stdout


def test_dates_whose_order_the_cells_do_not_tell_are_not_saved(tmp_path: Path, setwise: Callable[..., Done]) -> None:
    """They were saved as day first, and later questions had other months without a note."""
    path = tmp_path / "days.csv"
    path.write_text("who,day\n" + "".join(f"{n},{1 + n % 12:02}/{1 + n % 11:02}/2026\n" for n in range(200)))
    refused = setwise("check", path, "--save")
    assert refused.returncode == 2
    assert "--date-format '%d/%m/%Y' or --date-format '%m/%d/%Y'" in refused.stderr
    assert not (tmp_path / "days.csv.toml").exists()
    assert setwise("check", path, "--save", "--date-format", "%m/%d/%Y").returncode == 0


def test_a_statement_without_a_table_is_refused_in_words(setwise: Callable[..., Done]) -> None:
    """It failed with an index error."""
    done = setwise("sql", "SELECT 1")
    assert done.returncode == 2
    assert "add --user COL --epsilon 1" in done.stderr


def test_a_refusal_about_a_csv_file_does_not_ask_for_types_that_the_question_gives(
    orders: Path, setwise: Callable[..., Done]
) -> None:
    words = ("--table", f"orders={orders}", "--user", "customer", "--epsilon", "20")
    refused = setwise("sql", "SELECT MAX(amount) AS x FROM orders WHERE amount + 1 > 3", *words)
    assert "--type" not in refused.stderr
    pasted = refused.stderr.partition("; write: ")[2].strip()
    assert setwise("sql", pasted, *words).returncode == 0, pasted


def test_the_line_below_a_quantile_states_the_step_of_its_values(orders: Path) -> None:
    with library.open(orders, user="customer", scan=False) as session:
        answer = session.quantile(value="amount", low=0, high=500, epsilon=5.0)
    assert "rounded to steps of 0.5" in answer.summary
