"""By the clock: heads are signed, the ledger verified, old queries forgotten; and gauges tell of it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from setwise.errors import InvalidParameter
from setwise.ledger.audit.heads import HeadFile, sign
from setwise.service.upkeep import Upkeep
from tests.service.replica import Replica
from tests.service.team import TOP_3, Team, ask, gather, open_account

HOUR = 3600.0


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(b"k" * 32)
    return path


def heads(team: Team) -> int:
    return sum(act["action"] == "head" for act in team.steward.get("/trail", params={"most": 1000}).json())


def gauge(team: Team, name: str) -> float:
    """Return a gauge, a minute later: budgets are read no more often."""
    team.replica.clock.ahead += 61.0
    found = re.search(rf"^{re.escape(name)} (\S+)$", team.steward.get("/metrics").text, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def test_replicas_share_the_signing_of_heads(start: Callable[..., Replica], key: Path):
    first, second = start(head_key=key, head_hours=24.0), start(head_key=key, head_hours=24.0)
    team = gather(first)
    for replica in (first, second):
        replica.service.upkeep.do_what_is_due()
    assert heads(team) == 1
    signed = gauge(team, "setwise_ledger_signed_seconds")
    for replica in (first, second):
        replica.clock.ahead += 24 * HOUR + 1
        replica.service.upkeep.do_what_is_due()
    assert heads(team) >= 2  # each signs anew: the ledger has a clock of its own, which was not set ahead
    assert gauge(team, "setwise_ledger_signed_seconds") >= signed
    assert first.service.ledger.verify(key=key.read_bytes()).faults == ()
    assert first.service.ledger.verify(key=b"x" * 32).faults != ()


def test_an_old_copy_that_was_put_back_is_neither_signed_nor_verified(
    start: Callable[..., Replica], key: Path, caplog: pytest.LogCaptureFixture
):
    """The replica's own schedule runs after the roll-back, and the head kept outside tells."""
    replica = start(head_key=key, head_hours=1.0, verify_hours=1.0)
    team, upkeep = gather(replica), replica.service.upkeep
    upkeep.do_what_is_due()
    file = Path(replica.service.settings.ledger)
    replica.service.ledger.close()
    copied = {path: path.read_bytes() for path in file.parent.glob(f"{file.name}*")}
    ask(team.ada, "lost")
    replica.service.ledger.sign(key.read_bytes(), last_head=HeadFile.beside(key))
    assert heads(team) == 2
    replica.service.ledger.close()
    replica.service.database.close()
    for path in file.parent.glob(f"{file.name}*"):
        path.unlink()
    for path, content in copied.items():
        path.write_bytes(content)
    assert team.steward.get("/audit").json()["faults"][0].startswith("the ledger no longer has the head")
    replica.clock.ahead += HOUR + 1
    upkeep.do_what_is_due()
    assert heads(team) == 1
    assert gauge(team, "setwise_ledger_faults") > 0
    assert any("older copy" in record.message for record in caplog.records)


def test_verification_uses_the_key_and_the_age_of_the_last_head(
    start: Callable[..., Replica], key: Path, tmp_path: Path
):
    """By the schedule and over REST: a head that another key signed is a fault, and so is an old one."""
    (tmp_path / "other").write_bytes(b"another key altogether")
    first = start(head_key=tmp_path / "other")
    first.service.upkeep.do_what_is_due()
    assert first.service.upkeep.verify().faults == ()
    replica = start(verify_hours=1.0, head_key=key)
    service, steward = replica.service, replica.as_holder(first.steward)
    replica.clock.ahead += HOUR + 1
    service.upkeep.do_what_is_due()
    (told,) = re.findall(r"^setwise_ledger_faults (\S+)$", steward.get("/metrics").text, re.MULTILINE)
    assert float(told) > 0
    for faults in (steward.get("/audit").json()["faults"], service.upkeep.verify().faults):
        assert any("not signed with this key" in str(fault) for fault in faults)
    by_the_hour = service.settings.model_copy(update={"head_key": tmp_path / "other", "head_hours": 1e-9})
    (fault,) = Upkeep(service.ledger, service.jobs, service.metrics, by_the_hour).verify().faults
    assert "lacks a recent signed head" in str(fault)


def test_one_head_stamped_a_year_ahead_does_not_stop_signing(start: Callable[..., Replica], key: Path):
    replica = start(head_key=key, head_hours=1.0)
    team, ledger = gather(replica), replica.service.ledger
    replica.service.upkeep.do_what_is_due()
    assert heads(team) == 1
    with ledger._store.writing() as connection:
        sign(connection, key.read_bytes(), int((replica.clock() + 365 * 24 * HOUR) * 1e6))
    replica.clock.ahead += HOUR + 1
    replica.service.upkeep.do_what_is_due()
    assert heads(team) == 3
    assert team.steward.get("/audit").json()["verified"]


def test_a_head_file_that_cannot_be_written_stops_the_start(start: Callable[..., Replica], key: Path, tmp_path: Path):
    with pytest.raises(InvalidParameter, match="SETWISE_HEAD_FILE"):
        start(head_key=key, head_file=tmp_path / "missing" / "head")


