"""Twenty files as people get them: each is read with the options given, and without them refused with their names.

`Messy.options` reads the file; where they are empty it is read as it is. `remedy` is what the refusal must say. All
hold the same table: users 1 to 30 in `user`, of whom the first twenty have `tea` in `drink` and the others `café`.
"""

import bz2
import gzip
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

ROWS = [(str(user), "tea" if user <= 20 else "café") for user in range(1, 31)]
EXPECTED = {"tea": 20, "café": 10}
NAMES = ["user", "drink"]


def lines(*above: str, separator: str = ",", end: str = "\n", header: bool = True, last: str = "") -> str:
    rows = [(*NAMES,), *ROWS] if header else ROWS
    return "".join(f"{line}{end}" for line in (*above, *(separator.join(row) + last for row in rows)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Messy:
    name: str
    data: bytes
    options: dict[str, Any] = field(default_factory=dict)
    remedy: str = ""


FILES = {
    "plain": Messy(name="plain.csv", data=lines().encode()),
    "byte order mark and CR LF": Messy(name="excel.csv", data=lines(end="\r\n").encode("utf-8-sig")),
    "blanks around names": Messy(name="blanks.csv", data=lines().replace("user,", "user , ").encode()),
    "quoted throughout": Messy(name="quoted.csv", data="".join(f'"{a}","{b}"\r\n' for a, b in [NAMES, *ROWS]).encode()),
    "tabs": Messy(name="table.tsv", data=lines(separator="\t").encode()),
    "gzip": Messy(name="table.csv.gz", data=gzip.compress(lines().encode())),
    "zstd": Messy(name="table.csv.zst", data=pa.compress(lines().encode(), "zstd", asbytes=True)),
    "bzip2": Messy(name="table.csv.bz2", data=bz2.compress(lines().encode())),
    "gzip without its ending": Messy(
        name="table.csv", data=gzip.compress(lines().encode()), options={"format": "csv.gz"}, remedy="--format csv.gz"
    ),
    "an ending that says nothing": Messy(
        name="u.data", data=lines(separator="\t").encode(), options={"format": "tsv"}, remedy="--format csv or tsv"
    ),
    "semicolons": Messy(
        name="europe.csv",
        data=lines(separator=";").encode(),
        options={"separator": ";"},
        remedy="one name with semicolons: give --separator ';'",
    ),
    "tabs in a .csv": Messy(
        name="tabs.csv", data=lines(separator="\t").encode(), options={"separator": "\t"}, remedy="--separator tab"
    ),
    "bars": Messy(
        name="bars.csv", data=lines(separator="|").encode(), options={"separator": "|"}, remedy="--separator '|'"
    ),
    "Latin-1": Messy(
        name="latin.csv",
        data=lines().replace("drink", "beveragé").encode("latin-1"),
        options={"encoding": "latin-1", "skip_lines": 1, "columns": NAMES},
        remedy="--encoding cp1252",
    ),
    "UTF-16 with its mark": Messy(
        name="unicode.csv",
        data=lines(end="\r\n").encode("utf-16"),
        options={"encoding": "utf-16"},
        remedy="--encoding utf-16",
    ),
    "UTF-16, big end first": Messy(
        name="big.csv",
        data=lines().encode("utf-16-be"),
        options={"encoding": "utf-16-be"},
        remedy="--encoding utf-16-be",
    ),
    "UTF-16, little end first, semicolons": Messy(
        name="little.csv",
        data=lines(separator=";").encode("utf-16-le"),
        options={"encoding": "utf-16-le", "separator": ";"},
        remedy="--encoding utf-16-le",
    ),
    "a title above the header": Messy(
        name="report.csv", data=lines("Drinks of 2024,").encode(), options={"skip_lines": 1}, remedy="--skip-lines"
    ),
    "a blank line above the header": Messy(
        name="blank.csv", data=lines("").encode(), options={"skip_lines": 1}, remedy="--skip-lines 1"
    ),
    "no header": Messy(
        name="headerless.csv",
        data=lines(header=False).encode(),
        options={"columns": NAMES},
        remedy="--no-header --columns",
    ),
    "double colons, no header, Latin-1, no ending": Messy(
        name="ratings.dat",
        data=lines(separator="::", header=False).encode("latin-1"),
        options={"separator": "::", "columns": NAMES, "encoding": "latin-1"},
        remedy="--separator",
    ),
    "an index without a name": Messy(
        name="pandas.csv",
        data=("," + ",".join(NAMES) + "\n" + "".join(f"{row},{a},{b}\n" for row, (a, b) in enumerate(ROWS))).encode(),
        options={"skip_lines": 1, "columns": ["column_1", *NAMES]},
        remedy="--skip-lines 1 --no-header --columns column_1,user,drink",
    ),
    "separators at the ends of lines": Messy(
        name="trailing.csv",
        data=lines(last=",").encode(),
        options={"skip_lines": 1, "columns": [*NAMES, "column_3"]},
        remedy="--skip-lines 1 --no-header --columns user,drink,column_3",
    ),
    "a name twice": Messy(
        name="twice.csv",
        data=lines().replace("drink", "user").encode(),
        options={"skip_lines": 1, "columns": NAMES},
        remedy="--skip-lines 1 --no-header --columns",
    ),
    "a header over two lines": Messy(
        name="folded.csv",
        data=lines().replace("user,", '"user\n(number)",').encode(),
        options={"skip_lines": 2, "columns": NAMES},
        remedy="--skip-lines for all of its lines and --no-header --columns",
    ),
    "names that are numbers": Messy(
        name="pivot.csv",
        data=lines().replace("user,drink", "user,drink,2024").replace("\n", ",1\n").replace("2024,1", "2024").encode(),
        options={"header": True},
        remedy="--header if these are the names",
    ),
    "not compressed as its name says": Messy(
        name="plain.csv.gz", data=lines().encode(), options={"format": "csv"}, remedy="--format csv"
    ),
}
