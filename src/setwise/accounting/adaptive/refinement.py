"""How grids are chosen until a bracket is narrow enough: a small state machine. Nothing here is part of a proof.

A run on a grid gives a certified bracket, and all brackets are intersected; the last one decides the next run:

    after a run                                       next run
    the bracket is as narrow as wanted                none: done
    no finite upper end: the grid was too short       same step, `lengthen` times as long
    it had no lower values of its own                 same grid, with lower values
    far too wide, or stalled, and tilts are left      same grid under less tilt: the first stage was lost to round-off
    all tilts were tried                              finer grid under the tilt that was narrowest
    narrower than before                              as many cells as the width, which falls with their square, needs
    stalled, and a width was asked for                twice as many cells, `most_stalled` times in a row
    stalled otherwise                                 none: what is left is the rounding of unequal parameters
    `most_runs` or the work allowed is reached        none
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from setwise.accounting.brackets import Bracket
from setwise.errors import Unattainable


@dataclass(frozen=True, slots=True)
class RefinementConfig:
    """The numbers that choose grids. Widths are relative to the upper end; work is grid points times steps."""

    rough_width: float = 1e-2
    """Aimed for at the narrowest when unequal parameters had to be rounded or priced, which no grid undoes."""
    margin: float = 1.3
    """The first grid should give a width this many times below what is wanted."""
    fewest_cells: int = 24
    most_first_cells: int = 512
    """Cells of the first grid across the smallest epsilon."""
    most_cells: int = 4096
    """Cells across the largest epsilon beyond which a grid is out of reach."""
    most_work: float = 2e9
    """Allowed for a width that was asked for."""
    most_unasked_work: float = 1.2e9
    """Allowed for the default width: some seconds at most, and three runs of priced draws."""
    most_runs: int = 12
    most_short_runs: int = 4
    """Runs as long as none has a finite upper end."""
    most_stalled: int = 2
    """Grids twice as fine that may fail to help before a width is refused, so that no larger one is refused."""
    stalled: float = 0.8
    """A bracket that keeps more than this share of its width has stalled."""
    tilt_shares: tuple[float, ...] = (0.7, 0.35)
    """Shares of the tilt to try instead of all of it."""
    too_wide: float = 10.0
    far_too_wide: float = 0.3
    """A run this many times as wide as wanted, or this wide, has lost its first stage to round-off."""
    safety: float = 1.1
    least_finer: float = 1.25
    most_finer: float = 4.0
    """The next grid has as many times more cells as the width asks for, with a margin, but within these limits."""
    longer: float = 1.05
    lengthen: float = 1.5
    """Each grid reaches further than the last by the first factor, or by the second where that was too short."""
    negligible: float = 1e-290
    """A delta below this is at the end of the range of floats, and no width is asked of it."""


CONFIG = RefinementConfig()


@dataclass(frozen=True, slots=True)
class Trial:
    """One run: cells across the smallest epsilon, how far to reach, and the share of the tilt.

    With `upper_only` lower values are left out, because a lower bound is known already.
    """

    cells: int
    stretch: float = 1.0
    tilt_share: float = 1.0
    upper_only: bool = False


@dataclass(slots=True)
class Refinement:
    """The state between runs; `asked` says whether `wanted` was asked for, `exact` whether parameters are as given."""

    wanted: float
    asked: bool
    exact: bool
    best: Bracket
    shares_left: tuple[float, ...]
    share_widths: dict[float, float] = field(default_factory=dict)
    stalled_runs: int = 0

    @property
    def done(self) -> bool:
        """Whether the bracket is as narrow as wanted."""
        return self.best.relative_width <= self.wanted or self.best.upper < CONFIG.negligible

    def after(self, trial: Trial, found: Bracket) -> Trial | None:
        """Take in what a run found and return the next, or None when no further run would help."""
        width = self.best.width
        self.best = Bracket(max(self.best.lower, found.lower), min(self.best.upper, found.upper))
        if self.done:
            return None
        following = replace(trial, upper_only=False)
        finite = self.best.upper < math.inf
        stalled = self.best.width > CONFIG.stalled * width
        wide = found.relative_width > min(CONFIG.too_wide * self.wanted, CONFIG.far_too_wide)
        if trial.upper_only and finite:
            return following
        if self.shares_left and found.upper < math.inf and (wide or stalled):
            self.share_widths[trial.tilt_share] = found.relative_width
            share, *rest = self.shares_left
            self.shares_left = tuple(rest)
            return replace(following, tilt_share=share)
        if self.share_widths:
            self.share_widths[trial.tilt_share] = found.relative_width
            narrowest = min(self.share_widths, key=lambda share: self.share_widths[share])
            self.shares_left, self.share_widths, stalled = (), {}, False
            following = replace(following, tilt_share=narrowest)
        self.stalled_runs = self.stalled_runs + 1 if stalled else 0
        if self.stalled_runs > (CONFIG.most_stalled if self.asked else 0):
            return None
        if finite and not (self.asked or self.exact):
            return None
        if not finite:
            return replace(following, stretch=trial.stretch * CONFIG.lengthen)
        finer = 2.0
        if not self.stalled_runs:
            needed = CONFIG.safety * math.sqrt(self.best.relative_width / self.wanted)
            finer = min(CONFIG.most_finer, max(CONFIG.least_finer, needed))
        return replace(following, cells=_even(trial.cells * finer), stretch=trial.stretch * CONFIG.longer)


def refine(
    attempt: Callable[[Trial], Bracket],
    work: Callable[[int], float],
    *,
    width: float | None,
    aim: float,
    exact: bool,
    tilted: bool,
    sharpness: float,
    floor: float | None,
) -> Bracket:
    """Return the intersection of certified brackets, as narrow as `width`; refuse a width that cannot be reached.

    Without one grids aim for the width `aim`. `sharpness` is about the relative width of a run times the square of its
    cells; `floor` is a lower bound to start from; `tilted` says that some stage depends on the tilt; `work` is what a
    run with a number of cells takes.
    """
    wanted = width or (aim if exact else max(aim, CONFIG.rough_width))
    cells = max(CONFIG.fewest_cells, _even(math.sqrt(CONFIG.margin * sharpness / wanted)))
    trial: Trial | None = Trial(min(CONFIG.most_first_cells, cells), upper_only=floor is not None)
    shares = CONFIG.tilt_shares if tilted else ()
    state = Refinement(wanted, width is not None, exact, Bracket(floor or 0.0, math.inf), shares)
    left = CONFIG.most_unasked_work if width is None else CONFIG.most_work
    for run in range(CONFIG.most_runs):
        assert trial is not None
        left -= work(trial.cells)
        if left < 0.0 or (run >= CONFIG.most_short_runs and state.best.upper == math.inf):
            break
        try:
            found = attempt(trial)
        except Unattainable:
            if state.best.upper == math.inf:
                raise
            break  # on a finer grid a linear stage between bounded-range ones is too much work
        trial = state.after(trial, found)
        if trial is None:
            break
    if state.done or (width is None and state.best.upper < math.inf):
        return state.best
    raise Unattainable(f"a relative width of {wanted:g} cannot be reached for these uses; ask for a wider one")


def _even(cells: float) -> int:
    """Round up to an even number: the worst t is near epsilon/2, and a grid that contains it is tighter."""
    return 2 * math.ceil(cells / 2)
