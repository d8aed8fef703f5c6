"""Questions that draw on a durable account: the most is charged, the unused comes back, a replay is identical."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

import setwise
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import ApproxDP, BoundedRange, Gaussian, PureDP, Use
from setwise.accounting.notation import format_use, parse_use
from setwise.accounting.promises import rounded_down, rounded_up
from setwise.analytics.budget import Draws
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.duckdb.engine import DuckDBEngine
from setwise.analytics.query import Count, Mean, Query
from setwise.analytics.session import Session
from setwise.errors import BudgetExhausted, EngineFailed, InvalidParameter, KeyConflict, UnknownColumn
from setwise.ledger.ledger import Ledger
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.randomness import SystemRandomness
from tests.analytics.recorded import RecordedEngine, recorded_session, visits

REGISTERED = ["bounded-range:0.5x20", "pure:0.3x10", "gaussian:20x10", "approx:0,1e-7x3"]
MEANS = (Mean(column="minutes", low=0, high=10),)
PICKS = {"item": "page", "discover": "bounded-range:0.5"}


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(str(tmp_path / "ledger.db")) as opened:
        opened.open_setwise("ada", REGISTERED, delta=1e-5)
        opened.open_filter("bob", epsilon=3.0, delta=1e-5)
        yield opened


def left(account):
    return {format_use(Use(use.guarantee)): use.count for use in account.status().left}


def test_a_wallet_beside_registered_draws_pays_for_questions(ledger):
    ledger.open_setwise("eve", ["pure:0.3x2", "approx:0,1e-7x3"], delta=1e-5, wallet=0.4, failure=1e-6)
    account = ledger.account("eve")
    _, session = recorded_session(account=account)
    answer = session.histogram(item="page", contributions=1, counts="gaussian:20")
    assert [format_use(use) for use in answer.spent] == ["gaussian:20.0", "approx:0.0,1e-07"]
    session.histogram(item="page", contributions=1, counts="pure:0.3")
    rest = left(account)
    assert (rest["pure:0.3"], rest["approx:0.0,1e-07"]) == (1, 1)
    with pytest.raises(BudgetExhausted, match="it costs more than is left; Gaussian noise of sigma"):
        session.histogram(item="page", contributions=1, counts="gaussian:2")
    with pytest.raises(BudgetExhausted, match=r"only pure:0\.3x2"):
        session.histogram(item="page", contributions=3, counts="pure:0.3")


def test_the_most_is_charged_and_the_unused_comes_back(ledger):
    account = ledger.account("ada")
    _, session = recorded_session(account=account)
    planned = session.preview(Query.top_k(item="page", k=6), Draws(discover="bounded-range:0.5", counts="pure:0.3"))
    assert [format_use(use) for use in planned.uses] == ["bounded-range:0.5x6", "approx:0.0,1e-07", "pure:0.3x6"]
    answer = session.top_k(k=6, counts="pure:0.3", key="a", **PICKS)
    found = len(answer)
    assert 1 <= found < 6
    assert {use.guarantee: use.count for use in answer.spent} == {
        BoundedRange(epsilon=0.5): found + 1,
        ApproxDP(epsilon=0.0, delta=1e-7): 1,
        PureDP(epsilon=0.3): found,
    }
    assert left(account) == {
        "bounded-range:0.5": 19 - found,
        "pure:0.3": 10 - found,
        "gaussian:20.0": 10,
        "approx:0.0,1e-07": 2,
    }
    assert set(account.status().spent) == set(answer.spent)
    assert session.spent == account.status().spent
    assert session.guarantee(1e-5).interaction == "setwise"


@pytest.mark.parametrize(
    ("k", "discover", "refused"),
    [(6, "bounded-range:44.5", InvalidParameter), (21, "bounded-range:0.5", BudgetExhausted)],
)
def test_draws_that_an_account_never_had_are_refused_uncomposed(ledger, monkeypatch, k, discover, refused):
    monkeypatch.setattr("setwise.analytics.planning.plan.certified_price", lambda *_: pytest.fail("composed"))
    _, session = recorded_session(account=ledger.account("ada"))
    with pytest.raises(refused, match=r"'ada'.*bounded-range:0.5x20"):
        session.preview(Query.top_k(item="page", k=k), Draws(discover=discover))


def test_a_replay_is_identical_and_free_even_in_another_session(ledger):
    account = ledger.account("ada")
    _, session = recorded_session(account=account)
    first = session.top_k(k=2, counts="gaussian:20", key="a", **PICKS)
    before = left(account)
    other_engine, other = recorded_session(account=ledger.account("ada"))
    assert other.top_k(k=2, counts="gaussian:20", key="a", **PICKS) == first
    assert other_engine.events == []
    assert left(account) == before
    with pytest.raises(KeyConflict):
        other.top_k(k=1, counts="gaussian:20", key="a", **PICKS)


def test_a_run_that_failed_can_be_run_again_under_its_charge(ledger):
    account = ledger.account("ada")
    engine, session = recorded_session(account=account)
    engine.failing = True
    with pytest.raises(EngineFailed):
        session.top_k(k=2, key="a", **PICKS)
    charged = left(account)
    assert charged["bounded-range:0.5"] == 18
    engine.failing = False
    assert session.top_k(k=2, key="a", **PICKS).labels == ("home", "help")
    assert left(account) == charged


class MeetingEngine(RecordedEngine):
    """Reads its rows only when every run of a race has made its charge and has come here."""

    def __init__(self, engine, meeting):
        super().__init__(engine)
        self._meeting = meeting

    def _noted(self, event, work):
        self._meeting.wait(timeout=60)
        return super()._noted(event, work)


def test_runs_that_race_to_settle_one_key_show_one_answer(ledger, tmp_path):
    """Both charge before either has an answer, both run, with noise of their own; the first stored answer is both's."""
    meeting = threading.Barrier(2)

    def run(_):
        with Ledger.open(str(tmp_path / "ledger.db")) as own:
            engine = MeetingEngine(open_engine(visits()), meeting)
            session = Session(
                engine, user="who", name="visits", randomness=SystemRandomness(), account=own.account("ada")
            )
            answer = session.top_k(k=6, counts="pure:0.3", key="a", **PICKS)
            return answer, engine.events

    with ThreadPoolExecutor(2) as pool:
        (one, first), (other, second) = pool.map(run, range(2))
    assert first == second == [("top", 1001)]
    assert one == other
    account = ledger.account("ada")
    assert account.status().charges == 1
    assert [entry.contents.kind for entry in ledger.history("ada")] == ["charge", "settle"]
    assert left(account)["pure:0.3"] == 10 - len(one)
    assert left(account)["bounded-range:0.5"] == 20 - min(len(one) + 1, 6)
    _, session = recorded_session(account=account)
    assert session.top_k(k=6, counts="pure:0.3", key="a", **PICKS) == one
    assert ledger.verify().faults == ()


