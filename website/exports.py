"""The reference of one room: every name that is exported from it, from its docstring."""

import setwise
from setwise import mechanisms
from setwise._lazy import stub_exports


def exports() -> dict[str, list[str]]:
    """Return the paths to import exported names by, under the room they live in: `setwise.compose` in accounting."""
    rooms: dict[str, list[str]] = {}
    for package in (setwise, mechanisms):
        for name, module in stub_exports(str(package.__file__)).items():
            if module != package.__name__:  # not a room itself
                rooms.setdefault(module.split(".")[1], []).append(f"{package.__name__}.{name}")
    return rooms


def export_reference(room: str) -> str:
    """Return one directive per export of the room, functions and classes in the order of their names."""
    return "\n\n".join(f"::: {path}" for path in sorted(exports().get(room, ()), key=str.casefold))
