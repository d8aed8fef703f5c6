"""The `setwise` command: the list of commands, how errors become messages and exit codes, typos, and `setwise docs`."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from setwise import __version__
from setwise.cli.advice.running_command import command_words
from setwise.cli.help import COMMAND_GROUPS, GroupedHelp
from setwise.cli.holder_notes import SeveralValues
from setwise.cli.refusals import (
    password_left_out,
    statement_word,
    with_proposed_command,
    with_usable_addresses,
    without_passwords,
)
from setwise.errors import InvalidParameter, SetwiseError, Unavailable, UnknownName

COMMANDS = {
    "top-k": ("ask:top_k", "Find the items that the most users have."),
    "histogram": ("ask:histogram", "Count the users of every item."),
    "count": ("ask:count", "Count users, or events with a cap on each user."),
    "distinct": ("ask:distinct", "Count the distinct values of a column."),
    "sum": ("ask:sum", "Add up a column, each user's own sum clipped."),
    "mean": ("ask:mean", "Average a column over users."),
    "quantile": ("ask:quantile", "Find a median or another quantile over users."),
    "variance": ("ask:variance", "Find the variance of a column over rows."),
    "stddev": ("ask:stddev", "Find the standard deviation of a column over rows."),
    "sql": ("ask:sql", "Ask in SQL, privately."),
    "check": ("tables:check", "Show the holder of a file how to read it."),
    "live": ("live:live_app", "Count users so far over a year, from one charge."),
    "run": ("report:run", "Ask the questions of a report under one budget."),
    "prepare": ("tables:prepare", "Bound contributions once, for quick questions."),
    "compose": ("compose:compose", "Say what a set of uses adds up to."),
    "calibrate": ("compose:calibrate", "Find the noise, epsilon or count for a target."),
    "demo": ("demo:demo", "Ask two million made-up events three questions."),
    "mcp": ("mcp:mcp", "Let an agent ask, within an account's budget."),
    "serve": ("serve:serve", "Run the service and its web pages."),
    "docs": ("main:docs", "Show the documents that promises rest on."),
    "ledger": ("ledger:ledger_app", "Open accounts, see how they stand, and prove what happened."),
    "paper": ("paper:paper", "Recompute the figures and numbers of the paper."),
}
"""The commands by name: the module and attribute that define each, and its line in the help text."""

HELP = """Private analytics with certified privacy-loss composition.

Answers carry noise. Epsilon says how much one person can matter: whether or not somebody is in the table changes the
chance of any answer by a factor of at most e^epsilon (1.1 for 0.1, 2.7 for 1, 148 for 5), except with a chance of
about delta. Several answers together have at most the sum of their epsilons; setwise compose says how much less.
"""
"""The help text of `setwise` itself."""

_INTERRUPTED = 130
"""The exit status of a command that was interrupted from the keyboard."""

_OURS = "Value error, "
"""The prefix that the command-line library puts before messages of our own option parsers."""

_READER = "Input should be "
"""The prefix of the command-line library's messages about a value that it cannot parse."""

_WANTED = {
    "a valid integer, unable to parse string as an integer": "a whole number",
    "a valid number, unable to parse string as a number": "a number",
}
"""Plain words for the types in the command-line library's messages."""


_SQL_COMMENT = re.compile(r"--(\s|[^=\n]*\n)")
"""The beginning of a SQL statement whose first line is a comment; no option has a blank after its dashes."""


