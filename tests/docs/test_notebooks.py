"""The notebooks are their pages, and they run; what a `print(...)  # text` promises is checked."""

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from tests.docs.pages import PRINTED, ROOT

import setwise

sys.path.insert(0, str(ROOT / "website"))

from notebook import NOTEBOOKS, from_page


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_its_page(name):
    written = (ROOT / "notebooks" / name).read_text()
    assert written == from_page(name), "run make notebooks"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning", "ignore::ResourceWarning")
@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name, tmp_path, monkeypatch):
    command = tmp_path / "bin" / "setwise"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m setwise.cli.main "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(setwise.__file__).parents[1]))
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    where = tmp_path / "work"
    where.mkdir()
    read = nbformat.read(ROOT / "notebooks" / name, as_version=4)
    NotebookClient(read, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(where)}}).execute()
    for cell in read.cells:
        if promised := PRINTED.findall(cell.source):
            said = "".join(output.get("text", "") for output in cell.outputs).splitlines()
            assert said == [expected for *_, expected in promised]
