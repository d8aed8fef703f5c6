"""Pure mathematics of privacy accounting: guarantees, conversions, composition, certified numerics, calibration.

Nothing in this package does input or output, reads a clock or draws random numbers.
"""
