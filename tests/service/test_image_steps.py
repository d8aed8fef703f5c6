"""The steps of the image, each run by itself in a fresh folder: what is copied suffices, and what is started serves."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STEPS = re.sub(r"\\\n", " ", (ROOT / "deploy/Dockerfile").read_text()).splitlines()
PATIENCE = 60.0


def _step(instruction: str) -> list[str]:
    return [line.removeprefix(f"{instruction} ") for line in STEPS if line.startswith(f"{instruction} ")]


def test_what_is_copied_is_there():
    for line in _step("COPY"):
        *sources, _ = line.split()
        for source in sources:
            assert source.startswith(("--from", "/opt")) or (ROOT / source).exists(), source


def test_what_the_package_is_built_from_is_copied():
    copied = [source for line in _step("COPY") for source in line.split()[:-1]]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [*wheel["packages"], *wheel.get("force-include", {}), project["project"]["readme"]]
    for path in needed:
        assert any(path == source or path.startswith(f"{source}/") for source in copied), path


@pytest.mark.slow
def test_the_image_is_built_and_serves_when_its_steps_are_run(tmp_path: Path):
    """Without a container engine: /source and /opt are folders of this test, and the user is whoever runs it."""

    def moved(text: str) -> str:
        return text.replace("/source", f"{tmp_path}/source").replace("/opt", f"{tmp_path}/opt")

    build, _ = (index for index, line in enumerate(STEPS) if line.startswith("FROM"))
    last = [index for index, line in enumerate(STEPS) if line.startswith("FROM")][-1]
    for line in STEPS[build:last]:
        if line.startswith("COPY "):
            *sources, target = moved(line.removeprefix("COPY ")).split()
            for source in sources:
                into = Path(target) / (Path(source).name if target.endswith("/") else "")
                into.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, into)
        elif line.startswith("RUN "):
            command = re.sub(r"\bpython -m venv", f"{shlex.quote(sys.executable)} -m venv", moved(line[4:]), count=1)
            subprocess.run(["sh", "-euc", command], check=True, cwd=tmp_path)
    (tmp_path / "data").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    start = [moved(word) for word in json.loads(_step("ENTRYPOINT")[0])]
    start = ["127.0.0.1" if word == "0.0.0.0" else word.replace("/data", f"{tmp_path}/data") for word in start]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ledger = str(tmp_path / "setwise.db")
    process = subprocess.Popen([*start, "--port", port, "--ledger", ledger], cwd=tmp_path, env=clean)
    try:
        health = _step("HEALTHCHECK")[0].partition(" CMD ")[2]
        check = ["sh", "-c", moved(health).replace(":8000", f":{port}")]
        deadline = time.monotonic() + PATIENCE
        while subprocess.run(check, check=False, env=clean, capture_output=True).returncode:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.5)
    finally:
        process.terminate()
        process.wait(PATIENCE)
