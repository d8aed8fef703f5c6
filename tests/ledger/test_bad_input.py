"""Bad input: one sentence that names it, and nothing is written."""

import math

import pytest

from setwise.errors import InvalidParameter, MissingExtra, StoreFailed, Unattainable
from setwise.ledger.ledger import Ledger
from tests.ledger.test_accounts import REGISTERED, uses


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"uses": []}, InvalidParameter),
        ({"uses": ["pure:0.1x0"]}, InvalidParameter),
        ({"uses": ["pure:0.1x-3"]}, InvalidParameter),
        ({"uses": ["pure:abc"]}, InvalidParameter),
        ({"uses": ["pure"]}, InvalidParameter),
        ({"uses": ["approx:0,1e-3"]}, Unattainable),
        ({"delta": 0.0}, InvalidParameter),
        ({"delta": math.nan}, InvalidParameter),
        ({"name": ""}, InvalidParameter),
        ({"name": "a\nb"}, InvalidParameter),
        ({"name": "a\0b"}, InvalidParameter),
        ({"name": " a"}, InvalidParameter),
        ({"name": "a" * 201}, InvalidParameter),
        ({"name": 7}, InvalidParameter),
        ({"analyst": "\ud800"}, InvalidParameter),
        ({"dataset": "\t"}, InvalidParameter),
        ({"period": "fortnight"}, InvalidParameter),
    ],
)
def test_terms_that_cannot_be(sqlite_ledger, wrong, error):
    terms = {"name": "ada", "uses": REGISTERED, "delta": 1e-6, **wrong}
    with pytest.raises(error):
        sqlite_ledger.open_setwise(**terms)
    assert sqlite_ledger.accounts() == ()


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": 0.0}, {"epsilon": -1.0}, {"epsilon": math.inf}, {"delta": 1.0}, {"failure_share": 1.0}, {"name": ""}],
)
def test_filters_that_cannot_be(sqlite_ledger, wrong):
    with pytest.raises(InvalidParameter):
        sqlite_ledger.open_filter(**{"name": "bob", "epsilon": 1.0, "delta": 1e-6, **wrong}, rule="zcdp")
    assert sqlite_ledger.accounts() == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": ""},
        {"key": "a\nb"},
        {"key": 7},
        {"key": "k" * 201},
        {"request": "a\0b"},
        {"request": "\ud800"},
        {"request": None},
        {"uses": []},
        {"uses": ["pure:abc"]},
        {"uses": [7]},
    ],
)
def test_charges_that_cannot_be(sqlite_ledger, wrong):
    sqlite_ledger.open_setwise("ada", REGISTERED, delta=1e-6)
    account = sqlite_ledger.account("ada")
    words = {"uses": uses("pure:0.1"), "key": "k", "request": "q", **wrong}
    with pytest.raises(InvalidParameter):
        account.charge(words["uses"], key=words["key"], request=words["request"])
    assert account.entries() == 0


@pytest.mark.parametrize("answer", ["a\0b", "\udfff", None, 7])
def test_answers_that_cannot_be(sqlite_ledger, answer):
    sqlite_ledger.open_setwise("ada", REGISTERED, delta=1e-6)
    account = sqlite_ledger.account("ada")
    receipt = account.charge(uses("pure:0.1"), key="k", request="q")
    with pytest.raises(InvalidParameter, match="answer"):
        account.settle(receipt, answer=answer)


@pytest.mark.parametrize(
    "address",
    ["", " ", ":memory:", "sqlite:///", "sqlite:///:memory:", "mysql://u:secret@h/d", "postgresql://u:secret@h:port/d"],
)
def test_addresses_that_cannot_be(address):
    with pytest.raises(InvalidParameter) as refused:
        Ledger.open(address)
    assert "secret" not in str(refused.value)


def test_passwords_are_never_shown():
    with pytest.raises(StoreFailed) as refused:
        Ledger.open("postgresql://ada:hunter2@127.0.0.1:1/nothing?password=hunter2&connect_timeout=2")
    assert "hunter2" not in str(refused.value)
    assert "127.0.0.1" in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_a_file_that_is_not_a_ledger(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be taken for one" * 100)
    with pytest.raises(StoreFailed, match="not a database"):
        Ledger.open(str(path))
    with pytest.raises(StoreFailed, match="unable to open"):
        Ledger.open(str(tmp_path / "no" / "such" / "folder.db"))


def test_without_psycopg_one_sentence_says_what_to_install(monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *rest, **others):
        if name.partition(".")[0] == "psycopg":
            raise ModuleNotFoundError(name)
        return real(name, *rest, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"pip install 'setwise\[postgres\]'"):
        Ledger.open("postgresql://127.0.0.1/nothing")
