"""Public labels come from lists, files and other tables, and fit the column they are for."""

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from setwise.analytics.domain import fitted, labels_of, read_domain
from setwise.analytics.schema import Column, Kind
from setwise.errors import InvalidParameter


def test_a_file_holds_one_label_per_line(tmp_path):
    file = tmp_path / "cities.txt"
    file.write_text("Oslo\nBergen\n\nOslo\nTromsø \n", encoding="utf-8")
    assert read_domain(file) == ("Oslo", "Bergen", "Tromsø ")
    assert read_domain(str(file)) == read_domain(["Oslo", "Bergen", "Tromsø "])


@pytest.mark.parametrize(("name", "write"), [("c.csv", csv.write_csv), ("c.parquet", parquet.write_table)])
def test_a_column_of_a_file(tmp_path, name, write):
    write(pa.table({"city": ["Oslo", "Bergen", "Oslo"], "size": [3, 1, 2]}), tmp_path / name)
    assert read_domain(f"{tmp_path / name}:city") == ("Oslo", "Bergen")
    assert read_domain(f"{tmp_path / name}:size") == (3, 1, 2)
    with pytest.raises(InvalidParameter, match="name one"):
        read_domain(tmp_path / name)
    with pytest.raises(InvalidParameter, match="no column 'town'"):
        read_domain(f"{tmp_path / name}:town")


def test_a_column_of_another_table():
    assert labels_of(pa.table({"city": ["b", "a", None, "b"], "size": [3, 1, 2, 2]}), "city") == ("a", "b")
    assert labels_of(pa.table({"size": [3, 1, 3]}), "size") == (1, 3)


def test_labels_fit_the_column():
    text, whole = Column(name="city", kind=Kind.TEXT), Column(name="size", kind=Kind.INTEGER)
    assert fitted(("1", "2"), whole) == (1, 2)
    assert fitted((1, 2), text) == ("1", "2")
    with pytest.raises(InvalidParameter, match="'Oslo'"):
        fitted(("1", "Oslo"), whole)


def test_files_that_cannot_be(tmp_path):
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    for name in ("absent.txt", "empty.txt", "binary.txt", "broken.parquet"):
        with pytest.raises(InvalidParameter, match=name):
            read_domain(tmp_path / name)
