"""Errors of commands that end with what to add or to paste: options, column types, or the whole command.

A statement may lack a user column, a budget, or the types of CSV columns; an accuracy may lack bounds; an account may
have too little left. A misspelt column is corrected in the error of every command. Passwords in addresses of databases
are never part of a command that is printed.
"""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Any

from setwise.cli.advice.running_command import command_words
from setwise.errors import BadRequest, InvalidParameter, Unattainable, Unavailable

if TYPE_CHECKING:
    from setwise.analytics.budget import BudgetWords
    from setwise.analytics.engines.files import CsvOptions
    from setwise.analytics.query import Query
    from setwise.analytics.schema import Schema
    from setwise.analytics.session import Session
    from setwise.analytics.sql.parser import TableFacts

_USER_WORDS = re.compile(r"user|customer|client|person|people|patient|member|subscriber|visitor|who|uid", re.IGNORECASE)
"""Words in the names of columns that often tell users apart."""


def no_user(text: str, tables: dict[str, str], engine: str, *, is_paid: bool) -> InvalidParameter:
    """Return the error for the SQL statement `text` if nothing says which column tells users apart.

    The message says which options to add, and lists the columns of the statement's table, unless the table cannot be
    opened.

    - `tables` maps the names given with --table to paths.
    - `engine` is the engine that reads these tables.
    - `is_paid` says whether an account or a budget was given. If not, the message asks for a budget, too.
    """
    schema = schema_of(text, tables, engine)
    names = () if schema is None else schema.names
    likely = next((name for name in names if _USER_WORDS.search(name)), "COL")
    wanted = "which column tells users apart" + ("" if is_paid else " and what may be spent")
    paste = f"--user {quote(likely)}" + ("" if is_paid else " --epsilon 1")
    has = f" (the table has the columns {', '.join(names[:50])})" if names else ""
    return InvalidParameter(f"say {wanted}: add {paste}, or privacy_unit_column in OPTIONS{has}")


_NO_COLUMN = re.compile(r"the table (?:'[^']*' )?has no column '([^']+)'; it has ((?:'[^']*'(?:, )?)+)")
"""The beginning of an error about an unknown column: the column, and the columns that there are."""
_OTHER_FILES = re.compile(
    r"; a column of another file (?:comes in by JOIN, with private=\{NAME: FILE\} or public=\{NAME: FILE\} for it"
    r"|is joined in SQL, with private=\{NAME: FILE\} for each)|; if these are no names, setwise check .*? read it"
)
"""Advice of an error about an unknown column that is left out if the error says more exactly what to do."""
_PATH_OPTIONS = frozenset({"--table", "--public", "--catalog", "--ledger", "--account", "--key", "--dataset", "--plot"})
"""Options whose values are no names of columns."""


def without_other_files(message: str) -> str:
    """Return the error `message` about an unknown column without advice on columns of other files.

    The advice says how to join another file that may have the column.
    """
    return _OTHER_FILES.sub("", message)


def with_near_column(message: str, words: Sequence[str], source: str) -> str:
    """Return the error `message` about an unknown column with SQL or a command to paste; "" if no name is similar.

    If the message has a corrected statement already, it is returned, without its advice on other files. Otherwise the
    command is added in which the similar name of a column of the table replaces the unknown name. The result is "" also
    if the command would not change, or has a line break.

    `words` are the words of the command line, and `source` is the table.
    """
    found = _NO_COLUMN.search(message)
    if found is None:
        return ""
    names = {name.lower(): name for name in re.findall("'([^']*)'", found[2])}
    near = get_close_matches(found[1].lower(), names, n=1, cutoff=0.75)
    if not near:
        return ""
    message = without_other_files(message)
    if "; write: " in message:
        return message
    column = re.compile(rf"(?<!\w){re.escape(found[1])}(?!\w)")
    command = [
        word if previous in _PATH_OPTIONS or word == source else column.sub(names[near[0]], word)
        for previous, word in pairwise(["", *words])
    ]
    if command == [*words] or any("\n" in word for word in command):
        return ""
    return f"{message}; ask again with: setwise {join(command)}"


_STRUCTURE = "SELECT|FROM|WHERE|GROUP|ORDER|BY|HAVING|LIMIT|AS|AND|OR|NOT|ON|JOIN|IN|CASE|WHEN|THEN|ELSE|END|WITH"
"""Words that a statement needs for itself, so that only those in the place of a column can be columns."""


