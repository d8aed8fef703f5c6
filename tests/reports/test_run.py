import json
import re
import sys

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import setwise
from setwise import Ledger
from setwise.analytics import opening
from setwise.analytics.engines.connect import open_engine
from setwise.cli.main import main
from setwise.errors import InvalidParameter, StoreFailed
from setwise.reports import outputs, run
from setwise.reports.report import read_report
from setwise.reports.run import preview_report, run_report
from tests.analytics.recorded import RecordedEngine
from tests.reports.conftest import REPORT

ACCOUNT = "weekly:2026-W46"


def started(key="2026-W46"):
    return run_report(read_report("weekly.toml"), key=key, ledger="setwise.db")


def charges(account=ACCOUNT):
    with Ledger.open("setwise.db") as ledger:
        assert not ledger.verify().faults
        return ledger.account(account).status().charges


def test_answers_are_written_where_the_report_says(folder):
    ran = started()
    top = (folder / "out/top_pages.csv").read_text().splitlines()
    assert top[0].startswith("page,users,users_lower,users_upper")
    assert top[1].startswith("p1,")
    assert (
        json.loads((folder / "out/users.json").read_text())["items"][0]["count"] == ran.answers["users"].items[0].count
    )
    assert pq.read_table(folder / "out/minutes.parquet").num_rows == 1
    with duckdb.connect(folder / "out/warehouse.duckdb") as warehouse:
        rows = warehouse.execute("SELECT run, page, users FROM top_pages ORDER BY users DESC").fetchall()
    assert rows[0][:2] == ("2026-W46", "p1")
    whole = json.loads((folder / "out/weekly.json").read_text())
    assert whole["epsilon"]["upper"] <= 1.0
    assert list(whole["answers"]) == ["top_pages", "users", "minutes"]


def test_a_question_joins_public_tables_beside_others_that_do_not(folder):
    """A name of both tables is told apart, which is known only once they are open."""
    (folder / "pages.csv").write_text(
        "page,minutes,section\n" + "".join(f"p{n},{n},{'ab'[n % 2]}\n" for n in range(10))
    )
    joined = (
        "SELECT p.section, AVG(visits.minutes, contribution_bounds_per_group => (0, 60)) AS mean FROM visits "
        "JOIN pages AS p USING (page) WHERE p.minutes < 4 GROUP BY p.section"
    )
    question = f'[[questions]]\nname = "sections"\nsql = "{joined}"\ncontributions = 2\nto = "out/sections.json"\n'
    words = 'delta = 1e-6\npublic = {pages = "pages.csv"}\ntypes = {"pages.minutes" = "integer"}'
    (folder / "weekly.toml").write_text(REPORT.replace("delta = 1e-6", words, 1) + question)
    assert preview_report(read_report("weekly.toml")).promise.upper <= 1.0
    ran = started()
    assert {row["section"] for row in ran.answers["sections"]} == {"a", "b"}
    assert all(20 < row["mean"]["value"] < 40 for row in ran.answers["sections"])
    assert started().to_dict() == ran.to_dict()


PEOPLE = """
[[questions]]
name = "ages"
sql = "SELECT age, COUNT(DISTINCT user_id) AS n, AVG(minutes, contribution_bounds_per_group => (0, 60)) AS mean \
FROM visits JOIN people USING (user_id) GROUP BY age"
contributions = 1
"""


def with_people(folder, *, without=-1, words="", questions=PEOPLE):
    """Write the report with a question about visits and people, of which one may be missing from both."""
    people = pa.table({"user_id": range(3000), "age": [f"{20 + 10 * (n % 4)}s" for n in range(3000)]})
    pq.write_table(people.filter(pc.field("user_id") != without), folder / "people.parquet")
    visits = pq.read_table(folder / "visits.parquet")
    (folder / "visits.parquet").unlink()
    pq.write_table(visits.filter(pc.field("user_id") != without), folder / "visits.parquet")
    asked = REPORT.replace("delta = 1e-6", f'delta = 1e-6\nprivate = {{people = "people.parquet"}}\n{words}', 1)
    (folder / "weekly.toml").write_text(asked + questions)


