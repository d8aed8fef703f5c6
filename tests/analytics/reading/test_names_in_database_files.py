"""A table of a DuckDB file is found without its schema where that is unambiguous, and refused with names otherwise."""

from pathlib import Path

import duckdb
import pytest

from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.tables.check import check_table
from setwise.errors import UnsuitableTable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with duckdb.connect(tmp_path / "m.duckdb") as connection:
        connection.execute("CREATE SCHEMA mart; CREATE SCHEMA old")
        for rows, table in enumerate(("mart.facts", "mart.users", "old.users", "main.both", "mart.both"), 1):
            connection.execute(f"CREATE TABLE {table} AS SELECT range AS u FROM range({rows})")
    return tmp_path / "m.duckdb"


@pytest.mark.parametrize(
    ("name", "rows", "relation"),
    [
        ("facts", 1, "mart.facts"),
        ("mart.facts", 1, "mart.facts"),
        ("FACTS", 1, "mart.facts"),
        ("mart.users", 2, "mart.users"),
        ("old.users", 3, "old.users"),
        ("both", 4, "main.both"),
        ("mart.both", 5, "mart.both"),
    ],
)
def test_a_table_is_found(path: Path, name: str, rows: int, relation: str):
    assert check_table(f"{path}::{name}", CsvOptions(), {}, None).counts.rows == rows
    with open_engine(f"{path}::{name}") as engine:
        assert engine.rows() == rows
        assert engine.relations() == (relation,)


def test_a_name_of_several_tables_is_refused_with_names_to_paste(path: Path):
    with pytest.raises(UnsuitableTable) as refused:
        open_engine(f"{path}::users")
    assert str(refused.value) == f"{path} has several tables 'users': name {path}::mart.users or {path}::old.users"


def test_a_missing_table_is_refused(path: Path):
    with pytest.raises(UnsuitableTable, match=r"has no table 'none'; it has 'both', 'mart.both', 'mart.facts'"):
        open_engine(f"{path}::none")
