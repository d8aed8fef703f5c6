"""What the page of an account says is left: registered uses as numbers of uses, and a wallet by its largest use."""

from setwise import Ledger
from setwise.accounting.notation import parse_use
from setwise.service.pages.account import largest_single_use, registered_kinds


def test_a_wallet_beside_registered_uses_is_no_kind_of_registered_use(tmp_path):
    """The rest of the wallet and what was spent from it stood as `1 of 1` and `0 of 1` among the registered uses."""
    with Ledger.open(f"{tmp_path}/ledger.db") as ledger:
        ledger.open_setwise("mixed", uses=["pure:0.1x5"], delta=1e-6, wallet=0.5)
        account = ledger.account("mixed")
        account.charge(["pure:0.1x2"], key="registered", request="{}")
        account.charge(["gaussian:10"], key="chosen", request="{}")
        status = account.status()
        assert registered_kinds(status) == [{"kind": "pure:0.1", "left": 3, "total": 5}]
        (largest,) = map(parse_use, largest_single_use(status))
        assert 2 < largest.guarantee.sigma < 10


def test_an_account_with_a_budget_has_no_registered_uses(tmp_path):
    with Ledger.open(f"{tmp_path}/ledger.db") as ledger:
        ledger.open_filter("budget", epsilon=1.0, delta=1e-6)
        ledger.open_setwise("registered", uses=["pure:0.1x5"], delta=1e-6)
        assert registered_kinds(ledger.account("budget").status()) == []
        assert largest_single_use(ledger.account("budget").status())
        assert largest_single_use(ledger.account("registered").status()) == []
