"""Passes over reasonings, head by head, each made once and stored in reduced form."""

import asyncio
import hashlib
import json
import time
from typing import Any

from ...configs import ConfigError
from ...models.capabilities import SupportsAttention
from ...models.pairs import Pair
from ...nodes.caller import supports_attention
from ...nodes.model_call import Agent
from ...nodes.sparse_transfer import TransferPrompt, transfer_prompt
from ...nodes.state import Task
from ..evaluation.shared_calls import KeepsCalls
from .measured_pass import MeasuredPass

STYLE = "attention by head"
"""What such a pass is called in a store of calls."""


class MeasuredPasses:
    """Measures what a reader attends to in reasonings; what is stored is not measured again."""

    def __init__(
        self,
        reader: Agent,
        source: SupportsAttention,
        identity: dict[str, Any],
        calls: KeepsCalls,
        *,
        share: float,
        query: int,
    ) -> None:
        """Set up.

        Args:
            reader: Who reads the reasonings; its prompts are those of full transfer.
            source: Who gives the attention: the reader's model, or a selector in its place.
            identity: What `model_identity` says of the source.
            calls: Where passes are stored.
            share: Share of the attention whose tokens are counted head by head.
            query: Position whose attention is read, as in `SparseTransfer`.
        """
        self._reader = reader
        self._source = source
        self._identity = identity
        self._calls = calls
        self._share = share
        self._query = query
        self.made = 0

    async def measure(self, task: Task, reasoning: str) -> tuple[MeasuredPass, bool]:
        """One pass over the prompt that would hand a reasoning over.

        Args:
            task: What is asked.
            reasoning: A finished reasoning.

        Returns:
            What it measured, and whether it was made now.

        Raises:
            ValueError: The reasoning is empty, or the attention is not a number.
            ModelError: The pass failed, or the prompt is too long.
        """
        reasoning = reasoning.strip()
        if not reasoning:
            raise ValueError("the reasoning is empty")
        prompt = await asyncio.to_thread(transfer_prompt, self._reader, task, reasoning)
        key = await asyncio.to_thread(self._key, prompt)
        stored = await self._calls.call(key)
        if stored is not None:
            return MeasuredPass.from_dict(stored[0]), False
        try:
            start = time.perf_counter()
            self.made += 1
            found = await self._source.aattention(
                prompt.messages,
                prompt.span,
                layers="all",
                query=self._query,
                heads=True,
                timeout=prompt.timeout,
            )
            measured = await asyncio.to_thread(MeasuredPass.of, reasoning, found, self._share)
        except BaseException:
            await self._calls.give_up(key)
            raise
        seconds = time.perf_counter() - start
        await self._calls.add_call(key, self._reader.role, STYLE, measured.as_dict(), seconds)
        return measured, True

    def _key(self, prompt: TransferPrompt) -> str:
        """The model, every byte of the prompt with its images, and what is read of it, hashed."""
        messages = [[message.type, message.content] for message in prompt.messages]
        content = [STYLE, self._identity, messages, prompt.span, self._query, self._share]
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def attention_source(pair: Pair) -> tuple[SupportsAttention, str]:
    """Who gives the attention of a pair's large model, and whose identity that is.

    Returns:
        The pair's selector, if it has one, else the large model; and "small", "large" or
        "selector".

    Raises:
        ConfigError: Neither gives attention.
    """
    if pair.selector is not None:
        return pair.selector, "selector" if "selector" in pair.models() else "small"
    own = supports_attention(pair.large)
    if own is None:
        raise ConfigError(
            f"The large model of the pair {pair.name!r} ({type(pair.large).__name__}) gives no "
            "attention: name a copy of it that transformers runs as `selector` in the pair file, "
            "or use a pair whose large model transformers runs."
        )
    return own, "large"
