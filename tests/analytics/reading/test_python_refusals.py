"""A Python session refuses, before the charge, what the command line refuses: questions of which most is not read."""

import warnings
from pathlib import Path

import pytest

import setwise
from setwise.ledger.ledger import Ledger

USERS = range(300)


def write(folder: Path, header: str, cells: list[str], encoding: str = "utf-8") -> Path:
    path = folder / "table.csv"
    lines = [header, *(f"u{user},{cell}" for user, cell in zip(USERS, cells, strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


FILES = {
    "words": ("who,v", ["Ja", "Nein", "Nein"] * 100, "utf-8", "SELECT COUNTIF(v) AS n FROM t", "COUNTIF(v = 'Ja')"),
    "crosses": (
        "who,v", ["x", "", ""] * 100, "utf-8", "SELECT AVG(CASE WHEN v THEN 1 ELSE 0 END) AS n FROM t", "v = 'x'",
    ),
    "signs": ("who,v", ["€ 5"] * 300, "utf-8", "SELECT AVG(v) AS n FROM t", "have '€' beside them"),
    "latin": (
        "who,v", ["Köln"] * 300, "latin-1", "SELECT v, COUNT(*) AS n FROM t GROUP BY v", 'encoding="cp1252"',
    ),
    "trailing": ("who,v", ["5,"] * 300, "utf-8", "SELECT AVG(v) AS n FROM t", "skip_lines=1, columns="),
    "days": (
        "who,v", ["16.11.2026"] * 300, "utf-8", "SELECT DATE_TRUNC('month', v) AS m, COUNT(*) AS n FROM t GROUP BY m",
        'date_format="%d.%m.%Y"',
    ),
}  # fmt: skip
"""Files with a question each that reads at most half of the cells it needs, and what its refusal names."""


@pytest.mark.parametrize("name", FILES)
def test_a_question_whose_cells_are_not_read_is_refused_before_its_charge(name: str, tmp_path: Path):
    header, cells, encoding, asked, remedy = FILES[name]
    path = write(tmp_path, header, cells, encoding)
    with Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        ledger.open_filter("ada", epsilon=100.0, delta=1e-2)
        with (
            setwise.open(path, user="who", name="t", account=ledger.account("ada")) as session,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            for _ in range(2):
                with pytest.raises(setwise.SetwiseError) as refused:
                    session.sql(asked, epsilon=1.0, contributions=1)
                assert remedy in str(refused.value)
                assert "nothing was charged (setwise.open(..., scan=False) asks anyway)" in str(refused.value)
        assert ledger.account("ada").status().charges == 0


def test_a_question_is_asked_anyway_without_the_scan(tmp_path: Path):
    path = write(tmp_path, "who,v", ["€ 5"] * 300)
    with setwise.open(path, user="who", name="t", scan=False) as session:
        session.sql("SELECT AVG(v) AS n FROM t", epsilon=1.0)


def test_a_warning_comes_once_and_fits_the_types_that_the_question_needs(tmp_path: Path):
    """Each came twice, and N/A "counts as a value" stood beside "is no number and will be skipped"."""
    path = write(tmp_path, "who,v", [*["N/A"] * 30, *[" 5 "] * 270])
    with path.open("a") as file:
        file.write(",7\n" * 12)
    with setwise.open(path, user="who", name="t") as session, pytest.warns(setwise.UnreadCellsWarning) as caught:
        session.sql("SELECT AVG(v) AS n FROM t", epsilon=1.0)
    told = [str(each.message) for each in caught]
    assert len(told) == len(set(told)) == 2
    assert "12 of 312 rows have no 'who'" in told[0]
    assert "30 of 312 cells of 'v' are not numbers" in told[1]


ERRORS = {
    "semicolons.csv": ("who;v\nu1;5\n", 'csv={"separator": ";"}'),
    "blank.csv": ("\nwho,v\nu1,5\n", 'csv={"skip_lines": 1}'),
    "twice.csv": ("who,v,v\nu1,5,6\n", 'csv={"skip_lines": 1, "columns": ["who", "v", "v_3"]}'),
    "colons.csv": (
        "who,paid: true,paid: true\nu1,5,6\n",
        'csv={"skip_lines": 1, "columns": ["who", "paid: true", "paid: true_3"]}',
    ),
    "separator.csv": ("sep=;\nwho;v\nu1;5\n", 'csv={"separator": ";", "skip_lines": 1}'),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_names_the_arguments_of_open(name: str, tmp_path: Path):
    text, arguments = ERRORS[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(setwise.SetwiseError) as refused:
        setwise.open(tmp_path / name, user="who")
    assert f"(in Python: {arguments}" in str(refused.value)


def test_an_error_names_the_argument_for_types(tmp_path: Path):
    path = write(tmp_path, "who,v", ["5"] * 300)
    with (
        setwise.open(path, user="who", name="t", types={"v": "text"}) as session,
        pytest.raises(setwise.SetwiseError) as refused,
    ):
        session.sql("SELECT AVG(v) AS n FROM t", epsilon=1.0)
    assert '(in Python: types={"v": "' in str(refused.value)


def test_a_table_in_memory_says_how_it_is_named():
    import pyarrow as pa

    with (
        setwise.open(pa.table({"who": [1, 2]}), user="who") as session,
        pytest.raises(setwise.SetwiseError, match=r"write FROM source, or open\(\.\.\., name='flights'\)"),
    ):
        session.sql("SELECT COUNT(*) AS n FROM flights", epsilon=1.0)
