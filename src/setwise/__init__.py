"""Setwise: private analytics with the tightest provable privacy-loss composition.

>>> import setwise
>>> setwise.compose(["pure:0.1x25"]).epsilon(1e-6).upper < 2.0791
True
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setwise.accounting.answer import Answer as Answer
    from setwise.accounting.answer import Interaction as Interaction
    from setwise.accounting.calibrate import Calibrated as Calibrated
    from setwise.accounting.calibrate import largest_count as largest_count
    from setwise.accounting.calibrate import largest_epsilon as largest_epsilon
    from setwise.accounting.calibrate import smallest_noise as smallest_noise
    from setwise.accounting.compose import Composition as Composition
    from setwise.accounting.compose import compose as compose
    from setwise.accounting.filters import ZcdpFilter as ZcdpFilter
    from setwise.accounting.filters import ZcdpOdometer as ZcdpOdometer
    from setwise.accounting.guarantees import ApproxDP as ApproxDP
    from setwise.accounting.guarantees import BoundedRange as BoundedRange
    from setwise.accounting.guarantees import ConcentratedDP as ConcentratedDP
    from setwise.accounting.guarantees import DiscreteGaussian as DiscreteGaussian
    from setwise.accounting.guarantees import DiscreteLaplace as DiscreteLaplace
    from setwise.accounting.guarantees import Gaussian as Gaussian
    from setwise.accounting.guarantees import Guarantee as Guarantee
    from setwise.accounting.guarantees import Laplace as Laplace
    from setwise.accounting.guarantees import PureDP as PureDP
    from setwise.accounting.guarantees import TruncatedDiscreteGaussian as TruncatedDiscreteGaussian
    from setwise.accounting.guarantees import Use as Use
    from setwise.accounting.guarantees import ZeroConcentratedDP as ZeroConcentratedDP
    from setwise.accounting.intervals import Bracket as Bracket
    from setwise.accounting.notation import format_use as format_use
    from setwise.accounting.notation import parse_use as parse_use
    from setwise.analytics.answer import AnswerItem as AnswerItem
    from setwise.analytics.answer import PrivateAnswer as PrivateAnswer
    from setwise.analytics.budget import Draws as Draws
    from setwise.analytics.budget import Total as Total
    from setwise.analytics.planning import Planned as Planned
    from setwise.analytics.query import Count as Count
    from setwise.analytics.query import HistogramQuery as HistogramQuery
    from setwise.analytics.query import Sum as Sum
    from setwise.analytics.query import TopK as TopK
    from setwise.analytics.session import Session as Session
    from setwise.analytics.session import open as open
    from setwise.analytics.tables.domain import labels_of as labels_of
    from setwise.client.client import connect as connect
    from setwise.ledger.account import Account as Account
    from setwise.ledger.account import Receipt as Receipt
    from setwise.ledger.ledger import Ledger as Ledger
    from setwise.ledger.status import AccountStatus as AccountStatus
    from setwise.mechanisms.histogram import Histogram as Histogram
    from setwise.mechanisms.known_domain import Exponential as Exponential
    from setwise.mechanisms.known_domain import KnownGaussian as KnownGaussian
    from setwise.mechanisms.known_domain import KnownGumbel as KnownGumbel
    from setwise.mechanisms.known_domain import KnownLaplace as KnownLaplace
    from setwise.mechanisms.planning.planner import Plan as Plan
    from setwise.mechanisms.planning.planner import plan as plan
    from setwise.mechanisms.planning.request import CountNoise as CountNoise
    from setwise.mechanisms.planning.request import MechanismName as MechanismName
    from setwise.mechanisms.planning.request import Question as Question
    from setwise.mechanisms.randomness import SystemRandomness as SystemRandomness
    from setwise.mechanisms.release import Interval as Interval
    from setwise.mechanisms.release import Item as Item
    from setwise.mechanisms.release import Preview as Preview
    from setwise.mechanisms.release import Release as Release
    from setwise.mechanisms.two_phase import GaussianCounts as GaussianCounts
    from setwise.mechanisms.two_phase import LaplaceCounts as LaplaceCounts
    from setwise.mechanisms.two_phase import OrderedLeastSquares as OrderedLeastSquares
    from setwise.mechanisms.two_phase import TwoPhaseTopK as TwoPhaseTopK
    from setwise.mechanisms.unknown_gaussian import Threshold as Threshold
    from setwise.mechanisms.unknown_gaussian import TruncatedGaussian as TruncatedGaussian
    from setwise.mechanisms.unknown_gaussian import UnknownGaussian as UnknownGaussian
    from setwise.mechanisms.unknown_gumbel import UnknownGumbel as UnknownGumbel
    from setwise.mechanisms.unknown_laplace import UnknownLaplace as UnknownLaplace

# Loaded when first used, so that `import setwise` and `setwise --help` stay quick.
_HOMES = {
    "Account": "ledger.account",
    "AccountStatus": "ledger.status",
    "Answer": "accounting.answer",
    "AnswerItem": "analytics.answer",
    "ApproxDP": "accounting.guarantees",
    "BoundedRange": "accounting.guarantees",
    "Bracket": "accounting.intervals",
    "Calibrated": "accounting.calibrate",
    "Composition": "accounting.compose",
    "ConcentratedDP": "accounting.guarantees",
    "Count": "analytics.query",
    "CountNoise": "mechanisms.planning.request",
    "DiscreteGaussian": "accounting.guarantees",
    "DiscreteLaplace": "accounting.guarantees",
    "Draws": "analytics.budget",
    "Exponential": "mechanisms.known_domain",
    "Gaussian": "accounting.guarantees",
    "GaussianCounts": "mechanisms.two_phase",
    "Guarantee": "accounting.guarantees",
    "Histogram": "mechanisms.histogram",
    "HistogramQuery": "analytics.query",
    "Interaction": "accounting.answer",
    "Interval": "mechanisms.release",
    "Item": "mechanisms.release",
    "KnownGaussian": "mechanisms.known_domain",
    "KnownGumbel": "mechanisms.known_domain",
    "KnownLaplace": "mechanisms.known_domain",
    "Laplace": "accounting.guarantees",
    "LaplaceCounts": "mechanisms.two_phase",
    "Ledger": "ledger.ledger",
    "MechanismName": "mechanisms.planning.request",
    "OrderedLeastSquares": "mechanisms.two_phase",
    "Plan": "mechanisms.planning.planner",
    "Planned": "analytics.planning",
    "Preview": "mechanisms.release",
    "PrivateAnswer": "analytics.answer",
    "PureDP": "accounting.guarantees",
    "Question": "mechanisms.planning.request",
    "Receipt": "ledger.account",
    "Release": "mechanisms.release",
    "Session": "analytics.session",
    "Sum": "analytics.query",
    "SystemRandomness": "mechanisms.randomness",
    "Threshold": "mechanisms.unknown_gaussian",
    "TopK": "analytics.query",
    "Total": "analytics.budget",
    "TruncatedDiscreteGaussian": "accounting.guarantees",
    "TruncatedGaussian": "mechanisms.unknown_gaussian",
    "TwoPhaseTopK": "mechanisms.two_phase",
    "UnknownGaussian": "mechanisms.unknown_gaussian",
    "UnknownGumbel": "mechanisms.unknown_gumbel",
    "UnknownLaplace": "mechanisms.unknown_laplace",
    "Use": "accounting.guarantees",
    "ZcdpFilter": "accounting.filters",
    "ZcdpOdometer": "accounting.filters",
    "ZeroConcentratedDP": "accounting.guarantees",
    "compose": "accounting.compose",
    "connect": "client.client",
    "format_use": "accounting.notation",
    "labels_of": "analytics.tables.domain",
    "largest_count": "accounting.calibrate",
    "largest_epsilon": "accounting.calibrate",
    "open": "analytics.session",
    "parse_use": "accounting.notation",
    "plan": "mechanisms.planning.planner",
    "smallest_noise": "accounting.calibrate",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - computed from the table above, and tested against it


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'setwise' has no attribute {name!r}")
    return getattr(import_module(f"setwise.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
