"""Opens the door of PostgreSQL's protocol beside REST, as the settings of a replica say."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from setwise.errors import InvalidParameter
from setwise.service.postgres.asker import open_session
from setwise.service.postgres.server import Limits, PostgresDoor
from setwise.service.replica import Service
from setwise.service.settings import Settings


@asynccontextmanager
async def postgres_door(service: Service) -> AsyncIterator[tuple[str, int] | None]:
    """Listen while the replica runs, and yield the host and port; None if the settings ask for no such door."""
    settings = service.settings
    if not settings.postgres:
        yield None
        return
    host, port = parse_address(settings.postgres)
    limits = Limits(
        sign_in_seconds=settings.header_seconds,
        idle_seconds=settings.postgres_idle_seconds,
        message_bytes=settings.body_bytes,
        connections=settings.postgres_connections,
    )
    door = PostgresDoor(partial(open_session, service), tls=_tls(settings), limits=limits)
    try:
        server = await door.serve(host, port)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise InvalidParameter(f"{settings.postgres} cannot be listened on ({why}): give another --postgres") from None
    try:
        yield host, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await door.close()


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of a text such as 127.0.0.1:5432 or [::1]:5432.

    >>> parse_address("127.0.0.1:5432"), parse_address("[::1]:5432")
    (('127.0.0.1', 5432), ('::1', 5432))
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InvalidParameter(f"--postgres is written HOST:PORT, such as 127.0.0.1:5432, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _tls(settings: Settings) -> ssl.SSLContext | None:
    certificate, key = settings.postgres_certificate, settings.postgres_key
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise InvalidParameter("TLS needs both postgres_certificate and postgres_key")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(Path(certificate), Path(key))
    except (OSError, ssl.SSLError):
        raise InvalidParameter(
            "the certificate and key of postgres cannot be read: give PEM files that match"
        ) from None
    return context
