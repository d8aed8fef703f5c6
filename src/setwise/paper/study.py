"""Runs the whole study of the paper: writes every figure to files and checks every claim."""

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
"""All figures: those of the paper in its order, then Setwise's own."""

TEXT = "text"
"""The name that selects, among names of figures, the checks of the paper's text that no figure shows."""

_TEXTS: tuple[Callable[[], tuple[Claim, ...]], ...] = (text_claims.claims, text_claims.corrections)


@dataclass(frozen=True, slots=True)
class StudyPart:
    """The outcome of checking one figure or the paper's text: its claims, and the `files` that were written.

    A claim compares a number of the paper with ours, and has passed or failed. `label` is the label of the figure in
    the paper, such as "fig:gap", or "text".
    """

    label: str
    claims: tuple[Claim, ...]
    files: tuple[Path, ...] = ()


def select_figures(names: Sequence[str]) -> tuple[Figure | None, ...]:
    """Return the figures with these names, in the given order; None stands for the checks of the paper's text.

    A name is a label ("fig:gap"), a label without prefix ("gap"), a file name, or "text" for the checks of numbers in
    the text. Without `names`, all figures are returned, and None after them. Raises `InvalidParameter` for an unknown
    name.

    >>> [figure.label for figure in select_figures(["gap", "fig:truncGauss"]) if figure]
    ['fig:gap', 'fig:truncGauss']
    """
    if not names:
        return (*FIGURES, None)
    selected: list[Figure | None] = []
    for name in names:
        if name == TEXT:
            selected.append(None)
            continue
        matching = [figure for figure in FIGURES if name in (figure.label, figure.label.split(":")[1], figure.file)]
        if not matching:
            known = ", ".join([*(figure.label for figure in FIGURES), TEXT])
            raise InvalidParameter(f"there is no figure {name!r}; there are {known}")
        selected += matching
    return tuple(selected)


def run(figures: Sequence[Figure | None], folder: Path, progress: Progress) -> Iterator[StudyPart]:
    """Write each of `figures` to `folder` as CSV, SVG and PNG, and yield the outcome of each as soon as it is done.

    An outcome has the figure's claims, which compare numbers of the paper with ours, and the files. None among
    `figures` stands for the claims of the paper's text, which has no files. `progress` is called with the share done,
    from 0 to 1. Raises `MissingExtra` without matplotlib, and `StoreFailed` if the folder cannot be created.
    """
    chart.check_matplotlib()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreFailed(
            f"the folder {str(folder)!r} cannot be made: {error.strerror}; give another with --out"
        ) from None
    for done, figure in enumerate(figures):

        def partly(share: float, done: int = done) -> None:
            """Report to the caller which share of the whole study is done.

            `done` figures are finished, and the share `share` of the present figure. Each figure counts as much as any
            other.
            """
            progress((done + share) / len(figures))

        if figure is None:
            yield StudyPart(TEXT, tuple(claim for claims in _TEXTS for claim in claims()))
        else:
            yield _write(figure, folder, partly)
        progress((done + 1) / len(figures))


def _write(figure: Figure, folder: Path, progress: Progress) -> StudyPart:
    """Compute one figure, write its CSV file and pictures to `folder`, and return its claims and files.

    A claim is a check of a number of the paper against ours. `progress` is called with the share of the figure that is
    done, from 0 to 1.
    """
    numbers = folder / f"{figure.file}.csv"
    text = figure.compute(progress).text()
    numbers.write_text(text, encoding="utf-8")
    # The table is read back from its text, so that pictures and verdicts use exactly the numbers in the file.
    table = Table.read(text)
    pictures = chart.save(figure.draw, table, folder, figure.file)
    return StudyPart(figure.label, figure.claims(table), (numbers, *pictures))


def write_claims(claims: Sequence[Claim], folder: Path) -> tuple[Path, ...]:
    """Write `claims` with their verdicts as claims.csv and claims.md in `folder`, and return the two paths.

    A claim compares a number of the paper with ours; its verdict is "pass" or "fail".
    """
    table = Table.of_rows([{key: _table_cell(value) for key, value in claim.as_json().items()} for claim in claims])
    files = (folder / "claims.csv", folder / "claims.md")
    files[0].write_text(table.text(), encoding="utf-8")
    files[1].write_text(markdown(claims), encoding="utf-8")
    return files


def _table_cell(value: object) -> float | str:
    """Return a JSON value as a cell of a table: None becomes NaN, a float stays, anything else becomes text."""
    return math.nan if value is None else value if isinstance(value, float) else str(value)
