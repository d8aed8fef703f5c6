"""A report: the TOML file that an author writes, and its parsed form."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from setwise.accounting.checks import check_delta, check_number
from setwise.accounting.promises import USER, check_unit
from setwise.analytics.askable import SqlWords
from setwise.analytics.catalog import READING, Catalog, read_catalog
from setwise.analytics.engines.connect import JoinableTables, Location, location_of
from setwise.analytics.query import Query
from setwise.analytics.schema import Kind
from setwise.analytics.sql.parser import TableFacts, parse_sql
from setwise.analytics.sql_question import SqlQuestion
from setwise.analytics.tables.domain import read_domain
from setwise.errors import InvalidParameter
from setwise.reports.refusals import name_question

_BESIDE = ("public", "private")
"""The entries that name tables which SQL may join."""

_TABLE = (*(word for word in READING if word != "table"), "catalog", *_BESIDE)
"""The arguments of `setwise.open` that a report may state about its table and the tables that SQL joins to it."""

_REPORT = (
    "title",
    "name",
    "table",
    "user",
    "unit",
    "epsilon",
    "delta",
    "ledger",
    "dataset",
    "live",
    "html",
    "json",
    "questions",
    *_TABLE,
)
"""The entries that a report may have at its top level."""
_QUESTION = ("name", "title", "sql", "weight", "to", "contributions", "domain")
"""The entries that a question in SQL may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportQuestion:
    """One question of a report: its name, its query, and what part of the report's budget it gets.

    - `weight`: the budget is divided among the questions in proportion to their weights
    - `to`: the files and database tables that the answer is written to
    - `select`: the text of a question in SQL, or None
    - `sql_question`: the SQL parsed for the tables of the report; None without SQL, or before the tables are open
    - `title`: the heading of the answer; if it is empty, the heading is `name`
    """

    name: str
    query: Query
    weight: float
    to: tuple[str, ...]
    select: "ReportSelect | None" = None
    sql_question: SqlQuestion | None = None
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSelect:
    """A question in SQL as its author wrote it: the `text` of the SELECT, and the options `words` beside it.

    `words` maps names of options that the text does not state itself, such as the contribution bound, to their values.
    The text is parsed again once the tables are open and their columns are known, so it is kept here.
    """

    text: str
    words: SqlWords


LIVE_ENDINGS = (".csv", ".json", ".svg", ".png")
"""The endings of files that a live series can be written to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOutput:
    """A live series (noisy user counts, released period by period) that a report writes to the files `to`, at no cost.

    - `series`: the name of the live series in the ledger
    - `window`: the number of periods that each number covers; None means running totals of users per group
    - `top`: how many items to write, the largest in the period that begins on the day `on` (YYYY-MM-DD; None: the last)
    """

    series: str
    to: tuple[str, ...]
    window: int | None = None
    top: int | None = None
    on: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.series, str) or not self.series:
            raise InvalidParameter(f"a [[live]] names its series, not {self.series!r}")
        if self.window is not None and (type(self.window) is not int or self.window < 1):
            raise InvalidParameter(f"the window of {self.series!r} spans a number of periods, not {self.window!r}")
        if self.top is not None and (type(self.top) is not int or self.top < 1):
            raise InvalidParameter(f"the top of {self.series!r} is a number of items, not {self.top!r}")
        if self.on is not None and (self.top is None or not isinstance(self.on, str)):
            raise InvalidParameter(f"the day by which {self.series!r} is ranked is a text beside top, not {self.on!r}")
        for to in self.to:
            if Path(to).suffix.lower() not in LIVE_ENDINGS:
                raise InvalidParameter(f"a live series is written to {', '.join(LIVE_ENDINGS)} files, not to {to!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A parsed report: questions about one `table` with the user column `user`, under one (`epsilon`, `delta`).

    - `title`: the heading of the report's page
    - `name`: the report's name. Each run of the report has a key, and an account called NAME:KEY pays for the run
    - `known_as`: a name for each private table that the report reads, by which the ledger checks whether an account may
      pay for questions about the table. The name of `table` is `dataset` if that is stated
    - `ledger`: the address of the ledger, or None if not stated
    - `dataset`: the name of the table's dataset in the ledger, or None if not stated
    - `html`, `json`: the paths of files that all answers are written to, as a page and as JSON, or None
    - `options`: further arguments of `setwise.open`
    - `unit`: what all answers together protect: "user" for users with all of their rows, or a part of a user's rows,
      such as "user,day" for the rows of a user on one day
    - `live`: the live series (user counts that are released period by period) whose numbers the report writes to files
    """

    title: str
    name: str
    table: str
    user: str
    epsilon: float
    delta: float
    questions: tuple[ReportQuestion, ...]
    known_as: tuple[str, ...]
    ledger: str | None = None
    dataset: str | None = None
    html: str | None = None
    json: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    unit: str = USER
    live: tuple[LiveOutput, ...] = ()


