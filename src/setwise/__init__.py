"""Setwise: differentially private analytics with certified composition of privacy loss.

>>> import setwise
>>> setwise.compose(["pure:0.1x25"]).epsilon(1e-6).upper < 2.0791
True

All exports are listed in `__init__.pyi`. Mechanisms to be used directly are in `setwise.mechanisms`.
"""

from setwise._lazy import attach_stub

__version__ = "1.0.0"

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
