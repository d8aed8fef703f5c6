"""The catalog: what a data holder declares is read alike by every door, and is fixed before data is read."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import setwise
from setwise.analytics.catalog import parse_catalog, read_catalog
from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter
from tests.command_line import process as run

ROWS = 6000
TEXT = """
[tables.visits]
source = "events.csv"
user = "who"
types = { who = "integer", minutes = "integer" }
bounds = { minutes = [0, 60] }
rows_per_user = 6
contributions = 3
[tables.visits.domains]
country = ["NO", "SE", "DK"]
[public.countries]
source = "countries.parquet"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("catalog")
    lines = [f"{n % 1000},{('NO', 'SE', 'DK')[n % 3]},{n % 60}" for n in range(ROWS)]
    (place / "events.csv").write_text("who,country,minutes\n" + "\n".join(lines) + "\n")
    pq.write_table(pa.table({"country": ["NO", "SE"], "name": ["Norway", "Sweden"]}), place / "countries.parquet")
    (place / "catalog.toml").write_text(TEXT)
    return place


def test_declared_bounds_are_used_and_told(folder):
    with setwise.open("visits", catalog=folder / "catalog.toml") as session:
        found = session.sql(
            "SELECT country, COUNT(*) AS n, AVG(minutes), SUM(minutes) FROM visits GROUP BY 1", epsilon=2
        )
        told = {each["of"]: each for each in found.bounds}
        assert told["rows"] == {"of": "rows", "low": 0, "high": 6, "source": "catalog"}
        assert told["mean_minutes"] == {"of": "mean_minutes", "low": 0, "high": 60, "source": "catalog"}
        assert (told["sum_minutes"]["high"], told["contributions"]["high"]) == (360, 3)
        assert found.answer.delta == 0  # the groups are public
        assert {row["country"] for row in found} == {"NO", "SE", "DK"}
        given = session.sql(
            "SELECT AVG(minutes, contribution_bounds_per_group => (0, 10)) AS m, MEDIAN(minutes + 1) AS q FROM visits",
            epsilon=2,
        )
        assert [each["source"] for each in given.bounds] == ["statement", "found"]
        joined = session.sql(
            "SELECT name, COUNT(*) FROM visits JOIN countries USING (country) GROUP BY name", epsilon=2
        )
        assert {row["name"] for row in joined} == {"Norway", "Sweden"}


def test_a_count_of_rows_that_counts_users_says_so(folder):
    """With one declared row of a user, COUNT(*) is the number of users, which nobody expects of it."""
    (folder / "one.toml").write_text(TEXT.replace("rows_per_user = 6", "rows_per_user = 1"))
    sentence = "COUNT(*) and COUNT(x) count each who at most once in a group"
    both = "SELECT country, COUNT(*) AS n, COUNT(DISTINCT who) AS u FROM visits GROUP BY 1"
    with setwise.open("visits", catalog=folder / "one.toml") as session:
        rows = session.sql("SELECT country, COUNT(*) AS n, AVG(minutes) AS m FROM visits GROUP BY 1", epsilon=50)
        assert abs(rows.rows[0]["n"]["value"] - 1000) < 20
        assert sentence in rows.summary
        users = session.sql("SELECT country, COUNT(DISTINCT who) AS n FROM visits GROUP BY 1", epsilon=2)
        assert sentence not in users.summary
        found = session.sql(both, epsilon=50)
        assert sentence in found.summary
        assert abs(found.rows[0]["n"]["value"] - found.rows[0]["u"]["value"]) < 20
    with setwise.open("visits", catalog=folder / "catalog.toml") as session:
        assert sentence not in session.sql("SELECT country, COUNT(*) AS n FROM visits GROUP BY 1", epsilon=2).summary
        assert sentence not in session.sql(both, epsilon=2).summary
    with setwise.open(folder / "events.csv", user="who", types={"minutes": "integer"}) as session:
        assert sentence not in session.sql(both.replace("visits", "events"), epsilon=20, delta=1e-6).summary


def test_the_command_line_reads_it(folder):
    text = "SELECT country, COUNT(*) AS n FROM visits GROUP BY country ORDER BY n DESC"
    found = json.loads(run("sql", text, "--catalog", folder / "catalog.toml", "--epsilon", 1, "--json").stdout)
    assert {row["country"] for row in found["rows"]} == {"NO", "SE", "DK"}
    assert {each["source"] for each in found["bounds"]} == {"catalog"}


@pytest.mark.parametrize("table", ["public.visits", '"db"."public"."visits"', "Visits"])
def test_the_command_line_finds_a_declared_table_as_business_tools_write_it(folder, table):
    """A schema before the table's name, or a capital, was answered with "say which column tells users apart"."""
    text = f"SELECT country, COUNT(*) AS n FROM {table} GROUP BY country"
    found = json.loads(run("sql", text, "--catalog", folder / "catalog.toml", "--epsilon", 1, "--json").stdout)
    assert {row["country"] for row in found["rows"]} == {"NO", "SE", "DK"}
    assert {each["source"] for each in found["bounds"]} == {"catalog"}


def test_a_report_reads_it(folder, monkeypatch):
    from setwise.reports.report import read_report
    from setwise.reports.run import preview_report

    monkeypatch.chdir(folder)
    (folder / "report.toml").write_text(
        'table = "visits"\ncatalog = "catalog.toml"\nepsilon = 1.0\ndelta = 1e-6\n'
        '[[questions]]\nname = "n"\nsql = "SELECT country, COUNT(*) FROM visits GROUP BY country"\n'
    )
    report = read_report("report.toml")
    assert report.user == "who"
    assert preview_report(report).uses


def test_check_proposes_an_entry_that_can_be_read(folder):
    proposed = run("check", folder / "events.csv", "--catalog", "--user", "who").stdout
    entry = parse_catalog(proposed).tables["events"]
    assert (entry.user, entry.options["types"]["minutes"]) == ("who", Kind.INTEGER)
    assert "# bounds = { minutes = [LOW, HIGH] }" in proposed
    assert "59" not in proposed  # nothing is read off the rows


def test_a_catalog_is_written_as_it_was_read(folder):
    catalog = read_catalog(folder / "catalog.toml")
    assert parse_catalog(catalog.to_toml()) == catalog


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tables.a]\nuser = 'u'", "has no source"),
        ("[tables.a]\nsource = 'x'", "names no user column"),
        ("[tables.a]\nsource = 'x'\nuser = 'u'\nbounds = { x = [5, 1] }", "the lower first"),
        ("[tables.a]\nsource = 'x'\nuser = 'u'\nrows_per_user = 0", "rows_per_user of 'a'"),
        ("[tables.a]\nsource = 'x'\nuser = 'u'\nwidth = 3", "unknown entry 'width'"),
        ("[tables.a]\nsource = 'x'\nuser = 'u'\n[public.a]\nsource = 'y'", "public and private"),
        ("[tables.a]\nsource = 'x'\nuser = 'u'\n[tables.a.domains]\nc = 5", "a list of text or whole numbers"),
        ("tables = 3", "are tables"),
        ("[tables", "is not TOML"),
    ],
)
def test_a_wrong_catalog_is_refused(text, says):
    with pytest.raises(InvalidParameter, match=says):
        parse_catalog(text)


def test_an_unknown_table_is_named(folder):
    with pytest.raises(InvalidParameter, match="has no table 'elsewhere'; it has 'visits'"):
        setwise.open("elsewhere", catalog=folder / "catalog.toml")
