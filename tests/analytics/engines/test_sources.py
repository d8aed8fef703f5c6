"""A table's identity is what its path leads to, not how the path is written."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.duckdb.sources import MOST_FILES, file_source
from setwise.analytics.schema import Kind
from setwise.errors import UnsuitableTable


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "days" / "events.csv"
    place.parent.mkdir()
    place.write_text("user,word\n1,a\n")
    return place


def test_the_same_file_through_a_link_has_the_same_path(file: Path, tmp_path: Path):
    """By its path, also where the file behind the link was replaced and has another inode since."""
    (tmp_path / "link.csv").symlink_to(file)
    (tmp_path / "folder").symlink_to(file.parent)
    for spelling in (tmp_path / "link.csv", tmp_path / "folder" / "events.csv", f"{file}::x"):
        assert f"file {file.resolve()}" in file_source(str(spelling)).reads


def test_the_same_file_through_a_hard_link_has_the_same_inode(file: Path, tmp_path: Path):
    os.link(file, tmp_path / "hard.csv")
    one, other = file_source(str(file)), file_source(str(tmp_path / "hard.csv"))
    assert set(one.reads) & set(other.reads)
    assert f"file {file.resolve()}" not in other.reads


def test_a_folder_reads_what_lies_within_it(file: Path):
    folder = file_source(str(file.parent))
    assert f"folder {file.parent.resolve()}" in folder.reads
    assert f"folder {file.parent.resolve()}" in file_source(str(file)).within
    assert set(folder.reads) & set(file_source(str(file.parent / "*.csv")).reads)


def test_tables_of_one_database_are_apart_and_spelled_in_many_ways(tmp_path: Path):
    place = tmp_path / "shop.db"
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript("CREATE TABLE visits (user INTEGER); CREATE TABLE sales (user INTEGER)")
    visits = set(file_source(f"{place}::visits").reads)
    assert visits == set(file_source(f"{place}::main.Visits").reads)
    assert not visits & set(file_source(f"{place}::sales").reads)


def test_a_table_of_many_files_is_known_by_their_folders(tmp_path: Path):
    for number in range(MOST_FILES + 1):
        (tmp_path / f"{number}.csv").write_text("user\n1\n")
    many = file_source(str(tmp_path / "*.csv"))
    assert many.reads == (f"folder {tmp_path.resolve()}",)
    assert set(many.reads) <= set(file_source(str(tmp_path / "7.csv")).within)
    with pytest.raises(UnsuitableTable):
        file_source(str(tmp_path / "missing.csv"))


def test_a_virtual_table_reads_all_tables_of_its_file(tmp_path: Path):
    """Its module reads other tables of the file, and nothing in the catalogue says which."""
    with closing(sqlite3.connect(tmp_path / "words.db")) as lite, lite:
        lite.execute("CREATE TABLE events (user_id TEXT, word TEXT)")
        lite.execute("CREATE VIRTUAL TABLE sought USING fts5(user_id, word, content='events')")
    with open_engine(f"{tmp_path}/words.db::sought") as engine:
        assert {"main.sought", "main.events"} <= set(engine.relations())
    with open_engine(f"{tmp_path}/words.db::events") as engine:
        assert engine.relations() == ("main.events",)


def test_a_table_with_declared_types_reads_what_it_reads_without(tmp_path: Path):
    with closing(sqlite3.connect(tmp_path / "days.db")) as lite, lite:
        lite.execute("CREATE TABLE events (user_id TEXT, day TEXT)")
        lite.execute("CREATE VIEW near AS SELECT user_id, day FROM events")
    with open_engine(f"{tmp_path}/days.db::near", types={"day": Kind.DATE}) as engine:
        assert engine.relations() == ("main.events", "main.near")
