"""The only room that draws noise: exact integer samplers and the mechanisms made of them.

Every noise value is an exact draw from its stated law on the integers; floating point decides only questions
whose answer it can certify. Randomness is an argument, read from the operating system at every call.

What to import to use a mechanism by hand is listed in `__init__.pyi`.
"""

from setwise._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
