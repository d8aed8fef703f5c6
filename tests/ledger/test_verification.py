"""Verification is complete: a tamperer who redoes all hashes, missing triggers, damaged pages, a cut-off end."""

import os
import random
import shutil
from datetime import timedelta

import pytest

from setwise.errors import InvalidParameter, StoreFailed
from setwise.ledger.audit.heads import HeadFile, read_key
from setwise.ledger.ledger import Ledger
from setwise.ledger.records import Contents, canonical, link, record_hash
from tests import sizes
from tests.ledger.raw import raw_connection, without_triggers
from tests.ledger.test_accounts import uses
from tests.ledger.test_tampering import filled, intrusion  # noqa: F401 - a fixture

KEY = b"kept outside the database"


def redo_hashes(run):
    """Recompute every digest, hash and head of the ledger, as its owner could."""
    previous = "0" * 64
    starts = {}
    for holder, at, body in run("SELECT holder, at, body FROM ledger_openings ORDER BY holder"):
        hashed = record_hash(previous, holder, at, body)
        run("UPDATE ledger_openings SET previous = ?, hash = ? WHERE holder = ?", previous, hashed, holder)
        starts[holder] = previous = hashed
    for holder, name in run("SELECT holder, name FROM ledger_accounts"):
        head = starts.get(holder, "0" * 64)
        rows = run(
            "SELECT position, kind, key, period, at, uses, content, moves FROM ledger_entries WHERE holder = ? "
            "ORDER BY position",
            holder,
        )
        for position, kind, key, period, at, drawn, text, moves in rows:
            said = Contents(account=name, kind=kind, key=key, period=period, uses=drawn, text=text, moves=moves)
            own = said.digest()
            hashed = link(head, position, at, own)
            run(
                "UPDATE ledger_entries SET digest = ?, previous = ?, hash = ? WHERE holder = ? AND position = ?",
                *(own, head, hashed, holder, position),
            )
            head = hashed
        run("UPDATE ledger_accounts SET head = ? WHERE holder = ?", head, holder)


def rewrite_moves(run):
    """List in every entry the movements that the table of movements has for it."""
    for holder, position in run("SELECT holder, position FROM ledger_entries"):
        moved = run(
            "SELECT holder, period, what, amount FROM ledger_movements WHERE account = ? AND position = ? "
            "ORDER BY number",
            *(holder, position),
        )
        text = canonical([list(move) for move in moved])
        run("UPDATE ledger_entries SET moves = ? WHERE holder = ? AND position = ?", text, holder, position)


HASHES = {"hash", "previous", "digest", "head"}
SURROGATES = {("movements", "number"), ("balances", "movement")}


def single_row_changes(run):
    """Yield (table, column or None for a deletion, statement, values) for every row and every column."""
    keys = {
        "openings": ("holder",),
        "lines": ("holder", "what"),
        "accounts": ("holder",),
        "entries": ("holder", "position"),
        "movements": ("number",),
        "balances": ("holder", "period", "what"),
    }
    for table, key in keys.items():
        columns = COLUMNS[table]
        for row in run(f"SELECT {', '.join(columns)} FROM ledger_{table}"):
            values = dict(zip(columns, row, strict=True))
            where = " AND ".join(f"{name} = ?" for name in key)
            place = [values[name] for name in key]
            yield table, None, f"DELETE FROM ledger_{table} WHERE {where}", place
            for column in columns:
                if column in HASHES or (table, column) in SURROGATES:
                    continue
                value = values[column]
                if isinstance(value, str):
                    other = f"{value}x"
                else:
                    other = (value or 0) + (1000 if column in ("holder", "position", "account") else 1)
                yield table, column, f"UPDATE ledger_{table} SET {column} = ? WHERE {where}", [other, *place]


COLUMNS = {
    "openings": ("holder", "kind", "name", "lines", "at", "body", "previous", "hash"),
    "lines": ("holder", "what", "place", "total"),
    "accounts": ("holder", "name", "kind", "dataset", "cap", "entries", "charges", "at", "period", "analyst", "state"),
    "entries": (
        *("holder", "position", "kind", "key", "period", "at", "uses", "content", "digest", "previous", "hash"),
        "moves",
    ),
    "movements": ("number", "account", "position", "holder", "period", "what", "amount"),
    "balances": ("holder", "period", "what", "total", "spent", "movement"),
}


