"""OpenDP: a measurement as one use, by what its privacy map says."""

from typing import TYPE_CHECKING

from setwise.accounting.guarantees import ApproxDP, Guarantee, PureDP, Use, ZeroConcentratedDP
from setwise.errors import InvalidParameter

if TYPE_CHECKING:
    from opendp.mod import Measurement


def from_measurement(measurement: "Measurement", d_in: float, count: int = 1) -> Use:
    """Return `count` invocations of an OpenDP measurement on inputs at distance `d_in`, as one use.

    The distance is between datasets with and without one user: 1 where each user has one row. The map says no more
    than the class of the mechanism. Where the noise is known, name it instead: `setwise.Gaussian(sigma=...)` composes
    better than its zCDP, and `setwise.BoundedRange(epsilon=...)` better than that of an exponential mechanism.
    """
    return Use(_guarantee(str(measurement.output_measure), measurement.map(d_in)), count)


def _guarantee(measure: str, loss: object) -> Guarantee:
    match measure, loss:
        case "MaxDivergence", float(epsilon):
            return PureDP(epsilon=epsilon)
        case "ZeroConcentratedDivergence", float(rho):
            return ZeroConcentratedDP(rho=rho)
        case "Approximate(MaxDivergence)", (float(epsilon), float(delta)):
            return ApproxDP(epsilon=epsilon, delta=delta) if delta else PureDP(epsilon=epsilon)
        case "Approximate(ZeroConcentratedDivergence)", (float(rho), float(delta)):
            return ZeroConcentratedDP(rho=rho, delta=delta)
        case _:
            raise InvalidParameter(
                f"a measurement of {measure} has no counterpart here; fix its delta (make_fix_delta), or use its zCDP"
            )
