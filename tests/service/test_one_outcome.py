"""One charge, one outcome, over HTTP: what could not be answered is not drawn again by asking again."""

import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setwise.analytics.execute import WITHHELD_REASON
from setwise.analytics.planning.plan import BoundsSearch
from setwise.errors import EngineFailed, InvalidParameter
from setwise.mechanisms.doubling_bounds import DoublingBounds
from setwise.service.queries.table_reader import TableReader
from tests.service.team import Registered, Team, ask, gather
from tests.sizes import ATTEMPTS

LARGE = Registered(
    body={
        "name": "large",
        "table": "large.parquet",
        "user": "who",
        "items": ["spent"],
        "values": ["spent"],
        "filters": [],
    },
    uses=["pure:0.1x5"],
    total=5.0,
)
ATTACK = {
    "dataset": "large",
    "account": "ada-total",
    "query": {"kind": "sum", "value": "spent", "bounds": "auto"},
    "spend": {"kind": "total", "epsilon": 1, "delta": 0},
}


@pytest.fixture
def team(start, tmp_path: Path) -> Team:
    """A team on a table of integers whose sums have a bound of 2^33 or more."""
    users = 500
    pq.write_table(pa.table({"who": np.arange(users), "spent": [2**33] * users}), tmp_path / "large.parquet")
    return gather(start(data_dir=tmp_path), LARGE)


@pytest.fixture
def draws(monkeypatch) -> list[int]:
    """One entry for each draw of bounds."""
    drawn: list[int] = []
    release = DoublingBounds.release
    monkeypatch.setattr(DoublingBounds, "release", lambda *given: drawn.append(1) or release(*given))
    return drawn


def test_hundreds_of_attempts_under_one_key_are_one_outcome(team: Team, draws: list[int]):
    found = [ask(team.ada, "one", ATTACK) for _ in range(ATTEMPTS)]
    assert {response.status_code for response in found} == {200}
    assert len({response.text for response in found}) == 1
    assert len(draws) == 1
    assert team.ada.get("/accounts/ada-total").json()["charges"] == 1


def test_a_defect_after_the_first_read_is_the_stored_outcome(team: Team, draws: list[int], monkeypatch, caplog):
    secret = "the largest value is 8589934592"

    def fail(*_):
        raise InvalidParameter(secret)

    monkeypatch.setattr(BoundsSearch, "plan_bounded", fail)
    with caplog.at_level(logging.DEBUG):
        found = [ask(team.ada, "one", ATTACK) for _ in range(10)]
    assert len(draws) == 1
    monkeypatch.undo()
    found.append(ask(team.ada, "one", ATTACK))
    assert len({response.text for response in found}) == 1
    assert found[0].status_code == 500
    assert found[0].json()["detail"] == WITHHELD_REASON
    assert found[0].json()["type"] == "urn:setwise:problem:answer-withheld"
    assert secret not in caplog.text
    assert team.ada.get("/accounts/ada-total").json()["charges"] == 1


def test_an_engine_that_fails_after_the_search_does_not_make_it_draw_again(team: Team, draws: list[int], monkeypatch):
    read = TableReader.statistics

    def failing(self, aggregation):
        if not aggregation.pooled:
            raise EngineFailed("the disk is full")
        return read(self, aggregation)

    with monkeypatch.context() as broken:
        broken.setattr(TableReader, "statistics", failing)
        for _ in range(10):
            assert ask(team.ada, "one", ATTACK).status_code == 503
    assert ask(team.ada, "one", ATTACK).status_code == 200
    assert len(draws) == 1
