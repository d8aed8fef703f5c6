"""Names, keys and texts that every store can hold."""

from setwise.errors import InvalidParameter

LONGEST_NAME = 200


def check_name(value: object, what: str) -> str:
    """Return a name of 1 to 200 printable characters, or raise `InvalidParameter`."""
    if not isinstance(value, str):
        raise InvalidParameter(f"{what} must be text, not {value!r}")
    if not 1 <= len(value) <= LONGEST_NAME:
        raise InvalidParameter(f"{what} must have 1 to {LONGEST_NAME} characters, not {len(value)}")
    if not value.isprintable() or value != value.strip():
        raise InvalidParameter(f"{what} must be printable, without spaces around it, not {value!r}")
    return value


def check_label(value: object, what: str) -> str:
    """Return a name, or the empty text for none."""
    return "" if value == "" else check_name(value, what)


def check_text(value: object, what: str) -> str:
    """Return a text that UTF-8 and both databases can hold, or raise `InvalidParameter`."""
    if not isinstance(value, str):
        raise InvalidParameter(f"{what} must be text, not {type(value).__name__}")
    if "\0" in value:
        raise InvalidParameter(f"{what} must not contain the character NUL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidParameter(f"{what} must be text that UTF-8 can write") from None
    return value