class _Once(GroupedHelp):
    """A command that refuses an option that is given twice, unless the option may be repeated.

    Without this check, the command-line library would silently use the last value.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - the library keeps its context private
        """Parse the command line `args` and store the values in `ctx`; return the words that were not used.

        `ctx` is the command-line library's context of the command. Raises `InvalidParameter` for an option that is
        given twice, and for a file name after the flag --csv or --json, which takes none.
        """
        # A SQL statement that begins with a comment is no option: a space before it makes it an argument.
        args = [f" {word}" if _SQL_COMMENT.match(word) else word for word in args]
        shown = without_passwords(args)
        command_words.set((*ctx.command_path.split()[1:], *shown))
        password_left_out.set(shown != tuple(args))
        values, unknown, parsed = self.make_parser(ctx).parse_args(args=list(args))
        statement_word.set(str(values.get("query") or ""))
        for flag, word in pairwise(args):
            if flag in ("--csv", "--json") and word in unknown:
                raise InvalidParameter(
                    f"{flag} takes no file, because it prints to standard output: write {flag} > {quote(word)}"
                )
        for option in parsed:
            if getattr(option, "is_flag", True) or getattr(option, "multiple", True):
                continue
            if parsed.count(option) > 1 and ctx.info_name == "distinct" and "--value" in option.opts:
                raise SeveralValues(_values_of("--value", args), values.get("table"))
            if parsed.count(option) > 1:
                raise InvalidParameter(f"{option.opts[0]} is given twice: give it once")
        return super().parse_args(ctx, args)


def _values_of(option: str, args: list[str]) -> list[str]:
    """Return the values of all occurrences of `option`, such as "--value", on the command line `args`."""
    values = [word for before, word in pairwise(args) if before == option]
    return values + [word.partition("=")[2] for word in args if word.startswith(f"{option}=")]


class _Commands(Mapping[str, Any]):
    """The command-line commands by name; the module of a command is imported when the command is first looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - the library keeps its commands private
        if name not in self._loaded:
            place, short_help = COMMANDS[name]
            module, attribute = place.split(":")
            loaded = getattr(import_module(f"setwise.cli.{module}"), attribute)
            if not isinstance(loaded, typer.Typer):
                alone = typer.Typer(add_completion=False, rich_markup_mode=None)
                alone.command(name, short_help=short_help)(loaded)
                loaded = alone
            for command in loaded.registered_commands:
                command.cls = _Once
            self._loaded[name] = typer.main.get_command(loaded)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Group(TyperGroup):
    """The group of all commands of `setwise`; its help imports none of their modules, so that it is fast."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - as the library has it
        super().__init__(**(settings | {"commands": _Commands()}))

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002
        """Write the section of the help that lists the commands, in groups, to the library's `formatter`.

        Names and texts come from the table `COMMANDS`, so that no module of a command is imported. The context `ctx` is
        not used.
        """
        for title, names in COMMAND_GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][1]) for name in names if name in COMMANDS])


app = typer.Typer(
    name="setwise",
    cls=_Group,
    help=HELP,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(requested: bool) -> None:
    if requested:
        print(f"setwise {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Print the help of `setwise` if no command is given; the option --version prints the version and exits."""
    if context.invoked_subcommand is None:
        print(context.get_help())


_PACKAGE = Path(__file__).parents[1]
_FOLDERS = ("", "guides", "paper")
"""The folders of documents within `_PLACES`; a name is that of the first page that has it."""
_PLACES = (_PACKAGE / "documents", _PACKAGE.parents[1] / "docs")
"""Where the documents of an installed package are, and those of a clone of the repository."""
_REFERENCES = ("commands", "errors", "routes", "settings")
"""The pages of the folder `reference` that are documents; the others are made of docstrings, by the site."""


def docs(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A document, such as optimal-composition.")
    ] = None,
) -> None:
    """Print a document, or the list of documents: the theorems behind each guarantee, how tables are read, and more."""
    place = next((folder for folder in _PLACES if folder.is_dir()), _PLACES[0])
    files = [each for folder in _FOLDERS for kind in ("*.md", "*.bib") for each in sorted((place / folder).glob(kind))]
    files += [each for stem in _REFERENCES if (each := place / "reference" / f"{stem}.md").is_file()]
    documents: dict[str, Path] = {}
    for each in files:
        documents.setdefault(each.stem, each)
    if name is None:
        for stem, path in documents.items():
            print(f"{stem:<36}{_title(path)}")
        return
    page = documents.get(name.rpartition("/")[2].removesuffix(".md"))
    if page is None:
        raise UnknownName(f"there is no document {name!r}; there are {', '.join(documents)}")
    text = page.read_text(encoding="utf-8")
    made_by_site = {source: told for source, told in _MADE_BY_SITE.items() if f"<!-- site: {source} -->" in text}
    print(_COMMENT.sub("", text), end="")
    for told in made_by_site.values():
        print(f"\n{told}")
    table = page.with_suffix(".csv")  # the site sets it as a table in the page
    if table.is_file():
        print("\n" + table.read_text(encoding="utf-8"), end="")


_MADE_BY_SITE = {
    "routes": "The list of routes: run setwise serve, and open /api/v1/openapi.json or the page API of the service.",
    "commands": "The list of commands: setwise --help, and setwise COMMAND --help.",
    "settings": "The list of settings: setwise serve --help.",
}
"""Where to find what the site adds to a page, by the name in the page's comment."""

