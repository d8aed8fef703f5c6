"""`setwise ledger`: the contract of its JSON, exit status and errors."""

import json
import shlex
from pathlib import Path

import pytest
from sqlalchemy import insert, select
from typer.testing import CliRunner

from setwise import compose, parse_use
from setwise.cli import main as command_line
from setwise.errors import InvalidParameter, SetwiseError, StoreFailed
from setwise.ledger.ledger import Ledger
from setwise.service.storage import schema
from setwise.service.storage.database import open_database

OPEN = ["open", "ada", "--register", "bounded-range:0.1x10", "pure:0.1x5", "--delta", "1e-6"]


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SETWISE_LEDGER", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def run(*words):
    """Run a ledger command in this process; return what it printed."""
    done = CliRunner().invoke(command_line.app, ["ledger", *words], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_show_is_the_contract(in_folder):
    run(*OPEN)
    with Ledger.open("setwise.db") as ledger:
        account = ledger.account("ada")
        account.charge([parse_use("pure:0.1x2")], key="k", request="q")
    found = json.loads(run("show", "ada", "--json"))
    contract = {"account", "kind", "epsilon", "delta", "left", "spent", "odometer", "charges"}
    assert contract <= set(found)
    expected = compose(["bounded-range:0.1x10", "pure:0.1x5"]).epsilon(1e-6)
    assert found["epsilon"] == {"lower": expected.lower, "upper": expected.upper}
    assert (found["account"], found["kind"], found["delta"], found["charges"]) == ("ada", "setwise", 1e-6, 1)
    assert (found["left"], found["spent"]) == (["bounded-range:0.1x10", "pure:0.1x3"], ["pure:0.1x2"])
    assert 0.0 < found["odometer"]["lower"] <= found["odometer"]["upper"] == pytest.approx(0.2)


def test_open_tells_what_show_tells(in_folder):
    opened = json.loads(run(*OPEN, "--analyst", "Ada", "--dataset", "visits", "--period", "month", "--json"))
    assert opened == json.loads(run("show", "ada", "--json"))
    assert (opened["analyst"], opened["dataset"], opened["every"]) == ("Ada", "visits", "month")


def test_a_filter(in_folder):
    found = json.loads(run("open", "bob", "--filter", "--epsilon", "1", "--delta", "1e-6", "--json"))
    assert found["epsilon"] == {"lower": 1.0, "upper": 1.0}
    noise, failure = found["left"]
    assert noise.startswith("gaussian:")
    assert failure.startswith("approx:0.0,")
    with Ledger.open("setwise.db") as ledger:
        ledger.account("bob").charge([parse_use(noise), parse_use(failure)], key="k", request="q")
    found = json.loads(run("show", "bob", "--json"))
    assert found["charges"] == 1
    assert found["spent"]


def test_several_ways_to_register(in_folder):
    one = json.loads(run(*OPEN, "--json"))
    other = json.loads(
        run(
            "open", "eve", "--register", "bounded-range:0.1x10", "--register", "pure:0.1x5", "--delta", "1e-6", "--json"
        )
    )
    assert one["left"] == other["left"]
    assert [account["account"] for account in json.loads(run("show", "--json"))["accounts"]] == ["ada", "eve"]


def test_history_verify_export_restore(in_folder):
    run(*OPEN)
    with Ledger.open("setwise.db") as ledger:
        account = ledger.account("ada")
        receipt = account.charge([parse_use("pure:0.1x2")], key="k", request="q")
        account.settle(receipt, answer="a", returned=[parse_use("pure:0.1")])
    charge, settle = json.loads(run("history", "ada", "--json"))["entries"]
    assert (charge["kind"], charge["key"], charge["uses"], charge["text"]) == ("charge", "k", ["pure:0.1x2"], "q")
    assert (settle["kind"], settle["uses"], settle["text"]) == ("settle", ["pure:0.1"], "a")
    assert len(json.loads(run("history", "ada", "--limit", "1", "--json"))["entries"]) == 1
    found = run("verify", "--json")
    verified = json.loads(found)
    assert (verified["verified"], verified["entries"], verified["faults"]) == (True, 2, [])
    (in_folder / "anchor.json").write_text(found)
    (in_folder / "out.jsonl").touch(mode=0o644)
    run("export", "out.jsonl")
    assert (in_folder / "out.jsonl").stat().st_mode & 0o777 == 0o600
    assert run("export") == (in_folder / "out.jsonl").read_text()
    assert json.loads(run("restore", "out.jsonl", "--ledger", "other.db", "--json"))["entries"] == 2
    run("verify", "--ledger", "other.db", "--head", verified["head"], "--since", "anchor.json")
    with Ledger.open("other.db") as ledger:
        ledger.account("ada").charge([parse_use("pure:0.1")], key="l", request="q")
    run("verify", "--ledger", "other.db", "--since", "anchor.json")
    with pytest.raises(SetwiseError, match="has the head"):
        run("verify", "--ledger", "other.db", "--head", verified["head"])


def test_caps_and_the_joint_promise(in_folder):
    cap = json.loads(run("cap", "visits", "--epsilon", "2", "--delta", "1e-6", "--json"))
    assert (cap["account"], cap["kind"]) == ("visits", "cap")
    run(*OPEN, "--dataset", "visits")
    joint = json.loads(run("joint", "visits", "--json"))
    assert joint["accounts"] == ["ada"]
    assert joint["epsilon"]["upper"] == compose(["bounded-range:0.1x10", "pure:0.1x5"]).epsilon(1e-6).upper
    assert joint["cap"]["epsilon"]["upper"] == 2.0
    assert "visits" in run("joint", "visits")


def test_people_get_tables_with_bars(in_folder):
    run(*OPEN)
    with Ledger.open("setwise.db") as ledger:
        ledger.account("ada").charge([parse_use("pure:0.1x5")], key="k", request="q")
    shown = run("show", "ada")
    assert "████████████████████████ 10 of 10  bounded-range:0.1" in shown
    assert "░░░░░░░░░░░░░░░░░░░░░░░░ 0 of 5  pure:0.1" in shown
    assert "ada (setwise)" in run("show")
    assert "pure:0.1x5" in run("history", "ada")
    assert "Verified" in run("verify")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["show", "nobody"], "'nobody'"),
        (["history", "nobody"], "'nobody'"),
        (OPEN, "'ada'"),
        (["open", "eve", "--register", "pure:abc", "--delta", "1e-6"], "pure:abc"),
        (["open", "eve", "--register", "pure:0.1x0", "--delta", "1e-6"], "pure:0.1x0"),
        (["open", "eve", "--register", "pure:0.1x-2", "--delta", "1e-6"], "-2"),
        (["open", "eve", "--delta", "1e-6"], "--register"),
        (["open", "eve", "pure:0.1", "--delta", "1e-6"], "--register"),
        (["open", "eve", "--filter", "--delta", "1e-6"], "--epsilon"),
        (["open", "eve", "--filter", "--epsilon", "1", "--register", "pure:0.1", "--delta", "1e-6"], "--filter"),
        (["open", "eve", "--register", "pure:0.1", "--epsilon", "1", "--delta", "1e-6"], "--epsilon"),
        (["open", "eve", "--register", "pure:0.1", "--delta", "2"], "2"),
        (["open", "eve", "--register", "pure:0.1", "--delta", "1e-6", "--period", "moon"], "moon"),
        (["cap", "visits", "--epsilon", "-1", "--delta", "1e-6"], "-1"),
        (["joint", "visits"], "'visits'"),
        (["verify", "--since", "missing.json"], "missing.json"),
        (["restore", "missing.jsonl"], "missing.jsonl"),
        (["export", "no/such/folder"], "no/such/folder"),
        (["export", "--json"], "--json"),
        (["show", "--ledger", "nowhere.db"], "nowhere.db"),
        (["show", "--ledger", "mysql://a:secret@b/c"], "mysql"),
    ],
)
def test_bad_requests_are_named(in_folder, words, named):
    run(*OPEN)
    with pytest.raises(SetwiseError) as refused:
        run(*words)
    assert refused.value.exit_code == 2
    assert named in str(refused.value)
    assert "secret" not in str(refused.value)
    assert not (in_folder / "nowhere.db").exists()


