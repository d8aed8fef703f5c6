"""What may be spent on a question: a total of its own, or draws from an account."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from setwise.accounting.guarantees import Guarantee, Use
from setwise.accounting.notation import format_use, parse_use
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import rational
from setwise.mechanisms.planning.request import CountNoise, MechanismName

LARGEST_TOTAL = Fraction(100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A total (epsilon, delta) for one question; the planner splits it between finding items and counting them.

    `counts` and `mechanism` force what the planner would choose. delta may be 0 where no mechanism needs it: over a
    known domain.
    """

    epsilon: Fraction
    delta: Fraction
    counts: CountNoise = CountNoise.BEST
    mechanism: MechanismName | None = None

    def __post_init__(self) -> None:
        for name, least, most in (("epsilon", Fraction(1, 10**6), LARGEST_TOTAL), ("delta", Fraction(0), Fraction(1))):
            object.__setattr__(self, name, rational(name, getattr(self, name), least, most))
        if self.delta == 1:
            raise InvalidParameter("delta must lie between 0 and 1, and 1 promises nothing")
        object.__setattr__(self, "counts", CountNoise.parse(self.counts))
        if self.mechanism is not None:
            object.__setattr__(self, "mechanism", MechanismName.parse(self.mechanism))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """What a question draws from an account: one `discover` for each pick, one `counts` for each count.

    An unknown domain also draws one approx:0,`threshold_delta`. Written forms such as "bounded-range:0.1" do as well.
    """

    discover: Guarantee | None = None
    counts: Guarantee | None = None
    threshold_delta: float | None = None

    def __post_init__(self) -> None:
        for name in ("discover", "counts"):
            value = getattr(self, name)
            if isinstance(value, str):
                use = parse_use(value)
                if use.count != 1:
                    raise InvalidParameter(f"{name} is what each draw costs, so it has no count: {value!r}")
                object.__setattr__(self, name, use.guarantee)
        if self.discover is None and self.counts is None:
            raise InvalidParameter("say what to draw from the account: discover, counts, or both")


Spending: TypeAlias = Total | Draws


def spending_of(
    *,
    epsilon: float | None,
    delta: float | None,
    counts: str | Guarantee | None,
    mechanism: str | None,
    discover: str | Guarantee | None,
) -> Spending:
    """Return the spending that these words mean: a total when there is an epsilon, draws otherwise."""
    if epsilon is None:
        if mechanism is not None:
            raise InvalidParameter("the draws decide the mechanism: leave mechanism out")
        drawn = None if counts == "none" else counts
        return Draws(discover=discover, counts=drawn, threshold_delta=delta)  # type: ignore[arg-type]
    if discover is not None:
        raise InvalidParameter("discover is for draws from an account: leave it out, or leave epsilon out")
    if counts is not None and not isinstance(counts, str):
        raise InvalidParameter(f"counts must be one of {', '.join(CountNoise)} with an epsilon, not {counts!r}")
    return Total(
        epsilon=epsilon,  # type: ignore[arg-type]  # the record takes any rational number
        delta=0 if delta is None else delta,  # type: ignore[arg-type]
        counts=CountNoise.BEST if counts is None else CountNoise.parse(counts),
        mechanism=None if mechanism is None else MechanismName.parse(mechanism),
    )


def spending_to_dict(spending: Spending) -> dict[str, object]:
    """Return the spending as plain values, for the request text."""
    match spending:
        case Total(epsilon=epsilon, delta=delta, counts=counts, mechanism=mechanism):
            forced = {} if mechanism is None else {"mechanism": str(mechanism)}
            return {"epsilon": float(epsilon), "delta": float(delta), "counts": str(counts), **forced}
        case Draws(discover=discover, counts=drawn, threshold_delta=threshold):
            named = {"discover": discover, "counts": drawn}
            written: dict[str, object] = {
                name: format_use(Use(guarantee)) for name, guarantee in named.items() if guarantee is not None
            }
            return written if threshold is None else {**written, "threshold_delta": threshold}
