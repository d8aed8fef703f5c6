"""A budget in memory is charged once per key, also by threads that race for it."""

import threading

from setwise import PureDP, Use
from setwise.analytics.payer import OneOff
from setwise.errors import KeyConflict


class Pausing(dict):
    """A dictionary that lets other threads run between looking a key up and setting it."""

    def __init__(self):
        super().__init__()
        self.looked_up = threading.Event()

    def __contains__(self, key):
        found = super().__contains__(key)
        self.looked_up.set()
        threading.Event().wait(0.05)
        return found


def test_two_threads_with_one_key_and_two_requests():
    budget = OneOff()
    budget._charges = Pausing()
    accepted, refused = [], []

    def charge(request, epsilon):
        try:
            budget.charge([Use(PureDP(epsilon=epsilon))], (epsilon, 0.0), key="k", request=request)
            accepted.append(epsilon)
        except KeyConflict:
            refused.append(epsilon)

    first = threading.Thread(target=charge, args=("one", 1.0))
    first.start()
    budget._charges.looked_up.wait()
    charge("two", 0.1)
    first.join()
    assert len(accepted) == len(refused) == 1
    assert [use.guarantee.epsilon for (use,) in budget.charges] == accepted
    (charge,) = budget._charges.values()
    assert charge.total == (accepted[0], 0.0)
