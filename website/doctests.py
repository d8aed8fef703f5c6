"""Doctests in docstrings, shown as code: Markdown alone would read `>>>` as a quotation of a quotation."""

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"(?:^[ ]*>>> .*\n?)(?:^[ ]*\S.*\n?)*", re.MULTILINE)


class DoctestFences(Extension):
    """Put a fence around every doctest of a docstring."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:  # noqa: ANN401 - the extension's port
        """Rewrite the docstring of one module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(docstring: str) -> str:
    r"""Return the docstring with a fence around each doctest.

    >>> print(fenced("Add.\n\n>>> 1 + 1\n2"))
    Add.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    return _EXAMPLE.sub(lambda match: f"```pycon\n{match[0].rstrip()}\n```\n", docstring).rstrip("\n")
