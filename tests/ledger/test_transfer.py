"""Export and restore: the same ledger, to the last hash, on either store."""

import io
import json
from pathlib import Path

import pytest

from setwise.errors import BudgetExhausted, InvalidParameter
from setwise.ledger.ledger import Ledger
from setwise.ledger.records import Contents, digest, link
from tests.ledger.auditor import audit
from tests.ledger.test_accounts import uses


def written_export(lines):
    """Return the text of an export with these lines; the hashes of its entries and the digest at its end are redone."""
    heads = {json.loads(line["body"])["name"]: line["hash"] for line in lines if "epsilon" in line.get("body", "")}
    running, texts = "", []
    for line in lines:
        if "entry" in line:
            names = {"account", "kind", "key", "period", "uses", "text", "moves"}
            contents = Contents(**{name: value for name, value in line.items() if name in names})
            said = contents.digest() if "moves" in line else contents.digest_without_moves()
            line["hash"] = heads[line["account"]] = link(heads[line["account"]], line["entry"], line["at"], said)
        texts.append(json.dumps(line, sort_keys=True, ensure_ascii=False))
        running = digest(running + texts[-1])
    return "\n".join([*texts, json.dumps({"end": running, "lines": len(texts)})]) + "\n"


@pytest.fixture
def exported(ledger, clock):
    ledger.set_cap("visits", epsilon=1.0, delta=1e-6, rule="zcdp")
    ledger.open_setwise("ada", ["bounded-range:0.1x10", "pure:0.1x5"], delta=1e-6, period="month")
    ledger.open_filter("bob", epsilon=1.0, delta=1e-6, dataset="visits", rule="zcdp")
    receipt = ledger.account("ada").charge(uses("bounded-range:0.1x10"), key="k", request='{"q":"ä 😀"}')
    clock.move(days=20)
    ledger.account("ada").settle(receipt, answer="line\nbreak", returned=uses("bounded-range:0.1x4"))
    ledger.account("ada").charge(uses("bounded-range:0.1x10"), key="l", request="q")
    ledger.account("bob").charge(uses("gaussian:20", "approx:0,1e-8"), key="k", request="q")
    stream = io.StringIO()
    assert ledger.export(stream) == len(stream.getvalue().splitlines()) == 9
    return stream.getvalue()


@pytest.fixture(params=["sqlite", "postgresql"])
def other_url(request, tmp_path):
    return (
        str(tmp_path / "other.db")
        if request.param == "sqlite"
        else request.getfixturevalue("postgresql_server").schema()
    )


def test_a_restored_ledger_is_the_same(ledger, exported, other_url, clock):
    with Ledger.open(other_url, clock=clock) as other:
        assert other.restore(io.StringIO(exported)) == 4
        assert other.verify() == ledger.verify()
        assert other.accounts() == ledger.accounts()
        assert other.cap("visits") == ledger.cap("visits")
        again = io.StringIO()
        other.export(again)
        assert again.getvalue() == exported
        assert other.account("ada").charge(uses("bounded-range:0.1x10"), key="k", request='{"q":"ä 😀"}').answer
        with pytest.raises(BudgetExhausted):
            other.account("ada").charge(uses("bounded-range:0.1"), key="m", request="q")
        other.account("bob").charge(uses("gaussian:20"), key="m", request="q")
        assert not other.verify().faults
    audit(other_url)


def test_an_export_of_format_3_restores(other_url, clock):
    """It was written before entries listed their movements, by the version that kept stores of version 4."""
    text = (Path(__file__).parent / "format_3.jsonl").read_text()
    with Ledger.open(other_url, clock=clock) as other:
        assert other.restore(io.StringIO(text)) == 12
        assert not other.verify(key=b"kept outside the database").faults
        assert other.acts()[-1].kind == "seal"
        other.account("ada").charge(uses("gaussian:30"), key="after", request="q")
        assert not other.verify().faults


@pytest.mark.parametrize(
    ("number", "entries", "accounts"), [(1, 4, ["ada", "bob"]), (2, 7, ["ada", "bob", "cyd", "dot"])]
)
def test_an_export_of_formats_1_and_2_restores(other_url, clock, number, entries, accounts):
    """They were written by the versions that kept stores of versions 2 and 3."""
    text = (Path(__file__).parent / f"format_{number}.jsonl").read_text(encoding="utf-8")
    assert f'{{"format": "setwise-ledger-{number}"}}' == text.splitlines()[0]
    clock.move(days=22)
    with Ledger.open(other_url, clock=clock) as other:
        assert other.restore(io.StringIO(text)) == entries
        assert not other.verify().faults
        assert other.acts()[-1].kind == "seal"
        assert [status.name for status in other.accounts()] == accounts
        ada = other.account("ada")
        assert ada.charge(uses("bounded-range:0.1x10"), key="one", request='{"q":"ä 😀"}').answer == "tea\nmate"
        other.account("bob").charge(uses("gaussian:40"), key="after", request="q")
        assert not other.verify().faults
    audit(other_url)


def test_an_export_whose_hashes_fit_but_whose_entries_do_not_is_not_restored(ledger, exported, other_url, clock):
    """Only the verification at the end tells."""
    lines = [json.loads(line) for line in exported.splitlines()[:-1]]
    assert written_export(lines) == exported
    (charge,) = [line for line in lines if line.get("key") == "l"]
    assert charge["period"] == "2026-12"
    charge["period"] = "2027-01"
    charge["moves"] = charge["moves"].replace("2026-12", "2027-01")
    with Ledger.open(other_url, clock=clock) as other:
        with pytest.raises(InvalidParameter, match="is not in the period '2027-01'"):
            other.restore(io.StringIO(written_export(lines)))
        assert other.accounts() == ()
        assert other.restore(io.StringIO(exported)) == 4


def test_restoring_needs_an_empty_ledger(ledger, exported):
    with pytest.raises(InvalidParameter, match="not empty"):
        ledger.restore(io.StringIO(exported))


def damaged(exported):
    """Yield exports with one thing wrong."""
    lines = exported.splitlines()
    for number in range(len(lines)):
        yield lines[:number] + lines[number + 1 :]
        yield lines[:number]
        if number + 1 < len(lines):
            yield [*lines[:number], lines[number + 1], lines[number], *lines[number + 2 :]]
        yield [*lines[:number], "not json", *lines[number + 1 :]]
        record = json.loads(lines[number])
        for name in record:
            for value in (None, [], "x"):
                yield [*lines[:number], json.dumps({**record, name: value}), *lines[number + 1 :]]
    yield [*lines, lines[0]]


def test_whatever_is_damaged_restores_nothing(sqlite_ledger, exported):
    """Only ever into a new ledger; each attempt leaves it empty, or the next would be refused for another reason."""
    tried = 0
    for lines in damaged(exported):
        with pytest.raises(InvalidParameter, match=r"export|line") as refused:
            sqlite_ledger.restore(io.StringIO("\n".join(lines) + "\n"))
        assert "not empty" not in str(refused.value)
        tried += 1
    assert tried > 100
    assert sqlite_ledger.accounts() == ()
    sqlite_ledger.restore(io.StringIO(exported))
