"""Reads attention from a loaded model: one pass, from messages to `Attention`."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage
from PIL import Image

from .attention import Attention
from .chat_format import chat_turns
from .timed_call import TimedCall, check_timeout, start_in_thread
from .wanted_layers import Layers

if TYPE_CHECKING:
    from .transformers.engine import Engine


@dataclass(frozen=True, slots=True)
class AttentionRequest:
    """What is asked for; see `GivesAttention`."""

    messages: Sequence[BaseMessage]
    span: tuple[int, int]
    layers: Layers
    query: int
    heads: bool
    timeout: float | None


@dataclass(frozen=True, slots=True)
class AttentionReader:
    """Where attention is read, and within which limits.

    Attributes:
        model_name: As the user gave it.
        engine: The loaded model for some wanted layers, and which layers they are.
        load_image: Loads the picture of a content block.
        timeout: Seconds that a pass may take, where the call does not say; None for no limit.
        prefix_cache_bytes: Memory that the keys and values of earlier prompts may take; None for
            the model's default, 0 for no reuse.
    """

    model_name: str
    engine: "Callable[[Layers], tuple[Engine, tuple[int, ...]]]"
    load_image: Callable[[Mapping[str, Any]], Image.Image]
    timeout: float | None
    prefix_cache_bytes: int | None

    def read(self, request: AttentionRequest) -> Attention:
        """Run a pass and wait for it."""
        return self._start(request).wait()

    async def aread(self, request: AttentionRequest) -> Attention:
        """`read` for the event loop. A caller that is cancelled gives up its place."""
        call = await start_in_thread(self._start, request)
        return await call.await_result()

    def _start(self, request: AttentionRequest) -> TimedCall[Attention]:
        """Load the model if need be, prepare the prompt, and set the model to work."""
        timeout = self.timeout if request.timeout is None else request.timeout
        check_timeout(timeout)
        engine, wanted = self.engine(request.layers)
        started = time.monotonic()
        turns, images = chat_turns(request.messages, self.load_image)
        prompt, stretch = engine.encode_stretch(turns, images, request.span)
        future = engine.read_attention(
            prompt,
            stretch,
            wanted,
            query=request.query,
            heads=request.heads,
            prefix_cache_bytes=self.prefix_cache_bytes,
            started=started,
        )
        return TimedCall(future, self.model_name, started, timeout)
