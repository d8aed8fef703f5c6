"""The accounting tasks: the same for everyone. Standard library only, so that every peer's interpreter can read it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """A mechanism used a number of times; parameters as on the command line."""

    kind: str
    parameters: tuple[float, ...]
    count: int

    @property
    def written(self) -> str:
        """The written form, such as `pure:0.1x25`."""
        return f"{self.kind}:{','.join(f'{value:g}' for value in self.parameters)}x{self.count}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """Find epsilon at delta for the uses; `adaptive` ones are drawn in any order, chosen after earlier answers."""

    name: str
    title: str
    uses: tuple[Uses, ...]
    delta: float


def _uses(kind: str, *parameters: float, count: int) -> Uses:
    return Uses(kind=kind, parameters=parameters, count=count)


ACCOUNTING = (
    Accounting(name="pure-100", title="100 pure DP of 0.1", uses=(_uses("pure", 0.1, count=100),), delta=1e-6),
    Accounting(
        name="pure-10000", title="10,000 pure DP of 0.01", uses=(_uses("pure", 0.01, count=10_000),), delta=1e-6
    ),
    Accounting(
        name="gaussian-100", title="100 Gaussians, σ = 20", uses=(_uses("gaussian", 20, count=100),), delta=1e-6
    ),
    Accounting(
        name="gaussian-10000",
        title="10,000 Gaussians, σ = 200",
        uses=(_uses("gaussian", 200, count=10_000),),
        delta=1e-6,
    ),
    Accounting(
        name="approx-30", title="30 of (0.1, 1e-9)-DP", uses=(_uses("approx", 0.1, 1e-9, count=30),), delta=1e-6
    ),
    Accounting(
        name="mix",
        title="50 Laplace of 0.1 and 50 Gaussians, σ = 20",
        uses=(_uses("laplace", 10, count=50), _uses("gaussian", 20, count=50)),
        delta=1e-6,
    ),
    Accounting(
        name="three-kinds",
        title="50 Laplace of 0.1, 50 Gaussians, σ = 20, 50 pure DP of 0.05",
        uses=(_uses("laplace", 10, count=50), _uses("gaussian", 20, count=50), _uses("pure", 0.05, count=50)),
        delta=1e-6,
    ),
    Accounting(
        name="picks-and-counts",
        title="25 picks (bounded range 0.1) and 25 pure DP of 0.1, in any order",
        uses=(_uses("bounded-range", 0.1, count=25), _uses("pure", 0.1, count=25)),
        delta=1e-6,
    ),
    Accounting(
        name="picks-3000",
        title="3,000 picks (bounded range 0.15), delta = 1e-9",
        uses=(_uses("bounded-range", 0.15, count=3000),),
        delta=1e-9,
    ),
    Accounting(
        name="subsampled",
        title="1,000 Gaussians, σ = 1, each on a Poisson sample of 1%",
        uses=(_uses("sampled-gaussian", 1, 0.01, count=1000),),
        delta=1e-6,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTheFly:
    """Find how many uses, with parameters chosen on the fly, a budget takes before it refuses."""

    name: str
    title: str
    uses: Uses


BUDGET = (2.0, 1e-6)
"""The epsilon and delta of the budget."""

BUDGET_AS_RHO = 0.0881526
"""The same budget as rho-zCDP: the largest rho whose tightest conversion is epsilon 2 at delta 1e-6."""

ON_THE_FLY = (
    OnTheFly(name="fly-large", title="pure DP of 0.4: few and large", uses=_uses("pure", 0.4, count=1)),
    OnTheFly(name="fly-pure", title="pure DP of 0.1", uses=_uses("pure", 0.1, count=1)),
    OnTheFly(name="fly-gaussian", title="Gaussian counts, σ = 20", uses=_uses("gaussian", 20, count=1)),
    OnTheFly(name="fly-picks", title="picks (bounded range 0.1)", uses=_uses("bounded-range", 0.1, count=1)),
)
