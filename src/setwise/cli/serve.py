"""`setwise serve`: the service and its web pages."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from setwise.errors import InvalidParameter, MissingExtra


def serve(
    host: Annotated[
        str | None, typer.Option(help="The address to listen on (127.0.0.1); put a TLS proxy before any other.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on (8000).", min=1, max=65535)] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(help="The address of a TLS proxy that is believed about callers and https; may be repeated."),
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="The ledger: a file (setwise.db), or postgresql://... for several replicas.")
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            help="Where tables may live: duckdb (the default), spark, spark://..., postgresql://...; may be repeated."
        ),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="The folder of the tables that DuckDB may read (the current one).")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Queries that run at once (2).", min=1, max=256)] = None,
    memory: Annotated[
        str | None, typer.Option(help="DuckDB's memory for each query, as in 4GiB; by default most of the machine's.")
    ] = None,
    query_seconds: Annotated[
        float | None, typer.Option(help="How long a query may run before it is cancelled (300).")
    ] = None,
    wait_seconds: Annotated[
        float | None, typer.Option(help="How long a request waits for its answer before it is told where to poll (2).")
    ] = None,
    answer_step: Annotated[
        float | None,
        typer.Option(help="Answers leave at this many seconds (0.1) times a power of two; 0: at once."),
    ] = None,
    heartbeat_seconds: Annotated[
        float | None,
        typer.Option(help="How often a replica says it is alive (1); after ten times this its queries are taken over."),
    ] = None,
    requests_per_second: Annotated[
        float | None, typer.Option(help="Requests each person may keep up (50); twice as many at once.")
    ] = None,
    log: Annotated[
        str | None, typer.Option(help="text: warnings alone (the default); json: a line for every request too.")
    ] = None,
    secure_cookies: Annotated[
        bool | None, typer.Option("--secure-cookies", help="Send cookies over TLS only; for use behind a TLS proxy.")
    ] = None,
    migrate: Annotated[
        bool, typer.Option("--migrate", help="Make or update the tables in the database, and exit.")
    ] = False,
    steward_token: Annotated[
        bool, typer.Option("--steward-token", help="Make another token for the first steward and print it, once.")
    ] = False,
) -> None:
    """Run the service and its web pages; the first start prints a steward's token, once.

    Every option can be given by the environment too: --data-dir as SETWISE_DATA_DIR, and so on; see docs/service.md.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    del given["migrate"], given["steward_token"]
    try:
        from setwise.service.app import create_app
        from setwise.service.server import listen, make_server
        from setwise.service.settings import Settings
        from setwise.service.storage.database import open_database
        from setwise.service.telemetry import configure
    except ModuleNotFoundError as missing:
        if missing.name is not None and missing.name.startswith("setwise"):
            raise
        raise MissingExtra("the service needs FastAPI and uvicorn: pip install 'setwise[service]'") from None
    from setwise.ledger.ledger import Ledger

    settings = Settings(**given)
    if not settings.data_dir.is_dir():
        raise InvalidParameter(
            f"the data folder {str(settings.data_dir)!r} does not exist; create it or give another --data-dir"
        )
    if migrate:
        Ledger.open(settings.ledger).close()
        open_database(settings.ledger).close()
        return
    app = create_app(settings)
    # Before a token is made: one that is shown once must not be lost to a port that is taken.
    with listen(settings.host, settings.port) as listening:
        people = app.state.service.people
        first = people.first_steward()
        if first is None and steward_token:
            first = people.another_steward_token()
        address = f"http://{f'[{settings.host}]' if ':' in settings.host else settings.host}:{settings.port}"
        print(f"listening on {address}; sign in at {address}/login with a token, which stewards make")
        if first is not None:
            print(f"steward token (shown once): {first.secret}")
        sys.stdout.flush()
        configure(settings.log)
        make_server(app, settings).run(sockets=[listening])