def test_an_exhausted_account_leaves_the_data_untouched(ledger):
    engine, session = recorded_session(account=ledger.account("ada"))
    with pytest.raises(BudgetExhausted):
        session.top_k(k=21, **PICKS)
    with pytest.raises(InvalidParameter, match="not registered"):
        session.top_k(item="page", k=2, discover="bounded-range:0.4")
    assert engine.events == []


@pytest.mark.parametrize(("per_item", "epsilon"), [(1, 0.3), (7, 0.3), (3, 0.1), (1, 0.7)])
def test_pure_counts_get_noise_that_is_wide_enough(ledger, per_item, epsilon):
    """The scale is a float at least per_item / epsilon, exactly compared."""
    _, session = recorded_session(account=ledger.account("bob"))
    spending = Draws(discover="bounded-range:0.5", counts=PureDP(epsilon=epsilon), threshold_delta=1e-8)
    planned = session.plan(Query.top_k(item="page", k=2, per_item=per_item), spending)
    noise = planned.mechanism.noise
    assert isinstance(noise, LaplaceNoise)
    assert Fraction(per_item) / noise.scale <= Fraction(epsilon)
    assert float(noise.scale) == pytest.approx(per_item / epsilon, rel=1e-15)
    assert PureDP(epsilon=epsilon) in {use.guarantee for use in planned.plan.uses}


