BEGIN TRANSACTION;
CREATE TABLE ledger_accounts (
	holder INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	kind TEXT NOT NULL CHECK (kind IN ('setwise', 'filter')), 
	dataset TEXT NOT NULL, 
	cap INTEGER, 
	entries INTEGER NOT NULL, 
	charges INTEGER NOT NULL, 
	head TEXT NOT NULL, 
	at INTEGER NOT NULL, 
	period TEXT NOT NULL, 
	PRIMARY KEY (holder), 
	FOREIGN KEY(holder) REFERENCES ledger_openings (holder), 
	UNIQUE (name), 
	FOREIGN KEY(cap) REFERENCES ledger_openings (holder)
);
INSERT INTO "ledger_accounts" VALUES(2,'ada','setwise','',NULL,3,2,'8fae9b2c79995c60d28cfd931165f8685f118eb825a9b070a548b4de385b1907',1794744005000000,'2026-11');
INSERT INTO "ledger_accounts" VALUES(3,'bob','filter','visits',1,1,1,'00907ff0f9443bc1c6f2b5b9b1e36d0a73b320047c3c02b7de6b2fdcf61b833c',1794744005000000,'');
CREATE TABLE ledger_balances (
	holder INTEGER NOT NULL, 
	period TEXT NOT NULL, 
	what TEXT NOT NULL, 
	total INTEGER NOT NULL, 
	spent INTEGER NOT NULL, 
	movement INTEGER NOT NULL, 
	PRIMARY KEY (holder, period, what), 
	FOREIGN KEY(holder, what, total) REFERENCES ledger_lines (holder, what, total), 
	CONSTRAINT ledger_never_overspent CHECK (0 <= spent AND spent <= total)
);
INSERT INTO "ledger_balances" VALUES(2,'2026-11','bounded-range:0.1',10,2,3);
INSERT INTO "ledger_balances" VALUES(2,'2026-11','pure:0.1',5,3,4);
INSERT INTO "ledger_balances" VALUES(3,'','failure',1152921504606846976,23058430092136942,5);
INSERT INTO "ledger_balances" VALUES(3,'','rho',1152921504606846976,62829655816362151,6);
INSERT INTO "ledger_balances" VALUES(1,'','failure',1152921504606846976,23058430092136942,7);
INSERT INTO "ledger_balances" VALUES(1,'','rho',1152921504606846976,17271359197459796,8);
CREATE TABLE ledger_entries (
	holder INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	kind TEXT NOT NULL CHECK (kind IN ('charge', 'settle')), 
	"key" TEXT NOT NULL, 
	period TEXT NOT NULL, 
	at INTEGER NOT NULL, 
	uses TEXT NOT NULL, 
	content TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	previous TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	PRIMARY KEY (holder, position), 
	CONSTRAINT ledger_one_entry_per_key UNIQUE (holder, "key", kind), 
	CHECK (position > 0), 
	FOREIGN KEY(holder) REFERENCES ledger_accounts (holder)
);
INSERT INTO "ledger_entries" VALUES(2,1,'charge','one','2026-11',1794744000000000,'["bounded-range:0.1x3","pure:0.1"]','q','6dc038e95f7685c05652a3b3ece3a65c5ba2556524fa2cc230f2939e228cbb40','09ecac2a87f40513a5b3fa0ae5b26e53b4cea8cff36515102388f03aa2bd805b','435841920b3ce081935c2a92444d17d3c5b19116ca2bb14773c8e13610be44c1');
INSERT INTO "ledger_entries" VALUES(2,2,'settle','one','2026-11',1794744005000000,'["bounded-range:0.1"]','tea','91aa370e52cea9601b043d8a2155d449e91fd4302ea58199a3a314b4584d38b4','435841920b3ce081935c2a92444d17d3c5b19116ca2bb14773c8e13610be44c1','97641df019aa58154db093c566c85ca4080646c529f7d781df2e0ce2cf722844');
INSERT INTO "ledger_entries" VALUES(2,3,'charge','two','2026-11',1794744005000000,'["pure:0.1x2"]','q','9fb2499b454c1edd9da1f39fc3e6e3a8fab6f4c6d884852d6539675556eab4f1','97641df019aa58154db093c566c85ca4080646c529f7d781df2e0ce2cf722844','8fae9b2c79995c60d28cfd931165f8685f118eb825a9b070a548b4de385b1907');
INSERT INTO "ledger_entries" VALUES(3,1,'charge','k','',1794744005000000,'["gaussian:20.0","approx:0.0,1e-08"]','q','b8d62ec13cdcce61086326fef365c9fdbf4616e9b23146b88f2a4920845385f4','0c6501a58adb2331389486af550f3c1e278490ad567f328d9108192667e44139','00907ff0f9443bc1c6f2b5b9b1e36d0a73b320047c3c02b7de6b2fdcf61b833c');
CREATE TABLE ledger_lines (
	holder INTEGER NOT NULL, 
	what TEXT NOT NULL, 
	place INTEGER NOT NULL, 
	total INTEGER NOT NULL CHECK (total >= 0), 
	PRIMARY KEY (holder, what), 
	UNIQUE (holder, what, total), 
	FOREIGN KEY(holder) REFERENCES ledger_openings (holder)
);
INSERT INTO "ledger_lines" VALUES(1,'failure',0,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(1,'rho',1,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(2,'bounded-range:0.1',0,10);
INSERT INTO "ledger_lines" VALUES(2,'pure:0.1',1,5);
INSERT INTO "ledger_lines" VALUES(2,'approx:0.0,1e-09',2,3);
INSERT INTO "ledger_lines" VALUES(3,'failure',0,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(3,'rho',1,1152921504606846976);
CREATE TABLE ledger_movements (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	account INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	holder INTEGER NOT NULL, 
	period TEXT NOT NULL, 
	what TEXT NOT NULL, 
	amount INTEGER NOT NULL CHECK (amount <> 0), 
	FOREIGN KEY(account, position) REFERENCES ledger_entries (holder, position), 
	CONSTRAINT ledger_registered FOREIGN KEY(holder, what) REFERENCES ledger_lines (holder, what), 
	UNIQUE (account, position, holder, what)
);
INSERT INTO "ledger_movements" VALUES(1,2,1,2,'2026-11','bounded-range:0.1',3);
INSERT INTO "ledger_movements" VALUES(2,2,1,2,'2026-11','pure:0.1',1);
INSERT INTO "ledger_movements" VALUES(3,2,2,2,'2026-11','bounded-range:0.1',-1);
INSERT INTO "ledger_movements" VALUES(4,2,3,2,'2026-11','pure:0.1',2);
INSERT INTO "ledger_movements" VALUES(5,3,1,3,'','failure',23058430092136942);
INSERT INTO "ledger_movements" VALUES(6,3,1,3,'','rho',62829655816362151);
INSERT INTO "ledger_movements" VALUES(7,3,1,1,'','failure',23058430092136942);
INSERT INTO "ledger_movements" VALUES(8,3,1,1,'','rho',17271359197459796);
CREATE TABLE ledger_openings (
	holder INTEGER NOT NULL, 
	kind TEXT NOT NULL CHECK (kind IN ('setwise', 'filter', 'cap')), 
	name TEXT NOT NULL, 
	lines INTEGER NOT NULL, 
	at INTEGER NOT NULL, 
	body TEXT NOT NULL, 
	previous TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	PRIMARY KEY (holder), 
	CHECK (holder > 0), 
	UNIQUE (hash)
);
INSERT INTO "ledger_openings" VALUES(1,'cap','visits',2,1794744000000000,'{"analyst":"","cap":null,"dataset":"visits","delta":1e-06,"epsilon":{"lower":2.0,"upper":2.0},"failure_share":0.5,"interaction":"adaptive","kind":"cap","method":"zcdp-filter","name":"visits","period":null,"statement":"WhitehouseRaRoWu23 with CanonneKaSt20","totals":{"failure":5e-07,"rho":0.0834417178336794},"uses":[]}','0000000000000000000000000000000000000000000000000000000000000000','b9f51d57a8f228410b8beb8534bf4d72928ef62f5b7cea1893c32f9cf109422c');
INSERT INTO "ledger_openings" VALUES(2,'setwise','ada',3,1794744000000000,'{"analyst":"Ada","cap":null,"dataset":"","delta":1e-06,"epsilon":{"lower":1.0226449645850375,"upper":1.0234513575014483},"failure_share":0.5,"interaction":"setwise","kind":"setwise","method":"certified-optimum","name":"ada","period":"month","statement":"docs/optimal-composition.md, the set-wise optimum","totals":null,"uses":["bounded-range:0.1x10","pure:0.1x5","approx:0.0,1e-09x3"]}','b9f51d57a8f228410b8beb8534bf4d72928ef62f5b7cea1893c32f9cf109422c','09ecac2a87f40513a5b3fa0ae5b26e53b4cea8cff36515102388f03aa2bd805b');
INSERT INTO "ledger_openings" VALUES(3,'filter','bob',2,1794744000000000,'{"analyst":"Bob","cap":1,"dataset":"visits","delta":1e-06,"epsilon":{"lower":1.0,"upper":1.0},"failure_share":0.5,"interaction":"adaptive","kind":"filter","method":"zcdp-filter","name":"bob","period":null,"statement":"WhitehouseRaRoWu23 with CanonneKaSt20","totals":{"failure":5e-07,"rho":0.022937446688722076},"uses":[]}','09ecac2a87f40513a5b3fa0ae5b26e53b4cea8cff36515102388f03aa2bd805b','0c6501a58adb2331389486af550f3c1e278490ad567f328d9108192667e44139');
CREATE TABLE ledger_versions (
	version INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	at INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "ledger_versions" VALUES(1,'tables',1794744000000000);
INSERT INTO "ledger_versions" VALUES(2,'guards',1794744000000000);
CREATE UNIQUE INDEX ledger_one_cap ON ledger_openings (name) WHERE kind = 'cap';
CREATE INDEX ledger_accounts_by_dataset ON ledger_accounts (dataset);
CREATE TRIGGER ledger_openings_no_UPDATE BEFORE UPDATE ON ledger_openings BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_openings_no_DELETE BEFORE DELETE ON ledger_openings BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_lines_no_UPDATE BEFORE UPDATE ON ledger_lines BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_lines_no_DELETE BEFORE DELETE ON ledger_lines BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_entries_no_UPDATE BEFORE UPDATE ON ledger_entries BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_entries_no_DELETE BEFORE DELETE ON ledger_entries BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_movements_no_UPDATE BEFORE UPDATE ON ledger_movements BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_movements_no_DELETE BEFORE DELETE ON ledger_movements BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_versions_no_UPDATE BEFORE UPDATE ON ledger_versions BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_versions_no_DELETE BEFORE DELETE ON ledger_versions BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_accounts_no_DELETE BEFORE DELETE ON ledger_accounts BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_balances_no_DELETE BEFORE DELETE ON ledger_balances BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_openings_taken BEFORE INSERT ON ledger_openings WHEN EXISTS (SELECT 1 FROM ledger_openings WHERE holder = NEW.holder) OR EXISTS (SELECT 1 FROM ledger_openings WHERE hash = NEW.hash) OR EXISTS (SELECT 1 FROM ledger_openings WHERE kind = 'cap' AND NEW.kind = 'cap' AND name = NEW.name) BEGIN SELECT RAISE(ABORT, 'ledger: taken in ledger_openings'); END;
CREATE TRIGGER ledger_lines_taken BEFORE INSERT ON ledger_lines WHEN EXISTS (SELECT 1 FROM ledger_lines WHERE holder = NEW.holder AND what = NEW.what) BEGIN SELECT RAISE(ABORT, 'ledger: taken in ledger_lines'); END;
CREATE TRIGGER ledger_accounts_taken BEFORE INSERT ON ledger_accounts WHEN EXISTS (SELECT 1 FROM ledger_accounts WHERE holder = NEW.holder) OR EXISTS (SELECT 1 FROM ledger_accounts WHERE name = NEW.name) BEGIN SELECT RAISE(ABORT, 'ledger: taken in ledger_accounts'); END;
CREATE TRIGGER ledger_entries_taken BEFORE INSERT ON ledger_entries WHEN EXISTS (SELECT 1 FROM ledger_entries WHERE holder = NEW.holder AND position = NEW.position) OR EXISTS (SELECT 1 FROM ledger_entries WHERE holder = NEW.holder AND key = NEW.key AND kind = NEW.kind) BEGIN SELECT RAISE(ABORT, 'ledger: taken in ledger_entries'); END;
CREATE TRIGGER ledger_movements_taken BEFORE INSERT ON ledger_movements WHEN EXISTS (SELECT 1 FROM ledger_movements WHERE number = NEW.number) OR EXISTS (SELECT 1 FROM ledger_movements WHERE account = NEW.account AND position = NEW.position AND holder = NEW.holder AND what = NEW.what) BEGIN SELECT RAISE(ABORT, 'ledger: taken in ledger_movements'); END;
CREATE TRIGGER ledger_balances_taken BEFORE INSERT ON ledger_balances WHEN EXISTS (SELECT 1 FROM ledger_balances WHERE holder = NEW.holder AND period = NEW.period AND what = NEW.what) BEGIN SELECT RAISE(ABORT, 'ledger: taken in ledger_balances'); END;
CREATE TRIGGER ledger_versions_taken BEFORE INSERT ON ledger_versions WHEN EXISTS (SELECT 1 FROM ledger_versions WHERE version = NEW.version) BEGIN SELECT RAISE(ABORT, 'ledger: taken in ledger_versions'); END;
CREATE TRIGGER ledger_lines_complete BEFORE INSERT ON ledger_lines
WHEN (SELECT count(*) FROM ledger_lines WHERE holder = NEW.holder)
  >= (SELECT lines FROM ledger_openings WHERE holder = NEW.holder)
BEGIN SELECT RAISE(ABORT, 'ledger: this opening has all its lines'); END;
CREATE TRIGGER ledger_accounts_start BEFORE INSERT ON ledger_accounts
WHEN NEW.entries <> 0 OR NEW.charges <> 0 OR NEW.period <> ''
  OR NOT EXISTS (SELECT 1 FROM ledger_openings
                 WHERE holder = NEW.holder AND kind = NEW.kind AND name = NEW.name AND hash = NEW.head AND at = NEW.at)
BEGIN SELECT RAISE(ABORT, 'ledger: an account starts from its opening'); END;
CREATE TRIGGER ledger_accounts_advance BEFORE UPDATE ON ledger_accounts
WHEN NEW.holder <> OLD.holder OR NEW.name <> OLD.name OR NEW.kind <> OLD.kind OR NEW.dataset <> OLD.dataset
  OR NEW.cap IS NOT OLD.cap OR NEW.entries <> OLD.entries + 1
  OR NOT EXISTS (SELECT 1 FROM ledger_entries e
                 WHERE e.holder = NEW.holder AND e.position = NEW.entries AND e.hash = NEW.head
                   AND e.previous = OLD.head AND e.at = NEW.at AND NEW.period = max(OLD.period, e.period)
                   AND NEW.charges = OLD.charges + (e.kind = 'charge'))
BEGIN SELECT RAISE(ABORT, 'ledger: an account only moves on by its next entry'); END;
CREATE TRIGGER ledger_entries_follow BEFORE INSERT ON ledger_entries
WHEN NOT EXISTS (SELECT 1 FROM ledger_accounts a
                 WHERE a.holder = NEW.holder AND NEW.position = a.entries + 1 AND NEW.previous = a.head
                   AND NEW.at >= a.at AND (NEW.kind = 'settle' OR NEW.period >= a.period))
BEGIN SELECT RAISE(ABORT, 'ledger: an entry follows the one before it'); END;
CREATE TRIGGER ledger_entries_settle BEFORE INSERT ON ledger_entries
WHEN NEW.kind = 'settle'
  AND NOT EXISTS (SELECT 1 FROM ledger_entries
                  WHERE holder = NEW.holder AND key = NEW.key AND kind = 'charge' AND period = NEW.period)
BEGIN SELECT RAISE(ABORT, 'ledger: only a charge can be settled'); END;
CREATE TRIGGER ledger_entries_apply AFTER INSERT ON ledger_entries
BEGIN
  UPDATE ledger_accounts
     SET entries = NEW.position, charges = charges + (NEW.kind = 'charge'), head = NEW.hash, at = NEW.at,
         period = max(period, NEW.period)
   WHERE holder = NEW.holder;
END;
CREATE TRIGGER ledger_movements_belong BEFORE INSERT ON ledger_movements
WHEN NOT EXISTS (
  SELECT 1 FROM ledger_entries e JOIN ledger_accounts a ON a.holder = e.holder
   WHERE e.holder = NEW.account AND e.position = NEW.position AND a.entries = NEW.position
     AND ((e.kind = 'charge' AND NEW.amount > 0
           AND ((NEW.holder = a.holder AND NEW.period = e.period) OR (NEW.holder = a.cap AND NEW.period = '')))
       OR (e.kind = 'settle' AND NEW.amount < 0 AND a.kind = 'setwise'
           AND NEW.holder = a.holder AND NEW.period = e.period
           AND -NEW.amount <= (SELECT m.amount FROM ledger_movements m
                                 JOIN ledger_entries c ON c.holder = m.account AND c.position = m.position
                                WHERE c.holder = e.holder AND c.key = e.key AND c.kind = 'charge'
                                  AND m.holder = NEW.holder AND m.what = NEW.what))))
BEGIN SELECT RAISE(ABORT, 'ledger: a movement belongs to the last entry of its account'); END;
CREATE TRIGGER ledger_movements_apply AFTER INSERT ON ledger_movements
BEGIN
  INSERT INTO ledger_balances (holder, period, what, total, spent, movement)
       SELECT l.holder, NEW.period, l.what, l.total, 0, 0 FROM ledger_lines l
        WHERE l.holder = NEW.holder AND l.what = NEW.what
          AND NOT EXISTS (SELECT 1 FROM ledger_balances b
                           WHERE b.holder = l.holder AND b.period = NEW.period AND b.what = l.what);
  UPDATE ledger_balances SET spent = spent + NEW.amount, movement = NEW.number
   WHERE holder = NEW.holder AND period = NEW.period AND what = NEW.what;
END;
CREATE TRIGGER ledger_balances_start BEFORE INSERT ON ledger_balances
WHEN NEW.spent <> 0 OR NEW.movement <> 0
BEGIN SELECT RAISE(ABORT, 'ledger: a balance starts at nothing'); END;
CREATE TRIGGER ledger_balances_move BEFORE UPDATE ON ledger_balances
WHEN NEW.holder <> OLD.holder OR NEW.period <> OLD.period OR NEW.what <> OLD.what OR NEW.total <> OLD.total
  OR NEW.movement <= OLD.movement
  OR NOT EXISTS (SELECT 1 FROM ledger_movements
                 WHERE number = NEW.movement AND holder = NEW.holder AND period = NEW.period AND what = NEW.what
                   AND amount = NEW.spent - OLD.spent)
BEGIN SELECT RAISE(ABORT, 'ledger: a balance only changes by a new movement'); END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('ledger_movements',8);
COMMIT;
