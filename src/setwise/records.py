"""Functions for frozen records (dataclasses) whose constructors parse what people write, such as "0.1" or 0.5.

A field's type is that of the parsed value, for example `Fraction`. A constructor may take more types, for example
`float`; it stores the value that its check returns.
"""

from dataclasses import fields
from typing import TypeVar

_Record = TypeVar("_Record")


def set_fields(record: object, **values: object) -> None:
    """Set fields of `record`, a frozen dataclass, in place: each keyword argument is the name and the value of a field.

    A frozen dataclass refuses assignments. Its own constructor calls this function, because it has to store the values
    that it has parsed.
    """
    for name, value in values.items():
        object.__setattr__(record, name, value)


def copy_with(record: _Record, **values: object) -> _Record:
    """Return a copy of the frozen dataclass `record` with the fields in `values` replaced.

    The new values are not checked, because the constructor is not called.
    """
    copy = object.__new__(type(record))
    names = [field.name for field in fields(record)]  # type: ignore[arg-type]  # every record is a dataclass
    set_fields(copy, **{name: getattr(record, name) for name in names} | values)
    return copy
