"""The words of the command that runs, from which errors make the command to paste."""

from contextvars import ContextVar

_QUESTION_OPTIONS = frozenset(
    {
        *(
            "--item",
            "--value",
            "--where",
            "--per-item",
            "--per-user",
            "--null-item",
            "--limit",
            "--table",
            "-k",
            "--at",
        ),
        *("--clip", "--low", "--high", "--bounds", "--step"),
    }
)
"""The options of questions, each with a value, that `setwise sql` does not have, or means otherwise (--table)."""

command_words: ContextVar[tuple[str, ...]] = ContextVar("command_words", default=())
"""The words of the command that runs, from the name of the command on."""


def sql_options() -> tuple[dict[str, str], list[str]]:
    """Return (values, words) of the running command, from which a `setwise sql` command can be made that asks the same.

    - `values` maps options that `setwise sql` does not have, such as --where, to their values. The caller writes them
      into the SQL statement, for example as its WHERE.
    - `words` are all other words of the command line after the command's name. `setwise sql` takes them as they are,
      except the table. In them, --preview has become --explain, and --contributions auto is left out, because auto is
      the default.
    """
    named: dict[str, str] = {}
    words: list[str] = []
    remaining = iter(command_words.get()[1:])
    for word in remaining:
        option, equals, value = word.partition("=")
        if option in _QUESTION_OPTIONS:
            named[option] = value if equals else next(remaining, "")
        elif option == "--contributions":
            value = value if equals else next(remaining, "")
            words += [] if value == "auto" else [option, value]
        else:
            words.append("--explain" if word == "--preview" else word)
    return named, words
