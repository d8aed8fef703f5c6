"""The largest delta over adversaries who choose mechanisms, or their order too, after seeing earlier answers."""
