"""Errors that carry nothing along: a driver's own error quotes rows, statements and addresses."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from setwise.errors import SetwiseError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def without_driver_error(call: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Drop the driver's error from the chain of errors that the call raises, because it may quote private rows."""

    @wraps(call)
    def called(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        try:
            return call(*arguments, **named)
        except SetwiseError as error:
            failure = error
        # Outside the handler: `from None` would only hide the context, and whoever logs it would find it.
        failure.__cause__ = failure.__context__ = None
        raise failure

    return called
