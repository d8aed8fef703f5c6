"""Databases in other encodings than UTF-8: text with a byte that is no character is null, as in files.

The server converts text to UTF-8 when it sends it, and fails on a byte that its encoding leaves undefined: one such
label would decide whether a question is answered.
"""

from collections.abc import Sequence
from typing import Any

import psycopg

from setwise.analytics.engines.postgresql.dialect import PostgresqlDialect
from setwise.analytics.schema import Column, Kind
from setwise.errors import UnsuitableTable

_SINGLE_BYTE = ("LATIN", "WIN", "ISO_8859_", "KOI8")
_HOLES: dict[str, bytes] = {}
"""The undefined bytes of an encoding; the server's tables of conversion do not change while it runs."""


def sound_relation(connection: psycopg.Connection[Any], relation: str, columns: Sequence[Column]) -> str:
    """Return a relation with null for text that the server cannot send, or raise for encodings without such a rule."""
    found = connection.execute("SELECT getdatabaseencoding()").fetchone()
    encoding = str((found or ("",))[0])
    if encoding == "UTF8":
        return relation
    if not encoding.startswith(_SINGLE_BYTE):
        raise UnsuitableTable(
            f"the PostgreSQL database has the encoding {encoding}, in which text need not be made of characters: "
            "copy the table to a database in UTF8"
        )
    if encoding not in _HOLES:
        _HOLES[encoding] = _undefined_bytes(connection)
    if not _HOLES[encoding]:
        return relation
    chosen = ", ".join(_sound_cell(column, _HOLES[encoding]) for column in columns)
    return f"(SELECT {chosen} FROM {relation}) AS source"


def _undefined_bytes(connection: psycopg.Connection[Any]) -> bytes:
    """Return the bytes that are no character in the database's encoding, by asking the server for each of them."""
    undefined = bytearray()
    for byte in range(128, 256):
        try:
            with connection.transaction():
                connection.execute("SELECT convert_from(%s, getdatabaseencoding())", (bytes([byte]),)).fetchall()
        except psycopg.Error:
            undefined.append(byte)
    return bytes(undefined)


def _sound_cell(column: Column, undefined: bytes) -> str:
    name = PostgresqlDialect().name(column.name)
    if column.kind is not Kind.TEXT:
        return name
    class_of = f"'[' || convert_from(decode('{undefined.hex()}', 'hex'), getdatabaseencoding()) || ']'"
    return f'CASE WHEN CAST({name} AS text) COLLATE "C" !~ ({class_of}) THEN CAST({name} AS text) END AS {name}'
