"""The whole study: every figure written, every claim checked."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from setwise.accounting.brackets import Progress
from setwise.errors import InvalidParameter, StoreFailed
from setwise.paper import chart, text_claims
from setwise.paper.figure import Claim, Figure, Table, markdown
from setwise.paper.figures.adaptive_cost import FIGURE as ADAPTIVE_COST
from setwise.paper.figures.deployment import FIGURE as DEPLOYMENT
from setwise.paper.figures.families import BATCH as BATCH_FAMILY
from setwise.paper.figures.families import SETWISE as SETWISE_FAMILY
from setwise.paper.figures.filter_cost import FIGURE as FILTER_COST
from setwise.paper.figures.histograms import COMPOSED as HISTOGRAM_COMPOSED
from setwise.paper.figures.histograms import ONCE as HISTOGRAM_ONCE
from setwise.paper.figures.macbeth_noise import FIGURE as MACBETH_NOISE
from setwise.paper.figures.order_gap import FIGURE as ORDER_GAP
from setwise.paper.figures.thresholds import FIGURE as THRESHOLDS
from setwise.paper.figures.unequal_order import FIGURE as UNEQUAL_ORDER
from setwise.paper.figures.worst_answer import FIGURE as WORST_ANSWER

FIGURES = (
    SETWISE_FAMILY,
    BATCH_FAMILY,
    ORDER_GAP,
    HISTOGRAM_ONCE,
    HISTOGRAM_COMPOSED,
    MACBETH_NOISE,
    THRESHOLDS,
    ADAPTIVE_COST,
    UNEQUAL_ORDER,
    WORST_ANSWER,
    DEPLOYMENT,
    FILTER_COST,
)
"""Those of the paper in its order, then ours."""

TEXT = "text"
"""The name under which the claims that no figure shows can be asked for."""

_TEXTS: tuple[Callable[[], tuple[Claim, ...]], ...] = (text_claims.claims, text_claims.corrections)


@dataclass(frozen=True, slots=True)
class Part:
    """What was found for one figure, or for the text: its claims and the files written."""

    label: str
    claims: tuple[Claim, ...]
    files: tuple[Path, ...] = ()


def chosen(names: Sequence[str]) -> tuple[Figure | None, ...]:
    """Return the figures of these names, labels or files, all of them for none; None stands for the text.

    >>> [figure.label for figure in chosen(["gap", "fig:truncGauss"]) if figure]
    ['fig:gap', 'fig:truncGauss']
    """
    if not names:
        return (*FIGURES, None)
    found: list[Figure | None] = []
    for name in names:
        if name == TEXT:
            found.append(None)
            continue
        fits = [figure for figure in FIGURES if name in (figure.label, figure.label.split(":")[1], figure.file)]
        if not fits:
            known = ", ".join([*(figure.label for figure in FIGURES), TEXT])
            raise InvalidParameter(f"there is no figure {name!r}; there are {known}")
        found += fits
    return tuple(found)


def run(figures: Sequence[Figure | None], folder: Path, progress: Progress) -> Iterator[Part]:
    """Write each figure to the folder as CSV, SVG and PNG, and yield what was found, one after the other."""
    chart.check_matplotlib()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreFailed(
            f"the folder {str(folder)!r} cannot be made: {error.strerror}; give another with --out"
        ) from None
    for done, figure in enumerate(figures):

        def partly(share: float, done: int = done) -> None:
            progress((done + share) / len(figures))

        if figure is None:
            yield Part(TEXT, tuple(claim for claims in _TEXTS for claim in claims()))
        else:
            yield _write(figure, folder, partly)
        progress((done + 1) / len(figures))


def _write(figure: Figure, folder: Path, progress: Progress) -> Part:
    numbers = folder / f"{figure.file}.csv"
    text = figure.compute(progress).text()
    numbers.write_text(text, encoding="utf-8")
    # What is drawn and checked is what the file says.
    table = Table.read(text)
    pictures = chart.save(figure.draw, table, folder, figure.file)
    return Part(figure.label, figure.claims(table), (numbers, *pictures))


def write_claims(claims: Sequence[Claim], folder: Path) -> tuple[Path, ...]:
    """Write the claims as CSV, and as a table for a page, and return the files."""
    table = Table.of_rows([{key: _plain(value) for key, value in claim.as_json().items()} for claim in claims])
    files = (folder / "claims.csv", folder / "claims.md")
    files[0].write_text(table.text(), encoding="utf-8")
    files[1].write_text(markdown(claims), encoding="utf-8")
    return files


def _plain(value: object) -> float | str:
    return math.nan if value is None else value if isinstance(value, float) else str(value)
