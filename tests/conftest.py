"""Servers that any test may ask for."""

from tests.servers.postgresql import postgresql_server, postgresql_url
from tests.servers.spark import spark_session

__all__ = ["postgresql_server", "postgresql_url", "spark_session"]
