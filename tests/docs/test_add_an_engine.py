"""The guide on adding an engine names what there is: methods, types, files and about how long they are."""

import re
from pkgutil import resolve_name

from tests.docs.pages import DOCS, ROOT

from setwise.analytics.engines.base import Engine, SqlEngineQuery
from setwise.analytics.engines.bounding import StatementBuilder
from setwise.analytics.engines.dialect import Dialect
from setwise.analytics.schema import Kind

PAGE = (DOCS / "guides" / "add-an-engine.md").read_text(encoding="utf-8")
ENGINES = (
    "duckdb.engine:DuckDBEngine",
    "postgresql.engine:PostgresqlEngine",
    "clickhouse.engine:ClickHouseEngine",
    "spark.engine:SparkEngine",
)
NAMED = set(re.findall(r"`([^`\n]+)`", PAGE))


def public(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")}


def test_every_method_to_write_and_every_kind_is_named():
    assert public(Dialect) <= NAMED
    assert public(Engine) <= NAMED
    assert Engine.__abstractmethods__ | SqlEngineQuery.__abstractmethods__ <= NAMED
    assert {f"Kind.{kind.name}" for kind in Kind} <= NAMED


def test_every_file_exists_and_every_statement_and_helper_too():
    files = {name for name in NAMED if "/" in name and " " not in name}
    assert len(files) > 20
    assert not [name for name in files if not (ROOT / name).exists()]
    section = PAGE.partition("## 2.")[2].partition("Where the SQL")[0]
    statements = set(re.findall(r"`(\w+)`", section)) - {"StatementBuilder", "SqlEngineQuery"}
    assert len(statements) > 5
    assert statements <= public(StatementBuilder)
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    words = {name for name in NAMED if re.fullmatch(r"[A-Za-z_]{5,}", name)} - {
        "accurateCastOrNull",
        "toString",
        "assumeNotNull",
    }
    assert not [name for name in words if not re.search(rf"\b{name}\b", source)]


def test_the_lines_that_it_took_are_about_those_of_today():
    stated = re.findall(r"([\d,]+) lines in `([\w/.]+)`", PAGE)
    assert len(stated) == 2
    for lines, name in stated:
        place = ROOT / name
        files = [place] if place.is_file() else sorted(place.rglob("*.py"))
        now = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
        assert abs(now - int(lines.replace(",", ""))) <= 0.25 * now, (name, now)


def test_engines_write_only_what_differs():
    """Checks, questions, preparing and cancelling are those of `Engine`; the statements those of `SqlEngineQuery`."""
    engines = [resolve_name(f"setwise.analytics.engines.{name}") for name in ENGINES]
    assert all(issubclass(each, Engine) for each in engines)
    questions = SqlEngineQuery.__subclasses__()
    assert len(questions) == len(engines)
    shared = public(Engine) - Engine.__abstractmethods__ - {"rows", "relations"}
    assert not [(each, name) for each in engines for name in shared & vars(each).keys()]
    assert not [
        (each, name) for each in questions for name in {"histogram", "statistics", "_counts"} & vars(each).keys()
    ]
