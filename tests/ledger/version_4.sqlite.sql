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
	analyst TEXT DEFAULT '' NOT NULL, 
	state TEXT DEFAULT 'open' NOT NULL CONSTRAINT ledger_state_of_account CHECK (state IN ('open', 'frozen', 'closed')), 
	PRIMARY KEY (holder), 
	FOREIGN KEY(holder) REFERENCES ledger_openings (holder), 
	UNIQUE (name), 
	FOREIGN KEY(cap) REFERENCES ledger_openings (holder)
);
INSERT INTO "ledger_accounts" VALUES(4,'ada','filter','visits',2,6,2,'fc040c36cf193c2cbe78ca069ccbb772072a28fe7369636f43d34f47e4902fe5',1794744001000000,'','Ada','open');
INSERT INTO "ledger_accounts" VALUES(5,'bob','setwise','visits',2,4,1,'a97ee572778e0fa97eaeedae4c2fc556125318e9c94691defc41cfeddb5ee965',1794747601000000,'2026-11','Bob','open');
INSERT INTO "ledger_accounts" VALUES(6,'cyd','setwise','sales',3,1,1,'6bf7f78c1f8fc59d202bf7ee51a54b73ce821e709861d1a262c2652b5a7edb55',1794744001000000,'','','open');
INSERT INTO "ledger_accounts" VALUES(7,'dan','filter','sales',3,1,1,'13d06aea04622f36a81869ccf3570bb863f23358d787ec9a5c0c0e923a386fe5',1794747601000000,'','','frozen');
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
INSERT INTO "ledger_balances" VALUES(2,'','rule',3,2,1);
INSERT INTO "ledger_balances" VALUES(2,'','wallet',1152921504606846976,334972888168851760,30);
INSERT INTO "ledger_balances" VALUES(4,'','slice:wallet',1152921504606846976,211337706424921739,16);
INSERT INTO "ledger_balances" VALUES(4,'','rho',1152921504606846976,124643858467602,13);
INSERT INTO "ledger_balances" VALUES(4,'','wallet',1152921504606846976,5942054306156945,14);
INSERT INTO "ledger_balances" VALUES(4,'','sum',1152921504606846976,1152921504606846976,6);
INSERT INTO "ledger_balances" VALUES(2,'','failure',1152921504606846976,129703669268270288,8);
INSERT INTO "ledger_balances" VALUES(4,'','slice:failure',1152921504606846976,72057594037927936,15);
INSERT INTO "ledger_balances" VALUES(4,'','failure',1152921504606846976,57646075230342352,12);
INSERT INTO "ledger_balances" VALUES(5,'','slice:wallet',1152921504606846976,0,29);
INSERT INTO "ledger_balances" VALUES(5,'2026-11','bounded-range:0.1',10,2,22);
INSERT INTO "ledger_balances" VALUES(5,'2026-11','pure:0.1',5,1,20);
INSERT INTO "ledger_balances" VALUES(6,'','pure:0.1',5,1,23);
INSERT INTO "ledger_balances" VALUES(6,'','rho',1152921504606846976,5764607523034255,24);
INSERT INTO "ledger_balances" VALUES(6,'','wallet',1152921504606846976,11529215046068608,25);
INSERT INTO "ledger_balances" VALUES(3,'','rho',1152921504606846976,364412003734900346,28);
INSERT INTO "ledger_balances" VALUES(7,'','rho',1152921504606846976,50263724653089547,27);
CREATE TABLE ledger_entries (
	holder INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	kind TEXT NOT NULL CONSTRAINT ledger_kind_of_entry CHECK (kind IN ('charge', 'settle', 'slice')), 
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
INSERT INTO "ledger_entries" VALUES(4,1,'slice','1','',1794744000000000,'[]','{"rule":2}','541010c2c95c7f5b0dbc5ebb390326d9425c4abb26430ed4634c0ee7a90516a1','8268ec48514d2e3a67efd22f4ca8a8cde56865bc8f9486709fa38f305d91a55c','833a763637896e6936eeba04c5e3a216b72a88c4e527d0d0f6d7568be2a5f31e');
INSERT INTO "ledger_entries" VALUES(4,2,'slice','2','',1794744000000000,'[]','{"wallet":78442100451561534}','3d6032f941732d566f9e13fd77e1f4b763aedeebcaeb6f40093f990d6adb0597','833a763637896e6936eeba04c5e3a216b72a88c4e527d0d0f6d7568be2a5f31e','cebd71ae098226fe3f8b38e76c689dfbfef9e5ce891ca612873fbcf7e9d03fe1');
INSERT INTO "ledger_entries" VALUES(4,3,'charge','one','',1794744000000000,'["gaussian:30.0"]','q','11ff70ec42763040cd8d4013e87732fbfa20ffb97d8e8d802db1c4a9df4ee0d3','cebd71ae098226fe3f8b38e76c689dfbfef9e5ce891ca612873fbcf7e9d03fe1','3ebaa68c9b8e6e6799c05116a6384cad425db36a7148296d91721921f331d9b9');
INSERT INTO "ledger_entries" VALUES(4,4,'settle','one','',1794744000000000,'[]','tea','2a075c3b3055159f04658a5ef3c86e60ab3c89dbee3ccfadc38ebb9b50092055','3ebaa68c9b8e6e6799c05116a6384cad425db36a7148296d91721921f331d9b9','5715e80fbe7a88fad86b8962c8cc0cd9dc439de5d8ba2f4e819fb1b59da375fb');
INSERT INTO "ledger_entries" VALUES(4,5,'slice','5','',1794744001000000,'[]','{"failure":129703669268270288,"wallet":153810125234940329}','8d73b2eb13bbac14e5fc972db042abda072b94ff12754140016fd762904ea452','5715e80fbe7a88fad86b8962c8cc0cd9dc439de5d8ba2f4e819fb1b59da375fb','7d71a796d9802f393da17f097db3199c775acc445bce9767becf9988efeea3ed');
INSERT INTO "ledger_entries" VALUES(4,6,'charge','two','',1794744001000000,'["pure:0.05","approx:0.0,1e-09"]','q','fe560ca8e1bf0dffd94f94432500ebd54394d91945884128fda01e0eea9bb2b1','7d71a796d9802f393da17f097db3199c775acc445bce9767becf9988efeea3ed','fc040c36cf193c2cbe78ca069ccbb772072a28fe7369636f43d34f47e4902fe5');
INSERT INTO "ledger_entries" VALUES(5,1,'slice','1','',1794744001000000,'[]','{"wallet":448492868566583210}','16a39a451fd34adb487e790f9402bb9f675c85b750ff612550e0f1c160505d47','d6e5d477eac8cbf9758bcd431493dd4fc904522a48390ed9999102591d0c0a6b','8524a0f6da7081c06dbea75402fdae06115228fd90ef66ead4f9cf6cd6fe0966');
INSERT INTO "ledger_entries" VALUES(5,2,'charge','one','2026-11',1794744001000000,'["bounded-range:0.1x3","pure:0.1"]','q','78f08acfbdea783d7be7a577bf444c5f2c6ddf9e295e9a7339ad7b7d38693c72','8524a0f6da7081c06dbea75402fdae06115228fd90ef66ead4f9cf6cd6fe0966','aa1541146b65795be9ac4d77b8a4d64786a8a9f426c69525a88f3983578c361b');
INSERT INTO "ledger_entries" VALUES(5,3,'settle','one','2026-11',1794744001000000,'["bounded-range:0.1"]','milk','7667213b2aac542561bc9a8b8335848cc92fe8f079a2bee2419af8082be10093','aa1541146b65795be9ac4d77b8a4d64786a8a9f426c69525a88f3983578c361b','880fd68daca90472a4d32667c19eadf0483d46df59acfc8814b418a6de047671');
INSERT INTO "ledger_entries" VALUES(6,1,'charge','one','',1794744001000000,'["pure:0.1","gaussian:20.0"]','q','7d7cd4999051882d13f01411d9a420526ddf5f05ab031dc1ada42a741d95e54b','eef0c741012dc152d87388f7a481dcf50f79ca60de635fed699d1f50f08776b3','6bf7f78c1f8fc59d202bf7ee51a54b73ce821e709861d1a262c2652b5a7edb55');
INSERT INTO "ledger_entries" VALUES(7,1,'charge','one','',1794747601000000,'["zcdp:0.001"]','q','f4590d7459a1a04ab3d95d4cc71629060f756c20273c517a728cdd85aad63134','a8db4535b416f05000b0c23b2a542ab3df66a6da73e55265ef316a0f07c6dae5','13d06aea04622f36a81869ccf3570bb863f23358d787ec9a5c0c0e923a386fe5');
INSERT INTO "ledger_entries" VALUES(5,4,'slice','4','',1794747601000000,'[]','{"wallet":-345772206084233313}','6eca0db60f8c72909f7800e5097a823b6cce34cf4e9106678fda2a1cb390a816','880fd68daca90472a4d32667c19eadf0483d46df59acfc8814b418a6de047671','a97ee572778e0fa97eaeedae4c2fc556125318e9c94691defc41cfeddb5ee965');
CREATE TABLE ledger_lines (
	holder INTEGER NOT NULL, 
	what TEXT NOT NULL, 
	place INTEGER NOT NULL, 
	total INTEGER NOT NULL CHECK (total >= 0), 
	PRIMARY KEY (holder, what), 
	UNIQUE (holder, what, total), 
	FOREIGN KEY(holder) REFERENCES ledger_openings (holder)
);
INSERT INTO "ledger_lines" VALUES(2,'failure',0,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(2,'rule',1,3);
INSERT INTO "ledger_lines" VALUES(2,'sum',2,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(2,'wallet',3,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(3,'failure',0,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(3,'rho',1,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(4,'failure',0,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(4,'rho',1,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(4,'sum',2,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(4,'wallet',3,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(4,'slice:failure',4,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(4,'slice:sum',5,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(4,'slice:wallet',6,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(5,'bounded-range:0.1',0,10);
INSERT INTO "ledger_lines" VALUES(5,'pure:0.1',1,5);
INSERT INTO "ledger_lines" VALUES(5,'slice:failure',2,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(5,'slice:sum',3,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(5,'slice:wallet',4,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(6,'pure:0.1',0,5);
INSERT INTO "ledger_lines" VALUES(6,'failure',1,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(6,'rho',2,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(6,'sum',3,0);
INSERT INTO "ledger_lines" VALUES(6,'wallet',4,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(7,'failure',0,1152921504606846976);
INSERT INTO "ledger_lines" VALUES(7,'rho',1,1152921504606846976);
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
INSERT INTO "ledger_movements" VALUES(1,4,1,2,'','rule',2);
INSERT INTO "ledger_movements" VALUES(2,4,2,2,'','wallet',78442100451561534);
INSERT INTO "ledger_movements" VALUES(3,4,2,4,'','slice:wallet',78442100451561534);
INSERT INTO "ledger_movements" VALUES(4,4,3,4,'','rho',38351956451570);
INSERT INTO "ledger_movements" VALUES(5,4,3,4,'','wallet',1827700742619688);
INSERT INTO "ledger_movements" VALUES(6,4,3,4,'','sum',1152921504606846976);
INSERT INTO "ledger_movements" VALUES(7,4,3,4,'','slice:wallet',-6384506413633598);
INSERT INTO "ledger_movements" VALUES(8,4,5,2,'','failure',129703669268270288);
INSERT INTO "ledger_movements" VALUES(9,4,5,4,'','slice:failure',129703669268270288);
INSERT INTO "ledger_movements" VALUES(10,4,5,2,'','wallet',153810125234940329);
INSERT INTO "ledger_movements" VALUES(11,4,5,4,'','slice:wallet',153810125234940329);
INSERT INTO "ledger_movements" VALUES(12,4,6,4,'','failure',57646075230342352);
INSERT INTO "ledger_movements" VALUES(13,4,6,4,'','rho',86291902016032);
INSERT INTO "ledger_movements" VALUES(14,4,6,4,'','wallet',4114353563537257);
INSERT INTO "ledger_movements" VALUES(15,4,6,4,'','slice:failure',-57646075230342352);
INSERT INTO "ledger_movements" VALUES(16,4,6,4,'','slice:wallet',-14530012847946526);
INSERT INTO "ledger_movements" VALUES(17,5,1,2,'','wallet',448492868566583210);
INSERT INTO "ledger_movements" VALUES(18,5,1,5,'','slice:wallet',448492868566583210);
INSERT INTO "ledger_movements" VALUES(19,5,2,5,'2026-11','bounded-range:0.1',3);
INSERT INTO "ledger_movements" VALUES(20,5,2,5,'2026-11','pure:0.1',1);
INSERT INTO "ledger_movements" VALUES(21,5,2,5,'','slice:wallet',-102720662482349897);
INSERT INTO "ledger_movements" VALUES(22,5,3,5,'2026-11','bounded-range:0.1',-1);
INSERT INTO "ledger_movements" VALUES(23,6,1,6,'','pure:0.1',1);
INSERT INTO "ledger_movements" VALUES(24,6,1,6,'','rho',5764607523034255);
INSERT INTO "ledger_movements" VALUES(25,6,1,6,'','wallet',11529215046068608);
INSERT INTO "ledger_movements" VALUES(26,6,1,3,'','rho',314148279081810799);
INSERT INTO "ledger_movements" VALUES(27,7,1,7,'','rho',50263724653089547);
INSERT INTO "ledger_movements" VALUES(28,7,1,3,'','rho',50263724653089547);
INSERT INTO "ledger_movements" VALUES(29,5,4,5,'','slice:wallet',-345772206084233313);
INSERT INTO "ledger_movements" VALUES(30,5,4,2,'','wallet',-345772206084233313);
CREATE TABLE ledger_openings (
	holder INTEGER NOT NULL, 
	kind TEXT NOT NULL CONSTRAINT ledger_kind_of_opening CHECK (kind IN ('setwise', 'filter', 'cap', 'dataset', 'freeze', 'thaw', 'close', 'act', 'head')), 
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
INSERT INTO "ledger_openings" VALUES(1,'dataset','visits',0,1794744000000000,'{"action":"dataset","by":"eve","details":{"apart":"","reads":"1a4b565110bdab57b5513a190e0955e850fb5615b4d25a173ef5e0983366bbbf"},"kind":"dataset","subject":"visits"}','0000000000000000000000000000000000000000000000000000000000000000','257970a5d6f37ca424c395223f44aa960839392ccb11051e1137626bb2f7846e');
INSERT INTO "ledger_openings" VALUES(2,'cap','visits',4,1794744000000000,'{"analyst":"","cap":null,"dataset":"visits","delta":1e-06,"epsilon":{"lower":2.0,"upper":2.0},"failure_share":0.02,"interaction":"adaptive","kind":"cap","method":"gaussian-wallet","name":"visits","period":null,"statement":"docs/optimal-composition.md, Gaussian wallets","totals":{"failure":2e-08,"limit":2.0000000000000098,"wallet":0.20064572122162586},"uses":[]}','257970a5d6f37ca424c395223f44aa960839392ccb11051e1137626bb2f7846e','1cb5a5df17ecf287ed29d9a5870d49aaa00135303bceb7e98e933c3f2b65f300');
INSERT INTO "ledger_openings" VALUES(3,'cap','sales',2,1794744000000000,'{"analyst":"","cap":null,"dataset":"sales","delta":1e-06,"epsilon":{"lower":1.0,"upper":1.0},"failure_share":0.5,"interaction":"adaptive","kind":"cap","method":"zcdp-filter","name":"sales","period":null,"statement":"WhitehouseRaRoWu23 with CanonneKaSt20","totals":{"failure":5e-07,"rho":0.022937446688722076},"uses":[]}','1cb5a5df17ecf287ed29d9a5870d49aaa00135303bceb7e98e933c3f2b65f300','d66625464a04ba540af74bee05196d09d0e9be5de54ad9eee98d894119e13b30');
INSERT INTO "ledger_openings" VALUES(4,'filter','ada',7,1794744000000000,'{"analyst":"Ada","cap":2,"dataset":"visits","delta":1e-06,"epsilon":{"lower":4.0,"upper":4.0},"failure_share":0.02,"interaction":"adaptive","kind":"filter","method":"gaussian-wallet","name":"ada","period":null,"slices":true,"statement":"docs/optimal-composition.md, Gaussian wallets","totals":{"failure":2e-08,"limit":4.000000000000009,"rho":16.70089367703144,"wallet":0.7008936770313708},"uses":[]}','d66625464a04ba540af74bee05196d09d0e9be5de54ad9eee98d894119e13b30','8268ec48514d2e3a67efd22f4ca8a8cde56865bc8f9486709fa38f305d91a55c');
INSERT INTO "ledger_openings" VALUES(5,'setwise','bob',5,1794744000000000,'{"analyst":"Bob","cap":2,"dataset":"visits","delta":1e-06,"epsilon":{"lower":1.0225002684675586,"upper":1.0233340919206502},"failure_share":0.0,"interaction":"setwise","kind":"setwise","method":"certified-optimum","name":"bob","period":"month","slices":true,"statement":"docs/optimal-composition.md, the set-wise optimum","totals":null,"uses":["bounded-range:0.1x10","pure:0.1x5"]}','8268ec48514d2e3a67efd22f4ca8a8cde56865bc8f9486709fa38f305d91a55c','d6e5d477eac8cbf9758bcd431493dd4fc904522a48390ed9999102591d0c0a6b');
INSERT INTO "ledger_openings" VALUES(6,'setwise','cyd',5,1794744000000000,'{"analyst":"","cap":3,"dataset":"sales","delta":1e-06,"epsilon":{"lower":2.470493904756856,"upper":2.4704939047573387},"failure_share":0.5,"interaction":"setwise","kind":"setwise","method":"exact","name":"cyd","period":null,"statement":"docs/optimal-composition.md, linear mechanisms","totals":{"failure":1e-08,"limit":0.0,"rho":0.25,"wallet":0.25},"uses":["pure:0.1x5"]}','d6e5d477eac8cbf9758bcd431493dd4fc904522a48390ed9999102591d0c0a6b','eef0c741012dc152d87388f7a481dcf50f79ca60de635fed699d1f50f08776b3');
INSERT INTO "ledger_openings" VALUES(7,'filter','dan',2,1794744000000000,'{"analyst":"","cap":3,"dataset":"sales","delta":1e-06,"epsilon":{"lower":1.0,"upper":1.0},"failure_share":0.5,"interaction":"adaptive","kind":"filter","method":"zcdp-filter","name":"dan","period":null,"statement":"WhitehouseRaRoWu23 with CanonneKaSt20","totals":{"failure":5e-07,"rho":0.022937446688722076},"uses":[]}','eef0c741012dc152d87388f7a481dcf50f79ca60de635fed699d1f50f08776b3','a8db4535b416f05000b0c23b2a542ab3df66a6da73e55265ef316a0f07c6dae5');
INSERT INTO "ledger_openings" VALUES(8,'head','',0,1794744001000000,'{"action":"head","by":"","details":{"accounts":{"ada":[6,"fc040c36cf193c2cbe78ca069ccbb772072a28fe7369636f43d34f47e4902fe5"],"bob":[3,"880fd68daca90472a4d32667c19eadf0483d46df59acfc8814b418a6de047671"],"cyd":[1,"6bf7f78c1f8fc59d202bf7ee51a54b73ce821e709861d1a262c2652b5a7edb55"]},"signature":"95d76695a22a43e363905058bdeea8028fbea6ce5ce7a3c14b4628b3195b9757"},"kind":"head","subject":""}','a8db4535b416f05000b0c23b2a542ab3df66a6da73e55265ef316a0f07c6dae5','36c779809801fa24a0bfd2dfb5236fd4fd98dc003d46a5c5434cf12706635a62');
INSERT INTO "ledger_openings" VALUES(9,'freeze','dan',0,1794747601000000,'{"action":"freeze","by":"eve","details":{"entries":1,"reason":"away"},"kind":"freeze","subject":"dan"}','36c779809801fa24a0bfd2dfb5236fd4fd98dc003d46a5c5434cf12706635a62','2310673b5e91ca9d08a1ba21b7ced0e9f5e923610800d9d7abbcd5e766322006');
INSERT INTO "ledger_openings" VALUES(10,'act','person.added',0,1794747601000000,'{"action":"person.added","by":"root","details":{"role":"analyst"},"kind":"act","subject":"Ada"}','2310673b5e91ca9d08a1ba21b7ced0e9f5e923610800d9d7abbcd5e766322006','8b07ab06bc41adc5cb83f6b833a461564280cc44d15b29179971a6cac3eed7eb');
INSERT INTO "ledger_openings" VALUES(11,'head','',0,1794747601000000,'{"action":"head","by":"","details":{"accounts":{"bob":[4,"a97ee572778e0fa97eaeedae4c2fc556125318e9c94691defc41cfeddb5ee965"],"dan":[1,"13d06aea04622f36a81869ccf3570bb863f23358d787ec9a5c0c0e923a386fe5"]},"signature":"5593138a19c8bd76de79ed49062c30b0a1e4bc81c0234a15e5393ee3a3c5ad6e"},"kind":"head","subject":""}','8b07ab06bc41adc5cb83f6b833a461564280cc44d15b29179971a6cac3eed7eb','bbe7d301568953176476a320ca946b862b5abd1351a1e15d28d75d9967354f84');
CREATE TABLE ledger_versions (
	version INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	at INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "ledger_versions" VALUES(1,'tables',1794744000000000);
INSERT INTO "ledger_versions" VALUES(2,'triggers',1794744000000000);
INSERT INTO "ledger_versions" VALUES(3,'acts',1794744000000000);
INSERT INTO "ledger_versions" VALUES(4,'slices',1794744000000000);
CREATE UNIQUE INDEX ledger_one_cap ON ledger_openings (name) WHERE kind = 'cap';
CREATE INDEX ledger_accounts_by_dataset ON ledger_accounts (dataset);
CREATE INDEX ledger_accounts_by_analyst ON ledger_accounts (analyst);
CREATE TRIGGER ledger_openings_no_update BEFORE UPDATE ON ledger_openings BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_openings_no_delete BEFORE DELETE ON ledger_openings BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_lines_no_update BEFORE UPDATE ON ledger_lines BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_lines_no_delete BEFORE DELETE ON ledger_lines BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_entries_no_update BEFORE UPDATE ON ledger_entries BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_entries_no_delete BEFORE DELETE ON ledger_entries BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_movements_no_update BEFORE UPDATE ON ledger_movements BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_movements_no_delete BEFORE DELETE ON ledger_movements BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_versions_no_update BEFORE UPDATE ON ledger_versions BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_versions_no_delete BEFORE DELETE ON ledger_versions BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_accounts_no_delete BEFORE DELETE ON ledger_accounts BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
CREATE TRIGGER ledger_balances_no_delete BEFORE DELETE ON ledger_balances BEGIN SELECT RAISE(ABORT, 'ledger: history is never rewritten'); END;
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
WHEN NEW.entries <> 0 OR NEW.charges <> 0 OR NEW.period <> '' OR NEW.state <> 'open'
  OR NOT EXISTS (SELECT 1 FROM ledger_openings
                 WHERE holder = NEW.holder AND kind = NEW.kind AND name = NEW.name AND hash = NEW.head AND at = NEW.at)
BEGIN SELECT RAISE(ABORT, 'ledger: an account starts from its opening'); END;
CREATE TRIGGER ledger_accounts_terms BEFORE UPDATE ON ledger_accounts
WHEN NEW.holder <> OLD.holder OR NEW.name <> OLD.name OR NEW.kind <> OLD.kind OR NEW.dataset <> OLD.dataset
  OR NEW.cap IS NOT OLD.cap OR NEW.analyst <> OLD.analyst
BEGIN SELECT RAISE(ABORT, 'ledger: an account keeps its terms'); END;
CREATE TRIGGER ledger_accounts_state BEFORE UPDATE ON ledger_accounts
WHEN NEW.state <> OLD.state
  AND (NEW.entries <> OLD.entries OR NEW.charges <> OLD.charges OR NEW.head <> OLD.head OR NEW.at <> OLD.at
       OR NEW.period <> OLD.period
       OR NOT EXISTS (SELECT 1 FROM ledger_openings o
                      WHERE o.holder = (SELECT max(holder) FROM ledger_openings) AND o.name = NEW.name
                        AND ((o.kind = 'freeze' AND OLD.state = 'open' AND NEW.state = 'frozen')
                          OR (o.kind = 'thaw' AND OLD.state = 'frozen' AND NEW.state = 'open')
                          OR (o.kind = 'close' AND OLD.state <> 'closed' AND NEW.state = 'closed'))))
BEGIN SELECT RAISE(ABORT, 'ledger: the state of an account changes by an act on it'); END;
CREATE TRIGGER ledger_accounts_advance BEFORE UPDATE ON ledger_accounts
WHEN NEW.state = OLD.state AND (NEW.entries <> OLD.entries + 1
  OR NOT EXISTS (SELECT 1 FROM ledger_entries e
                 WHERE e.holder = NEW.holder AND e.position = NEW.entries AND e.hash = NEW.head
                   AND e.previous = OLD.head AND e.at = NEW.at AND NEW.period = max(OLD.period, e.period)
                   AND NEW.charges = OLD.charges + (e.kind = 'charge')))
BEGIN SELECT RAISE(ABORT, 'ledger: an account only moves on by its next entry'); END;
CREATE TRIGGER ledger_entries_follow BEFORE INSERT ON ledger_entries
WHEN NOT EXISTS (SELECT 1 FROM ledger_accounts a
                 WHERE a.holder = NEW.holder AND NEW.position = a.entries + 1 AND NEW.previous = a.head
                   AND (NEW.kind <> 'charge' OR a.state = 'open'))
BEGIN SELECT RAISE(ABORT, 'ledger: an entry follows the one before it in an open account'); END;
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
INSERT INTO "sqlite_sequence" VALUES('ledger_movements',30);
COMMIT;
