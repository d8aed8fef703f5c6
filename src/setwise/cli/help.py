"""Help texts of commands: options in groups with rarely used options last, and one example for each command."""

from collections.abc import Iterator, Mapping
from typing import Any

from typer.core import TyperCommand

OPTION_GROUPS: dict[str, tuple[str, ...]] = {
    "Question": (
        "user", "unit", "item", "k", "value", "at", "every", "start", "periods", "purpose", "window", "late", "where",
        "contributions", "per_item", "per_user", "clip", "low",
        "high", "bounds", "domain", "tables", "public", "catalog", "null_item", "step", "limit",
    ),
    "Privacy": ("epsilon", "delta", "within", "counts", "mechanism"),
    "Reading the file": (
        "engine", "table_name", "types", "format", "separator", "quote", "decimal", "thousands", "date_format", "null",
        "encoding", "header", "columns", "skip_lines", "scan", "memory",
    ),
    "Account": ("account", "key", "ledger", "dataset", "discover"),
    "State": ("state",),
    "Serving": ("service", "token_file", "host", "port", "answer_step"),
    "Output": ("out", "replace", "preview", "explain", "details", "as_json", "as_csv", "plot", "save"),
}  # fmt: skip
"""The options of questions by group; the rare options of each group come last."""

OWN_GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "live show": {
        "Question": ("item", "on", "top", "window"), "Account": ("ledger",), "Output": ("as_json", "as_csv", "plot"),
    },
    "ledger open": {
        "Privacy": ("epsilon", "delta", "unit", "rule", "menu", "failure_share", "wallet", "failure"),
        "Account": ("take_any", "register", "analyst", "dataset", "period", "ledger"),
        "Output": ("as_json",),
    },
    "ledger cap": {
        "Privacy": ("epsilon", "delta", "unit", "keep", "rule", "failure_share"),
        "Account": ("ledger",),
        "Output": ("as_json",),
    },
    "serve": {
        "Address": ("host", "port", "postgres", "trusted_proxy", "secure_cookies"),
        "Tables": ("data_dir", "engine", "store", "live_dir"),
        "Ledger": ("ledger", "migrate", "steward_token"),
        "Limits": (
            "workers", "memory", "query_seconds", "wait_seconds", "requests_per_second", "heartbeat_seconds",
        ),
        "Privacy": ("answer_step",),
        "Output": ("log",),
    },
}  # fmt: skip
"""The groups of commands that ask no question but have many options; the rare options of each group come last."""

COMMAND_GROUPS: dict[str, tuple[str, ...]] = {
    "Ask a table": (
        "sql",
        "top-k",
        "histogram",
        "count",
        "distinct",
        "sum",
        "mean",
        "quantile",
        "variance",
        "stddev",
        "live",
    ),
    "Prepare tables": ("check", "prepare"),
    "Keep budgets": ("ledger", "compose", "calibrate"),
    "Serve others": ("run", "serve", "mcp"),
    "Learn": ("demo", "docs", "paper"),
}
"""The commands by purpose, in the order of `setwise --help`."""

_TABLE = "events.parquet --user user_id"
EXAMPLES: dict[str, str] = {
    "sql": 'setwise sql "SELECT country, COUNT(DISTINCT user_id) AS users FROM events GROUP BY country" '
    "--table events=events.parquet --user user_id --epsilon 1",
    "top-k": f"setwise top-k {_TABLE} --item title -k 10 --epsilon 1 --delta 1e-6",
    "histogram": f"setwise histogram {_TABLE} --item country --contributions 1 --epsilon 1 --delta 1e-6",
    "count": f"setwise count {_TABLE} --where \"country = 'Norway'\" --epsilon 0.5",
    "distinct": f"setwise distinct {_TABLE} --value title --per-user 20 --epsilon 1",
    "sum": f"setwise sum {_TABLE} --value minutes --clip 600 --epsilon 1",
    "mean": f"setwise mean {_TABLE} --value minutes --low 0 --high 120 --epsilon 1",
    "quantile": f"setwise quantile {_TABLE} --value minutes --low 0 --high 120 --at 0.9 --epsilon 1",
    "variance": f"setwise variance {_TABLE} --value minutes --low 0 --high 120 --per-user 10 --epsilon 1",
    "stddev": f"setwise stddev {_TABLE} --value minutes --low 0 --high 120 --per-user 10 --epsilon 1",
    "live open": f"setwise live open reach {_TABLE} --item title --at at --every day --start 2026-01-01 --periods 365 "
    "--contributions 3 --epsilon 1 --delta 1e-6",
    "live update": "setwise live update reach",
    "live show": "setwise live show reach --top 5 --plot reach.svg",
    "live close": "setwise live close reach",
    "check": "setwise check ratings.csv --save",
    "prepare": f"setwise prepare {_TABLE} --item title --out prepared",
    "compose": "setwise compose bounded-range:0.1x25 pure:0.1x25 --delta 1e-6",
    "calibrate": "setwise calibrate 'gaussian:?x25' --epsilon 1 --delta 1e-6",
    "run": "setwise run report.toml --key 2026-01-05",
    "serve": "setwise serve --port 8080",
    "mcp": "setwise mcp events.parquet --user user_id --account ada",
    "demo": "setwise demo --keep events.parquet",
    "docs": "setwise docs ledger",
    "paper": "setwise paper --out figures",
    "ledger open": "setwise ledger open ada --filter --epsilon 3 --delta 1e-6",
    "ledger cap": "setwise ledger cap events --epsilon 10 --delta 1e-6",
    "ledger keep": "setwise ledger keep events wallet",
    "ledger reclaim": "setwise ledger reclaim events",
    "ledger show": "setwise ledger show ada",
    "ledger history": "setwise ledger history ada",
    "ledger verify": "setwise ledger verify",
    "ledger sign": "setwise ledger sign --key head.key",
    "ledger freeze": "setwise ledger freeze ada --reason 'on leave'",
    "ledger thaw": "setwise ledger thaw ada",
    "ledger close": "setwise ledger close ada --reason 'project ended'",
    "ledger acts": "setwise ledger acts",
    "ledger export": "setwise ledger export backup.jsonl",
    "ledger restore": "setwise ledger restore backup.jsonl",
    "ledger joint": "setwise ledger joint events --delta 1e-6",
}
"""One example command line for each command, which its help text ends with."""