def test_a_tamperer_who_redoes_all_hashes_is_found(filled, store_url, clock):  # noqa: F811
    """Every single-row change and deletion, with all hashes made to fit again; a signed head finds what is left."""
    filled.sign(KEY)
    tried = found_without_key = 0
    with intrusion(store_url) as (run, mend):
        if "://" in store_url:
            for constraint in run(
                "SELECT 'ALTER TABLE ' || conrelid::regclass || ' DROP CONSTRAINT ' || conname FROM pg_constraint "
                "WHERE connamespace = current_schema()::regnamespace AND contype = 'c'"
            ):
                run(*constraint)
        changes = list(single_row_changes(run))
        assert len(changes) > 200
        for table, column, statement, values in changes[:: sizes.TAMPERED]:
            run(statement, *values)
            redo_hashes(run)
            told = [
                fault
                for fault in filled.verify(key=KEY, within=timedelta(hours=1)).faults
                if not fault.message.startswith(("lacks the trigger", "lacks the constraint"))
            ]
            assert told, (table, column, values)
            tried += 1
            found_without_key += any("signed" not in fault.message for fault in told)
            mend()
    assert found_without_key > tried * 0.6, (tried, found_without_key)


def test_a_settlement_that_returns_more_than_its_charge_drew_is_found(ledger, store_url):
    ledger.open_setwise("ada", ["pure:0.1x10"], delta=1e-6)
    account = ledger.account("ada")
    account.charge(uses("pure:0.1x5"), key="five", request="q")
    receipt = account.charge(uses("pure:0.1x2"), key="two", request="q")
    account.settle(receipt, answer="a", returned=uses("pure:0.1"))
    with without_triggers(store_url) as run:
        run("UPDATE ledger_entries SET uses = '[\"pure:0.1x4\"]' WHERE kind = 'settle'")
        run("UPDATE ledger_movements SET amount = -4 WHERE amount = -1")
        rewrite_moves(run)
        run("UPDATE ledger_balances SET spent = 3")
        redo_hashes(run)
    assert [str(fault) for fault in ledger.verify().faults] == [
        "entry 3 of the account 'ada' returns more than its charge drew"
    ]


def test_a_missing_trigger_is_found_and_the_ledger_not_opened(ledger, store_url):
    ledger.open_setwise("ada", ["pure:0.1x2"], delta=1e-6)
    with raw_connection(store_url) as run:
        on = " ON ledger_movements" if "://" in store_url else ""
        run(f"DROP TRIGGER ledger_movements_apply{on}")
    (fault,) = ledger.verify().faults
    assert "lacks the trigger ledger_movements_apply" in str(fault)
    with pytest.raises(StoreFailed, match="ledger_movements_apply"):
        Ledger.open(store_url)
    with Ledger.inspect(store_url) as damaged:
        assert damaged.verify().faults == (fault,)


def test_a_disabled_trigger_or_a_changed_function_is_found(postgresql_url):
    with Ledger.open(postgresql_url) as ledger, raw_connection(postgresql_url) as run:
        run("ALTER TABLE ledger_entries DISABLE TRIGGER ledger_entries_follow")
        assert "a changed trigger ledger_entries_follow" in str(ledger.verify().faults[0])
        run("ALTER TABLE ledger_entries ENABLE TRIGGER ledger_entries_follow")
        run(
            "CREATE OR REPLACE FUNCTION ledger_balances_move() RETURNS trigger LANGUAGE plpgsql "
            "AS 'BEGIN RETURN NEW; END'"
        )
        assert "a changed function ledger_balances_move" in str(ledger.verify().faults[0])


def test_a_dropped_constraint_is_found(postgresql_url):
    with Ledger.open(postgresql_url) as ledger, raw_connection(postgresql_url) as run:
        run("ALTER TABLE ledger_balances DROP CONSTRAINT ledger_never_overspent")
        assert "lacks the constraint" in str(ledger.verify().faults[0])


def test_a_cut_off_end_is_found_by_the_age_of_the_last_signed_head(ledger, store_url, clock):
    ledger.open_setwise("ada", ["pure:0.1x9"], delta=1e-6)
    account = ledger.account("ada")
    account.charge(uses("pure:0.1"), key="1", request="q")
    ledger.sign(KEY)
    clock.move(hours=3)
    account.charge(uses("pure:0.1"), key="2", request="q")
    ledger.sign(KEY)
    assert not ledger.verify(key=KEY, within=timedelta(hours=1)).faults
    with without_triggers(store_url) as run:
        run("DELETE FROM ledger_openings WHERE holder = 3")
        run("DELETE FROM ledger_movements WHERE position = 2")
        run("DELETE FROM ledger_entries WHERE position = 2")
        run("UPDATE ledger_balances SET spent = 1, movement = (SELECT max(number) FROM ledger_movements)")
        run(
            "UPDATE ledger_accounts SET entries = 1, charges = 1, head = (SELECT hash FROM ledger_entries), "
            "at = (SELECT at FROM ledger_entries)"
        )
    assert not ledger.verify(key=KEY).faults
    (fault,) = ledger.verify(key=KEY, within=timedelta(hours=1)).faults
    assert "its end may have been cut off" in str(fault)


