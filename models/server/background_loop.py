"""An event loop in a thread of its own.

Connections belong to the event loop that opened them. A chat model is called from many: one a
thread, one an `asyncio.run`. So a model sends everything from one loop that is always there. It
also gives blocking calls what only a loop can do: end a request in mid-air.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

_Result = TypeVar("_Result")

_END_SECONDS = 5.0


class BackgroundLoop:
    """Runs coroutines in a daemon thread that starts with the first one.

    The thread ends when the object is no longer referred to. A forked child has no such thread: it
    needs an object of its own.
    """

    def __init__(self, close: Callable[[], Awaitable[object]]) -> None:
        """Prepare a loop.

        Args:
            close: Called in the loop at its end; it must not refer to this object.
        """
        self._close = close
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, work: Coroutine[Any, Any, _Result]) -> "Future[_Result]":
        """Start a coroutine; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=_run, args=(self._loop,), name="langgraph-mai-server", daemon=True
                )
                thread.start()
                weakref.finalize(self, _end, self._loop, self._close, os.getpid())
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()


def _end(loop: asyncio.AbstractEventLoop, close: Callable[[], Awaitable[object]], pid: int) -> None:
    if pid != os.getpid():  # a forked child: the loop runs in its parent
        return

    async def end() -> None:
        try:
            await close()
            await loop.shutdown_asyncgens()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            if left:  # generators that the garbage collector found are closed by tasks
                await asyncio.wait(left, timeout=_END_SECONDS)
        finally:
            loop.stop()

    asyncio.run_coroutine_threadsafe(end(), loop)
