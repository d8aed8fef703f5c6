"""Servers that any test may ask for, and the groups that tests belong to by what they need."""

import gc
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.command_line import setwise
from tests.repeatable_noise import start_noise
from tests.servers.clickhouse import clickhouse_server
from tests.servers.object_store import bucket, object_store
from tests.servers.postgresql import postgresql_server, postgresql_url
from tests.servers.spark import spark_session

__all__ = [
    "bucket",
    "clickhouse_server",
    "object_store",
    "postgresql_server",
    "postgresql_url",
    "setwise",
    "spark_session",
]

SPARK_SMOKE = {
    "test_the_pairs_of_users_and_groups_are_those_of_the_rows",
    "test_filters_come_before_bounding",
    "test_pairs_count_once_and_the_first_groups_in_order_of_days",
    "test_sampled_histograms_keep_within_both_bounds",
    "test_kinds_are_the_same_everywhere",
    "test_the_one_group_has_a_name",
    "test_the_same_salt_keeps_the_same_items_and_another_does_not",
    "test_a_session_of_the_caller_outlives_the_table",
    "test_csv_files_share_names_in_any_order_and_have_types",
    "test_partitions_are_text_whatever_they_are_called",
    "test_private_tables_meet_on_their_users_alone",
}
"""The tests on Spark that `make test` runs; all others on Spark are slow."""

CLICKHOUSE_SLOW = {
    "test_a_join_is_what_nested_loops_find",
    "test_a_single_user_keeps_every_item_equally_often_over_many_salts",
    "test_any_bounds_are_answered_as_from_the_source",
    "test_bad_columns_give_the_same_sentence",
    "test_bad_filters_give_the_same_sentence",
    "test_every_item_is_kept_equally_often",
    "test_every_pair_of_items_is_kept_equally_often_and_anew_under_another_salt",
    "test_keys_fit_by_their_types_alone",
    "test_no_row_of_a_private_table_decides",
    "test_one_user_changes_few_groups_and_each_by_little",
    "test_one_user_moves_what_is_paid_for_and_no_more",
    "test_rows_are_numbered_where_they_rarely_repeat",
}
"""The tests on ClickHouse that `make test` leaves out: many tables to put there, for what others show as well."""

BROWSER_JOURNEY = {"test_sign_in_preview_ask_and_see_the_chart"}
"""The test in a browser that `make test` runs; all others in a browser are slow."""

_DOCS = Path(__file__).parent / "docs"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need Spark or a browser, or check documents."""
    for item in items:
        name, needs = getattr(item, "originalname", item.name), set(getattr(item, "fixturenames", ()))
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if "spark_session" in needs or parameters.get("backend") == "spark" or "spark" in str(parameters.get("page")):
            item.add_marker("spark")
            if name not in SPARK_SMOKE:
                item.add_marker("slow")
        if parameters.get("backend") == "clickhouse" and name in CLICKHOUSE_SLOW:
            item.add_marker("slow")
        if parameters.get("backend") in ("delta", "iceberg") and "test_contract" not in item.path.name:
            item.add_marker("slow")
        if "browser" in needs:
            item.add_marker("browser")
            if name not in BROWSER_JOURNEY:
                item.add_marker("slow")
        if item.path.is_relative_to(_DOCS):
            item.add_marker("docs")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for doctests in the package only: every worker would search 300 files of tests, which have none."""
    return [each for each in (yield) if not isinstance(each, DoctestModule)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start the noise of each test anew, before its fixtures are made."""
    start_noise(item)


def pytest_configure() -> None:
    """Stop the garbage collector while tests are collected, because all they make stays: half a million objects."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Start it again, and spare it the modules and tests."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Let them go at the end: bindings complain of what is never collected."""
    gc.unfreeze()


LONGEST = [
    "spark",
    "tests/docs/test_code_blocks.py",
    "tests/docs/test_site.py",
    "tests/analytics/test_one_outcome.py",
    "tests/service/test_bounds.py",
    "tests/service/test_postgres_door.py",
    "tests/service/test_postgres_limits.py",
    "tests/analytics/test_exact_sql.py",
    "tests/analytics/engines/test_clickhouse_engine.py",
    "tests/analytics/engines/test_user_statements.py",
    "tests/analytics/test_everyday_sql.py",
    "tests/accounting/test_coherence.py",
    "tests/analytics/test_auto_bounds.py",
    "tests/ledger/test_slices.py",
    "tests/ledger/test_kills.py",
    "tests/live/test_kills.py",
    "tests/analytics/test_sql_corpus.py",
    "tests/analytics/test_what_answers_say.py",
    "tests/docs/test_first_tasks.py",
    "tests/docs/test_notebooks.py",
    "tests/agents/test_local_tables.py",
    "tests/service/test_contract_fuzzing.py",
    "tests/service/test_lake_versions.py",
    "tests/service/test_serve_command.py",
    "tests/web/test_browser.py",
]
"""Files with the most processor time, and all of Spark: begun first, so that no worker has one left at the end.

Others follow by their number of tests.
"""


class ByFile(LoadScopeScheduling):
    """Keeps the tests of a file on one worker, because they share fixtures, and so all of Spark's: a JVM is heavy."""

    _ordered = False

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if "spark" in nodeid else nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        if not self._ordered:
            self._ordered = True
            for scope in reversed([scope for scope in LONGEST if scope in self.workqueue]):
                self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Distribute by file; `--dist loadgroup` of pytest-xdist 3.8 does not group under pytest 9.2."""
    return ByFile(config, log)
