"""Fixtures of this room: engines are closed, searches never mistake an empty bin, and noise can be set to zero."""

from fractions import Fraction

import numpy as np
import pytest

from setwise.mechanisms import contribution_bound, doubling_bounds, known_domain, quantile
from setwise.mechanisms.noise import (
    discrete,
    occupied_bins,
    rounded_gaussian,
    shared_gaussian,
    tail_estimates,
    truncated_gaussian,
)
from tests.analytics.recorded import OPENED


@pytest.fixture(autouse=True)
def _close_engines():
    yield
    while OPENED:
        OPENED.pop().close()


@pytest.fixture
def empty_bins_never_stand_out(monkeypatch):
    """Lower the chance of taking an empty bin for one with users to 10^-9, so that no test here fails by it."""
    for search in (contribution_bound, doubling_bounds):
        for name in [name for name in vars(search) if name.startswith("_MISTAKEN")]:
            monkeypatch.setattr(search, name, Fraction(1, 10**9))
    monkeypatch.setattr(tail_estimates, "_OCCUPIED", 1e-9)
    monkeypatch.setattr(occupied_bins, "_COST_OF_BIN", 8.0)


@pytest.fixture
def noiseless(monkeypatch: pytest.MonkeyPatch):
    """Replace every draw of noise by zero, and every pick under Gumbel noise by the highest scores."""

    def zeros(_noise: object, count: int, *_: object, **__: object) -> np.ndarray:
        return np.zeros(count, dtype=np.int64)

    def highest(scores: np.ndarray, _rate: object, k: int, *_: object, **__: object) -> np.ndarray:
        return np.argsort(-scores, kind="stable")[:k]

    for noise in (
        discrete.LaplaceNoise,
        discrete.GaussianNoise,
        rounded_gaussian.RoundedGaussianNoise,
        shared_gaussian.SharedGaussianNoise,
        truncated_gaussian.TruncatedGaussianNoise,
    ):
        monkeypatch.setattr(noise, "draw", zeros)
    for module in (known_domain, quantile):
        monkeypatch.setattr(module, "gumbel_order", highest)
