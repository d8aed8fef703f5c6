"""Proof that a ledger is as it was written, and its export."""
