"""SQL text of triggers that make PostgreSQL chain entries, apply balance changes, and refuse to rewrite history.

An entry is inserted without a hash and, unless its price is valid at one position of the chain only, without a
position. The trigger locks the account's row and assigns both, so that concurrent writers of one account queue.
"""

from setwise.ledger.stores.schema import APPEND_ONLY, versions

_REWRITE = """
CREATE FUNCTION ledger_refuse_rewrite() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'ledger: history is never rewritten' USING ERRCODE = 'restrict_violation';
END $$
"""

_OPENING_IS_COMPLETE = """
CREATE FUNCTION ledger_lines_complete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT count(*) FROM ledger_lines WHERE holder = NEW.holder)
     > (SELECT lines FROM ledger_openings WHERE holder = NEW.holder) THEN
    RAISE EXCEPTION 'ledger: this opening has all its lines' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NULL;
END $$
"""

_ACCOUNT_STARTS = """
CREATE FUNCTION ledger_accounts_start() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.entries <> 0 OR NEW.charges <> 0 OR NEW.period <> '' OR NEW.state <> 'open'
     OR NOT EXISTS (SELECT 1 FROM ledger_openings
                    WHERE holder = NEW.holder AND kind = NEW.kind AND name = NEW.name AND hash = NEW.head
                      AND at = NEW.at) THEN
    RAISE EXCEPTION 'ledger: an account starts from its opening' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$
"""

_ACCOUNT_ADVANCES = """
CREATE FUNCTION ledger_accounts_advance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.holder, NEW.name, NEW.kind, NEW.dataset, NEW.cap, NEW.analyst) IS DISTINCT FROM
     (OLD.holder, OLD.name, OLD.kind, OLD.dataset, OLD.cap, OLD.analyst) THEN
    RAISE EXCEPTION 'ledger: an account keeps its terms' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.state <> OLD.state THEN
    IF (NEW.entries, NEW.charges, NEW.head, NEW.at, NEW.period) IS DISTINCT FROM
       (OLD.entries, OLD.charges, OLD.head, OLD.at, OLD.period)
       OR NOT EXISTS (SELECT 1 FROM ledger_openings o
                      WHERE o.holder = (SELECT max(holder) FROM ledger_openings) AND o.name = NEW.name
                        AND ((o.kind = 'freeze' AND OLD.state = 'open' AND NEW.state = 'frozen')
                          OR (o.kind = 'thaw' AND OLD.state = 'frozen' AND NEW.state = 'open')
                          OR (o.kind = 'close' AND OLD.state <> 'closed' AND NEW.state = 'closed'))) THEN
      RAISE EXCEPTION 'ledger: the state of an account changes by an act on it' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.entries <> OLD.entries + 1
     OR NOT EXISTS (SELECT 1 FROM ledger_entries e
                    WHERE e.holder = NEW.holder AND e.position = NEW.entries AND e.hash = NEW.head
                      AND e.previous = OLD.head AND e.at = NEW.at AND NEW.period = greatest(OLD.period, e.period)
                      AND NEW.charges = OLD.charges + (e.kind = 'charge')::int) THEN
    RAISE EXCEPTION 'ledger: an account only moves on by its next entry' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$
"""

