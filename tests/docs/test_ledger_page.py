"""The ledger's page cannot lie: the tests it names exist, its example runs, and every option and table is there."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from setwise.cli.ledger import ledger_app
from setwise.ledger.stores.schema import SCHEMA, versions

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ledger.md").read_text(encoding="utf-8")
with (ROOT / "tests" / "ledger" / "promises.csv").open(encoding="utf-8", newline="") as lines:
    PROMISES = [(row["promise"], row["held by"]) for row in csv.DictReader(lines)]


def test_there_are_promises():
    assert len(PROMISES) > 20
    assert all("`tests/" in tests for _, tests in PROMISES)
    assert "<!-- site: promises ledger -->" in PAGE


@pytest.mark.parametrize(("promise", "tests"), PROMISES)
def test_every_promise_has_its_test(promise, tests):
    for name in re.findall(r"`([^`]+)`", tests):
        path, _, test = name.partition("::")
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^def {test}\(", source, re.MULTILINE), f"{promise}: {name}"


def test_the_example_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    code = example + "    print(shown, *account.status().left)\n"
    done = subprocess.run(
        [sys.executable, "-c", code.replace("    ...", "    pass")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("[...] Use("), done.stderr


def test_every_table_and_command_is_named():
    for table in [*SCHEMA.tables, versions.name]:
        assert f"`{table}`" in PAGE
    for command in ledger_app.registered_commands:
        assert (command.name or command.callback.__name__) in PAGE