@pytest.fixture
def last_head(tmp_path):
    """A file outside the database for the last signed head."""
    return HeadFile(tmp_path / "outside" / "key.head")


def copy_of(url):
    """Return every row of a ledger, as a backup has them."""
    with raw_connection(url) as run:
        return {table: run(f"SELECT * FROM ledger_{table}") for table in COLUMNS}


def put_back(url, rows):
    """Replace every row of a ledger by those of an older copy."""
    with without_triggers(url) as run:
        for table in reversed(COLUMNS):
            run(f"DELETE FROM ledger_{table}")
        for table, saved in rows.items():
            for row in saved:
                run(f"INSERT INTO ledger_{table} VALUES ({', '.join('?' * len(row))})", *row)


def test_an_old_copy_that_was_put_back_is_not_signed(ledger, store_url, clock, last_head):
    last_head.path.parent.mkdir()
    ledger.open_setwise("ada", ["pure:0.1x9"], delta=1e-6)
    account = ledger.account("ada")
    account.charge(uses("pure:0.1"), key="1", request="q")
    ledger.sign(KEY, last_head=last_head)
    older = copy_of(store_url)
    clock.move(minutes=10)
    account.charge(uses("pure:0.1"), key="2", request="q")
    ledger.sign(KEY, last_head=last_head)
    put_back(store_url, older)
    assert not ledger.verify(key=KEY, within=timedelta(hours=1)).faults  # the database alone cannot tell
    (fault,) = ledger.verify(key=KEY, last_head=last_head).faults
    assert "no longer has the head, number 3" in str(fault)
    for attempt in (ledger.sign, ledger.keep_head):
        with pytest.raises(StoreFailed, match="older copy"):
            attempt(KEY, last_head=last_head)
    assert len(copy_of(store_url)["openings"]) == 2
    ledger.sign(KEY, last_head=last_head, anew=True)
    account.charge(uses("pure:0.1"), key="3", request="q")
    ledger.sign(KEY, last_head=last_head)
    assert not ledger.verify(key=KEY, last_head=last_head).faults
    assert last_head.path.stat().st_mode & 0o777 == 0o600


def test_what_does_not_continue_the_last_head_is_not_signed(ledger, store_url, clock):
    ledger.open_setwise("ada", ["pure:0.1x9"], delta=1e-6)
    account = ledger.account("ada")
    for number in range(3):
        account.charge(uses("pure:0.1"), key=str(number), request="q")
        if number == 1:
            ledger.sign(KEY)
    changes = [
        "UPDATE ledger_entries SET content = 'other' WHERE position = 3",
        "UPDATE ledger_entries SET hash = 'other' WHERE position = 2",
        "DELETE FROM ledger_entries WHERE position = 3",
        "UPDATE ledger_accounts SET head = 'other'",
        "UPDATE ledger_openings SET body = replace(body, '0.1x9', '0.1x8') WHERE holder = 1",
        "DELETE FROM ledger_accounts",
    ]
    with intrusion(store_url) as (run, mend):
        for change in changes:
            run(change)
            with pytest.raises(StoreFailed, match="not signed"):
                ledger.sign(KEY)
            mend()
    with pytest.raises(StoreFailed, match="not signed with this key"):
        ledger.sign(b"another key altogether")
    ledger.sign(KEY)
    assert not ledger.verify(key=KEY).faults


def test_a_missing_last_head_is_taken_from_the_ledger_only_while_it_is_recent(ledger, clock, last_head):
    last_head.path.parent.mkdir()
    ledger.sign(KEY)
    with pytest.raises(StoreFailed, match="--anew"):
        ledger.sign(KEY, last_head=last_head)
    clock.move(hours=30)
    with pytest.raises(StoreFailed, match="--anew"):
        ledger.keep_head(KEY, last_head, within=timedelta(hours=24))
    assert last_head.read() is None
    ledger.keep_head(KEY, last_head, within=timedelta(hours=48))
    assert last_head.read().number == 1
    ledger.sign(KEY, last_head=last_head)
    assert last_head.read().number == 2


