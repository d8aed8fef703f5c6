"""Errors of `setwise sql` that name the options to add (--user, --epsilon, types), and the path of a named table.

A statement may lack a user column, a budget, or the types of CSV columns. A misspelt column is corrected in the error
of every command.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING

from setwise.errors import BadRequest, InvalidParameter, Unavailable

if TYPE_CHECKING:
    from setwise.analytics.schema import Schema
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
    r"; a column of another file (?:comes in by JOIN, with --table NAME=FILE or --public NAME=FILE for it"
    r"|is joined in setwise sql, with --table NAME=FILE for each)|; if these are no names, setwise check .*? read it"
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
    refused: InvalidParameter, text: str, user: str | None, facts: "TableFacts", schema: "Schema | None"
) -> InvalidParameter:
    """Return the error to show for the statement `text`: `refused`, or a better error that knows the table's columns.

    `refused` was raised when the statement was parsed without the table's columns. The statement is parsed again with
    the columns, and the error of this second attempt, if there is one, says better what is wrong.

    - `user`: the user column, or None if it was not given
    - `facts`: what is declared about the statement's tables
    - `schema`: the columns and their types, or None if not known

    `refused` is returned if `schema` is None, if the statement names several tables or cannot be parsed at all, or if
    the second attempt succeeds or fails only because CSV columns need other types.
    """
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
