"""A table that has not changed is read once for each aggregation of an account; every answer is charged and has noise
of its own."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.duckdb.engine import DuckDBEngine
from setwise.analytics.measure import Measure
from setwise.errors import EngineFailed
from setwise.mechanisms.histogram import Histogram
from setwise.service.queries import engine_pool
from setwise.service.queries.exact_results import ExactResults, most_numbers
from setwise.service.storage.datasets import Dataset
from tests.service.team import TOP_3, Team, ask, asked, write_events

HISTOGRAM = {
    "dataset": "events",
    "account": "ada-total",
    "query": {"kind": "histogram", "item": "word", "contributions": 3, "domain": ["w1", "w2", "w3", "w4", "w5"]},
    "spend": {"kind": "total", "epsilon": 0.05, "delta": 0.0},
}
MEAN = HISTOGRAM | {
    "query": {"kind": "mean", "value": "minutes", "low": 0, "high": 60, "item": "word", "domain": ["w1", "w2"]}
}
SQL = HISTOGRAM | {
    "query": {"kind": "sql", "text": "SELECT COUNT(DISTINCT user_id) AS n FROM events WHERE country = 'NO'"}
}


@pytest.fixture
def reads(team: Team, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The methods by which engines have read rows so far; files count as unchanged as soon as they are written.

    Begins without kept results, and puts the table back at the end.
    """
    found: list[str] = []
    path = team.replica.service.settings.data_dir / "events.parquet"
    content = path.read_bytes()
    monkeypatch.setattr(team.replica.service.questions, "_results", ExactResults())
    for name in ("histogram", "top", "statistics"):
        original = getattr(DuckDBEngine, name)

        def counted(*given: Any, name: str = name, original: Any = original) -> Any:
            found.append(name)
            return original(*given)

        monkeypatch.setattr(DuckDBEngine, name, counted)
    monkeypatch.setattr(engine_pool, "_RECENT_SECONDS", -3600.0)
    yield found
    path.write_bytes(content)


@pytest.mark.parametrize("question", [TOP_3, HISTOGRAM, MEAN, SQL], ids=["top-k", "histogram", "mean", "sql"])
def test_an_unchanged_table_is_read_once_for_an_aggregation(team: Team, reads: list[str], question: dict[str, object]):
    for number in range(3):
        asked(team.ada, f"{question['query']['kind']}-again-{number}", question)  # type: ignore[index]
    assert len(reads) == 1


def test_every_answer_is_charged_and_has_noise_of_its_own(team: Team, reads: list[str]):
    before = team.ada.get("/accounts/ada-total").json()
    answers = [asked(team.ada, f"noise-{number}", HISTOGRAM)["answer"]["items"] for number in range(4)]  # type: ignore[index]
    after = team.ada.get("/accounts/ada-total").json()
    assert len(reads) == 1
    assert after["charges"] == before["charges"] + 4
    assert after["odometer"]["upper"] > before["odometer"]["upper"]
    # Two draws of the noise (scale 60 or more) of a count are equal with a chance below 1%. That all five counts of two
    # answers are equal has a chance below 1e-10, and there are six pairs of answers.
    assert len({str(items) for items in answers}) == 4


def test_a_changed_table_is_read_again(team: Team, reads: list[str]):
    asked(team.ada, "before", HISTOGRAM)
    path = team.replica.service.settings.data_dir / "events.parquet"
    changed = write_events(path.with_name("new.parquet"), rows=500, users=50)
    os.replace(changed, path)
    asked(team.ada, "after", HISTOGRAM)
    assert len(reads) == 2
    asked(team.ada, "later", HISTOGRAM)
    assert len(reads) == 2
    state = path.stat()
    content = bytearray(path.read_bytes())
    path.write_bytes(content)  # in place, with the same size and the same modification time
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    asked(team.ada, "in-place", HISTOGRAM)
    assert len(reads) == 3


