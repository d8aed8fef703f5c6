"""Databases that keep a ledger, SQLite and PostgreSQL, behind one interface.

To add one, write a `Store` (base.py) with its triggers, and let `connect` open its addresses.
"""
