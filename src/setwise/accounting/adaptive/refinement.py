"""Chooses ever finer grids until the bracket for an optimal delta or epsilon is narrow enough.

A run computes a certified bracket on one grid of epsilons. The brackets of all runs are intersected, so no proof
depends on the choice of grids. After each run, the width of its bracket decides the next grid. It also decides the next
tilt: a run weights each privacy loss L by exp(tilt L), and rounding errors spoil the result if the tilt is unsuitable.
"""

# A run has stalled if it hardly narrowed the bracket. The last run decides the next:
#
#       after a run                                       next run
#       the bracket is as narrow as wanted                none: done
#       no finite upper end: the grid was too short       same step, `lengthen` times as long
#       the run computed no lower values                  same grid, with lower values
#       far too wide or stalled, untried tilts remain     same grid with a smaller tilt
#       all tilts were tried                              finer grid with the tilt that gave the narrowest bracket
#       narrower than before                              as many cells as needed: the width falls with their square
#       stalled, and the caller asked for a width         twice as many cells, `most_stalled` times in a row
#       stalled otherwise                                 none: finer grids do not undo the rounding of unequal epsilons
#       the next run is slow (`quick_work`)               none, unless the caller asked for a width
#       `most_runs` or the allowed work is reached        none

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from setwise.accounting.brackets import Bracket
from setwise.errors import Unattainable


@dataclass(frozen=True, slots=True)
class RefinementConfig:
    """Constants that choose the grids on which a bracket (a certified interval) for delta or epsilon is narrowed.

    No proof depends on a constant. The texts below the constants use these words:

    - A run computes a bracket on one grid of epsilons. The brackets of all runs are intersected.
    - Widths of brackets are relative to the upper end.
    - Cells are the intervals between grid points.
    - Work is the number of grid points times how often a mechanism is added to a privacy profile (delta as a function
      of epsilon); about 10^8 take a second or two.
    - Uses have prices if too many combinations of uses can remain: an upper bound then tracks only the sum of the
      prices of the remaining uses (see `DrawOrders`).
    """

    rough_width: float = 1e-2
    """If an upper bound rounds epsilons up, or if uses have prices, the bound has an error that no finer grid removes.
    If the caller then asks for no width, no smaller relative width than this is aimed for."""
    margin: float = 1.3
    """The first grid is chosen so that the estimated width is the wanted width divided by this."""
    fewest_cells: int = 24
    most_first_cells: int = 512
    """The first grid has at least `fewest_cells` and at most this many cells across the smallest epsilon of a
    mechanism."""
    most_cells: int = 4096
    """Largest number of cells across the largest epsilon of a mechanism. Finer grids are refused."""
    most_work: float = 2e9
    """Largest total work of all runs if the caller asked for a width."""
    most_unasked_work: float = 3.6e8
    """Largest total work of all runs if the caller asked for no width: a few seconds, enough for one run in which uses
    have prices."""
    quick_work: float = 1.2e8
    """Work of one run that takes about two seconds. If the caller asked for no width, the first grid is made coarser to
    keep to it, and no later run with more work is made."""
    upper_only_work: float = 0.5
    """Work of a run that computes only upper bounds, as a share of the work of a run that computes both."""
    most_runs: int = 12
    most_short_runs: int = 4
    """The largest number of runs is `most_runs`, but only `most_short_runs` while no run had a finite upper end."""
    most_stalled: int = 2
    """How many times in a row doubling the cells may hardly narrow the bracket before the width is refused. With more
    than one, refusals are monotone: if a width is granted, a larger one is not refused."""
    stalled: float = 0.8
    """A run has stalled (hardly narrowed the bracket) if the bracket keeps more than this share of its previous
    width."""
    tilt_shares: tuple[float, ...] = (0.7, 0.35)
    """A run weights the probability of each loss L by exp(tilt L). If rounding errors spoil the result, these shares of
    the usual tilt are tried."""
    too_wide: float = 10.0
    far_too_wide: float = 0.3
    """Rounding errors are taken to have spoilt a run if the relative width of its bracket is above `far_too_wide`, or
    above `too_wide` times the wanted width."""
    safety: float = 1.1
    least_finer: float = 1.25
    most_finer: float = 4.0
    """If the caller asked for a width, the number of cells grows from run to run by the factor that the width is
    estimated to need, times `safety`, but by at least `least_finer` and at most this."""
    most_finer_unasked: float = 2.0
    """The largest such factor if the caller asked for no width. Four times the cells take up to sixteen times as long,
    in vain if the grid is not what makes the bracket wide."""
    longer: float = 1.05
    lengthen: float = 1.5
    """Each finer grid is longer than the last by the factor `longer`. If the last grid was too short for a finite upper
    end, the next grid is longer by this factor."""
    negligible: float = 1e-290
    """A delta below this is at the end of the range of floats, so it counts as narrow enough."""