def read_report(path: str | Path) -> Report:
    """Return the report in the TOML file `path`; no table is opened.

    Raises: `InvalidParameter`, with a message about the first fault, if the file cannot be read or is not a report.
    """
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"the report cannot be read from {str(path)!r}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidParameter(f"{str(path)!r} is not TOML: {error}") from None
    _check_words(document, _REPORT, "a report")
    catalog = read_catalog(document["catalog"]) if isinstance(document.get("catalog"), str) else None
    if catalog is not None and "table" in document:
        entry = catalog.table(str(document["table"]))
        document.setdefault("user", entry.user)
        document["unit"] = entry.unit if document.get("unit", USER) == USER else document["unit"]
        document["public"] = {**catalog.public, **document.get("public", {})}
        document["private"] = {**catalog.private_beside(str(document["table"])), **document.get("private", {})}
    for needed in ("table", "user", "epsilon", "delta", "questions"):
        if needed not in document:
            raise InvalidParameter(f"the report says no {needed}: give it at the top of {str(path)!r}")
    if not isinstance(document["questions"], list) or not document["questions"]:
        raise InvalidParameter("the report asks nothing: give it at least one [[questions]]")
    tables = _ReportTables.of(document, catalog)
    name = document.get("name", Path(path).stem)
    questions = tuple(_question(each, tables) for each in document["questions"])
    names = [each.name for each in questions]
    for question_name in names:
        if names.count(question_name) > 1:
            raise InvalidParameter(f"two questions are called {question_name!r}: give each a name of its own")
    return Report(
        title=document.get("title", name),
        name=name,
        table=document["table"],
        user=document["user"],
        unit=check_unit(document.get("unit", USER)),
        epsilon=_positive("epsilon", document["epsilon"]),
        delta=check_delta(document["delta"]),
        questions=questions,
        known_as=(document.get("dataset", tables.location.name), *tables.private_names),
        options={
            word: _kinds(document[word]) if word == "types" else document[word] for word in _TABLE if word in document
        },
        **{word: document[word] for word in ("ledger", "dataset", "html", "json") if word in document},
        live=tuple(map(_live_output, document.get("live", ()))),
    )


