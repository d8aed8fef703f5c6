"""The registry of engines is complete: modules, extras, addresses, and sentences about missing drivers."""

import subprocess
import sys
import tomllib
from importlib import import_module

import pytest

from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.registry import (
    CLICKHOUSE,
    DUCKDB,
    ENGINES,
    POSTGRESQL,
    SPARK,
    engine_type,
    reads_only_its_tables,
)
from setwise.errors import InvalidParameter
from setwise.service.settings import EngineKind
from tests.docs.pages import ROOT

ADDRESSES = {
    "duckdb": DUCKDB,
    "spark": SPARK,
    "spark://host:7077": SPARK,
    "local[4]": SPARK,
    "yarn": SPARK,
    "postgresql://ada@host/shop": POSTGRESQL,
    "postgres://host": POSTGRESQL,
    "clickhouse://host": CLICKHOUSE,
    "chdb:///data": CLICKHOUSE,
}
BLOCKED = """
import sys
sys.modules[sys.argv[1]] = None
from setwise.analytics.engines.connect import open_engine
from setwise.errors import MissingExtra
try:
    open_engine("visits", sys.argv[2])
except MissingExtra as error:
    print(error)
"""


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_address_has_one_engine_and_the_service_agrees(address: str):
    known = engine_type(address)
    assert known is ADDRESSES[address]
    assert EngineKind.of(address) == known.name
    assert reads_only_its_tables(address) == (known in (POSTGRESQL, CLICKHOUSE))


@pytest.mark.parametrize("address", ["", "postgresql", "clickhouse:/host", "mysql://host", "sparkling", "duckdb://x"])
def test_other_addresses_are_refused(address: str):
    assert engine_type(address) is None
    assert EngineKind.of(address) is None
    with pytest.raises(InvalidParameter, match="engine must be duckdb"):
        open_engine("visits", address)


def test_every_engine_has_a_module_an_extra_and_a_name_in_the_service():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {known.name for known in ENGINES} == set(EngineKind)
    for known in ENGINES:
        assert known.extra is None or known.extra in extras
        assert callable(import_module(known.module).open_tables)


@pytest.mark.parametrize(
    ("driver", "address", "says"),
    [
        ("pyspark", "spark", "Spark needs PySpark and Java 17: pip install 'setwise[spark]'"),
        ("psycopg", "postgresql://host", "PostgreSQL needs psycopg: pip install 'setwise[postgres]'"),
        (
            "clickhouse_connect",
            "clickhouse://host",
            "ClickHouse needs clickhouse-connect: pip install 'setwise[clickhouse]'",
        ),
    ],
)
def test_a_missing_driver_is_said_in_one_sentence(driver: str, address: str, says: str):
    done = subprocess.run([sys.executable, "-c", BLOCKED, driver, address], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == says
