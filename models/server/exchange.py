"""One call to a server: its time, its room for an answer, and what becomes of its failures."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import openai
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from ..errors import CallTimeoutError, ModelError
from .connection import Connection
from .context_length import read_overflow
from .failures import Asked, broke_off, explain, hide_key, no_completion

_Result = TypeVar("_Result")

LIST_SECONDS = 10.0
"""How long a server may take to list its models."""


@dataclass(slots=True)
class Exchange:
    """A call under way; its coroutines run in the model's own event loop.

    Attributes:
        connection: The server's client and its loop.
        asked: What is asked of whom.
        settings: Settings of the call, as the server knows them.
        max_tokens: How long the answer may be; None for as long as there is room.
        timeout: Seconds that the call may take; None for no limit.
        started: When it began, on the monotonic clock.
    """

    connection: Connection
    asked: Asked
    settings: dict[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    timeout: float | None = None
    started: float = field(default_factory=time.monotonic)

    def submit(self, work: Coroutine[Any, Any, _Result]) -> "Future[_Result]":
        """Start one of its coroutines in the loop that it belongs to."""
        return self.connection.loop.submit(work)

    async def complete(self, generate: Callable[..., Awaitable[ChatResult]]) -> ChatResult:
        """Get the whole answer.

        Args:
            generate: Sends the request, with the settings that it is given.

        Raises:
            ModelError: Whatever goes wrong.
        """
        async with self._explained():
            while True:
                try:
                    return await generate(**self.settings)
                except openai.APIError as error:
                    if not self._asks_for_less(error):
                        raise

    async def stream(
        self,
        generate: Callable[..., AsyncIterator[ChatGenerationChunk]],
        put: Callable[[ChatGenerationChunk], object],
    ) -> None:
        """Hand over the answer, piece by piece.

        Args:
            generate: Sends the request, with the settings that it is given.
            put: Takes a piece; it must not wait.

        Raises:
            ModelError: Whatever goes wrong, also an answer without an end.
        """
        async with self._explained():
            while True:
                try:
                    await self._pass_on(generate(**self.settings), put)
                    return
                except openai.APIError as error:
                    if self.asked.begun or not self._asks_for_less(error):
                        raise

    async def served_models(self) -> list[str]:
        """Names of the models that the server has.

        Raises:
            ModelError: Whatever goes wrong.
        """
        async with self._explained():
            return await self._listed()

    async def _pass_on(
        self,
        chunks: AsyncIterator[ChatGenerationChunk],
        put: Callable[[ChatGenerationChunk], object],
    ) -> None:
        ended = False
        async for chunk in chunks:
            self.asked = replace(self.asked, begun=True)
            ended = ended or bool((chunk.generation_info or {}).get("finish_reason"))
            put(chunk)
        if not self.asked.begun:
            raise no_completion(self.asked, "it holds no answer")
        if not ended:  # a connection that is closed looks like an end
            raise broke_off(self.asked)

    def _asks_for_less(self, error: openai.APIError) -> bool:
        """Whether there was no room for the answer alone; then the settings ask for less."""
        overflow = read_overflow(str(error))
        room = overflow.room(self.max_tokens) if overflow else None
        if room is None:
            return False
        self.max_tokens = self.settings["max_tokens"] = room
        return True

    @asynccontextmanager
    async def _explained(self) -> AsyncIterator[None]:
        """Within its time, and with one sentence for whatever goes wrong."""
        left = None if self.timeout is None else self.started + self.timeout - time.monotonic()
        limit = asyncio.timeout(left)
        try:
            async with limit:
                try:
                    yield
                except ModelError as error:
                    hide_key(error, self.asked.key)
                    raise
                except Exception as error:
                    explained = explain(error, self.asked, await self._names_for(error))
                    if explained is error:
                        raise
                    raise explained from error
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise CallTimeoutError(
                f"The server at {self.asked.address} did not finish its answer within the timeout "
                f"of {self.timeout:g} seconds; raise the timeout or lower max_tokens."
            ) from error

    async def _names_for(self, error: Exception) -> list[str] | None:
        if not isinstance(error, openai.NotFoundError):
            return None
        try:
            return await self._listed()
        except Exception:  # noqa: BLE001  the error that asked for the names says more than one about them
            return None

    async def _listed(self) -> list[str]:
        try:
            page = await self.connection.client.models.list(timeout=LIST_SECONDS)
            return [str(model.id) for model in page.data]
        except (AttributeError, TypeError) as error:  # all that the client says of other answers
            raise no_completion(self.asked, "it lists no models") from error
