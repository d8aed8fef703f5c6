"""A database in another encoding than UTF-8 is read right, or refused before anything is."""

import psycopg
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.postgresql.engine import PostgresqlEngine
from setwise.analytics.filter.parser import parse_filter
from setwise.errors import UnsuitableTable
from tests.servers.postgresql import PostgresqlServer

UNDEFINED = {"WIN1252": 5, "WIN1251": 1, "WIN1253": 17, "ISO_8859_7": 3, "LATIN1": 0, "KOI8R": 0}


@pytest.mark.parametrize("encoding", list(UNDEFINED))
def test_bytes_that_are_no_characters_are_null(postgresql_server: PostgresqlServer, encoding: str):
    with postgresql_server.database(encoding) as url:
        with psycopg.connect(url, client_encoding="UTF8") as connection:
            connection.execute('CREATE TABLE "odd %s" (who text, what varchar(9), age int)')
            for byte in range(128, 256):
                text = "convert_from(decode(%(byte)s, 'hex'), getdatabaseencoding())"
                connection.execute(
                    f"INSERT INTO \"odd %%s\" SELECT 'a' || {text}, 'x' || {text}, %(n)s",
                    {"byte": f"{byte:02x}", "n": byte},
                )
        engine = PostgresqlEngine(url, "odd %s")
        defined = 128 - UNDEFINED[encoding]
        found = engine.histogram(Aggregation(user="age", item="what"))
        assert len(found.labels) == defined
        assert engine.histogram(Aggregation(user="who")).counts.tolist() == [defined]
        for byte in (0x81, 0xE4):
            where = parse_filter(f"age = {byte}", engine.describe())
            assert len(engine.histogram(Aggregation(user="age", item="what", where=where))) <= 1


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "EUC_JP"])
def test_encodings_without_a_character_for_every_byte_are_refused(postgresql_server: PostgresqlServer, encoding: str):
    with postgresql_server.database(encoding) as url:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE events (who text)")
        with pytest.raises(UnsuitableTable, match=f"has the encoding {encoding}"):
            PostgresqlEngine(url, "events")
