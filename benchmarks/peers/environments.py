"""A virtual environment for each peer, pinned, in a cache that git ignores; one that does not install says why.

python benchmarks/peers/environments.py [PEER...]
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".peers"
"""Where the environments live; `make clean` removes it."""

_PATIENCE = 900
"""Seconds an installation may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A library people would use instead: its name, its distribution, the module that shows it is there."""

    name: str
    title: str
    distribution: str
    module: str

    @property
    def requirements(self) -> Path:
        """The pinned requirements, without any address."""
        return HERE / "requirements" / f"{self.name}.txt"

    @property
    def version(self) -> str:
        """The version that is pinned."""
        pins = dict(line.split("==") for line in self.requirements.read_text().splitlines() if "==" in line)
        return pins[self.distribution]


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """An interpreter that has the peer."""

    peer: Peer
    python: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class NotBuilt:
    """A peer that did not install here, and the reason in one line."""

    peer: Peer
    reason: str


PEERS = (
    Peer(name="dp-accounting", title="dp-accounting", distribution="dp-accounting", module="dp_accounting"),
    Peer(name="prv-accountant", title="prv-accountant", distribution="prv-accountant", module="prv_accountant"),
    Peer(name="opendp", title="OpenDP", distribution="opendp", module="opendp.prelude"),
    Peer(name="autodp", title="autodp", distribution="autodp", module="autodp.mechanism_zoo"),
    Peer(name="pipelinedp", title="PipelineDP", distribution="pipeline-dp", module="pipeline_dp"),
    Peer(name="smartnoise-sql", title="SmartNoise SQL", distribution="smartnoise-sql", module="snsql"),
    Peer(name="tumult", title="Tumult Analytics", distribution="tmlt-analytics", module="tmlt.analytics"),
    Peer(name="diffprivlib", title="diffprivlib", distribution="diffprivlib", module="diffprivlib"),
)


def build(peer: Peer, cache: Path = CACHE) -> Built | NotBuilt:
    """Return the peer's environment, made when it is missing or its requirements have changed."""
    folder = cache / peer.name
    python = folder / "bin" / "python"
    stamp = folder / "requirements.txt"
    wanted = peer.requirements.read_text()
    if stamp.exists() and stamp.read_text() == wanted:
        return Built(peer=peer, python=python)
    install = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-r"]
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [*install, str(peer.requirements)],
        [str(python), "-c", f"import {peer.module}"],
    ):
        reason = _failure(command)
        if reason is not None:
            return NotBuilt(peer=peer, reason=reason)
    stamp.write_text(wanted)
    return Built(peer=peer, python=python)


def _failure(command: list[str]) -> str | None:
    """Return why the command failed, in one line, or None when it did not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or ["no message"])[-1]


def main() -> None:
    names = sys.argv[1:] or [peer.name for peer in PEERS]
    for peer in (peer for peer in PEERS if peer.name in names):
        match build(peer):
            case Built(python=python):
                print(f"{peer.title} {peer.version}: {python}")
            case NotBuilt(reason=reason):
                print(f"{peer.title} {peer.version}: not installed, {reason}")


if __name__ == "__main__":
    main()
