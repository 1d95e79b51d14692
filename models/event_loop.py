"""An event loop in a thread of its own, for work that belongs to one loop whoever calls.

Connections and engines belong to the event loop that opened them, and a chat model is called from
many: one per thread, one per `asyncio.run`. A loop that is always there also gives blocking calls
what only a loop can do: end a request in the middle.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

_Result = TypeVar("_Result")

_lock = threading.Lock()


class EventLoopThread:
    """An event loop that runs in a daemon thread until it is closed."""

    def __init__(self, name: str) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, _Result]) -> "Future[_Result]":
        """Start a coroutine; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine and wait for it; an interrupted caller cancels it."""
        future = self.submit(work)
        try:
            return future.result()
        finally:
            future.cancel()

    async def arun(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Return `run` for the caller's own event loop."""
        return await asyncio.wrap_future(self.submit(work))

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def shared_loop() -> EventLoopThread:
    """Return the loop that all clients of servers share, one per process: a fork has no threads."""
    with _lock:
        return _loop_of(os.getpid())


@cache
def _loop_of(process: int) -> EventLoopThread:
    return EventLoopThread(f"servers-{process}")
