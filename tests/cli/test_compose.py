"""`setwise compose` and `setwise calibrate`: the contract of their JSON, exit status and errors."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from tests.command_line import process

from setwise import __version__, compose


def test_json_is_the_contract(setwise):
    done = setwise("compose", "pure:0.1x25", "--delta", "1e-6", "--json")
    found = json.loads(done.stdout)
    assert set(found) == {"interaction", "epsilon", "delta", "method", "statement"}
    assert found["interaction"] == "setwise"
    assert found["delta"] == {"lower": 1e-6, "upper": 1e-6}
    assert found["epsilon"]["lower"] <= 2.07905647131726 <= found["epsilon"]["upper"]
    assert done.returncode == 0
    assert done.stderr == ""


def test_delta_from_epsilon(setwise):
    found = json.loads(setwise("compose", "gaussian:2", "--epsilon", "1", "--json", "--interaction", "batch").stdout)
    assert found["epsilon"] == {"lower": 1.0, "upper": 1.0}
    assert found["delta"]["upper"] == pytest.approx(0.00682959498311458, rel=1e-9)


@pytest.mark.parametrize("interaction", ["batch", "ordered", "setwise", "adaptive"])
def test_every_interaction(setwise, interaction):
    words = ["bounded-range:0.1x5", "pure:0.1x5", "--delta", "1e-6", "--interaction", interaction, "--json"]
    found = json.loads(setwise("compose", *words).stdout)
    expected = compose(["bounded-range:0.1x5", "pure:0.1x5"], interaction).epsilon(1e-6)
    assert found["interaction"] == interaction
    assert found["epsilon"] == {"lower": expected.lower, "upper": expected.upper}


def test_people_get_a_table(setwise):
    done = setwise("compose", "pure:0.1x25", "--delta", "1e-6")
    assert "2.07906 is promised" in done.stdout
    assert "thm:opt_DPCOMP" in done.stdout


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["pure:-0.1", "--delta", "1e-6"], "-0.1"),
        (["pure:nan", "--delta", "1e-6"], "nan"),
        (["pure:inf", "--delta", "1e-6"], "inf"),
        (["pure:abc", "--delta", "1e-6"], "pure:abc"),
        (["pure:0.1x0", "--delta", "1e-6"], "0"),
        (["pure:0.1x1000000000000", "--delta", "1e-6"], "1000000000000"),
        (["pure:0.1x2.5", "--delta", "1e-6"], "2.5"),
        (["frobnicate:0.1", "--delta", "1e-6"], "frobnicate"),
        (["pure:0.1", "--delta", "0"], "0"),
        (["pure:0.1", "--delta", "1"], "1"),
        (["pure:0.1", "--delta", "nan"], "nan"),
        (["pure:0.1", "--delta", "abc"], "--delta"),
        (["pure:0.1", "--epsilon", "-1"], "-1"),
        (["pure:0.1", "--epsilon", "inf"], "inf"),
        (["pure:0.1"], "--delta"),
        (["pure:0.1", "--delta", "1e-6", "--epsilon", "1"], "--epsilon"),
        (["pure:0.1", "--delta", "1e-6", "--interaction", "sometimes"], "sometimes"),
        (["pure:0.1", "--delta", "1e-6", "--width", "0"], "width"),
        (["approx:0,1e-5", "--delta", "1e-6"], "1e-05"),
        (["--delta", "1e-6"], "MECH"),
    ],
)
def test_bad_requests_get_one_sentence_and_status_2(setwise, words, named):
    done = setwise("compose", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("setwise: ")
    assert named in line


def test_width_is_kept_or_refused(setwise):
    found = json.loads(
        setwise("compose", "bounded-range:0.1x20", "--delta", "1e-6", "--width", "1e-4", "--json").stdout
    )
    assert found["epsilon"]["upper"] - found["epsilon"]["lower"] <= 1e-4 * found["epsilon"]["upper"]
    refused = setwise("compose", "zcdp:0.02x10", "--delta", "1e-6", "--width", "1e-4")
    assert refused.returncode == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("top-k", "t", "--user", "a", "--item", "b", "-k", "five"),
            "-k must be a whole number; see setwise top-k --help",
        ),
        (("compose", "pure:1", "--delta", "x"), "--delta must be a number; see setwise compose --help"),
        (("serve", "--port", "99999999"), "--port must be less than or equal to 65535; see setwise serve --help"),
        (("ledger", "open"), "Missing argument 'NAME'; see setwise ledger open --help"),
        (("count", "t", "--qqqqqq"), "No such option: --qqqqqq; see setwise count --help"),
        (("frobnicate",), "No such command 'frobnicate'; see setwise --help"),
    ],
)
def test_words_that_cannot_be_read_name_the_help_to_look_at(setwise, words, told):
    done = setwise(*words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"setwise: {told}\n")


def test_numbers_are_written_alike_for_people(setwise):
    done = setwise("calibrate", "gaussian:?x25", "--epsilon", "1", "--delta", "1e-6")
    assert re.search(r"Smallest noise +│ 21\.1234 ", done.stdout)
    assert "1e-06 is promised (the optimum lies there)" in done.stdout
    done = setwise("calibrate", "pure:?x2", "--epsilon", "0.2", "--delta", "1e-6")
    assert re.search(r"Largest per-use epsilon +│ 0\.1000\d+ ", done.stdout)


def test_calibrate(setwise):
    found = json.loads(setwise("calibrate", "gaussian:?x25", "--epsilon", "1", "--delta", "1e-6", "--json").stdout)
    assert found["free"] == "noise"
    assert found["value"] == pytest.approx(21.1234, rel=1e-5)
    assert found["delta"]["upper"] <= 1e-6
    count = json.loads(setwise("calibrate", "pure:0.1x?", "--epsilon", "2", "--delta", "1e-6", "--json").stdout)
    assert count["value"] == 24
    assert compose(["pure:0.1x25"]).epsilon(1e-6).lower > 2.0


@pytest.mark.parametrize(
    "words",
    [
        ["gaussian:20", "--epsilon", "1", "--delta", "1e-6"],
        ["gaussian:?", "pure:?", "--epsilon", "1", "--delta", "1e-6"],
        ["zcdp:?", "--epsilon", "1", "--delta", "1e-6"],
        ["gaussian:?", "--epsilon", "1"],
        ["gaussian:?", "pure:2x100", "--epsilon", "0.5", "--delta", "1e-6"],
        ["pure:1x?", "--epsilon", "0.5", "--delta", "1e-6"],
    ],
)
def test_calibrate_refuses(setwise, words):
    done = setwise("calibrate", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def test_help_and_version_are_quick_and_whole():
    started = time.perf_counter()
    done = process("--help")
    assert time.perf_counter() - started < 60  # a sanity bound only: the machine may be busy
    for command in ("compose", "calibrate", "demo", "ledger"):
        assert command in done.stdout
    assert process("--version").stdout == f"setwise {__version__}\n"


def test_help_imports_nothing_heavy():
    code = (
        "import sys, setwise.cli.main as m; sys.argv = ['setwise', '--help']\ntry: m.main()\nexcept SystemExit: pass\n"
    )
    code += "print('heavy:', sorted({'numpy', 'scipy', 'duckdb', 'pyarrow', 'sqlalchemy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "heavy: []"


def test_long_work_shows_progress_on_a_terminal_and_is_interrupted_cleanly():
    terminal, end = os.openpty()
    process = subprocess.Popen(
        # With a width that was asked for the work may take its time.
        [sys.executable, "-m", "setwise.cli.main", "compose", "bounded-range:0.1x5000", "--delta=1e-6", "--width=1e-4"],
        stdout=subprocess.PIPE,
        stderr=end,
        # Started in the background, a test run ignores interrupts, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    os.close(end)
    told = b""
    while b"composing:" not in told:
        told += os.read(terminal, 1000)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    while not told.rstrip().endswith(b"setwise: interrupted"):
        told += os.read(terminal, 1000)
    os.close(terminal)
    assert (out, process.returncode) == (b"", 130)


def test_nothing_but_errors_goes_to_a_file_of_errors(capsys, monkeypatch):
    from setwise.cli import output as told

    monkeypatch.setattr(told, "PATIENCE", -1.0)
    with told.progress("composing") as report:
        report(0.5)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with told.progress("composing") as report:
        report(0.5)
    assert "composing:  50%" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_output_that_cannot_be_written_is_told_in_one_sentence(form):
    words = [sys.executable, "-m", "setwise.cli.main", "compose", "pure:0.1", "--delta", "1e-6", *form]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert done.returncode == 4
    assert done.stderr == "setwise: the output could not be written: No space left on device\n"
