"""The seal: one record of the register that covers the balance changes of early entries by a hash.

The register is the ledger's chain of openings and audit events. Before version 5 of the schema, the hash of an entry
did not cover its balance changes. The migration to that version, and the restoring of an old export, append a seal. For
each account, the seal says how many of its entries have such a hash, and has a digest of their balance changes.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, insert, select

from setwise.ledger.records import NOTHING_BEFORE, canonical, digest, record_hash
from setwise.ledger.stores.schema import openings


def moves_digest(moves: Iterable[str]) -> str:
    """Return one digest over all changes of budget balances by an account's entries.

    `moves` has one JSON text for each entry. Changing, removing or adding a change in any of them changes the digest.
    """
    return digest("\n".join(moves))


def write_seal(connection: Connection, ends: Mapping[str, tuple[int, str]], at: int) -> None:
    """Append the seal: a record with digests of balance changes, for entries whose own hashes do not cover them.

    Such entries were written before version 5 of the database schema. `ends` maps an account's name to a pair (n,
    digest): n is the account's number of such entries, and `moves_digest` made the digest of their balance changes.
    `at` is the record's timestamp in microseconds since 1970.
    """
    details = {"accounts": {name: list(end) for name, end in ends.items()}}
    body = canonical({"kind": "seal", "action": "seal", "by": "", "subject": "", "details": details})
    columns = (openings.c.holder, openings.c.hash)
    last = connection.execute(select(*columns).order_by(openings.c.holder.desc()).limit(1)).one_or_none()
    number, previous = (1, NOTHING_BEFORE) if last is None else (last.holder + 1, last.hash)
    hashed = record_hash(previous, number, at, body)
    record = {"holder": number, "kind": "seal", "name": "", "lines": 0, "at": at, "body": body}
    connection.execute(insert(openings), {**record, "previous": previous, "hash": hashed})