def test_a_question_joins_private_tables_on_the_user_column(folder):
    with_people(folder)
    assert preview_report(read_report("weekly.toml")).promise.upper <= 1.0
    ran = started()
    assert {row["age"] for row in ran.answers["ages"]} == {"20s", "30s", "40s", "50s"}
    assert all(row["n"]["value"] == pytest.approx(750, abs=100) for row in ran.answers["ages"])
    assert started().to_dict() == ran.to_dict()
    assert charges() == 4


def test_one_user_of_both_tables_changes_a_report_no_more_than_a_select(folder, monkeypatch):
    """What the engine gives to mechanisms is what it gives to the same SELECT, and one user is in one group of it."""
    recorded = []

    def opened(*given, **words):
        recorded.append(RecordedEngine(open_engine(*given, **words)))
        return recorded[-1]

    monkeypatch.setattr(opening, "open_engine", opened)
    found = []
    for number, without in enumerate((-1, 7)):
        with_people(folder, without=without)
        started(f"run {number}")
        found.append(counted(recorded[-1]))
    with setwise.open("visits.parquet", user="user_id", private={"people": "people.parquet"}) as session:
        question = next(each for each in read_report("weekly.toml").questions if each.name == "ages")
        session.sql(question.select.text, contributions=1, epsilon=1, delta=1e-6)
    assert counted(recorded[-1]) == found[1]
    for with_user, less in zip(*found, strict=True):
        changed = {label for label in {*with_user, *less} if with_user.get(label) != less.get(label)}
        assert changed <= {"50s"}
    assert found[0][0]["50s"] - found[1][0]["50s"] == 1


def counted(engine):
    """Return the users of every group, and the sums and numbers of its means, as they were read."""
    (read,) = engine.read
    users = dict(zip(read.users.labels, read.users.counts.tolist(), strict=True))
    return [users, *map(dict, read.totals), *map(dict, read.numbers)]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"questions": PEOPLE.replace("JOIN people USING (user_id)", "JOIN people ON visits.page = people.age")},
            "two users",
        ),
        ({"words": 'dataset = "visits"'}, "the dataset 'visits', and this table is known as 'people'"),
        ({"questions": PEOPLE + "domain = 'people.parquet:age'"}, "private table"),
    ],
)
def test_a_private_join_that_nobody_may_pay_for_is_refused_before_an_account_is_opened(folder, changes, says):
    with_people(folder, **changes)
    with pytest.raises(InvalidParameter, match=says):
        started()
    with Ledger.open("setwise.db") as ledger:
        assert ledger.accounts() == ()


@pytest.mark.parametrize("capped", ["visits", "people"])
def test_a_report_does_not_pass_by_the_cap_of_a_dataset(folder, capped):
    if capped == "people":
        with_people(folder)
    with Ledger.open("setwise.db") as ledger:
        ledger.set_cap(capped, epsilon=0.5, delta=1e-6)
    with pytest.raises(InvalidParameter, match=f"the ledger keeps accounts or a cap for the dataset '{capped}'"):
        started()
    with Ledger.open("setwise.db") as ledger:
        assert ledger.accounts() == ()


def test_the_page_stands_alone_and_says_what_is_promised(folder):
    started()
    page = (folder / "out/weekly.html").read_text()
    assert "Weekly &lt;usage&gt;" in page
    assert "data:image/svg+xml" in page
    assert "differentially private" in page
    for foreign in ("<script", "http://", "https://", "<link"):
        assert foreign not in page