def test_gaussian_counts_are_drawn_as_registered(ledger):
    _, session = recorded_session(account=ledger.account("ada"))
    planned = session.plan(
        Query.top_k(item="page", k=4, contributions=3, per_item=5),
        Draws(discover="bounded-range:0.5", counts="gaussian:20"),
    )
    assert {use.guarantee: use.count for use in planned.plan.uses}[Gaussian(sigma=20.0)] == 3
    # Three draws, each worth 1/20^2, buy less noise for four counts that share a part of it: 1.5/sqrt(3) of 5 * 20.
    assert float(planned.mechanism.noise.sigma) == pytest.approx(100 * 1.5 / 3**0.5, rel=1e-9)


def test_a_histogram_and_a_count_draw_one_count_for_each_that_can_change(ledger):
    account = ledger.account("ada")
    _, session = recorded_session(account=account)
    answer = session.histogram(item="page", domain=["home", "help"], counts="gaussian:20")
    assert [format_use(use) for use in answer.spent] == ["gaussian:20.0x2"]
    answer = session.histogram(item="page", contributions=1, counts="pure:0.3")
    assert [format_use(use) for use in answer.spent] == ["pure:0.3", "approx:0.0,1e-07"]
    answer = session.histogram(item="page", contributions=2, counts="gaussian:20")
    assert [format_use(use) for use in answer.spent] == ["gaussian:20.0x2", "approx:0.0,1e-07"]
    assert answer.labels == ("home", "help")
    answer = session.count(counts="pure:0.3")
    assert [format_use(use) for use in answer.spent] == ["pure:0.3"]
    assert left(account) == {"bounded-range:0.5": 20, "pure:0.3": 8, "gaussian:20.0": 6, "approx:0.0,1e-07": 1}


def test_filters_take_any_parameters_and_give_nothing_back(ledger):
    account = ledger.account("bob")
    _, session = recorded_session(account=account)
    answer = session.top_k(item="page", k=6, discover="bounded-range:0.31", counts="gaussian:31", delta=1e-8)
    assert answer.interaction == "adaptive"
    after = account.status().share_left
    planned = session.top_k(item="page", k=2, epsilon=0.5, delta=1e-7)
    assert planned.epsilon.upper <= 0.6
    assert account.status().share_left < after
    assert session.guarantee(1e-5).upper == pytest.approx(3.0)


def test_a_total_on_a_filter_also_states_its_own_guarantee(ledger):
    _, session = recorded_session(account=ledger.account("bob"))
    answer = session.top_k(item="page", k=2, epsilon=0.5, delta=1e-7, key="a")
    epsilon, delta = answer.alone
    assert (epsilon <= 0.5, delta) == (True, 1e-7)
    assert answer.delta == 1e-5
    assert f"The answer is ({rounded_up(epsilon, 4)}, 1e-07)-differentially private" in answer.guarantee
    assert compose(answer.spent).epsilon(1e-7).upper <= epsilon
    again = session.top_k(item="page", k=2, epsilon=0.5, delta=1e-7, key="a")
    assert (again, again.alone, again.replayed, answer.replayed) == (answer, answer.alone, True, False)
    drawn = session.top_k(item="page", k=2, discover="bounded-range:0.1", delta=1e-8)
    assert drawn.alone is None


