"""`setwise serve`: run a process of the service and its web pages; its options are made from the service's settings."""

import inspect
import sys
from pathlib import Path
from types import NoneType
from typing import Any

import typer

from setwise.cli import options
from setwise.errors import InvalidParameter

_SETTINGS = (
    "host", "port", "postgres", "trusted_proxy", "ledger", "engine", "data_dir", "store", "live_dir", "workers",
    "memory", "query_seconds",
    "wait_seconds", "answer_step", "heartbeat_seconds", "requests_per_second", "log", "secure_cookies",
)  # fmt: skip
"""The settings of a replica that are options as well; all other settings come from the environment only."""

_EXTRA = "the service needs FastAPI and uvicorn: pip install 'setwise[service]'"

with options.needing(_EXTRA):
    from setwise.service.settings import Settings


def serve(*, migrate: bool, steward_token: bool, **arguments: Any) -> None:  # noqa: ANN401 - each of its own type, as declared
    """Run the service and its web pages; the first start prints a steward's token, once.

    Every option can be given by the environment too: --data-dir as SETWISE_DATA_DIR, and so on; see docs/service.md.
    """
    with options.needing(_EXTRA):
        from setwise.service.app import create_app
        from setwise.service.server import listen, make_server
        from setwise.service.storage.database import open_database
        from setwise.service.telemetry import configure
    from setwise.ledger.ledger import Ledger

    settings = Settings(**{name: value for name, value in arguments.items() if value is not None})
    if not settings.data_dir.is_dir():
        raise InvalidParameter(
            f"the data folder {str(settings.data_dir)!r} does not exist; create it or give another --data-dir"
        )
    if migrate:
        Ledger.open(settings.ledger).close()
        open_database(settings.ledger).close()
        return
    app = create_app(settings)
    # Listen before a token is made: the token is shown only once, and would be lost if the port were taken.
    with listen(settings.host, settings.port) as listening:
        people = app.state.service.people
        first = people.first_steward()
        if first is None and steward_token:
            first = people.another_steward_token()
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"http://{host}:{listening.getsockname()[1]}"
        print(f"listening on {address}; sign in at {address}/login with a token, which stewards make")
        if first is not None:
            print(f"steward token (shown once): {first.secret}")
        sys.stdout.flush()
        configure(settings.log)
        make_server(app, settings).run(sockets=[listening])


def _option(name: str) -> inspect.Parameter:
    """Return the command-line option for the service setting `name`, with the setting's type, limits and help text.

    If the option is not given, the setting is read from the environment, or has its default.
    """
    setting = Settings.model_fields[name]
    kind = {tuple: list[str], NoneType: str, type(Path()): Path}.get(type(setting.default), type(setting.default))
    default_text = " ".join(setting.default) if isinstance(setting.default, tuple) else setting.default
    default = f" ({default_text})" if default_text not in (None, "", False) else ""
    says = f"{setting.description or ''}{default}."
    flags = [f"--{name.replace('_', '-')}"] if kind is bool else []
    limits = {"min": "ge", "max": "le"} if kind is int else {}
    bounds = {
        end: getattr(constraint, sign)
        for end, sign in limits.items()
        for constraint in setting.metadata
        if hasattr(constraint, sign)
    }
    return options.option(name, kind | None, typer.Option(*flags, help=says[:1].upper() + says[1:], **bounds))


serve.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        *map(_option, _SETTINGS),
        options.option(
            "migrate",
            bool,
            typer.Option("--migrate", help="Make or update the tables in the database, and exit."),
            False,
        ),
        options.option(
            "steward_token",
            bool,
            typer.Option("--steward-token", help="Make another token for the first steward and print it, once."),
            False,
        ),
    ]
)
