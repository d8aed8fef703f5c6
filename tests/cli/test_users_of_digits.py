"""Users of digits are one person each: telephones in several forms, and numbers that a spreadsheet has shortened."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.command_line import setwise as setwise_fixture  # noqa: F401
from tests.messy_tables import PAID, Command, pasted

FORMS: tuple[Callable[[int], str], ...] = (
    lambda user: f"0170{user:07}",
    lambda user: f"0170 {user:07}",
    lambda user: f"0170/{user:07}",
    lambda user: f"(0170) {user // 10_000:03}-{user % 10_000:04}",
    lambda user: f"0170.{user:07}",
    lambda user: f"+49170{user:07}",
)


def calls(path: Path, forms: tuple[int, ...]) -> Path:
    """Write a file of calls of 200 persons, who write their telephones in all of the given forms."""
    rows = (f"{FORMS[form](user)},{user % 5}\n" for user in range(1, 201) for form in forms)
    path.write_text("tel,n\n" + "".join(rows))
    return path


def people(setwise: Command, path: Path, *words: str):
    statement = f"SELECT COUNT(DISTINCT tel) AS people FROM '{path}'"
    return setwise("sql", statement, "--user", "tel", *PAID[2:], *words)


@pytest.mark.parametrize("forms", [(0, 1), (0, 2, 3), (1, 4), (0, 1, 2, 3, 4)])
def test_telephones_in_several_forms_are_one_user_in_the_copy(forms: tuple[int, ...], setwise: Command, tmp_path: Path):
    """Each person was counted and protected as several persons, without a word."""
    path = calls(tmp_path / "calls.csv", forms)
    checked = setwise("check", path, "--user", "tel").stdout
    assert "write 200 users in several ways" in checked
    refused = people(setwise, path)
    assert "is protected less than promised" in refused.stderr
    done = pasted(setwise, refused)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout[done.stdout.find('{"') :])["rows"]
    assert rows[0]["people"]["value"] == pytest.approx(200, abs=2)


def test_country_codes_are_noted(setwise: Command, tmp_path: Path):
    done = people(setwise, calls(tmp_path / "calls.csv", (0, 5)))
    assert done.returncode == 0
    assert "200 users of 'tel' with a country code, such as '+491700000001', end in the same digits as" in done.stderr


@pytest.mark.parametrize(
    "cell", ["{0:03}-{1:05}", "10.0.{0}.{1}", "{0}{1:05}", "2024-{0:02}-{1:02}", "{0}.{1}"]
)  # fmt: skip
def test_other_users_with_signs_between_digits_are_no_telephones(cell: str, setwise: Command, tmp_path: Path):
    path = tmp_path / "calls.csv"
    path.write_text("tel,n\n" + "".join(f"{cell.format(user % 12 + 1, user % 28 + 1)},{user}\n" for user in range(336)))
    assert "note:" not in setwise("check", path, "--user", "tel").stdout
    assert people(setwise, path).returncode == 0


@pytest.mark.parametrize("share", [2, 10])
def test_users_of_whom_some_were_shortened_are_refused(share: int, setwise: Command, tmp_path: Path):
    """1,500 rows of many cards were the rows of one user, without a word."""
    path = tmp_path / "cards.csv"
    cards = [4_000_000_000_000_000 + 17 * user for user in range(300)]
    rows = (f"{card:.5E},5\n" if user % share == 0 else f"{card},5\n" for user, card in enumerate(cards))
    path.write_text("tel,n\n" + "".join(rows))
    assert "float" not in " ".join(json.loads(setwise("check", path, "--json").stdout)["options"])
    refused = people(setwise, path)
    assert refused.returncode
    assert "users such as 4.00000E+15 were shortened by a spreadsheet, so that several count as one" in refused.stderr
