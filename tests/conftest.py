"""Servers that any test may ask for."""

from tests.servers.postgresql import postgresql_server, postgresql_url

__all__ = ["postgresql_server", "postgresql_url"]
