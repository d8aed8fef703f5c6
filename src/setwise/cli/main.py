"""The `setwise` command."""

import os
import sys
from typing import Annotated, NoReturn

import typer

from setwise import __version__
from setwise.cli.calibrate import calibrate
from setwise.cli.compose import compose
from setwise.cli.demo import demo
from setwise.cli.ledger import ledger_app
from setwise.cli.options import Once
from setwise.cli.paper import paper
from setwise.cli.prepare import prepare
from setwise.cli.queries import count, histogram, mean, quantile, sum_column, top_k
from setwise.cli.serve import serve
from setwise.errors import SetwiseError, Unavailable

_INTERRUPTED = 130
"""The exit status of a command stopped from the keyboard."""

_READER = "Input should be "
"""How the reader of options begins what it has to say about a value."""

_WANTED = {
    "a valid integer, unable to parse string as an integer": "a whole number",
    "a valid number, unable to parse string as a number": "a number",
}

app = typer.Typer(
    name="setwise",
    help="Private analytics with certified privacy-loss composition.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("top-k", cls=Once, short_help="Find the items that the most users have.")(top_k)
app.command(cls=Once, short_help="Count the users of every item.")(histogram)
app.command(cls=Once, short_help="Count users, or events with a cap on each user.")(count)
app.command("sum", cls=Once, short_help="Add up a column, each user's own sum clipped.")(sum_column)
app.command(cls=Once, short_help="Average a column over users.")(mean)
app.command(cls=Once, short_help="Find a median or another quantile over users.")(quantile)
app.command(cls=Once, short_help="Bound contributions once, for quick questions.")(prepare)
app.command(cls=Once, short_help="Say what a set of uses adds up to.")(compose)
app.command(cls=Once, short_help="Find the noise, epsilon or count for a target.")(calibrate)
app.command(cls=Once, short_help="Ask two million made-up events three questions.")(demo)
app.command(cls=Once, short_help="Run the service and its web pages.")(serve)
app.add_typer(ledger_app, name="ledger")
app.command(cls=Once, short_help="Recompute the figures and numbers of the paper.")(paper)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"setwise {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Private analytics with certified privacy-loss composition."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Run the command; errors go to stderr as one sentence, with the exit status of the error tree."""
    # The command-line library has its own errors for words it cannot read; typer.BadParameter is one of them.
    names = {kind.__name__: kind for kind in typer.BadParameter.__mro__ if issubclass(kind, Exception)}
    usage_error = names["ClickException"]
    try:
        status = app(standalone_mode=False, prog_name="setwise")
        sys.stdout.flush()
    except SetwiseError as error:
        _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", _INTERRUPTED)
    except OSError as error:  # every other file is opened where its own error is told
        _drop_output()
        _fail(f"the output could not be written: {error.strerror or error}", Unavailable.exit_code)
    except usage_error as error:
        _fail(_sentence(error), 2)
    if status == _INTERRUPTED:
        _fail("interrupted", _INTERRUPTED)
    sys.exit(status if isinstance(status, int) else 0)


def _drop_output() -> None:
    """Send what is still buffered nowhere, so that leaving does not fail a second time."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _sentence(error: BaseException) -> str:
    message = getattr(error, "format_message", lambda: str(error))().rstrip(".")
    written = getattr(error, "message", "")
    options = getattr(getattr(error, "param", None), "opts", None)
    if options and written.startswith(_READER):
        wanted = written.removeprefix(_READER)
        message = f"{options[0]} must be {_WANTED.get(wanted, wanted)}"
    context = getattr(error, "ctx", None)
    return f"{message}; see {'setwise' if context is None else context.command_path} --help"


def _fail(sentence: str, status: int) -> NoReturn:
    print(f"setwise: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
