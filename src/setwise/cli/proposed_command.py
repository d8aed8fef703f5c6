"""The command to paste after a refusal: the command that was refused, with the options with which it would be accepted.

Passwords in addresses of databases are never part of a command that is printed.
"""

import os
import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from itertools import pairwise
from shlex import join

command_words: ContextVar[tuple[str, ...]] = ContextVar("command_words", default=())
"""The words of the command that runs, from the name of the command on, without passwords."""

statement_word: ContextVar[str] = ContextVar("statement_word", default="")
"""The word of `command_words` that is the SQL statement or, after @, its file; "" for a command without a statement."""

password_left_out: ContextVar[bool] = ContextVar("password_left_out", default=False)
"""Whether a word of the command line has a password that `command_words` leaves out."""

_ADDRESS = re.compile(r"(--[\w-]+=|[\w.]+=)?([a-z][\w+.-]*://\S+)")
"""A word of a command line that is an address such as postgresql://host/db, or an option or a name with an address."""

_SERVER_LEDGER = re.compile(r" --ledger [a-z][\w+.-]*://\S+")
"""The option that names a ledger on a server."""


def without_passwords(words: Sequence[str]) -> tuple[str, ...]:
    """Return the command-line `words` without the passwords in addresses of databases.

    >>> without_passwords(["count", "--ledger=postgresql://ada:secret@host/db", "SELECT 'a://b:c@d' AS x FROM t"])
    ('count', '--ledger=postgresql://ada@host/db', "SELECT 'a://b:c@d' AS x FROM t")
    """
    return tuple(_ADDRESS.sub(_without_password, word) if _ADDRESS.fullmatch(word) else word for word in words)


def _without_password(address: re.Match[str]) -> str:
    from setwise.analytics.engines.connect import without_password

    return f"{address[1] or ''}{without_password(address[2])}"


def with_proposed_command(message: str, proposed: Mapping[str, str | None]) -> str:
    """Return the error `message` followed by the refused command with the options that the error proposes.

    `proposed` is the error's attribute of this name: values of options by parameter name, None for an option to leave
    out, and "statement" for the SQL statement. The message is unchanged if the command has no place for one of them, or
    if it has several lines that cannot be joined.
    """
    words = command_words.get()
    if not proposed or not words or any("\n" in word and "--" in word for word in words[1:]):
        return message
    for name, value in proposed.items():
        words = _with_parameter(words, name, value)
    if "statement" in proposed:
        if words[:1] != ("sql",):
            return message
        message = message.partition("; write: ")[0]
    return f"{message}; ask again with: setwise {join(words)}"


def _with_parameter(words: Sequence[str], name: str, value: str | None) -> tuple[str, ...]:
    """Return the command-line `words` with the parameter `name` set to `value`; None leaves the parameter out.

    A budget that the OPTIONS clause of a SQL statement states is changed there.
    """
    from setwise.analytics.sql.suggestions.example_bounds import states_option, with_option

    statement = statement_word.get()
    if name == "statement":
        return tuple(value or "" if word == statement else word for word in words)
    if value is not None and statement and states_option(statement, name):
        return tuple(with_option(word, name, value) if word == statement else word for word in words)
    option = f"--{name.replace('_', '-')}"
    kept = [
        word
        for before, word in pairwise(["", *words])
        if option not in (before, word) and not word.startswith(f"{option}=")
    ]
    return (*kept, *([] if value is None else [option, value]))


def with_usable_addresses(message: str) -> str:
    """Return the error `message`, whose commands name servers without passwords, so that the commands can be used.

    If $SETWISE_LEDGER names a ledger on a server, commands leave out --ledger, so that they need no password. This does
    not change the message of a command that was called with --ledger. If the command that runs has an address with a
    password, and a command in the message has an address, the message says that the password is left out.
    """
    named = any(word == "--ledger" or word.startswith("--ledger=") for word in command_words.get())
    if "://" in os.environ.get("SETWISE_LEDGER", "") and not named:
        return _SERVER_LEDGER.sub("", message)
    shows_address = "://" in message.partition("setwise ")[2]
    return (
        f"{message} (with the password, which is not shown)" if password_left_out.get() and shows_address else message
    )
