"""Threads for what must not hold up the event loop: short work with the stores."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Pool:
    """A bounded set of threads of the service's own, so that slow queries never starve short requests."""

    def __init__(self, threads: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Return what the function returns, called in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: function(*args, **kwargs))

    def close(self) -> None:
        """Wait for what runs, and end the threads."""
        self._executor.shutdown(wait=True, cancel_futures=True)
