"""SQL text of the triggers that make SQLite refuse to rewrite history, and that apply balance changes to balances.

SQLite replaces rows without firing delete triggers (INSERT OR REPLACE), so every table also refuses a second row under
a key that is taken.
"""

from setwise.ledger.stores.schema import APPEND_ONLY, versions

_TAKEN = {
    "ledger_openings": (
        "holder = NEW.holder",
        "hash = NEW.hash",
        "kind = 'cap' AND NEW.kind = 'cap' AND name = NEW.name",
    ),
    "ledger_lines": ("holder = NEW.holder AND what = NEW.what",),
    "ledger_accounts": ("holder = NEW.holder", "name = NEW.name"),
    "ledger_entries": (
        "holder = NEW.holder AND position = NEW.position",
        "holder = NEW.holder AND key = NEW.key AND kind = NEW.kind",
    ),
    "ledger_movements": (
        "number = NEW.number",
        "account = NEW.account AND position = NEW.position AND holder = NEW.holder AND what = NEW.what",
    ),
    "ledger_balances": ("holder = NEW.holder AND period = NEW.period AND what = NEW.what",),
    "ledger_versions": ("version = NEW.version",),
}
"""Per table, the SQL conditions under which a new row has the key of an existing row; an index serves each of them."""

_OPENING_IS_COMPLETE = """
CREATE TRIGGER ledger_lines_complete BEFORE INSERT ON ledger_lines
WHEN (SELECT count(*) FROM ledger_lines WHERE holder = NEW.holder)
  >= (SELECT lines FROM ledger_openings WHERE holder = NEW.holder)
BEGIN SELECT RAISE(ABORT, 'ledger: this opening has all its lines'); END
"""

_ACCOUNT_STARTS = """
CREATE TRIGGER ledger_accounts_start BEFORE INSERT ON ledger_accounts
WHEN NEW.entries <> 0 OR NEW.charges <> 0 OR NEW.period <> '' OR NEW.state <> 'open'
  OR NOT EXISTS (SELECT 1 FROM ledger_openings
                 WHERE holder = NEW.holder AND kind = NEW.kind AND name = NEW.name AND hash = NEW.head AND at = NEW.at)
BEGIN SELECT RAISE(ABORT, 'ledger: an account starts from its opening'); END
"""

_ACCOUNT_KEEPS_TERMS = """
CREATE TRIGGER ledger_accounts_terms BEFORE UPDATE ON ledger_accounts
WHEN NEW.holder <> OLD.holder OR NEW.name <> OLD.name OR NEW.kind <> OLD.kind OR NEW.dataset <> OLD.dataset
  OR NEW.cap IS NOT OLD.cap OR NEW.analyst <> OLD.analyst
BEGIN SELECT RAISE(ABORT, 'ledger: an account keeps its terms'); END
"""

_STATE_CHANGES = """
CREATE TRIGGER ledger_accounts_state BEFORE UPDATE ON ledger_accounts
WHEN NEW.state <> OLD.state
  AND (NEW.entries <> OLD.entries OR NEW.charges <> OLD.charges OR NEW.head <> OLD.head OR NEW.at <> OLD.at
       OR NEW.period <> OLD.period
       OR NOT EXISTS (SELECT 1 FROM ledger_openings o
                      WHERE o.holder = (SELECT max(holder) FROM ledger_openings) AND o.name = NEW.name
                        AND ((o.kind = 'freeze' AND OLD.state = 'open' AND NEW.state = 'frozen')
                          OR (o.kind = 'thaw' AND OLD.state = 'frozen' AND NEW.state = 'open')
                          OR (o.kind = 'close' AND OLD.state <> 'closed' AND NEW.state = 'closed'))))
BEGIN SELECT RAISE(ABORT, 'ledger: the state of an account changes by an act on it'); END
"""

_ACCOUNT_ADVANCES = """
CREATE TRIGGER ledger_accounts_advance BEFORE UPDATE ON ledger_accounts
WHEN NEW.state = OLD.state AND (NEW.entries <> OLD.entries + 1
  OR NOT EXISTS (SELECT 1 FROM ledger_entries e
                 WHERE e.holder = NEW.holder AND e.position = NEW.entries AND e.hash = NEW.head
                   AND e.previous = OLD.head AND e.at = NEW.at AND NEW.period = max(OLD.period, e.period)
                   AND NEW.charges = OLD.charges + (e.kind = 'charge')))
BEGIN SELECT RAISE(ABORT, 'ledger: an account only moves on by its next entry'); END
"""