def test_the_page_has_one_style_of_table_headings_as_written_and_a_picture_for_each_question(folder):
    """The columns of SQL used to be called by their statistics, single numbers had no picture, tables two styles."""
    started()
    page = (folder / "out/weekly.html").read_text()
    assert re.findall("<h2>(.*?)</h2>", page) == ["top_pages", "How many people came", "minutes"]
    assert page.count("<table class='numbers'>") == page.count("<table") == 3
    assert page.count("<img ") == 3
    assert re.findall("<th(?: [^>]*)?>(.*?)</th>", page.split("</section>")[0]) == ["page", "users", "95% interval"]
    assert "style=" not in page.partition("<body>")[2]


def test_a_run_that_is_tried_again_replays_and_costs_nothing(folder):
    first = started()
    again = started()
    assert charges() == 3
    for name, answer in first.answers.items():
        assert outputs.rows_of(again.answers[name]).equals(outputs.rows_of(answer))
    with duckdb.connect(folder / "out/warehouse.duckdb") as warehouse:
        assert warehouse.execute("SELECT count(*) FROM top_pages").fetchone() == (3,)


def test_another_key_is_another_run_beside_the_first(folder):
    started()
    started("2026-W47")
    assert charges() == charges("weekly:2026-W47") == 3
    with duckdb.connect(folder / "out/warehouse.duckdb") as warehouse:
        runs = warehouse.execute("SELECT DISTINCT run FROM top_pages ORDER BY run").fetchall()
    assert runs == [("2026-W46",), ("2026-W47",)]


def test_an_interrupted_run_goes_on_under_its_key(folder, monkeypatch):
    written = []

    def failing(answer, to, key):
        if to == "out/users.json":
            raise StoreFailed("the disk is full")
        written.append(to)

    monkeypatch.setattr(run, "write_answer", failing)
    with pytest.raises(StoreFailed):
        started()
    assert charges() == 2
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    started()
    assert charges() == 3
    assert (folder / "out/users.json").exists()


def test_a_changed_report_needs_another_key(folder):
    started()
    (folder / "weekly.toml").write_text(REPORT.replace("weight = 2", "weight = 3"))
    with pytest.raises(InvalidParameter, match="another key"):
        started()
    assert charges() == 3


def test_a_question_changed_under_the_same_price_needs_another_key(folder):
    """The uses are the same, so it is the question's own key that tells."""
    started()
    (folder / "weekly.toml").write_text(REPORT.replace('kind = "count"', 'kind = "count"\nwhere = "minutes > 3"'))
    with pytest.raises(InvalidParameter.__mro__[1], match="users"):
        started()
    assert charges() == 3


def test_a_preview_reads_nothing_and_opens_no_ledger(folder):
    found = preview_report(read_report("weekly.toml"))
    assert found.promise.upper <= 1.0
    assert not (folder / "setwise.db").exists()


def test_all_destinations_are_checked_before_anything_is_charged(folder):
    (folder / "weekly.toml").write_text(REPORT.replace("out/minutes.parquet", "out/minutes.xlsx"))
    with pytest.raises(InvalidParameter, match=r"minutes\.xlsx"):
        started()
    assert not (folder / "setwise.db").exists()


def test_a_preview_refuses_the_destination_that_a_run_refuses(folder, monkeypatch, capsys):
    """The preview of a question with to = "out/users.png" listed its price, and the run then refused the report."""
    (folder / "weekly.toml").write_text(REPORT.replace("out/users.json", "out/users.png"))
    with pytest.raises(InvalidParameter, match=r"users.*users\.png"):
        preview_report(read_report("weekly.toml"))
    assert run_command(monkeypatch, "weekly.toml", "--preview") == 2
    assert "users.png" in capsys.readouterr().err


def test_a_preview_states_the_planned_error_of_every_question(folder, monkeypatch, capsys):
    """It promised to say how far off each answer may be, and printed budgets alone for means and for bounds to find."""
    assert run_command(monkeypatch, "weekly.toml", "--preview") == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    pages, users, minutes = text.index("top_pages "), text.index(" users "), text.index(" minutes ")
    assert "counts within about" in text[pages:users].lower()
    assert "with probability 95%" in text[users:minutes]
    assert re.search(r"mean of minutes.* within ±[\d.]+.*\(with probability 95%", text[minutes:]), text[minutes:]