@pytest.mark.parametrize("words", [{"epsilon": 2.5}, {"epsilon": 2.5, "delta": 1e-7}, {"epsilon": 5.0, "delta": 1e-7}])
def test_a_filter_that_cannot_pay_says_what_it_needs_and_what_would_fit(ledger, words):
    ledger.open_filter("poor", epsilon=2.0, delta=1e-6)
    account = ledger.account("poor")
    engine, session = recorded_session(account=account)
    with pytest.raises(
        BudgetExhausted, match=r"it costs more than is left; (the epsilon of .* cost more; )?it would fit with"
    ) as told:
        session.count(**words)
    assert (engine.events, account.status().charges) == ([], 0)
    epsilon, noise, delta = re.search(
        r"fit with (?:an epsilon of ([\d.]+))?(?:, or with )?(?:Gaussian noise: add (counts='gaussian')"
        r"(?:, delta=([\de.-]+))?)?$",
        str(told.value),
    ).groups()
    query, total = Query.count(), Total(**{"delta": 0, **words})
    assert session.shortage(query, total, session.preview(query, total)) == str(told.value)
    assert epsilon or noise
    if noise:
        noisier = {**words, "counts": "gaussian", **({"delta": float(delta)} if delta else {})}
        assert (
            session.shortage(
                query, Total(**{"delta": 0, **noisier}), session.preview(query, Total(**{"delta": 0, **noisier}))
            )
            is None
        )
    if epsilon:
        assert len(session.count(**words | {"epsilon": float(epsilon)})) == 1
    else:
        assert len(session.count(**noisier)) == 1


def test_what_would_fit_counts_the_sum_of_epsilons(ledger):
    """Of a wallet that is empty, the largest epsilon to two digits is what is left of the sum."""
    ledger.open_filter("poor", epsilon=2.0, delta=1e-6)
    account = ledger.account("poor")
    account.charge([parse_use("pure:0.8")], key="first", request="q")  # more than the wallet has
    _, session = recorded_session(account=account)
    with pytest.raises(BudgetExhausted, match=r"it would fit with an epsilon of 1\.[12]$"):
        session.count(epsilon=1.5, counts="laplace")


def test_what_would_fit_is_the_largest_epsilon_with_any_noise(ledger):
    """An epsilon of 0.29 was said to fit, that of Laplace noise, and then 1 was accepted, with Gaussian noise."""
    ledger.open_filter("poor", epsilon=3.0, delta=1e-6)
    account = ledger.account("poor")
    account.charge([parse_use("gaussian:1.6")], key="first", request="q")
    _, session = recorded_session(account=account)
    with pytest.raises(BudgetExhausted, match=r"it costs more than is left; it would fit with an epsilon of") as told:
        session.count(epsilon=2.5)
    epsilon = float(re.search(r"an epsilon of ([\d.]+)$", str(told.value))[1])
    assert epsilon > 3 * account.status().laplace_epsilon_left
    with pytest.raises(BudgetExhausted):
        session.count(epsilon=epsilon + 0.1)
    assert len(session.count(epsilon=epsilon)) == 1


def test_a_refusal_of_an_epsilon_that_is_left_says_why(ledger):
    """A histogram of epsilon 1 was refused below the words "epsilon 2.8 of 3 left"."""
    ledger.open_filter("poor", epsilon=3.0, delta=1e-5)
    account = ledger.account("poor")
    account.charge([parse_use("gaussian:2.5")], key="first", request="q")
    left = account.status().epsilon_left
    _, session = recorded_session(account=account)
    why = (
        f"the epsilon of {rounded_down(left, 2)} that is left is for Gaussian noise with stated bounds, as other noise"
    )
    with pytest.raises(BudgetExhausted, match=re.escape(why)) as told:
        session.count(epsilon=0.9 * left, counts="laplace")
    epsilon = re.search(r"it would fit with an epsilon of ([\d.]+)", str(told.value))[1]
    assert len(session.count(epsilon=float(epsilon), counts="laplace")) == 1


