"""COPY (SELECT ...) TO STDOUT, as psql's copy and drivers that read whole results send it; nothing else is copied."""

import csv
import io
import struct
from typing import Any

import psycopg
import pytest

from setwise.service.postgres.copy_out import BINARY_HEADER, encode_header, parse_copy, row_encoder
from setwise.service.postgres.replies import CopyFormat, Rejected, Result
from setwise.service.postgres.values import FLOAT8, INT8, TEXT, ResultColumn
from tests.service.team import Team
from tests.service.test_postgres_door import SQL, charges, url

COLUMNS = (ResultColumn("name", TEXT), ResultColumn("n", INT8), ResultColumn("mean", FLOAT8))
ROWS: list[tuple[object, ...]] = [
    ("plain", 1, 0.5),
    ('a "b", c\\d\te\r\nf', -2, None),
    ("", None, 1e300),
    ("\\N", 3, 0.0),
]


def copied(options: str) -> bytes:
    """Return the bytes of the rows in the form that a COPY with `options` asks for."""
    format_ = parse_copy(f"COPY (SELECT 1) TO STDOUT {options}")[1]
    result = Result(COLUMNS, ROWS)
    return encode_header(format_, COLUMNS) + b"".join(map(row_encoder(format_, result), ROWS))


def test_csv_is_read_back():
    text = copied("WITH (FORMAT csv, HEADER true)").decode()
    found = list(csv.reader(io.StringIO(text, newline="")))
    assert found[0] == ["name", "n", "mean"]
    assert [row[0] for row in found[1:]] == [row[0] for row in ROWS]
    assert '"",,1e+300\n' in text, "an empty text is quoted, and null is not"
    assert copied("CSV DELIMITER ';'").startswith(b"plain;1;0.5\n")


def test_text_has_no_raw_line_ends_or_delimiters():
    lines = copied("").split(b"\n")
    assert lines[:2] == [b"plain\t1\t0.5", b'a "b", c\\\\d\\te\\r\\nf\t-2\t\\N']
    assert lines[3] == b"\\\\N\t3\t0.0", "a text that looks like null is escaped"
    assert copied("(FORMAT text, NULL 'none')").split(b"\n")[1].endswith(b"\tnone")


def test_the_binary_form_has_lengths():
    data = copied("WITH BINARY")
    assert data.startswith(BINARY_HEADER + struct.pack("!hi", 3, 5) + b"plain" + struct.pack("!iqid", 8, 1, 8, 0.5))


@pytest.mark.parametrize(
    ("text", "query", "form"),
    [
        ("COPY (SELECT ')' FROM (VALUES (1)) t) TO STDOUT", "SELECT ')' FROM (VALUES (1)) t", "text"),
        ("copy(SELECT 1 -- )\n)to stdout(format 'csv')", "SELECT 1 -- )", "csv"),
        ("COPY (SELECT 1) TO STDOUT (FORMAT BINARY);", "SELECT 1", "binary"),
        ("COPY (SELECT 1) TO STDOUT WITH (FORMAT CSV, ENCODING 'UTF8', HEADER OFF)", "SELECT 1", "csv"),
    ],
)
def test_the_select_and_its_options_are_read(text: str, query: str, form: str):
    found, format_ = parse_copy(text)
    assert (found, format_.form, format_.has_header) == (query, form, False)


@pytest.mark.parametrize(
    "text",
    [
        "COPY visits TO STDOUT",
        "COPY visits (country) TO STDOUT",
        "COPY visits FROM STDIN",
        "COPY (SELECT 1) TO '/tmp/file'",
        "COPY (SELECT 1) TO PROGRAM 'cat'",
        "COPY (SELECT 1 TO STDOUT",
        "COPY (SELECT 1) TO STDOUT (FORMAT parquet)",
        "COPY (SELECT 1) TO STDOUT (FORMAT csv, FORCE_QUOTE *)",
    ],
)
def test_other_copies_are_refused(text: str):
    with pytest.raises(Rejected):
        parse_copy(text)


def test_a_copy_is_one_charge_and_replayed(door: tuple[Team, int]):
    team, _ = door
    with psycopg.connect(url(door), autocommit=True) as connection:
        rows = connection.execute(SQL).fetchall()
        before = charges(team)
        with connection.cursor().copy(f"COPY ({SQL}) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["text", "int8"])
            assert list(copy.rows()) == rows
        with connection.cursor().copy(f"COPY ({SQL}) TO STDOUT CSV HEADER") as copy:
            lines = b"".join(bytes(part) for part in copy).decode().splitlines()
        assert lines == ["country,users", *(f"{country},{users}" for country, users in rows)]
        assert charges(team) == before
        with connection.cursor().copy("COPY (SELECT relname FROM pg_class WHERE false) TO STDOUT BINARY") as copy:
            copy.set_types(["text"])
            assert list(copy.rows()) == []


@pytest.mark.parametrize(
    "statement", ["COPY (SELECT * FROM visits) TO STDOUT", "COPY visits TO STDOUT", "COPY visits FROM STDIN"]
)
def test_rows_are_not_copied(door: tuple[Team, int], statement: str):
    team, _ = door
    before = charges(team)
    with psycopg.connect(url(door), autocommit=True) as connection:
        cursor: Any = connection.cursor()
        with pytest.raises(psycopg.errors.InsufficientPrivilege), cursor.copy(statement) as copy:
            list(copy)
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert charges(team) == before


def test_the_default_format_is_text():
    assert parse_copy("COPY (SELECT 1) TO STDOUT")[1] == CopyFormat(
        form="text", has_header=False, delimiter="\t", null="\\N"
    )