@pytest.mark.parametrize("to", ["postgresql://me:secret@db/x", "out/w.duckdb", "x.csv::t", "answers"])
def test_a_destination_that_cannot_be_written_is_refused_without_its_password(to):
    with pytest.raises(InvalidParameter) as refused:
        outputs.check_destination(to)
    assert "secret" not in str(refused.value)


def test_a_file_is_whole_or_not_there(folder):
    (folder / "out").write_text("a file where the folder should be")
    with pytest.raises(StoreFailed, match="out"):
        outputs.write_whole(folder / "out" / "x.csv", b"1")


def test_the_command_tells_what_it_did(folder, monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["setwise", "run", "weekly.toml", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        return ended.value.code, told.out, told.err

    code, _, err = call()
    assert code == 2
    assert "--key" in err
    code, out, _ = call("--preview")
    assert code == 0
    assert "nothing was charged" in out
    code, out, err = call("--key", "k1")
    assert code == 0
    assert "3 rows, written to" in out
    assert "asking users (2 of 3)" in err
    code, out, _ = call("--key", "k1", "--json")
    assert json.loads(out)["key"] == "k1"


def test_a_run_on_another_dataset_needs_another_key(folder):
    """Its draws would be missing from the account, and from the cap, of the dataset it reads now."""
    (folder / "weekly.toml").write_text(f'dataset = "visits"\n{REPORT}')
    started()
    (folder / "weekly.toml").write_text(f'dataset = "clicks"\n{REPORT}')
    with pytest.raises(InvalidParameter, match="another key"):
        started()
    assert charges() == 3


CITIES = ["Oslo", "Bergen", "Zürich"] * 200


def write_cities(folder, entries=""):
    """Write a report on a private and a public file in the encoding cp1252; `entries` are further lines at its top."""
    rows = "".join(f"{user},{city}\n" for user, city in enumerate(CITIES))
    (folder / "cities.csv").write_text(f"user,city\n{rows}", encoding="cp1252")
    (folder / "regions.csv").write_text("city,region\nOslo,NO\nBergen,NO\nZürich,CH\n", encoding="cp1252")
    joined = "SELECT region, COUNT(DISTINCT user) AS n FROM cities JOIN regions USING (city) GROUP BY region"
    (folder / "cities.toml").write_text(
        f'table = "cities.csv"\nuser = "user"\nepsilon = 5.0\ndelta = 1e-6\n{entries}\n'
        '[public]\nregions = "regions.csv"\n'
        '[[questions]]\nname = "cities"\nkind = "histogram"\nitem = "city"\ncontributions = 1\n'
        f'[[questions]]\nname = "regions"\nsql = "{joined}"\ncontributions = 1\n'
    )


def run_command(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["setwise", "run", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_a_report_tells_the_holder_on_standard_error_which_cells_are_not_read(folder, monkeypatch, capsys):
    """A report of cities in Latin-1 listed two of five cities, and nothing was said."""
    write_cities(folder)
    assert run_command(monkeypatch, "cities.toml", "--key", "1") == 0
    told = capsys.readouterr()
    assert "note: cities.csv: 200 of 600 cells of 'city' are not UTF-8 and will be skipped" in told.err
    assert "entries at its top" in told.err
    assert "note: regions.csv: 1 of 3 cells of 'city' are not UTF-8" in told.err
    assert "not UTF-8" not in told.out
    assert run_command(monkeypatch, "cities.toml", "--key", "2", "--no-scan") == 0
    assert "note:" not in capsys.readouterr().err
    write_cities(folder, 'encoding = "cp1252"')
    assert run_command(monkeypatch, "cities.toml", "--preview") == 0
    assert "cities.csv: 200 of" not in capsys.readouterr().err


def test_a_report_on_a_catalog_tells_which_cells_are_not_read(folder, monkeypatch, capsys):
    write_cities(folder)
    (folder / "catalog.toml").write_text(
        '[tables.towns]\nsource = "cities.csv"\nuser = "user"\n[public.regions]\nsource = "regions.csv"\n'
    )
    (folder / "towns.toml").write_text(
        'table = "towns"\ncatalog = "catalog.toml"\nepsilon = 5.0\ndelta = 1e-6\n'
        '[[questions]]\nname = "cities"\nkind = "histogram"\nitem = "city"\ncontributions = 1\n'
    )
    assert run_command(monkeypatch, "towns.toml", "--key", "1") == 0
    assert "cities.csv: 200 of 600 cells of 'city' are not UTF-8" in capsys.readouterr().err


def test_rows_that_are_not_printed_are_had_for_free_with_json(folder, monkeypatch, capsys):
    """Below ten of twelve rows stood "and 2 more", with no way to see them."""
    statement = "SELECT minutes, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY minutes"
    question = f'[[questions]]\nname = "by_minute"\nsql = "{statement}"\ncontributions = 4\n'
    (folder / "weekly.toml").write_text(REPORT.partition("[[questions]]")[0] + question)
    run_command(monkeypatch, "weekly.toml", "--key", "monday", "--no-scan")
    printed = capsys.readouterr().out
    assert "and 50 more: the same command with --json prints all, at no cost" in printed
    run_command(monkeypatch, "weekly.toml", "--key", "monday", "--no-scan", "--json")
    assert len(json.loads(capsys.readouterr().out)["answers"]["by_minute"]["rows"]) == 60


SCANNED = """
table = "bank.csv"
user = "who"
epsilon = 1.0
delta = 1e-6
[public]
shops = "shops.csv"
[[questions]]
name = "north"
sql = "SELECT UPPER(region) AS region, COUNT(*) AS n FROM bank JOIN shops USING (shop) GROUP BY 1"
[[questions]]
name = "towns"
sql = "SELECT COUNT(*) AS n FROM bank WHERE town = 'paris'"
[[questions]]
name = "shops"
kind = "count"
where = "town IN ('Lyon', 'Rome')"
"""
DIFFERENCE = """
[[questions]]
name = "sum"
sql = "SELECT SUM(Debit - Credit) AS n FROM bank"
"""


@pytest.mark.parametrize("meets", [True, False])
@pytest.mark.parametrize("shops", ["bank", "shops"])
def test_a_report_is_scanned_for_keys_constants_and_empty_sums_as_sql_is(meets, shops, tmp_path, monkeypatch, capsys):
    """Joins and constants of a report were not looked at: it was charged for a join without rows."""
    monkeypatch.chdir(tmp_path)
    rows = (f"u{n},{'ab'[n % 2]},Paris,{'30,' if n % 2 else ',10'}" for n in range(300))
    (tmp_path / "bank.csv").write_text("who,shop,town,Debit,Credit\n" + "\n".join(rows) + "\n")
    keys = "ab" if meets else "xy"
    (tmp_path / "shops.csv").write_text("shop,region\n" + "".join(f"{key},R{key}\n" for key in keys))
    question = "" if shops == "shops" else DIFFERENCE
    (tmp_path / "r.toml").write_text(SCANNED + question)
    code = run_command(monkeypatch, "r.toml", "--key", "1")
    told = " ".join(capsys.readouterr().err.split())
    assert "no cell of 'town' is 'paris', but 300 are 'Paris'" in told
    assert "no cell of 'town' is 'Lyon'" in told
    assert ("none of the 2 values of 'shop' is in the table 'shops'" in told) != meets
    assert ("in 300 of 300 rows one of Debit and Credit is empty" in told) == bool(question)
    assert (code == 0) == (meets and not question), told
    assert (tmp_path / "setwise.db").exists() == (code == 0)