def _with_quoted_names(
    refused: InvalidParameter,
    text: str,
    user: str | None,
    facts: "TableFacts",
    tables: dict[str, str],
    engine: str,
    csv: "CsvOptions",
) -> InvalidParameter:
    """Return the error `refused` of the statement `text`, with a statement in which columns named like SQL are quoted.

    An example is SUM("select") in place of SUM(select). `refused` itself is returned if the statement has no such
    column, or cannot be read with quotes either. The other arguments are those of `refused_by_type`.
    """
    from setwise.analytics.engines.connect import open_engine
    from setwise.analytics.sql.parser import parse_sql

    source = re.search(r"\bFROM\s+(?:'([^']+)'|(\w+))", text, re.IGNORECASE)
    if source is None:
        return refused
    changed = text
    with suppress(BadRequest, Unavailable):
        with open_engine(table_path(source[1] or source[2], tables, engine), engine, csv=csv) as table:
            names = table.describe().names
        for name in filter(str.isidentifier, names):
            if re.fullmatch(_STRUCTURE, name, re.IGNORECASE):
                column = rf"(?<=[(,])(\s*){name}(?=\s*[),=<>])|(?<=\bBY)(\s+){name}(?=\s*(?:,|$|ORDER|LIMIT|HAVING))"
                changed = re.sub(column, rf'\g<1>\g<2>"{name}"', changed, flags=re.IGNORECASE)
            else:
                changed = re.sub(rf"(?<![\w\"'./]){name}(?![\w\"'./(])", f'"{name}"', changed, flags=re.IGNORECASE)
        parse_sql(changed, user=user, facts=facts)
        for name in names:  # only columns that need quotes get them
            bare = changed.replace(f'"{name}"', name)
            changed = bare if f'"{name}"' not in text and _reads(bare, user, facts) else changed
        advice = "a column that is named like a word of SQL stands in double quotes; write"
        return InvalidParameter(f"{str(refused).partition('; no statement that is answered')[0]}; {advice}: {changed}")
    return refused


def _reads(text: str, user: str | None, facts: "TableFacts") -> bool:
    """Return whether the statement `text` can be parsed; `user` and `facts` are those of `parse_sql`."""
    from setwise.analytics.sql.parser import parse_sql

    with suppress(BadRequest):
        parse_sql(text, user=user, facts=facts)
        return True
    return False


_UNFITTING = re.compile(
    "column '([^']+)' holds (boolean|integer|float) values and must be compared with .*?, not with '([^']*)'"
)
"""The beginning of an error about a condition that compares a column with a text: column, kind and text."""
_TRUTH = {
    **dict.fromkeys(["true", "t", "yes", "y", "1"], "TRUE"),
    **dict.fromkeys(["false", "f", "no", "n", "0"], "FALSE"),
}
"""The constants of truth values, by the texts from which they are read."""


def with_fitting_constant(message: str, words: Sequence[str]) -> str:
    """Return the error `message` about a condition with a command in which the constant fits the column; or "".

    For example --where "paid = 'Y'" becomes --where "paid = TRUE" if the column paid holds truth values. `words` are
    the words of the command line.
    """
    found = _UNFITTING.search(message)
    if found is None:
        return ""
    name, kind, text = found.groups()
    constant = _TRUTH.get(text.lower(), "") if kind == "boolean" else text
    if not constant or (kind != "boolean" and re.fullmatch("-?[0-9]+([.][0-9]+)?", text) is None):
        return ""
    compared = re.compile(rf"(?<!\w)(\"?{re.escape(name)}\"?\s*(?:=|<>|!=|[<>]=?)\s*)'?{re.escape(text)}'?(?!\w)")
    command = [compared.sub(rf"\g<1>{constant}", word) for word in words]
    return f"{message}; ask again with: setwise {join(command)}" if command != [*words] else ""


def schema_of(text: str, tables: dict[str, str], engine: str) -> "Schema | None":
    """Return the columns of the first table that the statement `text` names; None if that table cannot be opened.

    `tables` maps the names given with --table to paths, and `engine` reads the table. Only the header or the metadata
    is read.
    """
    from setwise.analytics.engines.connect import open_engine
    from setwise.analytics.sql.syntax import table_names

    with suppress(BadRequest, Unavailable):
        for name in table_names(text)[:1]:
            with open_engine(table_path(name, tables, engine), engine) as table:
                return table.describe()
    return None