def test_a_head_stamped_a_year_ahead_is_not_recent(ledger, clock):
    """Its clock was wrong: it neither passes for a recent head nor makes later ones wrong."""
    clock.move(days=365)
    ledger.sign(KEY)
    clock.move(days=-365)
    (fault,) = ledger.verify(key=KEY, within=timedelta(hours=1)).faults
    assert "lacks a recent signed head (none)" in str(fault)
    ledger.sign(KEY)
    assert not ledger.verify(key=KEY, within=timedelta(hours=1)).faults


def test_the_signature_of_a_head_covers_the_records_before_it(ledger, store_url):
    """An act is rewritten and all hashes are redone: only the signature tells."""
    ledger.record("person.added", by="root", subject="Ada")
    ledger.sign(KEY)
    with without_triggers(store_url) as run:
        run("UPDATE ledger_openings SET body = replace(body, 'root', 'joe') WHERE kind = 'act'")
        redo_hashes(run)
    assert not ledger.verify().faults
    (fault,) = ledger.verify(key=KEY).faults
    assert "not signed with this key" in str(fault)


def test_files_that_hold_no_head(last_head):
    last_head.path.parent.mkdir()
    last_head.path.write_text("{}")
    with pytest.raises(InvalidParameter, match="does not hold a signed head"):
        last_head.read()


def test_what_was_signed_must_still_be_there(ledger, store_url, clock):
    ledger.open_setwise("ada", ["pure:0.1x9"], delta=1e-6)
    ledger.account("ada").charge(uses("pure:0.1"), key="1", request="q")
    ledger.sign(KEY)
    assert any(
        "not signed with this key" in str(fault) for fault in ledger.verify(key=b"another key altogether").faults
    )
    with without_triggers(store_url) as run:
        run("UPDATE ledger_entries SET content = 'other'")
        redo_hashes(run)
    assert any("the head signed at" in str(fault) for fault in ledger.verify().faults)


def test_keys_that_cannot_be_used(tmp_path):
    (tmp_path / "short").write_text("secret\n")
    for name in ("short", "missing"):
        with pytest.raises(InvalidParameter, match=name):
            read_key(tmp_path / name)
    (tmp_path / "key").write_text("0123456789abcdef\n")
    assert read_key(tmp_path / "key") == b"0123456789abcdef"


def test_a_ledger_on_a_read_only_disk_is_verified(sqlite_ledger, tmp_path):
    sqlite_ledger.open_setwise("ada", ["pure:0.1x9"], delta=1e-6)
    sqlite_ledger.account("ada").charge(uses("pure:0.1"), key="1", request="q")
    expected = sqlite_ledger.verify()
    sqlite_ledger.close()
    folder = tmp_path / "read only"
    folder.mkdir()
    shutil.copy(tmp_path / "plain.db", folder / "plain.db")
    (folder / "plain.db").chmod(0o400)
    folder.chmod(0o500)
    try:
        with Ledger.inspect(str(folder / "plain.db")) as ledger:
            assert ledger.verify() == expected
            assert sorted(path.name for path in folder.iterdir()) == ["plain.db"] or os.geteuid() == 0
    finally:
        folder.chmod(0o700)


def test_ledger_files_are_for_their_owner_alone(sqlite_ledger, tmp_path):
    sqlite_ledger.open_setwise("ada", ["pure:0.1x9"], delta=1e-6)
    files = [path for path in tmp_path.iterdir() if path.name.startswith("plain.db")]
    assert len(files) == 3
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_damaged_pages_are_found(sqlite_ledger, tmp_path):
    """Bytes overwritten anywhere: verification names something, or SQLite fails; what is not found changed nothing."""
    sqlite_ledger.open_setwise("ada", ["pure:0.1x999"], delta=1e-6)
    for number in range(40):
        sqlite_ledger.account("ada").charge(uses("pure:0.1"), key=str(number), request="q" * 50)
    expected = sqlite_ledger.verify()
    sqlite_ledger.close()
    whole = (tmp_path / "plain.db").read_bytes()
    draws = random.Random(1)
    for number in range(60):
        place = draws.randrange(100, len(whole) - 16)
        path = tmp_path / f"{number}.db"
        path.write_bytes(whole[:place] + draws.randbytes(16) + whole[place + 16 :])
        try:
            with Ledger.inspect(str(path)) as ledger:
                if not ledger.verify().faults:
                    assert ledger.verify() == expected
                    assert ledger.account("ada").status().spent
        except StoreFailed:
            pass
