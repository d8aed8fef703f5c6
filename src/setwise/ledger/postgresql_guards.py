"""Triggers that make PostgreSQL refuse to rewrite history."""


def statements() -> list[str]:
    """Return the statements that create every trigger."""
    return []
