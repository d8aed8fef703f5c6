"""The odometer as a stopping rule, and what is left, in the words and numbers that people read."""

import json
import math
import random
import re

import pytest

from setwise.accounting.brackets import Interaction
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import PureDP, Use
from setwise.cli.output import remaining_in_words
from setwise.errors import BudgetExhausted
from setwise.ledger.odometer import charge_guarantee, charge_sum_delta, failure_probability
from tests.ledger.test_accounts import uses


def request(epsilon, delta):
    """Return a request's text as analytics writes it."""
    return json.dumps({"query": {}, "spending": {"delta": delta, "epsilon": epsilon}})


def gaussian_for(epsilon, delta):
    """Return the Gaussian noise, to four digits, with which one question is (epsilon, delta)-DP."""
    low, high = 0.1, 1e4
    while high / low > 1.0001:
        middle = math.sqrt(low * high)
        fits = compose(uses(f"gaussian:{middle!r}"), Interaction.BATCH).epsilon(delta).upper <= epsilon
        low, high = (low, middle) if fits else (middle, high)
    return f"gaussian:{high!r}"


def test_the_odometer_never_exceeds_the_sum_of_the_charges(ledger):
    """Two questions of 0.40 and 0.50 on a budget of 4 read at most 0.90, of whatever noise they are."""
    for name, noise in (("gauss", None), ("laplace", "laplace:{}"), ("pure", "pure:{}")):
        ledger.open_filter(name, epsilon=4.0, delta=1e-6)
        account = ledger.account(name)
        for epsilon in (0.4, 0.5):
            inverse = 1 / epsilon if noise == "laplace:{}" else epsilon
            drawn = gaussian_for(epsilon, 1e-7) if noise is None else noise.format(inverse)
            account.charge(uses(drawn), key=str(epsilon), request=request(epsilon, 1e-7))
            first = 0.4 if epsilon == 0.4 else 0.9
            assert account.status_by_entries().odometer.upper <= first * (1 + 1e-9), (name, epsilon)
        status = account.status_by_entries()
        assert status.odometer.upper <= 0.9 * (1 + 1e-9), name
        assert status.odometer.lower <= status.odometer.upper
        assert status.odometer.upper <= account.status().odometer.upper * (1 + 1e-12)
        assert status.charged[0] == pytest.approx(0.9, rel=1e-3)


def test_a_charge_without_a_stated_delta_is_summed_too(ledger):
    """A live series states no delta of a question. Its Gaussian and a question of 1.8 read about 3, not 11."""
    ledger.open_filter("ada", epsilon=30.0, delta=1e-6)
    account = ledger.account("ada")
    account.charge(uses(gaussian_for(1.0, 4e-9)), key="live", request='{"live": {}}')
    account.charge(uses("approx:1.8,2e-8"), key="question", request=request(1.8, 3e-8))
    status = account.status_by_entries()
    assert status.odometer.method == "sum-of-charges"
    assert status.odometer.upper <= 2.85
    assert status.charged[1] <= charge_sum_delta(account.terms)


@pytest.mark.parametrize(
    "delta",
    ["1" + "0" * 400, "[" * 100_000 + "]" * 100_000, '"a"', "null", "NaN"],
    ids=["large", "nested", "text", "null", "nan"],
)
def test_a_delta_that_is_no_probability_counts_as_none(ledger, delta):
    """One such request, which the ledger stores as the caller wrote it, made every status of its account fail."""
    ledger.open_filter("ada", epsilon=4.0, delta=1e-6)
    account = ledger.account("ada")
    account.charge(uses("pure:0.5"), key="a", request=f'{{"spending": {{"delta": {delta}, "epsilon": 0.5}}}}')
    assert account.status_by_entries().odometer.upper == pytest.approx(0.5)


def test_random_charges_read_at_most_their_sum_while_their_deltas_fit(sqlite_ledger):
    order = random.Random(7)
    sqlite_ledger.open_filter("ada", epsilon=30.0, delta=1e-5)
    account = sqlite_ledger.account("ada")
    limit = charge_sum_delta(account.terms)
    assert limit == pytest.approx(0.4e-5)
    epsilon = delta = 0.0
    for number in range(25):
        drawn, own = order.choice(
            [
                ("gaussian:4.0", 1e-7),
                ("pure:0.3", None),
                ("gaussian:9", 3e-7),
                ("laplace:2", 1e-8),
                ("gaussian:1", 1e-6),
            ]
        )
        text = "q" if own is None else request(1.0, own)
        account.charge(uses(drawn), key=str(number), request=text)
        found = charge_guarantee(tuple(uses(drawn)), own)
        epsilon, delta = epsilon + found[0], delta + found[1]
        reading = account.status_by_entries().odometer
        if delta <= limit * (1 - 1e-9):
            assert reading.upper <= epsilon * (1 + 1e-9)
        else:
            assert reading.method != "sum-of-charges"
    assert delta > limit  # the rule ended on the way


def test_a_charge_without_delta_takes_a_hundredth_of_the_deltas_that_fit(ledger):
    ledger.open_filter("ada", epsilon=4.0, delta=1e-6)
    account = ledger.account("ada")
    account.charge(uses("pure:0.1"), key="1", request="q")
    assert account.status_by_entries().charged == (pytest.approx(0.1), 0.0)
    account.charge(uses("gaussian:20"), key="2", request="no delta is told")
    own = 0.01 * charge_sum_delta(account.terms)
    epsilon, delta = account.status_by_entries().charged
    assert delta == pytest.approx(own)
    assert epsilon == pytest.approx(0.1 + compose(uses("gaussian:20"), Interaction.BATCH).epsilon(own).upper, rel=1e-3)


