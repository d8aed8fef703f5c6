"""A report says which unit all of its answers protect, and its account promises no more."""

import json
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import setwise
from setwise.errors import InvalidParameter
from setwise.ledger.ledger import Ledger
from setwise.reports.report import read_report
from setwise.reports.run import preview_report, run_report

DAYS, USERS = 10, 40
FIRST_WORDS = "Each single day of a user is protected, but not the user"

CATALOG = """
[tables.visits]
source = "visits.parquet"
user = "who"
unit = "user,day"
"""

REPORT = """
{table}
epsilon = 40
delta = 1e-6
html = "page.html"
json = "whole.json"

[[questions]]
name = "visits"
kind = "count"

[[questions]]
name = "pages"
kind = "histogram"
item = "page"
contributions = 1
"""

TABLES = {
    "by the report": 'table = "visits.parquet"\nuser = "who"\nunit = "user,day"',
    "by the catalog": 'table = "visits"\ncatalog = "catalog.toml"',
    "by the catalog, which the report cannot widen": 'table = "visits"\ncatalog = "catalog.toml"\nunit = "user"',
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    moments = [datetime(2026, 1, 1) + timedelta(days=row % DAYS) for row in range(USERS * DAYS)]
    users = [f"u{row // DAYS}" for row in range(USERS * DAYS)]
    table = {"who": users, "page": ["home"] * len(users), "at": pa.array(moments, pa.timestamp("us"))}
    pq.write_table(pa.table(table), "visits.parquet")
    (tmp_path / "catalog.toml").write_text(CATALOG)


@pytest.mark.parametrize("stated", TABLES)
def test_a_report_protects_the_unit_that_is_stated_and_says_so(tmp_path, stated):
    """At epsilon 20 a count is off by more than 5 with probability exp(-100)."""
    (tmp_path / "days.toml").write_text(REPORT.format(table=TABLES[stated]))
    ran = run_report(read_report("days.toml"), key="first", ledger="setwise.db")
    assert abs(ran.answers["visits"].items[0].count - USERS * DAYS) <= 5
    with Ledger.open("setwise.db") as ledger:
        status = ledger.account("days:first").status()
    assert (status.unit, status.charges) == ("user,day", 2)
    assert status.promise.startswith(FIRST_WORDS)
    whole = json.loads((tmp_path / "whole.json").read_text())
    assert (whole["unit"], whole["promise"].startswith(FIRST_WORDS)) == ("user,day", True)
    header = (tmp_path / "page.html").read_text().partition("</header>")[0]
    assert FIRST_WORDS in header
    assert "one person" not in header


def test_a_preview_of_a_report_is_about_its_unit():
    table = 'table = "visits.parquet"\nuser = "who"\nunit = "user,day"'
    with open("days.toml", "w", encoding="utf-8") as file:
        file.write(REPORT.format(table=table).replace("contributions = 1", 'contributions = "auto"'))
    _, pages = preview_report(read_report("days.toml")).plans
    assert "If a user-day counts towards at most 4 groups: counts within about" in pages.accuracy.text
    assert "if a user counts" not in pages.why


def test_an_account_of_another_unit_does_not_pay_for_a_session(tmp_path):
    with Ledger.open("setwise.db") as ledger:
        ledger.open_filter("people", epsilon=2.0, delta=1e-6)
        ledger.open_filter("days", epsilon=2.0, delta=1e-6, unit="user,day")
        with setwise.open("visits.parquet", user="who", unit="user,day") as session:
            with pytest.raises(InvalidParameter, match="promises about two units do not add up"):
                session.paid_by(ledger.account("people"))
            answer = session.paid_by(ledger.account("days")).count(epsilon=1.0)
            assert answer.promise.startswith(FIRST_WORDS)
        with (
            setwise.open("visits.parquet", user="who") as users,
            pytest.raises(InvalidParameter, match="promises about two units do not add up"),
        ):
            users.paid_by(ledger.account("days"))
        assert ledger.account("people").status().charges == 0
