"""The command reference, from the commands themselves."""

from collections.abc import Iterator
from typing import Any

import typer


def commands() -> Iterator[tuple[str, Any]]:
    """Yield the words of every command and the command, groups before what is in them."""
    from setwise.cli.main import app

    yield from _below("setwise", typer.main.get_command(app))


def command_reference() -> str:
    """Return one section per command: usage, what it does, its arguments and options."""
    return "\n\n".join(_section(words, command) for words, command in commands())


def _below(words: str, command: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - the library hands out its own copy of click
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _below(f"{words} {name}", inner)


def _section(words: str, command: Any) -> str:  # noqa: ANN401
    context = typer.Context(command, info_name=words)
    usage = " ".join(command.get_usage(context).removeprefix("Usage:").split())
    level = min(2 + max(words.count(" ") - 1, 0), 3)
    parts = [f"{'#' * level} {words}", f"```text\n{usage}\n```", _text(command.help or "")]
    records = [record for parameter in command.get_params(context) if (record := parameter.get_help_record(context))]
    if records:
        rows = "\n".join(f"| `{_cell(name)}` | {_cell(text)} |" for name, text in records)
        parts.append(f"| argument or option | |\n|---|---|\n{rows}")
    return "\n\n".join(part for part in parts if part)


def _text(words: str) -> str:
    return words.replace("\b", "").strip()


def _cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")