def test_a_shortage_is_none_when_enough_is_left(ledger):
    _, session = recorded_session(account=ledger.account("ada"))
    draws = Draws(discover="bounded-range:0.5")
    query = Query.top_k(item="page", k=2)
    assert session.shortage(query, draws, session.preview(query, draws)) is None
    for key in ("a", "b", "c"):
        session.top_k(k=2, key=key, **PICKS)
    lacking = session.shortage(query, draws, session.preview(query, draws))
    assert "needs approx:0.0,1e-07, and bounded-range:0.5x14" in lacking
    with pytest.raises(BudgetExhausted, match=r"needs approx:0\.0,1e-07"):
        session.top_k(k=2, key="d", **PICKS)
    assert session.top_k(k=2, key="a", **PICKS).replayed


def test_one_of_several_thresholds_must_be_named(ledger):
    ledger.open_setwise("eve", ["bounded-range:0.5x4", "approx:0,1e-7", "approx:0,1e-8"], delta=1e-5)
    _, session = recorded_session(account=ledger.account("eve"))
    with pytest.raises(InvalidParameter, match="several"):
        session.top_k(k=2, **PICKS)
    answer = session.top_k(k=2, delta=1e-8, **PICKS)
    assert ApproxDP(epsilon=0.0, delta=1e-8) in {use.guarantee for use in answer.spent}


def test_draws_that_make_no_sense(ledger):
    _, session = recorded_session(account=ledger.account("ada"))
    for words, named in (
        ({"item": "page", "k": 2}, "discover"),
        ({"item": "page", "k": 2, "counts": "pure:0.3"}, "discover"),
        ({"item": "page", "k": 2, "discover": "pure:0.3"}, "bounded-range"),
        ({"item": "page", "k": 2, "discover": "bounded-range:0.5x2"}, "count"),
        ({"item": "page", "k": 2, "discover": "bounded-range:0.5", "counts": "zcdp:0.1"}, "zcdp"),
        ({"item": "page", "k": 2, "epsilon": 1.0, "delta": 1e-6}, "registered"),
        ({"item": "page", "k": 2, "discover": "bounded-range:0.5", "mechanism": "unknown_gumbel"}, "mechanism"),
    ):
        with pytest.raises(InvalidParameter, match=named):
            session.top_k(**words)
    _, session = recorded_session(account=ledger.account("bob"))
    with pytest.raises(InvalidParameter, match="threshold"):
        session.top_k(item="page", k=2, discover="bounded-range:0.5")


def test_statistics_draw_what_is_registered(ledger):
    _, session = recorded_session(account=ledger.account("ada"))
    mean = session.mean(value="minutes", low=0, high=10, counts="pure:0.3")
    assert [format_use(use) for use in mean.spent] == ["pure:0.3x2"]
    assert left(ledger.account("ada"))["pure:0.3"] == 8
    median = session.quantile(value="minutes", low=0, high=10, discover="bounded-range:0.5")
    assert [format_use(use) for use in median.spent] == ["bounded-range:0.5"]
    by_page = session.sum(
        value="minutes", low=-5, high=10, item="page", domain=["home", "help"], contributions=1, counts="gaussian:20"
    )
    assert [format_use(use) for use in by_page.spent] == ["gaussian:20.0"]
    with pytest.raises(InvalidParameter, match="picked: give discover"):
        session.ask(Query(item="page", k=2, statistics=MEANS), Draws(counts="pure:0.3"))
    with pytest.raises(InvalidParameter, match="discover"):
        session.quantile(value="minutes", low=0, high=10, counts="pure:0.3")


