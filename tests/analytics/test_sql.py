"""SQL is read into the query that the structured words make; what it may not say is refused by name."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import setwise
from setwise.analytics.filter.expression import Conjunction, Disjunction, Not
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.query import Count, Mean, Quantile, Query, Sum, statistic_name
from setwise.analytics.schema import Column, Kind, Schema
from setwise.analytics.sql.parser import parse_sql
from setwise.errors import InvalidParameter, SetwiseError
from setwise.service.api.schemas import QuestionBody
from tests.sizes import examples

SCHEMA = Schema(
    (
        Column(name="user_id", kind=Kind.INTEGER),
        Column(name="country", kind=Kind.TEXT),
        Column(name="plan", kind=Kind.TEXT),
        Column(name="minutes", kind=Kind.INTEGER),
        Column(name="at", kind=Kind.DATE),
        Column(name="paid", kind=Kind.BOOLEAN),
        Column(name='odd "name', kind=Kind.TEXT),
    )
)


def query_of(text, **given):
    return parse_sql(text, **{"user": "user_id", **given}).query


# What SQL means in structured words

NUMBERS = st.integers(-1000, 1000) | st.floats(-1000, 1000).map(lambda value: round(value, 3))
BOUNDS = st.tuples(NUMBERS, NUMBERS).filter(lambda pair: pair[0] < pair[1])


@st.composite
def statistics(draw):
    """A statistic and its SQL."""
    low, high = draw(BOUNDS)
    share = draw(st.integers(1, 99)) / 100
    per_group, per_row = (f"contribution_bounds_per_{each} => ({low}, {high})" for each in ("group", "row"))
    most = draw(st.integers(2, 50))
    return draw(
        st.sampled_from(
            [
                (Count(most=1), "COUNT(DISTINCT user_id)"),
                (Count(most=most), f"COUNT(*, contribution_bounds_per_group => (0, {most}))"),
                (Sum(column="minutes", low=low, high=high), f"SUM(minutes, {per_group})"),
                (Mean(column="minutes", low=low, high=high), f"avg(minutes, {per_group})"),
                (Quantile(column="minutes", low=low, high=high), f"MEDIAN(minutes, {per_row})"),
                (
                    Quantile(column="minutes", low=low, high=high, at=share),
                    f"PERCENTILE_CONT(minutes, {share}, {per_row})",
                ),
            ]
        )
    )


CONDITIONS = st.recursive(
    st.sampled_from(
        [
            "country = 'NO'",
            "country <> 'it''s'",
            "minutes >= -5",
            "30 > minutes",
            "minutes IN (1, 2, -3)",
            "country NOT IN ('NO')",
            "minutes BETWEEN 1 AND 10",
            "minutes NOT BETWEEN 1 AND 10",
            "country LIKE 'N%'",
            "country NOT LIKE '_O'",
            "country IS NULL",
            "plan IS NOT NULL",
            "at >= DATE '2026-01-01'",
            "paid = TRUE",
            '"odd ""name" = \'x\'',
        ]
    ),
    lambda parts: st.one_of(
        st.tuples(parts, parts).map(lambda two: f"({two[0]}) AND ({two[1]})"),
        st.tuples(parts, parts).map(lambda two: f"({two[0]}) OR ({two[1]})"),
        parts.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=6,
)


def in_sql(condition):
    """A filter as GoogleSQL writes it: other quotes around names and inside text."""
    return condition.replace('"odd ""name"', '`odd "name`').replace("'it''s'", "'it\\'s'")


USERS = (Count(most=1), "COUNT(DISTINCT user_id)")
OTHERS = statistics().filter(lambda pair: not isinstance(pair[0], Count))


def selected(groups, asked, more=""):
    columns = ", ".join([*groups, *(f"{text} AS c{place}" for place, (_, text) in enumerate(asked))])
    return f"SELECT {columns} FROM events" + (f" GROUP BY {', '.join(groups)}" if groups else "") + more


@settings(deadline=None)
@given(
    st.lists(statistics(), min_size=1, max_size=3, unique_by=lambda pair: statistic_name(pair[0])),
    st.lists(st.sampled_from(["country", "plan"]), unique=True),
    st.integers(1, 100),
)
def test_sql_and_structured_words_make_equal_queries(asked, groups, contributions):
    made = tuple(statistic for statistic, _ in asked)
    assert query_of(selected(groups, asked)) == Query(statistics=made, item=tuple(groups) or None)
    clause = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed={contributions})"
    bounded = query_of(selected(groups, asked).replace("SELECT", clause, 1))
    assert bounded.contributions == (contributions if groups else None)


@settings(deadline=None, max_examples=examples(50, 2))
@given(
    st.lists(st.integers(1, 99).map(lambda percent: percent / 100), min_size=1, max_size=7, unique=True),
    st.sampled_from([None, "country"]),
    BOUNDS,
)
def test_several_shares_are_one_quantile_in_words_in_json_and_in_sql(shares, item, bounds):
    low, high = bounds
    per_row = f"contribution_bounds_per_row => ({low}, {high})"
    asked = [(None, f"PERCENTILE_CONT(minutes, {share}, {per_row})") for share in shares]
    words = Query.quantile(value="minutes", low=low, high=high, at=shares, item=item)
    assert query_of(selected([] if item is None else [item], asked)) == words
    written = json.loads(json.dumps(words.to_dict()))
    assert written["kind"] == "quantile"
    assert written.get("at", 0.5) == (shares if len(shares) > 1 else shares[0])
    assert Query.from_dict(written) == words
    spend = {"kind": "total", "epsilon": 1.0, "delta": 1e-9}
    body = {"dataset": "events", "account": "ada", "query": written | {"at": shares}, "spend": spend}
    assert QuestionBody.model_validate(body).question().query == words


@pytest.mark.parametrize("parts", range(2, 17))
def test_parts_of_quantiles_are_read_back_as_they_were(parts):
    """A third has no decimals that end."""
    found = query_of(
        f"SELECT APPROX_QUANTILES(minutes, {parts}, contribution_bounds_per_row => (0, 9)) AS q FROM events"
    )
    shares = [share / parts for share in range(1, parts)]
    assert Query.quantile(value="minutes", low=0, high=9, at=shares) == found
    assert Query.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_only_a_left_join_keeps_rows_that_meet_none():
    text = "SELECT COUNT(DISTINCT id) FROM t {} u USING (a)"
    found = {words: parse_sql(text.format(words), user="id").joins[0].keeps_all for words in JOINS}
    assert found == JOINS


JOINS = {"JOIN": False, "INNER JOIN": False, "LEFT JOIN": True, "LEFT OUTER JOIN": True}


@settings(deadline=None)
@given(st.lists(OTHERS, max_size=2, unique_by=lambda pair: statistic_name(pair[0])), st.integers(1, 100))
def test_an_ordered_limit_is_a_top_k(others, k):
    asked = [USERS, *others]
    made = tuple(statistic for statistic, _ in asked)
    for order in ("c0", "COUNT(DISTINCT user_id)"):
        text = selected(["country"], asked, f" ORDER BY {order} DESC LIMIT {k}")
        assert query_of(text) == Query(statistics=made, item="country", k=k)


def test_groups_are_ordered_by_a_place_as_they_are_grouped_by_one():
    text = "SELECT country, COUNT(DISTINCT user_id) FROM t GROUP BY 1 ORDER BY {} DESC LIMIT 5"
    assert query_of(text.format(2)) == Query.top_k(item="country", k=5, per_item=1)
    assert query_of(text.format(1)) == Query.histogram(item="country", per_item=1)  # sorted in the free part
    with pytest.raises(InvalidParameter, match="ORDER BY 3 names no column of the SELECT"):
        query_of(text.format(3))


def test_bounds_may_be_left_to_be_found():
    clause = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = auto)"
    text = "SELECT {} country, AVG(minutes, contribution_bounds_per_group => AUTO) FROM t GROUP BY 1"
    words = Query.mean(value="minutes", bounds="auto", item="country", contributions="auto")
    assert query_of(text.format(clause)) == words
    assert query_of(text.format(""), contributions="auto") == words
    thirds = "SELECT APPROX_QUANTILES(minutes, 3, contribution_bounds_per_row => AUTO) FROM t"
    assert query_of(thirds) == Query.quantile(value="minutes", bounds="auto", at=[1 / 3, 2 / 3])
    total = "SELECT SUM(minutes, contribution_bounds_per_group => AUTO) FROM t"
    assert query_of(total) == Query.sum(value="minutes", bounds="auto")


def test_missing_values_are_named_by_ifnull():
    text = "SELECT {0} AS c, {1} AS p, COUNT(DISTINCT user_id) FROM t GROUP BY {2}"
    words = Query.histogram(item=["country", "minutes by 10"], null_item="none", per_item=1)
    bins = "FLOOR(minutes / 10) * 10"
    both = text.format("IFNULL(country, 'none')", f"COALESCE({bins}, 'none')", "c, p")
    assert query_of(both) == words
    assert query_of(both.replace("c, p", f"1, IFNULL({bins}, 'none')")) == words
    one = "SELECT IFNULL(minutes, -1) AS m, COUNT(DISTINCT user_id) FROM t GROUP BY m"
    assert query_of(one) == Query.histogram(item="minutes", null_item=-1, per_item=1)
    mixed = parse_sql(text.format("IFNULL(country, 'none')", "plan", "1, 2"), user="user_id")
    assert (mixed.query.groups, mixed.query.null_item) == (("c", "plan"), None)
    assert "COALESCE" in str(mixed.derivation)
    for wrong, says in (
        (one.replace("IFNULL(minutes, -1)", "IFNULL(minutes)"), "IFNULL takes 2 to 2 values"),
        (one.replace("IFNULL(minutes, -1)", "IFNULL(minutes, foo(1))"), "FOO is not supported"),
    ):
        with pytest.raises(InvalidParameter, match=says):
            query_of(wrong)


@pytest.mark.parametrize(
    ("selected", "says"),
    [
        ("MAX(minutes)", "MAX is not supported in SQL here: one user decides it"),
        ("ARRAY_AGG(minutes)", "it shows the values of single users"),
        ("FOO(minutes)", "FOO is not supported"),
        ("PERCENTILE_CONT(minutes, 0, contribution_bounds_per_row => (0, 9))", "strictly between 0 and 1, not 0(;|$)"),
        ("AVG(minutes, contribution_bounds_per_group => (0))", r"^\(\.\.\) as contribution_bounds_per_group"),
        ("AVG(minutes, contribution_bounds_per_group => [0, 1])", r"^\[\.\.\] as contribution_bounds_per_group"),
    ],
)
def test_a_refused_statistic_says_what_to_write_instead(selected, says):
    with pytest.raises(InvalidParameter, match=says) as refused:
        query_of(f"SELECT {selected} FROM t")
    assert "sqlglot" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT COUNT(DISTINCT user_id) FROM t WHERE", "^the SQL cannot be read near 'WHERE', line 1: .* missing$"),
        ("SELECT COUNT(DISTINCT user_id) FROM t JOIN", "^the SQL cannot be read near 'JOIN', line 1: [^<]*$"),
        ("SELECT COUNT(DISTINCT user_id) FROM t WHERE a = 1 b", "near 'b', line 1: it is not expected there$"),
        ("SELECT COUNT(DISTINCT user_id) FROM t GROUP BY", "GROUP BY names no column"),
        ("SELECT AVG(minutes, '' => (0, 100)) FROM t", "^the SQL cannot be read: it is not SQL$"),
        ("", "^the question is empty: write one SELECT$"),
        ("EXPLAIN ANALYZE SELECT COUNT(DISTINCT user_id) FROM t", "^EXPLAIN ANALYZE .* write EXPLAIN"),
        (
            "SELECT country, COUNT(*), RANK() OVER (ORDER BY COUNT(*)) FROM t GROUP BY ROLLUP (country)",
            "^a window function beside ROLLUP",
        ),
        ("SELECT country, GROUPING(plan), COUNT(*) FROM t GROUP BY ROLLUP (country)", "^plan in GROUPING"),
        ("SELECT COUNT(*) FROM t GROUP BY CUBE (a, b, c, d, e)", "^GROUP BY has 32 grouping sets"),
        ("SELECT COUNT(*) FROM t GROUP BY CUBE (a, b, c, d, e, f, g, h, i, j, k)", "^CUBE over 11 columns"),
        ("SELECT COUNT(DISTINCT user_id) FROM t JOIN u ON a = b", "^= without the tables of both columns"),
    ],
)
def test_what_cannot_be_read_is_told_in_words(text, says):
    with pytest.raises(InvalidParameter, match=says):
        query_of(text)


def test_common_shapes_are_those_of_the_words():
    top = (
        "SELECT country, COUNT(*, contribution_bounds_per_group => (0, 3)) n FROM t GROUP BY 1 ORDER BY n DESC LIMIT 5"
    )
    assert query_of(top.replace("BY 1", "BY country")) == Query.top_k(item="country", k=5, per_item=3)
    mean = "SELECT AVG(minutes, contribution_bounds_per_group => (0, 600)) FROM t"
    assert query_of(mean) == Query.mean(value="minutes", low=0, high=600)
    assert query_of("SELECT COUNT(DISTINCT user_id) FROM t") == Query.count(per_user=1)


@settings(deadline=None)
@given(CONDITIONS)
def test_where_means_what_the_filter_means(condition):
    query = query_of(f"SELECT COUNT(DISTINCT user_id) FROM t WHERE {in_sql(condition)}")
    assert flat(parse_filter(query.where, SCHEMA).expression) == flat(parse_filter(condition, SCHEMA).expression)


def flat(expression):
    """The expression with AND inside AND, and OR inside OR, as one, and without double negations."""
    match expression:
        case Conjunction(parts) | Disjunction(parts):
            kind = type(expression)
            inner = [flat(part) for part in parts]
            return kind(tuple(leaf for part in inner for leaf in (part.parts if type(part) is kind else (part,))))
        case Not(part):
            inner = flat(part)
            return inner.part if isinstance(inner, Not) else Not(inner)
        case _:
            return expression


def test_plain_filters_keep_their_text():
    where = "country = 'NO' AND (minutes >= 18 OR minutes IS NULL) AND plan NOT IN ('a', 'b')"
    assert query_of(f"SELECT COUNT(DISTINCT user_id) FROM t WHERE {where}").where == where


# The clause of options

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({}) COUNT(DISTINCT id) AS n FROM students"


def test_options_are_read_from_the_clause():
    found = parse_sql(CLAUSE.format("epsilon = 10, delta = .01, privacy_unit_column = id, max_groups_contributed = 2"))
    assert (found.epsilon, found.delta, found.user, found.table) == (10.0, 0.01, "id", "students")
    found = parse_sql(CLAUSE.format("within = 2.5, privacy_unit_column = id"))
    assert found.says_what_to_spend
    assert found.paid_by({"delta": 1e-6}) == {"delta": 1e-6, "within": 2.5}
    with pytest.raises(InvalidParameter, match="within is given twice"):
        found.paid_by({"within": 3})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("epsilon = 1, epsilon = 2", "epsilon is given twice"),
        ("epsilon = 'x'", "epsilon must be a number"),
        ("epsilon = -1", "epsilon must be a number"),
        ("epsilon = 1 + 1", "epsilon must be one number"),
        ("min_privacy_units_per_group = 5", "min_privacy_units_per_group"),
        ("group_selection_strategy = PUBLIC_GROUPS", "group_selection_strategy"),
        ("privacy_unit_column = other", "other"),
        ("epsilon", "epsilon must be a number"),
    ],
)
def test_other_options_are_refused(options, named):
    with pytest.raises(InvalidParameter, match=named):
        parse_sql(CLAUSE.format(options), user="id")


WHOLE = CLAUSE.format("epsilon = 1")


@pytest.mark.parametrize("cut", range(1, WHOLE.index("FROM")))
def test_a_query_cut_short_is_refused(cut):
    with pytest.raises(InvalidParameter):
        parse_sql(WHOLE[:cut], user="id")


# Queries in the style of GoogleSQL's examples: each is answered, or refused by name

BOUNDED = "contribution_bounds_per_group => (0, 100)"

ANSWERED = [
    "SELECT item, AVG(quantity, contribution_bounds_per_group => (0, 100)) average_quantity FROM t GROUP BY item",
    "SELECT item, COUNT(*, contribution_bounds_per_group => (0, 100)) times_requested FROM t GROUP BY item",
    "SELECT item, SUM(quantity, contribution_bounds_per_group => (0, 100)) AS q FROM t GROUP BY item",
    "SELECT item, PERCENTILE_CONT(quantity, 0.5, contribution_bounds_per_row => (0, 100)) p FROM t GROUP BY item",
    "SELECT item, COUNT(DISTINCT id) FROM `project.dataset.t` WHERE item NOT IN ('pen') GROUP BY item;",
    "select /* hint */ count(distinct id) from t -- the end",
]


@pytest.mark.parametrize("text", ANSWERED)
def test_documented_examples_are_read(text):
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=10, delta=.01, privacy_unit_column=id)"
    assert parse_sql(clause + text[len("select") :]).query.statistics


NOW_READ = [
    "SELECT item, COUNT(*) FROM t GROUP BY item",
    "SELECT item, APPROX_QUANTILES(q, 4) FROM t GROUP BY item",
    "SELECT item, AVG(q) FROM t GROUP BY item",
    "SELECT item, VAR_SAMP(q) FROM t GROUP BY item",
    "SELECT item, PRIVATE_MIN(q), PRIVATE_MAX(q, contribution_bounds_per_row => (0, 9)) FROM t GROUP BY item",
    "SELECT AVG(q + 1, contribution_bounds_per_group => (0, 100)) FROM t",
    "SELECT 2 * COUNT(DISTINCT id) FROM t",
    "SELECT ROUND(COUNT(DISTINCT id)) FROM t",
    "SELECT item FROM t GROUP BY item",
    "SELECT COUNT(DISTINCT id) FROM t GROUP BY item",
    "SELECT COUNT(DISTINCT id) FROM (SELECT * FROM t)",
    "SELECT DISTINCT item, COUNT(DISTINCT id) FROM t GROUP BY item",
    "SELECT item, COUNT(DISTINCT id) AS n FROM t GROUP BY item HAVING n > 5",
    "SELECT COUNT(DISTINCT id) FROM t QUALIFY TRUE",
    "SELECT COUNT(DISTINCT id) FROM t UNION ALL SELECT COUNT(DISTINCT id) FROM u",
    "SELECT item, COUNT(DISTINCT id) FROM t GROUP BY ALL",
    "SELECT item, COUNT(DISTINCT id) AS n FROM t GROUP BY item ORDER BY n DESC",
    "SELECT item, COUNT(DISTINCT id) AS n FROM t GROUP BY item LIMIT 5",
    "SELECT item, COUNT(DISTINCT id) AS n FROM t GROUP BY item ORDER BY n LIMIT 5",
    "SELECT item, COUNT(DISTINCT id) AS n FROM t GROUP BY item ORDER BY item DESC LIMIT 5",
    "SELECT item, COUNT(DISTINCT id) AS n FROM t GROUP BY item ORDER BY n DESC, item LIMIT 5",
    "SELECT item, COUNT(DISTINCT id) AS n FROM t GROUP BY item ORDER BY n DESC LIMIT 5 OFFSET 5",
    "SELECT item, SUM(q, contribution_bounds_per_group => (0, 100)) AS s FROM t GROUP BY item ORDER BY s DESC LIMIT 5",
    "SELECT item, AVG(q, contribution_bounds_per_group => (0, 100)) AS m FROM t GROUP BY item ORDER BY m DESC LIMIT 5",
    "SELECT COUNT(DISTINCT id) AS n FROM t ORDER BY n DESC LIMIT 1",
    "SELECT COUNT(DISTINCT id), COUNT(DISTINCT id) AS n FROM t",
    "SELECT item AS n, COUNT(DISTINCT id) AS n FROM t GROUP BY item",
    "SELECT COUNT(DISTINCT id) FROM t WHERE LOWER(q) = 'x'",
    "SELECT COUNT(DISTINCT id) FROM t WHERE q + 1 = 2",
    "SELECT COUNT(DISTINCT id) FROM t WHERE CASE WHEN q = 1 THEN TRUE END",
    "SELECT COUNT(DISTINCT id) FROM t WHERE paid",
    "SELECT COUNT(DISTINCT id) FROM t WHERE paid IS TRUE",
    "SELECT COUNT(DISTINCT id) FROM t WHERE at > CURRENT_DATE",
    "SELECT COUNT(DISTINCT id) FROM t WHERE SAFE_CAST(q AS INT64) = 1",
]
"""Statements whose free part, computed columns or bounds are found or computed instead of refused."""


@pytest.mark.parametrize("text", NOW_READ)
def test_everyday_statements_are_read(text):
    assert parse_sql(text, user="id").cores


REFUSED = [
    ("SELECT STDDEV(q, max_rows_contributed => 2, max_rows_contributed => 3) FROM t", "max_rows_contributed"),
    ("SELECT STDDEV(q, contribution_bounds_per_group => (0, 1)) FROM t", "contribution_bounds_per_row"),
    ("SELECT item, AVG(q, contribution_bounds_per_row => (0, 1)) FROM t GROUP BY item", "contribution_bounds_per_row"),
    ("SELECT COUNT(*, contribution_bounds_per_group => (2, 5)) FROM t", "must be 0, not 2"),
    ("SELECT AVG(q, contribution_bounds_per_group => (0, 100), report_format => 'JSON') FROM t", "report_format"),
    ("SELECT AVG(q, contribution_bounds_per_group => NULL) FROM t", "NULL"),
    ("SELECT AVG(q, contribution_bounds_per_group => (0, q)) FROM t", "'q'"),
    ("SELECT AVG(DISTINCT q) FROM t", "DISTINCT in AVG"),
    (
        "SELECT APPROX_COUNT_DISTINCT(q, contribution_bounds_per_group => (1, 3)) FROM t",
        "most distinct values of one user",
    ),
    ("SELECT COUNT(DISTINCT id) OVER () FROM t", "'id' is selected but not grouped"),
    ("SELECT * FROM t", "\\*"),
    ("SELECT item, COUNT(DISTINCT id) FROM t", "'item'"),
    ("SELECT COUNT(DISTINCT id) FROM t RIGHT JOIN u USING (id) JOIN v USING (id)", "RIGHT JOIN"),
    ("SELECT COUNT(DISTINCT id) FROM t FULL OUTER JOIN u USING (id)", "FULL OUTER JOIN"),
    ("SELECT COUNT(DISTINCT id) FROM t NATURAL JOIN u", "NATURAL JOIN"),
    ("SELECT COUNT(DISTINCT id) FROM t JOIN u ON t.a < u.b", "< in ON"),
    ("SELECT COUNT(DISTINCT id) FROM t JOIN u ON t.a = u.b OR TRUE", "OR in ON"),
    ("SELECT COUNT(DISTINCT id) FROM t JOIN u ON a = b", "the tables of both columns"),
    ("SELECT COUNT(DISTINCT id) FROM t JOIN (SELECT DISTINCT a FROM u) AS v USING (a)", "in a subquery"),
    ("SELECT COUNT(DISTINCT id) FROM t JOIN u USING (a) JOIN v ON t.a = u.a", "columns of other tables"),
    ("SELECT COUNT(DISTINCT id) FROM t, u", "JOIN"),
    ("SELECT COUNT(DISTINCT id) FROM UNNEST([1])", "UNNEST"),
    ("SELECT COUNT(DISTINCT t.id) FROM t AS s", "'t'"),
    ("SELECT COUNT(DISTINCT id) FROM t TABLESAMPLE SYSTEM (10 PERCENT)", "TABLESAMPLE"),
    ("SELECT COUNT(DISTINCT id) FROM t FOR SYSTEM_TIME AS OF '2026-01-01'", "VERSION"),
    ("SELECT COUNT(DISTINCT id)", "FROM"),
    ("WITH u AS (SELECT 1) SELECT COUNT(DISTINCT id) FROM u", "reads no private table"),
    ("SELECT id, COUNT(DISTINCT item) FROM t GROUP BY ROLLUP (id)", "single users"),
    ("SELECT u.item, COUNT(DISTINCT id) FROM t GROUP BY u.item", "'u'"),
    ("SELECT COUNT(DISTINCT id) FROM t WHERE q IN (SELECT q FROM u)", "a subquery"),
    ("SELECT COUNT(DISTINCT id) FROM t WHERE EXISTS (SELECT 1)", "EXISTS"),
    ("SELECT COUNT(DISTINCT id) FROM t WHERE q = NULL", "NULL"),
    ("SELECT COUNT(DISTINCT id) FROM t WHERE q LIKE 'a\\\\b'", "escape"),
    ("SELECT COUNT(DISTINCT id) FROM t WHERE q = @value", "parameter"),
    ("SELECT WITH ANONYMIZATION COUNT(DISTINCT id) FROM t", "ANONYMIZATION"),
    ("SELECT AS STRUCT COUNT(DISTINCT id) FROM t", "SELECT AS"),
    (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (privacy_unit_column = item) COUNT(DISTINCT item) FROM t",
        "the user column of this table is 'id', not 'item'",
    ),
    ("CREATE TABLE x AS SELECT 1", "CREATE"),
    ("DROP TABLE t", "DROP"),
    ("INSERT INTO t VALUES (1)", "INSERT"),
    ("", "one SELECT"),
]


@pytest.mark.parametrize(("text", "named"), REFUSED, ids=[text for text, _ in REFUSED])
def test_everything_else_is_refused_by_name(text, named):
    with pytest.raises(InvalidParameter, match=named) as refused:
        parse_sql(text, user="id")
    assert "\n" not in str(refused.value)
    assert "\x1b" not in str(refused.value)


# Injection

ATTACKS = [
    "SELECT COUNT(DISTINCT user_id) FROM t; DROP TABLE t",
    "SELECT COUNT(DISTINCT user_id) FROM t WHERE country = 'x' OR read_csv('secret') = 'y'",
    "SELECT COUNT(DISTINCT user_id) FROM t WHERE `country = 'x' OR minutes` = 1",
    "SELECT COUNT(DISTINCT user_id) FROM t WHERE `country\"; DROP TABLE t` = 'x'",
    'SELECT `country"; DROP TABLE t`, COUNT(DISTINCT user_id) FROM t GROUP BY `country"; DROP TABLE t`',
    "SELECT COUNT(DISTINCT user_id) FROM t WHERE " + "(" * 3000 + "minutes = 1" + ")" * 3000,
    "SELECT COUNT(DISTINCT user_id) FROM t WHERE " + "NOT " * 2000 + "minutes = 1",
    "SELECT COUNT(DISTINCT user_id) FROM t WHERE minutes IN (" + "1," * 1500 + "1)",
    "SELECT SUM(minutes, contribution_bounds_per_group => (0, 1e999999999)) FROM t",
    "SELECT COUNT(DISTINCT user_id) FROM t WHERE country = 'x",
    "x" * 20_000,
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("sql") / "events.parquet"
    rows = [(user, "NO" if user % 3 else "SE", user % 2, user % 50) for user in range(3000) for _ in range(2)]
    columns = zip(("user_id", "country", "plan", "minutes"), zip(*rows, strict=True), strict=True)
    pq.write_table(pa.table({name: list(values) for name, values in columns}), path)
    return path


@pytest.mark.parametrize("text", ATTACKS, ids=range(len(ATTACKS)))
def test_attacks_are_refused_before_anything_is_charged(text, table):
    with setwise.open(table, user="user_id", name="t") as session:
        with pytest.raises(SetwiseError) as refused:
            session.sql(text, epsilon=1, delta=1e-6)
        assert refused.value.exit_code == 2
        assert not session.spent


def test_text_with_quotes_stays_text():
    query = query_of(r"SELECT COUNT(DISTINCT user_id) FROM t WHERE country = 'x\' OR country <> \'y'")
    found = parse_filter(query.where, SCHEMA).expression
    assert (found.column.name, found.value) == ("country", "x' OR country <> 'y")


# From text to rows

ASKED = """
    SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 50, delta = 1e-6, max_groups_contributed = 1)
      plan AS p, AVG(minutes, contribution_bounds_per_group => (0, 50)) AS mean, country,
      COUNT(DISTINCT user_id) AS users
    FROM events WHERE minutes < 50 GROUP BY country, plan ORDER BY users DESC LIMIT 2
