"""The statement of an account: every charge once, what came back, and the odometer of each moment."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.accounting.notation import parse_use
from setwise.ledger.ledger import Ledger
from setwise.service.pages.account import charges_of, odometer_readings
from tests.service.team import Team, asked
from tests.sizes import examples
from tests.web.shop import top

steps = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 4), st.booleans()), min_size=1, max_size=8
)


@settings(max_examples=examples(15), deadline=None)
@given(steps=steps, total=st.booleans())
def test_the_odometer_of_each_moment_is_what_the_account_showed_then(
    tmp_path_factory, steps: list[tuple[int, int, int, bool]], total: bool
) -> None:
    path = Path(tmp_path_factory.mktemp("statement")) / "ledger.db"
    with Ledger.open(str(path)) as ledger:
        if total:
            ledger.open_filter("ada", epsilon=20.0, delta=1e-6)
        else:
            ledger.open_setwise("ada", ["bounded-range:0.1x40", "pure:0.2x40"], delta=1e-6)
        account = ledger.account("ada")
        shown = []
        for number, (picks, counts, back, settled) in enumerate(steps):
            uses = [parse_use(f"bounded-range:0.1x{picks}")] + ([parse_use(f"pure:0.2x{counts}")] if counts else [])
            receipt = account.charge(uses, key=f"k{number}", request="{}")
            if settled:
                returned = [parse_use(f"bounded-range:0.1x{min(back, picks)}")] if back else []
                account.settle(receipt, answer="done", returned=returned)
            shown.append(account.status().odometer.upper)
        charges = charges_of(ledger.history("ada"))
        readings = odometer_readings(account, charges, "", account.status().loss_so_far)
        assert [each.number for each in charges] == list(range(1, len(steps) + 1))
        assert [each.answered for each in charges] == [settled for *_, settled in steps]
        assert len(readings) == len(shown)
        spent = 0.0
        for reading, odometer, (picks, counts, _, _) in zip(readings, shown, steps, strict=True):
            spent += 0.1 * picks + 0.2 * counts
            # A filter gets nothing back. Its status knows only sums of amounts; the entries also know the epsilons and
            # the exact zCDP constants, which are smaller by less than one percent here.
            expected = min(odometer, spent) if total else odometer
            assert (0.99 if total else 1 - 1e-9) * expected <= reading.epsilon <= (1 + 1e-9) * expected


def test_of_many_charges_some_readings_are_kept_and_the_last(tmp_path: Path) -> None:
    with Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        ledger.open_setwise("ada", ["pure:0.01x200"], delta=1e-6)
        account = ledger.account("ada")
        for number in range(130):
            account.charge([parse_use("pure:0.01")], key=f"k{number}", request="{}")
        readings = odometer_readings(account, charges_of(ledger.history("ada")), "", account.status().loss_so_far)
        assert len(readings) <= 61
        assert readings[-1].charge == 130
        assert readings[-1].epsilon == account.status().loss_so_far


def test_the_page_shows_what_was_bought_and_what_is_left(shop: Team) -> None:
    body = top(7, where="country = 'NO'")
    id_ = asked(shop.ada, "statement", body)["id"]
    page = shop.signed_in("ada").get("/accounts/ada-shop").text
    assert "Top 7 of product, where country = &#39;NO&#39;" in page
    assert f'href="/answers/{id_}"' in page
    standing = shop.ada.get("/accounts/ada-shop").json()
    assert f"<strong>{60 - 7}</strong> of 60" in page
    assert standing["charges"] == 1


def test_a_slice_of_the_cap_settles_nothing(tmp_path):
    with Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        ledger.set_cap("visits", epsilon=2.0, delta=1e-6)
        ledger.open_setwise("ada", ["pure:0.1x40"], delta=1e-6, dataset="visits")
        account = ledger.account("ada")
        account.charge([parse_use("pure:0.1")], key="3", request="{}")
        account.give_back()  # the third entry of the account, and its key is "3" too
        (charge,) = charges_of(ledger.history("ada"))
        assert not charge.answered