FILE_EXAMPLES: dict[str, tuple[str, str]] = {
    "run": (
        "A report file (all entries: setwise docs reports)",
        """\
table = "events.parquet"
user = "user_id"
epsilon = 1.0
delta = 1e-6
html = "report.html"

[[questions]]
name = "countries"
sql = "SELECT country, COUNT(DISTINCT user_id) AS users FROM events GROUP BY country"
to = "countries.csv"

[[questions]]
name = "minutes"
kind = "mean"
value = "minutes"
low = 0
high = 60
""",
    ),
}
"""The heading and the text of an example of the file that a command reads, by the name of the command."""


class GroupedHelp(TyperCommand):
    """A command whose help lists its options by group and ends with an example."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - the library keeps both types private
        """Write the command's arguments to its help text, then its options: options in groups first, then all others.

        `ctx` is the command's context, and `formatter` the object to write to, both of the command-line library.
        """
        for title, records in _sections([*self.get_params(ctx)], ctx, _own_groups(ctx)):
            with formatter.section(title):
                formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write an example of the file that the command reads, if it reads one, and then an example of the command.

        The example of the command is on one line, to be copied. Nothing is written for a command without an example.
        `ctx` is the command's context, and `formatter` the object to write to, both of the command-line library.
        """
        name = ctx.command_path.removeprefix("setwise ")
        if name in FILE_EXAMPLES:
            title, text = FILE_EXAMPLES[name]
            with formatter.section(title):
                formatter.write("".join(f"  {line}\n" for line in text.splitlines()))
        example = EXAMPLES.get(name)
        if example is not None:
            with formatter.section("Example"):
                formatter.write(f"  {example}\n")


def _own_groups(ctx: Any) -> dict[str, tuple[str, ...]]:  # noqa: ANN401
    """Return the headings of options in the help of one command: a dict from each heading to the names of its options.

    `ctx` is the command's context in the command-line library. The dict is empty if `OWN_GROUPS` has no headings for
    the command.
    """
    return OWN_GROUPS.get(ctx.command_path.removeprefix("setwise "), {})


def _sections(
    parameters: list[Any],
    ctx: Any,  # noqa: ANN401
    own_groups: Mapping[str, tuple[str, ...]],
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the sections of a command's help: a heading, and below it pairs (option or argument, explanation).

    - `parameters` are the command's arguments and options, and `ctx` is its context in the command-line library.
    - `own_groups` maps the headings of this command to the names of the options below them. If it is empty, a command
      with the option --user has the headings in `OPTION_GROUPS`, which all commands for questions share, and any other
      command has all its options in one section.
    """
    records = {parameter.name: parameter.get_help_record(ctx) for parameter in parameters}
    arguments = [parameter.name for parameter in parameters if parameter.param_type_name == "argument"]
    options = [name for name in records if name not in arguments]
    groups = [("Arguments", arguments)]
    titles = own_groups or (OPTION_GROUPS if "user" in options else {})
    groups += [(title, [name for name in names if name in options]) for title, names in titles.items()]
    grouped = {name for _, names in groups for name in names}
    ungrouped = [name for name in options if name not in grouped]
    groups.append(("Other options" if titles else "Options", ungrouped))
    for title, names in groups:
        entries = [records[name] for name in names if records[name] is not None]
        if entries:
            yield title, entries