CONFIG = RefinementConfig()


@dataclass(frozen=True, slots=True)
class Trial:
    """Parameters of one run of the computation of the largest delta over all adversaries, on one grid of epsilons.

    - `cells` is the number of grid cells between 0 and the smallest epsilon of a mechanism.
    - `stretch` is the length of the grid, as a multiple of the default length.
    - `tilt_share`: a run weights the probability of each loss L by exp(tilt L), so that rounding errors do not swamp
      the probabilities of rare large losses. The tilt is `tilt_share` times the usual tilt for the wanted epsilon or
      delta. Smaller shares are tried if rounding errors spoil a run.
    - `upper_only`: whether the run computes only an upper bound, which takes less time and suffices if a lower bound is
      known.
    """

    # The weights keep the probabilities of rare large losses precise.

    cells: int
    stretch: float = 1.0
    tilt_share: float = 1.0
    upper_only: bool = False


@dataclass(slots=True)
class Refinement:
    """The state of a search for a narrow bracket (a certified interval) for delta or epsilon, between two runs.

    A run is one computation of the bracket on a grid of epsilons. It weights the probabilities of losses L by exp(tilt
    L), to keep the digits of rare losses. Rounding errors depend on the tilt. If they spoil a run, the next runs on the
    same grid use smaller tilts: shares of the usual one.

    - `wanted` is the width aimed for, relative to the upper end.
    - `asked`: whether the caller asked for this width, so that a wider bracket is an error.
    - `exact`: whether a finer grid always narrows the bracket. It does not if the upper bound rounds epsilons up, or
      allows orders in which some mechanism is used too often.
    - `best` is the intersection of all brackets so far.
    - `shares_left` are the shares of the usual tilt that were not tried yet.
    - `share_widths` has the shares that were tried on the present grid, each with the relative width of its bracket.
    - `stalled_runs` is the number of latest runs in a row that hardly narrowed the bracket.
    """

    wanted: float
    asked: bool
    exact: bool
    best: Bracket
    shares_left: tuple[float, ...]
    share_widths: dict[float, float] = field(default_factory=dict)
    stalled_runs: int = 0

    @property
    def done(self) -> bool:
        """Whether the search for a narrow bracket may end, because the best bracket so far is good enough.

        A bracket is a certified interval for delta or epsilon. The best bracket is good enough if it is as narrow as
        wanted, or if its upper end is below `CONFIG.negligible`: numbers so small are close to the smallest float and
        have few digits, so no narrower bracket can be expected.
        """
        return self.best.relative_width <= self.wanted or self.best.upper < CONFIG.negligible

    def after(self, trial: Trial, bracket: Bracket) -> Trial | None:
        """Narrow the best bracket by the result of a run; return the parameters of the next run, or None to end.

        A bracket is a certified interval for a delta or an epsilon, and a run computes one on a grid of epsilons.
        `trial` has the parameters of the run that has just ended (how fine and how long its grid was), and `bracket` is
        its result. The new best bracket is the intersection of the old one and `bracket`. The search ends (None) if the
        best bracket is narrow enough, or if no further grid would help.
        """
        width = self.best.width
        self.best = Bracket(max(self.best.lower, bracket.lower), min(self.best.upper, bracket.upper))
        if self.done:
            return None
        following = replace(trial, upper_only=False)
        finite = self.best.upper < math.inf
        stalled = self.best.width > CONFIG.stalled * width
        wide = bracket.relative_width > min(CONFIG.too_wide * self.wanted, CONFIG.far_too_wide)
        if trial.upper_only and finite:
            return following
        if self.shares_left and bracket.upper < math.inf and (wide or stalled):
            self.share_widths[trial.tilt_share] = bracket.relative_width
            share, *untried = self.shares_left
            self.shares_left = tuple(untried)
            return replace(following, tilt_share=share)
        if self.share_widths:
            self.share_widths[trial.tilt_share] = bracket.relative_width
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
            most = CONFIG.most_finer if self.asked else CONFIG.most_finer_unasked
            finer = min(most, max(CONFIG.least_finer, needed))
        return replace(following, cells=_round_up_to_even(trial.cells * finer), stretch=trial.stretch * CONFIG.longer)


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
    """Call `attempt` with the parameters of ever finer grids of epsilons, and return the intersection of its brackets.

    - `attempt` maps the parameters of one grid to a bracket (a certified interval) for delta or epsilon.
    - `work` maps the fineness of a grid (its number of cells across the smallest epsilon of a mechanism) to the
      estimated work of one call.
    - `width` is the wanted width, relative to the upper end. If it is None, the width `aim` is tried for, and a wider
      bracket is accepted.
    - `exact` says whether a finer grid always narrows the bracket. It is False if the upper bound of `attempt` has an
      error that no grid removes, for example because the bound rounds epsilons of mechanisms up.
    - `tilted` says whether `attempt` weights the probabilities of losses L by exp(tilt L). If so, smaller tilts are
      tried too, because rounding errors depend on the tilt.
    - `sharpness` predicts the width of a bracket: the relative width is about `sharpness` / cells^2, where cells is the
      fineness of the grid. The first grid is chosen by this prediction.
    - `floor` is a known lower bound on the result, or None. With a known lower bound, `attempt` is asked only for upper
      ends at first, which is quicker.

    Raises: `Unattainable` if `width` cannot be reached within the allowed work, or no run has a finite upper end.
    """
    wanted = width or (aim if exact else max(aim, CONFIG.rough_width))
    cells = max(CONFIG.fewest_cells, _round_up_to_even(math.sqrt(CONFIG.margin * sharpness / wanted)))
    upper_only = floor is not None
    if width is None:
        share = CONFIG.upper_only_work if upper_only else 1.0
        while cells > CONFIG.fewest_cells and share * work(cells) > CONFIG.quick_work:
            cells = max(CONFIG.fewest_cells, _round_up_to_even(0.8 * cells) - 2)
    trial: Trial | None = Trial(min(CONFIG.most_first_cells, cells), upper_only=upper_only)
    shares = CONFIG.tilt_shares if tilted else ()
    state = Refinement(wanted, width is not None, exact, Bracket(floor or 0.0, math.inf), shares)
    remaining_work = CONFIG.most_unasked_work if width is None else CONFIG.most_work
    for run in range(CONFIG.most_runs):
        assert trial is not None
        remaining_work -= work(trial.cells)
        if remaining_work < 0.0 or (run >= CONFIG.most_short_runs and state.best.upper == math.inf):
            break
        try:
            bracket = attempt(trial)
        except Unattainable:
            if state.best.upper == math.inf:
                raise
            break  # a linear stage between bounded-range stages takes too much work on so fine a grid
        trial = state.after(trial, bracket)
        if trial is None:
            break
        if width is None and state.best.upper < math.inf and work(trial.cells) > CONFIG.quick_work:
            break
    if state.done or (width is None and state.best.upper < math.inf):
        return state.best
    raise Unattainable(f"a relative width of {wanted:g} cannot be reached for these uses; ask for a wider one")


def _round_up_to_even(cells: float) -> int:
    """Return `cells`, a number of grid cells from 0 to an epsilon, rounded up to an even whole number.

    The grid then has a point at epsilon/2. The worst bounded-range mechanism is a randomized response with the losses t
    and t - epsilon for a t near epsilon/2, so that such a grid gives a tighter bound.
    """
    return 2 * math.ceil(cells / 2)