def test_statistics_of_groups_that_draws_find(ledger):
    account = ledger.account("ada")
    _, session = recorded_session(account=account)
    query = Query(item="page", contributions=1, statistics=(Count(), *MEANS))
    answer = session.ask(query, Draws(counts="pure:0.3"))
    assert {"home", "help"} <= set(answer.labels)
    assert [format_use(use) for use in answer.spent] == ["pure:0.3x3", "approx:0.0,1e-07"]
    picked = session.ask(
        Query(item="page", k=2, statistics=(Count(), *MEANS)), Draws(discover="bounded-range:0.5", counts="gaussian:20")
    )
    assert picked.labels == ("home", "help")
    assert abs(picked.items[0].estimates[0].value - 2000) < 150
    assert {format_use(use) for use in picked.spent} == {"bounded-range:0.5x2", "approx:0.0,1e-07", "gaussian:20.0x6"}
    assert left(account)["pure:0.3"] == 7


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1 / 3, 0.7])
@pytest.mark.parametrize("high", [1, 7, 600, 12345])
def test_noise_of_drawn_statistics_is_never_below_what_is_charged(ledger, epsilon, high):
    ledger.open_setwise(f"e{high}-{str(epsilon)[:6]}", [f"pure:{epsilon}x2"], delta=1e-5)
    _, session = recorded_session(account=ledger.account(f"e{high}-{str(epsilon)[:6]}"))
    planned = session.plan(Query.mean(value="minutes", low=0, high=high), Draws(counts=f"pure:{epsilon}"))
    for use in planned.mechanism.guarantees():
        assert Fraction(use.guarantee.sensitivity) / Fraction(use.guarantee.scale) <= Fraction(epsilon)


PAGES = {"item": "page", "contributions": 20, "epsilon": 1.0, "delta": 1e-7}


def test_noise_that_an_account_can_still_pay_for_is_chosen_unless_it_is_named(ledger):
    """A pure count of epsilon 1 ends what pays for Gaussian noise; a question of 1 is then answered from the 2 left."""
    ledger.open_filter("dan", epsilon=3.0, delta=1e-6)
    account = ledger.account("dan")
    _, session = recorded_session(account=account)
    session.count(epsilon=1.0, delta=0.0)
    query = Query.histogram(item="page", contributions=20)
    ledger.open_filter("fresh", epsilon=3.0, delta=1e-6)
    _, unspent = recorded_session(account=ledger.account("fresh"))
    best = unspent.preview(query, Total(epsilon=1.0, delta=1e-7))
    assert any(isinstance(use.guarantee, Gaussian) for use in best.uses)  # what the planner chooses by itself
    with pytest.raises(BudgetExhausted, match="not for Gaussian noise"):
        session.histogram(counts="gaussian", **PAGES)
    planned = session.preview(query, Total(epsilon=1.0, delta=1e-7))
    assert not any(isinstance(use.guarantee, Gaussian) for use in planned.uses)
    answer = session.histogram(key="pages", **PAGES)
    assert answer.mechanism == planned.mechanism
    again = session.histogram(key="pages", **PAGES)
    assert (again.replayed, again.items, account.status().charges) == (True, answer.items, 2)
    with pytest.raises(KeyConflict):
        session.histogram(key="pages", **{**PAGES, "contributions": 3})
    with pytest.raises(BudgetExhausted, match="epsilon"):
        session.histogram(**{**PAGES, "epsilon": 2.5})


def test_a_statement_of_two_selects_is_paid_with_noise_that_the_account_can_pay_for(ledger):
    ledger.open_filter("dan", epsilon=4.0, delta=1e-6)
    account = ledger.account("dan")
    _, session = recorded_session(account=account)
    session.count(epsilon=2.0, delta=0.0)
    text = (
        "SELECT a.page, a.n, b.m FROM (SELECT page, COUNT(DISTINCT who) AS n FROM visits GROUP BY page) a JOIN "
        "(SELECT page, COUNT(*) AS m FROM visits GROUP BY page) b ON a.page = b.page"
    )
    question = session.ask_sql(text, {"epsilon": 1.5, "delta": 1e-7, "contributions": 2})
    assert question.shortage(question.plan()) is None
    assert question.ask("joined").rows == question.ask("joined").rows
    assert account.status().charges == 2


def test_questions_of_a_half_are_answered_one_after_the_other_from_an_account_of_three(ledger):
    """A count, a top k with Gaussian noise and a mean: the top k took 1.3 of 2.5, and the mean was refused."""
    ledger.open_filter("dan", epsilon=3.0, delta=1e-6)
    account = ledger.account("dan")
    _, session = recorded_session(account=account)
    session.count(epsilon=0.5)
    assert account.status().epsilon_left == pytest.approx(2.5)
    session.top_k(item="page", k=10, epsilon=0.5, delta=1e-7)
    assert account.status().epsilon_left > 1.7
    for _ in range(3):
        session.mean(value="minutes", low=0, high=60, epsilon=0.5)
    assert account.status().epsilon_left > 0.2


