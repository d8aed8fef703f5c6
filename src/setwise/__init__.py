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

# Loaded when first used, so that `import setwise` and `setwise --help` stay quick.
_HOMES = {
    "Answer": "accounting.answer",
    "ApproxDP": "accounting.guarantees",
    "BoundedRange": "accounting.guarantees",
    "Bracket": "accounting.bracket",
    "Calibrated": "accounting.calibrate",
    "Composition": "accounting.compose",
    "ConcentratedDP": "accounting.guarantees",
    "DiscreteGaussian": "accounting.guarantees",
    "DiscreteLaplace": "accounting.guarantees",
    "Gaussian": "accounting.guarantees",
    "Guarantee": "accounting.guarantees",
    "Interaction": "accounting.interaction",
    "Laplace": "accounting.guarantees",
    "PureDP": "accounting.guarantees",
    "TruncatedDiscreteGaussian": "accounting.guarantees",
    "Use": "accounting.use",
    "ZcdpFilter": "accounting.filter",
    "ZcdpOdometer": "accounting.filter",
    "ZeroConcentratedDP": "accounting.guarantees",
    "compose": "accounting.compose",
    "format_use": "accounting.notation",
    "largest_count": "accounting.calibrate",
    "largest_epsilon": "accounting.calibrate",
    "parse_use": "accounting.notation",
    "smallest_noise": "accounting.calibrate",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - computed from the table above, and tested against it


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'setwise' has no attribute {name!r}")
    return getattr(import_module(f"setwise.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
