"""`setwise live`: the contract of its JSON, exit status and errors."""

import csv
import io
import json
import shlex

import pytest

from setwise.ledger.ledger import Ledger


@pytest.fixture
def live(setwise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SETWISE_LEDGER", raising=False)
    lines = [
        f"u{user},{item},2026-01-{1 + (user + place) % 9:02d}" for user in range(300) for place, item in enumerate("xy")
    ]
    (tmp_path / "events.csv").write_text("user,item,at\n" + "\n".join(lines) + "\n")
    return lambda *words: setwise("live", *words)


OPEN = (
    "open", "reach", "events.csv", "--user", "user", "--item", "item", "--at", "at", "--type", "at=date",
    "--every", "day", "--start", "2026-01-01", "--periods", "10", "--contributions", "2", "--epsilon", "3",
    "--delta", "1e-6",
)  # fmt: skip


def test_the_life_of_a_series(live, tmp_path):
    opened = json.loads(live(*OPEN, "--json").stdout)
    assert opened["epsilon"]["upper"] <= 3
    assert [use.partition(":")[0] for use in opened["spent"]] == ["gaussian", "approx"]
    assert opened["shown_from"] > opened["within"] > 0
    assert (opened["account"], opened["opened"]) == ("live:reach", True)
    assert (tmp_path / "reach.live.db").exists()
    done = live("update", "reach", "--until", "2026-01-06", "--json")
    assert json.loads(done.stdout) == {"name": "reach", "released": [f"2026-01-0{place}" for place in range(1, 6)]}
    assert "nothing to release" in live("update", "reach", "--until", "2026-01-06").stdout
    assert "released 5 period(s), 2026-01-06 to 2026-01-10; nothing was charged" in live("update", "reach").stdout
    shown = json.loads(live("show", "reach", "--json").stdout)
    assert {"name", "periods", "series", "epsilon", "delta", "spent"} <= set(shown)
    assert len(shown["periods"]) == 10
    for series in shown["series"]:
        assert set(series) == {"item", "values", "intervals"}
        assert len(series["values"]) == len(series["intervals"]) == 10
        assert abs(series["values"][-1] - 300) < 5 * opened["within"]
    assert shown["spent"] == opened["spent"]
    people = live("show", "reach").stdout
    assert "Each user is protected" in people
    assert "10 period(s) were released, 0 remain" in people
    closed = live("close", "reach")
    assert "closed" in closed.stdout
    assert not (tmp_path / "reach.live.db").exists()
    assert json.loads(live("show", "reach", "--json").stdout) == shown
    again = live("update", "reach")
    assert (again.returncode, again.stderr) == (2, "setwise: the series 'reach' was closed and releases nothing more\n")


def test_items_windows_tops_csv_and_pictures(live, tmp_path):
    live(*OPEN, "--purpose", "windows", "--window", "3")
    live("update", "reach")
    shown = json.loads(live("show", "reach", "--item", "x", "--window", "3", "--json").stdout)
    assert [series["item"] for series in shown["series"]] == ["x"]
    top = json.loads(live("show", "reach", "--top", "1", "--on", "2026-01-09", "--json").stdout)
    assert len(top["series"]) == 1
    rows = list(csv.DictReader(io.StringIO(live("show", "reach", "--csv").stdout)))
    assert len(rows) == 20
    assert set(rows[0]) == {"period", "item", "value", "low", "high", "measure"}
    assert live("show", "reach", "--plot", "reach.svg", "--json").returncode == 0
    assert (tmp_path / "reach.svg").read_text().startswith("<?xml")


def test_intervals_are_said_to_hold_the_number_counted_where_items_of_a_user_are_left_out(live, setwise, tmp_path):
    """An interval that was said to hold the true number left out 167 of 1,675 users."""
    from setwise.live.series import find_live

    left_out = "Of each user at most 1 item counts, the first in order of time; others are left out, so the table's own"
    (tmp_path / "domain.txt").write_text("x\ny\n")
    for name, words, holds in (
        ("one", ["--contributions", "1"], "number counted"),
        ("both", ["--domain", "domain.txt"], "exact number"),
    ):
        options = [word for word in OPEN if word not in ("--contributions", "2") or name == "both"]
        opening = " ".join(live(options[0], name, *options[2:], *words).stdout.replace("│", " ").split())
        assert f"users of the {holds} in every period, 95 times in 100" in opening
        assert ("of each user at most 1 item counts, so the table's own totals can be larger" in opening) is (
            name == "one"
        )
        live("update", name)
        shown = live("show", name).stdout
        assert f"Each interval holds the {holds} 95 times in 100." in shown
        measures = {row["measure"] for row in csv.DictReader(io.StringIO(live("show", name, "--csv").stdout))}
        assert all(f"Each interval holds the {holds} 95 times in 100." in measure for measure in measures)
        with Ledger.open("setwise.db") as ledger:
            view = find_live(ledger, name).view()
            drawn = view.picture().figure.get_supxlabel().replace("\n", " ")
        assert f"Each band holds the {holds} 95 times in 100." in drawn
        assert (left_out in shown) is (left_out in drawn) is (name == "one")


def test_a_preview_of_user_days_speaks_of_user_days(live):
    """It said "of each day of a user" where the rest of the sentence says user-days."""
    done = live(*OPEN, "--unit", "user,day", "--preview")
    accuracy = " ".join(done.stdout.replace("│", " ").split()).partition(" accuracy ")[2].partition(" promise ")[0]
    assert "user-days of the number counted" in accuracy
    assert "of each user-day at most 2 items count" in accuracy


def test_a_preview_is_free(live, tmp_path):
    done = live(*OPEN, "--preview")
    assert "Preview of reach" in done.stdout
    assert "an item is shown from about" in " ".join(done.stdout.split())
    with Ledger.open("setwise.db") as ledger:
        assert ledger.accounts() == ()
    assert live("update", "reach").returncode == 2


def test_an_account_pays(live, setwise):
    setwise("ledger", "open", "ada", "--filter", "--epsilon", "5", "--delta", "1e-5", "--dataset", "events")
    done = json.loads(live(*OPEN, "--account", "ada", "--json").stdout)
    assert done["account"] == "ada"
    status = json.loads(setwise("ledger", "show", "ada", "--json").stdout)
    assert status["charges"] == 1
    refused = live(*(word if word != "reach" else "more" for word in OPEN), "--account", "ada", "--epsilon", "4.9")
    assert refused.returncode == 2, "an option given twice"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("update", "nothing"), 2, "no series is called 'nothing'"),
        (("show", "nothing"), 2, "no series is called 'nothing'"),
        (("show", "reach", "--json", "--csv"), 2, "not both"),
        (("show", "reach", "--item", "z"), 2, "'z'"),
        (("show", "reach", "--window", "0"), 2, "window"),
        (("show", "reach", "--plot", "reach.txt"), 2, ".png or .svg"),
        (("update", "reach", "--until", "2999-01-01"), 2, "future"),
        (("update", "reach", "--until", "soon"), 2, "until is a date"),
        ((*OPEN[:1], "other", *OPEN[2:-4]), 2, "epsilon and delta"),
    ],
)
def test_errors_are_one_sentence(live, words, status, said):
    assert live(*OPEN).returncode == 0
    done = live(*words)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_lost_state_is_said_and_ends_the_series(live, tmp_path):
    live(*OPEN)
    live("update", "reach", "--until", "2026-01-03")
    (tmp_path / "reach.live.db").unlink()
    done = live("update", "reach")
    assert done.returncode == 2
    assert "the series ends here" in done.stderr


