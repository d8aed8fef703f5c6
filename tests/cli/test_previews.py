"""A preview begins in words: what is released, how accurate it will be and what it costs; the mechanism on request."""

import json
import re

import pytest

COUNTED = "SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest ORDER BY n DESC LIMIT 10"


@pytest.fixture
def flights(tmp_path):
    rows = "".join(f"u{user},D{user % 3}\n" for user in range(60))
    (tmp_path / "flights.csv").write_text(f"user,dest\n{rows}")
    return tmp_path / "flights.csv"


@pytest.fixture
def shown(setwise):
    def run(*words):
        done = setwise(*words)
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.replace("│", " ").split())

    return run


def test_explain_begins_with_what_is_released_how_accurately_and_at_which_cost(flights, shown):
    words = ("sql", f"EXPLAIN {COUNTED}", "--table", f"flights={flights}", "--user", "user", "--epsilon", "1")
    text = shown(*words)
    places = [
        text.index(name)
        for name in ("released Top 10 of dest: events", "accuracy If a user counts", "cost At most epsilon ")
    ]
    assert places == sorted(places)
    assert "counts within about" in text
    for word in ("mechanism", "unknown_", "approx:", "pure:"):
        assert word not in text
    detailed = shown(*words, "--details")
    assert detailed.index("promise") < detailed.index("mechanism")
    assert "pure:" in detailed


def test_a_preview_of_a_count_states_its_radius(flights, shown):
    text = shown("count", str(flights), "--user", "user", "--epsilon", "1", "--preview")
    assert (
        "released Number of users accuracy Counts within about 3 (with probability 95%) cost At most epsilon 1" in text
    )
    assert "except" not in text


def test_a_preview_names_each_statistic_in_its_own_unit(tmp_path, shown):
    """It called sums and distinct values counts, and stated the error of a sum in rounding steps."""
    rows = "".join(f"u{user},{user % 7}.5,p{user % 9}\n" for user in range(60))
    (tmp_path / "sales.csv").write_text(f"user,price,page\n{rows}")
    words = (str(tmp_path / "sales.csv"), "--user", "user", "--epsilon", "1", "--preview")
    sums = ("sum", *words, "--value", "price", "--low", "0", "--high", "200")
    assert "accuracy Sums of price within ±599.2 (with probability 95% each) cost" in shown(*sums)
    assert "error sums of price off by 200 on average, within ±599.2 with" in shown(*sums, "--details")
    plan = json.loads(shown(*sums, "--json"))
    assert (plan["about"], plan["radius"]) == ("sums of price", 599.2)
    assert plan["accuracy"] == "Sums of price within ±599.2 (with probability 95% each)"
    assert "accuracy Distinct values of page within ±15" in shown(
        "distinct", *words, "--value", "page", "--per-user", "5"
    )
    several = "SELECT SUM(price, contribution_bounds_per_group => (0, 10)) AS s, COUNT(DISTINCT user) AS n FROM sales"
    table = ("--table", f"sales={words[0]}", *words[1:-1])
    assert re.search(
        r"accuracy Sums of price within ±[\d.]+, counts within ±\d+ \(", shown("sql", f"EXPLAIN {several}", *table)
    )
    both = "SELECT (SELECT COUNT(*) FROM sales) AS n, (SELECT COUNT(DISTINCT page) FROM sales) AS d"
    pair = shown("sql", f"EXPLAIN {both}", *table)
    assert re.search(r"user count: counts within about [\d,]+ \(.*: distinct values of page within ±", pair)


def test_a_preview_and_its_answer_name_the_same_exact_count_of_a_shown_group(flights, shown):
    """The preview called the count a noisy one, for which it is by the interval's radius too large."""
    words = ("--table", f"flights={flights}", "--user", "user", "--epsilon", "1", "--contributions", "1")
    grouped = "SELECT dest, COUNT(DISTINCT user) AS n FROM flights GROUP BY dest"
    preview = shown("sql", f"EXPLAIN {grouped}", *words, "--details")
    (count,) = re.findall(r"; groups with a count of at least about ([\d,]+) are shown with probability 95%", preview)
    assert f"found when with probability 95%, if a count is at least {count}" in preview
    assert "noisy" not in preview
    assert f"Groups with fewer than about {count} users may be hidden" in shown("sql", grouped, *words)


def test_a_preview_of_bounds_to_be_found_names_the_exact_count_of_a_shown_group(flights, shown):
    text = shown("sql", f"EXPLAIN {COUNTED}", "--table", f"flights={flights}", "--user", "user", "--epsilon", "1")
    found = re.findall(
        r"; groups with a count of at least about [\d,]+(?: \(.*?\))? are shown with probability 95%", text
    )
    assert len(found) == 1
    assert "noisy" not in text
