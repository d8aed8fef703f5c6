"""Ledger: privacy budget accounts, charges and stored answers, kept durably in SQLite or PostgreSQL.

Start with `setwise.ledger.ledger.Ledger`. The page `docs/ledger.md` says what the ledger guarantees.
"""
