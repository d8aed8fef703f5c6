"""Pure mathematics: guarantees, conversions, composition, certified numerics, calibration.

No input, output, clock or randomness in this room.
"""
