"""`setwise mcp`: a Model Context Protocol server, through which AI agents ask questions about tables."""

import inspect
import os
import secrets
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from setwise.cli import options
from setwise.errors import InvalidParameter

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from setwise.agents import Catalog

_TOKEN = "SETWISE_MCP_TOKEN"  # noqa: S105 - the name of a variable
"""The environment variable that holds the token which agents have to present."""

_ONE_QUESTION = {
    "table", "user", "epsilon", "delta", "within", "counts", "mechanism", "key", "discover", "as_json", "as_csv",
    "plot", "preview",
}  # fmt: skip
"""The options of single questions that `setwise mcp` does not take, or takes in its own form."""


def mcp(**arguments: Any) -> None:  # noqa: ANN401 - each of its own type, as declared
    """Serve tables to an AI agent over the Model Context Protocol, with tools to describe, preview and ask them.

    One account pays for all questions, and its budget limits them; every question needs an idempotency key. Without
    --port the agent communicates over standard input and output. With --port it uses HTTP and has to present the token
    in $SETWISE_MCP_TOKEN, or one that is printed at the start.
    """
    with options.needing("setwise mcp needs the mcp package: pip install 'setwise[agents]'"):
        from setwise.agents import agent_server
    host, port = arguments.pop("host"), arguments.pop("port")
    with ExitStack() as stack:
        server = agent_server(_catalog(arguments, stack))
        if port is None:
            server.run("stdio")
        else:
            _serve(server, host, port)


def _catalog(arguments: dict[str, Any], stack: ExitStack) -> "Catalog":
    from setwise.agents import LocalTables, ServiceTables

    tables, service, token_file = arguments.pop("tables") or [], arguments.pop("service"), arguments.pop("token_file")
    answer_step = arguments.pop("answer_step")
    if service is not None:
        if tables:
            raise InvalidParameter("give tables of this machine or --service, not both")
        from setwise.client.client import connect

        if token_file is None:
            raise InvalidParameter("give --token-file with --service: a file that holds your token")
        try:
            token = Path(token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidParameter(f"the token cannot be read from {token_file!r}: {error}") from None
        return ServiceTables(stack.enter_context(connect(service, token=token)), arguments["account"])
    catalog = arguments.pop("catalog")
    if catalog is not None:
        return _open_catalog(catalog, tables, arguments, answer_step, stack)
    if not tables:
        raise InvalidParameter("name the tables to serve, or a service: setwise mcp TABLE --user COL --account NAME")
    if arguments["account"] is None or arguments["user"] is None:
        raise InvalidParameter("give --user and --account: an agent's questions are paid for by an account")
    from setwise.analytics.engines.connect import location_of
    from setwise.cli.ask import open_account, open_session
    from setwise.cli.ledger import open_ledger

    table_options = [options.CommonOptions(table=table, **arguments) for table in tables]
    account = stack.enter_context(open_account(table_options[0]))
    assert account is not None
    sessions = {}
    for options_of_table in table_options:
        stem = location_of(options_of_table.table, options_of_table.engine, options_of_table.table_name).name
        name = options_of_table.dataset if options_of_table.dataset and len(table_options) == 1 else stem
        if name in sessions:
            raise InvalidParameter(f"two tables are called {name!r}: serve one of them")
        sessions[name] = stack.enter_context(open_session(options_of_table, account))
    ledger = stack.enter_context(open_ledger(options.ledger_url(arguments["ledger"])))
    return LocalTables(sessions, account, answer_step=answer_step, ledger=ledger)


def _open_catalog(
    path: str, tables: list[str], arguments: dict[str, Any], answer_step: float, stack: ExitStack
) -> "Catalog":
    """Open tables of the catalog file `path` for an agent, and return the object through which the agent asks them.

    - `tables`: the names of the tables; empty means all tables of the catalog
    - `arguments`: the values of the command's other options by name, among them the account that pays
    - `answer_step`: a time s in seconds. Each answer is held back until s, 2s, 4s or 8s and so on have passed since the
      question, whichever comes next, so that the time until the answer says little about the rows; 0 is no delay
    - `stack`: closes the opened sessions, the account and the ledger when it is closed

    Raises: `InvalidParameter` if no account is given, or if the catalog has no tables.
    """
    from setwise.agents import LocalTables
    from setwise.analytics.catalog import read_catalog
    from setwise.cli.ask import open_account, open_session
    from setwise.cli.ledger import open_ledger

    if arguments["account"] is None:
        raise InvalidParameter("give --account: an agent's questions are paid for by an account")
    catalog = read_catalog(path)
    names = tables or list(catalog.tables)
    if not names:
        raise InvalidParameter(f"the catalog {path!r} has no tables to serve")
    table_options = {
        name: options.CommonOptions(table=name, **{**arguments, "user": catalog.table(name).user}) for name in names
    }
    account = stack.enter_context(open_account(next(iter(table_options.values()))))
    assert account is not None
    sessions = {
        name: stack.enter_context(open_session(options_of_table, account, catalog=catalog))
        for name, options_of_table in table_options.items()
    }
    ledger = stack.enter_context(open_ledger(options.ledger_url(arguments["ledger"])))
    return LocalTables(sessions, account, answer_step=answer_step, ledger=ledger)


def _serve(server: "MCPServer", host: str, port: int) -> None:
    import uvicorn

    from setwise.agents import behind_token

    token = os.environ.get(_TOKEN)
    if token is None:
        token = secrets.token_urlsafe(32)
        print(f"the agent brings this token: Authorization: Bearer {token}", file=sys.stderr)
    print(f"serving http://{host}:{port}/mcp", file=sys.stderr, flush=True)
    app = behind_token(server.streamable_http_app(host=host), token)
    uvicorn.run(app, host=host, port=port, log_level="warning")


mcp.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        options.option(
            "tables",
            list[str] | None,
            typer.Argument(metavar="[TABLE]...", help="Tables, written as for setwise top-k."),
        ),
        options.option("user", str | None, typer.Option(metavar="COL", help="The column that tells users apart.")),
        options.option(
            "catalog",
            str | None,
            typer.Option(metavar="FILE", help="Serve the tables of a catalog, or those of them that are named."),
        ),
        options.option(
            "service", str | None, typer.Option(metavar="URL", help="Serve the datasets of a service instead.")
        ),
        options.option(
            "token_file", str | None, typer.Option(metavar="FILE", help="Where your token for --service is kept.")
        ),
        options.option("host", str, typer.Option(help="The address to listen on with --port."), "127.0.0.1"),
        options.option("port", int | None, typer.Option(min=1, max=65535, help="Talk HTTP on this port.")),
        options.option(
            "answer_step",
            float,
            typer.Option(min=0.0, help="Answers leave at this many seconds times a power of two; 0: at once."),
            0.1,
        ),
        *(option for name, option in options.SHARED.items() if name not in _ONE_QUESTION),
    ]
)
