"""What Spark sends to its executors to read CSV files runs where Setwise is not installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from setwise.analytics.engines.csv_format import CsvFormat
from setwise.analytics.engines.csv_reader import CsvFile

READ = """
import pickle, sys
sys.modules["setwise"] = None  # every import of it fails
with open(sys.argv[1], "rb") as file:
    rows = pickle.load(file)()
print(rows)
"""


@pytest.mark.parametrize(
    ("form", "content"),
    [
        (CsvFormat(), "who,city\n1,Ålesund\n".encode()),
        (CsvFormat(encoding="latin-1"), "who,city\n1,Ålesund\n".encode("latin-1")),
        (CsvFormat(encoding="utf-16"), "who,city\n1,Ålesund\n".encode("utf-16")),
        (CsvFormat(separator="::"), "who::city\n1::Ålesund\n".encode()),
        (CsvFormat(quote="'"), "who,city\n1,'Ålesund'\n".encode()),
    ],
    ids=["utf-8", "latin-1", "utf-16", "separator", "quote"],
)
def test_files_are_read_without_setwise(form: CsvFormat, content: bytes, tmp_path: Path):
    pytest.importorskip("pyspark")
    from pyspark import cloudpickle

    import setwise.analytics.engines.spark.files  # noqa: F401  # registers which modules are sent by value

    def rows() -> list[dict[str, str]]:
        import io

        file = CsvFile(lambda: form.open_converted(io.BytesIO(content), "cities.csv"), form)
        return [row for batch in file.batches(["who", "city"]) for row in batch.to_pylist()]

    sent = tmp_path / "sent"
    sent.write_bytes(cloudpickle.dumps(rows))
    command = [sys.executable, "-X", "utf8", "-c", READ, str(sent)]
    done = subprocess.run(command, capture_output=True, check=False, encoding="utf-8")
    assert done.stdout == "[{'who': '1', 'city': 'Ålesund'}]\n", done.stderr