_ENTRY_FOLLOWS = """
CREATE FUNCTION ledger_entries_follow() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE last record;
BEGIN
  SELECT * INTO last FROM ledger_accounts WHERE holder = NEW.holder FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'ledger: no such account' USING ERRCODE = 'foreign_key_violation';
  END IF;
  IF NEW.kind IN ('charge', 'release') AND last.state <> 'open' THEN
    RAISE EXCEPTION 'ledger: the account is not open' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.kind = 'settle'
     AND NOT EXISTS (SELECT 1 FROM ledger_entries
                     WHERE holder = NEW.holder AND key = NEW.key AND kind = 'charge' AND period = NEW.period) THEN
    RAISE EXCEPTION 'ledger: only a charge can be settled' USING ERRCODE = 'foreign_key_violation';
  END IF;
  IF NEW.kind = 'release'
     AND (NEW.moves <> '[]' OR NEW.uses <> '[]' OR strpos(NEW.key, chr(10)) = 0
       OR NOT EXISTS (SELECT 1 FROM ledger_entries
                       WHERE holder = NEW.holder AND kind = 'charge' AND period = NEW.period
                         AND key = split_part(NEW.key, chr(10), 1))) THEN
    RAISE EXCEPTION 'ledger: a release charges nothing and has a charge that paid for it'
      USING ERRCODE = 'foreign_key_violation';
  END IF;
  IF NOT starts_with(NEW.moves, '[') OR (NEW.kind = 'slice' AND NEW.moves = '[]')
     OR (NEW.kind = 'charge'
       AND (NOT EXISTS (SELECT 1 FROM jsonb_array_elements(NEW.moves::jsonb) m
                         WHERE (m->>0)::bigint = NEW.holder AND NOT starts_with(m->>2, 'slice:'))
         OR (last.cap IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(NEW.moves::jsonb) m
                            WHERE (m->>0)::bigint = last.cap OR starts_with(m->>2, 'slice:'))))) THEN
    RAISE EXCEPTION 'ledger: a charge pays from its account and from the cap' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.position <> last.entries + 1 THEN
    RAISE EXCEPTION 'ledger: another entry came first' USING ERRCODE = 'serialization_failure';
  END IF;
  NEW.position := last.entries + 1;
  NEW.previous := last.head;
  NEW.hash := encode(sha256(convert_to(
    NEW.previous || chr(10) || NEW.position || chr(10) || NEW.at || chr(10) || NEW.digest, 'UTF8')), 'hex');
  RETURN NEW;
END $$
"""

_ENTRY_APPLIES = """
CREATE FUNCTION ledger_entries_apply() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE ledger_accounts
     SET entries = NEW.position, charges = charges + (NEW.kind = 'charge')::int, head = NEW.hash, at = NEW.at,
         period = greatest(period, NEW.period)
   WHERE holder = NEW.holder;
  INSERT INTO ledger_movements (account, position, holder, period, what, amount)
       SELECT NEW.holder, NEW.position, (m->>0)::bigint, m->>1, m->>2, (m->>3)::bigint
         FROM jsonb_array_elements(NEW.moves::jsonb) WITH ORDINALITY AS moves (m, place) ORDER BY place;
  RETURN NULL;
END $$
"""

_MOVEMENT_APPLIES = """
CREATE FUNCTION ledger_movements_apply() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF pg_trigger_depth() < 2 OR NOT EXISTS (
    SELECT 1 FROM ledger_entries e JOIN ledger_accounts a ON a.holder = e.holder
     WHERE e.holder = NEW.account AND e.position = NEW.position AND a.entries = NEW.position
       AND EXISTS (SELECT 1 FROM jsonb_array_elements(e.moves::jsonb) m
                    WHERE (m->>0)::bigint = NEW.holder AND m->>1 = NEW.period AND m->>2 = NEW.what
                      AND (m->>3)::bigint = NEW.amount)
       AND ((e.kind = 'charge' AND NEW.amount > 0 AND NOT starts_with(NEW.what, 'slice:')
             AND ((NEW.holder = a.holder AND NEW.period = e.period) OR (NEW.holder = a.cap AND NEW.period = '')))
         OR (e.kind IN ('charge', 'slice') AND NEW.amount < 0 AND starts_with(NEW.what, 'slice:')
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
                                    AND m.holder = NEW.holder AND m.what = NEW.what)))) THEN
    RAISE EXCEPTION 'ledger: a movement belongs to the last entry of its account' USING ERRCODE = 'restrict_violation';
  END IF;
  UPDATE ledger_balances SET spent = spent + NEW.amount, movement = NEW.number
   WHERE holder = NEW.holder AND period = NEW.period AND what = NEW.what;
  IF NOT FOUND THEN
    INSERT INTO ledger_balances (holder, period, what, total, spent, movement)
         SELECT l.holder, NEW.period, l.what, l.total, 0, 0 FROM ledger_lines l
          WHERE l.holder = NEW.holder AND l.what = NEW.what
    ON CONFLICT DO NOTHING;
    UPDATE ledger_balances SET spent = spent + NEW.amount, movement = NEW.number
     WHERE holder = NEW.holder AND period = NEW.period AND what = NEW.what;
  END IF;
  RETURN NULL;
END $$
"""

