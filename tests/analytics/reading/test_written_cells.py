"""Cells as the holder of a file says they are written: decimal commas, thousands, dates, words for empty cells."""

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

import setwise
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.files import CsvOptions, read_description, write_description
from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter

WRITTEN: list[tuple[dict[str, Any], Kind, dict[str, Any]]] = [
    (
        {"thousands": ","},
        Kind.INTEGER,
        {"1,234": 1234, "12,345,678": 12345678, "7": 7, "1234": 1234, "1,234.00": 1234, "-1,000": -1000}
        | {"12,34": None, "1,2345": None, ",234": None, "1,234.5": None, "1.234": None, "x": None},
    ),
    (
        {"decimal": ",", "thousands": "."},
        Kind.FLOAT,
        {"1.234,5": 1234.5, "0,5": 0.5, ",5": 0.5, "-1.000": -1000.0, "1234,5": 1234.5, "1,5e2": 150.0}
        | {"1.5": None, "1,234.5": None, "1.2345": None},
    ),
    ({"decimal": ","}, Kind.FLOAT, {"1,5": 1.5, "7": 7.0, "1.5": None, "1.234,5": None}),
    ({"decimal": ","}, Kind.INTEGER, {"2,0": 2, "7": 7, "2,5": None, "2.0": None}),
    ({"thousands": "'"}, Kind.INTEGER, {"1'234": 1234, "1'23": None, "1,234": None}),
    ({"thousands": "\u202f", "decimal": ","}, Kind.FLOAT, {"1\u202f234,5": 1234.5, "1 234,5": None}),
    ({"thousands": " "}, Kind.INTEGER, {"1 234": 1234, " 5 ": 5}),
    (
        {"date_format": "%d.%m.%Y"},
        Kind.DATE,
        {"16.11.2026": date(2026, 11, 16), "1.2.2024": date(2024, 2, 1), "2024-02-01": date(2024, 2, 1)}
        | {"11.16.2026": None, "31.02.2024": None, "16.11.26": None, "16/11/2026": None, "x": None},
    ),
    (
        {"date_format": "%m/%d/%Y"},
        Kind.TIMESTAMP,
        {"11/16/2026 10:30": datetime(2026, 11, 16, 10, 30), "1/2/2024": datetime(2024, 1, 2)}
        | {"11/16/2026 10:30:59.5 +02:00": datetime(2026, 11, 16, 8, 30, 59, 500000), "16/11/2026": None}
        | {"1/2/2024 9:30": datetime(2024, 1, 2, 9, 30), "2024-1-2 9:30:05": datetime(2024, 1, 2, 9, 30, 5)}
        | {"11/16/2026x": None},
    ),
    (
        {"date_format": "%d-%b-%y"},
        Kind.DATE,
        {"16-Nov-26": date(2026, 11, 16), "1-jan-99": date(1999, 1, 1), "16-Nox-26": None, "16-Nov-2026": None},
    ),
    (
        {"date_format": "%b %d, %Y"},
        Kind.DATE,
        {"June 01, 2024": date(2024, 6, 1), "jun 1, 2024": date(2024, 6, 1), "SEPTEMBER 30, 2024": date(2024, 9, 30)}
        | {"Septemb 30, 2024": None, "Septembers 30, 2024": None, "June 31, 2024": None},
    ),
    ({"date_format": "%Y.%d.%m"}, Kind.DATE, {"2024.16.11": date(2024, 11, 16), "2024-11-16": None}),
    ({"null": ("NULL", "N/A", "-999", "it's")}, Kind.TEXT, {"NULL": None, " N/A ": None, "null": "null", "it's": None}),
    ({"null": ("-999",)}, Kind.INTEGER, {"-999": None, "999": 999, "x": None}),
]
"""Options, the kind of a column, and its cells with their values."""


@pytest.mark.parametrize(("options", "kind", "cells"), WRITTEN)
def test_cells_are_read_as_the_holder_says(options: dict[str, Any], kind: Kind, cells: dict[str, Any], tmp_path: Path):
    file = tmp_path / "table.csv"
    file.write_text("n;c\n" + "".join(f'{number};"{cell}"\n' for number, cell in enumerate(cells)), encoding="utf-8")
    types = {} if kind is Kind.TEXT else {"c": kind}
    with open_engine(file, types=types, csv=CsvOptions(separator=";", **options)) as engine:
        cursor = engine._connection.cursor()  # type: ignore[attr-defined]
        found = cursor.execute(f"SELECT c FROM {engine._table.relation(cursor)} ORDER BY CAST(n AS INT)").fetchall()  # type: ignore[attr-defined]
    assert [value for (value,) in found] == list(cells.values())


@pytest.mark.parametrize(
    "options",
    [
        {"decimal": ";"},
        {"thousands": "x"},
        {"decimal": ",", "thousands": ","},
        {"date_format": "%d.%m"},
        {"date_format": "%d.%m.%Y %H"},
        {"date_format": "%d%m[%Y"},
        {"date_format": "DD.MM.YYYY"},
        {"null": ("",)},
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any]):
    with pytest.raises(InvalidParameter):
        CsvOptions(**options)


def test_a_description_keeps_the_options(tmp_path: Path):
    options = CsvOptions(decimal=",", thousands=".", date_format="%d.%m.%Y", null=("NULL", "N/A"))
    place = write_description(tmp_path / "a.csv", options, {"x": Kind.FLOAT})
    assert read_description(place) == ({"x": Kind.FLOAT}, options)


def test_options_are_words_of_open(tmp_path: Path):
    (tmp_path / "a.csv").write_text('who,much,land\na,"1,234",NO\nb,"2,000",NULL\n')
    with setwise.open(
        tmp_path / "a.csv", user="who", types={"much": "integer"}, thousands=",", null=["NULL"]
    ) as session:
        engine = session._engine
        assert engine.histogram(Aggregation(user="who", value="much", per_item=10**6)).counts.tolist() == [3234]
        assert engine.histogram(Aggregation(user="who", item="land")).labels == ("NO",)
