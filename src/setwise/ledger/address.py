"""From an address to the store behind it."""

from setwise.errors import InvalidParameter
from setwise.ledger.migrations import migrate
from setwise.ledger.sqlite import SqliteStore
from setwise.ledger.store import Store


def connect(url: str, at: int) -> Store:
    """Open the store at an address, and make its schema or bring it up to date."""
    if not isinstance(url, str) or not url:
        raise InvalidParameter(f"a ledger's address is a path or postgresql://..., not {url!r}")
    store = SqliteStore(url.removeprefix("sqlite:///"))
    with store.writing() as connection:
        migrate(connection, store.address, at)
    return store
