"""The service's own tables, in the same database as the ledger's."""
