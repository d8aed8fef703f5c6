"""Files as people have them are read in at most two attempts: the first refusal ends with a command that works."""

import gzip
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from setwise.cli.main import app

ROWS = range(400)
CITIES = ("Oslo", "Zürich", "München", "Paris")
PAID = ("--epsilon", "90", "--delta", "0.001", "--json")


def table(header: str, cell: Callable[[int], str], separator: str = ",") -> str:
    return "\n".join([header, *(f"u{user}{separator}{cell(user)}" for user in ROWS)]) + "\n"


def day(user: int) -> tuple[int, int]:
    return 1 + user % 28, 1 + user % 12


def total(numbers: Callable[[int], float]) -> float:
    return float(sum(numbers(user) for user in ROWS))


SUM = ("sum", "--value", "v", "--clip", "500")
MEAN = ("mean", "--value", "v", "--low", "0", "--high", "100")
CITY = ("histogram", "--item", "city", "--contributions", "1")
MONTH = ("histogram", "--item", "day by month", "--contributions", "1")
CITY_COUNTS = dict.fromkeys(CITIES, 100)
MONTH_COUNTS = {f"2026-{month:02}": sum(day(user)[1] == month for user in ROWS) for month in range(1, 13)}

FILES: dict[str, tuple[bytes, tuple[str, ...], object]] = {
    "latin1.csv": (table("who,city", lambda user: CITIES[user % 4]).encode("latin-1"), CITY, CITY_COUNTS),
    "utf16.csv": (table("who,city", lambda user: CITIES[user % 4]).encode("utf-16"), CITY, CITY_COUNTS),
    "bom.csv": (table("who,city", lambda user: CITIES[user % 4]).encode("utf-8-sig"), CITY, CITY_COUNTS),
    "semicolons.csv": (table("who;city", lambda user: CITIES[user % 4], ";").encode(), CITY, CITY_COUNTS),
    "decimal_commas.csv": (
        table("who;v", lambda user: f"{user % 50},5", ";").encode(), MEAN, total(lambda user: user % 50 + 0.5) / 400,
    ),
    "thousands.csv": (
        table("who;v", lambda user: f"{user * 100:,}", ";").encode(),
        ("sum", "--value", "v", "--clip", "50000"),
        total(lambda user: user * 100),
    ),
    "quoted_newlines.csv": (
        table("who,note,city", lambda user: f'"a\nb, c",{CITIES[user % 4]}').encode(), CITY, CITY_COUNTS,
    ),
    "days_first.csv": (
        table("who,day", lambda user: f"{day(user)[0]:02}.{day(user)[1]:02}.2026").encode(), MONTH, MONTH_COUNTS,
    ),
    "mixed_dates.csv": (
        table(
            "who,day",
            lambda user: f"{day(user)[0]:02}/{day(user)[1]:02}/2026"
            if user % 2
            else f"2026-{day(user)[1]:02}-{day(user)[0]:02}",
        ).encode(),
        MONTH,
        MONTH_COUNTS,
    ),
    "null_words.csv": (
        table("who,v", lambda user: "NULL" if user % 10 == 0 else "N/A" if user % 10 == 1 else "7").encode(),
        ("sum", "--value", "v", "--clip", "10"),
        320 * 7.0,
    ),
    "spaces.csv": (table("who,v", lambda user: f" {user} ").encode(), SUM, total(float)),
    "duplicate_headers.csv": (
        table("who,v,v", lambda user: f"{user},x").encode(), SUM, total(float),
    ),
    "unix_seconds.csv": (
        table("who,t", lambda user: str(1767225600 + 86400 * (user % 14))).encode(),
        ("sum", "--value", "t", "--clip", "2000000000"),
        total(lambda user: 1767225600 + 86400 * (user % 14)),
    ),
    "unix_milliseconds.csv": (
        table("who,t", lambda user: str(1000 * (1767225600 + 86400 * (user % 14)))).encode(),
        ("count", "--where", "t > 1767225600000"),
        total(lambda user: user % 14 > 0),
    ),
    "yes_no.csv": (
        table("who,v", lambda user: "yes" if user % 4 == 0 else "no").encode(),
        ("histogram", "--item", "v", "--contributions", "1"),
        {"yes": 100, "no": 300},
    ),
    "packed.csv.gz": (
        gzip.compress(table("who;v", lambda user: f"{user},0", ";").encode()), SUM, total(float),
    ),
    "packed_without_ending.csv": (
        gzip.compress(table("who,v", str).encode()), SUM, total(float),
    ),
    "plain_numbers.csv": (table("who,v", str).encode(), SUM, total(float)),
    "tabs.csv": (table("who\tv", str, "\t").encode(), SUM, total(float)),
    "everything.csv": (
        b"Export of June\n\n"
        + table("who;city;v", lambda user: f"{CITIES[user % 4]};{user % 50},5", ";").encode("cp1252"),
        MEAN,
        total(lambda user: user % 50 + 0.5) / 400,
    ),
}  # fmt: skip
"""Each file with the question that is asked of it and its true answer."""


