"""Accounts, charges and stored answers, kept durably in SQLite or PostgreSQL.

`setwise.ledger.ledger.Ledger` is the front door; `docs/ledger.md` says what it promises.
"""
