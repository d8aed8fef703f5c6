"""Verification of a ledger, and its export."""