def test_the_sum_counts_at_its_own_part_of_delta(ledger):
    """The parts of delta for the path reading, for the sum and for failures add up to delta."""
    for share in (0.0, 0.02, 0.2, 0.5):
        name = f"share {share}"
        ledger.open_filter(name, epsilon=4.0, delta=1e-6, failure_share=share)
        account = ledger.account(name)
        summed, failed = charge_sum_delta(account.terms), failure_probability(account.terms)
        assert failed == pytest.approx(share * 1e-6)
        assert 2 * summed + failed <= 1e-6 * (1 + 1e-12)
        summed *= 1 - 1e-12
        noise = gaussian_for(0.2, summed)
        account.charge(uses(noise), key="1", request=request(0.2, summed))
        assert account.status_by_entries().odometer.upper <= 0.2
        account.charge(uses(noise), key="2", request=request(0.2, summed))  # now their deltas do not fit
        after = account.status_by_entries().odometer
        assert after.method == "zcdp-odometer"
        assert after.upper > 1.001 * account.status_by_entries().path_odometer.upper  # at less of delta


def test_what_is_left_is_told_as_epsilon_and_as_further_questions(ledger):
    ledger.open_filter("ada", epsilon=3.0, delta=1e-6)
    account = ledger.account("ada")
    assert account.status_by_entries().epsilon_left == 3.0
    assert account.status_by_entries().more_like_last is None
    noise = gaussian_for(1.0, 1e-7)
    account.charge(uses(noise), key="0", request=request(1.0, 1e-7))
    status = account.status_by_entries()
    assert 2.0 < status.epsilon_left < 3.0
    assert status.to_dict()["epsilon_left"] == status.epsilon_left
    granted = 0
    while True:
        try:
            account.charge(uses(noise), key=f"more {granted}", request=request(1.0, 1e-7))
        except BudgetExhausted:
            break
        granted += 1
    assert granted >= status.more_like_last >= granted - 1
    assert account.status_by_entries().more_like_last == 0
    left = account.status_by_entries().epsilon_left
    assert 0.0 <= left < 1.0
    if left > 0.05:  # a question of a little less fits, one of clearly more does not
        assert account.shortage(uses(gaussian_for(1.2 * left, 1e-6 * 0.8))) is not None
        assert account.shortage(uses(gaussian_for(0.98 * left, 1e-6 * 0.8))) is None


def test_what_is_left_never_rises_and_can_be_spent(ledger):
    """Pure questions are paid by the sum of epsilons too, which can be worth more than the rest of the wallet."""
    ledger.open_filter("ada", epsilon=3.0, delta=1e-6)
    account = ledger.account("ada")
    told = [account.status_by_entries().epsilon_left]
    for place in range(5):
        account.charge(uses("pure:0.5"), key=str(place), request="q")
        told.append(account.status_by_entries().epsilon_left)
    assert told == pytest.approx([3.0, 2.5, 2.0, 1.5, 1.0, 0.5])
    assert told == sorted(told, reverse=True)
    account.charge([Use(PureDP(epsilon=told[-1]))], key="last", request="q")


def test_registered_uses_count_what_still_fits(ledger):
    ledger.open_setwise("ada", ["pure:0.1x10"], delta=1e-6)
    account = ledger.account("ada")
    account.charge(uses("pure:0.1x3"), key="1", request="q")
    status = account.status_by_entries()
    assert (status.more_like_last, status.epsilon_left) == (2, None)
    assert status.odometer.upper == pytest.approx(0.3)


def test_a_question_with_a_tenth_of_delta_fits_by_default(ledger):
    """An account of (3, 1e-6) and a cap of it pay for thresholds that fail with 1e-7; a refusal says what to do."""
    ledger.set_cap("visits", epsilon=3.0, delta=1e-6)
    ledger.open_filter("ada", epsilon=3.0, delta=1e-6, dataset="visits")
    account = ledger.account("ada")
    account.charge(uses("pure:0.1", "approx:0,1e-7"), key="1", request="q")
    account.charge(uses("pure:0.1", "approx:0,9e-8"), key="2", request="q")
    with pytest.raises(BudgetExhausted, match=r"ask with a delta below 1e-08, or use .* larger failure share"):
        account.charge(uses("pure:0.1", "approx:0,1e-7"), key="3", request="q")
    account.charge(uses("pure:0.1", "approx:0,9e-9"), key="4", request="q")
    assert not ledger.verify().faults


def test_what_is_left_for_laplace_noise_can_be_spent_on_it(ledger):
    """`epsilon 1.8 of 3 left` could not pay for a count of epsilon 0.5, because 1.8 was that of Gaussian noise.

    Later `2.8 of 3 left for Gaussian noise, at least 0.53 for Laplace noise` left open which number counts, and why.
    """
    ledger.open_filter("noisy", epsilon=3.0, delta=1e-6)
    account = ledger.account("noisy")
    account.charge(["gaussian:2.5"], key="first", request="{}")
    status = account.status()
    assert 0 < status.laplace_epsilon_left < 0.9 * status.epsilon_left
    assert account.shortage([PureDP(epsilon=status.laplace_epsilon_left * 0.999)]) is None
    assert account.shortage([PureDP(epsilon=status.epsilon_left * 0.999)]) is not None
    words = remaining_in_words(status)
    assert re.fullmatch(
        r"of epsilon 3 in noisy, at least [\d.]+ is left for any question, up to [\d.]+ for counts with Gaussian "
        r"noise, which add up more slowly",
        words,
    ), words
