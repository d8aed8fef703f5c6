"""Queries validate themselves, and their written form is canonical and complete."""

import json
import subprocess
import sys

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.analytics.present.text import measure_text
from setwise.analytics.query import STATISTICS, Query
from setwise.errors import InvalidParameter
from setwise.ledger.records import canonical
from tests.analytics.recorded import recorded_session

names = st.text(min_size=1, max_size=8)
filters = st.none() | st.text(min_size=1, max_size=20).filter(str.strip)
domains = st.none() | st.lists(st.text(max_size=6), min_size=5, max_size=9, unique=True).map(tuple)
numbers = st.integers(1, 1000)

grouped = {
    "item": names,
    "per_item": st.none() | numbers,
    "value": st.none() | names,
    "domain": domains,
    "where": filters,
    "null_item": st.none() | st.text(max_size=5) | st.integers(-5, 5),
}
queries = st.one_of(
    st.builds(Query.top_k, k=st.integers(1, 5), contributions=st.none() | numbers, **grouped),
    st.builds(Query.histogram, contributions=st.none() | numbers, **grouped),
    st.builds(Query.count, per_user=numbers, where=filters),
    st.builds(Query.sum, value=names, clip=numbers, where=filters),
)


@given(queries)
def test_reading_back_gives_the_same_query(query):
    assert Query.from_dict(query.to_dict()) == query
    assert Query.from_dict(json.loads(canonical(query.to_dict()))) == query


@given(queries, queries)
def test_different_queries_have_different_texts(one, other):
    assert (canonical(one.to_dict()) == canonical(other.to_dict())) == (one == other)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Query.top_k(item="page", k=0), "k"),
        (lambda: Query.top_k(item="", k=1), "item"),
        (lambda: Query.top_k(item="page", k=3, domain=("a", "b")), "at most 2"),
        (lambda: Query.top_k(item="page", k=3, limit=2), "limit"),
        (lambda: Query.top_k(item="page", k=1, domain=("a",), limit=2), "limit"),
        (lambda: Query.top_k(item="page", k=1, domain=()), "domain"),
        (lambda: Query.top_k(item="page", k=1, domain=("a", "a")), "distinct"),
        (lambda: Query.top_k(item="page", k=1, contributions=0), "contributions"),
        (lambda: Query.top_k(item="page", k=1, per_item=-1), "per_item"),
        (lambda: Query.top_k(item="page", k=1, where="  "), "where"),
        (lambda: Query.top_k(item="page", k=True), "k"),
        (lambda: Query(contributions=2), "give item"),
        (lambda: Query.count(per_user=0), "per_user"),
        (lambda: Query.sum(value="minutes", clip=0), "clip"),
        (lambda: Query.from_dict({"kind": "mean"}), "mean"),
        (lambda: Query.from_dict({"kind": "count", "fraction": 1}), "fraction"),
        (lambda: Query.from_dict({"kind": "top-k", "item": "page"}), "'k'"),
        (lambda: Query.from_dict({"kind": "top-k", "item": "page", "k": 1, "domain": "abc"}), "list"),
        (lambda: Query.from_dict({"kind": "sum", "value": "minutes", "clip": 1.5}), "1.5"),
    ],
)
def test_impossible_queries_are_refused_by_name(make, named):
    with pytest.raises(InvalidParameter, match=named):
        make()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (Query.top_k(item="page", k=2), "users"),
        (
            Query.top_k(item="page", k=2, contributions=1),
            "users; each user counts towards one group, others are left out",
        ),
        (
            Query.histogram(item="page", contributions=5),
            "users; each user counts towards at most 5 groups, others are left out",
        ),
        (Query.top_k(item="page", k=2, per_item=3), "events, at most 3 of a user per item"),
        (
            Query.top_k(item="page", k=2, per_item=60, value="minutes", contributions=2),
            "sum of minutes, at most 60 of a user per item; each user counts towards at most 2 groups, others are left "
            "out",
        ),
        (Query.count(), "users"),
        (Query.count(per_user=4), "events, at most 4 of a user"),
        (Query.sum(value="minutes", clip=9), "sum of minutes, at most 9 of a user"),
    ],
)
def test_what_is_counted_says_how_it_is_bounded(query, said):
    """Intervals are about bounded counts, so every heading must say the bounds."""
    assert measure_text(query) == said


def test_a_column_of_data_given_for_a_name_is_not_shown():
    column = pd.Series(["Ada Lovelace", "Alan Turing"])
    for wrong in ({"item": column}, {"item": "page", "where": column}):
        with pytest.raises(InvalidParameter, match="a Series") as refused:
            Query.top_k(k=1, **wrong)
        assert "Ada" not in str(refused.value)


def test_bounds_are_checked_when_python_leaves_assertions_out():
    code = "from setwise.analytics.query import Query; Query.top_k(item='page', k=1, contributions=0)"
    run = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "InvalidParameter: contributions must lie between 1" in run.stderr


_BOUNDED = ("sum", "mean", "quantile", "variance", "stddev")
WORDS = {"count": {"most": 3}, "distinct": {"column": "x", "per_user": 4}} | {
    kind: {"column": "x", "low": 0, "high": 10} for kind in _BOUNDED
}
WORDS |= {kind: {**WORDS[kind], "per_user": 2} for kind in ("variance", "stddev")}


@pytest.mark.parametrize("kind", STATISTICS)
def test_a_statistic_of_the_table_says_itself_in_words_and_back(kind):
    (statistic,) = STATISTICS[kind].read(WORDS[kind])
    assert STATISTICS[kind].read(statistic.words()) == [statistic]
    query = Query(statistics=(statistic,))
    assert Query.from_dict(query.to_dict()) == query
    assert statistic.release((statistic,)).guarantees()
    assert len(statistic.measures()) == statistic.release((statistic,)).measures


@pytest.mark.parametrize("kind", ["variance", "stddev", "distinct"])
def test_a_bound_on_rows_that_is_to_be_found_is_left_out_of_the_words(kind):
    bounds = {} if kind == "distinct" else {"low": 0, "high": 10}
    query = Query.from_dict({"kind": kind, "value": "x", **bounds})
    assert query.statistics[0].finds_rows
    assert Query.from_dict(query.to_dict()) == query
    assert "per_user" not in query.to_dict()


@pytest.mark.parametrize("kind", ["top_k", "histogram", "sum", "mean", "quantile"])
def test_an_unknown_parameter_is_named_with_those_there_are(kind):
    words = {"top_k": {"item": "page", "k": 3}, "histogram": {"item": "page"}}
    parameters = words.get(kind, {"value": "minutes", "low": 0, "high": 9})
    with pytest.raises(InvalidParameter, match=r"query has no 'colour'; it has .*where"):
        getattr(Query, kind)(**parameters, colour="red")


@pytest.mark.parametrize("kind", ["count", "variance", "distinct"])
def test_an_unknown_word_of_a_question_is_named_with_those_there_are(kind):
    _, session = recorded_session()
    words = {} if kind == "count" else {"value": "minutes"}
    with pytest.raises(InvalidParameter, match=f"a {kind} query has no 'colour'; it has .*per_user"):
        getattr(session, kind)(**words, epsilon=1, colour="red")
    with pytest.raises(InvalidParameter, match="a SQL query has no 'colour' beside it; it may have contributions"):
        session.sql("SELECT COUNT(*) FROM visits", epsilon=1, colour="red")
