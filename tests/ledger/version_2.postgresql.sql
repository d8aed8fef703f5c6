CREATE FUNCTION ledger_accounts_advance() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF (NEW.holder, NEW.name, NEW.kind, NEW.dataset, NEW.cap) IS DISTINCT FROM
     (OLD.holder, OLD.name, OLD.kind, OLD.dataset, OLD.cap)
     OR NEW.entries <> OLD.entries + 1
     OR NOT EXISTS (SELECT 1 FROM ledger_entries e
                    WHERE e.holder = NEW.holder AND e.position = NEW.entries AND e.hash = NEW.head
                      AND e.previous = OLD.head AND e.at = NEW.at AND NEW.period = greatest(OLD.period, e.period)
                      AND NEW.charges = OLD.charges + (e.kind = 'charge')::int) THEN
    RAISE EXCEPTION 'ledger: an account only moves on by its next entry' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE FUNCTION ledger_accounts_start() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF NEW.entries <> 0 OR NEW.charges <> 0 OR NEW.period <> ''
     OR NOT EXISTS (SELECT 1 FROM ledger_openings
                    WHERE holder = NEW.holder AND kind = NEW.kind AND name = NEW.name AND hash = NEW.head
                      AND at = NEW.at) THEN
    RAISE EXCEPTION 'ledger: an account starts from its opening' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE FUNCTION ledger_balances_move() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF pg_trigger_depth() < 2
     OR (NEW.holder, NEW.period, NEW.what, NEW.total) IS DISTINCT FROM (OLD.holder, OLD.period, OLD.what, OLD.total)
     OR NEW.movement = OLD.movement
     OR NOT EXISTS (SELECT 1 FROM ledger_movements
                    WHERE number = NEW.movement AND holder = NEW.holder AND period = NEW.period AND what = NEW.what
                      AND amount = NEW.spent - OLD.spent) THEN
    RAISE EXCEPTION 'ledger: a balance only changes by a new movement' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE FUNCTION ledger_balances_start() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF NEW.spent <> 0 OR NEW.movement <> 0 THEN
    RAISE EXCEPTION 'ledger: a balance starts at nothing' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE FUNCTION ledger_entries_apply() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  UPDATE ledger_accounts
     SET entries = NEW.position, charges = charges + (NEW.kind = 'charge')::int, head = NEW.hash, at = NEW.at,
         period = greatest(period, NEW.period)
   WHERE holder = NEW.holder;
  RETURN NULL;
END $$;
CREATE FUNCTION ledger_entries_follow() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE last record;
BEGIN
  SELECT * INTO last FROM ledger_accounts WHERE holder = NEW.holder FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'ledger: no such account' USING ERRCODE = 'foreign_key_violation';
  END IF;
  IF NEW.kind = 'charge' AND (NEW.at < last.at - 10000000 OR NEW.period < last.period) THEN
    RAISE EXCEPTION 'ledger: the clock is behind' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.kind = 'settle'
     AND NOT EXISTS (SELECT 1 FROM ledger_entries
                     WHERE holder = NEW.holder AND key = NEW.key AND kind = 'charge' AND period = NEW.period) THEN
    RAISE EXCEPTION 'ledger: only a charge can be settled' USING ERRCODE = 'foreign_key_violation';
  END IF;
  NEW.position := last.entries + 1;
  NEW.at := greatest(NEW.at, last.at);
  NEW.previous := last.head;
  NEW.hash := encode(sha256(convert_to(
    NEW.previous || chr(10) || NEW.position || chr(10) || NEW.at || chr(10) || NEW.digest, 'UTF8')), 'hex');
  RETURN NEW;
END $$;
CREATE FUNCTION ledger_lines_complete() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF (SELECT count(*) FROM ledger_lines WHERE holder = NEW.holder)
     > (SELECT lines FROM ledger_openings WHERE holder = NEW.holder) THEN
    RAISE EXCEPTION 'ledger: this opening has all its lines' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NULL;