@pytest.mark.parametrize("order", ["cg", "gc", "ccgcg", "gccgc", "gggcc"])
def test_a_question_takes_at_most_its_epsilon_from_what_is_left(ledger, order):
    """Counts without a delta and histograms for which the planner takes Gaussian noise, in any order, until refused."""
    ledger.open_filter("dan", epsilon=3.0, delta=1e-6)
    account = ledger.account("dan")
    _, session = recorded_session(account=account)
    for number, letter in enumerate(5 * order):
        before = account.status().epsilon_left
        ask = {
            "c": lambda key: session.count(epsilon=0.4, key=key),
            "g": lambda key: session.histogram(item="page", domain=("home", "help"), epsilon=0.4, delta=2e-8, key=key),
        }[letter]
        if before < 0.4:
            break
        answer = ask(str(number))
        assert account.status().epsilon_left >= before - 0.4 * (1 + 1e-6), number
        assert ask(str(number)).items == answer.items, "a retry finds its charge, whatever noise it would take now"
    assert account.status().charges >= 7
    assert not ledger.verify().faults


def test_a_question_of_more_than_is_left_gets_no_delta_that_it_did_not_ask_for(ledger):
    ledger.open_filter("dan", epsilon=2.0, delta=1e-6)
    _, session = recorded_session(account=ledger.account("dan"))
    with pytest.raises(BudgetExhausted, match=r"or with Gaussian noise: add counts='gaussian', delta="):
        session.count(epsilon=2.05)


def test_what_would_fit_is_smaller_in_epsilon_and_in_delta_if_both_are_too_large(ledger):
    """A refusal named the delta, and who asked with a smaller one was refused again, for the epsilon."""
    ledger.open_filter("poor", epsilon=2.0, delta=1e-6)
    account = ledger.account("poor")
    account.charge([parse_use("approx:1.5,4e-9")], key="first", request="q")
    _, session = recorded_session(account=account)
    with pytest.raises(BudgetExhausted) as told:
        session.histogram(item="page", contributions=1, epsilon=1.0, delta=1e-6)
    message = str(told.value)
    assert "it needs a failure probability of 8e-07" in message
    assert "it needs epsilon 1, and epsilon 0.5 is left" in message
    epsilon, delta = re.search(
        r"; it would fit with an epsilon of ([\d.]+) and a delta of ([\de.-]+)$", message
    ).groups()
    assert 0.2 < float(epsilon) <= 0.5
    session.histogram(item="page", contributions=1, epsilon=float(epsilon), delta=float(delta))
    assert account.status().charges == 2


CATALOG = """
[tables.visits]
source = "visits.csv"
user = "who"
bounds = { minutes = [0, 60] }
rows_per_user = 6
contributions = 3
[public.countries]
source = "countries.csv"
[public.capitals]
source = "capitals.csv"
"""


@pytest.fixture
def session(tmp_path):
    """A session without account on a table that a catalog declares, in a CSV file, whose columns are all text."""
    lines = [f"u{n % 1000},{('NO', 'SE')[n % 2]},{n % 60}" for n in range(6000)]
    (tmp_path / "visits.csv").write_text("\n".join(["who,country,minutes", *lines, ""]))
    (tmp_path / "countries.csv").write_text("country,name\nNO,Norway\nSE,Sweden\n")
    (tmp_path / "capitals.csv").write_text("name,capital\nNorway,Oslo\nSweden,Stockholm\n")
    (tmp_path / "catalog.toml").write_text(CATALOG)
    with setwise.open("visits", catalog=tmp_path / "catalog.toml") as opened:
        yield opened


