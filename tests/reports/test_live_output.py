"""A report writes live series of its ledger beside its answers, for nothing."""

import json
from datetime import date, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setwise.errors import InvalidParameter, UnknownName
from setwise.ledger.ledger import Ledger
from setwise.live.series import open_live
from setwise.reports.report import read_report
from setwise.reports.run import run_report

REPORT = """
table = "visits.parquet"
user = "who"
epsilon = 2
delta = 1e-6

[[questions]]
name = "visitors"
kind = "count"

[[live]]
series = "{series}"
window = 2
to = ["reach.csv", "reach.json"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    moments = [datetime(2026, 1, 1) + timedelta(days=number % 3) for number in range(300)]
    table = {"who": [f"u{number}" for number in range(300)], "page": ["x"] * 300, "at": pa.array(moments)}
    pq.write_table(pa.table(table), "visits.parquet")
    with Ledger.open("setwise.db") as ledger:
        series = open_live(
            ledger, "reach", "visits.parquet", user="who", item="page", at="at", every="day", start="2026-01-01",
            periods=3, contributions=1, epsilon=1.0, delta=1e-6, domain=["x"], dataset="",
        )  # fmt: skip
        series.update(today=date(2026, 6, 1))
    return tmp_path


def test_a_series_is_written_with_the_answers(folder):
    (folder / "report.toml").write_text(REPORT.format(series="reach"))
    ran = run_report(read_report("report.toml"), key="first", ledger="setwise.db")
    assert list(ran.answers) == ["visitors"]
    assert (folder / "reach.csv").read_text().startswith("period,item,value,low,high,measure\n2026-01-01,x,")
    assert len(json.loads((folder / "reach.json").read_text())["periods"]) == 3


def test_a_report_writes_the_largest_items_of_a_day(folder):
    words = REPORT.format(series="reach").replace("window = 2", 'top = 1\non = "2026-01-02"')
    (folder / "report.toml").write_text(words)
    run_report(read_report("report.toml"), key="first", ledger="setwise.db")
    assert [line["item"] for line in json.loads((folder / "reach.json").read_text())["series"]] == ["x"]
    (folder / "report.toml").write_text(words.replace("2026-01-02", "2025-01-02"))
    with pytest.raises(UnknownName, match="2025-01-02"):
        run_report(read_report("report.toml"), key="second", ledger="setwise.db")
    for wrong in ("top = 0", 'on = "2026-01-02"'):
        (folder / "report.toml").write_text(REPORT.format(series="reach").replace("window = 2", wrong))
        with pytest.raises(InvalidParameter):
            read_report("report.toml")


def test_a_series_that_is_not_there_is_said_before_anything_is_charged(folder):
    (folder / "report.toml").write_text(REPORT.format(series="other"))
    with pytest.raises(UnknownName, match="'other'"):
        run_report(read_report("report.toml"), key="first", ledger="setwise.db")
    with Ledger.open("setwise.db") as ledger:
        assert [status.terms.name for status in ledger.accounts()] == ["live:reach"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (('to = ["reach.csv", "reach.json"]', 'to = "reach.txt"'), "files, not to"),
        (("window = 2", "window = 0"), "window"),
        (('series = "{series}"', 'title = "x"'), "unknown entry 'title'"),
    ],
)
def test_what_is_wrong_is_named(folder, wrong, said):
    (folder / "report.toml").write_text(REPORT.replace(*wrong).format(series="reach"))
    with pytest.raises(InvalidParameter, match=said):
        read_report("report.toml")
