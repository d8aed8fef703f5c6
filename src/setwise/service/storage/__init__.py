"""The service's own tables, beside the ledger's."""