"""


def test_rows_have_the_columns_of_the_select(table):
    with setwise.open(table, user="user_id") as session:
        found = session.sql(ASKED)
        assert session.spent == found.answer.spent
    assert found.columns == ("p", "mean", "country", "users")
    assert {(row["country"], row["p"]) for row in found} == {("NO", 0), ("NO", 1)}
    for row in found:
        assert row["users"]["value"] == pytest.approx(1000, abs=20)
        assert row["mean"]["value"] == pytest.approx(24.5, abs=2)
        assert row["mean"]["interval"][0] <= row["mean"]["value"] <= row["mean"]["interval"][1]
    told = json.loads(found.to_json())
    assert told["rows"] == found.rows
    assert (
        found.to_csv().splitlines()[0] == "p,mean,mean_lower,mean_upper,country,users,users_lower,users_upper,measure"
    )


def test_a_single_count_has_its_interval(table):
    with setwise.open(table, user="user_id") as session:
        (row,) = session.sql("SELECT COUNT(DISTINCT user_id) AS n FROM events", epsilon=10)
    low, high = row["n"]["interval"]
    assert low <= row["n"]["value"] <= high
    assert row["n"]["value"] == pytest.approx(3000, abs=10)


def test_explain_is_free(table):
    with setwise.open(table, user="user_id") as session:
        assert session.explain("EXPLAIN " + ASKED) == session.explain(ASKED)
        with pytest.raises(InvalidParameter, match=r"session\.explain"):
            session.sql("EXPLAIN " + ASKED)
        assert not session.spent


@pytest.mark.parametrize(
    ("text", "words", "named"),
    [
        (ASKED.replace("FROM events", "FROM other"), {}, "'other'"),
        (ASKED, {"epsilon": 1.0}, "epsilon is given twice"),
        (ASKED, {"contributions": 2}, "contributions are given twice"),
        ("SELECT COUNT(DISTINCT user_id) FROM events", {}, "what may be spent"),
    ],
)
def test_a_session_refuses_what_contradicts_it(table, text, words, named):
    with setwise.open(table, user="user_id") as session, pytest.raises(InvalidParameter, match=named):
        session.sql(text, **words)
