"""Setwise: private analytics, and what its answers cost together.

>>> import setwise
>>> setwise.compose(["pure:0.1x25"]).epsilon(1e-6).upper < 2.0791
True

Everything to import is listed in `__init__.pyi`. Mechanisms to use by hand are in `setwise.mechanisms`.
"""

from setwise._lazy import attach_stub

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
