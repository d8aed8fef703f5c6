"""SQLite and PostgreSQL behind one interface.

To add one, write a `Store` (`base`) with its triggers, and let `connect` open its addresses.
"""
