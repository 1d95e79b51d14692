"""File access from channels, which LangGraph updates and stores on the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def off_loop(
    function: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
) -> _Result:
    """Call a function, in a thread if an event loop runs in this one.

    A channel cannot await, so the loop waits for it; keep it to the reading or writing of a file.
    LangGraph's server refuses file access on the loop itself.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return function(*args, **kwargs)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args, **kwargs).result()