@pytest.mark.parametrize(
    ("every", "start", "day", "period"),
    [("week", "2026-01-01", "2026-01-06", "2026-01-01"), ("week", "2026-01-01", "2026-01-14", "2026-01-08"),
     ("month", "2026-01-01", "2026-01-31", "2026-01-01"), ("day", "2026-01-01", "2026-01-04", "2026-01-04")],
)  # fmt: skip
def test_a_day_within_a_period_names_the_period(live, every, start, day, period):
    """Only the first day of a period was taken, and the refusal named another period."""
    words = [*OPEN]
    words[words.index("--every") + 1], words[words.index("--start") + 1] = every, start
    words[words.index("--periods") + 1] = "2" if every != "day" else "8"
    live(*words)
    live("update", "reach", "--until", "2026-03-01")
    shown = live("show", "reach", "--top", "1", "--on", day)
    assert shown.returncode == 0, shown.stderr
    assert f"{every} of {period}" in " ".join(shown.stdout.split())
    for other in ("2026-03-20", "2025-12-31", "soon"):
        refused = live("show", "reach", "--top", "1", "--on", other)
        assert (refused.returncode, f"no released period has the day '{other}'" in refused.stderr) == (2, True)


@pytest.mark.parametrize("unit", ["user", "user,day"])
def test_opening_a_series_says_which_accounts_no_longer_pay_and_what_does(live, setwise, unit):
    """The opening said nothing; then every question was refused with the series' own account as the advice."""
    question = ("count", "events.csv", "--user", "user", "--type", "at=date", "--epsilon", "0.1", "--delta", "1e-7")
    question += ("--unit", "user,at by day") * (unit != "user")
    terms = ("--filter", "--epsilon", "3", "--delta", "1e-6", "--unit", unit)
    assert setwise("ledger", "open", "ann", *terms).returncode == 0
    assert setwise(*question, "--account", "ann").returncode == 0
    for words in (("--preview",), ()):
        opened = live(*OPEN, "--unit", unit, *words)
        assert opened.returncode == 0
        assert "only accounts for events pay for other questions about events, no longer ann" in opened.stderr
    command = opened.stderr.strip().rpartition("; write: setwise ")[2]
    refused = setwise(*question, "--account", "ann", "--key", "b")
    assert refused.returncode == 2
    assert "live:reach" not in refused.stderr
    assert refused.stderr.strip().rpartition("; write: setwise ")[2] == command
    assert setwise(*shlex.split(command)).returncode == 0
    pasted = setwise(*question, "--account", "ann", "--key", "b").stderr.strip().rpartition("; write: ")[2]
    assert pasted == "--account events-account"
    assert setwise(*question, *pasted.split(), "--key", "b").returncode == 0