def run(words: list[str]):
    return CliRunner().invoke(app, words)


@pytest.mark.parametrize("name", FILES)
def test_a_messy_file_is_read_in_two_attempts(name: str, tmp_path: Path):
    data, question, truth = FILES[name]
    path = tmp_path / name
    path.write_bytes(data)
    done = run([question[0], str(path), "--user", "who", *question[1:], *PAID])
    if done.exit_code:
        message = str(done.exception)
        assert "; or ask again with: setwise " in message, message
        done = run(shlex.split(message.partition("; or ask again with: setwise ")[2]))
    assert done.exit_code == 0, done.exception
    items = json.loads(done.stdout)["items"]
    if isinstance(truth, dict):
        assert {item["item"]: item["count"] for item in items} == truth  # noise of 1 has a chance of about e**-45
    else:
        (item,) = items
        value = next((cell["value"] for name, cell in item.items() if name.startswith(("mean_", "sum_"))), None)
        value = item["count"] if value is None else value
        assert value == pytest.approx(truth, rel=0.05)  # at least 20 noise scales: wrong with a chance below 1e-8


@pytest.mark.parametrize(
    ("cell", "sign"),
    [("$5.00", "$"), ("5%", "%")],
)
def test_numbers_with_signs_are_refused_with_a_command_that_takes_the_signs_out(cell: str, sign: str, tmp_path: Path):
    path = tmp_path / "signs.csv"
    path.write_text(table("who,v", lambda _: cell))
    done = run(["sum", str(path), "--user", "who", *SUM[1:], *PAID, "--type", "v=float"])
    assert f"numbers of 'v' have '{sign}' beside them" in str(done.exception)
    assert "a copy without them" in str(done.exception)


def test_a_file_without_a_header_names_the_option(tmp_path: Path):
    path = tmp_path / "bare.csv"
    path.write_text(table("u1000,5", str))
    done = run(["sum", str(path), "--user", "who", *SUM[1:], *PAID])
    assert "--no-header --columns NAME_1,NAME_2" in str(done.exception)


def test_a_refusal_that_is_not_about_the_file_has_no_advice(tmp_path: Path):
    path = tmp_path / "numbers.csv"
    path.write_text(table("who;v", str, ";"))
    done = run(["sum", str(path), "--user", "who", *SUM[1:], "--epsilon", "-1", "--separator", ";"])
    assert "ask again" not in str(done.exception)


def test_a_file_that_is_read_right_gets_no_advice(tmp_path: Path):
    path = tmp_path / "numbers.csv"
    path.write_text(table("who,city", lambda user: CITIES[user % 4]))
    done = run(["sum", str(path), "--user", "who", "--value", "city", "--clip", "5", *PAID])
    assert done.exit_code
    assert "ask again" not in str(done.exception)
