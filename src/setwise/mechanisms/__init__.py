"""The only package that draws noise: exact integer samplers, and the mechanisms made of them.

Every noise value is an exact draw from its stated law on the integers; floating point decides only comparisons whose
result it can certify. The source of random bits is an argument; the usual source reads the operating system's generator
at every call.

`__init__.pyi` lists the names to import for using a mechanism directly.
"""

from setwise._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
