"""Public labels come from lists, files and other tables, and fit the column they are for."""

import subprocess

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import setwise
from setwise.analytics.schema import Column, Kind
from setwise.analytics.tables.domain import fit_labels, header_of_domain, labels_of, read_domain
from setwise.errors import InvalidParameter


def test_a_file_holds_one_label_per_line(tmp_path):
    file = tmp_path / "cities.txt"
    file.write_text("Oslo\nBergen\n\nOslo\nTromsø \n", encoding="utf-8")
    assert read_domain(file) == ("Oslo", "Bergen", "Tromsø ")
    assert read_domain(str(file)) == read_domain(["Oslo", "Bergen", "Tromsø "])


@pytest.mark.parametrize(
    ("name", "write", "sizes"),
    [("c.csv", csv.write_csv, ("3", "1", "2")), ("c.parquet", parquet.write_table, (3, 1, 2))],
)
def test_a_column_of_a_file(tmp_path, name, write, sizes):
    write(pa.table({"city": ["Oslo", "Bergen", "Oslo"], "size": [3, 1, 2]}), tmp_path / name)
    assert read_domain(f"{tmp_path / name}:city") == ("Oslo", "Bergen")
    assert read_domain(f"{tmp_path / name}:size") == sizes
    with pytest.raises(InvalidParameter, match="name one"):
        read_domain(tmp_path / name)
    with pytest.raises(InvalidParameter, match="no column 'town'"):
        read_domain(f"{tmp_path / name}:town")


def test_blank_cells_are_no_labels_and_text_stays_text(tmp_path):
    (tmp_path / "c.csv").write_text('city,code\nOslo,007\n,7\n"  ",\nNA,true\n')
    assert read_domain(f"{tmp_path / 'c.csv'}:city") == ("Oslo", "NA")
    assert read_domain(f"{tmp_path / 'c.csv'}:code") == ("007", "7", "true")
    parquet.write_table(pa.table({"city": ["Oslo", "", None]}), tmp_path / "c.parquet")
    assert read_domain(tmp_path / "c.parquet") == ("Oslo",)
    (tmp_path / "c.txt").write_text("Oslo\n   \n\nBergen\n")
    assert read_domain(tmp_path / "c.txt") == ("Oslo", "Bergen")


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A private table with links to it, a prepared folder of it, and a public list."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bought").mkdir()
    rows = pa.table({"who": list(range(300)), "shop": ["tea", "rice", "salt"] * 100})
    csv.write_csv(rows, "bought/purchases.csv")
    parquet.write_table(rows, "purchases.parquet")
    (tmp_path / "link.csv").symlink_to("bought/purchases.csv")
    (tmp_path / "hard.parquet").hardlink_to("purchases.parquet")
    with setwise.open("purchases.parquet", user="who") as table:
        table.prepare("ready", item="shop")
    (tmp_path / "public.csv").write_text("shop\ntea\nrice\n")
    return tmp_path


@pytest.mark.parametrize(
    ("source", "domain"),
    [
        ("bought/purchases.csv", "bought/purchases.csv:shop"),
        ("bought/purchases.csv", "./bought/../link.csv:shop"),
        ("link.csv", "bought/purchases.csv:shop"),
        ("bought/*.csv", "bought/purchases.csv:shop"),
        ("bought", "bought/purchases.csv:shop"),
        ("purchases.parquet", "hard.parquet:shop"),
        ("purchases.parquet", "ready/contributions.parquet:item"),
        ("ready", "ready/contributions.parquet:item"),
        ("ready", "purchases.parquet:shop"),
    ],
)
def test_the_private_table_is_no_domain_by_any_name(shop, source, domain):
    with setwise.open(source, user="who") as table:
        for ask in (table.histogram, lambda **words: table.top_k(k=1, **words)):
            with pytest.raises(InvalidParameter, match="private"):
                ask(item="shop", domain=domain, contributions=1, epsilon=1.0)
            assert len(ask(item="shop", domain="public.csv", contributions=1, epsilon=1.0)) > 0


