"""Setwise: private analytics with the tightest provable privacy-loss composition.

>>> import setwise
>>> setwise.compose(["pure:0.1x25"]).epsilon(1e-6).upper < 2.0791
True
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setwise.accounting.answer import Answer as Answer
    from setwise.accounting.bracket import Bracket as Bracket
    from setwise.accounting.calibrate import Calibrated as Calibrated
    from setwise.accounting.calibrate import largest_count as largest_count
    from setwise.accounting.calibrate import largest_epsilon as largest_epsilon
    from setwise.accounting.calibrate import smallest_noise as smallest_noise
    from setwise.accounting.compose import Composition as Composition
    from setwise.accounting.compose import compose as compose
    from setwise.accounting.filter import ZcdpFilter as ZcdpFilter
    from setwise.accounting.filter import ZcdpOdometer as ZcdpOdometer
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
    from setwise.accounting.guarantees import ZeroConcentratedDP as ZeroConcentratedDP
    from setwise.accounting.interaction import Interaction as Interaction
    from setwise.accounting.notation import format_use as format_use
    from setwise.accounting.notation import parse_use as parse_use
    from setwise.accounting.use import Use as Use
    from setwise.analytics.domain import labels_of as labels_of
    from setwise.analytics.opening import open as open
    from setwise.analytics.planned import Planned as Planned
    from setwise.analytics.private_answer import AnswerItem as AnswerItem
    from setwise.analytics.private_answer import PrivateAnswer as PrivateAnswer
    from setwise.analytics.query import Count as Count
    from setwise.analytics.query import HistogramQuery as HistogramQuery
    from setwise.analytics.query import Sum as Sum
    from setwise.analytics.query import TopK as TopK
    from setwise.analytics.session import Session as Session
    from setwise.analytics.spending import Draws as Draws
    from setwise.analytics.spending import Total as Total
    from setwise.ledger.account import Account as Account
    from setwise.ledger.ledger import Ledger as Ledger
    from setwise.ledger.receipt import Receipt as Receipt
    from setwise.ledger.standing import Standing as Standing
    from setwise.mechanisms.exponential import Exponential as Exponential
    from setwise.mechanisms.histogram import Histogram as Histogram
    from setwise.mechanisms.interval import Interval as Interval
    from setwise.mechanisms.known_gaussian import KnownGaussian as KnownGaussian
    from setwise.mechanisms.known_gumbel import KnownGumbel as KnownGumbel
    from setwise.mechanisms.known_laplace import KnownLaplace as KnownLaplace
    from setwise.mechanisms.ordered_least_squares import OrderedLeastSquares as OrderedLeastSquares
    from setwise.mechanisms.planner import Plan as Plan
    from setwise.mechanisms.planner import plan as plan
    from setwise.mechanisms.preview import Preview as Preview
    from setwise.mechanisms.question import CountNoise as CountNoise
    from setwise.mechanisms.question import MechanismName as MechanismName
    from setwise.mechanisms.question import Question as Question
    from setwise.mechanisms.randomness import SystemRandomness as SystemRandomness
    from setwise.mechanisms.release import Item as Item
    from setwise.mechanisms.release import Release as Release
    from setwise.mechanisms.truncated_gaussian import Threshold as Threshold
    from setwise.mechanisms.truncated_gaussian import TruncatedGaussian as TruncatedGaussian
    from setwise.mechanisms.two_phase_top_k import GaussianCounts as GaussianCounts
    from setwise.mechanisms.two_phase_top_k import LaplaceCounts as LaplaceCounts
    from setwise.mechanisms.two_phase_top_k import TwoPhaseTopK as TwoPhaseTopK
    from setwise.mechanisms.unknown_gaussian import UnknownGaussian as UnknownGaussian
    from setwise.mechanisms.unknown_gumbel import UnknownGumbel as UnknownGumbel
    from setwise.mechanisms.unknown_laplace import UnknownLaplace as UnknownLaplace

# Loaded when first used, so that `import setwise` and `setwise --help` stay quick.
_HOMES = {
    "Account": "ledger.account",
    "Answer": "accounting.answer",
    "AnswerItem": "analytics.private_answer",
    "ApproxDP": "accounting.guarantees",
    "BoundedRange": "accounting.guarantees",
    "Bracket": "accounting.bracket",
    "Calibrated": "accounting.calibrate",
    "Composition": "accounting.compose",
    "ConcentratedDP": "accounting.guarantees",
    "Count": "analytics.query",
    "CountNoise": "mechanisms.question",
    "DiscreteGaussian": "accounting.guarantees",
    "DiscreteLaplace": "accounting.guarantees",
    "Draws": "analytics.spending",
    "Exponential": "mechanisms.exponential",
    "Gaussian": "accounting.guarantees",
    "GaussianCounts": "mechanisms.two_phase_top_k",
    "Guarantee": "accounting.guarantees",
    "Histogram": "mechanisms.histogram",
    "HistogramQuery": "analytics.query",
    "Interaction": "accounting.interaction",
    "Interval": "mechanisms.interval",
    "Item": "mechanisms.release",
    "KnownGaussian": "mechanisms.known_gaussian",
    "KnownGumbel": "mechanisms.known_gumbel",
    "KnownLaplace": "mechanisms.known_laplace",
    "Laplace": "accounting.guarantees",
    "LaplaceCounts": "mechanisms.two_phase_top_k",
    "Ledger": "ledger.ledger",
    "MechanismName": "mechanisms.question",
    "OrderedLeastSquares": "mechanisms.ordered_least_squares",
    "Plan": "mechanisms.planner",
    "Planned": "analytics.planned",
    "Preview": "mechanisms.preview",
    "PrivateAnswer": "analytics.private_answer",
    "PureDP": "accounting.guarantees",
    "Question": "mechanisms.question",
    "Receipt": "ledger.receipt",
    "Release": "mechanisms.release",
    "Session": "analytics.session",
    "Standing": "ledger.standing",
    "Sum": "analytics.query",
    "SystemRandomness": "mechanisms.randomness",
    "Threshold": "mechanisms.truncated_gaussian",
    "TopK": "analytics.query",
    "Total": "analytics.spending",
    "TruncatedDiscreteGaussian": "accounting.guarantees",
    "TruncatedGaussian": "mechanisms.truncated_gaussian",
    "TwoPhaseTopK": "mechanisms.two_phase_top_k",
    "UnknownGaussian": "mechanisms.unknown_gaussian",
    "UnknownGumbel": "mechanisms.unknown_gumbel",
    "UnknownLaplace": "mechanisms.unknown_laplace",
    "Use": "accounting.use",
    "ZcdpFilter": "accounting.filter",
    "ZcdpOdometer": "accounting.filter",
    "ZeroConcentratedDP": "accounting.guarantees",
    "compose": "accounting.compose",
    "format_use": "accounting.notation",
    "labels_of": "analytics.domain",
    "largest_count": "accounting.calibrate",
    "largest_epsilon": "accounting.calibrate",
    "open": "analytics.opening",
    "parse_use": "accounting.notation",
    "plan": "mechanisms.planner",
    "smallest_noise": "accounting.calibrate",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - computed from the table above, and tested against it


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'setwise' has no attribute {name!r}")
    return getattr(import_module(f"setwise.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
