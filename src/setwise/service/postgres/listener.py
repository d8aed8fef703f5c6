"""Listens for PostgreSQL connections while a replica runs, at the address and with the TLS key in its settings."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from setwise.errors import InvalidParameter
from setwise.service.postgres import selects
from setwise.service.postgres.server import Limits, PostgresDoor
from setwise.service.postgres.sign_in import open_session
from setwise.service.replica import Service
from setwise.service.settings import Settings
from setwise.service.workers.pool import WorkerPool


@asynccontextmanager
async def postgres_door(service: Service) -> AsyncIterator[tuple[str, int] | None]:
    """Context manager that accepts PostgreSQL connections while its `async with` block runs; yields its host and port.

    `service` has the stores and pools with which statements are answered. If its settings have no address for
    PostgreSQL, no connection is accepted and None is yielded. Raises `InvalidParameter` if this process cannot listen
    at that address.
    """
    settings = service.settings
    if not settings.postgres:
        yield None
        return
    host, port = parse_address(settings.postgres)
    limits = Limits(
        sign_in_seconds=settings.header_seconds,
        idle_seconds=settings.postgres_idle_seconds,
        send_seconds=settings.body_seconds,
        message_bytes=settings.body_bytes,
        connections=settings.postgres_connections,
    )
    readers = WorkerPool(
        processes=settings.calculators,
        seconds=settings.calculator_seconds,
        memory=settings.calculator_megabytes << 20,
        remedy="read less of the catalogue in one statement",
        preload=selects.__name__,
    )
    opening = partial(open_session, service, readers)
    door = PostgresDoor(opening, tls=_tls(settings), limits=limits, unsent=service.unsent)
    try:
        server = await door.serve(host, port)
    except OSError as error:
        readers.close()
        why = (error.strerror or str(error)).lower()
        raise InvalidParameter(f"{settings.postgres} cannot be listened on ({why}): give another --postgres") from None
    try:
        yield host, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await door.close()
        readers.close()


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and port in a text such as 127.0.0.1:5432 or [::1]:5432; raise `InvalidParameter` for other text.

    >>> parse_address("127.0.0.1:5432"), parse_address("[::1]:5432")
    (('127.0.0.1', 5432), ('::1', 5432))
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InvalidParameter(f"--postgres is written HOST:PORT, such as 127.0.0.1:5432, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _tls(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context with the certificate and key in `settings`; None if the settings have neither.

    Raises `InvalidParameter` if the settings have only one of the two, or if the files cannot be read.
    """
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