def test_a_column_of_another_table():
    assert labels_of(pa.table({"city": ["b", "a", None, "b"], "size": [3, 1, 2, 2]}), "city") == ("a", "b")
    assert labels_of(pa.table({"size": [3, 1, 3]}), "size") == (1, 3)


def test_labels_fit_the_column():
    text, whole = Column(name="city", kind=Kind.TEXT), Column(name="size", kind=Kind.INTEGER)
    assert fit_labels(("1", "2"), [whole]) == (1, 2)
    assert fit_labels((1, 2), [text]) == ("1", "2")
    with pytest.raises(InvalidParameter, match="'Oslo'"):
        fit_labels(("1", "Oslo"), [whole])


def test_files_that_cannot_be(tmp_path):
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    for name in ("absent.txt", "empty.txt", "binary.txt", "broken.parquet"):
        with pytest.raises(InvalidParameter, match=name):
            read_domain(tmp_path / name)


@pytest.mark.parametrize("line", [b"Bergen,5,6", b"Troms\xf8,7"])
def test_a_damaged_line_of_a_list_of_labels_is_refused_and_not_left_out(tmp_path, line):
    """A label that is left out would be missing from every answer without a word."""
    file = tmp_path / "cities.csv"
    file.write_bytes(b"city,people\nOslo,700\n" + line + b"\n")
    with pytest.raises(InvalidParameter, match="cannot be read"):
        read_domain(f"{file}:city")


def test_a_file_is_read_as_the_description_beside_it_says(tmp_path):
    """A file of films without a header, in Latin-1 with bars between cells, was taken for one label per line."""
    films = tmp_path / "u.item"
    films.write_bytes("1|Br\u00fbl\u00e9e|x\n2|Se\u00f1or|y\n3||z\n4|none|z\n".encode("latin-1"))
    with pytest.raises(InvalidParameter, match=r"setwise check .*u\.item --save"):
        read_domain(f"{films}:title")
    written = 'separator = "|"\ncolumns = ["id", "title", "kind"]\nencoding = "latin-1"\nnull = ["none"]\n'
    (tmp_path / "u.item.toml").write_text(written)
    assert read_domain(f"{films}:title") == ("Br\u00fbl\u00e9e", "Se\u00f1or")
    assert read_domain(f"{films}:kind") == ("x", "y", "z")
    with pytest.raises(InvalidParameter, match=r"has 3 columns: name one, as in .*u\.item:id"):
        read_domain(films)
    with pytest.raises(InvalidParameter, match="no column 'name'; it has id, title, kind"):
        read_domain(f"{films}:name")
    semicolons = tmp_path / "cities.csv"
    semicolons.write_text("city;size\nOslo;7\nRome;8\n")
    (tmp_path / "cities.csv.toml").write_text('separator = ";"\n')
    assert read_domain(f"{semicolons}:city") == ("Oslo", "Rome")


def test_labels_in_another_encoding_are_converted_by_the_command_of_the_refusal(tmp_path):
    labels = tmp_path / "cities.txt"
    labels.write_bytes("K\u00f8benhavn\nOslo\n".encode("cp1252"))
    with pytest.raises(InvalidParameter, match="is not UTF-8") as refused:
        read_domain(labels)
    subprocess.run(str(refused.value).partition("as in ")[2], shell=True, check=True, timeout=60)
    assert read_domain(tmp_path / "cities.utf8.txt") == ("K\u00f8benhavn", "Oslo")


def test_the_first_line_of_a_described_list_is_a_label(tmp_path):
    """`setwise check --save` took the first of many words for a header, and the most frequent group was missing."""
    fruits = tmp_path / "fruits"
    fruits.write_text("apple\npear\nplum\n")
    assert read_domain(str(fruits)) == ("apple", "pear", "plum")
    (tmp_path / "fruits.toml").write_text('format = "csv"\n')
    assert read_domain(str(fruits)) == ("apple", "pear", "plum")
    named = tmp_path / "fruits.csv"
    named.write_text("fruit\napple\n")
    assert read_domain(str(named)) == ("apple",)
    assert (header_of_domain(str(named)), header_of_domain(str(fruits))) == ("fruit", "")