_COMMENT = re.compile(r"^<!--.*?-->\n+", re.DOTALL | re.MULTILINE)
"""Comments in a page for the tests that run its examples; they are not printed."""


def _title(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), "What is cited")


def main() -> None:
    """Run the command line, and exit.

    An error is printed to stderr as one sentence. The exit status is then the `exit_code` of the error's class, or 2
    for an unknown or malformed option.
    """
    # The command-line library raises errors of its own for bad options. Their base class is private, so it is looked up
    # among the base classes of typer.BadParameter.
    names = {kind.__name__: kind for kind in typer.BadParameter.__mro__ if issubclass(kind, Exception)}
    usage_error = names["ClickException"]
    try:
        status = app(standalone_mode=False, prog_name="setwise")
        sys.stdout.flush()
    except SetwiseError as error:
        from setwise.cli.advice.option_names import with_option_names

        is_report = command_words.get()[:1] == ("run",)  # a report has entries, not options
        is_sql = command_words.get()[:1] == ("sql",)
        sentence = str(error) if is_report else with_option_names(str(error), is_sql=is_sql)
        message = sentence if is_report else with_proposed_command(sentence, error.proposed)
        _fail(with_usable_addresses(message), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", _INTERRUPTED)
    except OSError as error:  # only writing the output raises it here: other files have their own messages
        _drop_output()
        _fail(f"the output could not be written: {error.strerror or error}", Unavailable.exit_code)
    except usage_error as error:
        _fail(_sentence(error), 2)
    if status == _INTERRUPTED:
        _fail("interrupted", _INTERRUPTED)
    sys.exit(status if isinstance(status, int) else 0)


def _drop_output() -> None:
    """Discard standard output that is still buffered, because writing it has failed and would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_MEANT = {
    "--at": ("--quantile", "--quantiles", "--percentile", "--q", "--p"),
    "--item": ("--group-by", "--group", "--groupby", "--by"),
    "--where": ("--filter", "--condition"),
    "--value": ("--column", "--col"),
    "--user": ("--user-id", "--unit-column", "--id"),
    "--bounds": ("--clamp",),
    "--counts": ("--noise",),
}
"""Options by the names that people guess for them."""


def _meant_option(message: str, context: Any) -> str | None:  # noqa: ANN401 - the library keeps its context private
    """Return the option that the user probably meant by an unknown option, such as --item for --group-by.

    `message` is the error's text, which names the unknown option. `context`, an object of the command-line library, has
    the options of the command. The result is None if the message is not about an unknown option, or if the command has
    no option that the user may have meant.
    """
    guess = re.match(r"No such option: (--[\w-]+)", message)
    if guess is None:
        return None
    known = {name for parameter in context.command.params for name in parameter.opts}
    return next((option for option, names in _MEANT.items() if guess[1] in names and option in known), None)


def _sentence(error: BaseException) -> str:
    message = getattr(error, "format_message", lambda: str(error))().rstrip(".")
    written = getattr(error, "message", "")
    options = getattr(getattr(error, "param", None), "opts", None)
    if options and written.startswith(_READER):
        wanted = written.removeprefix(_READER)
        message = f"{options[0]} must be {_WANTED.get(wanted, wanted)}"
    elif _OURS in written:
        message = written.partition(_OURS)[2]
    context = getattr(error, "ctx", None)
    if context is not None and (meant := _meant_option(message, context)) is not None:
        return f"{message.partition(' (')[0]}; write {meant}, see {context.command_path} --help"
    if message.startswith("No such option: --item") and context is not None:
        name = context.command_path.removeprefix("setwise ")
        return f"{name} has no groups: use histogram, or setwise sql with GROUP BY; see {context.command_path} --help"
    return f"{message}; see {'setwise' if context is None else context.command_path} --help"


_COPYING = "the copy with: "
"""What stands before a command that writes a copy of a file and asks it."""


def _fail(sentence: str, status: int) -> NoReturn:
    line = " ".join(sentence.split())
    # A long command stands on a line of its own, so that it can be copied and does not hide the sentence.
    parts = re.split("; (?=if [^;|&]*, ask the copy with: )", line)
    below = [part.replace(_COPYING, f"{_COPYING.rstrip()}\n  ") for part in parts]
    print("setwise: " + "\n".join(below), file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
