"""One way to break the package on purpose."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One edit: in `file` of a room, the text `before`, which occurs once, becomes `after`.

    `tests` names the test files that must notice, of the room unless they say another; without names all are run.
    """

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...] = ()
    room: str = "mechanisms"