_BALANCE_STARTS = """
CREATE FUNCTION ledger_balances_start() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.spent <> 0 OR NEW.movement <> 0 THEN
    RAISE EXCEPTION 'ledger: a balance starts at nothing' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$
"""

_BALANCE_MOVES = """
CREATE FUNCTION ledger_balances_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF pg_trigger_depth() < 3
     OR (NEW.holder, NEW.period, NEW.what, NEW.total) IS DISTINCT FROM (OLD.holder, OLD.period, OLD.what, OLD.total)
     OR NEW.movement = OLD.movement
     OR NOT EXISTS (SELECT 1 FROM ledger_movements
                    WHERE number = NEW.movement AND holder = NEW.holder AND period = NEW.period AND what = NEW.what
                      AND amount = NEW.spent - OLD.spent) THEN
    RAISE EXCEPTION 'ledger: a balance only changes by a new movement' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$
"""

_FUNCTIONS = (
    _REWRITE,
    _OPENING_IS_COMPLETE,
    _ACCOUNT_STARTS,
    _ACCOUNT_ADVANCES,
    _ENTRY_FOLLOWS,
    _ENTRY_APPLIES,
    _MOVEMENT_APPLIES,
    _BALANCE_STARTS,
    _BALANCE_MOVES,
)

_TRIGGERS = (
    # Each row: when the trigger fires, on which statement, on which table, and the function that it calls.
    ("AFTER", "INSERT", "ledger_lines", "ledger_lines_complete"),
    ("BEFORE", "INSERT", "ledger_accounts", "ledger_accounts_start"),
    ("BEFORE", "UPDATE", "ledger_accounts", "ledger_accounts_advance"),
    ("BEFORE", "INSERT", "ledger_entries", "ledger_entries_follow"),
    ("AFTER", "INSERT", "ledger_entries", "ledger_entries_apply"),
    ("AFTER", "INSERT", "ledger_movements", "ledger_movements_apply"),
    ("BEFORE", "INSERT", "ledger_balances", "ledger_balances_start"),
    ("BEFORE", "UPDATE", "ledger_balances", "ledger_balances_move"),
)


def functions() -> dict[str, str]:
    """Return the PL/pgSQL source of every trigger function of the ledger, keyed by the function's name."""
    parts = (text.strip().partition("() RETURNS trigger LANGUAGE plpgsql AS $$") for text in _FUNCTIONS)
    return {head.removeprefix("CREATE FUNCTION "): source.removesuffix("$$") for head, _, source in parts}


def triggers() -> list[tuple[str, str, str]]:
    """Return a list of all triggers of a PostgreSQL ledger: (trigger name, table name, CREATE TRIGGER statement)."""
    tables = [table.name for table in APPEND_ONLY] + [versions.name]
    frozen = [(name, verbs) for name in tables for verbs in ("DELETE OR UPDATE", "TRUNCATE")]
    frozen += [(name, verb) for name in ("ledger_accounts", "ledger_balances") for verb in ("DELETE", "TRUNCATE")]
    triggers_of_tables = [(function, table, when, verb, "ROW", function) for when, verb, table, function in _TRIGGERS]
    triggers_of_tables += [
        (f"{name}_no_{verbs.lower().replace(' ', '_')}", name, "BEFORE", verbs, "STATEMENT", "ledger_refuse_rewrite")
        for name, verbs in frozen
    ]
    return [
        (
            name,
            table,
            f"CREATE TRIGGER {name} {when} {verbs} ON {table} FOR EACH {granularity} EXECUTE FUNCTION {function}()",
        )
        for name, table, when, verbs, granularity, function in triggers_of_tables
    ]


def statements(schema: str) -> list[str]:
    """Return the SQL statements that create every trigger function and trigger of a ledger in the given `schema`.

    The functions look for tables in that schema before temporary tables. Otherwise anybody who may create a temporary
    table called `ledger_accounts` could make the checks read that table.
    """
    path = f"LANGUAGE plpgsql SET search_path = {schema}, pg_temp AS"
    function_statements = [text.replace("LANGUAGE plpgsql AS", path, 1) for text in _FUNCTIONS]
    return [*function_statements, *(text for _, _, text in triggers())]
