-- Two roles, made once by the superuser in the database of the ledger. setwise_owner makes the tables and their
-- triggers (setwise serve --migrate). setwise_app, as which replicas run, reads and writes rows: it can neither drop
-- nor disable a trigger nor hide a table behind a temporary one, and so cannot change what was charged.
CREATE ROLE setwise_owner LOGIN;
CREATE ROLE setwise_app LOGIN;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
-- A temporary table hides a table of the same name from the session that made it; nobody here needs any.
DO $$ BEGIN EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database()); END $$;
GRANT USAGE, CREATE ON SCHEMA public TO setwise_owner;
GRANT USAGE ON SCHEMA public TO setwise_app;
ALTER DEFAULT PRIVILEGES FOR ROLE setwise_owner IN SCHEMA public
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO setwise_app;
ALTER DEFAULT PRIVILEGES FOR ROLE setwise_owner IN SCHEMA public
    GRANT USAGE, SELECT ON SEQUENCES TO setwise_app;