def test_a_table_that_was_just_written_is_read_again(team: Team, reads: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(engine_pool, "_RECENT_SECONDS", 3600.0)
    for number in range(2):
        asked(team.ada, f"recent-{number}", HISTOGRAM)
    assert len(reads) == 2


def test_results_are_kept_for_the_account_that_paid(team: Team, reads: list[str]):
    asked(team.ada, "ada", TOP_3)
    asked(team.bob, "bob", TOP_3 | {"account": "bob-events"})
    assert len(reads) == 2


def test_other_bounds_filters_and_limits_are_read_by_themselves(team: Team, reads: list[str]):
    queries: list[dict[str, object]] = [
        {"contributions": 2},
        {"where": "country = 'NO'"},
        {"where": "country = 'SE'"},
        {"value": "minutes"},
    ]
    for number, words in enumerate(queries):
        query: dict[str, object] = {"kind": "top-k", "item": "word", "k": 3} | words
        asked(team.ada, f"other-{number}", TOP_3 | {"query": query})
    assert len(reads) == len(queries)


def test_a_table_that_is_gone_fails_after_a_kept_result_too(team: Team, reads: list[str]):
    asked(team.ada, "there", HISTOGRAM)
    path = team.replica.service.settings.data_dir / "events.parquet"
    path.rename(path.with_name("elsewhere.parquet"))
    time.sleep(1.1)  # the path of a table counts as checked for a second
    assert ask(team.ada, "gone", HISTOGRAM).status_code == 503
    assert len(reads) == 1


def test_tables_whose_changes_may_go_unseen_have_no_version(team: Team, reads: list[str]):
    engines, folder = team.replica.service.engines, team.replica.service.settings.data_dir
    events = team.replica.service.datasets.get("events")
    assert engines.content_version(events) is not None
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE orders AS SELECT 1 AS user_id, 'x' AS word")

    def version(**changes: Any) -> str | None:
        words: dict[str, Any] = {"name": "other", "engine": "duckdb", "table": "events.parquet", "user": "user_id"}
        return engines.content_version(Dataset(**words | {"items": ("word",)} | changes))

    assert version() is not None
    assert version(table="shop.duckdb::orders") is None
    assert version(public=(("shop", "shop.duckdb::orders"),)) is None
    assert version(engine="postgresql", table="orders") is None
    with pytest.raises(EngineFailed):
        version(table="missing.parquet")


def test_few_and_small_results_are_kept():
    results, reads = ExactResults(most=10, largest=5), 0

    def read() -> Histogram:
        nonlocal reads
        reads += 1
        return Histogram.of(["g"], [1])

    for _ in range(2):
        results.read("large", 6, read)
        results.read("unlimited", None, read)
    assert reads == 4
    for place in ("a", "b", "c", "c", "a"):
        results.read(place, 4, read)
    assert reads == 4 + 4  # "c" is read once, and displaces "a"


def test_rows_do_not_decide_what_is_kept():
    """A result whose size the rows decide is never kept: the time of a second answer would tell its size exactly."""
    grouped = Aggregation(user="user_id", item="word", contributions=3)
    assert most_numbers(grouped, None) is None
    assert most_numbers(grouped, 7) == 8
    assert most_numbers(replace(grouped, domain=("a", "b")), None) == 3
    assert most_numbers(Aggregation(user="user_id"), None) == 2
    cells = Measure(column="minutes", in_cells=True, least=0, most=9)
    measured = replace(grouped, domain=("a", "b"), measures=(Measure(), cells))
    assert most_numbers(measured, None) == 1 + 2 * (1 + 2 + 10)


def test_private_groups_are_read_for_every_question(team: Team, reads: list[str]):
    query = {"kind": "histogram", "item": "word", "contributions": 3}
    question = HISTOGRAM | {"query": query, "spend": {"kind": "total", "epsilon": 0.5, "delta": 1e-9}}
    for number in range(2):
        asked(team.ada, f"private-{number}", question)
    assert len(reads) == 2
