"""`setwise top-k`, `histogram`, `count` and `sum`: the contract of their JSON, exit status, errors, and Ctrl-C."""

import _thread
import json
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from tests.command_line import process

from setwise import compose
from setwise.cli import ask as cli_ask
from setwise.cli.ask import interruptible

TOTAL = ("--epsilon", "4", "--delta", "1e-6")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables that are fine, and files that are not."""
    place = tmp_path_factory.mktemp("tables")
    users = list(range(900))
    table = pa.table(
        {
            "who": users * 3,
            "page": ["home"] * 900 + ["help" if n % 3 else f"page {n}" for n in users] + ["shop"] * 900,
            "minutes": [n % 7 for n in users] * 3,
            "share": [float("nan") if n % 2 else 0.5 for n in users] * 3,
        }
    )
    parquet.write_table(table, place / "visits.parquet")
    csv.write_csv(table, place / "visits.csv")
    parquet.write_table(table.slice(0, 0), place / "empty.parquet")
    nobody = table.set_column(0, "who", pa.array([None] * len(table), pa.int64()))
    parquet.write_table(nobody, place / "nobody.parquet")
    (place / "broken.parquet").write_bytes(b"PAR1" + b"\0" * 50)
    (place / "pages.txt").write_text("home\nhelp\nshop\n")
    return place


def test_json_is_the_contract(folder):
    done = process("top-k", folder / "visits.parquet", "--user", "who", "--item", "page", "-k", 2, *TOTAL, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert list(found) == [
        "items",
        "measure",
        "mechanism",
        "interaction",
        "epsilon",
        "delta",
        "spent",
        "complete",
        "interval_note",
        "left_out",
        "hint",
    ]
    assert {each["item"] for each in found["items"]} == {"home", "shop"}
    for each in found["items"]:
        assert set(each) == {"item", "count", "interval", "noisy"}
        assert each["interval"][0] <= each["count"] <= each["interval"][1]
    assert found["complete"] is True
    assert found["interaction"] == "setwise"
    assert found["delta"] == 1e-6
    assert found["epsilon"]["lower"] <= found["epsilon"]["upper"] <= 4.0
    assert compose(found["spent"]).epsilon(1e-6).upper == pytest.approx(found["epsilon"]["upper"], rel=1e-9)


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        (("histogram", "--item", "page", "--contributions", 3), {"home", "help", "shop"}),
        (("histogram", "--item", "page", "--domain", "pages.txt"), {"home", "help", "shop"}),
        (("top-k", "--item", "page", "-k", 1, "--where", "page = 'help'"), {"help"}),
        (("top-k", "--item", "page", "-k", 1, "--counts", "none", "--where", "page = 'help'"), {"help"}),
        (("top-k", "--item", "minutes", "-k", 7, "--domain", "minutes.txt"), set(range(7))),
        (("count",), {"users"}),
        (("count", "--per-user", 5), {"events"}),
        (("sum", "--value", "minutes", "--clip", 20), {"minutes"}),
        (("mean", "--value", "minutes", "--low", 0, "--high", 7), {"all"}),
        (("quantile", "--value", "share", "--low", -1, "--high", 1.5, "--at", 0.9), {"all"}),
        (("quantile", "--value", "share", "--low", -1, "--high", 1.5, "--at", 0.9, "--at", 0.5), {"all"}),
    ],
)
def test_every_question_is_answered(setwise, folder, words, labels):
    (folder / "minutes.txt").write_text("\n".join(str(n) for n in range(7)))
    words = [str(folder / word) if str(word).endswith(".txt") else word for word in words]
    done = setwise(words[0], folder / "visits.parquet", "--user", "who", *words[1:], *TOTAL, "--json")
    assert done.returncode == 0, done.stderr
    assert {each["item"] for each in json.loads(done.stdout)["items"]} == labels


def test_people_get_bars_words_and_reasons(setwise, folder):
    words = ("top-k", folder / "visits.parquet", "--user", "who", "--item", "page", "-k", 2, *TOTAL)
    brief = setwise(*words).stdout.splitlines()
    labels = [line.partition(" ")[0] for line in brief if re.match(r"[a-z]+  ", line)]
    assert labels == ["numbers", "promise", "cost"], "the first screen is the table and three lines"
    done = setwise(*words, "--details")
    assert done.returncode == 0, done.stderr
    for part in ("█", "95% interval", "k = 2 reached", "differentially private", "spent", "mechanism", "within ±"):
        assert part in done.stdout
    told = " ".join(done.stdout.split())
    assert told.index("Whether or not one person is in the table changes the chance") < told.index("formally")
    assert re.search(r"spent [\w ,]+ at [εδσ] [\d.e-]{1,8}\b", told)


def test_a_hint_on_rows_of_a_user_names_what_to_paste(setwise, tmp_path):
    """It said "if at most 16 rows of a user count" and named no option and no clause of SQL."""
    rows = [f"u{user},{page}" for user in range(400) for page in "ab" for _ in range(40)]
    (tmp_path / "visits.csv").write_text("who,page\n" + "\n".join(rows) + "\n")
    options = ("--user", "who", "--epsilon", 0.05, "--delta", "1e-6", "--contributions", 2)
    table = f"visits={tmp_path / 'visits.csv'}"

    def select(counted):
        statement = f"SELECT page, {counted} AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2"
        return ("sql", statement, "--table", table)

    shown = " ".join(setwise(*select("COUNT(*, contribution_bounds_per_group => (0, 200))"), *options).stdout.split())
    assert "--per-item" not in shown
    clause = re.search(r"with (COUNT\(\*, contribution_bounds_per_group => \(0, \d+\)\)) \(at most", shown)[1]
    assert setwise(*select(clause), *options).returncode == 0
    top = ("top-k", tmp_path / "visits.csv", "--item", "page", "-k", 2, *options)
    shown = " ".join(setwise(*top, "--per-item", 200).stdout.split())
    assert "in SQL" not in shown
    option = re.search(r"with (--per-item \d+) \(at most", shown)[1]
    assert setwise(*top, *option.split()).returncode == 0


def test_a_short_answer_says_what_would_have_shown_more(setwise, folder):
    words = ("top-k", folder / "visits.parquet", "--user", "who", "--item", "page", "-k", 3, "--delta", 1e-6, "--json")
    short = json.loads(setwise(*words, "--epsilon", 0.001).stdout)
    assert short["complete"] is False
    assert "with epsilon = 1;" in short["hint"]
    needed, *_, enough = (int(number.replace(",", "")) for number in re.findall(r"at least ([\d,]*\d)", short["hint"]))
    assert enough < needed / 100
    shown = " ".join(setwise(*words[:-1], "--epsilon", 0.001).stdout.split())
    assert "with --epsilon 1" in shown
    assert "epsilon = 1" not in shown
    assert json.loads(setwise(*words, "--epsilon", 4).stdout)["hint"] == ""


def test_a_list_is_complete_only_when_nothing_can_be_missing(setwise, folder):
    asked = ("histogram", folder / "visits.parquet", "--user", "who", "--item", "page", *TOTAL, "--json")
    assert json.loads(setwise(*asked, "--contributions", 3).stdout)["complete"] is False
    assert json.loads(setwise(*asked, "--domain", folder / "pages.txt").stdout)["complete"] is True


def test_contributions_are_a_number_or_auto(setwise, folder):
    words = ("histogram", folder / "visits.parquet", "--user", "who", "--item", "page", *TOTAL, "--json")
    # Every user has three pages, and bounds are looked for among the powers of two.
    assert json.loads(setwise(*words, "--contributions", "auto").stdout)["found"]["contributions"] == 4
    done = setwise(*words, "--contributions", "few")
    assert done.returncode == 2
    assert done.stderr.startswith("setwise: --contributions must be a whole number or auto, not 'few'; see")


def test_sql_is_drawn_too(setwise, folder, tmp_path):
    question = "SELECT page, COUNT(DISTINCT who) AS users FROM visits GROUP BY page"
    words = ("sql", question, "--table", f"visits={folder / 'visits.parquet'}", "--user", "who", "--epsilon", 4)
    done = setwise(*words, "--contributions", 3, "--plot", tmp_path / "out.svg")
    assert done.returncode == 0, done.stderr
    assert "<svg" in (tmp_path / "out.svg").read_text()
    assert setwise(*words, "--plot", tmp_path / "out.doc").returncode == 2


def test_documents_are_shown_by_a_command(setwise):
    done = setwise("docs", "optimal-composition")
    assert done.stdout.startswith("# ")
    assert "optimal-composition" in setwise("docs").stdout
    assert setwise("docs", "nothing").returncode == 2
    assert "<!--" not in setwise("docs", "analytics").stdout  # what pages say to their tests
    assert "`lem:AGM`" in setwise("docs", "statements").stdout  # the table that the site sets in the page


def test_csv_plot_and_preview(setwise, folder, tmp_path):
    words = ("top-k", folder / "visits.csv", "--user", "who", "--item", "page", "-k", 2, *TOTAL)
    done = setwise(*words, "--csv", "--plot", tmp_path / "out.svg")
    assert done.stdout.splitlines()[0] == "item,count,lower,upper,noisy,measure"
    assert len(done.stdout.splitlines()) == 3
    assert "<svg" in (tmp_path / "out.svg").read_text()
    shown = json.loads(setwise(*words, "--preview", "--json").stdout)
    assert shown["epsilon"]["upper"] <= 4.0
    assert shown["why"].startswith(shown["mechanism"])
    assert shown["radius"] > 0
    assert "nothing was charged" in setwise(*words, "--preview").stdout


def test_a_preview_plans_once(setwise, folder, tmp_path, monkeypatch):
    from setwise.analytics import session

    plans = []
    plan_query = session.plan_query
    monkeypatch.setattr(session, "plan_query", lambda *given: plans.append(given) or plan_query(*given))
    ledger = ("--ledger", tmp_path / "ledger.db")
    assert setwise("ledger", "open", "ada", "--register", "pure:0.3x10", "--delta", 1e-6, *ledger).returncode == 0
    words = ("count", folder / "visits.parquet", "--user", "who", "--account", "ada", *ledger, "--counts", "pure:0.3")
    shown = setwise(*words, "--preview", "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["shortage"] is None
    assert len(plans) == 1


def test_columns_of_csv_files_have_the_kind_they_are_given(setwise, folder):
    words = ("sum", folder / "visits.csv", "--user", "who", "--value", "minutes", "--clip", 20, *TOTAL)
    by_use = setwise(*words)
    assert by_use.returncode == 0, by_use.stderr
    assert "the question reads minutes as float" in by_use.stderr
    assert setwise(*words, "--type", "minutes=text").returncode == 2
    done = setwise(*words, "--type", "minutes=integer", "--json")
    assert done.returncode == 0, done.stderr
    assert setwise(*words, "--type", "minutes=number").returncode == 2


@pytest.mark.parametrize("table", ["empty.parquet", "nobody.parquet"])
def test_an_empty_crowd_is_answered(setwise, folder, table):
    done = setwise("top-k", folder / table, "--user", "who", "--item", "page", "-k", 2, *TOTAL)
    assert done.returncode == 0, done.stderr
    assert "no item passed the threshold" in done.stdout
    assert setwise("count", folder / table, "--user", "who", *TOTAL).returncode == 0


PAGE = ("--user", "who", "--item", "page", "-k", "2")
WHO = ("--user", "who")
TEXT = ("--type", "minutes=text")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            ("count", "visits.parquet", "--user", "who", "--per-user", "0", "--epsilon", "1"),
            "--per-user must lie between",
        ),
        (("top-k", "absent.parquet", *PAGE, *TOTAL), "absent.parquet"),
        (("top-k", "broken.parquet", *PAGE, *TOTAL), "damaged"),
        (("top-k", "visits.parquet", "--user", "whom", "--item", "page", "-k", "2", *TOTAL), "'whom'"),
        (("top-k", "visits.parquet", "--user", "who", "--item", "pages", "-k", "2", *TOTAL), "'pages'"),
        (("sum", "visits.parquet", "--user", "who", "--value", "page", "--clip", "3", *TOTAL), "'page'"),
        (("top-k", "visits.parquet", *PAGE[:-1], "9", "--domain", "pages.txt", *TOTAL), "at most 3"),
        (("top-k", "visits.parquet", *PAGE, "--epsilon", "1", "--delta", "0"), "delta"),
        (("top-k", "visits.parquet", *PAGE, "--where", "1 = 1) OR (page = 'home'", *TOTAL), "filter|comparison"),
        (("top-k", "visits.parquet", *PAGE, "--where", "page = (SELECT max(page) FROM t)", *TOTAL), "SELECT|\\("),
        (("top-k", "visits.parquet", *PAGE, "--epsilon", "-1", "--delta", "1e-6"), "epsilon"),
        (("top-k", "visits.parquet", *PAGE, "--epsilon", "nan", "--delta", "1e-6"), "nan"),
        (("top-k", "visits.parquet", *PAGE), "--epsilon"),
        (("top-k", "visits.parquet", *PAGE, *TOTAL, "--epsilon", "9"), "--epsilon is given twice"),
        (("top-k", "visits.parquet", *PAGE, *TOTAL, "-k", "9"), "-k is given twice"),
        (("ledger", "show", "ada", "--ledger", "one.db", "--ledger", "two.db"), "--ledger is given twice"),
        (("top-k", "visits.parquet", *PAGE, "--epsilon", "1", "--delta", "0"), "give a delta"),
        (("top-k", "visits.parquet", *PAGE, *TOTAL, "--counts", "some"), "some"),
        (("top-k", "visits.parquet", *PAGE, *TOTAL, "--mechanism", "known_gumbel"), "known_gumbel"),
        (("top-k", "visits.parquet", *PAGE, *TOTAL, "--json", "--csv"), "--csv"),
        (("top-k", "visits.parquet", *PAGE, *TOTAL, "--csv", "a b.csv"), "--csv takes no file.* --csv > 'a b.csv'"),
        (("top-k", "visits.parquet", *PAGE, *TOTAL, "--json", "out.json"), "write --json > out.json"),
        (("top-k", "visits.parquet", *PAGE, *TOTAL, "--plot", "x.pdf"), "x.pdf"),
        (("top-k", "visits.parquet", *PAGE, *TOTAL, "--engine", "oracle"), "oracle"),
        (("top-k", "visits.parquet", *PAGE, "--account", "ada", "--ledger", "absent.db"), "absent.db"),
        (("top-k", "visits.parquet", *PAGE, *TOTAL, "--key", "a"), "--account"),
        (("top-k", "visits.parquet", *PAGE, "--where", "lower(page) = 'x'", *TOTAL), "'lower'.*functions.*BETWEEN"),
        (("top-k", "visits.parquet", *PAGE, "--where", "page = lower('x')", *TOTAL), "'lower'.*functions.*BETWEEN"),
        (("top-k", "visits.parquet", *PAGE, "--where", "minutes + 1 = 2", *TOTAL), "'\\+': a filter compares columns"),
        (("top-k", "visits.csv", *PAGE, "--where", "minutes > 2", *TEXT, *TOTAL), "--type minutes=integer"),
        (("sum", "visits.csv", *WHO, "--value", "minutes", "--clip", "3", *TEXT, *TOTAL), "--type minutes=integer"),
        (
            ("histogram", "visits.parquet", *WHO, "--item", "page", "--contributions", "0", *TOTAL),
            "contributions",
        ),
        (("count", "visits.parquet", "--user", "who", "--per-user", "0", *TOTAL), "--per-user"),
    ],
)
def test_errors_are_one_sentence_with_status_2(setwise, folder, monkeypatch, words, named):
    monkeypatch.chdir(folder)
    done = setwise(*words)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("setwise: ")
    assert done.stderr.count("\n") == 1
    assert re.search(named, done.stderr), done.stderr
    assert not (folder / "absent.db").exists()


def test_a_process_ends_with_the_same_sentence(folder):
    done = process("top-k", folder / "broken.parquet", *PAGE, *TOTAL)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_an_account_pays_and_a_key_replays(setwise, folder, tmp_path, monkeypatch):
    ledger = tmp_path / "ledger.db"
    opened = setwise(
        "ledger", "open", "ada", "--delta", "1e-5", "--ledger", ledger,
        *(word for use in ("bounded-range:0.5x4", "pure:0.5x4", "approx:0,1e-6x2") for word in ("--register", use)),
    )  # fmt: skip
    assert opened.returncode == 0, opened.stderr
    words = (
        "top-k", folder / "visits.parquet", *PAGE,
        "--account", "ada", "--discover", "bounded-range:0.5", "--counts", "pure:0.5", "--json",
    )  # fmt: skip
    monkeypatch.setenv("SETWISE_LEDGER", str(ledger))
    first = setwise(*words, "--key", "one")
    monkeypatch.delenv("SETWISE_LEDGER")
    assert first.returncode == 0, first.stderr
    assert set(json.loads(first.stdout)["spent"]) == {"bounded-range:0.5x2", "pure:0.5x2", "approx:0.0,1e-06"}
    assert setwise(*words, "--key", "one", "--ledger", ledger).stdout == first.stdout
    standing = json.loads(setwise("ledger", "show", "ada", "--json", "--ledger", ledger).stdout)
    assert standing["charges"] == 1
    assert setwise(*words, "--key", "two", "--ledger", ledger).returncode == 0
    done = setwise(*words, "--key", "three", "--ledger", ledger)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert setwise(*words[:-1], "--key", "one", "--ledger", ledger).stdout.count("left") == 1


def test_an_account_for_a_dataset_pays_for_no_other(setwise, folder, tmp_path):
    ledger = ("--ledger", tmp_path / "ledger.db")
    opened = setwise("ledger", "open", "ada", "--filter", "--epsilon", 5, "--delta", "1e-6", "--dataset", "a", *ledger)
    assert opened.returncode == 0, opened.stderr
    words = ("count", folder / "visits.parquet", "--user", "who", "--account", "ada", "--counts", "pure:0.1", *ledger)
    done = setwise(*words)
    assert done.returncode == 2
    assert "'visits'" in done.stderr
    assert setwise(*words, "--dataset", "a").returncode == 0
    assert setwise("count", folder / "visits.parquet", "--user", "who", *TOTAL, "--dataset", "a").returncode == 2


def test_the_table_itself_is_no_domain(setwise, folder):
    words = ("--user", "who", "--item", "page", "--contributions", 1, *TOTAL, "--domain")
    for command in (("histogram",), ("top-k", "-k", 1)):
        done = setwise(*command, folder / "visits.csv", *words, f"{folder / 'visits.csv'}:page")
        assert (done.returncode, done.stdout) == (2, "")
        assert "private table itself" in done.stderr
        assert setwise(*command, folder / "visits.csv", *words, folder / "pages.txt").returncode == 0


def test_prepare_quotes_its_destination_and_replaces_nothing_unasked(setwise, folder, tmp_path):
    words = ("prepare", folder / "visits.parquet", "--user", "who", "--item", "page", "--out", tmp_path / "made ready")
    done = setwise(*words)
    assert done.returncode == 0, done.stderr
    assert f"setwise top-k '{tmp_path / 'made ready'}' --user who --item page" in done.stdout
    again = setwise(*words)
    assert (again.returncode, again.stdout) == (2, "")
    assert "--replace" in again.stderr
    assert setwise(*words, "--replace").returncode == 0
    filtered = setwise("top-k", tmp_path / "made ready", *PAGE, *TOTAL, "--where", "minutes > 2")
    assert filtered.returncode == 2
    assert "takes no filter" in filtered.stderr


def test_prepare_prints_no_password(setwise, postgresql_url):
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE visits AS SELECT n AS who, 'home' AS page FROM generate_series(1, 9) AS n")
    address = postgresql_url.replace("postgres@", "postgres:secret@")
    assert "secret" in address
    done = setwise("prepare", "visits", "--engine", address, "--user", "who", "--item", "page", "--out", "ready")
    assert done.returncode == 0, done.stderr
    assert "--engine postgresql://postgres@" in done.stdout
    assert "secret" not in done.stdout + done.stderr


def test_a_replay_and_too_little_left_are_told(setwise, folder, tmp_path):
    ledger = ("--ledger", tmp_path / "ledger.db")
    setwise("ledger", "open", "ada", "--filter", "--epsilon", 2, "--delta", "1e-6", *ledger)
    words = ("count", folder / "visits.parquet", "--user", "who", "--account", "ada", *ledger, "--epsilon")
    preview = setwise(*words, 2.5, "--preview")
    assert preview.returncode == 0, preview.stderr
    assert "too little left" in preview.stdout
    assert re.search(r"costs(\s|│)+more(\s|│)+than(\s|│)+is(\s|│)+left", preview.stdout)
    told = json.loads(setwise(*words, 2.5, "--preview", "--json").stdout)["shortage"]
    refused = setwise(*words, 2.5)
    assert refused.returncode == 3
    assert refused.stderr.startswith(f"setwise: {told}; ask again with: setwise count ")
    assert json.loads(setwise(*words, 0.1, "--preview", "--json").stdout)["shortage"] is None
    first, second = (setwise(*words, 0.1, "--key", "a").stdout for _ in range(2))
    assert "Nothing: this is" not in first
    assert "Nothing: this is the answer that was stored under this key" in second
    assert "charge: Number of users" in setwise("ledger", "history", "ada", *ledger).stdout


@pytest.mark.parametrize("width", [32, 40, 60, 80, 100])
def test_no_bar_and_no_number_is_cut(folder, width):
    from rich.console import Console

    import setwise as package
    from setwise.cli.output import answer_table

    with package.open(folder / "visits.parquet", user="who") as table:
        answer = table.histogram(item="page", contributions=3, epsilon=4.0, delta=1e-6)
    console = Console(width=width)
    with console.capture() as captured:
        console.print(answer_table(answer, console.width))
    shown = captured.get()
    assert "…" not in shown
    assert max(len(bar) for bar in re.findall("[█░]+", shown) or [""]) <= 30
    assert ("█" in shown) == (width >= 40), "the heading is short enough to leave room for bars"
    for each in answer:
        low, high = each.interval
        assert re.search(rf"{each.label} +{each.count:,} +{low:,} to {high:,}", shown)


def test_an_interrupt_at_any_moment_of_the_waiting_is_one(monkeypatch):
    """One that comes while an Event gives up its lock to wait breaks that lock, and is lost in an error about it."""
    started, cancelled = threading.Event(), threading.Event()
    release = threading.Condition._release_save

    def interrupted(condition):
        state = release(condition)
        if started.is_set() and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return state

    def work():
        started.set()
        time.sleep(0.3)
        _thread.interrupt_main()
        cancelled.wait(30)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
    try:
        monkeypatch.setattr(threading.Condition, "_release_save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            interruptible(work, cancelled.set)
    finally:
        signal.signal(signal.SIGINT, before)
    assert cancelled.is_set()


@pytest.mark.parametrize("moment", ["before the thread runs", "when it runs", "while it is waited for"])
def test_an_interrupt_while_the_thread_starts_stops_the_work_too(monkeypatch, moment):
    """On a busy machine the main thread is still starting the one that works when the interrupt comes."""
    begun, cancelled = threading.Event(), threading.Event()

    def work():
        begun.set()
        assert cancelled.wait(20)

    start, wait = _thread.start_new_thread, threading.Event.wait

    def interrupted(*given):
        started = start(*given)
        if moment == "when it runs":
            while not begun.is_set():
                time.sleep(0.01)
        if moment != "while it is waited for":
            raise KeyboardInterrupt
        return started

    def interrupted_wait(event, timeout=None):
        if threading.current_thread() is threading.main_thread():
            raise RuntimeError("release unlocked lock")  # what becomes of the interrupt there
        return wait(event, timeout)

    for module in (_thread, threading):
        name = "start_new_thread" if module is _thread else "_start_new_thread"
        if hasattr(module, name):
            monkeypatch.setattr(module, name, interrupted)
    if moment == "while it is waited for":
        monkeypatch.setattr(threading.Event, "wait", interrupted_wait)
        start(lambda: (time.sleep(0.3), _thread.interrupt_main()), ())
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            interruptible(work, cancelled.set)
    finally:
        signal.signal(signal.SIGINT, before)
    assert cancelled.is_set()


def test_an_interrupt_before_there_is_a_thread_ends_soon(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_ask, "_START_SECONDS", 0.0)
    monkeypatch.setattr(_thread, "start_new_thread", interrupted)
    with pytest.raises(KeyboardInterrupt):
        interruptible(lambda: None, lambda: None)


def test_ctrl_c_stops_the_query(tmp_path):
    """The query is repeated until the interrupt ends it, with status 130 and one word."""
    random = np.random.default_rng(0)
    big = 1_000_000
    table = pa.table({"who": random.integers(0, big, big), "item": random.integers(0, big, big)})
    parquet.write_table(table, tmp_path / "big.parquet")
    code = (
        "import signal, sys, threading, _thread\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a run in the background ignores it
        "from setwise.analytics.engines.duckdb import engine as duckdb\n"
        "from setwise.cli.main import main\n"
        "before = duckdb.DuckDBEngineQuery.histogram\n"
        "def run(self, *given):\n"
        "    threading.Timer(0.05, _thread.interrupt_main).start()\n"
        "    while True:\n"
        "        before(self, *given)\n"
        "duckdb.DuckDBEngineQuery.histogram = run\n"
        "main()\n"
    )
    words = ("top-k", tmp_path / "big.parquet", "--user", "who", "--item", "item", "-k", 5, "--contributions", 3)
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words), "--memory", "200MiB", *TOTAL],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 130, done.stderr
    assert done.stdout == ""
    assert done.stderr.strip() == "setwise: interrupted"