_ENTRY_FOLLOWS = """
CREATE TRIGGER ledger_entries_follow BEFORE INSERT ON ledger_entries
WHEN NOT EXISTS (SELECT 1 FROM ledger_accounts a
                 WHERE a.holder = NEW.holder AND NEW.position = a.entries + 1 AND NEW.previous = a.head
                   AND (NEW.kind NOT IN ('charge', 'release') OR a.state = 'open'))
BEGIN SELECT RAISE(ABORT, 'ledger: an entry follows the one before it in an open account'); END
"""

_SETTLE_HAS_CHARGE = """
CREATE TRIGGER ledger_entries_settle BEFORE INSERT ON ledger_entries
WHEN NEW.kind = 'settle'
  AND NOT EXISTS (SELECT 1 FROM ledger_entries
                  WHERE holder = NEW.holder AND key = NEW.key AND kind = 'charge' AND period = NEW.period)
BEGIN SELECT RAISE(ABORT, 'ledger: only a charge can be settled'); END
"""

_RELEASE_HAS_CHARGE = """
CREATE TRIGGER ledger_entries_release BEFORE INSERT ON ledger_entries
WHEN NEW.kind = 'release'
  AND (NEW.moves <> '[]' OR NEW.uses <> '[]'
    OR NOT EXISTS (SELECT 1 FROM ledger_entries
                    WHERE holder = NEW.holder AND kind = 'charge' AND period = NEW.period
                      AND key = substr(NEW.key, 1, instr(NEW.key, char(10)) - 1)))
BEGIN SELECT RAISE(ABORT, 'ledger: a release charges nothing and has a charge that paid for it'); END
"""

_ENTRY_PAYS = """
CREATE TRIGGER ledger_entries_pay BEFORE INSERT ON ledger_entries
WHEN NOT json_valid(NEW.moves)
  OR (NEW.kind = 'slice' AND NEW.moves = '[]')
  OR (NEW.kind = 'charge'
    AND (NOT EXISTS (SELECT 1 FROM json_each(NEW.moves) m
                      WHERE json_extract(m.value, '$[0]') = NEW.holder
                        AND json_extract(m.value, '$[2]') NOT GLOB 'slice:*')
      OR NOT EXISTS (SELECT 1 FROM ledger_accounts a
                      WHERE a.holder = NEW.holder
                        AND (a.cap IS NULL
                          OR EXISTS (SELECT 1 FROM json_each(NEW.moves) m
                                      WHERE json_extract(m.value, '$[0]') = a.cap
                                         OR json_extract(m.value, '$[2]') GLOB 'slice:*')))))
BEGIN SELECT RAISE(ABORT, 'ledger: a charge pays from its account and from the cap'); END
"""

_ENTRY_APPLIES = """
CREATE TRIGGER ledger_entries_apply AFTER INSERT ON ledger_entries
BEGIN
  UPDATE ledger_accounts
     SET entries = NEW.position, charges = charges + (NEW.kind = 'charge'), head = NEW.hash, at = NEW.at,
         period = max(period, NEW.period)
   WHERE holder = NEW.holder;
  INSERT INTO ledger_movements (account, position, holder, period, what, amount)
       SELECT NEW.holder, NEW.position, json_extract(m.value, '$[0]'), json_extract(m.value, '$[1]'),
              json_extract(m.value, '$[2]'), json_extract(m.value, '$[3]')
         FROM json_each(NEW.moves) m ORDER BY m.key;
END
"""

_MOVEMENT_BELONGS = """
CREATE TRIGGER ledger_movements_belong BEFORE INSERT ON ledger_movements
WHEN NOT EXISTS (
  SELECT 1 FROM ledger_entries e JOIN ledger_accounts a ON a.holder = e.holder
   WHERE e.holder = NEW.account AND e.position = NEW.position AND a.entries = NEW.position
     AND EXISTS (SELECT 1 FROM json_each(e.moves) m
                  WHERE json_extract(m.value, '$[0]') = NEW.holder AND json_extract(m.value, '$[1]') = NEW.period
                    AND json_extract(m.value, '$[2]') = NEW.what AND json_extract(m.value, '$[3]') = NEW.amount)
     AND ((e.kind = 'charge' AND NEW.amount > 0 AND NEW.what NOT GLOB 'slice:*'
           AND ((NEW.holder = a.holder AND NEW.period = e.period) OR (NEW.holder = a.cap AND NEW.period = '')))
       OR (e.kind IN ('charge', 'slice') AND NEW.amount < 0 AND NEW.what GLOB 'slice:*'
           AND NEW.holder = a.holder AND NEW.period = '')
       OR (e.kind = 'slice' AND NEW.amount > 0 AND NEW.holder = a.cap AND NEW.period = '' AND a.state = 'open')
       OR (e.kind = 'slice' AND NEW.period = ''
           AND ((NEW.holder = a.holder AND NEW.amount > 0) OR (NEW.holder = a.cap AND NEW.amount < 0))
           AND EXISTS (SELECT 1 FROM ledger_movements m
                        WHERE m.account = NEW.account AND m.position = NEW.position AND m.amount = NEW.amount
                          AND ((NEW.holder = a.holder AND m.holder = a.cap AND 'slice:' || m.what = NEW.what)
                            OR (NEW.holder = a.cap AND m.holder = a.holder AND m.what = 'slice:' || NEW.what))))
       OR (e.kind = 'settle' AND NEW.amount < 0 AND a.kind = 'setwise'
           AND NEW.holder = a.holder AND NEW.period = e.period
           AND -NEW.amount <= (SELECT m.amount FROM ledger_movements m
                                 JOIN ledger_entries c ON c.holder = m.account AND c.position = m.position
                                WHERE c.holder = e.holder AND c.key = e.key AND c.kind = 'charge'
                                  AND m.holder = NEW.holder AND m.what = NEW.what))))
BEGIN SELECT RAISE(ABORT, 'ledger: a movement belongs to the last entry of its account'); END
"""