def refused_by_type(
    refused: InvalidParameter,
    text: str,
    user: str | None,
    facts: "TableFacts",
    tables: dict[str, str],
    engine: str,
    csv: "CsvOptions",
) -> InvalidParameter:
    """Return the error to show for the statement `text`: `refused`, or a better error that knows the table's columns.

    `refused` was raised when the statement was parsed without the table's columns. The statement is parsed again with
    the columns, and the error of this second attempt, if there is one, says better what is wrong. If columns that are
    named like words of SQL, such as select, need quotes, the error has the statement with quotes.

    - `user`: the user column, or None if it was not given
    - `facts`: what is declared about the statement's tables
    - `tables`: the paths of the names given with --table, which `engine` reads; `csv` says how CSV files are written

    `refused` is returned if the columns are not known, if the statement names several tables or cannot be parsed at
    all, or if the second attempt succeeds or fails only because CSV columns need other types.
    """
    better = _refused_by_columns(refused, text, user, facts, schema_of(text, tables, engine))
    return _with_quoted_names(better, text, user, facts, tables, engine, csv)


def _refused_by_columns(
    refused: InvalidParameter, text: str, user: str | None, facts: "TableFacts", schema: "Schema | None"
) -> InvalidParameter:
    """Return the error that knows the columns of the `schema`; the arguments are those of `refused_by_type`."""
    from setwise.analytics.sql.parser import parse_sql
    from setwise.analytics.sql.syntax import table_names

    try:
        names = table_names(text)
    except InvalidParameter:  # the text cannot be parsed, whatever the types are
        return refused
    try:
        if schema is not None and len(names) == 1:
            parse_sql(text, user=user, facts=replace(facts, schema_of=lambda _table, _joins: schema))
    except InvalidParameter as better:
        return refused if better.needed_types else better
    return refused


def table_path(name: str, tables: dict[str, str], engine: str) -> str:
    """Return the path of the table that a statement calls `name` after FROM.

    `tables` maps the names given with --table NAME=PATH to paths. `name` is looked up among these names without regard
    to upper and lower case, unless several tables then match. If `name` is neither found nor a file, the part of `name`
    after the last dot is looked up, because BI tools write a schema before the dot, as in public.visits. If this is not
    found either, `name` itself is returned, because it may be a path or a table of `engine`.

    Raises: `InvalidParameter` if nothing is found, `name` is a plain identifier, and `engine` is DuckDB.
    """
    # BI tools and warehouses write a schema or project before the dot.
    for known in (name, *([] if Path(name).exists() else [name.rpartition(".")[2]])):
        matching = [path for table, path in tables.items() if table == known or table.lower() == known.lower()]
        if known in tables or len(matching) == 1:
            return tables.get(known, matching[0])
    if engine == "duckdb" and name.isidentifier() and not Path(name).exists():
        files = sorted(str(file) for file in Path().glob(f"{name}.*") if file.is_file() and file.suffix != ".toml")
        path = quote(files[0]) if len(files) == 1 else "PATH"
        raise InvalidParameter(f"no table is called {name!r}: give --table {name}={path}, or a `path` after FROM")
    return name


_MOST_WIDTHS = 12
"""The most accuracies that are tried for a proposal, each at most twice as wide as the one before it."""


def with_example_bounds(
    error: InvalidParameter,
    session: "Session",
    kind: str,
    words: "dict[str, Any]",
    query: "Query",
    spent: "BudgetWords",
) -> InvalidParameter:
    """Return an error like `error`, which refuses an accuracy because bounds are open, with options for example bounds.

    If no epsilon that may be spent reaches the accuracy with these bounds, a wider accuracy is proposed, too.

    - `session` is the session on the table, and `spent` are the options that state the budget.
    - `kind` is the kind of query and `words` are its stated parameters by name, of which `query` was made.
    """
    from setwise.analytics.query import SHAPES, parameters_of

    options_by_name = parameters_of(SHAPES[kind])
    proposed: dict[str, str | None] = {"contributions": "1"} if query.auto_contributions else {}
    if any(statistic.finds_clip for statistic in query.statistics):
        proposed |= {"bounds": None} if "bounds" in options_by_name else {}
        proposed |= {"low": "0", "high": "100"} if "low" in options_by_name else {"per_item": "100"}
    if any(statistic.finds_rows for statistic in query.statistics):
        proposed["per_user" if "per_user" in options_by_name else "per_item"] = "5"
    changed = {**words, **{name: None if value is None else int(value) for name, value in proposed.items()}}
    for _ in range(_MOST_WIDTHS):
        try:
            filled, budget = session.with_defaults(kind, changed, spent)
            other = SHAPES[kind](**filled)
            session.for_question(other, session.budget(budget)).plan(other, session.budget(budget))
        except Unattainable as wider:
            half_width = wider.proposed.get("within") or f"{2 * (spent['within'] or 1):g}"
            proposed["within"], spent = half_width, {**spent, "within": float(half_width)}
        except BadRequest:
            return error
        else:
            return InvalidParameter(
                "how close an answer is depends on the bounds found: state them, or leave --within out; this example "
                "has bounds to be replaced by what is known of the table"
            ).proposing(proposed)
    return error


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
