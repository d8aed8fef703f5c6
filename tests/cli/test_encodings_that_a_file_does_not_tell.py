"""An encoding that is proposed reads every cell of the file, and the holder sees words as each encoding reads them.

Files of cp850 and Mac Roman were to be read as cp1252, which left the second largest city without a word.
"""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import setwise
from setwise.cli.main import app

CITIES = {"Köln": 120, "Zürich": 100, "São Paulo": 60, "Genève": 40}
POLISH = {"Łódź": 120, "Gdańsk": 100, "Kraków": 60, "Wąchock": 40}
RUSSIAN = {"Москва": 120, "Санкт-Петербург": 100, "Казань": 60}
FILES = {
    "cp1252": CITIES, "cp850": CITIES, "mac_roman": CITIES, "iso8859-2": POLISH, "cp1250": POLISH, "cp1251": RUSSIAN,
}  # fmt: skip
PAID = ("--epsilon", "90", "--delta", "0.001")
UNTOLD = "the file itself does not tell its encoding: take the one whose words are right"


def run(*words: object):
    return CliRunner().invoke(app, [*map(str, words)])


def write(folder: Path, encoding: str, cities: dict[str, int], header: str = "who,city") -> Path:
    path = folder / "cities.csv"
    rows = [city for city, number in cities.items() for _ in range(number)]
    path.write_text(header + "\n" + "".join(f"{user},{city}\n" for user, city in enumerate(rows)), encoding=encoding)
    return path


def ask(path: Path, *words: str):
    return run("histogram", path, "--user", "who", "--item", "city", "--contributions", "1", *PAID, *words)


@pytest.mark.parametrize("encoding", FILES)
def test_the_command_of_a_refusal_reads_every_cell(encoding: str, tmp_path: Path):
    message = str(ask(write(tmp_path, encoding, FILES[encoding])).exception)
    assert f"--encoding {encoding} reads " in message
    assert UNTOLD in message
    done = run(*shlex.split(message.partition("; or ask again with: setwise ")[2]), "--json")
    assert {item["item"]: item["count"] for item in json.loads(done.stdout)["items"]} == FILES[encoding]
    assert done.stderr == ""


def test_words_are_shown_as_several_encodings_read_them(tmp_path: Path):
    path = write(tmp_path, "cp850", CITIES)
    (note,) = json.loads(run("check", path, "--json").stdout)["notes"]
    assert "--encoding cp850 reads São" in note
    assert note.count("--encoding") > 1
    assert "cp1252" not in note, "cp1252 leaves cells that are null"
    assert UNTOLD in note


@pytest.mark.parametrize("given", ["cp1252", "ascii"])
def test_cells_that_the_given_encoding_makes_null_are_told(given: str, tmp_path: Path):
    path = write(tmp_path, "cp850", {**CITIES, "Oslo": 400})
    told = ask(path, "--encoding", given).stderr
    lost = 100 if given == "cp1252" else 320
    assert f"{lost} of 720 cells of 'city' are not {given} and will be skipped: --encoding cp850 reads" in told
    assert any(f"are not {given}" in note for note in check_notes(path, given))
    assert ask(path, "--encoding", "cp850").stderr == ""


def check_notes(path: Path, encoding: str) -> list[str]:
    return json.loads(run("check", path, "--encoding", encoding, "--json").stdout)["notes"]


def test_python_is_told_too(tmp_path: Path):
    path = write(tmp_path, "cp850", {**CITIES, "Oslo": 400})
    with (
        setwise.open(path, user="who", encoding="cp1252") as session,
        pytest.warns(setwise.UnreadCellsWarning, match=r"not cp1252 .* setwise.open\(..., encoding=\"cp850\"\) reads"),
    ):
        session.histogram(item="city", contributions=1, epsilon=5.0, delta=1e-6)


def test_a_few_damaged_cells_of_a_file_in_utf_8_do_not_change_its_encoding(tmp_path: Path):
    path = write(tmp_path, "utf-8", CITIES)
    path.write_bytes(path.read_bytes() + "900,Málaga\n".encode("latin-1"))
    told = ask(path).stderr
    assert "1 of 321 cells of 'city' are not UTF-8 and will be skipped: most other such cells of the file" in told
    assert "--encoding" not in told
    assert json.loads(run("check", path, "--json").stdout)["options"] == ["--type", "who=integer"]


def test_a_header_in_another_encoding_names_several_and_the_command_reads_it(tmp_path: Path):
    path = write(tmp_path, "mac_roman", CITIES, header="who,città")
    message = str(run("count", path, "--user", "who", "--epsilon", "90", "--json").exception)
    assert "the encoding it was written in, which the file does not tell, such as --encoding cp1252" in message
    command = shlex.split(message.partition("; or ask again with: setwise ")[2])
    assert command[command.index("--encoding") + 1] == "mac_roman"
    assert run(*command).exit_code == 0


def test_control_characters_of_a_wrong_encoding_are_not_printed(tmp_path: Path):
    message = str(ask(write(tmp_path, "cp1250", POLISH)).exception)
    assert "--encoding iso8859-2 reads Łód\ufffd" in message
    assert not any("\x7f" <= character < "\xa0" for character in message)


SIGNS = [
    "{},00 €",
    "€{}",
    "€ {}",
    "{}° N",
    "{} °C",
    "{}°F",
    "£{}",
    "§ {}",
    "{}²",
    "{} m²",
    "±{}",
    "{}\xa0000,00\xa0€",
    "{}º",
    "{} µg",
]


@pytest.mark.parametrize("written", SIGNS)
def test_signs_beside_numbers_are_no_letters_of_another_script(written: str, tmp_path: Path):
    """A file of ships with ° was read as Cyrillic, and kept so; amounts in € were offered as Ç, Ä and А."""
    path = tmp_path / "signs.csv"
    path.write_text("who,v\n" + "".join(f"{user},{written.format(user)}\n" for user in range(50)), encoding="cp1252")
    found = json.loads(run("check", path, "--json").stdout)
    assert found["options"][found["options"].index("--encoding") + 1] == "cp1252"


@pytest.mark.parametrize(("encoding", "words"), [("cp1251", ["да", "нет"]), ("cp1253", ["Αθήνα", "Πάτρα"])])
def test_words_of_another_script_are_read_in_it(encoding: str, words: list[str], tmp_path: Path):
    path = tmp_path / "short.csv"
    path.write_text("who,v\n" + "".join(f"{user},{words[user % 2]}\n" for user in range(50)), encoding=encoding)
    assert encoding in json.loads(run("check", path, "--json").stdout)["options"]
