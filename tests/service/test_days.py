"""Questions about the current date, in a service that runs past midnight."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setwise.service.postgres import asker
from setwise.service.queries import parsed_statements
from setwise.service.queries.parsed_statements import utc_day
from setwise.service.queries.runner import Question, SqlSelect
from setwise.service.settings import Settings
from tests.service.replica import QUICK, running
from tests.service.team import Registered, Team, ask, asked, gather

TODAY = "SELECT COUNT(DISTINCT who) AS n FROM visits WHERE CAST(at AS DATE) = CURRENT_DATE"
VISITS = Registered(
    body={"name": "visits", "table": "visits.parquet", "user": "who", "items": ["at"], "filters": ["at"]},
    uses=["pure:0.1x5"],
    total=20.0,
)


class Clock(datetime):
    """The time now, as a test sets it."""

    present = datetime(2026, 3, 1, 12, tzinfo=UTC)

    @classmethod
    def now(cls, tz=None):
        return cls.present


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    """A team with 1,000 visitors on 1 March 2026 and 50 on the next day, on a service whose clock is `Clock`."""
    days = [datetime(2026, 3, 1, 8)] * 1000 + [datetime(2026, 3, 2, 8)] * 50
    pq.write_table(
        pa.table({"who": range(1050), "at": pa.array(days, pa.timestamp("us"))}), tmp_path / "visits.parquet"
    )
    monkeypatch.setattr(parsed_statements, "datetime", Clock)
    with running(Settings(ledger=str(tmp_path / "setwise.db"), data_dir=tmp_path, **QUICK)) as replica:
        yield gather(replica, VISITS)


def test_the_current_date_is_that_of_each_question(team: Team, monkeypatch: pytest.MonkeyPatch):
    """The parsed statement kept its first day, so that on the next day the question was still about the day before."""
    body = {"dataset": "visits", "account": "ada-total", "query": {"kind": "sql", "text": TODAY}}
    body |= {"spend": {"kind": "total", "epsilon": 2.0}}
    assert abs(asked(team.ada, "first", body)["rows"][0]["n"]["value"] - 1000) < 20
    monkeypatch.setattr(Clock, "present", datetime(2026, 3, 2, 12, tzinfo=UTC))
    assert abs(asked(team.ada, "second", body)["rows"][0]["n"]["value"] - 50) < 20
    again = ask(team.ada, "first", body)
    assert abs(again.json()["rows"][0]["n"]["value"] - 1000) < 20  # the stored answer stays what it was


def test_a_question_about_the_current_date_has_a_key_for_each_day():
    def key(text: str, seconds: float) -> str:
        query = SqlSelect(text=text, contributions=None, domain=None)
        question = Question(account="a", dataset="d", query=query, budget=None, text=text)
        return asker._key_of(question, None, 0, utc_day(seconds))

    assert key(TODAY, 0.0) != key(TODAY, 86_400.0)
    assert key("SELECT COUNT(*) FROM visits", 0.0) == key("SELECT COUNT(*) FROM visits", 86_400.0)