def test_a_session_keeps_everything_but_its_payer(ledger, session):
    """It lost the declared bounds, the tables to join, the types that questions need and the advice on columns."""
    account = ledger.account("bob")
    paid = session.paid_by(account)
    result = paid.sql("SELECT AVG(minutes) AS m FROM visits", epsilon=0.5)
    assert [(bound["high"], bound["source"]) for bound in result.bounds] == [(60, "catalog")]
    assert account.status().charges == 1
    assert paid.count(epsilon=0.1).measure == "users"
    joined = paid.sql("SELECT name, COUNT(*) AS n FROM visits JOIN countries USING (country) GROUP BY 1", epsilon=0.5)
    assert {row["name"] for row in joined} == {"Norway", "Sweden"}
    by_country = paid.histogram(item="country", epsilon=0.5, delta=1e-6)
    assert "at most 3 groups" in by_country.measure
    assert account.status().charges == 4
    with pytest.raises(UnknownColumn) as plain:
        session.histogram(item="city", epsilon=0.1, delta=1e-6)
    with pytest.raises(UnknownColumn) as refused:
        paid.histogram(item="city", epsilon=0.1, delta=1e-6)
    assert str(refused.value) == str(plain.value)
    assert "setwise check" in str(plain.value)
    assert session.spent == ()


def test_a_joined_session_that_an_account_pays_for_joins_further_tables_at_its_cost(ledger, session):
    account = ledger.account("bob")
    joined = session.join("countries", using="country").paid_by(account)
    by_name = joined.histogram(item="name", epsilon=0.5, delta=1e-6, contributions=1)
    assert set(by_name.labels) == {"Norway", "Sweden"}
    further = joined.join("capitals", using="name")
    by_capital = further.histogram(item="capital", epsilon=0.5, delta=1e-6, contributions=1)
    assert set(by_capital.labels) == {"Oslo", "Stockholm"}
    assert (account.status().charges, session.spent) == (2, ())


def test_sessions_close_the_tables_that_an_account_paid_to_join(ledger, session, monkeypatch):
    closed = []
    close = DuckDBEngine.close
    monkeypatch.setattr(DuckDBEngine, "close", lambda engine: (closed.append(engine), close(engine)))
    paid = session.paid_by(ledger.account("bob"))
    engines = [
        paid.reader,
        paid.join("countries", using="country").reader,
        paid.ask_sql("SELECT AVG(minutes) AS m FROM visits", {"epsilon": 0.5}).sessions[0].reader,
    ]
    session.close()
    assert len(set(map(id, engines))) == 3
    assert all(engine in closed for engine in engines)


def test_an_account_of_another_dataset_does_not_pay_for_a_session(ledger, session, tmp_path):
    """It paid, so that the joint promise about this table left the charges out."""
    ledger.open_filter("sales", epsilon=3.0, delta=1e-5, dataset="sales")
    ledger.open_filter("visits", epsilon=3.0, delta=1e-5, dataset="visits")
    with pytest.raises(InvalidParameter, match="is for the dataset 'sales', and this table is known as 'visits'"):
        session.paid_by(ledger.account("sales"))
    with pytest.raises(InvalidParameter, match="'bob' is not one of them"):
        session.paid_by(ledger.account("bob"))
    joined = session.join("countries", using="country")
    with pytest.raises(InvalidParameter, match="is for the dataset 'sales'"):
        joined.paid_by(ledger.account("sales"))
    joined.paid_by(ledger.account("visits")).count(epsilon=0.5)
    session.paid_by(ledger.account("sales"), dataset="sales").count(epsilon=0.5)
    (tmp_path / "orders.csv").write_text("who,amount\nu1,3\n")
    with (
        setwise.open(tmp_path / "visits.csv", user="who", private={"orders": tmp_path / "orders.csv"}) as both,
        pytest.raises(InvalidParameter, match="is for the dataset 'visits', and this table is known as 'orders'"),
    ):
        both.paid_by(ledger.account("visits"))
    assert [ledger.account(name).status().charges for name in ("sales", "visits", "bob")] == [1, 1, 0]