_MOVEMENT_APPLIES = """
CREATE TRIGGER ledger_movements_apply AFTER INSERT ON ledger_movements
BEGIN
  INSERT INTO ledger_balances (holder, period, what, total, spent, movement)
       SELECT l.holder, NEW.period, l.what, l.total, 0, 0 FROM ledger_lines l
        WHERE l.holder = NEW.holder AND l.what = NEW.what
          AND NOT EXISTS (SELECT 1 FROM ledger_balances b
                           WHERE b.holder = l.holder AND b.period = NEW.period AND b.what = l.what);
  UPDATE ledger_balances SET spent = spent + NEW.amount, movement = NEW.number
   WHERE holder = NEW.holder AND period = NEW.period AND what = NEW.what;
END
"""

_BALANCE_STARTS = """
CREATE TRIGGER ledger_balances_start BEFORE INSERT ON ledger_balances
WHEN NEW.spent <> 0 OR NEW.movement <> 0
BEGIN SELECT RAISE(ABORT, 'ledger: a balance starts at nothing'); END
"""

_BALANCE_MOVES = """
CREATE TRIGGER ledger_balances_move BEFORE UPDATE ON ledger_balances
WHEN NEW.holder <> OLD.holder OR NEW.period <> OLD.period OR NEW.what <> OLD.what OR NEW.total <> OLD.total
  OR NEW.movement <= OLD.movement
  OR NOT EXISTS (SELECT 1 FROM ledger_movements
                 WHERE number = NEW.movement AND holder = NEW.holder AND period = NEW.period AND what = NEW.what
                   AND amount = NEW.spent - OLD.spent)
BEGIN SELECT RAISE(ABORT, 'ledger: a balance only changes by a new movement'); END
"""


def statements() -> list[str]:
    """Return the SQL statements that create every trigger of a SQLite ledger."""
    tables = [table.name for table in APPEND_ONLY] + [versions.name]
    frozen = [
        f"CREATE TRIGGER {name}_no_{verb.lower()} BEFORE {verb} ON {name} "
        f"BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END"
        for name in tables
        for verb in ("UPDATE", "DELETE")
    ]
    frozen += [
        f"CREATE TRIGGER {name}_no_delete BEFORE DELETE ON {name} "
        f"BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END"
        for name in ("ledger_accounts", "ledger_balances")
    ]
    taken = [
        f"CREATE TRIGGER {name}_taken BEFORE INSERT ON {name} WHEN {_any_exists(name, same)} "
        f"BEGIN SELECT RAISE(ABORT, 'ledger: taken in {name}'); END"
        for name, same in _TAKEN.items()
    ]
    return [
        *frozen,
        *taken,
        _OPENING_IS_COMPLETE,
        _ACCOUNT_STARTS,
        _ACCOUNT_KEEPS_TERMS,
        _STATE_CHANGES,
        _ACCOUNT_ADVANCES,
        _ENTRY_FOLLOWS,
        _SETTLE_HAS_CHARGE,
        _RELEASE_HAS_CHARGE,
        _ENTRY_PAYS,
        _ENTRY_APPLIES,
        _MOVEMENT_BELONGS,
        _MOVEMENT_APPLIES,
        _BALANCE_STARTS,
        _BALANCE_MOVES,
    ]


def _any_exists(name: str, conditions: tuple[str, ...]) -> str:
    """Return the SQL text of a condition that is true if some row of the table `name` satisfies one of `conditions`.

    Triggers use it to refuse a new row under a key that is taken.
    """
    return " OR ".join(f"EXISTS (SELECT 1 FROM {name} WHERE {condition})" for condition in conditions)  # noqa: S608 - constants
