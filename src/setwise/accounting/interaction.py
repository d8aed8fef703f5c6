"""Who chooses what when."""

from enum import StrEnum

from setwise.errors import InvalidParameter


class Interaction(StrEnum):
    """What an analyst may decide after seeing earlier answers.

    Each kind allows all that the one before it allows, so a bound for a later kind holds for the earlier ones.
    """

    BATCH = "batch"
    """Every mechanism is chosen up front."""
    ORDERED = "ordered"
    """Parameters come in a fixed order; each mechanism may depend on earlier answers."""
    SETWISE = "setwise"
    """Parameters are drawn from a preregistered multiset in any order; order and mechanisms may depend on answers."""
    ADAPTIVE = "adaptive"
    """Parameters too are chosen on the fly; a filter stops the analyst at the budget."""

    @classmethod
    def parse(cls, value: "str | Interaction") -> "Interaction":
        """Return the interaction of that name or raise `InvalidParameter`."""
        try:
            return cls(value)
        except ValueError:
            names = ", ".join(cls)
            raise InvalidParameter(f"interaction must be one of {names}, not {value!r}") from None
