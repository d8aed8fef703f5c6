# Mechanisms to use by hand: each takes a histogram and returns a release that says what was spent.

from setwise.mechanisms.histogram import Histogram as Histogram
from setwise.mechanisms.intervals import Interval as Interval
from setwise.mechanisms.known_domain import Exponential as Exponential
from setwise.mechanisms.known_domain import KnownGaussian as KnownGaussian
from setwise.mechanisms.known_domain import KnownGumbel as KnownGumbel
from setwise.mechanisms.known_domain import KnownLaplace as KnownLaplace
from setwise.mechanisms.known_domain import PermuteAndFlip as PermuteAndFlip
from setwise.mechanisms.noise.truncated_gaussian import Threshold as Threshold
from setwise.mechanisms.planning.planner import Choice as Choice
from setwise.mechanisms.planning.planner import plan as plan
from setwise.mechanisms.planning.request import Bounds as Bounds
from setwise.mechanisms.planning.request import CountNoise as CountNoise
from setwise.mechanisms.planning.request import MechanismName as MechanismName
from setwise.mechanisms.planning.request import Total as Total
from setwise.mechanisms.randomness import SystemRandomness as SystemRandomness
from setwise.mechanisms.release import ErrorEstimate as ErrorEstimate
from setwise.mechanisms.release import Item as Item
from setwise.mechanisms.release import Release as Release
from setwise.mechanisms.two_phase import GaussianCounts as GaussianCounts
from setwise.mechanisms.two_phase import LaplaceCounts as LaplaceCounts
from setwise.mechanisms.two_phase import OrderedLeastSquares as OrderedLeastSquares
from setwise.mechanisms.two_phase import TwoPhaseTopK as TwoPhaseTopK
from setwise.mechanisms.unknown_domain import TruncatedGaussian as TruncatedGaussian
from setwise.mechanisms.unknown_domain import UnknownGaussian as UnknownGaussian
from setwise.mechanisms.unknown_domain import UnknownGumbel as UnknownGumbel
from setwise.mechanisms.unknown_domain import UnknownLaplace as UnknownLaplace
from setwise.mechanisms.weighted_rounds import DiscoveredCounts as DiscoveredCounts
from setwise.mechanisms.weighted_rounds import Discovery as Discovery
from setwise.mechanisms.weighted_rounds import GroupWeights as GroupWeights
from setwise.mechanisms.weighted_rounds import WeightedRounds as WeightedRounds

__all__: list[str]