END $$;
CREATE FUNCTION ledger_movements_apply() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF NOT EXISTS (
    SELECT 1 FROM ledger_entries e JOIN ledger_accounts a ON a.holder = e.holder
     WHERE e.holder = NEW.account AND e.position = NEW.position AND a.entries = NEW.position
       AND ((e.kind = 'charge' AND NEW.amount > 0
             AND ((NEW.holder = a.holder AND NEW.period = e.period) OR (NEW.holder = a.cap AND NEW.period = '')))
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
END $$;
CREATE FUNCTION ledger_refuse_rewrite() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  RAISE EXCEPTION 'ledger: history is never rewritten' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TABLE ledger_accounts (
    holder bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    dataset text NOT NULL COLLATE pg_catalog."C",
    cap bigint,
    entries bigint NOT NULL,
    charges bigint NOT NULL,
    head text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    period text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT ledger_accounts_kind_check CHECK ((kind = ANY (ARRAY['setwise'::text, 'filter'::text])))
);
CREATE TABLE ledger_balances (
    holder bigint NOT NULL,
    period text NOT NULL COLLATE pg_catalog."C",
    what text NOT NULL COLLATE pg_catalog."C",
    total bigint NOT NULL,
    spent bigint NOT NULL,
    movement bigint NOT NULL,
    CONSTRAINT ledger_never_overspent CHECK (((0 <= spent) AND (spent <= total)))
);
CREATE TABLE ledger_entries (
    holder bigint NOT NULL,
    "position" bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    period text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    uses text NOT NULL COLLATE pg_catalog."C",
    content text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL COLLATE pg_catalog."C",
    previous text NOT NULL COLLATE pg_catalog."C",
    hash text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT ledger_entries_kind_check CHECK ((kind = ANY (ARRAY['charge'::text, 'settle'::text]))),
    CONSTRAINT ledger_entries_position_check CHECK (("position" > 0))
);
CREATE TABLE ledger_lines (
    holder bigint NOT NULL,
    what text NOT NULL COLLATE pg_catalog."C",
    place integer NOT NULL,
    total bigint NOT NULL,
    CONSTRAINT ledger_lines_total_check CHECK ((total >= 0))
);
CREATE TABLE ledger_movements (
    number bigint NOT NULL,
    account bigint NOT NULL,
    "position" bigint NOT NULL,
    holder bigint NOT NULL,
    period text NOT NULL COLLATE pg_catalog."C",
    what text NOT NULL COLLATE pg_catalog."C",
    amount bigint NOT NULL,
    CONSTRAINT ledger_movements_amount_check CHECK ((amount <> 0))
);
CREATE SEQUENCE ledger_movements_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE ledger_movements_number_seq OWNED BY ledger_movements.number;
CREATE TABLE ledger_openings (
    holder bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    lines integer NOT NULL,
    at bigint NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C",
    previous text NOT NULL COLLATE pg_catalog."C",
    hash text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT ledger_openings_holder_check CHECK ((holder > 0)),
    CONSTRAINT ledger_openings_kind_check CHECK ((kind = ANY (ARRAY['setwise'::text, 'filter'::text, 'cap'::text])))
);
CREATE TABLE ledger_versions (
    version integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL
);
ALTER TABLE ONLY ledger_movements ALTER COLUMN number SET DEFAULT nextval('ledger_movements_number_seq'::regclass);
INSERT INTO ledger_accounts VALUES (2, 'ada', 'setwise', '', NULL, 3, 2, '8fae9b2c79995c60d28cfd931165f8685f118eb825a9b070a548b4de385b1907', 1794744005000000, '2026-11');
INSERT INTO ledger_accounts VALUES (3, 'bob', 'filter', 'visits', 1, 1, 1, '00907ff0f9443bc1c6f2b5b9b1e36d0a73b320047c3c02b7de6b2fdcf61b833c', 1794744005000000, '');
INSERT INTO ledger_balances VALUES (2, '2026-11', 'bounded-range:0.1', 10, 2, 3);
INSERT INTO ledger_balances VALUES (2, '2026-11', 'pure:0.1', 5, 3, 4);
INSERT INTO ledger_balances VALUES (3, '', 'failure', 1152921504606846976, 23058430092136942, 5);
INSERT INTO ledger_balances VALUES (3, '', 'rho', 1152921504606846976, 62829655816362151, 6);
INSERT INTO ledger_balances VALUES (1, '', 'failure', 1152921504606846976, 23058430092136942, 7);
INSERT INTO ledger_balances VALUES (1, '', 'rho', 1152921504606846976, 17271359197459796, 8);
INSERT INTO ledger_entries VALUES (2, 1, 'charge', 'one', '2026-11', 1794744000000000, '["bounded-range:0.1x3","pure:0.1"]', 'q', '6dc038e95f7685c05652a3b3ece3a65c5ba2556524fa2cc230f2939e228cbb40', '09ecac2a87f40513a5b3fa0ae5b26e53b4cea8cff36515102388f03aa2bd805b', '435841920b3ce081935c2a92444d17d3c5b19116ca2bb14773c8e13610be44c1');
INSERT INTO ledger_entries VALUES (2, 2, 'settle', 'one', '2026-11', 1794744005000000, '["bounded-range:0.1"]', 'tea', '91aa370e52cea9601b043d8a2155d449e91fd4302ea58199a3a314b4584d38b4', '435841920b3ce081935c2a92444d17d3c5b19116ca2bb14773c8e13610be44c1', '97641df019aa58154db093c566c85ca4080646c529f7d781df2e0ce2cf722844');
INSERT INTO ledger_entries VALUES (2, 3, 'charge', 'two', '2026-11', 1794744005000000, '["pure:0.1x2"]', 'q', '9fb2499b454c1edd9da1f39fc3e6e3a8fab6f4c6d884852d6539675556eab4f1', '97641df019aa58154db093c566c85ca4080646c529f7d781df2e0ce2cf722844', '8fae9b2c79995c60d28cfd931165f8685f118eb825a9b070a548b4de385b1907');
INSERT INTO ledger_entries VALUES (3, 1, 'charge', 'k', '', 1794744005000000, '["gaussian:20.0","approx:0.0,1e-08"]', 'q', 'b8d62ec13cdcce61086326fef365c9fdbf4616e9b23146b88f2a4920845385f4', '0c6501a58adb2331389486af550f3c1e278490ad567f328d9108192667e44139', '00907ff0f9443bc1c6f2b5b9b1e36d0a73b320047c3c02b7de6b2fdcf61b833c');
INSERT INTO ledger_lines VALUES (1, 'failure', 0, 1152921504606846976);
INSERT INTO ledger_lines VALUES (1, 'rho', 1, 1152921504606846976);
INSERT INTO ledger_lines VALUES (2, 'bounded-range:0.1', 0, 10);
INSERT INTO ledger_lines VALUES (2, 'pure:0.1', 1, 5);
INSERT INTO ledger_lines VALUES (2, 'approx:0.0,1e-09', 2, 3);
INSERT INTO ledger_lines VALUES (3, 'failure', 0, 1152921504606846976);
INSERT INTO ledger_lines VALUES (3, 'rho', 1, 1152921504606846976);
INSERT INTO ledger_movements VALUES (1, 2, 1, 2, '2026-11', 'bounded-range:0.1', 3);
INSERT INTO ledger_movements VALUES (2, 2, 1, 2, '2026-11', 'pure:0.1', 1);
INSERT INTO ledger_movements VALUES (3, 2, 2, 2, '2026-11', 'bounded-range:0.1', -1);
INSERT INTO ledger_movements VALUES (4, 2, 3, 2, '2026-11', 'pure:0.1', 2);
INSERT INTO ledger_movements VALUES (5, 3, 1, 3, '', 'failure', 23058430092136942);
INSERT INTO ledger_movements VALUES (6, 3, 1, 3, '', 'rho', 62829655816362151);
INSERT INTO ledger_movements VALUES (7, 3, 1, 1, '', 'failure', 23058430092136942);
INSERT INTO ledger_movements VALUES (8, 3, 1, 1, '', 'rho', 17271359197459796);
INSERT INTO ledger_openings VALUES (1, 'cap', 'visits', 2, 1794744000000000, '{"analyst":"","cap":null,"dataset":"visits","delta":1e-06,"epsilon":{"lower":2.0,"upper":2.0},"failure_share":0.5,"interaction":"adaptive","kind":"cap","method":"zcdp-filter","name":"visits","period":null,"statement":"WhitehouseRaRoWu23 with CanonneKaSt20","totals":{"failure":5e-07,"rho":0.0834417178336794},"uses":[]}', '0000000000000000000000000000000000000000000000000000000000000000', 'b9f51d57a8f228410b8beb8534bf4d72928ef62f5b7cea1893c32f9cf109422c');
INSERT INTO ledger_openings VALUES (2, 'setwise', 'ada', 3, 1794744000000000, '{"analyst":"Ada","cap":null,"dataset":"","delta":1e-06,"epsilon":{"lower":1.0226449645850375,"upper":1.0234513575014483},"failure_share":0.5,"interaction":"setwise","kind":"setwise","method":"certified-optimum","name":"ada","period":"month","statement":"docs/optimal-composition.md, the set-wise optimum","totals":null,"uses":["bounded-range:0.1x10","pure:0.1x5","approx:0.0,1e-09x3"]}', 'b9f51d57a8f228410b8beb8534bf4d72928ef62f5b7cea1893c32f9cf109422c', '09ecac2a87f40513a5b3fa0ae5b26e53b4cea8cff36515102388f03aa2bd805b');
INSERT INTO ledger_openings VALUES (3, 'filter', 'bob', 2, 1794744000000000, '{"analyst":"Bob","cap":1,"dataset":"visits","delta":1e-06,"epsilon":{"lower":1.0,"upper":1.0},"failure_share":0.5,"interaction":"adaptive","kind":"filter","method":"zcdp-filter","name":"bob","period":null,"statement":"WhitehouseRaRoWu23 with CanonneKaSt20","totals":{"failure":5e-07,"rho":0.022937446688722076},"uses":[]}', '09ecac2a87f40513a5b3fa0ae5b26e53b4cea8cff36515102388f03aa2bd805b', '0c6501a58adb2331389486af550f3c1e278490ad567f328d9108192667e44139');
INSERT INTO ledger_versions VALUES (1, 'tables', 1794744000000000);
INSERT INTO ledger_versions VALUES (2, 'guards', 1794744000000000);
SELECT pg_catalog.setval('ledger_movements_number_seq', 8, true);
ALTER TABLE ONLY ledger_accounts
    ADD CONSTRAINT ledger_accounts_name_key UNIQUE (name);
ALTER TABLE ONLY ledger_accounts
    ADD CONSTRAINT ledger_accounts_pkey PRIMARY KEY (holder);
ALTER TABLE ONLY ledger_balances
    ADD CONSTRAINT ledger_balances_pkey PRIMARY KEY (holder, period, what);
ALTER TABLE ONLY ledger_entries
    ADD CONSTRAINT ledger_entries_pkey PRIMARY KEY (holder, "position");
ALTER TABLE ONLY ledger_lines
    ADD CONSTRAINT ledger_lines_holder_what_total_key UNIQUE (holder, what, total);
ALTER TABLE ONLY ledger_lines
    ADD CONSTRAINT ledger_lines_pkey PRIMARY KEY (holder, what);
ALTER TABLE ONLY ledger_movements
    ADD CONSTRAINT ledger_movements_account_position_holder_what_key UNIQUE (account, "position", holder, what);
ALTER TABLE ONLY ledger_movements
    ADD CONSTRAINT ledger_movements_pkey PRIMARY KEY (number);
ALTER TABLE ONLY ledger_entries
    ADD CONSTRAINT ledger_one_entry_per_key UNIQUE (holder, key, kind);
ALTER TABLE ONLY ledger_openings
    ADD CONSTRAINT ledger_openings_hash_key UNIQUE (hash);
ALTER TABLE ONLY ledger_openings
    ADD CONSTRAINT ledger_openings_pkey PRIMARY KEY (holder);
ALTER TABLE ONLY ledger_versions
    ADD CONSTRAINT ledger_versions_pkey PRIMARY KEY (version);
CREATE INDEX ledger_accounts_by_dataset ON ledger_accounts USING btree (dataset);
CREATE UNIQUE INDEX ledger_one_cap ON ledger_openings USING btree (name) WHERE (kind = 'cap'::text);
CREATE TRIGGER ledger_accounts_advance BEFORE UPDATE ON ledger_accounts FOR EACH ROW EXECUTE FUNCTION ledger_accounts_advance();
CREATE TRIGGER ledger_accounts_no_delete BEFORE DELETE ON ledger_accounts FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_accounts_no_truncate BEFORE TRUNCATE ON ledger_accounts FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_accounts_start BEFORE INSERT ON ledger_accounts FOR EACH ROW EXECUTE FUNCTION ledger_accounts_start();
CREATE TRIGGER ledger_balances_move BEFORE UPDATE ON ledger_balances FOR EACH ROW EXECUTE FUNCTION ledger_balances_move();
CREATE TRIGGER ledger_balances_no_delete BEFORE DELETE ON ledger_balances FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_balances_no_truncate BEFORE TRUNCATE ON ledger_balances FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_balances_start BEFORE INSERT ON ledger_balances FOR EACH ROW EXECUTE FUNCTION ledger_balances_start();
CREATE TRIGGER ledger_entries_apply AFTER INSERT ON ledger_entries FOR EACH ROW EXECUTE FUNCTION ledger_entries_apply();
CREATE TRIGGER ledger_entries_follow BEFORE INSERT ON ledger_entries FOR EACH ROW EXECUTE FUNCTION ledger_entries_follow();
CREATE TRIGGER ledger_entries_no_truncate BEFORE TRUNCATE ON ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_entries_no_update_or_delete BEFORE DELETE OR UPDATE ON ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_lines_complete AFTER INSERT ON ledger_lines FOR EACH ROW EXECUTE FUNCTION ledger_lines_complete();
CREATE TRIGGER ledger_lines_no_truncate BEFORE TRUNCATE ON ledger_lines FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_lines_no_update_or_delete BEFORE DELETE OR UPDATE ON ledger_lines FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_movements_apply AFTER INSERT ON ledger_movements FOR EACH ROW EXECUTE FUNCTION ledger_movements_apply();
CREATE TRIGGER ledger_movements_no_truncate BEFORE TRUNCATE ON ledger_movements FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_movements_no_update_or_delete BEFORE DELETE OR UPDATE ON ledger_movements FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_openings_no_truncate BEFORE TRUNCATE ON ledger_openings FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_openings_no_update_or_delete BEFORE DELETE OR UPDATE ON ledger_openings FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_versions_no_truncate BEFORE TRUNCATE ON ledger_versions FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_versions_no_update_or_delete BEFORE DELETE OR UPDATE ON ledger_versions FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
ALTER TABLE ONLY ledger_accounts
    ADD CONSTRAINT ledger_accounts_cap_fkey FOREIGN KEY (cap) REFERENCES ledger_openings(holder);
ALTER TABLE ONLY ledger_accounts
    ADD CONSTRAINT ledger_accounts_holder_fkey FOREIGN KEY (holder) REFERENCES ledger_openings(holder);
ALTER TABLE ONLY ledger_balances
    ADD CONSTRAINT ledger_balances_holder_what_total_fkey FOREIGN KEY (holder, what, total) REFERENCES ledger_lines(holder, what, total);
ALTER TABLE ONLY ledger_entries
    ADD CONSTRAINT ledger_entries_holder_fkey FOREIGN KEY (holder) REFERENCES ledger_accounts(holder);
ALTER TABLE ONLY ledger_lines
    ADD CONSTRAINT ledger_lines_holder_fkey FOREIGN KEY (holder) REFERENCES ledger_openings(holder);
ALTER TABLE ONLY ledger_movements
    ADD CONSTRAINT ledger_movements_account_position_fkey FOREIGN KEY (account, "position") REFERENCES ledger_entries(holder, "position");
ALTER TABLE ONLY ledger_movements
    ADD CONSTRAINT ledger_registered FOREIGN KEY (holder, what) REFERENCES ledger_lines(holder, what);