def test_a_key_that_is_missing_or_short_stops_the_start(start: Callable[..., Replica], tmp_path: Path):
    (tmp_path / "short").write_bytes(b"k")
    for name in ("missing", "short"):
        with pytest.raises(InvalidParameter, match="key"):
            start(head_key=tmp_path / name)


def test_the_ledger_is_verified_and_faults_are_told(
    start: Callable[..., Replica], tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    replica = start(verify_hours=1.0)
    team = gather(replica)
    upkeep = replica.service.upkeep
    ask(team.ada, "verified")
    replica.clock.ahead += HOUR + 1
    verified = replica.clock()
    upkeep.do_what_is_due()
    at = gauge(team, "setwise_ledger_verified_seconds")
    assert at == pytest.approx(verified, abs=30)
    assert gauge(team, "setwise_ledger_faults") == 0
    with replica.service.database.writing() as connection:
        for (name,) in connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).all():
            connection.execute(text(f"DROP TRIGGER {name}"))
    upkeep.do_what_is_due()  # not yet
    assert gauge(team, "setwise_ledger_faults") == 0
    replica.clock.ahead += HOUR + 1
    upkeep.do_what_is_due()
    assert gauge(team, "setwise_ledger_faults") > 0
    assert gauge(team, "setwise_ledger_verified_seconds") == at
    assert any("faults" in record.message for record in caplog.records)


def test_old_queries_are_forgotten_and_their_answers_are_not(start: Callable[..., Replica]):
    replica = start(query_days=30.0)
    team = gather(replica)
    old = ask(team.ada, "old").json()
    spent = team.ada.get("/accounts/ada-events").json()["spent"]
    replica.clock.ahead += 29 * 24 * HOUR
    replica.service.upkeep.do_what_is_due()
    assert team.ada.get(f"/queries/{old['id']}").status_code == 200
    recent = ask(team.ada, "recent").json()
    replica.clock.ahead += 2 * 24 * HOUR
    replica.service.upkeep.do_what_is_due()
    assert team.ada.get(f"/queries/{old['id']}").status_code == 404
    assert team.ada.get(f"/queries/{recent['id']}").status_code == 200
    again = ask(team.ada, "old").json()
    assert again["answer"]["items"] == old["answer"]["items"]
    other = TOP_3 | {"query": {"kind": "top-k", "item": "word", "k": 2}}
    after = team.ada.get("/accounts/ada-events").json()
    assert after["charges"] == 2
    assert after["spent"] != spent  # by the recent one alone
    replica.service.jobs.forget(before=replica.clock() + 1)
    assert ask(team.ada, "old", other).status_code == 409


def test_a_query_that_runs_is_not_forgotten_however_old_it_is(start: Callable[..., Replica]):
    replica = start(query_days=30.0, workers=1, wait_seconds=0.1)
    team = gather(replica)
    replica.service.runner._slots.acquire()
    try:
        running = ask(team.ada, "long").json()
        assert running["state"] == "running"
        replica.clock.ahead += 31 * 24 * HOUR
        replica.service.upkeep.do_what_is_due()
        assert replica.service.jobs.get(running["id"]).id == running["id"]
    finally:
        replica.service.runner._slots.release()


def test_queries_are_kept_unless_told_otherwise(team: Team):
    id_ = ask(team.ada, "kept-for-good").json()["id"]
    team.replica.clock.ahead += 10 * 365 * 24 * HOUR
    try:
        team.replica.service.upkeep.do_what_is_due()
        assert team.replica.service.jobs.get(id_).id == id_
    finally:
        team.replica.clock.ahead -= 10 * 365 * 24 * HOUR


def test_budgets_are_told_to_stewards_and_monitors_alone(team: Team):
    open_account(team.steward, "bob-frozen", "bob")
    team.steward.put("/accounts/bob-frozen/state", json={"state": "frozen"})
    told = team.steward.get("/metrics").text
    assert 'setwise_accounts{dataset="events",state="frozen"} 1.0' in told
    assert 'setwise_accounts{dataset="events",state="open"} 3.0' in told
    lowest = gauge(team, 'setwise_account_left_ratio_lowest{dataset="events"}')
    ask(team.bob, "metered", TOP_3 | {"account": "bob-events"})
    assert gauge(team, 'setwise_account_left_ratio_lowest{dataset="events"}') <= lowest
    capped = {"name": "capped", "table": "events.parquet", "user": "user_id", "items": ["word"], "apart": "capped"}
    assert team.steward.post("/datasets", json=capped).status_code == 201
    team.steward.put("/datasets/capped/cap", json={"epsilon": 1.0, "delta": 1e-6})
    assert 'dataset="capped"' not in team.steward.get("/metrics").text
    assert gauge(team, 'setwise_cap_left_ratio{dataset="capped"}') == 1.0
    team.steward.post("/people", json={"name": "probe", "role": "monitor"})
    token = team.steward.post("/people/probe/tokens", json={}).json()["secret"]
    assert "setwise_cap_left_ratio" in team.replica.as_holder(token).get("/metrics").text
    theirs = team.ada.get("/metrics").text
    assert "left_ratio" not in theirs
    assert "setwise_accounts" not in theirs
    assert "setwise_queries_running" in theirs
