CREATE FUNCTION ledger_accounts_advance() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
END $$;
CREATE FUNCTION ledger_accounts_start() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF NEW.entries <> 0 OR NEW.charges <> 0 OR NEW.period <> '' OR NEW.state <> 'open'
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
  IF NEW.kind = 'charge' AND last.state <> 'open' THEN
    RAISE EXCEPTION 'ledger: the account is not open' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.kind = 'settle'
     AND NOT EXISTS (SELECT 1 FROM ledger_entries
                     WHERE holder = NEW.holder AND key = NEW.key AND kind = 'charge' AND period = NEW.period) THEN
    RAISE EXCEPTION 'ledger: only a charge can be settled' USING ERRCODE = 'foreign_key_violation';
  END IF;
  NEW.position := last.entries + 1;
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
    analyst text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    state text DEFAULT 'open'::text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT ledger_accounts_kind_check CHECK ((kind = ANY (ARRAY['setwise'::text, 'filter'::text]))),
    CONSTRAINT ledger_state_of_account CHECK ((state = ANY (ARRAY['open'::text, 'frozen'::text, 'closed'::text])))
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
    CONSTRAINT ledger_kind_of_opening CHECK ((kind = ANY (ARRAY['setwise'::text, 'filter'::text, 'cap'::text, 'dataset'::text, 'freeze'::text, 'thaw'::text, 'close'::text, 'act'::text, 'head'::text]))),
    CONSTRAINT ledger_openings_holder_check CHECK ((holder > 0))
);
CREATE TABLE ledger_versions (
    version integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL
);
ALTER TABLE ONLY ledger_movements ALTER COLUMN number SET DEFAULT nextval('ledger_movements_number_seq'::regclass);
INSERT INTO ledger_accounts VALUES (3, 'ada', 'setwise', '', NULL, 3, 2, '23051c581eff8767db7a37f4a2e7c9337a24532ecde17d5a09fa5b826113697f', 1796472000000000, '2026-12', 'Ada', 'open');
INSERT INTO ledger_accounts VALUES (4, 'bob', 'filter', 'visits', 2, 1, 1, 'd365901cfc9aeff856b67471ec3ad0d9fce81663ba7a18abfa62a05bf94d6725', 1796472000000000, '', 'Bob', 'open');
INSERT INTO ledger_accounts VALUES (5, 'cyd', 'filter', '', NULL, 2, 2, '94d0a4306a4bc6b4c9729d1cc9a37bf693bbddfa5425634e30ea38be8de98846', 1796472000000000, '', '', 'open');
INSERT INTO ledger_accounts VALUES (6, 'dot', 'filter', '', NULL, 1, 1, 'ab9ebbc76fead80b72344966fc992fbaff57233436ba9d25d7282acdecd6c6c8', 1796558400000000, '', '', 'open');
INSERT INTO ledger_balances VALUES (3, '2026-11', 'bounded-range:0.1', 10, 6, 2);
INSERT INTO ledger_balances VALUES (3, '2026-12', 'bounded-range:0.1', 10, 3, 3);
INSERT INTO ledger_balances VALUES (3, '2026-12', 'pure:0.1', 5, 1, 4);
INSERT INTO ledger_balances VALUES (4, '', 'failure', 1152921504606846976, 23058430092136942, 5);
INSERT INTO ledger_balances VALUES (4, '', 'rho', 1152921504606846976, 62829655816362151, 6);
INSERT INTO ledger_balances VALUES (2, '', 'failure', 1152921504606846976, 23058430092136942, 7);
INSERT INTO ledger_balances VALUES (2, '', 'rho', 1152921504606846976, 62829655816362151, 8);
INSERT INTO ledger_balances VALUES (5, '', 'sum', 1152921504606846976, 1152921504606846976, 11);
INSERT INTO ledger_balances VALUES (5, '', 'rho', 1152921504606846976, 4460022504447883, 12);
INSERT INTO ledger_balances VALUES (5, '', 'wallet', 1152921504606846976, 188297977648122003, 13);
INSERT INTO ledger_balances VALUES (6, '', 'rho', 1152921504606846976, 12350831550778749, 14);
INSERT INTO ledger_balances VALUES (6, '', 'wallet', 1152921504606846976, 580438353939869075, 15);
INSERT INTO ledger_balances VALUES (6, '', 'sum', 1152921504606846976, 172938225691026196, 16);
INSERT INTO ledger_entries VALUES (3, 1, 'charge', 'one', '2026-11', 1794744000000000, '["bounded-range:0.1x10"]', '{"q":"ä 😀"}', '958847698e44609925f12cb523c023953ea44ade92fcecf552a0c8d2f372462c', '19659966a808b974fbb891192f758a0474f8758ac433d10e7852da4254c9f9b4', 'eca71fb091c303bcfb85a4547515dc4361963f72143b3c3ff558cba859fd82a4');
INSERT INTO ledger_entries VALUES (3, 2, 'settle', 'one', '2026-11', 1796472000000000, '["bounded-range:0.1x4"]', 'tea
mate', '480b3f12e9ab3adb4b1b82ab4d3a6c54b1b0467c4e72ee537f8dd2864df3b4f4', 'eca71fb091c303bcfb85a4547515dc4361963f72143b3c3ff558cba859fd82a4', '755b048c1d6d925715958e491081b5b02ab795e5fb03ebe5272ae64436b5be5b');
INSERT INTO ledger_entries VALUES (3, 3, 'charge', 'two', '2026-12', 1796472000000000, '["bounded-range:0.1x3","pure:0.1"]', 'q', 'b4905a2cd7a45592da28f0b96fb7c1ac52a150779930b31a60ed9a51c624aac2', '755b048c1d6d925715958e491081b5b02ab795e5fb03ebe5272ae64436b5be5b', '23051c581eff8767db7a37f4a2e7c9337a24532ecde17d5a09fa5b826113697f');
INSERT INTO ledger_entries VALUES (4, 1, 'charge', 'k', '', 1796472000000000, '["gaussian:20.0","approx:0.0,1e-08"]', 'q', 'b8d62ec13cdcce61086326fef365c9fdbf4616e9b23146b88f2a4920845385f4', '868636d1222c31ecba4922d9a4f4cfd5ef968911686f6b990557272adbbca4ad', 'd365901cfc9aeff856b67471ec3ad0d9fce81663ba7a18abfa62a05bf94d6725');
INSERT INTO ledger_entries VALUES (5, 1, 'charge', 'k', '', 1796472000000000, '["gaussian:20.0","pure:0.1x2"]', 'q', '2f1ed17de3dd6525dc8697d2fd838464361a992770a90ce040d650e387d1a1b6', '63789acc13315ea2d66be4b6e2240b6bee22f0ed624f3baaa1cf3e8bb4e58576', '6a4cea094953a23e6c82b5a05b5a2d0abc161cfc59824fa78a40e369d3d7b6b0');
INSERT INTO ledger_entries VALUES (5, 2, 'charge', 'l', '', 1796472000000000, '["bounded-range:0.2"]', 'q', 'a41c3dec5bb8fc972e2ceaaf06f59816e9d9f810f3115e936dac4e5955ea4273', '6a4cea094953a23e6c82b5a05b5a2d0abc161cfc59824fa78a40e369d3d7b6b0', '94d0a4306a4bc6b4c9729d1cc9a37bf693bbddfa5425634e30ea38be8de98846');
INSERT INTO ledger_entries VALUES (6, 1, 'charge', 'k', '', 1796558400000000, '["pure:0.3"]', 'q', '09230097334566737f9e498915b11cb6b86348ff90f5f660a3b0f5e78feddb29', '4a35e2448475e36a4d32f5486d730e94ec1c5a2d7f5246a7e7c335dfd8a0ff16', 'ab9ebbc76fead80b72344966fc992fbaff57233436ba9d25d7282acdecd6c6c8');
INSERT INTO ledger_lines VALUES (2, 'failure', 0, 1152921504606846976);
INSERT INTO ledger_lines VALUES (2, 'rho', 1, 1152921504606846976);
INSERT INTO ledger_lines VALUES (3, 'bounded-range:0.1', 0, 10);
INSERT INTO ledger_lines VALUES (3, 'pure:0.1', 1, 5);
INSERT INTO ledger_lines VALUES (4, 'failure', 0, 1152921504606846976);
INSERT INTO ledger_lines VALUES (4, 'rho', 1, 1152921504606846976);
INSERT INTO ledger_lines VALUES (5, 'failure', 0, 1152921504606846976);
INSERT INTO ledger_lines VALUES (5, 'rho', 1, 1152921504606846976);
INSERT INTO ledger_lines VALUES (5, 'sum', 2, 1152921504606846976);
INSERT INTO ledger_lines VALUES (5, 'wallet', 3, 1152921504606846976);
INSERT INTO ledger_lines VALUES (6, 'failure', 0, 1152921504606846976);
INSERT INTO ledger_lines VALUES (6, 'rho', 1, 1152921504606846976);
INSERT INTO ledger_lines VALUES (6, 'sum', 2, 1152921504606846976);
INSERT INTO ledger_lines VALUES (6, 'wallet', 3, 1152921504606846976);
INSERT INTO ledger_movements VALUES (1, 3, 1, 3, '2026-11', 'bounded-range:0.1', 10);
INSERT INTO ledger_movements VALUES (2, 3, 2, 3, '2026-11', 'bounded-range:0.1', -4);
INSERT INTO ledger_movements VALUES (3, 3, 3, 3, '2026-12', 'bounded-range:0.1', 3);
INSERT INTO ledger_movements VALUES (4, 3, 3, 3, '2026-12', 'pure:0.1', 1);
INSERT INTO ledger_movements VALUES (5, 4, 1, 4, '', 'failure', 23058430092136942);
INSERT INTO ledger_movements VALUES (6, 4, 1, 4, '', 'rho', 62829655816362151);
INSERT INTO ledger_movements VALUES (7, 4, 1, 2, '', 'failure', 23058430092136942);
INSERT INTO ledger_movements VALUES (8, 4, 1, 2, '', 'rho', 62829655816362151);
INSERT INTO ledger_movements VALUES (9, 5, 1, 5, '', 'rho', 3087707887694688);
INSERT INTO ledger_movements VALUES (10, 5, 1, 5, '', 'wallet', 130273686984407222);
INSERT INTO ledger_movements VALUES (11, 5, 1, 5, '', 'sum', 1152921504606846976);
INSERT INTO ledger_movements VALUES (12, 5, 2, 5, '', 'rho', 1372314616753195);
INSERT INTO ledger_movements VALUES (13, 5, 2, 5, '', 'wallet', 58024290663714781);
INSERT INTO ledger_movements VALUES (14, 6, 1, 6, '', 'rho', 12350831550778749);
INSERT INTO ledger_movements VALUES (15, 6, 1, 6, '', 'wallet', 580438353939869075);
INSERT INTO ledger_movements VALUES (16, 6, 1, 6, '', 'sum', 172938225691026196);
INSERT INTO ledger_openings VALUES (1, 'dataset', 'visits', 0, 1794744000000000, '{"action":"dataset","by":"eve","details":{"apart":"","reads":"2265ab56c559d62a93a48807e53d1afc2e49364f528fba2ccc296c3a0945ff7e"},"kind":"dataset","subject":"visits"}', '0000000000000000000000000000000000000000000000000000000000000000', '4e25b3b98261224a463b90c4cafbf8f08c91e1377c10545b35eba71db0dc9a41');
INSERT INTO ledger_openings VALUES (2, 'cap', 'visits', 2, 1794744000000000, '{"analyst":"","cap":null,"dataset":"visits","delta":1e-06,"epsilon":{"lower":1.0,"upper":1.0},"failure_share":0.5,"interaction":"adaptive","kind":"cap","method":"zcdp-filter","name":"visits","period":null,"statement":"WhitehouseRaRoWu23 with CanonneKaSt20","totals":{"failure":5e-07,"rho":0.022937446688722076},"uses":[]}', '4e25b3b98261224a463b90c4cafbf8f08c91e1377c10545b35eba71db0dc9a41', '347f1ffcf4cae6ddd7475547daa3fdb0a485bffd76f31bdc05a887ffd9148f10');
INSERT INTO ledger_openings VALUES (3, 'setwise', 'ada', 2, 1794744000000000, '{"analyst":"Ada","cap":null,"dataset":"","delta":1e-06,"epsilon":{"lower":1.0225002726674743,"upper":1.0233340917972318},"failure_share":0.0,"interaction":"setwise","kind":"setwise","method":"certified-optimum","name":"ada","period":"month","statement":"docs/optimal-composition.md, the set-wise optimum","totals":null,"uses":["bounded-range:0.1x10","pure:0.1x5"]}', '347f1ffcf4cae6ddd7475547daa3fdb0a485bffd76f31bdc05a887ffd9148f10', '19659966a808b974fbb891192f758a0474f8758ac433d10e7852da4254c9f9b4');
INSERT INTO ledger_openings VALUES (4, 'filter', 'bob', 2, 1794744000000000, '{"analyst":"Bob","cap":2,"dataset":"visits","delta":1e-06,"epsilon":{"lower":1.0,"upper":1.0},"failure_share":0.5,"interaction":"adaptive","kind":"filter","method":"zcdp-filter","name":"bob","period":null,"statement":"WhitehouseRaRoWu23 with CanonneKaSt20","totals":{"failure":5e-07,"rho":0.022937446688722076},"uses":[]}', '19659966a808b974fbb891192f758a0474f8758ac433d10e7852da4254c9f9b4', '868636d1222c31ecba4922d9a4f4cfd5ef968911686f6b990557272adbbca4ad');
INSERT INTO ledger_openings VALUES (5, 'filter', 'cyd', 4, 1794744000000000, '{"analyst":"","cap":null,"dataset":"","delta":1e-06,"epsilon":{"lower":2.0,"upper":2.0},"failure_share":0.02,"interaction":"adaptive","kind":"filter","method":"gaussian-wallet","name":"cyd","period":null,"statement":"docs/optimal-composition.md, Gaussian wallets","totals":{"failure":2e-08,"limit":2.0000000000000098,"rho":4.200645721221665,"wallet":0.20064572122162586},"uses":[]}', '868636d1222c31ecba4922d9a4f4cfd5ef968911686f6b990557272adbbca4ad', '63789acc13315ea2d66be4b6e2240b6bee22f0ed624f3baaa1cf3e8bb4e58576');
INSERT INTO ledger_openings VALUES (6, 'filter', 'dot', 4, 1794744000000000, '{"analyst":"","cap":null,"dataset":"","delta":1e-06,"epsilon":{"lower":2.0,"upper":2.0},"failure_share":0.02,"interaction":"adaptive","kind":"filter","method":"gaussian-wallet","name":"dot","period":null,"statement":"docs/optimal-composition.md, Gaussian wallets","totals":{"failure":2e-08,"limit":2.0000000000000098,"rho":4.200645721221665,"wallet":0.20064572122162586},"uses":[]}', '63789acc13315ea2d66be4b6e2240b6bee22f0ed624f3baaa1cf3e8bb4e58576', '4a35e2448475e36a4d32f5486d730e94ec1c5a2d7f5246a7e7c335dfd8a0ff16');
INSERT INTO ledger_openings VALUES (7, 'freeze', 'dot', 0, 1796472000000000, '{"action":"freeze","by":"eve","details":{"entries":0,"reason":"left"},"kind":"freeze","subject":"dot"}', '4a35e2448475e36a4d32f5486d730e94ec1c5a2d7f5246a7e7c335dfd8a0ff16', '5eb5a520b87134035dec6d88dc26aba35c1457a24337bb52c2d2ef053ff6549f');
INSERT INTO ledger_openings VALUES (8, 'thaw', 'dot', 0, 1796558400000000, '{"action":"thaw","by":"eve","details":{"entries":0,"reason":""},"kind":"thaw","subject":"dot"}', '5eb5a520b87134035dec6d88dc26aba35c1457a24337bb52c2d2ef053ff6549f', '059c703605946ceec9ca54945f743235c016749ff30aa855707a9890be1f1205');
INSERT INTO ledger_openings VALUES (9, 'head', '', 0, 1796558400000000, '{"action":"head","by":"","details":{"accounts":{"ada":[3,"23051c581eff8767db7a37f4a2e7c9337a24532ecde17d5a09fa5b826113697f"],"bob":[1,"d365901cfc9aeff856b67471ec3ad0d9fce81663ba7a18abfa62a05bf94d6725"],"cyd":[2,"94d0a4306a4bc6b4c9729d1cc9a37bf693bbddfa5425634e30ea38be8de98846"],"dot":[1,"ab9ebbc76fead80b72344966fc992fbaff57233436ba9d25d7282acdecd6c6c8"]},"signature":"37b56d817c3ace12def2acd73c7d3f6086e1bc29eddf1a6fdf1548f6dc5d1f86"},"kind":"head","subject":""}', '059c703605946ceec9ca54945f743235c016749ff30aa855707a9890be1f1205', '58bbb11bee25f010a73b64e3f375bffd7a8a128b6cc01d9c4241e27c80d7c854');
INSERT INTO ledger_versions VALUES (1, 'tables', 1794744000000000);
INSERT INTO ledger_versions VALUES (2, 'triggers', 1794744000000000);
INSERT INTO ledger_versions VALUES (3, 'acts', 1794744000000000);
SELECT pg_catalog.setval('ledger_movements_number_seq', 16, true);
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
CREATE INDEX ledger_accounts_by_analyst ON ledger_accounts USING btree (analyst);
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
CREATE TRIGGER ledger_entries_no_delete_or_update BEFORE DELETE OR UPDATE ON ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_entries_no_truncate BEFORE TRUNCATE ON ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_lines_complete AFTER INSERT ON ledger_lines FOR EACH ROW EXECUTE FUNCTION ledger_lines_complete();
CREATE TRIGGER ledger_lines_no_delete_or_update BEFORE DELETE OR UPDATE ON ledger_lines FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_lines_no_truncate BEFORE TRUNCATE ON ledger_lines FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_movements_apply AFTER INSERT ON ledger_movements FOR EACH ROW EXECUTE FUNCTION ledger_movements_apply();
CREATE TRIGGER ledger_movements_no_delete_or_update BEFORE DELETE OR UPDATE ON ledger_movements FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_movements_no_truncate BEFORE TRUNCATE ON ledger_movements FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_openings_no_delete_or_update BEFORE DELETE OR UPDATE ON ledger_openings FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_openings_no_truncate BEFORE TRUNCATE ON ledger_openings FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_versions_no_delete_or_update BEFORE DELETE OR UPDATE ON ledger_versions FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
CREATE TRIGGER ledger_versions_no_truncate BEFORE TRUNCATE ON ledger_versions FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_rewrite();
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
