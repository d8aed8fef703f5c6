"""`setwise serve`: the service and its web pages."""

import socket
from pathlib import Path
from typing import Annotated

import typer

from setwise.errors import InvalidParameter, MissingExtra


def serve(
    host: Annotated[
        str, typer.Option(help="The address to listen on; put a TLS proxy before any other than this.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on.", min=1, max=65535)] = 8000,
    ledger: Annotated[
        str,
        typer.Option(envvar="SETWISE_LEDGER", help="The ledger: a file, or postgresql://... for several replicas."),
    ] = "setwise.db",
    engine: Annotated[
        list[str] | None,
        typer.Option(
            envvar="SETWISE_ENGINE",
            help="Where tables may live: duckdb (the default), spark, spark://..., postgresql://...; may be repeated.",
        ),
    ] = None,
    data_dir: Annotated[Path, typer.Option(help="The folder of the tables that DuckDB may read.")] = Path(),
    workers: Annotated[int, typer.Option(help="Queries that run at once.", min=1, max=256)] = 2,
    memory: Annotated[
        str | None, typer.Option(help="DuckDB's memory for each query, as in 4GiB; by default most of the machine's.")
    ] = None,
    query_seconds: Annotated[float, typer.Option(help="How long a query may run before it is cancelled.")] = 300.0,
    wait_seconds: Annotated[
        float, typer.Option(help="How long a request waits for its answer before it is told where to poll.")
    ] = 2.0,
    answer_step: Annotated[
        float, typer.Option(help="Answers leave at this many seconds times a power of two; 0 pads nothing.")
    ] = 0.25,
    heartbeat_seconds: Annotated[
        float,
        typer.Option(help="How often a replica says it is alive; after ten times this its queries are taken over."),
    ] = 1.0,
    requests_per_second: Annotated[
        float, typer.Option(help="Requests each person may keep up; twice as many at once.")
    ] = 50.0,
    secure_cookies: Annotated[
        bool, typer.Option("--secure-cookies", help="Send cookies over TLS only; for use behind a TLS proxy.")
    ] = False,
    steward_token: Annotated[
        bool, typer.Option("--steward-token", help="Make another token for the first steward and print it, once.")
    ] = False,
) -> None:
    """Run the service and its web pages; the first start prints a steward's token, once."""
    try:
        import uvicorn

        from setwise.service.app import create_app
    except ModuleNotFoundError as missing:
        if missing.name is not None and missing.name.startswith("setwise"):
            raise
        raise MissingExtra("the service needs FastAPI and uvicorn: pip install 'setwise[service]'") from None
    from setwise.service.settings import Settings

    if not data_dir.is_dir():
        raise InvalidParameter(f"the data folder {str(data_dir)!r} is not there; create it or give another --data-dir")
    settings = Settings(
        ledger=ledger,
        data_dir=data_dir,
        engines=tuple(engine or ("duckdb",)),
        workers=workers,
        memory=memory,
        query_seconds=query_seconds,
        quick_seconds=wait_seconds,
        answer_step=answer_step,
        heartbeat_seconds=heartbeat_seconds,
        requests_per_second=requests_per_second,
        burst=max(1, round(2 * requests_per_second)),
        secure_cookies=secure_cookies,
    )
    app = create_app(settings)
    # Before a token is made: one that is shown once must not be lost to a port that is taken.
    with _listen(host, port) as listening:
        people = app.state.service.people
        first = people.first_steward()
        if first is None and steward_token:
            first = people.another_steward_token()
        if first is not None:
            print(f"steward token (shown once): {first.secret}", flush=True)
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens, or raise `InvalidParameter` when the address is taken or not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise InvalidParameter(f"port {port} of {host} cannot be listened on ({why}): give another --port") from None
    # The event loop has connections send at once only where the socket names its protocol; otherwise every answer waits
    # for the caller's acknowledgement of its headers, 40 ms and more.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=listening.detach())
