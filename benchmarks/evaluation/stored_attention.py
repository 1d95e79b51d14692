"""Attention whose passes are stored: one pass serves all layers of a sweep, and all later runs."""

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any, Literal

from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import BaseMessage

from ...models.attention import Attention
from ...models.capabilities import SupportsAttention
from .call_seconds import tell_seconds
from .shared_calls import KeepsCalls

Layers = Sequence[int] | Literal["all"] | None

STYLE = "attention"
"""What a pass is called in a store of calls."""


class StoredAttention:
    """Gives attention from a store, and puts there what it was given.

    Passes that run at the same time and are equal are one. Single heads are not stored.
    """

    def __init__(
        self,
        source: SupportsAttention,
        calls: KeepsCalls,
        role: str,
        identity: dict[str, Any],
        layers: Sequence[int] = (),
    ) -> None:
        """Wrap what gives attention.

        Args:
            source: Who is asked for what is not stored.
            calls: Where the passes are.
            role: The role of the model that reads what is selected, noted with its passes; their
                seconds are part of its call.
            identity: What `model_identity` says of the source.
            layers: Layers that will be asked for, one after the other: the first pass reads all.
        """
        self._source = source
        self._calls = calls
        self._role = role
        self._identity = identity
        self._layers = frozenset(layers)
        self._running: dict[str, asyncio.Task[Attention]] = {}
        self._made = 0

    @property
    def made(self) -> int:
        """Passes that the source was asked for, failed ones included."""
        return self._made

    def attention(
        self,
        messages: Sequence[BaseMessage],
        span: tuple[int, int],
        *,
        layers: Layers = None,
        query: int = -1,
        heads: bool = False,
        timeout: float | None = None,
    ) -> Attention:
        """Evaluations run in an event loop: there is `aattention` alone.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("Stored attention is asked for with `aattention`.")

    async def aattention(
        self,
        messages: Sequence[BaseMessage],
        span: tuple[int, int],
        *,
        layers: Layers = None,
        query: int = -1,
        heads: bool = False,
        timeout: float | None = None,
    ) -> Attention:
        """As `SupportsAttention` says; seconds are those of the pass when it was made."""
        if heads:
            return await self._source.aattention(
                messages, span, layers=layers, query=query, heads=True, timeout=timeout
            )
        read = layers if layers is None or layers == "all" else sorted({*layers, *self._layers})
        key = await asyncio.to_thread(self._key, messages, span, read, query)
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._pass(key, messages, span, read, query, timeout))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key))
        # One of those who wait may be cancelled; the pass is for the others too.
        found = await asyncio.shield(task)
        tell_seconds(self._role, "transfer", found.seconds)
        return found if layers is None or layers == "all" else found.of_layers(layers)

    async def _pass(
        self,
        key: str,
        messages: Sequence[BaseMessage],
        span: tuple[int, int],
        layers: Layers,
        query: int,
        timeout: float | None,
    ) -> Attention:
        stored = await self._calls.call(key)
        if stored is not None:
            return Attention.from_dict(stored[0])
        return await self._make(key, messages, span, layers, query, timeout)

    async def _make(
        self,
        key: str,
        messages: Sequence[BaseMessage],
        span: tuple[int, int],
        layers: Layers,
        query: int,
        timeout: float | None,
    ) -> Attention:
        self._made += 1
        start = time.perf_counter()
        try:
            found = await self._source.aattention(
                messages, span, layers=layers, query=query, timeout=timeout
            )
        except ContextOverflowError:
            # No failure yet: the run shortens the reasoning.
            await self._calls.give_up(key)
            raise
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            await self._calls.add_failure(key, self._role, STYLE, reason)
            raise
        seconds = time.perf_counter() - start
        await self._calls.add_call(key, self._role, STYLE, found.as_dict(), seconds)
        return found

    def _key(
        self,
        messages: Sequence[BaseMessage],
        span: tuple[int, int],
        layers: Layers,
        query: int,
    ) -> str:
        """The model, every byte of the prompt with its images, and what is read of it, hashed."""
        prompt = [[message.type, message.content] for message in messages]
        content = [STYLE, self._identity, prompt, span, layers, query]
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()
