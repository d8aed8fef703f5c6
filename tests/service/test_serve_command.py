"""`setwise serve` starts alone, prints the first steward's token once, and refuses in one sentence."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from setwise.cli.main import main
from setwise.service.server import listen
from setwise.service.settings import Settings
from tests.service.replica import QUICK, running
from tests.service.served import serving


def test_the_first_start_prints_a_token_and_the_next_does_not(tmp_path: Path):
    with serving(tmp_path, "first") as first:
        first.ready()
        token = first.printed.read_text().split()[-1]
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{first.url}/api/v1/me", headers=headers).json()["role"] == "steward"
    assert first.process.returncode in {0, -15}
    assert first.complained.read_text() == ""
    with serving(tmp_path, "second") as second:
        second.ready()
        assert httpx.get(f"{second.url}/api/v1/me", headers=headers).status_code == 200
        assert second.printed.read_text() == (
            f"listening on {second.url}; sign in at {second.url}/login with a token, which stewards make\n"
        )
    with serving(tmp_path, "third", "--steward-token") as third:
        another = third.ready().printed.read_text().split()[-1]
        assert another != token
        for each in (token, another):
            found = httpx.get(f"{third.url}/api/v1/me", headers={"Authorization": f"Bearer {each}"})
            assert found.json()["name"] == "steward"
    assert (tmp_path / "setwise.db").exists()


@pytest.mark.parametrize(
    ("options", "status", "says"),
    [
        (["--data-dir", "nowhere"], 2, "data folder"),
        (["--ledger", "mysql://x"], 2, "ledger"),
        (["--ledger", "postgresql://nobody:hunter2@127.0.0.1:9/none"], 4, "ledger"),
        (["--port", "99999"], 2, "port"),
        (["--answer-step", "-1"], 2, "answer_step"),
        (["--engine", "abacus"], 2, "abacus"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    status: int,
    says: str,
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["setwise", "serve", *options])
    with pytest.raises(SystemExit) as ended:
        main()
    found = capsys.readouterr()
    assert ended.value.code == status, found.err
    assert says in found.err
    assert len(found.err.strip().splitlines()) == 1
    assert "hunter2" not in found.err + found.out


def test_without_its_extra_the_command_says_what_to_install(tmp_path: Path):
    hidden = (
        "import sys; sys.modules['fastapi'] = None; from setwise.cli.main import main; sys.argv[1:] = ['serve']; main()"
    )
    found = subprocess.run([sys.executable, "-c", hidden], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "pip install 'setwise[service]'" in found.stderr


def test_a_taken_port_is_told_in_one_sentence_and_costs_no_token(tmp_path: Path):
    (tmp_path / "data").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "setwise.cli.main", "serve", "--data-dir", "data", "--port", str(port)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith(f"setwise: port {port} of 127.0.0.1 cannot be listened on")
    assert len(done.stderr.splitlines()) == 1
    with running(Settings(ledger=str(tmp_path / "setwise.db"), data_dir=tmp_path / "data", **QUICK)) as after:
        assert after.steward


def test_answers_do_not_wait_for_acknowledgements():
    """The event loop sets TCP_NODELAY on connections that name their protocol, and on no others."""
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP


def test_a_free_port_is_found_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    served: list[int] = []

    class Server:
        def __init__(self, app: FastAPI, settings: Settings) -> None:
            self.app = app

        def run(self, sockets: list[socket.socket]) -> None:
            served.append(sockets[0].getsockname()[1])
            asyncio.run(self.app.state.service.close())

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("setwise.service.server.make_server", Server)
    monkeypatch.setattr("setwise.service.telemetry.configure", lambda log: None)  # which would last
    monkeypatch.setattr(sys, "argv", ["setwise", "serve", "--port", "0"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    (port,) = served
    assert capsys.readouterr().out.startswith(f"listening on http://127.0.0.1:{port}; ")
