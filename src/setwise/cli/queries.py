"""`setwise top-k`, `histogram`, `count`, `sum`: each takes the words of its query and the options all share."""

import inspect
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin

from setwise.analytics.query import SHAPES, Domain, parameters_of
from setwise.cli import options


def command(kind: str, summary: str) -> Callable[..., None]:
    """Return the command that asks for a shape of query: its options are the words of that shape."""
    words = parameters_of(SHAPES[kind])
    asked = [_parameter(word) for word in words.values()]
    shared = [parameter for name, parameter in options.SHARED.items() if name != "discover" or kind == "top-k"]

    def ask(**given: Any) -> None:  # noqa: ANN401 - each of its own type, as declared
        from setwise.cli.run import answer_question

        answer_question(kind, {name: given.pop(name) for name in words}, options.Given(**given))

    ask.__name__, ask.__doc__ = kind, summary
    parameters = [options.SHARED["table"], options.SHARED["user"], *asked, *shared[2:]]
    required = [each for each in parameters if each.default is inspect.Parameter.empty]
    optional = [each for each in parameters if each.default is not inspect.Parameter.empty]
    ask.__signature__ = inspect.Signature([*required, *optional])  # type: ignore[attr-defined]
    return ask


def _parameter(word: inspect.Parameter) -> inspect.Parameter:
    """Return a word of a query as an option of the command line."""
    kind = str if word.annotation in (Domain, Domain | None) else word.annotation
    plain = [each for each in (get_args(kind) if get_origin(kind) is UnionType else (kind,)) if each is not NoneType]
    taken = str if str in plain else plain[0]
    needed = word.default is inspect.Parameter.empty
    return inspect.Parameter(
        word.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=word.default,
        annotation=Annotated[taken if needed else taken | None, options.OPTIONS[word.name]],
    )


top_k = command(
    "top-k",
    "Find the k items that the most users have, with noisy counts, above a noisy threshold if items are private.",
)
histogram = command(
    "histogram", "Count the users of every item; items that are private come out when enough users have them."
)
count = command("count", "Count users, or events with a cap on each user.")
sum_column = command("sum", "Add up an integer column, each user's own sum clipped to between 0 and --clip.")
