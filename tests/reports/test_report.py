import pytest

from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter
from setwise.reports.report import read_report
from tests.reports.conftest import REPORT


def test_a_report_has_its_questions_in_order(folder):
    report = read_report("weekly.toml")
    assert (report.name, report.title, report.epsilon) == ("weekly", "Weekly <usage>", 1.0)
    assert [each.name for each in report.questions] == ["top_pages", "users", "minutes"]
    assert [each.weight for each in report.questions] == [1.0, 1.0, 2.0]
    assert report.questions[0].query.k == 3
    assert report.questions[0].query.contributions == 2
    assert report.questions[1].to == ("out/users.json",)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("epsilon = 1.0", "", "no epsilon"),
        ("epsilon = 1.0", "epsilon = 0", "epsilon must be above 0, not 0"),
        ("delta = 1e-6", "delta = 2", "2"),
        ("delta = 1e-6", "delta = 1e-6\ncolour = 'red'", "unknown entry 'colour'"),
        ('name = "users"', 'name = "top_pages"', "two questions are called 'top_pages'"),
        ('name = "users"\n', "", "no name"),
        ('kind = "count"', 'kind = "poem"', "'poem'"),
        ('kind = "count"', 'kind = "count"\ncolumn = "page"', "column"),
        ("FROM visits", "FROM people", "'people'"),
        ("SELECT page", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) page", "the budget is the report's"),
        ("FROM visits", "FROM visits JOIN pages USING (page)", "no table is called 'pages'"),
        ("delta = 1e-6", "delta = 1e-6\npublic = 'pages.csv'", "public is a table of names"),
        ("delta = 1e-6", "delta = 1e-6\nprivate = {people = 3}", "private is a table of names"),
        ("delta = 1e-6", "delta = 1e-6\npublic = {a = 'a'}\nprivate = {a = 'a'}", "public and private"),
        ('sql = "SELECT', 'sql = "EXPLAIN SELECT', "EXPLAIN"),
        ("delta = 1e-6", "delta = 1e-6\ntypes = {minutes = 'poem'}", "poem"),
        ("weight = 2", "weight = -1", "the weight of 'minutes'"),
        ("title =", "title", "not TOML"),
    ],
)
def test_what_is_wrong_is_named(folder, old, new, named):
    assert old in REPORT
    (folder / "weekly.toml").write_text(REPORT.replace(old, new, 1))
    with pytest.raises(InvalidParameter, match=named):
        read_report("weekly.toml")


def test_types_and_other_words_about_the_table_reach_it(folder):
    words = "delta = 1e-6\nskip_lines = 1\ntypes = {minutes = 'integer'}"
    (folder / "weekly.toml").write_text(REPORT.replace("delta = 1e-6", words, 1))
    assert read_report("weekly.toml").options == {"skip_lines": 1, "types": {"minutes": Kind.INTEGER}}


def test_a_report_that_is_not_there_is_named():
    with pytest.raises(InvalidParameter, match=r"nowhere\.toml"):
        read_report("nowhere.toml")


def test_a_report_without_questions_is_refused(folder):
    (folder / "weekly.toml").write_text(REPORT.split("[[questions]]")[0] + "questions = []")
    with pytest.raises(InvalidParameter, match="asks nothing"):
        read_report("weekly.toml")