def test_errors_are_one_sentence_with_the_status_of_the_tree(setwise, in_folder):
    assert setwise("ledger", *OPEN).returncode == 0
    for words, status in ((["show", "nobody"], 2), (["show", "--ledger", str(in_folder)], 4)):
        done = setwise("ledger", *words)
        assert done.returncode == status
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert line.startswith("setwise: ")


def test_tampering_is_status_4_and_named(setwise, in_folder):
    from tests.ledger.raw import without_triggers

    run(*OPEN)
    with Ledger.open("setwise.db") as ledger:
        ledger.account("ada").charge([parse_use("pure:0.1x2")], key="k", request="q")
    with without_triggers("setwise.db") as intruder:
        intruder("UPDATE ledger_entries SET content = 'other'")
    done = setwise("ledger", "verify", "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["faults"][0]["entry"] == 1
    assert "entry 1 of the account 'ada' was changed" in done.stderr


def test_the_environment_names_the_ledger(setwise, in_folder):
    assert setwise("ledger", *OPEN, SETWISE_LEDGER="elsewhere.db").returncode == 0
    assert (in_folder / "elsewhere.db").exists()
    assert not (in_folder / "setwise.db").exists()
    assert setwise("ledger", "show", "ada", SETWISE_LEDGER="elsewhere.db").returncode == 0


def test_postgresql(in_folder, postgresql_url):
    assert json.loads(run(*OPEN, "--ledger", postgresql_url, "--json"))["kind"] == "setwise"
    assert json.loads(run("verify", "--ledger", postgresql_url, "--json"))["verified"]


def test_stewards_freeze_and_close_and_it_is_kept(in_folder):
    run(*OPEN)
    run("freeze", "ada", "--by", "eve", "--reason", "an odd question")
    assert json.loads(run("show", "ada", "--json"))["state"] == "frozen"
    assert "frozen" in run("show", "ada")
    run("thaw", "ada", "--by", "eve")
    run("close", "ada", "--by", "eve")
    told = json.loads(run("acts", "--json"))["acts"]
    assert [(act["action"], act["by"], act["subject"]) for act in told] == [
        ("freeze", "eve", "ada"),
        ("thaw", "eve", "ada"),
        ("close", "eve", "ada"),
    ]
    assert "an odd question" in run("acts")


def test_signed_heads(in_folder):
    run(*OPEN)
    Path("key").write_text("0123456789abcdef")
    Path("other").write_text("fedcba9876543210")
    assert json.loads(run("sign", "--key", "key"))["action"] == "head"
    assert json.loads(run("verify", "--key", "key", "--within", "1", "--json"))["verified"]
    with pytest.raises(StoreFailed, match="not signed with this key"):
        run("verify", "--key", "other")
    with pytest.raises(InvalidParameter, match="needs --key"):
        run("verify", "--within", "1")


def test_the_services_tables_come_along(in_folder):
    run(*OPEN)
    service = open_database("setwise.db")
    with service.writing() as connection:
        connection.execute(insert(schema.people).values(name="ada", role="analyst", created_at=1.5))
    service.close()
    run("export", "all.jsonl", "--service")
    with pytest.raises(InvalidParameter, match="of the service"):
        run("restore", "all.jsonl", "--ledger", "other.db")
    run("restore", "all.jsonl", "--service", "--ledger", "other.db")
    other = open_database("other.db")
    with other.reading() as connection:
        assert [tuple(row) for row in connection.execute(select(schema.people.c.name, schema.people.c.role))] == [
            ("ada", "analyst")
        ]
    other.close()


def test_a_wallet_beside_registered_uses_and_the_rule_of_a_filter(in_folder):
    found = json.loads(run(*OPEN, "--wallet", "0.2", "--failure", "1e-8", "--json"))
    assert found["left"][:2] == ["bounded-range:0.1x10", "pure:0.1x5"]
    assert [use.partition(":")[0] for use in found["left"][2:]] == ["gaussian", "approx"]
    zcdp = json.loads(run("open", "bob", "--filter", "--epsilon", "1", "--delta", "1e-6", "--rule", "zcdp", "--json"))
    assert zcdp["left"][0].startswith("zcdp:")
    for words in (["--rule", "renyi"], ["--wallet", "0.1"]):
        with pytest.raises(InvalidParameter):
            run("open", "eve", "--filter", "--epsilon", "1", "--delta", "1e-6", *words)


def test_opening_an_account_for_a_dataset_says_which_accounts_it_shuts_out(in_folder, setwise):
    """`second` shut `first` out without a word at its opening, and the refusal had nothing to paste."""
    (in_folder / "visits.csv").write_text("who\n" + "".join(f"u{user}\n" for user in range(50)))
    question = ("count", "visits.csv", "--user", "who", "--epsilon", "0.5")
    terms = ("--filter", "--epsilon", "3", "--delta", "1e-6")
    assert setwise("ledger", "open", "first", *terms).stderr == ""
    assert setwise(*question, "--account", "first").returncode == 0
    second = setwise("ledger", "open", "second", *terms, "--dataset", "visits")
    note = "questions about visits are now paid by accounts that were opened for it only, and no longer by first: "
    assert second.stderr == f"note: {note}ask them with --account second\n"
    refused = setwise(*question, "--account", "first", "--key", "b")
    assert (refused.returncode, refused.stdout) == (2, "")
    pasted = refused.stderr.strip().rpartition("; write: ")[2].split()
    assert pasted == ["--account", "second"]
    assert setwise(*question, *pasted, "--key", "b").returncode == 0
    assert setwise("ledger", "open", "third", *terms, "--dataset", "visits").stderr == ""


def test_a_refusal_where_only_a_cap_is_known_opens_an_account(in_folder, setwise):
    (in_folder / "visits.csv").write_text("who\n" + "".join(f"u{user}\n" for user in range(50)))
    question = ("count", "visits.csv", "--user", "who", "--epsilon", "0.5")
    run("open", "first", "--filter", "--epsilon", "3", "--delta", "1e-6")
    run("cap", "visits", "--epsilon", "3", "--delta", "1e-5")
    refused = setwise(*question, "--account", "first")
    words = refused.stderr.strip().rpartition("; write: setwise ")[2].split()
    assert setwise(*words).returncode == 0
    assert setwise(*question, "--account", words[2]).returncode == 0


def test_what_was_spent_so_far_and_what_is_left_read_together(in_folder):
    """ "Epsilon 3, by the promise" stood below "epsilon 1.3 of 3 left"."""
    run("open", "ada", "--filter", "--epsilon", "3", "--delta", "1e-6")
    with Ledger.open("setwise.db") as ledger:
        ledger.account("ada").charge([parse_use("gaussian:2"), parse_use("gaussian:4")], key="a", request="q")
    words = " ".join(run("show", "ada").replace("│", " ").split())
    assert "of epsilon 3, at least " in words
    assert "is left for any question, up to " in words
    assert "at most epsilon 3, the promise, which includes what is left" in words


@pytest.mark.parametrize("others", [True, False])
def test_an_account_that_is_missing_is_refused_with_the_command_that_opens_it(others, setwise, tmp_path, monkeypatch):
    """The refusal of setwise mcp said that setwise ledger open makes one, and not how."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "visits.csv"
    path.write_text("user,city\n" + "".join(f"u{user},Oslo\n" for user in range(50)))
    ledger = tmp_path / "my ledger.db"
    if others:
        setwise("ledger", "open", "other", "--filter", "--epsilon", "1", "--delta", "1e-6", "--ledger", ledger)
    words = ("count", path, "--user", "user", "--account", "an agent", "--epsilon", "0.5", "--ledger", ledger)
    command = setwise(*words).stderr.rpartition(": setwise ")[2]
    assert command.startswith("ledger open 'an agent' ")
    assert setwise(*shlex.split(command)).returncode == 0
    assert setwise(*words).returncode == 0
