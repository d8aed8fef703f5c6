"""The largest delta over analysts who choose mechanisms, or the order of mechanisms, after seeing earlier answers."""
