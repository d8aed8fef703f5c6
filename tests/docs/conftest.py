"""The site, built once for all tests that read it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

import setwise


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site; building it raises on any warning."""
    folder = tmp_path_factory.mktemp("site")
    _build(folder)
    return folder


def _build(folder: Path) -> None:
    source = str(Path(setwise.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": source},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr, done.stderr