def test_a_series_that_an_account_pays_for_shuts_out_no_account(live, setwise):
    setwise("ledger", "open", "ann", "--filter", "--epsilon", "9", "--delta", "1e-5")
    assert live(*OPEN, "--account", "ann").stderr == ""
    assert setwise("count", "events.csv", "--user", "user", "--epsilon", "0.1", "--account", "ann").returncode == 0


def test_a_series_cannot_count_the_active_users_of_months_and_says_how_to_ask(setwise, tmp_path):
    """Neither the help nor the refusal of `--unit "who,at by month"` said what is possible."""
    path = tmp_path / "events.csv"
    path.write_text("who,title,at\n" + "".join(f"u{n},t,2026-01-0{1 + n % 9}\n" for n in range(40)))
    opening = (path, "--user", "who", "--item", "title", "--at", "at", "--every", "month", "--start", "2026-01-01")
    budget = ("--periods", "3", "--contributions", "1", "--epsilon", "1", "--delta", "1e-6", "--preview")
    ledger = ("--ledger", tmp_path / "l.db", "--unit", "who,at by month")
    refused = setwise("live", "open", "reach", *opening, *budget, *ledger)
    assert refused.returncode == 2
    statement = "SELECT DATE_TRUNC('month', at) AS month, COUNT(DISTINCT who) AS users FROM table GROUP BY month"
    assert statement in refused.stderr
    asked = statement.replace("FROM table", "FROM events")
    done = setwise("sql", asked, "--table", f"events={path}", "--user", "who", "--epsilon", "5")
    assert done.returncode == 0, done.stderr
    described = " ".join(setwise("live", "--help").stdout.split())
    assert "users so far" in described
    assert "setwise sql" in described