def _live_output(entry: Mapping[str, Any]) -> LiveOutput:
    _check_words(entry, ("series", "to", "window", "top", "on"), "a [[live]]")
    to = entry.get("to", ())
    every = (to,) if isinstance(to, str) else tuple(map(str, to))
    chosen = {word: entry.get(word) for word in ("window", "top", "on")}
    return LiveOutput(series=entry.get("series", ""), to=every, **chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReportTables:
    """The `table` of a report with its `user` column, and the tables `beside` it, which a SELECT may join to it.

    - `location`: the name of `table`, and the local files of `table` and of all private tables (tables with users) in
      `beside`
    - `private_names`: the names of the private tables in `beside`, by which the ledger checks whether an account may
      pay for questions about them
    """

    table: str
    user: str
    beside: JoinableTables
    location: Location
    private_names: tuple[str, ...]

    @classmethod
    def of(cls, document: Mapping[str, Any], catalog: Catalog | None) -> "_ReportTables":
        for word in _BESIDE:
            tables_by_name = document.get(word, {})
            if not isinstance(tables_by_name, dict) or not all(
                isinstance(table, str) for table in tables_by_name.values()
            ):
                raise InvalidParameter(
                    f"{word} is a table of names, each a path or the name of a table, not {tables_by_name!r}"
                )
        engine, source = document.get("engine", "duckdb"), document["table"]
        if catalog is not None:
            entry = catalog.table(source)
            engine, source = entry.options.get("engine", engine), entry.source
        beside = JoinableTables(public=document.get("public", {}), private=document.get("private", {}))
        private = [location_of(each, engine) for each in beside.private.values()]
        return cls(
            table=document["table"],
            user=document["user"],
            beside=beside,
            location=location_of(source, engine).with_files(private),
            private_names=tuple(each.name for each in private),
        )


def _question(entry: Any, tables: _ReportTables) -> ReportQuestion:  # noqa: ANN401 - whatever the author wrote
    if not isinstance(entry, dict):
        raise InvalidParameter("a question is a table: write [[questions]] above its words")
    if "name" not in entry:
        raise InvalidParameter("a question has no name: it is needed for its key and its answer")
    with name_question(entry["name"]):
        return _named_question(entry, tables)


def _named_question(entry: Mapping[str, Any], tables: _ReportTables) -> ReportQuestion:
    """Return the question that `entry`, one [[questions]] table of a report's TOML file, states.

    `tables` are the tables of the report. Raises `InvalidParameter` for a wrong entry; the caller adds the question's
    name to the message.
    """
    name, title = entry["name"], entry.get("title", "")
    if not isinstance(title, str):
        raise InvalidParameter(f"the title of {name!r} must be text, not {title!r}")
    weight = _positive(f"the weight of {name!r}", entry.get("weight", 1.0))
    to = entry.get("to", [])
    where = (to,) if isinstance(to, str) else tuple(to)
    words = {word: value for word, value in entry.items() if word not in ("name", "title", "weight", "to")}
    if words.get("domain") is not None:
        words["domain"] = read_domain(words["domain"], tables.location)
    if "sql" not in entry:
        return ReportQuestion(name=name, query=Query.from_dict(words), weight=weight, to=where, title=title)
    _check_words(entry, _QUESTION, "a question in SQL")
    text = words.pop("sql")
    facts = TableFacts(public=tuple(tables.beside.public), private=tuple(tables.beside.private))
    statement = parse_sql(text, user=tables.user, **words, facts=facts)
    if statement.says_what_to_spend:
        raise InvalidParameter(f"OPTIONS of {name!r} says what to spend: the budget is the report's; use weight")
    if statement.table not in (tables.location.name, tables.table):
        raise InvalidParameter(_other_table(name, text, statement.table, tables))
    for core in statement.cores:
        tables.beside.check(core.source.joins)
    if statement.explain:
        raise InvalidParameter(f"{name!r} is an EXPLAIN, which has no rows: setwise run --preview shows all plans")
    return ReportQuestion(
        name=name,
        query=statement.query,
        weight=weight,
        to=where,
        title=title,
        select=ReportSelect(text=text, words=cast("SqlWords", words)),
    )


def _other_table(name: str, text: str, asked: str, tables: _ReportTables) -> str:
    """Return the message for a question whose statement begins with another table than that of the report.

    - `name` and `text` are the question's name and statement.
    - `asked` is the table after FROM.
    - `tables` are those of the report.

    If the statement joins the report's table, the message ends with the statement in which the two have changed places.
    """
    own = tables.location.name
    message = f"{name!r} asks the table {asked!r}, and the report is on {own!r}"
    alias = r"(?:\s+(?:AS\s+)?(?!INNER\b|JOIN\b|ON\b|USING\b)\w+)?"
    first, second = (rf"(?P<{place}>{re.escape(table)}{alias})" for place, table in (("first", asked), ("second", own)))
    join = rf"\bFROM\s+{first}\s+(?P<join>(?:INNER\s+)?JOIN)\s+{second}(?=\s+(?:ON|USING)\b)"
    exchanged, count = re.compile(join, re.IGNORECASE).subn(r"FROM \g<second> \g<join> \g<first>", text)
    if count == 1:
        return f"{message}; write: {exchanged}"
    return f"{message}: begin with FROM {own}, and join {asked!r} to it, or make it the table of another report"


def _kinds(types: Any) -> dict[str, Kind]:  # noqa: ANN401 - whatever the author wrote
    if not isinstance(types, dict) or not all(kind in set(Kind) for kind in types.values()):
        raise InvalidParameter(f"types is a table of columns, each a kind of {', '.join(Kind)}, not {types!r}")
    return {column: Kind(kind) for column, kind in types.items()}


def _check_words(entry: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    """Raise `InvalidParameter` if the TOML table `entry` has a key that is not in `known`.

    `place` names the TOML table in the error message.
    """
    for word in entry:
        if word not in known:
            raise InvalidParameter(f"{place} has the unknown entry {word!r}; it may have {', '.join(map(repr, known))}")


def _positive(name: str, value: object) -> float:
    number = check_number(name, value)
    if number <= 0.0:
        raise InvalidParameter(f"{name} must be above 0, not {value!r}")
    return number
