"""Verification of a ledger, signed heads (records of where every account's chain ended), and export to JSON lines."""
