"""`setwise top-k`, `histogram`, `count`, `sum`, `mean`, `quantile`: the words of each query as options."""

import inspect
from collections.abc import Callable
from types import NoneType
from typing import Annotated, Any, get_args

from setwise.analytics.query import SHAPES, Columns, Contributions, Domain, Number, parameters_of
from setwise.cli import options
from setwise.mechanisms.labels import Cell


def command(kind: str, summary: str) -> Callable[..., None]:
    """Return the command that asks for a shape of query: its options are the words of that shape."""
    words = parameters_of(SHAPES[kind])
    asked = [_parameter(word) for word in words.values()]
    shared = [
        parameter for name, parameter in options.SHARED.items() if name != "discover" or kind in ("top-k", "quantile")
    ]

    def ask(**given: Any) -> None:  # noqa: ANN401 - each of its own type, as declared
        from setwise.cli.ask import answer_question

        answer_question(kind, {name: given.pop(name) for name in words}, options.Given(**given))

    ask.__name__, ask.__doc__ = kind, summary
    parameters = [options.SHARED["table"], options.SHARED["user"], *asked, *shared[2:]]
    required = [each for each in parameters if each.default is inspect.Parameter.empty]
    optional = [each for each in parameters if each.default is not inspect.Parameter.empty]
    ask.__signature__ = inspect.Signature([*required, *optional])  # type: ignore[attr-defined]
    return ask


_TAKEN = {Number: float, Columns: list[str], Domain: str, Cell: str, Contributions: str}
"""How the command line takes the words that Python takes in several forms."""


def _parameter(word: inspect.Parameter) -> inspect.Parameter:
    """Return a word of a query as an option of the command line."""
    needed = word.default is inspect.Parameter.empty
    kind = next((taken for given, taken in _TAKEN.items() if word.annotation in (given, given | None)), None)
    if kind is None:
        (kind,) = (each for each in get_args(word.annotation) or (word.annotation,) if each is not NoneType)
    return inspect.Parameter(
        word.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=word.default,
        annotation=Annotated[kind if needed else kind | None, options.OPTIONS[word.name]],
    )


top_k = command(
    "top-k",
    "Find the k items that the most users have, with noisy counts, above a noisy threshold if items are private.",
)
histogram = command(
    "histogram", "Count the users of every item; items that are private come out when enough users have them."
)
count = command("count", "Count users, or events with a cap on each user.")
sum_column = command("sum", "Add up a column, each user's own sum clipped to 0 .. --clip, or to --low .. --high.")
mean = command("mean", "Average a column over users, each user's own mean clipped to between --low and --high.")
quantile = command(
    "quantile", "Find the value that a share of users are below: the median, unless --at says otherwise."
)
