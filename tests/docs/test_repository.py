"""Nothing in the repository points at a machine or a registry."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tracked() -> list[Path]:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in names]


def test_lock_and_constraint_files_have_no_addresses():
    assert "://" not in (ROOT / "constraints.txt").read_text()
    assert not [path for path in tracked() if path.suffix == ".lock" or path.name == "pylock.toml"]


def test_no_file_names_a_path_of_a_machine():
    pattern = re.compile(r"(?<![\w.~-])/(work|root|farm|home)/")
    found = [path for path in tracked() if path.suffix in {".py", ".md", ".toml", ".txt", ""} and path.is_file()]
    assert found
    assert not [path for path in found if pattern.search(path.read_text(errors="replace")) and path != Path(__file__)]


def test_files_stay_short():
    long = [path for path in tracked() if path.suffix == ".py" and len(path.read_text().splitlines()) > 400]
    assert not long
