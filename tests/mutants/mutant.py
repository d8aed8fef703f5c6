"""One way to break the package on purpose."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One edit: in `file` of a room, the text `before`, which occurs once, becomes `after`.

    `tests` names the test files of the room that must notice; without names all of them are run.
    """

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...] = ()
    room: str = "mechanisms"
