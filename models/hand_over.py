"""An answer handed over piece by piece: from the thread that makes it to the reader of a stream."""

import asyncio
import queue
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, Self, TypeVar

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.outputs import ChatGenerationChunk

T = TypeVar("T")


class LatePieceError(TimeoutError):
    """The next piece did not come in time."""


def _unlimited() -> None:
    return None


class PieceQueue(Iterator[T], Generic[T]):
    """Pieces that a thread reads, in the order in which any other thread puts them."""

    def __init__(self) -> None:
        self._pieces: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._remaining: Callable[[], float | None] = _unlimited

    def put(self, piece: T) -> None:
        """Hand over a piece."""
        self._pieces.put(piece)

    def until(
        self, done: "Future[Any]", remaining: Callable[[], float | None] = _unlimited
    ) -> Self:
        """The queue itself, to be read until whoever puts the pieces is done.

        Args:
            done: Resolves, in whatever way, once the last piece was put.
            remaining: Seconds that the next piece may take; None for no limit.
        """
        self._remaining = remaining
        done.add_done_callback(lambda _: self._pieces.put(None))
        return self

    def __next__(self) -> T:
        try:
            piece = self._pieces.get(timeout=self._remaining())
        except queue.Empty as error:
            raise LatePieceError from error
        if piece is None:
            raise StopIteration
        return piece


class AsyncPieceQueue(AsyncIterator[T], Generic[T]):
    """Pieces that the running event loop reads, in the order in which any thread puts them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[T | None] = asyncio.Queue()
        self._remaining: Callable[[], float | None] = _unlimited

    def put(self, piece: T) -> None:
        """Hand over a piece."""
        self._put(piece)

    def until(
        self, done: "Future[Any]", remaining: Callable[[], float | None] = _unlimited
    ) -> Self:
        """The queue itself, to be read as a `PieceQueue` is."""
        self._remaining = remaining
        done.add_done_callback(lambda _: self._put(None))
        return self

    async def __anext__(self) -> T:
        try:
            async with asyncio.timeout(self._remaining()):
                piece = await self._pieces.get()
        except TimeoutError as error:
            raise LatePieceError from error
        if piece is None:
            raise StopAsyncIteration
        return piece

    def _put(self, piece: T | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)


def announced(
    chunk: ChatGenerationChunk, run_manager: CallbackManagerForLLMRun | None
) -> ChatGenerationChunk:
    """The chunk, once LangChain's callbacks know of it."""
    if run_manager:
        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
    return chunk


async def aannounced(
    chunk: ChatGenerationChunk, run_manager: AsyncCallbackManagerForLLMRun | None
) -> ChatGenerationChunk:
    """The same for asynchronous callbacks."""
    if run_manager:
        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
    return chunk
