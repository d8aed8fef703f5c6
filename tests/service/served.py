"""`setwise serve` as a process of its own."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

PATIENCE = 60.0


@dataclass
class Served:
    url: str
    process: subprocess.Popen[str]
    printed: Path
    complained: Path

    def ready(self) -> "Served":
        """Wait until the service answers."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/api/v1/health", verify=False).status_code == 200:
                    return self
            assert self.process.poll() is None, self.complained.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def kill(self) -> None:
        """End the process as a power cut would."""
        self.process.kill()
        self.process.wait(PATIENCE)


@contextlib.contextmanager
def serving(folder: Path, name: str, *options: str, files: int | None = None) -> Iterator[Served]:
    """Start the command, with a limit on open files if one is given; end it at the end."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    limited = [] if files is None else ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"]
    printed, complained = folder / f"{name}.out", folder / f"{name}.err"
    with printed.open("w") as out, complained.open("w") as err:
        process = subprocess.Popen(
            [*limited, sys.executable, "-m", "setwise.cli.main", "serve", "--port", str(port), *options],
            stdout=out,
            stderr=err,
            text=True,
            cwd=folder,
        )
    served = Served(f"http://127.0.0.1:{port}", process, printed, complained)
    try:
        yield served
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(PATIENCE)
