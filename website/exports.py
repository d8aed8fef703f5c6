"""The reference of one room: every name that `setwise` exports from it, from its docstring."""

from functools import cache

import griffe

import setwise


@cache
def exports() -> dict[str, list[str]]:
    """Return the exported names by the room they live in."""
    package = griffe.load("setwise", search_paths=["src"])
    rooms: dict[str, list[str]] = {}
    for name in setwise.__all__:
        home = package.members[name].target_path.split(".")
        rooms.setdefault(home[1], []).append(name)
    return rooms


def export_reference(room: str) -> str:
    """Return one directive per export of the room, functions and classes in the order of their names."""
    return "\n\n".join(f"::: setwise.{name}" for name in sorted(exports().get(room, ()), key=str.casefold))
